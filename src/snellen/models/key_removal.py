"""Remove API keys from messages and replies, because some servers repeat the key that was sent to them."""

from __future__ import annotations

import re

from msgspec.structs import replace

from snellen.common.foreign import HIDDEN, Secret, without_secrets
from snellen.records import Response

KEY_REMOVED = "the API key was removed from the reply"
LONGEST_DETAIL = 300
_OTHER_KEYS = re.compile(r"\bsk-[\w*-]+|(?<=Bearer )\S*[^\s\"'<>{}()\[\].,;:!?]")
"""What looks like a key, or part of one, without the punctuation that ends it."""


def presentable(detail: str, key: str) -> str:
    """Return a server's error message in one short line, without the API key and other secrets."""
    if key:
        detail = detail.replace(key, HIDDEN)
    detail = without_secrets(detail)
    detail = _OTHER_KEYS.sub(HIDDEN, detail)
    detail = " ".join(detail.split())
    return detail if len(detail) <= LONGEST_DETAIL else f"{detail[: LONGEST_DETAIL - 3]}..."


def without_key(response: Response, key: str) -> Response:
    """Return a response without the API key, in case the server has repeated it. Responses are stored and printed.

    A key that is too short to be a secret, such as the EMPTY of a local server, is not removed,
    because it may be a word.
    """
    Secret(key)  # known from now on, if it was not
    whole = f"{response.text}{response.finish}{response.reasoning}"
    if without_secrets(whole) == whole:
        return response
    return replace(
        response,
        text=response.text and without_secrets(response.text),
        reasoning=response.reasoning and without_secrets(response.reasoning),
        finish=response.finish and without_secrets(response.finish),
        notes=(*response.notes, KEY_REMOVED),
    )
