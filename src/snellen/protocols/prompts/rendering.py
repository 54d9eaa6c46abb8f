"""Render a sample and a presentation as the conversation that a model sees, including option labels."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence, Sized
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue import ImageLimits
from snellen.common.degradation import degraded_ref
from snellen.common.seeds import rng_for
from snellen.formats.clips import FrameSampling
from snellen.protocols.prompts.templates import ImagePlaces, InContext, Layout, PromptTemplates
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
"""The alphabet of option labels; `random` draws an alphabet for each question."""


def labels_for(style: LabelStyle, count: int, *names: str | int) -> tuple[str, ...]:
    """Return `count` option labels in order.

    "random" draws one of the three alphabets; `names` seed the draw. Above 26 options all labels are numbers.

    Examples:
        >>> labels_for("upper", 3)
        ('A', 'B', 'C')
    """
    if style == "random":
        style = rng_for(*names).choice(("upper", "lower", "number"))
    return _alphabet(style, count)


def alphabet_of(labels: tuple[str, ...], options: Sized) -> tuple[str, ...]:
    """Return a label for each of `options`, in the style of the given labels.

    `("c",)` gives `("a", "b", "c")` for three options. More than 26 options get numbers. Without labels, the result is
    empty.
    """
    if not labels:
        return ()
    style = "lower"
    if labels[0].isdigit():
        style = "number"
    elif labels[0].isupper():
        style = "upper"
    return _alphabet(style, len(options))


def _alphabet(style: str, count: int) -> tuple[str, ...]:
    """Return `count` labels in order: "A", "B", ... for "upper", "a", "b", ... for "lower", otherwise "1", "2", ..."""
    if style == "number" or count > len(string.ascii_uppercase):
        return tuple(str(number) for number in range(1, count + 1))
    letters = string.ascii_uppercase if style == "upper" else string.ascii_lowercase
    return tuple(letters[:count])


IMAGE_MARK = "<image>"
NUMBERED_MARK = re.compile(r"<image (\d+)>")


class EarlierReply(Struct, frozen=True):
    """The reply to an earlier turn of a dialogue, as shown in the history."""

    text: str


class PromptRenderer(Struct, frozen=True):
    """Renders requests for one benchmark, with its templates, question family and token limit."""

    templates: PromptTemplates
    family: str = "choice"
    max_new_tokens: int = 30
    decoding: Decoding = Decoding()
    prefix: bool = True
    """Whether to open the reply to a question with options with the layout's response prefix."""
    examples: tuple[Example, ...] = ()
    """Few-shot examples shown before the question, with images and answers. They replace the in-context sample."""

    @property
    def response_prefix(self) -> str:
        """Text that opens the reply to a question with options; empty if nothing does."""
        return self.templates.layout.response_prefix if self.prefix else ""

    def template_ids(self, method: Method) -> tuple[str, ...]:
        """Return the names of the templates for a method, such as `choice.generation.0` and `choice.generation.1`."""
        n_templates = len(self.templates.instructions(self.family, method))
        return _template_ids(self.family, method, n_templates)

    def generate(
        self, sample: Sample, variant: Variant, history: tuple[EarlierReply, ...] = ()
    ) -> Request:
        """Return the request that asks a model for a reply to a question.

        Args:
            sample: The question or dialogue.
            variant: How to present it: the prompt template, the order and labels of the options, and the turn.
            history: The replies to earlier turns of a dialogue.
        """
        variant = self._presented(variant)
        messages = self._conversation(sample, variant, history)
        turn = sample.rounds[variant.turn]
        if turn.options and self.response_prefix:
            messages = (*messages, _text_message("assistant", self.response_prefix))
        return self._request(sample, variant, messages)

    def loglikelihood(
        self, sample: Sample, variant: Variant, history: tuple[EarlierReply, ...] = ()
    ) -> Request:
        """Return the request for the likelihood of each option as the reply, without showing options (ReForm-Eval 3.3.1).

        The likelihoods are in the sample's own order of options.

        Args:
            sample: The question or dialogue.
            variant: How to present it: the prompt template and the turn.
            history: The replies to earlier turns of a dialogue.
        """
        variant = self._presented(variant)
        turn = sample.rounds[variant.turn]
        without_labels = replace(variant, labels=())
        messages = self._conversation(sample, without_labels, history, listed=False)
        return self._request(sample, variant, messages, turn.options)

    def _presented(self, variant: Variant) -> Variant:
        """Return a variant without what this renderer does not show.

        Labels are left out if the layout lists options without them. Options that the image shows keep their own order
        and capital letters. The in-context sample (a text-only example of the reply format) is left out if there are
        few-shot examples, which already show the format.
        """
        in_context = variant.in_context and not self.examples
        labels = variant.labels if self.templates.layout.label else ()
        order = variant.order
        if not self.templates.layout.option:
            labels = _alphabet("upper", len(labels))
            order = tuple(range(len(order)))
        return replace(variant, in_context=in_context, labels=labels, order=order)

    def _request(
        self,
        sample: Sample,
        variant: Variant,
        messages: tuple[Message, ...],
        continuations: tuple[str, ...] = (),
    ) -> Request:
        """Return a request for a reply, or for the log-likelihood of continuations if there are any."""
        if continuations:
            # Likelihoods do not depend on decoding, so their keys must not depend on it either.
            decoding = Decoding(max_new_tokens=0)
        else:
            decoding = self.sampled(self.max_new_tokens, variant.seed)
        return Request(
            benchmark=sample.benchmark,
            sample_id=sample.id,
            variant=variant,
            messages=messages,
            kind="loglikelihood" if continuations else "generate",
            continuations=continuations,
            decoding=decoding,
        )

    def sampled(self, max_new_tokens: int, seed: int = 0) -> Decoding:
        """Return the decoding of a reply of the evaluated model.

        Args:
            max_new_tokens: Maximum length of the reply.
            seed: Seed of the presentation, if it differs from the run's.
        """
        is_greedy = not self.decoding.temperature
        return Decoding(
            max_new_tokens=max_new_tokens,
            temperature=self.decoding.temperature,
            top_p=self.decoding.top_p,
            seed=0 if is_greedy else seed or self.decoding.seed,
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
        """Return the messages of a request: few-shot examples, the in-context sample, earlier rounds and the question.

        The instruction opens the first user turn. The images of the sample open the first turn that is not a few-shot
        example, even if that turn is the in-context sample. Options of earlier rounds keep their stored order.

        Args:
            sample: The sample.
            variant: How it is presented.
            history: Replies to earlier rounds.
            listed: Whether to show options.
        """
        *earlier_rounds, current_round = sample.rounds[: variant.turn + 1]
        words = self.templates.words_for(sample.tags)
        questions = []
        for turn in earlier_rounds:
            labels = alphabet_of(variant.labels, turn.options)
            questions.append(self._question(turn, (), labels, listed, words))
        if variant.wording:
            rewording = sample.rewordings[variant.wording - 1]
            current_round = replace(current_round, question=rewording)
        questions.append(
            self._question(current_round, variant.order, variant.labels, listed, words)
        )
        questions[0] = self._introduced(sample.context, questions[0])

        # The current question has no reply yet.
        replies: list[str | None] = [reply.text for reply in history[: len(earlier_rounds)]]
        replies.append(None)
        pairs = list(zip(questions, replies, strict=True))
        if variant.in_context and listed:
            pairs.insert(0, self._in_context(variant))

        # Images, question and reply of each turn. The turn that is to be answered has no reply.
        turns: list[tuple[tuple[ImageRef, ...], str, str | None]] = []
        for example in self.examples:
            example_question, answer = self._answered(example, variant.labels, listed)
            turns.append((example.images, example_question, answer))
        for position, (question, reply) in enumerate(pairs):
            images = sample.images if position == 0 else ()
            turns.append((images, question, reply))

        messages: list[Message] = []
        for images, question, reply in turns:
            instruction = "" if messages else self.templates.named(variant.template)
            text = f"{instruction}\n{question}" if instruction else question
            limited_images = within_limits(images, self.templates.images)
            parts = place_images(limited_images, text, self.templates.layout.images)
            messages.append(Message("user", parts))
            if reply is not None:
                messages.append(_text_message("assistant", reply))
        return tuple(messages)

    def _question(
        self, turn: Turn, order: tuple[int, ...], labels: tuple[str, ...], listed: bool, words: str
    ) -> str:
        """Return the text of a question, with its options if they are listed.

        Args:
            turn: The question and its options.
            order: Indices of the options in the order to show; empty for their own order.
            labels: Labels of the options; empty for options without labels.
            listed: Whether to list the options.
            words: What `{words}` in the layout stands for.
        """
        question = self.templates.prompt_for(turn.question)
        if not turn.options:
            return word_question(self.templates.layout.open, question, words=words)
        if not listed:
            return question
        options = turn.options
        if order:
            options = tuple(turn.options[index] for index in order)
        if self.templates.places_options:
            listed_options = list_options(self.templates.layout, options, labels)
            return self.templates.prompt_for(turn.question, listed_options)
        return lay_out(self.templates.layout, question, options, labels, words)

    def _introduced(self, context: str | None, question: str) -> str:
        """Return the question with its context before it, if there is one."""
        if not context:
            return question
        return self.templates.layout.context.format(context=context) + question

    def _answered(self, example: Example, labels: tuple[str, ...], listed: bool) -> tuple[str, str]:
        """Return the question and the correct reply of a few-shot example, as texts to show.

        The reply to a question without options is the most frequent of its reference texts.

        Args:
            example: The example.
            labels: Labels of the options of the question that follows; the example gets labels in the same style.
            listed: Whether options are listed. If not, the reply is the text of the option alone.
        """
        example_labels = alphabet_of(labels, example.options)
        words = self.templates.words_for(example.tags)
        question = self._question(example.rounds[0], (), example_labels, listed, words)
        question = self._introduced(example.context, question)
        if not example.options:
            [(reference, _)] = Counter(example.texts).most_common(1)
            return question, reference
        correct_index = example.gold[0]
        option = example.options[correct_index]
        if not listed:
            return question, option
        label = example_labels[correct_index] if example_labels else ""
        return question, write_reply(self.templates.layout, label, option)

    def _in_context(self, variant: Variant) -> tuple[str, str]:
        """Return the question and reply of the in-context sample, which show the format with labels like the question's."""
        return _worded_in_context(self.templates.in_context, self.templates.layout, variant.labels)


@lru_cache(maxsize=64)
def _worded_in_context(
    sample: InContext, layout: Layout, labels_of_question: tuple[str, ...]
) -> tuple[str, str]:
    """Return the question and reply of an in-context sample. The reply is always its first option."""
    labels = alphabet_of(labels_of_question, sample.options)
    first_label = labels[0] if labels else ""
    question = lay_out(layout, sample.question, sample.options, labels)
    return question, write_reply(layout, first_label, sample.options[0])


@lru_cache(maxsize=64)
def _template_ids(family: str, method: Method, count: int) -> tuple[str, ...]:
    return tuple(f"{family}.{method}.{i}" for i in range(count))


def within_limits(images: tuple[ImageRef, ...], limits: ImageLimits) -> tuple[ImageRef, ...]:
    """Return images within limits: at most so many frames of each clip, and each image at most so large.

    Frames of a clip are images with a time; a frame whose time is not later than the one before begins another clip.
    """
    if limits.frames:
        sampling = FrameSampling(frames=limits.frames)
        sampled: list[ImageRef] = []
        for clip in _split_into_clips(images):
            positions = sampling.positions(range(len(clip)))
            sampled.extend(clip[position] for position in positions)
        images = tuple(sampled)
    return tuple(_shrunk(image, limits) for image in images)


def _split_into_clips(images: Sequence[ImageRef]) -> list[list[ImageRef]]:
    """Split images into clips, that is, into frames with increasing times. An image without a time is a clip of its own."""
    clips: list[list[ImageRef]] = []
    for image in images:
        is_next_frame = False
        if clips and image.time is not None:
            last_frame = clips[-1][-1]
            is_next_frame = (last_frame.time or 0.0) < image.time
        if is_next_frame:
            clips[-1].append(image)
        else:
            clips.append([image])
    return clips


@lru_cache(maxsize=1024)
def _shrunk(image: ImageRef, limits: ImageLimits) -> ImageRef:
    """Return an image scaled down to the limits, if it exceeds them."""
    factor: float = 1
    if limits.max_side:
        factor = min(factor, limits.max_side / max(image.width, image.height))
    if limits.max_pixels:
        factor = min(factor, (limits.max_pixels / (image.width * image.height)) ** 0.5)
    if factor == 1:
        return image
    smaller = degraded_ref(image, {"scale": factor})
    while limits.max_pixels and smaller.width * smaller.height > limits.max_pixels:
        factor *= 0.999  # both sides may have been rounded up
        smaller = degraded_ref(image, {"scale": factor})
    return smaller


def place_images(
    images: tuple[ImageRef, ...], text: str, places: ImagePlaces = "marked"
) -> tuple[Part, ...]:
    """Return the parts of a message: images, and the text around them.

    If the text has a mark for each image, each image replaces its mark. Otherwise all images come first. A mark is
    `<image 1>`, `<image 2>`, ..., which may be repeated, or `<image>` in the order of several images. A single image
    without a number always comes first, because a text about one image may contain `<image>` literally.

    Args:
        images: The images.
        text: The text of the message.
        places: `marked` as above; `trimmed` also removes white space around the images; `first` puts all images first
            and keeps marks in the text.
    """
    images_first = (*map(ImagePart, images), TextPart(text))
    if places == "first":
        return images_first
    pieces = NUMBERED_MARK.split(text)  # texts and image numbers alternate
    texts = pieces[::2]
    numbers = pieces[1::2]
    expected_numbers = {str(number) for number in range(1, len(images) + 1)}
    if set(numbers) == expected_numbers:
        marked_images = [images[int(number) - 1] for number in numbers]
        if places == "trimmed":
            texts = [part.strip() for part in texts]
        return _in_order(marked_images, texts)
    texts = text.split(IMAGE_MARK)
    if len(images) < 2 or len(texts) != len(images) + 1:
        return images_first
    return _in_order(images, texts)


def _in_order(images: Sequence[ImageRef], texts: Sequence[str]) -> tuple[Part, ...]:
    """Return the parts of a message: the first text, then each image followed by the next text. Empty texts are left out.

    Args:
        images: The images.
        texts: The texts, one more than images.
    """
    parts: list[Part] = []
    if texts[0]:
        parts.append(TextPart(texts[0]))
    for image, text_after in zip(images, texts[1:], strict=True):
        parts.append(ImagePart(image))
        if text_after:
            parts.append(TextPart(text_after))
    return tuple(parts)


def lay_out(
    layout: Layout,
    question: str,
    options: tuple[str, ...],
    labels: tuple[str, ...],
    words: str = "",
) -> str:
    """Return a question with its options as the text to show: `Can you see it? Options: (A) Yes; (B) No.`

    Args:
        layout: Forms of the question and of an option, the heading of the options, and the text between options.
        question: Text of the question.
        options: Texts of the options, in the order to show.
        labels: Label of each option, such as `("A", "B")`; empty for options without labels.
        words: What `{words}` in the form of the question stands for.
    """
    question_text = word_question(layout.question, question, labels, words)
    if not layout.option:
        return question_text + layout.stop
    heading = layout.heading
    if heading and not heading[-1].isspace():
        heading += " "
    return question_text + heading + list_options(layout, options, labels)


def list_options(layout: Layout, options: tuple[str, ...], labels: tuple[str, ...]) -> str:
    """Return options as the text to show, without their heading: `(A) Yes; (B) No.`

    Args:
        layout: Form of a label, and the text between and after the options.
        options: Texts of the options, in the order to show.
        labels: Label of each option; empty for options without labels.
    """
    texts: list[str] = []
    if labels:
        for label, option in zip(labels, options, strict=False):
            shown_label = layout.label.format(label=label)
            texts.append(layout.option.format(label=shown_label, option=option))
    else:
        texts.extend(options)
    return layout.separator.join(texts) + layout.stop


def word_question(form: str, question: str, labels: tuple[str, ...] = (), words: str = "") -> str:
    """Return a question in a layout's wording: `Question: Can you see it?`"""
    return form.format(
        question=question,
        capitalized=question.capitalize(),
        letters=", ".join(labels),
        words=words,
    )


def write_reply(layout: Layout, label: str, option: str) -> str:
    """Return a well-formed reply: `The answer is (A) Yes.`"""
    return layout.reply.format(label=label, option=option)


def _text_message(role: Role, text: str) -> Message:
    return Message(role, (TextPart(text),))
