"""Judged marking of open answers: a judge compares a reply with the golds it is shown, never with the picture.

MMBench, appendix A (a mark from 1 to 5); LVLM-eHub's captions and its ensemble of wordings.
"""

from __future__ import annotations

import json
import re

from msgspec import Struct

from snellen.protocols.prompts.judge_prompts import judge_prompt
from snellen.protocols.verdict import NO_PICTURES, Deliberation, Verdict, ask_for_verdict, user_message, verdict_token
from snellen.records import Decoding, Request, Variant

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
