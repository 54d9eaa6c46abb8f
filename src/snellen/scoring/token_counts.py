"""Tokens that models say they read and wrote."""

from __future__ import annotations

from collections.abc import Iterable

from snellen.records import Response, Usage


def sum_usage(responses: Iterable[Response]) -> Usage | None:
    """The sums over the responses whose model counts; None where none does."""
    return add_usages([response.usage for response in responses if response.usage])


def add_usages(uses: Iterable[Usage]) -> Usage | None:
    """The sums, of each part of those that tell it; None of nothing."""
    total: Usage | None = None
    for use in uses:
        total = use if total is None else plus(total, use)
    return total


def plus(one: Usage, other: Usage) -> Usage:
    """Two usages together."""
    return Usage(*(_sum(getattr(one, name), getattr(other, name)) for name in Usage.__struct_fields__))


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def usage_text(usage: Usage) -> str:
    """`3,400 tokens read (1,200 of them cached), 560 written (400 of them reasoning)`."""
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    reasoning = f" ({usage.reasoning_tokens:,} of them reasoning)" if usage.reasoning_tokens else ""
    return f"{usage.prompt_tokens or 0:,} tokens read{cached}, {usage.completion_tokens or 0:,} written{reasoning}"
