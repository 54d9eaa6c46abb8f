"""How many tokens requests are, before a model counts them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen.records import ImageRef, Request, Usage
from snellen.runs.budget import cost_of
from snellen.runs.spec import TokenPrice

TEMPLATE_TOKENS = 64
"""Most tokens that a chat template and its default system prompt add to a request of one message."""
PIXELS_A_TOKEN = 750
"""Of a picture: Anthropic's published rule. Models differ here more than in texts."""
MOST_OF_A_PICTURE = 1600
"""Tokens of a picture at most: by that rule larger ones are made smaller first."""


class RequestTokens(Struct, frozen=True):
    """Tokens of some requests."""

    calls: int
    read: int
    written: int

    def cost(self, price: TokenPrice) -> float:
        return cost_of(Usage(self.read, self.written), price)


def likely_tokens(requests: Sequence[Request]) -> RequestTokens:
    """An estimate: four letters are one token, a letter beyond ASCII is one, and a reply takes all that it may."""
    return _summed(requests, likely_of_text)


def most_tokens(requests: Sequence[Request]) -> RequestTokens:
    """A bound for texts: no tokeniser makes more tokens of a text than it has bytes."""
    return _summed(requests, lambda text: len(text.encode("utf-8", "surrogatepass")), TEMPLATE_TOKENS)


def likely_of_text(text: str) -> int:
    """Four letters are one token, a letter beyond ASCII is one."""
    plain = sum(map(str.isascii, text))
    return math.ceil(plain / 4) + len(text) - plain


def likely_of_picture(picture: ImageRef) -> int:
    """Width times height by 750, at most 1,600."""
    return min(math.ceil(picture.width * picture.height / PIXELS_A_TOKEN), MOST_OF_A_PICTURE)


def _summed(requests: Sequence[Request], tokens: Callable[[str], int], template: int = 0) -> RequestTokens:
    read = sum(tokens(message.text) + template for request in requests for message in request.messages)
    return RequestTokens(len(requests), read, sum(request.decoding.max_new_tokens for request in requests))
