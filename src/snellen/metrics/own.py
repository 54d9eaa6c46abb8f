"""Metrics that a user declares in a script or notebook."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from msgspec.structs import replace

from snellen import registry
from snellen.common.attribute_hints import answering_keywords
from snellen.errors import DataError
from snellen.metrics.declaration import JUDGE_PREFIX, Metric, ReplyMetric, function_metric
from snellen.metrics.measure_parameters import measure_parameters
from snellen.metrics.open_questions import reply_values, score_open_questions
from snellen.metrics.questions import AskedQuestion
from snellen.metrics.scoring_context import MetricScores, ScoringContext

LIBRARIES_OF_LISTS = ("sklearn", "torchmetrics", "torch", "nltk")
"""Libraries whose metrics take all predictions at once."""
MeasureT = TypeVar("MeasureT", bound=Callable[..., float])


@overload
def metric(function: MeasureT) -> MeasureT: ...


@overload
def metric(
    *,
    name: str = "",
    title: str = "",
    unit: str = "share",
    better: Literal["higher", "lower"] = "higher",
) -> Callable[[MeasureT], MeasureT]: ...


@answering_keywords(
    "unit='share' is for values from 0 to 1, any other unit has no bounds; better='lower' is for errors"
)
def metric(
    function: Any = None,
    *,
    name: str = "",
    title: str = "",
    unit: str = "share",
    better: Literal["higher", "lower"] = "higher",
) -> Any:
    """Make a function a metric for open questions, which `evaluate` and `score` take by name or as it is.

    The function is `f(reply, references) -> float`, with all ground truths of a question as a tuple of texts, or
    `f(reply, reference) -> float`, which is called with each ground truth, and the best value counts. The name of the
    second parameter decides: `references`, `targets`, `answers` or any plural, against `reference`, `target`,
    `answer`, `gold` or `label`. A function of three parameters gets the question as well:
    `f(question, reply, reference)`. The value of a benchmark is its mean over the questions.

    Args:
        function: The function.
        name: Name of the metric. By default the name of the function.
        title: Title in tables. By default the name with blanks for underscores.
        unit: `share` for values in [0, 1], which are shown in percent, or any other unit.
        better: Which values are better.

    Raises:
        DataError: Another metric has this name, or the name of the second parameter says neither.

    Examples:
        >>> @sn.metric(title="same first word")
        ... def first_word(reply, references):
        ...     return float(reply.split()[:1] == references[0].split()[:1])
        >>> results = sn.evaluate(lambda question, images: "red", "eyechart/word", limit=4, metrics=first_word)
        >>> results.value("first_word")
        0.0
    """

    def declare(measure: Any) -> Any:
        """Register a function as a metric, and return the function unchanged."""
        if isinstance(measure, str):
            raise DataError(
                f"{measure!r} is no function; the name that tables show is the title: @sn.metric(title={measure!r})"
            )
        own_name = name or function_name(measure)
        library = (getattr(measure, "__module__", None) or "").partition(".")[0]
        if library in LIBRARIES_OF_LISTS:
            raise DataError(
                f"{own_name} of {library} compares lists of labels, and a metric here one reply: give "
                "lambda reply, reference: float(reply == reference), or score results.samples() with it"
            )
        if not own_name:
            raise DataError(
                "a metric needs a name: use def, sn.metric(name=...), or evaluate(metrics={NAME: function})"
            )
        if not own_name.isidentifier():
            raise DataError(f"{own_name!r} is not a name of a metric; use letters, digits and _")
        declared = function_metric(measure, own_name, title=title, unit=unit, better=better)
        _register(own_name, declared)
        _DECLARED_OPTIONS[id(measure)] = {"title": title, "unit": unit, "better": better}
        return measure

    return declare if function is None else declare(function)


_DECLARED_OPTIONS: dict[int, dict[str, Any]] = {}
"""Title, unit and direction that `metric` was given for a function, by the function's id: they also hold where the
function is a judge. The registry keeps each of these functions, so no id is used again."""


class JudgingFunction(ReplyMetric, frozen=True, kw_only=True):
    """A function of the user in place of a judge model. It marks all replies, also to questions with options.

    For a question with options, the function gets the text of the option that was read in the reply, or the reply
    itself if no option was read.
    """

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score all questions that were asked for a text; a reply that will never be received has the worst value."""
        counted = [
            _with_texts(_without_selected_presentations(question))
            for question in questions
            if question.protocol.method == "generation"
        ]
        headline = self.names[0]
        scores = score_open_questions(
            counted, self.rows, lambda measurable: {headline: reply_values(measurable, self)}
        )
        return MetricScores(scores)


def _without_selected_presentations(question: AskedQuestion) -> AskedQuestion:
    """Return a question with the presentations that were asked whatever the replies were, missing ones as wrong.

    A circular protocol that stops early asks a later presentation only if the earlier replies named the same option. The
    mean over all presentations would then be over a selection of them.
    """
    declaration = question.declaration
    if not declaration.stops_early:
        return question.missing_as_wrong
    completed = question.missing_unbiased_as_wrong
    predictions = tuple(
        prediction
        for prediction in completed.predictions
        if declaration.is_unbiased(prediction.variant)
    )
    return replace(completed, predictions=predictions)


def _with_texts(question: AskedQuestion) -> AskedQuestion:
    """Return a question whose predictions have a text, also if they are choices."""
    options = question.turn.options
    predictions = []
    for prediction in question.predictions:
        if prediction.choice is not None:
            prediction = replace(prediction, text=options[prediction.choice])
        elif prediction.text is None:
            prediction = replace(prediction, text=prediction.unparsed_text or "")
        predictions.append(prediction)
    return replace(question, predictions=tuple(predictions))


