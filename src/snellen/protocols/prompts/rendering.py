"""From a sample and a presentation to the conversation that a model sees. Pure.

Option labels: what stands in front of an option.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence, Sized
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue import PictureLimits
from snellen.common.degradation import degraded_ref
from snellen.common.seeds import rng_for
from snellen.formats.clips import FrameSampling
from snellen.protocols.prompts.templates import InContext, Layout, PicturePlaces, Templates
from snellen.records import (
    Decoding,
    Example,
    ImagePart,
    ImageRef,
    Message,
    Method,
    Part,
    Request,
    Role,
    Sample,
    TextPart,
    Turn,
    Variant,
)

LabelStyle = Literal["upper", "lower", "number", "random"]
"""The alphabet that labels are of; `random` draws one of the three for each question."""


def labels_for(style: LabelStyle, count: int, *names: str | int) -> tuple[str, ...]:
    """`count` labels in order of place; "random" draws one of the three alphabets, by a generator that `names` seed.

    Above 26 options all are numbers.
    """
    if style == "random":
        style = rng_for(*names).choice(("upper", "lower", "number"))
    return _alphabet(style, count)


def alphabet_of(labels: tuple[str, ...], options: Sized) -> tuple[str, ...]:
    """As many labels as there are `options`, from the alphabet of `labels`; numbers if there are more than 26."""
    if not labels:
        return ()
    first = labels[0]
    return _alphabet(
        "number" if first.isdigit() else "upper" if first.isupper() else "lower", len(options)
    )


def _alphabet(style: str, count: int) -> tuple[str, ...]:
    if style == "number" or count > len(string.ascii_uppercase):
        return tuple(str(i + 1) for i in range(count))
    return tuple((string.ascii_uppercase if style == "upper" else string.ascii_lowercase)[:count])


IMAGE_MARK = "<image>"
NUMBERED_MARK = re.compile(r"<image (\d+)>")


class EarlierReply(Struct, frozen=True):
    """What was replied to an earlier turn of a dialogue, as it goes into the history."""

    text: str


class PromptRenderer(Struct, frozen=True):
    """Renders requests for one benchmark: its templates, its family, its token limit."""

    templates: Templates
    family: str = "choice"
    max_new_tokens: int = 30
    decoding: Decoding = Decoding()
    prefix: bool = True
    """Open the assistant's turn with the layout's response prefix (generation over options)."""
    examples: tuple[Example, ...] = ()
    """Shown before the question, each with its pictures and its answer as a reply; they replace the in-context
    sample."""

    @property
    def response_prefix(self) -> str:
        """The words that open a reply to a question with options; empty where nothing does."""
        return self.templates.layout.response_prefix if self.prefix else ""

    def template_ids(self, method: Method) -> tuple[str, ...]:
        return _template_ids(
            self.family, method, len(self.templates.instructions(self.family, method))
        )

    def generate(
        self, sample: Sample, variant: Variant, history: tuple[EarlierReply, ...] = ()
    ) -> Request:
        """Ask for a reply; options are shown with the variant's order and labels."""
        variant = self._presented(variant)
        messages = self._conversation(sample, variant, history)
        turn = sample.rounds[variant.turn]
        if turn.options and self.response_prefix:
            messages = (*messages, _text_message("assistant", self.response_prefix))
        return self._request(sample, variant, messages)

    def loglikelihood(
        self, sample: Sample, variant: Variant, history: tuple[EarlierReply, ...] = ()
    ) -> Request:
        """Ask how likely each option's text is as the reply; options are not shown (ReForm-Eval 3.3.1).

        Continuations stand in the sample's own order of options.
        """
        variant = self._presented(variant)
        turn = sample.rounds[variant.turn]
        messages = self._conversation(sample, replace(variant, labels=()), history, listed=False)
        return self._request(sample, variant, messages, turn.options)

    def _presented(self, variant: Variant) -> Variant:
        """The variant as it is shown: examples show the format already, without the in-context sample; a layout may
        list options without labels."""
        in_context = variant.in_context and not self.examples
        return replace(
            variant,
            in_context=in_context,
            labels=variant.labels if self.templates.layout.label else (),
        )

    def _request(
        self,
        sample: Sample,
        variant: Variant,
        messages: tuple[Message, ...],
        continuations: tuple[str, ...] = (),
    ) -> Request:
        return Request(
            benchmark=sample.benchmark,
            sample_id=sample.id,
            variant=variant,
            messages=messages,
            kind="loglikelihood" if continuations else "generate",
            continuations=continuations,
            # A likelihood does not depend on how a reply would be sampled: one key for all.
            decoding=Decoding(max_new_tokens=0)
            if continuations
            else self.sampled(self.max_new_tokens, variant.seed),
        )

    def sampled(self, max_new_tokens: int, seed: int = 0) -> Decoding:
        """How a reply of the evaluated model is sampled; another `seed` than the run's is the presentation's own."""
        return Decoding(
            max_new_tokens=max_new_tokens,
            temperature=self.decoding.temperature,
            top_p=self.decoding.top_p,
            seed=(seed or self.decoding.seed) if self.decoding.temperature else 0,
            stop=self.decoding.stop,
        )

    def _conversation(
        self,
        sample: Sample,
        variant: Variant,
        history: tuple[EarlierReply, ...],
        *,
        listed: bool = True,
    ) -> tuple[Message, ...]:
        """The instruction opens the first user turn, and the image the first one that is not an example, even when that
        is the in-context sample.

        Options of earlier rounds stand in their stored order. Unless they are `listed` no options are shown.
        """
        *past, now = sample.rounds[: variant.turn + 1]
        questions = [
            self._question(turn, (), alphabet_of(variant.labels, turn.options), listed)
            for turn in past
        ]
        if variant.wording:
            now = replace(now, question=sample.rewordings[variant.wording - 1])
        questions.append(self._question(now, variant.order, variant.labels, listed))
        questions[0] = self._introduced(sample.context, questions[0])
        replies = [reply.text for reply in history[: len(past)]]
        pairs: list[tuple[str, str | None]] = list(zip(questions, [*replies, None], strict=True))
        if variant.in_context and listed:
            pairs.insert(0, self._in_context(variant))
        rounds = [(() if place else sample.images, *pair) for place, pair in enumerate(pairs)]
        shots = [
            (example.images, *self._answered(example, variant.labels, listed))
            for example in self.examples
        ]
        messages: list[Message] = []
        for images, question, reply in (*shots, *rounds):
            instruction = "" if messages else self.templates.named(variant.template)
            text = f"{instruction}\n{question}" if instruction else question
            shown = within_limits(images, self.templates.pictures)
            messages.append(
                Message("user", place_images(shown, text, self.templates.layout.pictures))
            )
            if reply is not None:
                messages.append(_text_message("assistant", reply))
        return tuple(messages)

    def _question(
        self, turn: Turn, order: tuple[int, ...], labels: tuple[str, ...], listed: bool
    ) -> str:
        """The question, and its options where they are listed."""
        question = self.templates.worded(turn.question)
        if not turn.options:
            return word_question(self.templates.layout.open, question)
        if not listed:
            return question
        options = tuple(turn.options[i] for i in order) if order else turn.options
        return lay_out(self.templates.layout, question, options, labels)

    def _introduced(self, context: str | None, question: str) -> str:
        return (
            self.templates.layout.context.format(context=context) + question
            if context
            else question
        )

    def _answered(self, example: Example, labels: tuple[str, ...], listed: bool) -> tuple[str, str]:
        """An example's question and its answer in the form asked for; of several reference texts the most frequent."""
        alphabet = alphabet_of(labels, example.options)
        question = self._introduced(
            example.context, self._question(example.rounds[0], (), alphabet, listed)
        )
        if not example.options:
            [(text, _)] = Counter(example.texts).most_common(1)
            return question, text
        right = example.gold[0]
        option = example.options[right]
        return question, write_reply(
            self.templates.layout, alphabet[right] if alphabet else "", option
        ) if listed else option

    def _in_context(self, variant: Variant) -> tuple[str, str]:
        """The question that shows the format, with options of its own and labels like those of the real one."""
        return _worded_in_context(self.templates.in_context, self.templates.layout, variant.labels)


