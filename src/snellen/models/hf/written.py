"""Replies as they grow: how the next tokens are picked, and what was written so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

TokenPicker = Callable[[Sequence[int]], Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]]
"""Given the indices of a batch's requests, a function from logits and the tokens so far to the next token of
each row and whether the row ends with it."""


class Written:
    """The tokens generated so far for the requests of a batch."""

    def __init__(self, count: int, choose: Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]) -> None:
        self.said: list[list[int]] = [[] for _ in range(count)]
        self.ended = [False] * count
        self._choose = choose

    def choose(self, logits: Any) -> list[int]:
        """Append and return the next tokens; requests that have ended stay unchanged."""
        tokens, ends = self._choose(logits, self.said)
        for row, token in enumerate(tokens):
            if not self.ended[row]:
                self.said[row].append(token)
                self.ended[row] = ends[row]
        return tokens
