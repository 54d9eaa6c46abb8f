"""The reference extractor: which option a reply names, or that it names none. Pure; it never guesses.

Most replies are a label, which is read here; all others are read in full (`snellen.extraction.full_reading`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from msgspec.structs import replace

from snellen.common.late import late_pattern
from snellen.extraction.option_index import OptionIndex, index_options
from snellen.extraction.reading import (
    STATED,
    ExtractedChoice,
    NamedExtractor,
    RuleMethod,
    labels_alone,
    no_choice,
)

VERSION = "snellen-choice-12"
"""Stored with every prediction; any change that can change a reading changes it."""
ERROR = 0.02
"""The share of readings that may be wrong, unless said otherwise."""


def read_choice(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    *,
    finish: str | None = None,
    question: str = "",
    error: float = ERROR,
) -> ExtractedChoice:
    """The option that `reply` names, as its place in `options`, or None with the reason.

    `options` are the texts in the order shown, `labels` what stood before them (may be empty). `finish` is why the
    model stopped: of a reply that the length limit cut ("length") only what it had concluded counts. `question` tells
    what is asked. `error` is the share of readings that may be wrong: what is not probable enough stays open.
    Never raises; the same arguments always give the same reading.
    """
    index = index_options(tuple(options), tuple(labels))
    if _BLANKS.search(reply):
        return _read_without_blanks(reply, index, finish, question, error)
    return _read_short(reply, index) or _read_in_full(reply, index, finish, question, error)


def read_by_label(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    *,
    finish: str | None = None,
    question: str = "",
) -> ExtractedChoice:
    """The same by labels alone: what only an option's text says is not read."""
    reading = read_choice(reply, options, labels, finish=finish, question=question)
    return no_choice("no match") if reading.extraction_method == "text" else reading


# Patterns may look at a run of blanks from each of its places: of a long one they see a few.
_BLANKS = late_pattern(r"\s{40,}")


def _read_without_blanks(
    reply: str, index: OptionIndex, finish: str | None, question: str, error: float
) -> ExtractedChoice:
    """The reading of a reply in which each long run of blanks is a paragraph's end or one blank."""
    pieces: list[str] = []
    places: list[int] = []
    last = 0
    for run in _BLANKS.finditer(reply):
        blank = "\n\n" if "\n" in run[0] else " "
        pieces += [reply[last : run.start()], blank]
        places += [*range(last, run.start()), *[run.start()] * len(blank)]
        last = run.end()
    places += range(last, len(reply) + 1)
    text = "".join([*pieces, reply[last:]])
    reading = _read_short(text, index) or _read_in_full(text, index, finish, question, error)
    return (
        reading
        if reading.span is None
        else replace(reading, span=(places[reading.span[0]], places[reading.span[1]]))
    )


@lru_cache(
    maxsize=256
)  # presentations of a question, which follow one another, are often answered alike
def _read_in_full(
    reply: str, index: OptionIndex, finish: str | None, question: str, error: float
) -> ExtractedChoice:
    # The rules for natural replies take longer to load than a thousand short replies to read.
    from snellen.extraction.full_reading import read_in_full

    return read_in_full(reply, index, error, finish=finish, question=question)


# What most replies look like: a label, with its text or not, behind "The answer is" or not.
_SHORT = late_pattern(
    r"[ \n]*(The answer is:? |The correct answer is:? )?(?:\(([A-Za-z]|\d{1,2})\)|([A-Za-z]|\d{1,2}))"
    r"(?:(?:(?<=\))[.:]?|(?<!\))[.:]) ([A-Za-z0-9]+(?: [A-Za-z0-9]+)*))?\.?[ \n]*"
)


def _read_short(reply: str, index: OptionIndex) -> ExtractedChoice | None:
    """The reading of a short reply of the usual form, equal to `read_in_full`'s; None for all others."""
    match = _SHORT.fullmatch(reply)
    if match is None:
        return None
    opened, bracketed, bare, text = match.groups()
    label = bracketed or bare
    place = index.exact.get(label)
    if place is None or (
        bare and (label.casefold() in index.phrases or (index.numeric and label.isdigit()))
    ):
        return None
    if text and index.short.get(text.lower()) != place:
        return None
    span = (match.start(2 if bracketed else 3), match.end(4 if text else 2 if bracketed else 3))
    method: RuleMethod = "label+text" if text else "label"
    why = STATED if opened else ""
    return ExtractedChoice(place, method, "certain", why, span, follows_format=True)


def allowing(error: float) -> NamedExtractor:
    """The reference extractor with another share of readings that may be wrong."""
    return NamedExtractor(
        f"{VERSION}?error={error:g}", partial(read_choice, error=error), "standard"
    )


STANDARD = NamedExtractor(VERSION, read_choice, "standard", allowing=allowing)
STRICT = NamedExtractor(f"{VERSION}-strict", read_by_label, "strict", labels_alone)
