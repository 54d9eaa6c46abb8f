"""One question, several presentations (vanilla, CircularEval, instability, likelihood), and dialogues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from snellen.common.images import BLANK
from snellen.common.seeds import rng_for
from snellen.errors import UnknownNameError
from snellen.extraction import find_extractor
from snellen.protocols.base import (
    Declaration,
    ProtocolSettings,
    RequestGenerator,
    check_presentation_count,
    protocol_label,
)
from snellen.protocols.prediction import predict
from snellen.protocols.prompts.rendering import (
    EarlierReply,
    LabelStyle,
    PromptRenderer,
    alphabet_of,
    labels_for,
    write_reply,
)
from snellen.protocols.wrapping import SHOWN
from snellen.records import (
    ImagePart,
    ImageRef,
    Message,
    Method,
    Part,
    Request,
    Response,
    Sample,
    Turn,
    Variant,
)

PERTURBATIONS = ("template", "order", "labels")
"""What the protocol `instability` varies."""
ROTATIONS = "rotations"
"""The tag that says which options CircularEval rotates, where it does not rotate all of them."""
NOT_ROTATED = "single-pass"
FIRST = "first-"
"""Begins the tag of a question of which only the first options are rotated, as many as it says: `first-3`."""


def rotations(count: int) -> Iterator[tuple[int, ...]]:
    """All cyclic shifts of 0..count-1, the unshifted one first (MMBench 4.1)."""
    for shift in range(count):
        yield tuple((i + shift) % count for i in range(count))


def circular_orders(sample: Sample) -> list[tuple[int, ...]]:
    """The orders that CircularEval shows: all rotations, or only those that the tag `rotations` allows.

    MMBench's files do not turn some questions at all, and in others leave the last option in its place ("all of the
    above"); their reader tags them.
    """
    count, rotations_tag = len(sample.options), sample.tags.get(ROTATIONS, "")
    if rotations_tag == NOT_ROTATED:
        return [tuple(range(count))]
    turned = rotations_tag.removeprefix(FIRST)
    first = (
        min(count, int(turned)) if rotations_tag.startswith(FIRST) and turned.isdecimal() else count
    )
    return [(*order, *range(first, count)) for order in rotations(first)]


def render(
    sample: Sample,
    prompt: PromptRenderer,
    variant: Variant,
    method: Method,
    history: tuple[EarlierReply, ...] = (),
) -> Request:
    ask = prompt.generate if method == "generation" else prompt.loglikelihood
    return ask(sample, variant, history)


class Vanilla(ProtocolSettings, frozen=True):
    """Every question once, with its options in their original order."""

    by: Method = "generation"
    labels: LabelStyle = "upper"
    in_context: bool = False

    @property
    def declaration(self) -> Declaration:
        return Declaration(presentations=1)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        if sample.turns:
            once = Dialogue(by=self.by, labels=self.labels, in_context=self.in_context)
            yield from once.rounds(sample, prompt, history, self.label)
            return
        yield [render(sample, prompt, present(sample, prompt, self, 0), self.by)]


def present(
    sample: Sample,
    prompt: PromptRenderer,
    settings: Vanilla | Circular,
    test: int,
    order: tuple[int, ...] | None = None,
) -> Variant:
    """The variant with the first template and, unless `order` is given, the options in their original order."""
    count = len(sample.options)
    return Variant(
        test=test,
        template=prompt.template_ids(settings.by)[0],
        order=tuple(range(count)) if order is None else order,
        labels=labels_for(settings.labels, count, sample.benchmark, sample.id, "labels", test),
        in_context=settings.in_context and count > 0,
    )


class Circular(ProtocolSettings, frozen=True):
    """Every rotation of the options; ends as soon as two rotations cannot both be right (MMBench 4.1).

    The stop needs no answer: two rotations that name different options cannot both be right, and one
    that names none fails the question too. It gives the verdict of all passes for single-answer
    questions with distinct options. A question whose options must not be rotated is asked once, for VanillaEval.
    """

    by: Method = "generation"
    labels: LabelStyle = "upper"
    in_context: bool = False
    all_passes: bool = False
    extractor: str = "standard"

    def __post_init__(self) -> None:
        find_extractor(self.extractor)

    @property
    def declaration(self) -> Declaration:
        """Its vanilla accuracy is that of the first pass: VanillaEval."""
        return Declaration(
            presentations=lambda sample: len(circular_orders(sample)),
            stops_early=not self.all_passes,
            unbiased=(0,),
            circular=True,
        )

    def applies(self, sample: Sample) -> bool:
        return sample.formulation == "choice"

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        requests = [
            render(sample, prompt, present(sample, prompt, self, test, order), self.by)
            for test, order in enumerate(circular_orders(sample))
        ]
        if self.all_passes:
            yield requests
            return
        first: int | None = None
        for request in requests:
            [response] = yield [request]
            choice = self._choice(sample, request, response)
            if choice is None or first not in (None, choice):
                return  # the question has failed, whatever the answer is
            first = choice

    def _choice(self, sample: Sample, request: Request, response: Response) -> int | None:
        return predict(
            self.label, Turn(sample.question, sample.options), request, response, self.extractor
        ).choice


class Instability(ProtocolSettings, frozen=True):
    """M presentations of a sample in one wave (ReForm-Eval 3.3.2).

    `perturb` names what differs between them: template, order and labels, together or alone. Orders
    are rotations of a seeded permutation, so each option stands in each place equally often when M is
    a multiple of the number of options. Templates take turns.
    """

    m: int = 5
    by: Method = "generation"
    perturb: str = "template,order"
    labels: LabelStyle = "upper"
    in_context: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_presentation_count("instability", self.m)
        if wrong := set(self.perturbed) - set(PERTURBATIONS):
            raise UnknownNameError(
                f"perturb={min(wrong)} is not one of {', '.join(PERTURBATIONS)}, all"
            )

    @property
    def perturbed(self) -> tuple[str, ...]:
        return PERTURBATIONS if self.perturb == "all" else tuple(self.perturb.split(","))

    @property
    def declaration(self) -> Declaration:
        return Declaration(presentations=self.m, instability=self.m > 1)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        if sample.turns:
            several = Dialogue(
                by=self.by, m=self.m, labels=self.labels, in_context=self.in_context, seed=self.seed
            )
            yield from several.rounds(sample, prompt, history, self.label)
            return
        yield [
            render(sample, prompt, self._variant(sample, prompt, test), self.by)
            for test in range(self.m)
        ]

    def _variant(self, sample: Sample, prompt: PromptRenderer, test: int) -> Variant:
        count, changes = len(sample.options), self.perturbed
        templates = prompt.template_ids(self.by)
        order = tuple(range(count))
        if "order" in changes and count:
            base = list(order)
            rng_for(sample.benchmark, sample.id, f"order {test // count}", self.seed).shuffle(base)
            order = tuple(base[(i + test) % count] for i in range(count))
        style: LabelStyle = "random" if "labels" in changes else self.labels
        return Variant(
            test=test,
            template=templates[test % len(templates)] if "template" in changes else templates[0],
            order=order,
            labels=labels_for(
                style, count, sample.benchmark, sample.id, f"labels {test}", self.seed
            ),
            in_context=self.in_context and count > 0,
            seed=self.seed + test,
            wording=test % (1 + len(sample.rewordings)) if "template" in changes else 0,
        )


class Likelihood(ProtocolSettings, frozen=True):
    """The most likely option, options not shown; M templates (ReForm-Eval 3.3.1, equation 1).

    With `pmi` each request is asked again without the picture (`text`) or with a grey one (`blank`); an
    option counts by how much the picture raises its log-likelihood.
    """

    m: int = 1
    seed: int = 0
    pmi: Literal["", "text", "blank"] = ""

    def __post_init__(self) -> None:
        check_presentation_count("likelihood", self.m)

    @property
    def perturbed(self) -> tuple[str, ...]:
        """Options are not shown, so that presentations differ by their template alone."""
        return ("template",) if self.m > 1 else ()

    @property
    def method(self) -> Method:
        return "likelihood"

    @property
    def declaration(self) -> Declaration:
        return Declaration(presentations=self.m, instability=self.m > 1, baselines=bool(self.pmi))

    def applies(self, sample: Sample) -> bool:
        return sample.formulation == "choice" or (sample.formulation == "dialogue" and not self.pmi)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        if sample.turns:
            yield from Dialogue(by="likelihood", m=self.m, seed=self.seed).rounds(
                sample, prompt, history, self.label
            )
            return
        templates = prompt.template_ids("likelihood")
        requests = [
            prompt.loglikelihood(
                sample,
                Variant(
                    test=test,
                    template=templates[test % len(templates)],
                    wording=test % (1 + len(sample.rewordings)),
                ),
            )
            for test in range(self.m)
        ]
        yield [
            *requests,
            *(self._without_picture(request, sample) for request in requests if self.pmi),
        ]

    def _without_picture(self, request: Request, sample: Sample) -> Request:
        """The baseline request of a presentation, marked as such in its variant; examples keep their pictures."""
        variant = replace(request.variant, baseline=self.pmi)
        return replace(
            request,
            variant=variant,
            messages=tuple(
                _blind(message, sample.images, self.pmi) for message in request.messages
            ),
        )


def _blind(message: Message, pictures: tuple[ImageRef, ...], instead: str) -> Message:
    """The message with these pictures grey, or without them."""
    grey = (ImagePart(BLANK),) if instead == "blank" else ()
    parts: list[Part] = []
    for part in message.content:
        parts += grey if isinstance(part, ImagePart) and part.image in pictures else (part,)
    return replace(message, content=tuple(parts))


class Blind(Vanilla, frozen=True):
    """Every question once, without its picture: what the text alone gives away."""

    @property
    def declaration(self) -> Declaration:
        return Declaration(
            presentations=1,
            sees_images=False,
            control_of=protocol_label("vanilla", self),
            shown=SHOWN["text"],
        )

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        yield from super().ask(replace(sample, images=()), prompt, history)


# --- dialogues --------------------------------------------------------------------------------------------------------


class Dialogue(ProtocolSettings, frozen=True):
    """Rounds one after the other, M presentations of each that share one history.

    Online history (ReForm-Eval A.8): the option that most presentations of the round chose, ties to
    the earliest, in the form that was asked for; when none was readable, the first reply as it came. Verbatim: the
    first reply that chose that option, in the model's own words. Gold history: the published reply. Options stand in
    their stored order.
    """

    by: Method = "generation"
    history: Literal["online", "verbatim", "gold"] = "online"
    m: int = 1
    labels: LabelStyle = "upper"
    in_context: bool = True
    extractor: str = "standard"
    seed: int = 0

    def __post_init__(self) -> None:
        check_presentation_count("dialogue", self.m)
        find_extractor(self.extractor)

    @property
    def declaration(self) -> Declaration:
        return Declaration(presentations=self.m, instability=self.m > 1)

    @property
    def gold_history(self) -> bool:
        return self.history == "gold"

    def applies(self, sample: Sample) -> bool:
        return bool(sample.turns)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        yield from self.rounds(sample, prompt, history, self.label)

    def rounds(
        self, sample: Sample, prompt: PromptRenderer, published: tuple[str, ...], protocol: str
    ) -> RequestGenerator:
        replies: tuple[EarlierReply, ...] = ()
        for number, turn in enumerate(sample.turns):
            requests = [
                self._request(sample, prompt, number, test, replies) for test in range(self.m)
            ]
            responses = yield requests
            if any(response.error is not None for response in responses):
                return  # later rounds would speak of an answer that never came
            if published:
                replies = (
                    *replies,
                    self._as_reply(prompt, requests[0].variant, turn, published[number]),
                )
            else:
                replies = (*replies, self._own_reply(prompt, turn, requests, responses, protocol))

    def _request(
        self,
        sample: Sample,
        prompt: PromptRenderer,
        number: int,
        test: int,
        replies: tuple[EarlierReply, ...],
    ) -> Request:
        templates = prompt.template_ids(self.by)
        count = len(sample.turns[number].options)
        variant = Variant(
            test=test,
            turn=number,
            template=templates[test % len(templates)],
            order=tuple(range(count)),
            labels=labels_for(
                self.labels, count, sample.benchmark, sample.id, f"labels {test}", self.seed
            ),
            in_context=self.in_context and count > 0,
            seed=self.seed + test,
        )
        return render(sample, prompt, variant, self.by, replies)

    def _own_reply(
        self,
        prompt: PromptRenderer,
        turn: Turn,
        requests: list[Request],
        responses: list[Response],
        protocol: str,
    ) -> EarlierReply:
        if not turn.options:
            return EarlierReply(responses[0].text or "")
        choices = [
            predict(protocol, turn, request, response, self.extractor).choice
            for request, response in zip(requests, responses, strict=True)
        ]
        votes = Counter(choice for choice in choices if choice is not None)
        winner = votes.most_common(1)[0][0] if votes else None
        if winner is not None and (self.by == "likelihood" or self.history != "verbatim"):
            return self._as_reply(prompt, requests[0].variant, turn, turn.options[winner])
        prefix = prompt.response_prefix if self.by == "generation" else ""
        return EarlierReply(_continued(prefix, responses[choices.index(winner)].text or ""))

    def _as_reply(
        self, prompt: PromptRenderer, variant: Variant, turn: Turn, text: str
    ) -> EarlierReply:
        """The reply in the form that was asked for: label and text, or the bare text under likelihood."""
        if self.by == "likelihood" or text not in turn.options:
            return EarlierReply(text)
        labels = dict(zip(turn.options, alphabet_of(variant.labels, turn.options), strict=False))
        return EarlierReply(write_reply(prompt.templates.layout, labels.get(text, ""), text))


def _continued(prefix: str, text: str) -> str:
    """The reply as the model's turn shows it: the prefix that it went on from, a blank, and its own words.

    A model that repeated the prefix has it once.
    """
    text = text.strip()
    return text if text.startswith(prefix) else f"{prefix} {text}".strip()
