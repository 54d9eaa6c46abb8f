"""Does a model see? Its scores and replies must change when the picture does (LVLM-eHub's models often did not)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.common.images import BLANK, Images
from snellen.errors import DataError, ModelError
from snellen.models.base import AsyncModel, Model
from snellen.protocols.base import RequestGenerator
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.protocols.prompts.templates import default_templates
from snellen.records import ImagePart, ImageRef, Message, Method, Request, Response, Sample, Variant
from snellen.runs.driving import drive_model
from snellen.runs.journal import RunStore

SAME = 1e-4
"""Summed log-likelihoods, in nats, that differ by less may differ by rounding."""
LABEL = "sight check"


class SightCheck(Struct, frozen=True):
    """How many questions a model answers differently when it is shown another picture."""

    method: Method
    questions: int
    """Questions that were answered with each of the three pictures."""
    blank: int
    """How many of these are answered differently with a grey picture."""
    swapped: int
    """With the picture of another question."""
    failed: int

    @property
    def sees(self) -> bool:
        """Whether both changed anything at all."""
        return self.blank > 0 and self.swapped > 0

    @property
    def sentence(self) -> str:
        noun = "scores" if self.method == "likelihood" else "replies"
        failed = f"; {self.failed} failed" if self.failed else ""
        return (
            f"{noun} of {self.questions} questions: {self.blank} change with a grey picture, {self.swapped} with the "
            f"picture of another question{failed}"
        )


class _Shown(Struct, frozen=True):
    """One question with its own picture, a grey one, and another's."""

    requests: tuple[Request, ...]
    images: Images

    @property
    def label(self) -> str:
        return LABEL

    def start(self) -> RequestGenerator:
        yield list(self.requests)


def check_sight(model: Model | AsyncModel, benchmark: Benchmark, limit: int = 8) -> SightCheck:
    """Ask up to `limit` questions about different pictures three times each, by likelihood where model and questions
    allow, and compare.

    Raises DataError for a benchmark with fewer than two pictures, ModelError when no question was answered.
    """
    samples = list(islice(_of_different_pictures(benchmark), limit))
    if len(samples) < 2:
        raise DataError(
            f"{benchmark.name}: its questions show fewer than two pictures; nothing can be swapped"
        )
    scored = "loglikelihood" in model.kinds and all(sample.rounds[0].options for sample in samples)
    method: Method = "likelihood" if scored else "generation"
    items = [
        _Shown(_requests(sample, neighbour.images, benchmark, method), benchmark.images)
        for sample, neighbour in zip(samples, [*samples[1:], samples[0]], strict=True)
    ]
    with tempfile.TemporaryDirectory() as scratch, RunStore(Path(scratch)) as store:
        drive_model(model, iter(items), store)
        answered = [[store.find(LABEL, request) for request in item.requests] for item in items]
    whole = [
        [response for response in three if response is not None and response.error is None]
        for three in answered
    ]
    whole = [three for three in whole if len(three) == 3]
    if not whole:
        raise ModelError(
            f"{model.name} answered none of {len(samples)} questions of {benchmark.name}"
        )
    return SightCheck(
        method,
        len(whole),
        sum(_differ(original, grey) for original, grey, _ in whole),
        sum(_differ(original, neighbour) for original, _, neighbour in whole),
        len(samples) - len(whole),
    )


def _of_different_pictures(benchmark: Benchmark) -> Iterator[Sample]:
    digests: set[str] = set()
    for sample in benchmark.samples():
        if sample.images and sample.images[0].digest not in digests:
            digests.add(sample.images[0].digest)
            yield sample


def _requests(
    sample: Sample, other_pictures: tuple[ImageRef, ...], benchmark: Benchmark, method: Method
) -> tuple[Request, ...]:
    spec = benchmark.spec
    prompt = PromptRenderer(
        default_templates(), spec.family or sample.formulation, spec.max_new_tokens
    )
    places = tuple(range(len(sample.rounds[0].options)))
    variant = Variant(
        template=prompt.template_ids(method)[0], order=places, labels=tuple(map(str, places))
    )
    original = (
        prompt.loglikelihood(sample, variant)
        if method == "likelihood"
        else prompt.generate(sample, variant)
    )
    pictures = (
        [BLANK] * len(sample.images),
        [other_pictures[i % len(other_pictures)] for i in range(len(sample.images))],
    )
    changed = [
        replace(
            original,
            variant=replace(variant, test=test),
            messages=_with_pictures(original.messages, iter(instead)),
        )
        for test, instead in enumerate(pictures, 1)
    ]
    return (original, *changed)


def _with_pictures(
    messages: tuple[Message, ...], pictures: Iterator[ImageRef]
) -> tuple[Message, ...]:
    return tuple(
        replace(
            message,
            content=tuple(
                ImagePart(next(pictures)) if isinstance(part, ImagePart) else part
                for part in message.content
            ),
        )
        for message in messages
    )


def _differ(first: Response, second: Response) -> bool:
    if first.scores:
        return any(
            abs(a.sum - b.sum) > SAME for a, b in zip(first.scores, second.scores, strict=True)
        )
    return first.text != second.text
