"""Read what servers say of tokens: those of a text, and the text of some. No I/O."""

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
    """Return the tokens that a server has made of a prompt or a conversation."""
    if reply.status != OK:
        return chat.read_fault(reply, now)
    try:
        return tuple(msgspec.json.decode(reply.body, type=_Tokens).tokens)
    except JSON_FAULTS as error:
        return no_completion(reply.body, error)


def read_token_text(reply: HttpReply, now: float) -> str | ServerFault:
    """Return the text that a server has made of tokens: vLLM calls it `prompt`, SGLang `text`."""
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
