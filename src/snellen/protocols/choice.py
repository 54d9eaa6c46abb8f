"""Protocols that present a question once or several times: vanilla, CircularEval, instability, likelihood, dialogues."""

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
"""Tag of questions for which CircularEval uses only some of the rotations."""
NOT_ROTATED = "single-pass"
"""Value of that tag: the options are shown in their own order only."""
FIRST_ROTATED_PREFIX = "first-"
"""Prefix of a value of that tag: `first-3` rotates only the first three options, and the others keep their positions."""


def rotations(count: int) -> Iterator[tuple[int, ...]]:
    """Yield all rotations of the numbers from 0 to count - 1, starting with the unshifted one (MMBench 4.1).

    For a count of 3, these are (0, 1, 2), (1, 2, 0) and (2, 0, 1).
    """
    numbers = tuple(range(count))
    for shift in range(count):
        yield numbers[shift:] + numbers[:shift]


def circular_orders(sample: Sample) -> list[tuple[int, ...]]:
    """Return the orders of the options that CircularEval shows.

    These are all rotations: (0, 1, 2), (1, 2, 0) and (2, 0, 1) for three options. The tag `rotations` of a sample can
    forbid rotation, or keep the last options in their places, because MMBench's files do so for some questions ("all of
    the above"). Their reader sets the tag.
    """
    count = len(sample.options)
    tag = sample.tags.get(ROTATIONS, "")
    if tag == NOT_ROTATED:
        return [tuple(range(count))]

    rotated_count = count
    number = tag.removeprefix(FIRST_ROTATED_PREFIX)
    if tag.startswith(FIRST_ROTATED_PREFIX) and number.isdecimal():
        rotated_count = min(count, int(number))
    fixed_options = range(rotated_count, count)
    return [(*order, *fixed_options) for order in rotations(rotated_count)]


def render(
    sample: Sample,
    prompt: PromptRenderer,
    variant: Variant,
    method: Method,
    history: tuple[EarlierReply, ...] = (),
) -> Request:
    """Return the request of one presentation of a question.

    Args:
        sample: The sample.
        prompt: Renders its prompts.
        variant: How the question is presented: the template, the order and labels of the options ...
        method: Whether the request is for a reply, or for the likelihood of each option.
        history: In a dialogue, the replies to the earlier questions.
    """
    if method == "generation":
        return prompt.generate(sample, variant, history)
    return prompt.loglikelihood(sample, variant, history)


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
        """Ask the question once; for a dialogue, each of its questions once."""
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
    """Return the variant of one presentation, with the first template.

    Args:
        sample: The sample.
        prompt: Renders its prompts.
        settings: The protocol.
        test: Index of the presentation.
        order: Order of the options; by default the original order.
    """
    count = len(sample.options)
    return Variant(
        test=test,
        template=prompt.template_ids(settings.by)[0],
        order=tuple(range(count)) if order is None else order,
        labels=labels_for(settings.labels, count, sample.benchmark, sample.id, "labels", test),
        in_context=settings.in_context and count > 0,
    )


