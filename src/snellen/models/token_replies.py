"""Read the replies of servers that turn text into token ids, or token ids into text. No I/O."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from snellen.formats.json_files import JSON_FAULTS
from snellen.models import chat
from snellen.models.connections import HttpReply
from snellen.models.served import OK
from snellen.models.server_faults import ServerFault, no_completion


class _Tokens(Struct):
    tokens: list[int]


class _TextOfVllm(Struct):
    prompt: str


class _TextOfSglang(Struct):
    text: str


def read_tokens(reply: HttpReply, now: float) -> tuple[int, ...] | ServerFault:
    """Return the token ids in the reply of a server that tokenised a prompt or a conversation.

    Returns a fault if the server reports an error, or if the reply has no list `tokens`.
    """
    if reply.status != OK:
        return chat.read_fault(reply, now)
    try:
        return tuple(msgspec.json.decode(reply.body, type=_Tokens).tokens)
    except JSON_FAULTS as error:
        return no_completion(reply.body, error)


def read_token_text(reply: HttpReply, now: float) -> str | ServerFault:
    """Return the text in the reply of a server that was given token ids.

    The text is in the field `prompt` of vLLM's replies, and in the field `text` of SGLang's.
    Returns a fault if the server reports an error, or if the reply has neither field.
    """
    if reply.status != OK:
        return chat.read_fault(reply, now)
    try:
        return msgspec.json.decode(reply.body, type=_TextOfVllm).prompt
    except JSON_FAULTS:
        pass
    try:
        return msgspec.json.decode(reply.body, type=_TextOfSglang).text
    except JSON_FAULTS as error:
        return no_completion(reply.body, error)