@lru_cache(maxsize=64)
def _worded_in_context(sample: InContext, layout: Layout, like: tuple[str, ...]) -> tuple[str, str]:
    labels = alphabet_of(like, sample.options)
    reply = write_reply(layout, labels[0] if labels else "", sample.options[0])
    return lay_out(layout, sample.question, sample.options, labels), reply


@lru_cache(maxsize=64)
def _template_ids(family: str, method: Method, count: int) -> tuple[str, ...]:
    return tuple(f"{family}.{method}.{i}" for i in range(count))


def within_limits(images: tuple[ImageRef, ...], limits: PictureLimits) -> tuple[ImageRef, ...]:
    """Pictures as a set of prompts shows them: of each clip the frames that it takes, those too large shrunk."""
    if limits.frames:
        clips: list[list[ImageRef]] = []
        for image in images:
            goes_on = image.time is not None and clips and (clips[-1][-1].time or 0.0) < image.time
            clips[-1].append(image) if goes_on else clips.append([image])
        rule = FrameSampling(frames=limits.frames)
        images = tuple(clip[place] for clip in clips for place in rule.positions(range(len(clip))))
    return tuple(_shrunk(image, limits) for image in images)


@lru_cache(maxsize=1024)
def _shrunk(image: ImageRef, limits: PictureLimits) -> ImageRef:
    longest, pixels = max(image.width, image.height), image.width * image.height
    factor = min(
        limits.max_side / longest if limits.max_side else 1,
        (limits.max_pixels / pixels or 1) ** 0.5,
        1,
    )
    if factor == 1:
        return image
    smaller = degraded_ref(image, {"scale": factor})
    while limits.max_pixels and smaller.width * smaller.height > limits.max_pixels:
        factor *= 0.999  # both sides may have been rounded up
        smaller = degraded_ref(image, {"scale": factor})
    return smaller