class Circular(ProtocolSettings, frozen=True):
    """Every rotation of the options, until the question is certainly failed (MMBench 4.1).

    Stopping does not need the ground truth: a question fails as soon as two rotations name different options, or one
    names no option. For single-answer questions with distinct options, the result is the same as with all passes. A
    question whose options must not be rotated is presented once (VanillaEval).
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
        """The declaration of the protocol. Its first pass gives the vanilla accuracy (MMBench's VanillaEval)."""
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
        """Ask once for each rotation of the options, and stop at the first change of answer unless all are wanted."""
        requests: list[Request] = []
        for test, order in enumerate(circular_orders(sample)):
            variant = present(sample, prompt, self, test, order)
            requests.append(render(sample, prompt, variant, self.by))
        if self.all_passes:
            yield requests
            return
        first_choice: int | None = None
        for request in requests:
            [response] = yield [request]
            choice = self._choice(sample, request, response)
            has_changed = first_choice is not None and choice != first_choice
            if choice is None or has_changed:
                return  # the question has failed, whatever its ground truth is
            first_choice = choice

    def _choice(self, sample: Sample, request: Request, response: Response) -> int | None:
        """Return the index of the option that a reply names; None if it names none."""
        question = Turn(sample.question, sample.options)
        prediction = predict(self.label, question, request, response, self.extractor)
        return prediction.choice


class Instability(ProtocolSettings, frozen=True):
    """M presentations of each sample, all sent at once (ReForm-Eval 3.3.2).

    `perturb` selects what differs between presentations: template, order and labels, alone or combined. Orders are
    rotations of a seeded permutation, so each option appears equally often at each position if M is a multiple of the
    number of options. Templates alternate.
    """

    m: int = 5
    by: Method = "generation"
    perturb: str = "template,order"
    labels: LabelStyle = "upper"
    in_context: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise an error for a number of presentations or a kind of perturbation that does not exist."""
        check_presentation_count("instability", self.m)
        unknown = set(self.perturbed) - set(PERTURBATIONS)
        if unknown:
            raise UnknownNameError(
                f"perturb={min(unknown)} is not one of {', '.join(PERTURBATIONS)}, all"
            )

    @property
    def perturbed(self) -> tuple[str, ...]:
        """What differs between presentations: `("template", "order")` for `perturb="template,order"`."""
        if self.perturb == "all":
            return PERTURBATIONS
        return tuple(self.perturb.split(","))

    @property
    def declaration(self) -> Declaration:
        return Declaration(
            presentations=self.m,
            instability=self.m > 1,
            varies_templates=self.m > 1 and "template" in self.perturbed,
        )

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """Ask the question `m` times, each time with other instructions, orders or labels."""
        if sample.turns:
            dialogue = Dialogue(
                by=self.by, m=self.m, labels=self.labels, in_context=self.in_context, seed=self.seed
            )
            yield from dialogue.rounds(sample, prompt, history, self.label)
            return
        yield [
            render(sample, prompt, self._variant(sample, prompt, test), self.by)
            for test in range(self.m)
        ]

    def _variant(self, sample: Sample, prompt: PromptRenderer, test: int) -> Variant:
        """Return the variant of presentation `test`, with the changes that `perturb` names."""
        count = len(sample.options)
        templates = prompt.template_ids(self.by)
        template = templates[0]
        wording = 0  # the original wording; rewordings are numbered from 1
        if "template" in self.perturbed:
            template = templates[test % len(templates)]
            n_wordings = 1 + len(sample.rewordings)
            wording = test % n_wordings

        order = tuple(range(count))
        if "order" in self.perturbed and count:
            # Each `count` presentations are the rotations of one random order.
            number_of_order, shift = divmod(test, count)
            rng = rng_for(sample.benchmark, sample.id, f"order {number_of_order}", self.seed)
            random_order = list(order)
            rng.shuffle(random_order)
            order = tuple(random_order[shift:] + random_order[:shift])

        style: LabelStyle = "random" if "labels" in self.perturbed else self.labels
        labels = labels_for(style, count, sample.benchmark, sample.id, f"labels {test}", self.seed)
        return Variant(
            test=test,
            template=template,
            order=order,
            labels=labels,
            in_context=self.in_context and count > 0,
            seed=self.seed + test,
            wording=wording,
        )


class Likelihood(ProtocolSettings, frozen=True):
    """The most likely option, without showing the options, with M templates (ReForm-Eval 3.3.1, equation 1).

    With `pmi`, each request is repeated without the image (`text`) or with a grey image (`blank`). An option then
    counts by how much the image raises its log-likelihood.
    """

    m: int = 1
    seed: int = 0
    pmi: Literal["", "text", "blank"] = ""

    def __post_init__(self) -> None:
        check_presentation_count("likelihood", self.m)

    @property
    def perturbed(self) -> tuple[str, ...]:
        """The differences between presentations: only the template, because options are not shown."""
        return ("template",) if self.m > 1 else ()

    @property
    def method(self) -> Method:
        return "likelihood"

    @property
    def declaration(self) -> Declaration:
        return Declaration(
            presentations=self.m,
            instability=self.m > 1,
            varies_templates=self.m > 1,
            baselines=bool(self.pmi),
        )

    def applies(self, sample: Sample) -> bool:
        return sample.formulation == "choice" or (sample.formulation == "dialogue" and not self.pmi)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """Ask for the log-likelihood of each option, under `m` templates.

        With `pmi`, the same is asked without the image, to be subtracted (pointwise mutual information).
        """
        if sample.turns:
            dialogue = Dialogue(by="likelihood", m=self.m, seed=self.seed)
            yield from dialogue.rounds(sample, prompt, history, self.label)
            return
        templates = prompt.template_ids("likelihood")
        requests: list[Request] = []
        for test in range(self.m):
            template = templates[test % len(templates)]
            wording = test % (1 + len(sample.rewordings))
            variant = Variant(test=test, template=template, wording=wording)
            requests.append(prompt.loglikelihood(sample, variant))
        baselines: list[Request] = []
        if self.pmi:
            baselines = [self._without_image(request, sample) for request in requests]
        yield [*requests, *baselines]

    def _without_image(self, request: Request, sample: Sample) -> Request:
        """Return the baseline request of a presentation. Few-shot examples keep their images."""
        variant = replace(request.variant, baseline=self.pmi)
        messages = tuple(_blind(message, sample.images, self.pmi) for message in request.messages)
        return replace(request, variant=variant, messages=messages)


def _blind(message: Message, pictures: tuple[ImageRef, ...], instead: str) -> Message:
    """Return a message in which the images of a question are hidden, while those of few-shot examples stay.

    Args:
        message: The message.
        pictures: The images to hide.
        instead: `blank` to show a grey image in place of each, `text` to leave them out.
    """
    parts: list[Part] = []
    for part in message.content:
        is_hidden = isinstance(part, ImagePart) and part.image in pictures
        if not is_hidden:
            parts.append(part)
        elif instead == "blank":
            parts.append(ImagePart(BLANK))
    return replace(message, content=tuple(parts))


class Blind(Vanilla, frozen=True):
    """Every question once, without its image: what the text alone reveals."""

    @property
    def declaration(self) -> Declaration:
        """One presentation without the image, as a control of `vanilla`."""
        return Declaration(
            presentations=1,
            sees_images=False,
            control_of=protocol_label("vanilla", self),
            control_input=SHOWN["text"],
        )

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        yield from super().ask(replace(sample, images=()), prompt, history)


# --- dialogues --------------------------------------------------------------------------------------------------------


class Dialogue(ProtocolSettings, frozen=True):
    """Rounds of a dialogue in order, M presentations of each with one shared history.

    Options keep their stored order. `history` selects what later rounds show as the model's reply:

        - `online` (ReForm-Eval A.8): the option that most presentations chose, the earliest one if tied, written in the
            requested format. If no reply names an option, the first reply unchanged.
        - `verbatim`: the first reply that chose this option, in the model's own words.
        - `gold`: the published reply.
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
        return Declaration(
            presentations=self.m, instability=self.m > 1, varies_templates=self.m > 1
        )

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
        """Yield the requests of each round; stop after a round with a failed request.

        Args:
            sample: The dialogue.
            prompt: Renders its prompts.
            published: Published replies to show as history; empty to show the model's own.
            protocol: Label of the protocol that presents the rounds.
        """
        replies: tuple[EarlierReply, ...] = ()
        for number, turn in enumerate(sample.turns):
            requests = [
                self._request(sample, prompt, number, test, replies) for test in range(self.m)
            ]
            responses = yield requests
            if any(response.error is not None for response in responses):
                return  # later rounds would refer to a missing reply
            if published:
                variant = requests[0].variant
                reply = self._as_reply(prompt, variant, turn, published[number])
            else:
                reply = self._own_reply(prompt, turn, requests, responses, protocol)
            replies = (*replies, reply)

    def _request(
        self,
        sample: Sample,
        prompt: PromptRenderer,
        number: int,
        test: int,
        replies: tuple[EarlierReply, ...],
    ) -> Request:
        """Return the request for one question of a dialogue.

        Args:
            sample: The dialogue.
            prompt: Renders it.
            number: Number of the question, from 0.
            test: Number of the presentation, from 0.
            replies: The earlier questions' replies.
        """
        templates = prompt.template_ids(self.by)
        count = len(sample.turns[number].options)
        labels = labels_for(
            self.labels, count, sample.benchmark, sample.id, f"labels {test}", self.seed
        )
        variant = Variant(
            test=test,
            turn=number,
            template=templates[test % len(templates)],
            order=tuple(range(count)),
            labels=labels,
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
        """Return the model's answer to a question as the reply to show in later rounds of the dialogue.

        The question was presented several times. The option that most replies choose is shown in the requested format, or,
        with `history="verbatim"`, by the first reply that chose it. If no reply chooses an option, the first one is shown.

        Args:
            prompt: Renders the prompts.
            turn: The question.
            requests: Its requests.
            responses: The responses to them.
            protocol: Label of the protocol, which decides how replies are read.
        """
        if not turn.options:
            return EarlierReply(responses[0].text or "")
        choices: list[int | None] = []
        for request, response in zip(requests, responses, strict=True):
            choices.append(predict(protocol, turn, request, response, self.extractor).choice)
        votes = Counter(choice for choice in choices if choice is not None)
        winner: int | None = None
        if votes:
            [(winner, _)] = votes.most_common(1)
        is_verbatim = self.history == "verbatim" and self.by == "generation"
        if winner is not None and not is_verbatim:
            return self._as_reply(prompt, requests[0].variant, turn, turn.options[winner])

        # If there is no winner, all choices are None, and so is the first.
        reply = responses[choices.index(winner)].text or ""
        prefix = prompt.response_prefix if self.by == "generation" else ""
        return EarlierReply(_continued(prefix, reply))

    def _as_reply(
        self, prompt: PromptRenderer, variant: Variant, turn: Turn, text: str
    ) -> EarlierReply:
        """Return an answer to a question as the reply to show in later rounds of the dialogue.

        If replies are generated and the answer is one of the options, it has its label: "(B) red". Otherwise it is the text
        alone.

        Args:
            prompt: Renders the prompts.
            variant: How the question was presented; its labels give their style.
            turn: The question.
            text: The answer, such as the text of an option.
        """
        if self.by == "likelihood" or text not in turn.options:
            return EarlierReply(text)
        labels = alphabet_of(variant.labels, turn.options)
        label = labels[turn.options.index(text)] if labels else ""
        return EarlierReply(write_reply(prompt.templates.layout, label, text))


def _continued(prefix: str, text: str) -> str:
    """Return a reply as it appears in the model's turn: prefix, a blank, and the text, without repeating the prefix."""
    text = text.strip()
    return text if text.startswith(prefix) else f"{prefix} {text}".strip()
