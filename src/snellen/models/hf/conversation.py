"""Write messages as prompt text, with the model's own chat template or a format in `formats.toml`.

The separator between the assistant header and a reply (a space after "ASSISTANT:", nothing after "<|assistant|>") is
derived from the template, by comparing a rendered reply with the generation prompt. How a template renders one reply
does not determine how it renders another one, so each scored text is looked up in the complete conversation
(`Conversation.finish`).
"""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

from snellen.extraction.thoughts import THOUGHTS, split_thoughts
from snellen.models.template_dates import DEFAULT_DATE, asks_for_date, chance_in, with_date
from snellen.records import ImagePart, ImageRef, Message, Part, Role, TextPart

OPENING = "([{<\"'\u2018\u201c\u00ab/-"
"""After one of these characters, a continued reply is not preceded by a space."""
_MARK = "xreplyx"
EMPTY_THOUGHT = re.compile(
    "|".join(rf"{re.escape(opening)}\s*{re.escape(closing)}\s*" for opening, closing in THOUGHTS)
)
"""A thought without text, as templates write it for a model that does not think."""


class PromptFormat(msgspec.Struct, frozen=True):
    """The prompt format of a model without a chat template; formats.toml explains the fields."""

    user: str
    image: str
    join: str
    between: str
    added: str = ""

    def turn(self, images: int, token: str, text: str) -> str:
        """Return a user's message: `text` after `images` placeholders, in which `token` stands for an image."""
        placeholder = self.image.replace("{token}", token)
        return self.user.replace("{image}", placeholder * images).replace("{text}", text)


