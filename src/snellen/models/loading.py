"""Load the model that a model string names, or adapt an object of the user."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from snellen import registry
from snellen.common.images import Images
from snellen.errors import HookError, ModelError, SnellenError, UnknownNameError
from snellen.models.base import ALL_KINDS, AsyncModel, Model, ShownByName, answers_by_sample
from snellen.models.functions import FunctionModel, describe_questions
from snellen.models.loaded_model import ModelInHand
from snellen.models.model_strings import ModelSpec, parse_spec
from snellen.records import ContinuationScore, Request, RequestKind, Response

DEFAULT_BATCH_SIZE = 16


def load_model(model: str | Any) -> Model | AsyncModel:
    """Load the model that a string names, or adapt an object that has a model's methods.

    Args:
        model: A model string, or an object with `generate(requests, images)`.

    Raises:
        UnknownNameError: The scheme does not exist.
        HookError: Code of others cannot be imported, or fails.
        ModelError: The model cannot be loaded.

    Examples:
        >>> load_model("snellen:tiny").kinds == ALL_KINDS
        True
    """
    if not isinstance(model, str):
        return _adapt(model)
    spec = parse_spec(model)
    return _adapt(_open(find_opener(spec), spec), spec.text)


# --- finding the code ------------------------------------------------------------------------------------------------


def names_model(text: str) -> bool:
    """Return whether text is a model string, by what precedes its colon."""
    scheme, colon, _ = text.partition(":")
    if not colon:
        return False
    return scheme in registry.names("models") or bool(_code_of(scheme))


def check_opener(spec: ModelSpec) -> None:
    """Raise UnknownNameError if nothing opens the model of a string. Unlike `find_opener`, this runs no foreign code."""
    if spec.scheme in registry.targets("models") or _code_of(spec.scheme):
        return
    if spec.scheme.endswith(".py") and not Path(spec.scheme).is_file():
        raise UnknownNameError(
            f"model {spec.text!r}: there is no file {spec.scheme}; check the path"
        )
    error = registry.unknown_name("model", spec.scheme, registry.names("models"))
    if spec.target.isidentifier():
        hint = "; for your own class, write my_model.py:MyModel or my_package.my_module:MyModel"
        raise UnknownNameError(f"{error}{hint}")
    raise error


def find_opener(spec: ModelSpec) -> Any:
    """Return what opens the model of a string.

    This is the opener of its scheme, or the class, function or object that `my_model.py:NAME` or
    `my_package.my_module:NAME` names, which is imported now.

    Raises:
        UnknownNameError: There is no such scheme, file or module.
        HookError: The code cannot be imported.
    """
    check_opener(spec)
    code = _code_of(spec.scheme)
    if not code:
        return registry.find_registered("models", spec.scheme)
    return registry.load_hook(f"the model {spec.text}", f"{code}:{spec.target}")


def _code_of(scheme: str) -> str:
    """Return the file or module that a user's scheme names, or an empty string if it names neither."""
    if scheme in registry.targets("models"):
        return ""
    names = scheme.split(".")
    if not Path(*names).name:  # full stops and slashes alone
        return ""
    for file in (Path(scheme), Path(*names).with_suffix(".py")):
        if file.suffix == ".py" and file.is_file():
            return str(file.resolve())
    is_dotted = len(names) > 1 and all(name.isidentifier() for name in names)
    if is_dotted and _module_exists(names):
        return scheme
    return ""


def _module_exists(names: Sequence[str]) -> bool:
    """Return whether a module can be imported. `importlib.util.find_spec` alone would run the packages around it."""
    if ".".join(names) in sys.modules:
        return True
    try:
        module_spec = importlib.util.find_spec(names[0])
    except ValueError:  # the running program: `__main__` has no spec
        return False
    for end in range(2, len(names) + 1):
        if module_spec is None or module_spec.submodule_search_locations is None:
            return False
        module_spec = PathFinder.find_spec(
            ".".join(names[:end]), module_spec.submodule_search_locations
        )
    return module_spec is not None


# --- opening ---------------------------------------------------------------------------------------------------------


def _open(opener: Any, spec: ModelSpec) -> Any:
    """Return the model of an opener: the opener itself if it is an object, or else what it makes of a spec.

    A class or function of the user need not take a spec.
    """
    if callable(getattr(opener, "generate", None)) and not isinstance(opener, type):
        return opener
    if spec.scheme in registry.own_targets("models"):
        return opener(spec)

    takes_nothing = _accepts(opener)
    takes_spec = _accepts(opener, spec)
    is_question_function = inspect.isfunction(opener) and _accepts(opener, "question", [])
    if is_question_function and not takes_nothing and not takes_spec:
        return opener
    if callable(opener) and not takes_nothing and not takes_spec:
        raise ModelError(
            f"{spec.text} takes {inspect.signature(opener)}, but is called with nothing or with the model string; "
            "name a function f(question, images), a class with generate(requests, images), or a function that returns "
            "an object of one"
        )
    # A class is preferably called with nothing, and a function with the spec.
    without_spec = takes_nothing if isinstance(opener, type) else not takes_spec
    try:
        return opener() if without_spec else opener(spec)
    except SnellenError:
        raise
    except Exception as error:
        raise HookError(f"the model {spec.text} cannot be opened", error) from error


