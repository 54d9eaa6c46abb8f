"""Protocols that change what another one asks, or how often: controls, degraded pictures, repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal
from urllib.parse import quote

from msgspec.structs import replace

from snellen.common.degradation import DEGRADATIONS, check_doses, degraded_ref, describe_doses
from snellen.common.images import BLANK
from snellen.errors import UnknownNameError
from snellen.protocols.base import (
    Declaration,
    Protocol,
    ProtocolSettings,
    RequestGenerator,
    declaration_of,
    parse_protocol,
)
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import Method, Request, Response, Sample


class WrappingProtocol(ProtocolSettings, frozen=True, kw_only=True):
    """Settings of a protocol that changes what another one asks, or how often."""

    of: str = "vanilla"
    """The label of the other protocol."""

    @cached_property
    def inner(self) -> Protocol:
        """The other protocol. Raises UnknownNameError for a label that names none."""
        return parse_protocol(self.of)

    @property
    def quoted(self) -> str:
        """The option that names the other protocol, quoted: an `&` among its settings would begin a setting of this
        protocol."""
        return f"of={quote(self.of, safe='?=,:')}"

    def label_of(self, terms: Sequence[str]) -> str:
        """The label with these terms, and the other protocol's unless that is `vanilla`."""
        return f"{type(self).__name__.lower()}?{'&'.join(terms if self.of == 'vanilla' else (*terms, self.quoted))}"

    @property
    def method(self) -> Method:
        return self.inner.method

    @property
    def gold_history(self) -> bool:
        return self.inner.gold_history

    def applies(self, sample: Sample) -> bool:
        return self.inner.applies(sample)


Picture = Literal["blank", "shuffled", "text"]
SHOWN: dict[Picture, str] = {
    "blank": "a grey picture",
    "shuffled": "another question's picture",
    "text": "no picture",
}


class Control(WrappingProtocol, frozen=True):
    """Another protocol's requests, with something else to see: what of its score does not need the picture.

    A sample that has no picture is not asked. With `shuffled`, samples come with the pictures of others
    (`snellen.runs.shuffled_images`).
    """

    picture: Picture = "blank"

    def __post_init__(self) -> None:
        if declaration_of(self.inner).control_of:
            raise UnknownNameError(
                f"{self.of} is a control itself; name the protocol that is to be controlled"
            )

    @cached_property
    def label(self) -> str:
        return f"control?picture={self.picture}&{self.quoted}"

    @property
    def declaration(self) -> Declaration:
        return replace(
            declaration_of(self.inner),
            sees_images=False,
            control_of=self.inner.label,
            shown=SHOWN[self.picture],
            other_pictures=self.picture == "shuffled",
        )

    def applies(self, sample: Sample) -> bool:
        return bool(sample.images) and self.inner.applies(sample)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        if self.picture == "text":
            sample = replace(sample, images=())
        elif self.picture == "blank":
            sample = replace(sample, images=(BLANK,) * len(sample.images))
        return (yield from self.inner.ask(sample, prompt, history))


def with_controls(
    protocols: tuple[Protocol, ...], pictures: tuple[Picture, ...]
) -> tuple[Protocol, ...]:
    """The protocols, then for each one that shows pictures a control with each kind of picture."""
    shows = [protocol for protocol in protocols if declaration_of(protocol).sees_images]
    controls = [
        Control(picture=picture, of=protocol.label) for protocol in shows for picture in pictures
    ]
    return (*protocols, *(control for control in controls if control not in protocols))


