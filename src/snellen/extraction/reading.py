"""What an extractor says about one reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from snellen.reasons import NoChoiceReason

RuleMethod = Literal["label", "label+text", "text"]
"""How rules find an option: by its label, by its label and its own text beside it, by its text alone."""
Confidence = Literal["certain", "likely", "none"]
STATED = "stated as the answer"


class ExtractedChoice(Struct, frozen=True, omit_defaults=True):
    """The option that a reply names, as the place it was shown in, or None; never a guess."""

    choice: int | None
    """Index of the PLACE into the options as they were passed in; the caller maps places to identities."""
    extraction_method: RuleMethod | None
    """How the option was found; None when none was."""
    confidence: Confidence
    """`certain`: the reply plainly says so, and nothing else; `likely`: weighed, and probable enough."""
    detail: str = ""
    """One short phrase for the reader of a report."""
    span: tuple[int, int] | None = None
    """Where in the reply, as received, the deciding words stand: [start, end)."""
    follows_format: bool = False
    """The reply kept the asked-for format: it names exactly one of the labels shown, as a label (either case)."""
    reason: NoChoiceReason | None = None
    """Why no option was found; None when one was."""
    probability: float | None = None
    """How probable the option is, calibrated; of an open reply the most probable one. None of published rules."""
    mentioned: tuple[int, ...] = ()
    """The places of all options that the reply names, of a rule by which a mention is enough."""


class Extractor(Protocol):
    """(reply, options in the order shown, labels in the same order) -> what the reply names. Pure, never raises."""

    def __call__(
        self,
        reply: str,
        options: Sequence[str],
        labels: Sequence[str],
        *,
        finish: str | None = None,
        question: str = "",
    ) -> ExtractedChoice:
        """`finish` is why the model stopped ("length": cut), `question` what was asked; published rules use neither."""
        ...


def no_limit(labels: Sequence[str]) -> str:
    """A rule that reads replies by label and by text."""
    return ""


def labels_alone(labels: Sequence[str]) -> str:
    """The limit of a rule that reads no texts."""
    return "" if labels else "finds labels alone, and options were listed without any"


def texts_alone(labels: Sequence[str]) -> str:
    """The limit of a rule that reads no labels."""
    return "finds the texts of options alone, and options were shown with labels to answer by" if labels else ""


class NamedExtractor(Struct, frozen=True):
    """An extractor of the registry's group `extractors`."""

    version: str
    """What is stored with a prediction: other rules are another version."""
    read: Extractor
    column: str = ""
    """Heading of its column in the table of all conformance cases; it has none when empty."""
    limit: Callable[[Sequence[str]], str] = no_limit
    """Why a right reply may go unread where options are shown with these labels, or none; empty where it is read."""
    allowing: Callable[[float], NamedExtractor] | None = None
    """The same extractor where so great a share of its readings may be wrong; None where none can be set."""


def no_choice(reason: NoChoiceReason) -> ExtractedChoice:
    """No option, and why."""
    return ExtractedChoice(None, None, "none", reason=reason)


def published_rule(rule: Callable[[str, Sequence[str], Sequence[str]], ExtractedChoice]) -> Extractor:
    """A rule of a paper as an extractor: it knows neither the question nor why the model stopped."""

    def extract(
        reply: str, options: Sequence[str], labels: Sequence[str], *, finish: str | None = None, question: str = ""
    ) -> ExtractedChoice:
        del finish, question
        return rule(reply, options, labels)

    return extract
