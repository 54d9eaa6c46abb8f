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
    """Read the first word of a reply that is an option label: "C", "C.", "(C)", "C," or "(C).".

    An A inside a sentence is skipped, because it may be an article (MMBench 4.2, footnote 1).

    Args:
        reply: The model's reply.
        options: The option texts, in the order shown.
        labels: Their labels, such as A to D.
    """
    words = reply.split()
    for word in words:
        may_be_article = word == "A" and len(words) > 1
        if may_be_article:
            continue
        for index, label in enumerate(labels[: len(options)]):
            if word in (label, f"{label}.", f"({label})", f"{label},", f"({label})."):
                return _choice_by_label(index)
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
    """Read a reply as MMBench's toolkit (VLMEvalKit) did at a date.

    If exactly one label of the options is a word of the reply, it is the choice; from 2025-08 on only if it is one of the
    last four words. Otherwise, if the reply contains the text of exactly one option, that is the choice; from 2025-08 on
    only if the reply has at most twice as many characters as all options together. In 2026-06, a phrase such as "answer
    is B" is tried between the two. The toolkit's rule that "A" may be an article is not applied, because the toolkit
    applied it only with verbose logging.

    Args:
        reply: The model's reply.
        options: The option texts, in the order shown.
        labels: Their labels, such as A to D.
        date: The date of the toolkit, whose rules changed twice.
    """
    if any(refusal in reply for refusal in _TOOLKIT_REFUSALS):
        return no_choice("refused")
    words = reply.translate(_TOOLKIT_PUNCTUATION).split()
    shown_labels = list(labels[: len(options)])
    named = [index for index, label in enumerate(shown_labels) if label in words]
    if len(named) == 1:
        [index] = named
        first_position = words.index(shown_labels[index])
        is_near_end = first_position >= len(words) - 4
        if is_near_end or date == "2024-01":
            return _choice_by_label(index)
    elif not named and "Z" in words:  # the toolkit's label for "none of the options"
        return no_choice("no match")

    if date == "2026-06" and not named:
        last_resort = _TOOLKIT_LAST_RESORT.search(reply)
        if last_resort:
            label = last_resort[1].upper()
            if label in shown_labels:
                return _choice_by_label(shown_labels.index(label))
    option_characters = sum(len(option) for option in options)
    if date != "2024-01" and len(reply) > 2 * option_characters:
        return no_choice("no match")

    lower_reply = reply.lower()
    contained = [index for index, option in enumerate(options) if option.lower() in lower_reply]
    if len(contained) == 1:
        return ExtractedChoice(contained[0], "text", "likely")
    if contained or named:
        return no_choice("ambiguous")
    return no_choice("no match" if words else "empty")


def _choice_by_label(index: int) -> ExtractedChoice:
    return ExtractedChoice(index, "label", "certain", follows_format=True)


STEP_1 = NamedExtractor("mmbench-step1", published_rule(mmbench_step1), labels_alone)


def _toolkit(date: ToolkitDate) -> NamedExtractor:
    rule = published_rule(partial(mmbench_toolkit, date=date))
    return NamedExtractor(f"mmbench-toolkit-{date}", rule, _substrings)


def _substrings(labels: Sequence[str]) -> str:
    """Return a warning, for options without labels, that a correct reply may go unread; "" for options with labels."""
    if labels:
        return ""
    return "finds texts as substrings, so that an option which holds another one is open"


TOOLKIT_2024_01, TOOLKIT_2025_08 = _toolkit("2024-01"), _toolkit("2025-08")
TOOLKIT_2026_06 = _toolkit("2026-06")


GOOD = 4
"""The mark from which a reply counts as good in `mark_4_or_more`."""


def mark_prompt(reference_answers: tuple[str, ...]) -> str:
    """Return the printed prompt for one gold, or for a list of them."""
    return "mmbench-mark-1" if len(set(reference_answers)) == 1 else "mmbench-mark-list-1"


def _mark_rows(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
    """Return the scores of a question that judges marked from 1 to 5, or why it has none.

    Args:
        verdicts: The marks of all judges.

    Returns:
        The mean mark, the share of good marks (4 or more), and the share of each mark.
    """
    marks = valid_marks(verdicts)
    if not marks:
        return unmarked_reason(verdicts)
    count = len(marks)
    n_good = sum(mark >= GOOD for mark in marks)
    rows = {"mark": sum(marks) / count, "mark_4_or_more": n_good / count}
    lowest, highest = MARKS
    for mark in range(lowest, highest + 1):
        rows[f"mark_{mark}"] = marks.count(mark) / count
    return rows


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
    versions=lambda question: [mark_prompt(question.reference_answers)],
    reduce=_mark_rows,
)


TOOLKIT = packaged_templates("snellen.suites.mmbench", "templates/mmbench.toml")
LMMS_EVAL = packaged_templates("snellen.suites.mmbench", "templates/mmbench-lmms-eval.toml")
MATCH_VERSION = "mmbench-match-1"
_PROMPTS = load_judge_prompts("snellen.suites.mmbench")
MATCH = _PROMPTS[MATCH_VERSION]
MARK = _PROMPTS["mmbench-mark-1"]
MARK_LIST = _PROMPTS["mmbench-mark-list-1"]