def _accepts(opener: Any, *arguments: Any) -> bool:
    """Return whether an object can be called with these arguments."""
    try:
        inspect.signature(opener).bind(*arguments)
    except TypeError:
        return False
    return True


# --- adapting --------------------------------------------------------------------------------------------------------


def _adapt(model: Any, name: str = "") -> Model | AsyncModel:
    """Return an object as a model: a model as it is, a pipeline or function adapted. Raises ModelError if it cannot be used."""
    if isinstance(model, ModelInHand):
        return model.model
    if isinstance(model, type):
        model = _object_of(model)
    if isinstance(model, (Model, AsyncModel)):
        return model
    transformers = sys.modules.get("transformers")
    if transformers is not None:
        if isinstance(model, transformers.Pipeline):
            return _model_of_pipeline(model)
        if isinstance(model, transformers.PreTrainedModel) or hasattr(model, "peft_config"):
            kind = type(model).__name__
            raise ModelError(
                f"{kind} needs its processor: evaluate sn.hf(model, processor) instead of the model alone"
            )
    if callable(model) and not hasattr(model, "generate"):
        model = FunctionModel(model, name)
    if isinstance(model, FunctionModel):
        return FunctionAdapter(model, name)
    return ModelAdapter(model, name)


def _object_of(kind: type) -> Any:
    """Return an object of a user's class, if it can be made without arguments."""
    if not _accepts(kind):
        raise ModelError(
            f"{kind.__name__} is a class that takes arguments; give an object of it: {kind.__name__}(...)"
        )
    return kind()


def _model_of_pipeline(pipeline: Any) -> Model:
    """Return the model of a transformers pipeline, with the processor that the pipeline has."""
    from snellen.models.hf.in_memory import hf

    processor = getattr(pipeline, "processor", None) or pipeline.tokenizer
    return hf(pipeline.model, processor)


class ModelAdapter(ShownByName):
    """A model made of an object with `generate(requests, images)` and optionally `loglikelihood`.

    `generate` may return strings and `loglikelihood` lists of numbers instead of Response records. The adapter uses
    `name`, `batch_size`, `fingerprint` and `answers_by_sample` of the object if it has them.

    Args:
        model: The object.
        name: The model string that named it, if any.

    Raises:
        ModelError: The object has no method `generate`.
    """

    def __init__(self, model: Any, name: str = "") -> None:
        if not callable(getattr(model, "generate", None)):
            raise ModelError(
                f"{type(model).__name__} is not a model: it needs generate(requests, images) returning one text "
                "per request, and may have loglikelihood(requests, images) returning one number per continuation; "
                "a function f(question, images) works as well"
            )
        self._model = model
        self.name = name or str(getattr(model, "name", type(model).__name__))
        self.batch_size = int(getattr(model, "batch_size", DEFAULT_BATCH_SIZE))
        self.answers_by_sample = answers_by_sample(model)
        self.kinds: frozenset[RequestKind] = frozenset({"generate"})
        if callable(getattr(model, "loglikelihood", None)):
            self.kinds = ALL_KINDS

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint that the object declares, or a digest of its content and code."""
        from snellen.models.object_digest import object_fingerprint

        return object_fingerprint(self._model)

    @contextmanager
    def _naming_failures(self, requests: Sequence[Request]) -> Iterator[None]:
        """Raise HookError for any error of the object, which names the questions that it was asked."""
        try:
            yield
        except SnellenError:
            raise
        except Exception as error:
            asked = describe_questions(request.sample_id for request in requests)
            raise HookError(f"the model {self.name} failed on {asked}", error) from error

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Return the object's replies as responses."""
        with self._naming_failures(requests):
            replies = self._model.generate(requests, images)
        if isinstance(replies, str) or not isinstance(replies, Iterable):
            raise ModelError(
                f"{self.name}: generate returned {replies!r}, not a list with a text for each request; a "
                "function f(question, images) answers one question at a time"
            )
        return [Response(text=reply) if isinstance(reply, str) else reply for reply in replies]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Return the object's log-likelihoods as responses."""
        with self._naming_failures(requests):
            replies = self._model.loglikelihood(requests, images)
        responses = []
        try:
            for reply, request in zip(replies, requests, strict=True):
                if not isinstance(reply, Response):
                    reply = Response(scores=_continuation_scores(reply, request))
                responses.append(reply)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"{self.name}: loglikelihood returned {replies!r:.100}, not a list with a number for each continuation "
                "of each request"
            ) from error
        return responses


class FunctionAdapter(ModelAdapter):
    """A model made of a function of a question and its images, whose replies are stored one by one."""

    _model: FunctionModel

    def generate_in_parts(
        self, requests: Sequence[Request], images: Images
    ) -> Iterator[dict[int, Response]]:
        """Yield the responses of each call of the function by the index of their request."""
        return self._model.generate_in_parts(requests, images)


def _continuation_scores(
    values: Iterable[float], request: Request
) -> tuple[ContinuationScore, ...]:
    """Return the log-likelihoods that a model gave to the options of a request, with the length of each in bytes."""
    scores = []
    for value, option in zip(values, request.continuations, strict=True):
        n_bytes = len(option.encode())
        scores.append(ContinuationScore(float(value), 0, n_bytes))
    return tuple(scores)
