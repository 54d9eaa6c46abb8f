"""A chat completion that comes in parts (server-sent events), put together to the one that would have come whole."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.formats.decoding import JSON_FAULTS
from snellen.models.base import ReplyListener
from snellen.models.connections import HttpReply
from snellen.models.thoughts import split_thoughts

EVENT = b"data:"
DONE = b"[DONE]"


class _Delta(Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _PartialChoice(Struct, frozen=True):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Part(Struct, frozen=True):
    choices: tuple[_PartialChoice, ...] = ()
    error: msgspec.Raw = msgspec.Raw(b"null")


class ChatStream:
    """What has come of one reply. A server that does not stream sends it whole, and is heard all the same."""

    def __init__(self, listener: ReplyListener) -> None:
        self._listener = listener
        self._line, self._texts = b"", dict[str, str]()
        self._finish: str | None = None
        self._error: msgspec.Raw | None = None
        self._fault = ""
        self._ended = False

    def watch(self, part: bytes) -> None:
        """Take the next bytes, wherever they are cut, and tell the listener what there is of the answer now."""
        *lines, self._line = (self._line + part).split(b"\n")
        before = self._texts.get("content")
        for line in lines:
            if line.startswith(EVENT):
                self._take(line.removeprefix(EVENT).strip())
        if self._texts.get("content") != before:
            self._listener(split_thoughts(self._texts["content"]).answer)

    def _take(self, event: bytes) -> None:
        if event == DONE:
            self._ended = True
            return
        try:
            part = msgspec.json.decode(event, type=_Part)
        except JSON_FAULTS as error:
            self._fault = f"an event of the stream cannot be read: {error}"
            return
        if bytes(part.error) != b"null":
            self._error = part.error
        for choice in part.choices[:1]:
            for name in _Delta.__struct_fields__:
                if text := getattr(choice.delta, name):
                    self._texts[name] = self._texts.get(name, "") + text
            self._finish = choice.finish_reason or self._finish

    def whole(self, reply: HttpReply) -> HttpReply:
        """The reply as if it had come whole; unchanged where it was no stream. One that broke off is malformed."""
        is_stream = reply.headers.get("content-type", "").startswith("text/event-stream")
        if reply.status != HTTPStatus.OK or not is_stream:
            return reply
        body: dict[str, Any]
        if self._error is not None:
            body = {"error": self._error}
        elif self._fault or not (self._ended or self._finish):
            body = {"malformed": self._fault or "the stream ended before the reply did"}
        else:
            body = {"choices": [{"message": self._texts, "finish_reason": self._finish}]}
        return replace(reply, body=msgspec.json.encode(body))
