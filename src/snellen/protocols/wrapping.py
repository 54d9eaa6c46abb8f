"""Protocols that change the requests of another protocol, or repeat them: controls, degraded images, repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
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
    """Settings of a protocol that changes or repeats the requests of another one."""

    of: str = "vanilla"
    """Label of the other protocol."""

    @cached_property
    def inner(self) -> Protocol:
        """The other protocol. Raises UnknownNameError if the label names none."""
        return parse_protocol(self.of)

    @property
    def quoted(self) -> str:
        """The option that names the other protocol, quoted so that an `&` in its settings does not end the option."""
        return f"of={quote(self.of, safe='?=,:')}"

    def label_of(self, terms: Sequence[str]) -> str:
        """Return the label with these terms and, unless it is `vanilla`, the other protocol."""
        all_terms = list(terms)
        if self.of != "vanilla":
            all_terms.append(self.quoted)
        name = type(self).__name__.lower()
        return f"{name}?{'&'.join(all_terms)}"

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
    "blank": "a grey image",
    "shuffled": "another question's image",
    "text": "no image",
}


class Control(WrappingProtocol, frozen=True):
    """Another protocol's requests with other visual input: how much of its score does not need the image.

    Samples without an image are left out. With `shuffled`, samples get the images of other samples
    (`snellen.runs.shuffled_images`).
    """

    picture: Picture = "blank"

    def __post_init__(self) -> None:
        """Raise an error if the inner protocol is a control itself."""
        if declaration_of(self.inner).control_of:
            raise UnknownNameError(
                f"{self.of} is itself a control; name the protocol to apply the control to"
            )

    @cached_property
    def label(self) -> str:
        return f"control?picture={self.picture}&{self.quoted}"

    @property
    def declaration(self) -> Declaration:
        """The declaration of the inner protocol, marked as its control without the right image."""
        return replace(
            declaration_of(self.inner),
            sees_images=False,
            control_of=self.inner.label,
            control_input=SHOWN[self.picture],
            other_images=self.picture == "shuffled",
        )

    def applies(self, sample: Sample) -> bool:
        return bool(sample.images) and self.inner.applies(sample)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """Yield the requests of the inner protocol without images, or with blank ones.

        With another `picture`, the sample already has the images of another sample.
        """
        if self.picture == "text":
            sample = replace(sample, images=())
        elif self.picture == "blank":
            blank_images = (BLANK,) * len(sample.images)
            sample = replace(sample, images=blank_images)
        return (yield from self.inner.ask(sample, prompt, history))


def with_controls(
    protocols: tuple[Protocol, ...], pictures: tuple[Picture, ...]
) -> tuple[Protocol, ...]:
    """Return the protocols and, for each one that shows images, a control with each kind of replaced image."""
    controls: list[Protocol] = []
    for protocol in protocols:
        if not declaration_of(protocol).sees_images:
            continue
        for picture in pictures:
            control = Control(picture=picture, of=protocol.label)
            if control not in protocols:
                controls.append(control)
    return (*protocols, *controls)


class Perturb(WrappingProtocol, frozen=True):
    """Another protocol's requests with degraded images: `perturb?blur=2`, `perturb?jpeg=20&noise=10`.

    It is a control of the other protocol, paired by question. Samples without an image are left out.
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
        """Raise an error if there is no degradation, or the inner protocol is a control."""
        if not self.doses:
            raise UnknownNameError(
                f"perturb needs a dose of {', '.join(DEGRADATIONS)}, such as perturb?blur=2"
            )
        check_doses(self.doses)
        if declaration_of(self.inner).control_of:
            raise UnknownNameError(f"{self.of} is itself a control; name the protocol to perturb")

    @cached_property
    def doses(self) -> dict[str, float]:
        """The given degradations and their strengths."""
        doses: dict[str, float] = {}
        for name in DEGRADATIONS:
            dose = getattr(self, name)
            if dose is not None:
                doses[name] = dose
        return doses

    @cached_property
    def label(self) -> str:
        return self.label_of([f"{name}={dose:g}" for name, dose in self.doses.items()])

    @property
    def declaration(self) -> Declaration:
        """The declaration of the inner protocol, marked as its control with degraded images."""
        single_dose = None
        if len(self.doses) == 1:
            [single_dose] = self.doses.items()
        return replace(
            declaration_of(self.inner),
            control_of=self.inner.label,
            control_input=f"the image {describe_doses(self.doses)}",
            dose=single_dose,
        )

    def applies(self, sample: Sample) -> bool:
        return bool(sample.images) and self.inner.applies(sample)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """Yield the requests of the inner protocol for the sample with degraded images."""
        degraded_images = tuple(degraded_ref(image, self.doses) for image in sample.images)
        degraded_sample = replace(sample, images=degraded_images)
        return (yield from self.inner.ask(degraded_sample, prompt, history))