def place_images(
    images: tuple[ImageRef, ...], text: str, places: PicturePlaces = "marked"
) -> tuple[Part, ...]:
    """Pictures and text in order: pictures at their marks where the text has one for each of them, else first.

    Marks are `<image>`, in the order of several pictures, or numbered from 1, `<image 1>`, each as often as it is told.
    One picture without a number stands first: a text about one that holds `<image>` may well mean these letters. Texts
    between `trimmed` pictures have no white space around them, and pictures that come `first` leave their marks behind.
    """
    if places == "first":
        return (*map(ImagePart, images), TextPart(text))
    numbered = NUMBERED_MARK.split(text)
    if set(numbered[1::2]) == {str(number) for number in range(1, len(images) + 1)}:
        marked = [images[int(number) - 1] for number in numbered[1::2]]
        return _in_order(
            marked,
            [part.strip() for part in numbered[::2]] if places == "trimmed" else numbered[::2],
        )
    texts = text.split(IMAGE_MARK)
    if len(images) < 2 or len(texts) != len(images) + 1:
        return (*map(ImagePart, images), TextPart(text))
    return _in_order(images, texts)


def _in_order(images: Sequence[ImageRef], texts: Sequence[str]) -> tuple[Part, ...]:
    """A text, then each picture with the text after it."""
    parts: list[Part] = [TextPart(texts[0])]
    for image, after in zip(images, texts[1:], strict=True):
        parts += [ImagePart(image), TextPart(after)]
    return tuple(part for part in parts if not isinstance(part, TextPart) or part.text)


def lay_out(
    layout: Layout, question: str, options: tuple[str, ...], labels: tuple[str, ...]
) -> str:
    """`Can you see it? Options: (A) Yes; (B) No.`"""
    marks = [f"{layout.label.format(label=label)} " for label in labels] or [""] * len(options)
    listed = layout.separator.join(
        mark + option for mark, option in zip(marks, options, strict=False)
    )
    gap = " " if layout.heading and not layout.heading[-1].isspace() else ""
    return f"{word_question(layout.question, question, labels)}{layout.heading}{gap}{listed}{layout.stop}"


def word_question(form: str, question: str, labels: tuple[str, ...] = ()) -> str:
    """The question in a layout's form: `Question: Can you see it?`"""
    return form.format(
        question=question, capitalized=question.capitalize(), letters=", ".join(labels)
    )


def write_reply(layout: Layout, label: str, option: str) -> str:
    """A well-formed reply: `The answer is (A) Yes.`"""
    return layout.reply.format(label=label, option=option)


def _text_message(role: Role, text: str) -> Message:
    return Message(role, (TextPart(text),))
