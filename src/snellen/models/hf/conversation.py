"""Messages to prompt text: by the model's own chat template, or by a plain format when it has none.

What stands between the opened assistant turn and a reply ("ASSISTANT:" takes a blank, "<|assistant|>"
takes nothing) is read off the template: a rendered reply is compared with the generation prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snellen.records import ImagePart, ImageRef, Message, TextPart

OPENING = "([{<\"'\u2018\u201c\u00ab/-"
"""A reply that goes on after one of these is not set off by a blank."""
_MARK = "xreplyx"


@dataclass(frozen=True)
class Prompt:
    """Prompt text up to where the reply begins, with a placeholder for each image."""

    text: str
    images: tuple[ImageRef, ...]
    join: str
    """What stands between `text` and the first word of the reply."""
    notes: tuple[str, ...] = ()

    def joined(self, continuation: str) -> str:
        """The text that follows the prompt when the reply is `continuation`."""
        return continuation if continuation[:1].isspace() else self.join + continuation


class Conversation:
    """Writes prompts for one model."""

    def __init__(self, processor: Any) -> None:
        tokenizer = getattr(processor, "tokenizer", processor)
        self._processor = processor
        self._template = getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)
        if isinstance(self._template, dict):
            self._template = self._template.get("default") or next(iter(self._template.values()))
        self._render = processor if hasattr(processor, "apply_chat_template") else tokenizer
        self.placeholder: str = getattr(processor, "image_token", None) or "<image>"
        self._specials = sorted({*tokenizer.all_special_tokens, self.placeholder}, key=len, reverse=True)
        self._as_parts = bool(self._template) and self._takes_parts()
        self.join = self._read_join() if self._template else " "
        self.notes = () if self._template else ("no chat template: plain User/Assistant format",)

    def write(self, messages: Sequence[Message]) -> Prompt:
        """The prompt for `messages`; an assistant message that comes last is left open."""
        continued = messages[-1].role == "assistant"
        join = self.join
        if continued:
            said = messages[-1].text
            join = "" if not said or said[-1].isspace() or said[-1] in OPENING else " "
        images = tuple(part.image for message in messages for part in message.content if isinstance(part, ImagePart))
        text = self._by_template(messages, continued) if self._template else self._plainly(messages, continued)
        return Prompt(text, images, join, self.notes)

    def _by_template(self, messages: Sequence[Message], continued: bool) -> str:
        said = [{"role": message.role, "content": self._content(message)} for message in messages]
        return self._apply(said, continued)

    def _apply(self, messages: list[dict[str, Any]], continued: bool, opened: bool = True) -> str:
        """Render; `opened` adds the assistant's header unless the last message is to be continued."""
        text: str = self._render.apply_chat_template(
            messages,
            chat_template=self._template,
            tokenize=False,
            add_generation_prompt=opened and not continued,
            continue_final_message=continued,
        )
        return text

    def _content(self, message: Message) -> list[dict[str, str]] | str:
        if self._as_parts:
            return [
                {"type": "text", "text": self._harmless(part.text)} if isinstance(part, TextPart) else {"type": "image"}
                for part in message.content
            ]
        return self._flat(message)

    def _flat(self, message: Message) -> str:
        """Text with placeholders for images, each image on a line of its own."""
        return "".join(
            self._harmless(part.text) if isinstance(part, TextPart) else f"{self.placeholder}\n"
            for part in message.content
        )

    def _harmless(self, text: str) -> str:
        """Text whose words cannot be taken for control tokens: `<image>` becomes `< image>`."""
        for token in self._specials:
            if len(token) > 1 and token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

    def _plainly(self, messages: Sequence[Message], continued: bool) -> str:
        names = {"user": "User: ", "assistant": "Assistant: ", "system": ""}
        text = "\n".join(names[message.role] + self._flat(message) for message in messages)
        return text if continued else f"{text}\nAssistant:"

    def _takes_parts(self) -> bool:
        """Whether the template wants content as a list of parts, or as one string."""
        from jinja2 import TemplateError

        probe = [{"role": "user", "content": [{"type": "text", "text": _MARK}]}]
        try:
            text = self._apply(probe, continued=False)
        except (TemplateError, TypeError, ValueError):
            return False
        return _MARK in text and "'type'" not in text and '"type"' not in text

    def _read_join(self) -> str:
        said = [Message("user", (TextPart("x"),)), Message("assistant", (TextPart(_MARK),))]
        asked, replied = ([{"role": m.role, "content": self._content(m)} for m in part] for part in (said[:1], said))
        opened = self._apply(asked, continued=False)
        whole = self._apply(replied, continued=False, opened=False)
        before = whole[: whole.rfind(_MARK)]
        return before[len(opened) :] if before.startswith(opened) else ""
