"""Step 2 of MMBench 4.2: a judge says which option a reply means that no rule could read."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.prompts.judging import form
from snellen.protocols.verdict import NO_PICTURES, Deliberation, Verdict, deliberate, token, user
from snellen.records import Decoding, Request, Variant

PAPER = "mmbench-match-1"
"""The prompt as printed in the paper."""
DELIMITED = "snellen-match-1"
"""Own wording; the reply is quoted, so that it cannot pose as a part of the prompt."""
PROMPTS = {"paper": PAPER, "delimited": DELIMITED}


class Matching(Struct, frozen=True):
    """One reply to be matched with the options of its question. `start` is the protocol."""

    benchmark: str
    sample_id: str
    variant: Variant
    question: str
    options: tuple[str, ...]
    """In the order shown."""
    marks: tuple[str, ...]
    reply: str
    version: str = PAPER
    max_new_tokens: int = 16
    structured: bool = False
    """Hold the judge to a mark, or none, where its server can."""

    images = NO_PICTURES

    @property
    def label(self) -> str:
        return self.version

    def start(self) -> Deliberation:
        """Yields the judge's requests; its verdict's value is the place of an option, in the order shown."""
        none = none_of(self.marks)
        listed = ", ".join(self.marks)
        words = form(self.version)
        usual = words.marks if words.marks and "ABCD".startswith("".join(self.marks)) else listed
        text = words.fill(
            self.reply,
            question=self.question.strip().removesuffix("?") if self.version == PAPER else self.question,
            options=self._options("\n" if words.quotes else " "),
            marks=usual,
            none=none,
        )
        request = Request(
            self.benchmark,
            self.sample_id,
            self.variant,
            (user(text),),
            decoding=Decoding(
                max_new_tokens=self.max_new_tokens, choices=(*self.marks, none) if self.structured else ()
            ),
        )
        return deliberate(
            request, words.remind(marks=listed, none=none), lambda said: read_mark(said, self.marks, none)
        )

    def _options(self, between: str) -> str:
        return between.join(f"{mark}. {option}" for mark, option in zip(self.marks, self.options, strict=True))


def none_of(marks: Sequence[str]) -> str:
    """The paper's X, or a word where X is the mark of an option."""
    return "NONE" if "X" in marks or "x" in marks else "X"


def read_mark(text: str, marks: Sequence[str], none: str) -> Verdict | None:
    """The verdict of a text that is one of the marks or `none` and nothing else; None for any other text."""
    word = token(text)
    if word in marks:
        return Verdict("given", list(marks).index(word))
    folded = word.casefold()
    if folded == none.casefold():
        return Verdict("none")
    places = [place for place, mark in enumerate(marks) if mark.casefold() == folded]
    return Verdict("given", places[0]) if len(places) == 1 else None
