"""Messages to prompt text, by the model's own chat template or a format in `formats.toml`.

The separator between the assistant header and a reply (a space after "ASSISTANT:", nothing after
"<|assistant|>") is derived from the template: a rendered reply is compared with the generation prompt.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

from snellen.models.thoughts import THOUGHTS
from snellen.records import ImagePart, ImageRef, Message, TextPart

OPENING = "([{<\"'\u2018\u201c\u00ab/-"
"""A reply that continues after one of these is not preceded by a space."""
_MARK = "xreplyx"


class PromptFormat(msgspec.Struct, frozen=True):
    """The prompt format of a model without a chat template; formats.toml explains the fields."""

    user: str
    image: str
    join: str
    between: str
    added: str = ""

    def turn(self, images: int, token: str, text: str) -> str:
        placeholders = self.image.replace("{token}", token) * images
        return self.user.replace("{image}", placeholders).replace("{text}", text)


@cache
def formats() -> dict[str, PromptFormat]:
    """The formats by model type; `plain` is for all others."""
    text = (files(__package__) / "formats.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, PromptFormat])


def control_tokens(tokenizer: Any, *others: str) -> tuple[str, ...]:
    """The tokens that a tokenizer does not read as text, and `others`; the longest first."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    named = {*map(str, tokenizer.all_special_tokens), *(str(token) for token in added if token.special), *others}
    return tuple(sorted((token for token in named if len(token) > 1), key=lambda token: (-len(token), token)))


def without_control_tokens(text: str, tokens: Sequence[str]) -> str:
    """Text that cannot be mistaken for control tokens: `<image>` becomes `< image>`."""
    for token in tokens:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


CLOSED = "the template opens a thought, which was closed empty before the continuations"


@dataclass(frozen=True)
class ChatPrompt:
    """Prompt text up to where the reply begins, with a placeholder for each image."""

    text: str
    images: tuple[ImageRef, ...]
    join: str
    """The separator between `text` and the first word of the reply."""
    added: str = ""
    """What the processor itself appends to `text`."""
    notes: tuple[str, ...] = ()
    """How the prompt differs from what the template writes."""

    def with_reply(self, continuation: str) -> str:
        """The full text if the reply is `continuation`."""
        join = "" if continuation[:1].isspace() else self.join
        return self.text + self.added + join + continuation


