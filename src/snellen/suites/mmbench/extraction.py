"""MMBench's rules for reading a reply, faults included: step 1 of section 4.2, and its toolkit's by date.

The judge that follows these rules and the random guess behind it are not here: what the rules leave unresolved is None.

Marks from 1 to 5 as MMBench gives them to open answers (appendix A).

How its questions are asked by its toolkit and by lmms-eval, and what its judge is asked, as printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Literal

from snellen.extraction.reading import (
    ExtractedChoice,
    NamedExtractor,
    labels_alone,
    no_choice,
    published_rule,
)
from snellen.metrics.declaration import share_row
from snellen.metrics.questions import Unscored
from snellen.protocols.prompts.role_prompts import load_judge_prompts
from snellen.protocols.prompts.templates import packaged_templates
from snellen.protocols.verdict import MARKS, Verdict
from snellen.scoring.judged_metrics import JudgedMetric, mean_mark, unmarked_reason, valid_marks


def mmbench_step1(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """Return the first word of the reply that is a label as "C", "C.", "(C)", "C,", or "(C).".

    A lone A inside a sentence is passed over, for it may be an article (MMBench 4.2, footnote 1).
    """
    words = reply.split()
    for word in words:
        for place, label in enumerate(labels[: len(options)]):
            if word == "A" and len(words) > 1:
                continue
            if word in (label, f"{label}.", f"({label})", f"{label},", f"({label})."):
                return _letter(place)
    return no_choice("no match" if words else "empty")


ToolkitDate = Literal["2024-01", "2025-08", "2026-06"]
_TOOLKIT_REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_TOOLKIT_PUNCTUATION = str.maketrans(".()[],:;!*#{}", " " * 13)
_TOOLKIT_LAST_RESORT = re.compile(r"answer is\s*\**\s*([A-D])", re.IGNORECASE)


def mmbench_toolkit(
    reply: str, options: Sequence[str], labels: Sequence[str], date: ToolkitDate = "2024-01"
) -> ExtractedChoice:
    """MMBench's toolkit as of a date: a single whole-token letter, else a single option text as a substring.

    The guard "A is an article" is off, as it was unless verbose logging was on.
    """
    if any(refusal in reply for refusal in _TOOLKIT_REFUSALS):
        return no_choice("refused")
    words = reply.translate(_TOOLKIT_PUNCTUATION).split()
    letters = [place for place, label in enumerate(labels[: len(options)]) if label in words]
    if len(letters) == 1:
        late = words.index(labels[letters[0]]) >= len(words) - 4
        if late or date == "2024-01":
            return _letter(letters[0])
    elif not letters and "Z" in words:
        return no_choice("no match")
    if date == "2026-06" and not letters:
        last_resort = _TOOLKIT_LAST_RESORT.search(reply)
        if last_resort and last_resort[1].upper() in labels[: len(options)]:
            return _letter(list(labels).index(last_resort[1].upper()))
    if date != "2024-01" and len(reply) > 2 * sum(map(len, options)):
        return no_choice("no match")
    lower = reply.lower()
    texts = [place for place, option in enumerate(options) if option.lower() in lower]
    if len(texts) == 1:
        return ExtractedChoice(texts[0], "text", "likely")
    return no_choice("ambiguous" if texts or letters else "no match" if words else "empty")


def _letter(place: int) -> ExtractedChoice:
    return ExtractedChoice(place, "label", "certain", follows_format=True)


STEP_1 = NamedExtractor("mmbench-step1", published_rule(mmbench_step1), labels_alone)


def _toolkit(date: ToolkitDate) -> NamedExtractor:
    rule = published_rule(partial(mmbench_toolkit, date=date))
    return NamedExtractor(f"mmbench-toolkit-{date}", rule, _substrings)


def _substrings(labels: Sequence[str]) -> str:
    return (
        ""
        if labels
        else "finds texts as substrings, so that an option which holds another one is open"
    )


TOOLKIT_2024_01, TOOLKIT_2025_08 = _toolkit("2024-01"), _toolkit("2025-08")
TOOLKIT_2026_06 = _toolkit("2026-06")


GOOD = 4
"""The mark from which a reply counts as good in `mark_4_or_more`."""


def mark_prompt(golds: tuple[str, ...]) -> str:
    """Return the printed prompt for one gold, or for a list of them."""
    return "mmbench-mark-1" if len(set(golds)) == 1 else "mmbench-mark-list-1"


def _mark_rows(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
    """Return the mean mark, the share at each mark, and the share of good ones, over all valid marks of a question."""
    marks = valid_marks(verdicts)
    if not marks:
        return unmarked_reason(verdicts)
    count = len(marks)
    shares = {f"mark_{mark}": marks.count(mark) / count for mark in range(MARKS[0], MARKS[1] + 1)}
    good = sum(mark >= GOOD for mark in marks) / count
    return {"mark": sum(marks) / count, "mark_4_or_more": good, **shares}


MARK_METRIC = JudgedMetric(
    description="mean mark from 1 to 5 by a judge (MMBench, appendix A), the share at each mark and of 4 or more",
    rows=(
        mean_mark("mark", "mean mark"),
        share_row("mark_4_or_more", "marks of 4 or more"),
        *(
            share_row(f"mark_{mark}", f"marks of {mark}", better="neither", scale="")
            for mark in range(MARKS[0], MARKS[1] + 1)
        ),
    ),
    versions=lambda golds: [mark_prompt(golds)],
    reduce=_mark_rows,
)


TOOLKIT = packaged_templates("snellen.suites.mmbench", "templates/mmbench.toml")
LMMS_EVAL = packaged_templates("snellen.suites.mmbench", "templates/mmbench-lmms-eval.toml")
MATCH_VERSION = "mmbench-match-1"
_PROMPTS = load_judge_prompts("snellen.suites.mmbench")
MATCH = _PROMPTS[MATCH_VERSION]
MARK = _PROMPTS["mmbench-mark-1"]
MARK_LIST = _PROMPTS["mmbench-mark-list-1"]
