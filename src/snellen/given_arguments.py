"""What users give to `evaluate`: models and their options, metrics, extractors and judges as functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isroutine, signature
from pathlib import Path
from typing import Any

from snellen.callers import setting
from snellen.catalogue.loading import entries
from snellen.catalogue.selection import suite_members
from snellen.common.field_values import convert_fields
from snellen.errors import DataError, ModelError, UnknownNameError
from snellen.experiments.default_listeners import default_progress
from snellen.experiments.results import Results
from snellen.keyword_names import with_model_options
from snellen.metrics.declaration import find_metric
from snellen.metrics.measure_parameters import REPLY_NAMES
from snellen.metrics.own import function_name, metric_names
from snellen.models.functions import BATCH_SIZE, IMAGE_NAMES, FunctionModel
from snellen.models.model_strings import as_model_string
from snellen.registry import (
    code_attribute,
    code_name,
    code_target,
    is_code,
    load_hook,
    register,
    targets,
)
from snellen.runs.run_progress import ProgressListener, ignore_progress
from snellen.runs.separated_names import separated_models
from snellen.runs.spec import ExecutionSpec


def chosen_metrics(metrics: Any) -> tuple[str, ...]:
    """Return the names of metrics that were asked for, as `metric_names` does, without those that are always reported."""
    names = metric_names(metrics)
    return tuple(name for name in names if not find_metric(name).is_always_reported)


def extractor_name(extractor: Any) -> str:
    """Return the name of an extractor, the rule that finds the chosen option in a reply. A function is registered
    first.

    A function is registered under its own name, and a lambda as `own_extractor`.

    Args:
        extractor: A name, or a function of (reply, options, labels) that returns the index of an option or None. A
            function of the reply alone returns the part of it that is to be read, such as the last line.

    Raises:
        DataError: It is neither a text nor a function, or the function has the name of another extractor.
    """
    if isinstance(extractor, str):
        return extractor
    if not callable(extractor):
        raise DataError(
            f"extractor: expected a name, or a function of the reply or of (reply, options, labels), got "
            f"{extractor!r:.60}"
        )
    name = function_name(extractor) or "own_extractor"
    registered = targets("extractors").get(name)
    if isinstance(registered, str):
        raise DataError(f"another extractor is called {name}; choose another name")
    register("extractors", name, extractor)
    return name


def separate_judges(judge: Any) -> tuple[list[Callable[..., Any]], Any]:
    """Separate judges that are functions of (question, reply, reference), which return a score, from judges that are
    models.

    A function of a question and its images is a model, which reads replies as any other judge model does. A
    function may also be given as the text `my_judge.py:NAME`.

    Args:
        judge: One judge or a list of judges.

    Returns:
        The functions and no models, or an empty list and `judge` unchanged if all of them are models.

    Raises:
        DataError: Functions and models are mixed, or the parameters of a function are those of neither.
        UnknownNameError: The file of a function does not exist.
        HookError: The file cannot be imported, or has no such function.
    """
    given = list(judge) if isinstance(judge, (list, tuple)) else [judge]
    judges = [_judge_in_file(each) for each in given]
    functions = [each for each in judges if _judges_replies(each)]
    for each in judges:
        _check_judge(each)
    if not functions:
        return [], judge
    if len(functions) < len(judges):
        raise DataError(
            "functions of (question, reply, reference) and models are different judges; give the functions with "
            f"{setting('metrics')} and the models with {setting('judge')}"
        )
    return functions, ()


def _judge_in_file(judge: Any) -> Any:
    """Return the function that a text such as `my_judge.py:NAME` names if it is a function of replies.

    Anything else, such as a model string, is returned unchanged.
    """
    if not isinstance(judge, str) or not is_code(code_name(judge)):
        return judge
    named = load_hook(f"the judge {judge!r}", code_target(code_name(judge)))
    _check_judge(named)
    return named if _judges_replies(named) else judge


def _check_judge(judge: Any) -> None:
    """Raise DataError for a function whose parameters are neither those of a judge nor those of a model."""
    is_function = isroutine(judge) or isinstance(judge, partial)
    if not is_function or _judges_replies(judge):
        return
    try:
        parameters = signature(judge)
    except (TypeError, ValueError):  # written in C
        return
    if IMAGE_NAMES.isdisjoint(parameters.parameters):
        name = function_name(judge) or "the judge"
        raise DataError(
            f"{name}{parameters} cannot judge: a judge is a function of (question, reply, reference) or of (reply, "
            "reference), with parameters of these names; a function of (question, images) is a model that judges"
        )


def _judges_replies(judge: Any) -> bool:
    """Return whether a judge is a function of a question, a reply and possibly a reference, and not a model.

    That is decided by the names and the number of its parameters. A class, or an object with `generate`, is a
    model.
    """
    if not callable(judge) or isinstance(judge, type) or hasattr(judge, "generate"):
        return False
    try:
        names = list(signature(judge).parameters)
    except (TypeError, ValueError):  # written in C
        return False
    if not IMAGE_NAMES.isdisjoint(names):
        return False
    return len(names) == 3 or (len(names) == 2 and not REPLY_NAMES.isdisjoint(names))


def given_models(models: Any, settings: dict[str, Any]) -> list[Any]:
    """Return the models that `evaluate` was given as a list, each with the options that belong to it.

    These options are removed from `settings`, so that the caller does not take them for settings of the run.

    Args:
        models: A model, a list of models, or a dict of functions by name.
        settings: The keywords of `evaluate`. `model_options` has options for model strings; `batch_size` is allowed
            for functions, too. If all models are functions, `workers` is the number of threads that call each of
            them.

    Raises:
        ModelError: A model is the name of a benchmark.
        UnknownNameError: An option does not apply to an object.
        DataError: The list is empty, or a number is out of bounds.
    """
    options = settings.pop("model_options", {})
    if isinstance(models, Mapping) and "model" not in models:
        given = _named_models(models)
    else:
        given = list(models) if isinstance(models, (list, tuple)) else [models]
        given = separated_models(given)
    if not given:
        raise DataError("evaluate needs a model as its first argument, and this list is empty")
    threads = 1
    if "workers" in settings and all(_is_function(each) for each in given):
        workers = {"workers": settings.pop("workers")}
        threads = convert_fields(workers, ExecutionSpec).workers
    return [_with_settings(given_model(each), options, threads) for each in given]


def _named_models(models: Mapping[Any, Any]) -> list[Any]:
    """Return the functions of a dict `{name: function}`, each with its name, which results show as the model.

    Raises DataError if a model in the dict is not a function.
    """
    functions = []
    for name, model in models.items():
        if not _is_function(model):
            raise DataError(
                f"models by name are functions, and {name!r} is {model!r:.60}; give a list of models, and name one with "
                "sn.hf(model, processor, name=...) or label=..."
            )
        named: Any = partial(model)
        named.__name__ = str(name)
        functions.append(named)
    return functions


def _is_function(model: Any) -> bool:
    """Return whether a model is a plain function (or a `partial` of one), and not an object with `generate`."""
    is_plain = isroutine(model) or isinstance(model, partial)
    return is_plain and not hasattr(model, "generate")


def _with_settings(model: Any, options: Mapping[str, Any], threads: int) -> Any:
    """Return a model with the options that were given as keywords of `evaluate`.

    A model string gets them as a part of the string. A function takes only `batch_size` and a number of threads;
    if one of them differs from its default, the function is wrapped in a `FunctionModel`.

    Raises:
        UnknownNameError: An option does not apply to the model.
        DataError: `batch_size` is not a positive whole number.
    """
    if not _is_function(model):
        return with_model_options(model, options)
    unsuitable = [name for name in options if name != "batch_size"]
    if unsuitable:
        raise UnknownNameError(
            f"{', '.join(unsuitable)}: options of model strings do not apply to a function; set them in the function itself"
        )
    batch_size = options.get("batch_size", BATCH_SIZE)
    if threads == 1 and batch_size == BATCH_SIZE:
        return model
    if not isinstance(batch_size, int) or batch_size < 1:
        raise DataError("batch_size: expected a whole number >= 1")
    return FunctionModel(model, threads=threads, batch_size=batch_size)


def given_progress(progress: Any) -> ProgressListener:
    """Return the function that is called whenever replies arrive.

    Args:
        progress: A function, True to show the progress, or False to show nothing. None stands for the default,
            which shows the progress only where a person can see it, such as in a terminal.

    Raises:
        DataError: It is something else.
    """
    if progress is None:
        return default_progress()
    if progress is False:
        return ignore_progress
    if progress is True:
        from snellen.report.progress_text import shown_progress  # loads templates

        return shown_progress()
    if not callable(progress):
        raise DataError(f"progress: expected True, False or a function, got {progress!r:.60}")
    listener: ProgressListener = progress
    return listener


def given_model(model: Any) -> Any:
    """Return a model in the form that `evaluate` takes. A path becomes the model string of a folder for transformers.

    Raises:
        ModelError: The model is the name of a benchmark, so the arguments are probably swapped.
    """
    if isinstance(model, Path):
        return f"hf:{model}"
    if isinstance(model, str) and (model in entries() or model in suite_members()):
        raise ModelError(
            f"{model} is a benchmark; the model comes first: evaluate(model, benchmarks)"
        )
    return as_model_string(model)


def warn_of_unused(metrics: Sequence[str], results: Results) -> None:
    """Warn about requested metrics that have no number, for example because all questions are multiple choice."""
    if not metrics:
        return
    computed = {row.metric for row in results.rows}
    for name in metrics:
        if not computed.isdisjoint(find_metric(name).names):
            continue
        attribute = code_attribute(name)
        way_out = ""
        is_function = not isinstance(targets("metrics").get(name), str)
        if is_function:
            way_out = f"; judge={attribute} also calls it with the texts of the chosen option and of the right one"
        warnings.warn(
            f"the metric {attribute} has no number: it compares texts of open questions, and no benchmark here "
            f"has any that it applies to{way_out}",
            stacklevel=3,
        )