@cache
def formats() -> dict[str, PromptFormat]:
    """Return the formats by model type; `plain` is for all others."""
    text = (files("snellen.models.hf") / "formats.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, PromptFormat])


def control_tokens(tokenizer: Any, *more: str) -> tuple[str, ...]:
    """Return the tokens that have a special meaning for a model, such as `<image>`, the longest first.

    They are the tokenizer's special tokens and those in `more`.
    """
    tokens = {str(token) for token in tokenizer.all_special_tokens}
    for token in getattr(tokenizer, "added_tokens_decoder", {}).values():
        if token.special:
            tokens.add(str(token))
    tokens.update(more)
    long_tokens = [token for token in tokens if len(token) > 1]
    return tuple(sorted(long_tokens, key=lambda token: (-len(token), token)))


def without_control_tokens(text: str, tokens: Sequence[str]) -> str:
    """Return the text changed so that it contains no control tokens: `<image>` becomes `< image>`."""
    for token in tokens:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


THOUGHTLESS = "the template opens a thought, which is empty or missing in the finished talk that continuations are scored in"


@dataclass(frozen=True)
class Clip:
    """Frames to be given to a model as one video, in order of their times."""

    frames: tuple[ImageRef, ...]

    @property
    def times(self) -> tuple[float, ...]:
        """Times from the clip's beginning in seconds, ascending."""
        return tuple(frame.time if frame.time else 0.0 for frame in self.frames)


def with_clips(content: Sequence[Part]) -> Iterator[Part | Clip]:
    """Yield the parts of a message, in which consecutive frames of a video are joined to one clip.

    Frames are images with a time. A clip ends at a text, at an image without a time, and at a frame
    that is not later than the last one. A single frame stays an image.
    """
    frames: list[ImageRef] = []
    for part in (*content, None):  # None ends the last clip
        image = part.image if isinstance(part, ImagePart) else None
        time = None if image is None else image.time
        if frames:
            last_time = frames[-1].time or 0.0
            if time is None or time <= last_time:
                yield Clip(tuple(frames)) if len(frames) > 1 else ImagePart(frames[0])
                frames = []
        if image is not None and time is not None:
            frames.append(image)
        elif part is not None:
            yield part


@dataclass(frozen=True)
class ChatPrompt:
    """Prompt text up to the beginning of the reply, with a placeholder for each image and each clip."""

    text: str
    images: tuple[ImageRef, ...]
    join: str
    """The separator between `text` and the first word of the reply."""
    added: str = ""
    """Text that the processor itself appends to `text`."""
    notes: tuple[str, ...] = ()
    """How the prompt differs from what the template writes."""
    clips: tuple[Clip, ...] = ()
    """Clips given as video. Their frames are not in `images`."""
    finished: str | None = None
    """The text that a complete conversation has instead of `text`, if it is different; None if it is the same."""

    def with_reply(self, continuation: str) -> str:
        """Return the full text with `continuation` as the reply."""
        return self.text + self.added + self.joined(continuation)

    def joined(self, continuation: str) -> str:
        """Return `continuation` with its separator from the prompt."""
        return continuation if continuation[:1].isspace() else self.join + continuation


class Conversation:
    """Writes prompts for one model.

    Args:
        processor: The model's processor.
        model_type: Type of the model, which selects a format if there is no chat template.
        template_options: Options for the chat template, such as `enable_thinking`.
        clips_as_video: Whether to give clips as video, if processor and template support it.
        date: Date that the template writes as today's.
    """

    def __init__(
        self,
        processor: Any,
        model_type: str = "",
        template_options: Mapping[str, Any] = MappingProxyType({}),
        *,
        clips_as_video: bool = True,
        date: datetime.date = DEFAULT_DATE,
    ) -> None:
        self._template_options = template_options
        tokenizer = getattr(processor, "tokenizer", processor)
        self._template = getattr(processor, "chat_template", None) or getattr(
            tokenizer, "chat_template", None
        )
        if isinstance(self._template, dict):
            self._template = self._template.get("default") or next(iter(self._template.values()))
        self.chance = chance_in(self._template)
        """What makes the template's output random; empty if nothing does."""
        self.date = date if asks_for_date(self._template) else None
        """Date given to the template; None if it does not ask for one."""
        if self._template and self.date:
            self._template, dates = with_date(self._template, self.date)
            self._template_options = {**dates, **template_options}
        self._render = processor if hasattr(processor, "apply_chat_template") else tokenizer
        self.complete = bool(self._template) and self._render is tokenizer
        """Whether prompts contain all special tokens, because the tokenizer's own template writes them."""
        self._format = formats().get(model_type, formats()["plain"])
        self._placeholder = str(getattr(processor, "image_token", None) or "<image>")
        video_token = str(getattr(processor, "video_token", None) or "")
        self._specials = control_tokens(tokenizer, self._placeholder, video_token)
        self._as_parts = self._read_forms() if self._template else {}
        self.takes_video = getattr(
            processor, "video_processor", None
        ) is not None and self._writes_video(video_token)
        """Whether clips can be given as video: the processor reads video, and the template has a placeholder for it."""
        self._joins_frames = self.takes_video and clips_as_video
        self.join = self._read_join() if self._template else self._format.join
        format_name = model_type if model_type in formats() else "plain"
        self.name = "chat template" if self._template else f"format {format_name}"
        """Source of the prompt format, for the run's manifest."""
        self.notes = (
            ("no chat template: plain User/Assistant format",)
            if self.name == "format plain"
            else ()
        )

    @property
    def has_template(self) -> bool:
        """Whether the processor or the tokenizer has a chat template."""
        return bool(self._template)

    @property
    def oddities(self) -> tuple[str, ...]:
        """Changes that the template makes to replies, shown in one line when a model is loaded."""
        if not self._template:
            return ()
        question = Message("user", (TextPart("x"),))
        opened_reply = Message("assistant", (TextPart(f"{_MARK} "),))
        oddities = []
        if self.opened_thought:
            oddities.append(
                "opens a thought before replies, which is empty or missing where options are scored"
            )
        try:
            text = self._render_messages((question, opened_reply), continued=True)
            if not text.endswith(f"{_MARK} "):
                oddities.append("trims opened replies, to which their blank is given back")
        except ValueError:
            oddities.append("refuses opened replies, so that requests with one fail")
        try:
            prompt = self.write_scored((question,))
            self.finish((question,), prompt, "An Answer")
        except ValueError:
            oddities.append(
                "writes replies otherwise than its prompts begin them, so that options cannot be scored"
            )
        return tuple(oddities)

    def write(self, messages: Sequence[Message]) -> ChatPrompt:
        """Return the prompt for a conversation. If it ends with an assistant message, the reply continues it."""
        join = self._join_of(messages)
        if not self._template:
            text = self._by_format(messages)
            return self._prompt(messages, text, join, added=self._format.added)
        is_opened_reply = messages[-1].role == "assistant"
        text = self._by_template(messages, is_opened_reply)
        return self._prompt(messages, text, join)

    def _prompt(self, messages: Sequence[Message], text: str, join: str, **more: Any) -> ChatPrompt:
        """Return a prompt with this text, and with the images and clips of the messages.

        Args:
            messages: The messages.
            text: The text of the prompt.
            join: The separator between it and the reply.
            more: Further fields of `ChatPrompt`.
        """
        images = []
        clips = []
        for message in messages:
            for part in self._parts(message):
                if isinstance(part, ImagePart):
                    images.append(part.image)
                elif isinstance(part, Clip):
                    clips.append(part)
        return ChatPrompt(text, tuple(images), join, clips=tuple(clips), **more)

    def _parts(self, message: Message) -> Sequence[Part | Clip]:
        """Return the parts of a message, with frames joined to clips if the model is given video."""
        if self._joins_frames:
            return tuple(with_clips(message.content))
        return message.content

    def _join_of(self, messages: Sequence[Message]) -> str:
        """Return the text between the prompt of a conversation and its reply, such as a space; it may be empty."""
        if messages[-1].role != "assistant":
            return self.join
        opening = messages[-1].text
        if not opening or opening[-1].isspace() or opening[-1] in OPENING:
            return ""
        return " "

    def write_scored(self, messages: Sequence[Message]) -> ChatPrompt:
        """Return the prompt before continuations that are scored.

        With a chat template, this is the beginning of the complete conversation, up to where a
        reply stands. It may differ from the prompt before a generated reply by an empty piece of
        reasoning (`<think></think>`). Then the prompt before a reply is used, so that options
        follow the same header as replies. If the template begins reasoning before replies, that
        beginning is left out.

        Raises ValueError if the template changes or drops replies, so that they cannot be found in
        its output.
        """
        if not self._template:
            return self.write(messages)
        continued = messages[-1].role == "assistant"
        marked_reply = messages[-1].text + _MARK if continued else _MARK
        talk = _answered(messages, marked_reply)
        rendered = self._render_messages(talk, continued=False, opened=False)
        before, mark, _ = rendered.rpartition(_MARK)
        if not mark:
            raise ValueError(
                "continuations cannot be scored: the chat template changes or drops replies"
            )
        self._require_content(before, messages)
        if continued:
            return self._prompt(messages, before, self._join_of(messages), notes=())
        if self.opened_thought:
            notes: tuple[str, ...] = (THOUGHTLESS,)
        else:
            notes = ()
            prompt = self.write(messages)
            if _differ_by_empty_thought(prompt.text, before):
                return self._prompt(messages, prompt.text, "", finished=before)
        text = before.rstrip(" ")
        join = before[len(text) :]
        return self._prompt(messages, text, join, notes=notes)

    @cached_property
    def opened_thought(self) -> str:
        """The mark that ends reasoning, such as `</think>`, if the template begins reasoning before each reply.

        Empty if it does not.
        """
        question = Message("user", (TextPart("x"),))
        prompt = self.write((question,)).text.rstrip()
        for opening, closing in THOUGHTS:
            if prompt.endswith(opening):
                return closing
        return ""

    def finish(self, messages: Sequence[Message], prompt: ChatPrompt, reply: str) -> str:
        """Return the complete conversation, as the chat template writes it, with `reply` as its last message.

        Args:
            messages: The messages before the reply.
            prompt: The prompt that `write_scored` returned for them.
            reply: The reply.

        Raises:
            ValueError: The result does not begin with the prompt and the reply. The scored tokens
                would then not be those that the model was trained on.
        """
        shown_talk = prompt.with_reply(self.as_text(reply))
        if not self._template:
            return shown_talk
        joined = prompt.joined(reply)
        if messages[-1].role == "assistant":
            last_message = messages[-1].text + joined
        else:
            last_message = joined.removeprefix(prompt.join)
        talk = _answered(messages, last_message)
        finished = self._render_messages(talk, continued=False, opened=False)
        if prompt.finished is not None and finished.startswith(prompt.finished):
            finished = prompt.text + finished.removeprefix(prompt.finished)
        if not finished.startswith(shown_talk):
            raise ValueError(
                f"{_shortened(reply)!r} cannot be scored: in a complete conversation, the chat template changes "
                "the reply or the text before it"
            )
        return finished

    def as_text(self, text: str) -> str:
        """Return `text` as it appears in prompts and continuations, without control tokens."""
        return without_control_tokens(text, self._specials)

    def _by_template(self, messages: Sequence[Message], continued: bool) -> str:
        """Return the prompt for `messages` by the chat template. `continued` leaves the last message open."""
        text = self._render_messages(messages, continued)
        self._require_content(text, messages)
        if continued and messages[-1].text.strip():
            # A template that trims would glue "The answer is " and the reply together.
            opening = self.as_text(messages[-1].text)
            trailing_space = opening[len(opening.rstrip()) :]
            text = text.rstrip() + trailing_space
        return text

    def _require_content(self, text: str, messages: Sequence[Message]) -> None:
        """Raise ValueError unless `text` contains all content of `messages`; earlier thoughts may be missing."""
        for message in messages:
            for part in message.content:
                if not isinstance(part, TextPart):
                    continue
                content = part.text
                if message.role == "assistant":
                    content = split_thoughts(content).answer
                if self.as_text(content).strip() not in text:
                    raise ValueError(
                        f"the chat template drops or changes the {message.role} message {_shortened(content)!r}"
                    )

    def _render_messages(
        self, messages: Sequence[Message], continued: bool, opened: bool = True
    ) -> str:
        """Return the text that the model's chat template writes for messages.

        Args:
            messages: The messages.
            continued: Whether the last message is the beginning of a reply, which the model continues.
            opened: Whether to open a reply after the last message.
        """
        conversation: list[dict[str, Any]] = []
        for message in messages:
            conversation.append({"role": message.role, "content": self._content(message)})
        return self._apply(conversation, continued, opened)

    def _apply(self, messages: list[dict[str, Any]], continued: bool, opened: bool = True) -> str:
        """Render the template. `opened` adds the assistant header unless the last message is to be continued.

        Raises ValueError if the template rejects the conversation.
        """
        from jinja2 import TemplateError

        try:
            text: str = self._render.apply_chat_template(
                messages,
                chat_template=self._template,
                tokenize=False,
                add_generation_prompt=opened and not continued,
                continue_final_message=continued,
                **self._template_options,
            )
        except (TemplateError, TypeError) as error:
            raise ValueError(f"the chat template rejects the conversation: {error}") from error
        return text

    def _content(self, message: Message) -> list[dict[str, str]] | str:
        """Return the content of a message in the form that the template takes: a list of parts, or one string."""
        if not self._as_parts[message.role]:
            return self._flat(message)
        parts = []
        for part in self._parts(message):
            if isinstance(part, TextPart):
                parts.append({"type": "text", "text": self.as_text(part.text)})
            elif isinstance(part, Clip):
                parts.append({"type": "video"})
            else:
                parts.append({"type": "image"})
        return parts

    def _flat(self, message: Message) -> str:
        """Return a message as text with placeholders for images, each image on its own line."""
        text = ""
        for part in message.content:
            if isinstance(part, TextPart):
                text += self.as_text(part.text)
            else:
                text += f"{self._placeholder}\n"
        return text

    def _by_format(self, messages: Sequence[Message]) -> str:
        """Return the prompt for `messages` in a format of `formats.toml`."""
        text = ""
        for i, message in enumerate(messages):
            content = self.as_text(message.text)
            if message.role == "user":
                images = sum(isinstance(part, ImagePart) for part in message.content)
                text += self._format.turn(images, self._placeholder, content)
                continue
            if message.role == "assistant":
                text += self._format.join
            text += content
            if i < len(messages) - 1:
                text += self._format.between
        return text

    def _read_forms(self) -> dict[Role, bool]:
        """Return by role whether the template takes content as a list of parts, rather than as one string.

        It may differ by role: a user's turn has images, while an assistant's content may be added to another string.
        """
        forms: dict[Role, bool] = {}
        turns: tuple[tuple[Role, tuple[Role, ...]], ...] = (
            ("user", ("user",)),
            ("assistant", ("user", "assistant")),
            ("system", ("system", "user")),
        )
        for role, talk in turns:
            likely = forms.get("user", True)
            # If neither keeps the text, a string is used, whose changes are noticed later.
            forms[role] = False
            for as_parts in (likely, not likely):
                if self._keeps_text(talk, role, {**forms, role: as_parts}):
                    forms[role] = as_parts
                    break
        return forms

    def _writes_video(self, token: str) -> bool:
        """Return whether the template writes the placeholder of a video once into the user's turn."""
        if not token or not self._as_parts.get("user"):
            return False
        content = [{"type": "video"}, {"type": "text", "text": _MARK}]
        try:
            text = self._apply([{"role": "user", "content": content}], False)
        except ValueError:
            return False
        return text.count(token) == 1

    def _keeps_text(self, talk: Sequence[Role], role: Role, as_parts: Mapping[Role, bool]) -> bool:
        """Return whether the template writes the text of `role` in a conversation, and not the list that contains it.

        Args:
            talk: The roles of the messages.
            role: The role whose text is checked.
            as_parts: By role, whether content is given as a list of parts.
        """
        marked_part = {"type": "text", "text": _MARK}
        messages = []
        for name in talk:
            part = marked_part if name == role else {"type": "text", "text": "x"}
            messages.append({"role": name, "content": [part] if as_parts[name] else part["text"]})
        try:
            text = self._apply(messages, continued=False, opened=talk[-1] == "user")
        except ValueError:
            return False
        writes_list = str(marked_part) in text or json.dumps(marked_part) in text
        return _MARK in text and not writes_list

    def _read_join(self) -> str:
        """Return the separator that the template writes between its header and a reply; empty if unknown."""
        question = Message("user", (TextPart("x"),))
        marked_reply = Message("assistant", (TextPart(_MARK),))
        try:
            prompt = self._render_messages((question,), continued=False)
            finished = self._render_messages(
                (question, marked_reply), continued=False, opened=False
            )
        except ValueError:  # the template rejects replies
            return ""
        # "USER: x ASSISTANT:" as a prompt, and "USER: x ASSISTANT: MARK" finished, have a blank between them.
        before_reply, mark, _ = finished.rpartition(_MARK)
        writes_reply = bool(mark)
        header_is_prompts = before_reply.startswith(prompt)
        if not (writes_reply and header_is_prompts):
            return ""
        return before_reply.removeprefix(prompt)


def _differ_by_empty_thought(opened: str, finished: str) -> bool:
    """Return whether two prompts differ, but only by empty thoughts and white space around them."""
    if finished.startswith(opened) and not finished.removeprefix(opened).strip():
        return False
    if opened.rstrip() == finished.rstrip():
        return False
    opened_without = EMPTY_THOUGHT.sub("", opened).rstrip()
    finished_without = EMPTY_THOUGHT.sub("", finished).rstrip()
    return opened_without == finished_without


def _answered(messages: Sequence[Message], reply: str) -> tuple[Message, ...]:
    """Return `messages` with `reply` as the last one, in place of a reply that was opened."""
    before = messages[:-1] if messages[-1].role == "assistant" else messages
    return (*before, Message("assistant", (TextPart(reply),)))


def _shortened(text: str) -> str:
    """Return at most 60 characters of a text."""
    return text if len(text) <= 60 else f"{text[:57]}..."