class Perturb(WrappingProtocol, frozen=True):
    """Another protocol's requests with degraded pictures: `perturb?blur=2`, `perturb?jpeg=20&noise=10`.

    Its number is a control of the other protocol's: the same questions, paired. A sample without a picture is not
    asked.
    """

    rotate: float | None = None
    crop: float | None = None
    scale: float | None = None
    grey: float | None = None
    gamma: float | None = None
    contrast: float | None = None
    blur: float | None = None
    noise: float | None = None
    jpeg: float | None = None

    def __post_init__(self) -> None:
        if not self.doses:
            raise UnknownNameError(
                f"perturb needs a dose of {', '.join(DEGRADATIONS)}, such as perturb?blur=2"
            )
        check_doses(self.doses)
        if declaration_of(self.inner).control_of:
            raise UnknownNameError(
                f"{self.of} is a control itself; name the protocol that is to be perturbed"
            )

    @cached_property
    def doses(self) -> dict[str, float]:
        """The doses given, by name."""
        return {name: dose for name in DEGRADATIONS if (dose := getattr(self, name)) is not None}

    @cached_property
    def label(self) -> str:
        return self.label_of([f"{name}={dose:g}" for name, dose in self.doses.items()])

    @property
    def declaration(self) -> Declaration:
        return replace(
            declaration_of(self.inner),
            control_of=self.inner.label,
            shown=f"the picture {describe_doses(self.doses)}",
            dose=next(iter(self.doses.items())) if len(self.doses) == 1 else None,
        )

    def applies(self, sample: Sample) -> bool:
        return bool(sample.images) and self.inner.applies(sample)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        worse = tuple(degraded_ref(image, self.doses) for image in sample.images)
        return (yield from self.inner.ask(replace(sample, images=worse), prompt, history))


class Repeat(WrappingProtocol, frozen=True):
    """Another protocol's requests `n` times, each time with another seed: the run's seed, and the numbers after it.

    The other protocol asks every question once, for a reply. pass@k is the chance that of `k` replies one is right
    (Chen et al. 2021, arXiv 2107.03374, 2.1, equation 1), estimated from all `n`.
    """

    k: int = 5
    n: int = 0
    """How often every question is asked; 0: `k` times."""
    greedy: bool = False
    """Whether it may be asked at temperature 0, to see what changes even then."""

    def __post_init__(self) -> None:
        if self.k < 1 or 0 < self.n < self.k or self.times < 2:
            raise UnknownNameError(
                f"repeat needs k >= 1, and n >= k and >= 2 replies to each question, not k={self.k}, n={self.n}"
            )
        inner = declaration_of(self.inner)
        if (
            inner.repeated_for
            or inner.presentations != 1
            or inner.conclude
            or self.inner.method != "generation"
        ):
            raise UnknownNameError(
                f"repeat is of a protocol that asks once for a reply, as vanilla does, not {self.of}"
            )

    @property
    def times(self) -> int:
        """How often every question is asked."""
        return self.n or self.k

    @cached_property
    def label(self) -> str:
        settings = {"k": self.k, "n": self.n, "greedy": "true" if self.greedy else ""}
        return self.label_of([f"{name}={value}" for name, value in settings.items() if value])

    @property
    def declaration(self) -> Declaration:
        return replace(
            declaration_of(self.inner),
            presentations=self.times,
            repeated_for=self.k,
            needs_temperature=not self.greedy,
        )

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """All repetitions side by side; those of a dialogue go on by their own replies."""
        talks = [self.inner.ask(sample, prompt, history) for _ in range(self.times)]
        waves: list[list[Request]] = [
            [_repeated(request, i) for request in next(talk)] for i, talk in enumerate(talks)
        ]
        while any(waves):
            responses = yield [request for wave in waves for request in wave]
            ends = [0]
            for wave in waves:
                ends.append(ends[-1] + len(wave))
            own_responses = [responses[start:end] for start, end in pairwise(ends)]
            waves = [
                _gone_on(talk, came, i)
                for i, (talk, came) in enumerate(zip(talks, own_responses, strict=True))
            ]


def _repeated(request: Request, i: int) -> Request:
    """The same request as presentation `i`, with a seed of its own."""
    seed = request.decoding.seed + i
    return replace(
        request,
        variant=replace(request.variant, test=i, seed=seed),
        decoding=replace(request.decoding, seed=seed),
    )


def _gone_on(talk: RequestGenerator, responses: Sequence[Response], i: int) -> list[Request]:
    """What one repetition asks next; nothing when it has ended."""
    try:
        return (
            [_repeated(request, i) for request in talk.send(list(responses))] if responses else []
        )
    except StopIteration:
        return []
