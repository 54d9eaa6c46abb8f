"""Step 2 of MMBench 4.2: a judge says which option a reply means that no rule could read.

Judged marking of open answers: a judge compares a reply with the golds it is shown, never with the picture.

MMBench, appendix A (a mark from 1 to 5); LVLM-eHub's captions and its ensemble of wordings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from msgspec import Struct

from snellen import registry
from snellen.protocols.prompts.judge_prompts import judge_prompt
from snellen.protocols.verdict import NO_PICTURES, Deliberation, Verdict, ask_for_verdict, user_message, verdict_token
from snellen.records import Decoding, Request, Variant

DELIMITED = "snellen-match-1"
"""Snellen's own wording; the reply is quoted, so that it cannot pass for part of the prompt."""
DEFAULT_PROMPT = "delimited"
"""Name of the prompt that judges are given by default."""


def matching_prompt(name: str = DEFAULT_PROMPT) -> str:
    """The version of a judge prompt by its name in the registry's group `matching_prompts`: delimited, paper.

    Raises UnknownNameError.
    """
    targets = registry.targets("matching_prompts")
    if name not in targets:
        raise registry.unknown("judge prompt", name, targets)
    version: str = registry.find("matching_prompts", name)
    return version


def matching_prompts() -> dict[str, str]:
    """The versions of all matching prompts, by name."""
    return {name: matching_prompt(name) for name in registry.targets("matching_prompts")}


class JudgeMatching(Struct, frozen=True):
    """One reply to be matched with the options of its question. `start` is the protocol."""

    benchmark: str
    sample_id: str
    variant: Variant
    question: str
    options: tuple[str, ...]
    """In the order shown."""
    labels: tuple[str, ...]
    reply: str
    version: str
    max_new_tokens: int = 16
    structured: bool = False
    """Restrict the judge to a label or none, if its server can."""

    images = NO_PICTURES

    @property
    def label(self) -> str:
        return self.version

    def start(self) -> Deliberation:
        """Yields the judge's requests; its verdict's value is the place of an option, in the order shown."""
        no_option = none_label(self.labels)
        listed = ", ".join(self.labels)
        words = judge_prompt(self.version)
        usual = words.labels if words.labels and "ABCD".startswith("".join(self.labels)) else listed
        text = words.fill(
            self.reply,
            question=self.question.strip().removesuffix("?") if words.ends_question else self.question,
            options=self._options("\n" if words.quotes else " "),
            labels=usual,
            none=no_option,
        )
        request = Request(
            self.benchmark,
            self.sample_id,
            self.variant,
            (user_message(text),),
            decoding=Decoding(
                max_new_tokens=self.max_new_tokens, choices=(*self.labels, no_option) if self.structured else ()
            ),
        )
        return ask_for_verdict(
            request,
            words.remind(labels=listed, none=no_option),
            lambda reply: read_label(reply, self.labels, no_option),
        )

    def _options(self, between: str) -> str:
        return between.join(f"{label}. {option}" for label, option in zip(self.labels, self.options, strict=True))


def none_label(labels: Sequence[str]) -> str:
    """The paper's X, or a word where X is the label of an option."""
    return "NONE" if "X" in labels or "x" in labels else "X"


def read_label(text: str, labels: Sequence[str], no_option: str) -> Verdict | None:
    """The verdict of a text that is one of the labels or `no_option` and nothing else; None for any other text."""
    word = verdict_token(text)
    if word in labels:
        return Verdict("given", list(labels).index(word))
    folded = word.casefold()
    if folded == no_option.casefold():
        return Verdict("none")
    places = [place for place, label in enumerate(labels) if label.casefold() == folded]
    return Verdict("given", places[0]) if len(places) == 1 else None


MARKS = (1, 5)
RIGHT_OR_WRONG = (0, 1)


class JudgedMarking(Struct, frozen=True):
    """One reply to be marked with a whole number between `lowest` and `highest`. `start` is the protocol."""

    benchmark: str
    sample_id: str
    variant: Variant
    question: str
    golds: tuple[str, ...]
    reply: str
    version: str
    scale: tuple[int, int] = MARKS
    """The lowest and the highest mark."""
    max_new_tokens: int = 16
    structured: bool = False
    """Restrict the judge to the scale, if its server can."""
    images = NO_PICTURES

    @property
    def label(self) -> str:
        return self.version

    def start(self) -> Deliberation:
        """Yields the judge's requests; its verdict's value is the mark."""
        words = judge_prompt(self.version)
        text = words.fill(self.reply, question=self.question.strip(), gold=self._gold())
        choices = tuple(map(str, range(self.scale[0], self.scale[1] + 1))) if self.structured else ()
        request = Request(
            self.benchmark,
            self.sample_id,
            self.variant,
            (user_message(text),),
            decoding=Decoding(max_new_tokens=self.max_new_tokens, choices=choices),
        )
        return ask_for_verdict(request, words.remind(), lambda reply: read_number(reply, *self.scale))

    def _gold(self) -> str:
        """One gold as it is, a list as the paper's examples write it; own wordings have JSON."""
        golds = list(dict.fromkeys(self.golds))
        if not judge_prompt(self.version).quotes:
            return golds[0] if len(golds) == 1 else repr(golds)
        return json.dumps(golds[0] if len(golds) == 1 else golds, ensure_ascii=False)


_NUMBER = re.compile(r"(\d+)(?:\s*/\s*(\d+)|\s*\(\d+\s*/\s*\d+)?")


def read_number(text: str, lowest: int, highest: int) -> Verdict | None:
    """The verdict of a text that is one whole number within the scale (`4`, `4/5`, `Your mark: 4`); else None."""
    match = _NUMBER.fullmatch(verdict_token(text))
    if match is None or (match[2] and int(match[2]) != highest):
        return None
    value = int(match[1])
    return Verdict("given", value) if lowest <= value <= highest else None
