"""Put together a chat completion that arrives in parts (server-sent events).

The result is the same completion that the server would have sent in one piece.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.extraction.thoughts import split_thoughts
from snellen.formats.json_files import JSON_FAULTS, decode_whole
from snellen.models.base import ReplyListener
from snellen.models.connections import HttpReply

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
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Part(Struct, frozen=True):
    choices: tuple[_PartialChoice, ...] = ()
    error: msgspec.Raw = msgspec.Raw(b"null")


_read_part = msgspec.json.Decoder(_Part).decode


class ChatStream:
    """The parts of a streamed reply that have arrived so far.

    A server that does not stream sends the reply in one piece, which is returned as it is.
    """

    def __init__(self, listener: ReplyListener) -> None:
        self._listener = listener
        self._line = b""
        """Bytes after the last line break."""
        self._texts: dict[str, str] = {}
        """The texts so far, by the field of a reply that they belong to."""
        self._finish: str | None = None
        self._error: msgspec.Raw | None = None
        self._fault = ""
        self._ended = False

    def watch(self, part: bytes) -> None:
        """Take the next bytes of the reply, and tell the listener the text so far if there is new text.

        The bytes may begin and end anywhere, even within a character.
        """
        *lines, self._line = (self._line + part).split(b"\n")
        before = self._texts.get("content")
        for line in lines:
            if line.startswith(EVENT):
                self._take(line.removeprefix(EVENT).strip())
        if self._texts.get("content") != before:
            self._listener(split_thoughts(self._texts["content"]).answer)

    def _take(self, event: bytes) -> None:
        """Take one event of the stream: a piece of the reply, an error, or the mark of the end."""
        if event == DONE:
            self._ended = True
            return
        try:
            part, _ = decode_whole(event, _read_part)
        except JSON_FAULTS as error:
            self._fault = f"an event of the stream cannot be read: {error}"
            return
        if bytes(part.error) != b"null":
            self._error = part.error
        if not part.choices:
            return
        choice = part.choices[0]
        if bytes(choice.error) != b"null":
            self._error = choice.error
        for name in _Delta.__struct_fields__:
            text = getattr(choice.delta, name)
            if text:
                self._texts[name] = self._texts.get(name, "") + text
        self._finish = choice.finish_reason or self._finish

    def assemble(self, reply: HttpReply) -> HttpReply:
        """Return the reply as if the server had sent it in one piece.

        A reply that was not streamed is returned unchanged. If the stream broke off, the result is
        not a chat completion, so reading it gives a fault.
        """
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
