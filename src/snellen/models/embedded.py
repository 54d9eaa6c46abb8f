"""The models that ship with Snellen: `snellen:tiny`, `snellen:tiny-xs`, and instruments of known behaviour, for which
the right result of a benchmark and protocol is known too.

The oracle is another instrument; it reads answers, so it lives with scoring (`snellen.scoring.oracle`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.common.foreign import read_file
from snellen.common.images import Images
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.models.base import ALL_KINDS, AsyncModel, Model, ShownByName
from snellen.models.model_strings import ModelSpec
from snellen.models.options import read_options
from snellen.records import ContinuationScore, Request, RequestKind, Response

if TYPE_CHECKING:
    from snellen.models.hf.load import HfOptions, LoadedModel

Chooser = Callable[[Request, int], int]
"""(request, number of options shown) -> the position to name."""

_WORDS = ("a", "the", "picture", "of", "red", "blue", "dog", "round", "two", "left")


class Instrument(ShownByName):
    """A model that chooses by rule: it names the label of a position, and scores that position as most likely."""

    kinds: frozenset[RequestKind] = ALL_KINDS
    batch_size = 1024

    def __init__(self, name: str, choose: Chooser) -> None:
        self.name = name
        self._choose = choose

    def fingerprint(self) -> dict[str, str]:
        return {"instrument": self.name, "version": "1"}

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [Response(text=self._reply(request), finish="stop") for request in requests]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [
            scores_favouring(request, self._choose(request, len(request.continuations)))
            for request in requests
        ]

    def _reply(self, request: Request) -> str:
        labels = request.variant.labels
        if not labels:
            return " ".join(rng_for(self.name, request.key).choices(_WORDS, k=3))
        return f"({labels[self._choose(request, len(labels))]})"


def scores_favouring(request: Request, best: int) -> Response:
    """Return log-likelihoods under which a continuation is the most likely by any rule.

    Args:
        request: The request.
        best: Index of the continuation. Each of its bytes has a probability of 0.9, those of others 0.01.
    """
    scores = []
    for index, text in enumerate(request.continuations):
        size = len(text.encode()) or 1
        log_probability_of_byte = math.log(0.9) if index == best else math.log(0.01)
        scores.append(
            ContinuationScore(sum=log_probability_of_byte * size, tokens=size, bytes=size)
        )
    return Response(scores=tuple(scores))


class RandomInstrumentSettings(Struct, frozen=True):
    """Options of the random instruments; another `seed` gives other draws."""

    seed: int = 0


class BiasOptions(Struct, frozen=True):
    p: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    seed: int = 0


class NoOptions(Struct, frozen=True):
    """No options."""


def uniform(spec: ModelSpec) -> Instrument:
    """Guesses: each option equally likely, decided by the request alone. Must land on chance."""
    read_options(spec, RandomInstrumentSettings)
    return Instrument(
        spec.text, lambda request, count: rng_for(spec.text, request.key).randrange(count)
    )


def always_first(spec: ModelSpec) -> Instrument:
    """Always names the first label. CircularEval must score it zero."""
    read_options(spec, NoOptions)
    return Instrument(spec.text, lambda request, count: 0)


def biased(spec: ModelSpec) -> Instrument:
    """Return a model with a known position bias: it chooses the first option with probability `p`, else any at random.

    `p` is 0.5 if the model string does not give it.
    """
    p = read_options(spec, BiasOptions).p

    def choose(request: Request, count: int) -> int:
        rng = rng_for(spec.text, request.key)
        chooses_first = rng.random() < p
        return 0 if chooses_first else rng.randrange(count)

    return Instrument(spec.text, choose)


class Scripted(ShownByName):
    """Model that replies from a dict by sample id, or by a rule.

    Args:
        replies: Replies by sample id, or a function from a request to a text or a `Response`.
        scores: A function from a request to log-likelihoods, one per continuation.
        name: Name of the model.
        fingerprint: Identity of the replies or rules. By default a digest of them.
        answers_by_sample: Whether a rule looks at `request.sample_id`.

    Examples:
        >>> model = sn.Scripted(lambda request: "I cannot see it.", fingerprint="blind")
        >>> sn.evaluate(model, "eyechart/shape", limit=4).value()
        0.0
    """

    kinds: frozenset[RequestKind] = ALL_KINDS
    batch_size = 64

    def __init__(
        self,
        replies: dict[str, str] | Callable[[Request], str | Response],
        scores: Callable[[Request], Sequence[float]] | None = None,
        name: str = "snellen:scripted",
        *,
        fingerprint: str = "",
        answers_by_sample: bool = False,
    ) -> None:
        self.name, self._fingerprint = name, fingerprint
        self.answers_by_sample = answers_by_sample or isinstance(replies, dict)
        self._replies, self._scores = replies, scores
        if scores is None:
            self.kinds = frozenset({"generate"})

    def fingerprint(self) -> dict[str, str]:
        facts = {"instrument": self.name}
        if self._fingerprint:
            return {**facts, "declared": self._fingerprint}
        from snellen.models.object_digest import digested_facts

        return digested_facts({"replies": self._replies, "scores": self._scores}, facts)

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [self._respond(request) for request in requests]

    def _respond(self, request: Request) -> Response:
        if isinstance(self._replies, dict):
            return Response(text=self._replies.get(request.sample_id, ""), finish="stop")
        reply = self._replies(request)
        return reply if isinstance(reply, Response) else Response(text=reply, finish="stop")

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        responses = []
        for request in requests:
            values: Sequence[float] = [0.0] * len(request.continuations)
            if self._scores:
                values = self._scores(request)
            scores = []
            for value, text in zip(values, request.continuations, strict=True):
                scores.append(ContinuationScore(float(value), 1, len(text.encode())))
            responses.append(Response(scores=tuple(scores)))
        return responses


class ScriptOptions(Struct, frozen=True):
    file: str = ""


def scripted(spec: ModelSpec) -> Scripted:
    """`snellen:scripted?file=replies.json`: an object from sample id to reply."""
    path = Path(read_options(spec, ScriptOptions).file)
    try:
        return Scripted(msgspec.json.decode(read_file(path), type=dict[str, str]), name=spec.text)
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(
            f"{spec.text}: cannot read replies from {path} ({error}); give file=replies.json"
        ) from None


# --- found by name ----------------------------------------------------------------------------------------------------


TRAINED = ("tiny", "tiny-xs")
TOGETHER = "64"
"""Batch size of the trained models, which are only a few megabytes."""
INSTRUMENTS = {
    "uniform": uniform,
    "always-a": always_first,
    "biased": biased,
    "scripted": scripted,
}
NAMES = (*TRAINED, "oracle", *INSTRUMENTS)


def check_name(spec: ModelSpec) -> None:
    """Raise UnknownNameError for a name that no embedded model has."""
    if spec.target not in NAMES:
        raise registry.unknown_name("embedded model", spec.target, NAMES)


def _loaded(spec: ModelSpec, options: HfOptions) -> LoadedModel:
    """Return a new copy of a trained model, whose file is read only once in a process."""
    from snellen.models.hf.load import load_pretrained

    key = msgspec.json.encode((spec.text, options), order="sorted")
    if key not in _PRISTINE:
        _PRISTINE[key] = load_pretrained(spec, options)
    pristine = _PRISTINE[key]
    model, processor = deepcopy(
        (pristine.model, pristine.processor)
    )  # whoever opens them wraps their parts
    return dataclasses.replace(pristine, model=model, processor=processor)


_PRISTINE: dict[bytes, LoadedModel] = {}


def tiny_checkpoint(name: str = "tiny") -> Path:
    """Return the folder of a tiny LLaVA in the format of transformers, to try things without a download.

    Args:
        name: `tiny` (1.8 million parameters) or `tiny-xs`.

    Raises:
        UnknownNameError: There is no such checkpoint.

    Examples:
        >>> sorted(path.name for path in sn.tiny_checkpoint().glob("*.safetensors"))
        ['model.safetensors']
    """
    if name not in TRAINED:
        raise registry.unknown_name("tiny checkpoint", name, TRAINED)
    # The package is installed as plain files, so the folder outlives the block.
    with as_file(files("snellen.models") / "weights" / name) as folder:
        return folder


def open_embedded(spec: ModelSpec) -> Model | AsyncModel:
    """Return the embedded model a spec names. Raises UnknownNameError."""
    model: Model | AsyncModel
    if spec.target in TRAINED:
        from snellen.models.hf.model import open_hf

        options = {"batch_size": TOGETHER, **spec.options}
        folder = tiny_checkpoint(spec.target)
        model = open_hf(replace(spec, target=str(folder), options=options), _loaded)
    elif spec.target == "oracle":
        model = registry.find_registered("instruments", "oracle")(spec)
    else:
        check_name(spec)
        model = cast(Model, INSTRUMENTS[spec.target](spec))
    return model
