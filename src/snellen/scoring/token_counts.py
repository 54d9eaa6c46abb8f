"""Tokens that models say they read and wrote."""

from __future__ import annotations

from collections.abc import Iterable

from snellen.records import Response, Usage


def sum_usage(responses: Iterable[Response]) -> Usage | None:
    """The sums over the responses whose model counts; None where none does."""
    uses = [response.usage for response in responses if response.usage]
    if not uses:
        return None
    read, written = sum(use.prompt_tokens or 0 for use in uses), sum(use.completion_tokens or 0 for use in uses)
    return Usage(read, written)


def usage_text(usage: Usage) -> str:
    """`3,400 tokens read, 560 written`."""
    return f"{usage.prompt_tokens or 0:,} tokens read, {usage.completion_tokens or 0:,} written"