class Repeat(WrappingProtocol, frozen=True):
    """Another protocol's requests `n` times, with consecutive seeds that start at the run's seed.

    The other protocol must send one request for a reply per question. pass@k is the probability that at least one of
    `k` replies is correct (Chen et al. 2021, arXiv 2107.03374, 2.1, equation 1), estimated from all `n`.
    """

    k: int = 5
    n: int = 0
    """Number of repetitions; 0 for `k`."""
    greedy: bool = False
    """Whether to allow temperature 0, to see what changes even then."""

    def __post_init__(self) -> None:
        """Raise an error for impossible numbers, or an inner protocol that asks more than once."""
        if self.k < 1 or 0 < self.n < self.k or self.times < 2:
            raise UnknownNameError(
                f"repeat needs k >= 1, n >= k and n >= 2, not k={self.k}, n={self.n}"
            )
        inner = declaration_of(self.inner)
        has_several_requests = inner.presentations != 1 or inner.repeated_for or inner.conclude
        if has_several_requests or self.inner.method != "generation":
            raise UnknownNameError(
                f"repeat applies to a protocol with a single reply per question, such as vanilla, not to {self.of}"
            )

    @property
    def times(self) -> int:
        """Number of repetitions."""
        return self.n or self.k

    @cached_property
    def label(self) -> str:
        """Name of the protocol with its parameters, as in tables."""
        terms = []
        if self.k:
            terms.append(f"k={self.k}")
        if self.n:
            terms.append(f"n={self.n}")
        if self.greedy:
            terms.append("greedy=true")
        return self.label_of(terms)

    @property
    def declaration(self) -> Declaration:
        """The inner protocol's declaration, with several presentations. Unless `greedy`, it needs a temperature."""
        return replace(
            declaration_of(self.inner),
            presentations=self.times,
            repeated_for=self.k,
            needs_temperature=not self.greedy,
        )

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """Yield the requests of all repetitions together, and receive their responses.

        If the inner protocol sends further requests that depend on responses, such as the next question of a dialogue,
        each repetition continues with its own responses.
        """
        repetitions = [self.inner.ask(sample, prompt, history) for _ in range(self.times)]
        pending: list[list[Request]] = []  # requests that each repetition sends next
        for number, repetition in enumerate(repetitions):
            first_requests = next(repetition)
            pending.append([_repeated(request, number) for request in first_requests])

        while any(pending):
            responses = yield list(chain.from_iterable(pending))
            start = 0
            for number, repetition in enumerate(repetitions):
                end = start + len(pending[number])
                pending[number] = _next_requests(repetition, responses[start:end], number)
                start = end


def _repeated(request: Request, number: int) -> Request:
    """Return a request as presentation `number`, with another seed."""
    seed = request.decoding.seed + number
    return replace(
        request,
        variant=replace(request.variant, test=number, seed=seed),
        decoding=replace(request.decoding, seed=seed),
    )


def _next_requests(
    repetition: RequestGenerator, responses: Sequence[Response], number: int
) -> list[Request]:
    """Send a repetition the responses to its requests, and return its next requests; empty if it has ended."""
    if not responses:
        return []
    try:
        following = repetition.send(list(responses))
    except StopIteration:
        return []
    return [_repeated(request, number) for request in following]
