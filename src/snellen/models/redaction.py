"""Keeps API keys out of what is stored and printed: servers repeat the key that they were sent."""

from __future__ import annotations

import re

from msgspec.structs import replace

from snellen.records import Response

HIDDEN = "***"
LEAST_SECRET = 8
"""Letters of the shortest key that is taken for a secret."""
KEY_REMOVED = "the API key was removed from the reply"
LONGEST_DETAIL = 300
_OTHER_KEYS = re.compile(r"\bsk-[\w*-]+|(?<=Bearer )\S*[^\s\"'<>{}()\[\].,;:!?]")
"""What looks like a key, or part of one, without the punctuation that ends it."""


def presentable(detail: str, key: str) -> str:
    """What a server says is wrong, in one short line without the API key."""
    if key:
        detail = detail.replace(key, HIDDEN)
    detail = _OTHER_KEYS.sub(HIDDEN, detail)
    detail = " ".join(detail.split())
    return detail if len(detail) <= LONGEST_DETAIL else f"{detail[: LONGEST_DETAIL - 3]}..."


def without_key(response: Response, key: str) -> Response:
    """The response with the API key removed wherever the server repeats it: responses are stored and printed.

    A key that is shorter than a secret can be, such as the EMPTY of a local server, is a word like any other.
    """
    if len(key) < LEAST_SECRET or key not in f"{response.text}{response.finish}{response.reasoning}":
        return response
    return replace(
        response,
        text=response.text and response.text.replace(key, HIDDEN),
        reasoning=response.reasoning and response.reasoning.replace(key, HIDDEN),
        finish=response.finish and response.finish.replace(key, HIDDEN),
        notes=(*response.notes, KEY_REMOVED),
    )