def function_name(function: Any) -> str:
    """Return the name that `def` gave a function, or "" for a lambda and for an object that is called."""
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else ""


def metric_names(metrics: Any) -> tuple[str, ...]:
    """Return the names of metrics. Functions, declared metrics and code are registered.

    A function is named as on the command line (`my_module.py:NAME`, `package.module:NAME`), so that a later process
    knows that it is code. A lambda is called `own_metric`, further ones `own_metric_2` ...

    Args:
        metrics: A name, a function, a declared metric, several of these, or functions by name.
    """
    if isinstance(metrics, Mapping):
        return tuple(_named_function(name, given) for name, given in metrics.items())
    if isinstance(metrics, (str, Metric)) or not isinstance(metrics, Iterable):
        metrics = [metrics]
    names: list[str] = []
    unnamed = 0
    for given in metrics:
        if _is_nameless(given):
            unnamed += 1
            number = f"_{unnamed}" if unnamed > 1 else ""
            names.append(_named_function(f"own_metric{number}", given))
        else:
            names.append(_name_of(given))
    return tuple(names)


def judge_names(judges: Sequence[Callable[..., Any]]) -> tuple[str, ...]:
    """Register functions that judge replies as metrics, and return the names of the metrics, such as `judge:mine.py:NAME`.

    The prefix distinguishes it from the same function as a metric, which has no value for questions with options. A
    lambda is called `judge`; if it is not the first function, `judge_2` and so on.

    Raises:
        DataError: It is unclear from a function's parameter names which one is the reply, or a metric has its name.
    """
    names: list[str] = []
    for number, function in enumerate(judges, start=1):
        name = function_name(function)
        if not name:
            name = "judge" if number == 1 else f"judge_{number}"
        _check_judge_parameters(function, name)
        declared = _DECLARED_OPTIONS.get(id(function), {})
        _register(name, function_metric(function, name, metric_class=JudgingFunction, **declared))
        names.append(f"{JUDGE_PREFIX}{_code_name(function, name)}")
    return tuple(names)


def _check_judge_parameters(function: Callable[..., Any], name: str) -> None:
    """Raise DataError if the parameter names of a judge do not say which one is the reply and which the reference."""
    try:
        measure_parameters(function, name)
    except DataError:
        given = ", ".join(inspect.signature(function).parameters)
        raise DataError(
            f"{name}({given}): a judge is `def {name}(question, reply, reference)`; name its parameters like that"
        ) from None


def _is_nameless(metric: Any) -> bool:
    """Return whether a metric is a function without a name that other processes can find, such as a lambda."""
    is_declared = isinstance(metric, (str, Metric))
    return callable(metric) and not is_declared and not function_name(metric)


def _named_function(name: str, function: Any) -> str:
    """Register a function as a metric under a name, and return how it is written on the command line."""
    if not callable(function):
        raise DataError(
            f"metrics: {name!r} stands for {function!r:.60}; give functions by name, {{NAME: function}}, or a list "
            "of names"
        )
    metric(name=name)(function)
    return _code_name(function, name)


def _name_of(given: Any) -> str:
    """Return the name of a metric that was given as a name, a metric or a function, and register it if necessary."""
    if isinstance(given, str):
        name = registry.code_name(given)
        registry.register_code("metrics", name)
        return name
    if isinstance(given, Metric):
        _register(given.names[0], given)
        return given.names[0]
    if not callable(given):
        raise DataError(
            f"{given!r:.60} is not a metric; give a name or a function(reply, references)"
        )
    function = inspect.unwrap(given)
    for name, registered in registry.own_targets("metrics").items():
        if not isinstance(registered, ReplyMetric):
            continue
        if inspect.unwrap(registered.measure) is function:
            return _code_name(given, name)
    metric(given)
    return _code_name(given, given.__name__)


def _code_name(function: Any, name: str) -> str:
    """Return the name that `--metric` takes for a function, such as `mine.py:NAME` or `package.module:NAME`."""
    module = getattr(function, "__module__", None) or "__main__"
    is_module_of_file = module.startswith(registry.FILE_MODULE)
    if is_module_of_file:
        file = Path(module.removeprefix(registry.FILE_MODULE))
        if file.is_relative_to(Path.cwd()):
            file = file.relative_to(Path.cwd())
        return f"{file}:{name}"
    is_in_package = "." in module
    return f"{module}:{name}" if is_in_package else f"{module}.py:{name}"


def _register(name: str, declared: Metric) -> None:
    """Register a user's metric. It replaces an earlier one of the same name from the user's own code.

    This happens when a notebook cell is run again. Raises DataError if a metric that is not the user's has the name.
    """
    registered = registry.targets("metrics").get(name)
    is_own = name in registry.own_targets("metrics") and registry.names_code(str(registered))
    if isinstance(registered, str) and not is_own and not _is_declared_as(declared, registered):
        raise DataError(f"another metric is called {name}; choose another name")
    registry.register("metrics", name, declared)


def _is_declared_as(declared: Metric, target: str) -> bool:
    """Return whether a metric is the same function that an installed package registers, given as `module:attribute`."""
    function = inspect.unwrap(declared.measure) if isinstance(declared, ReplyMetric) else declared
    module = getattr(function, "__module__", "")
    return f"{module}:{getattr(function, '__name__', '')}" == target