class Conversation:
    """Writes prompts for one model."""

    def __init__(
        self, processor: Any, model_type: str = "", template_options: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """`template_options` are passed to the chat template, such as `enable_thinking`."""
        self._template_options = template_options
        tokenizer = getattr(processor, "tokenizer", processor)
        self._template = getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)
        if isinstance(self._template, dict):
            self._template = self._template.get("default") or next(iter(self._template.values()))
        self._render = processor if hasattr(processor, "apply_chat_template") else tokenizer
        self._format = formats().get(model_type, formats()["plain"])
        self._placeholder = str(getattr(processor, "image_token", None) or "<image>")
        self._specials = control_tokens(tokenizer, self._placeholder)
        self._as_parts = bool(self._template) and self._takes_parts()
        self.join = self._read_join() if self._template else self._format.join
        format_name = model_type if model_type in formats() else "plain"
        self.name = "chat template" if self._template else f"format {format_name}"
        """Where the prompts come from, for the run's manifest."""
        self.notes = ("no chat template: plain User/Assistant format",) if self.name == "format plain" else ()

    @property
    def oddities(self) -> tuple[str, ...]:
        """What the template does to replies that is undone where it matters; for one line when a model is loaded."""
        if not self._template:
            return ()
        question, blank = Message("user", (TextPart("x"),)), Message("assistant", (TextPart(f"{_MARK} "),))
        found = []
        if self.opened_thought:
            found.append("opens a thought, which is closed empty before options are scored but not before replies")
        try:
            if not self._render_messages((question, blank), continued=True).endswith(f"{_MARK} "):
                found.append("trims opened replies, to which their blank is given back")
        except ValueError:
            found.append("refuses opened replies, so that requests with one fail")
        return tuple(found)

    def write(self, messages: Sequence[Message]) -> ChatPrompt:
        """The prompt for `messages`; a final assistant message is left open."""
        continued = messages[-1].role == "assistant"
        join, added = self.join, "" if self._template else self._format.added
        if continued:
            opening = messages[-1].text
            join = "" if not opening or opening[-1].isspace() or opening[-1] in OPENING else " "
        images = tuple(part.image for message in messages for part in message.content if isinstance(part, ImagePart))
        text = self._by_template(messages, continued) if self._template else self._by_format(messages)
        return ChatPrompt(text, images, join, added)

    def write_scored(self, messages: Sequence[Message]) -> ChatPrompt:
        """The prompt before continuations that are scored: outside a thought, even if the template opens one.

        The thought is left empty: "<think>", a blank line, "</think>", a blank line, as Qwen3's template writes it
        when it is told not to think.
        """
        prompt = self.write(messages)
        if closing := self._thought(prompt.text):
            return replace(prompt, text=f"{prompt.text.rstrip()}\n\n{closing}\n\n", join="", notes=(CLOSED,))
        return prompt

    @cached_property
    def opened_thought(self) -> str:
        """What closes the thought that the template opens before a reply; empty if it opens none."""
        return self._thought(self.write((Message("user", (TextPart("x"),)),)).text)

    @staticmethod
    def _thought(text: str) -> str:
        """What closes the thought that a prompt ends with; empty if it ends with none."""
        return next((closing for opening, closing in THOUGHTS if text.rstrip().endswith(opening)), "")

    def as_text(self, text: str) -> str:
        """`text` as prompts and continuations have it, without control tokens."""
        return without_control_tokens(text, self._specials)

    def _by_template(self, messages: Sequence[Message], continued: bool) -> str:
        text = self._render_messages(messages, continued)
        if continued and messages[-1].text.strip():
            # A template that trims would glue "The answer is " and the reply together.
            opening = self.as_text(messages[-1].text)
            text = text.rstrip() + opening[len(opening.rstrip()) :]
        return text

    def _render_messages(self, messages: Sequence[Message], continued: bool) -> str:
        return self._apply(
            [{"role": message.role, "content": self._content(message)} for message in messages], continued
        )

    def _apply(self, messages: list[dict[str, Any]], continued: bool, opened: bool = True) -> str:
        """Render the template; `opened` adds the assistant header unless the last message is to be continued.

        Raises ValueError where the template refuses the conversation.
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
        except TemplateError as error:
            raise ValueError(f"the chat template refuses the conversation: {error}") from error
        return text

    def _content(self, message: Message) -> list[dict[str, str]] | str:
        if self._as_parts:
            return [
                {"type": "text", "text": self.as_text(part.text)} if isinstance(part, TextPart) else {"type": "image"}
                for part in message.content
            ]
        return self._flat(message)

    def _flat(self, message: Message) -> str:
        """Text with placeholders for images, each image on a line of its own."""
        return "".join(
            self.as_text(part.text) if isinstance(part, TextPart) else f"{self._placeholder}\n"
            for part in message.content
        )

    def _by_format(self, messages: Sequence[Message]) -> str:
        form, text = self._format, ""
        for i, message in enumerate(messages):
            spoken = self.as_text(message.text)
            if message.role == "user":
                images = sum(isinstance(part, ImagePart) for part in message.content)
                text += form.turn(images, self._placeholder, spoken)
            else:
                text += (form.join if message.role == "assistant" else "") + spoken
                text += form.between if i < len(messages) - 1 else ""
        return text

    def _takes_parts(self) -> bool:
        """Whether the template wants content as a list of parts, or as one string."""
        probe = [{"role": "user", "content": [{"type": "text", "text": _MARK}]}]
        try:
            text = self._apply(probe, continued=False)
        except (TypeError, ValueError):
            return False
        return _MARK in text and "'type'" not in text and '"type"' not in text

    def _read_join(self) -> str:
        exchange = [Message("user", (TextPart("x"),)), Message("assistant", (TextPart(_MARK),))]
        prompt, replied = (
            [{"role": m.role, "content": self._content(m)} for m in messages] for messages in (exchange[:1], exchange)
        )
        opened = self._apply(prompt, continued=False)
        try:
            rendered = self._apply(replied, continued=False, opened=False)
        except ValueError:  # it refuses replies, so nothing says what comes before one
            return ""
        before = rendered[: rendered.rfind(_MARK)]
        return before[len(opened) :] if before.startswith(opened) else ""
