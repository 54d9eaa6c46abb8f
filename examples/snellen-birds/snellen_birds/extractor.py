"""A rule by which replies are read: the one behind this suite's printed numbers (`--extractor birds:first-word`)."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.plugin_api import ExtractedChoice, NamedExtractor, no_choice


def first_word(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    *,
    finish: str | None = None,
    question: str = "",
) -> ExtractedChoice:
    """The option that the first word of the reply is; a label counts for nothing."""
    words = reply.split()
    if words and words[0] in options:
        return ExtractedChoice(list(options).index(words[0]), "text", "certain")
    return no_choice("no match" if words else "empty")


FIRST_WORD = NamedExtractor("birds-first-word-1", first_word)
