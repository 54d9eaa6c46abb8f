"""The scorers of data sets' own scripts, defects included, to reproduce published numbers.

Nothing here is used unless named, and no rule here builds on a standard one. Each docstring says what is wrong with
its rule. The scorers of a suite's paper are in the suite.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from snellen.errors import DataError
from snellen.metrics.declaration import reply_metric
from snellen.metrics.normalise import vqa_normalise


def legacy_vqa_accuracy(reply: str, references: Sequence[str]) -> float:
    """VQA v2's script to the letter: as `vqa.vqa_accuracy`, but nothing is normalised where all annotators agree.

    There `Yes` or `yes.` is wrong when ten annotators said `yes`. For any number of annotators.
    """
    if not references:
        raise DataError("legacy VQA accuracy: no annotator answers; give the answers of all annotators")
    answer, answers = _line(reply), [_line(reference) for reference in references]
    if len(set(answers)) > 1:
        answer, answers = vqa_normalise(answer), [vqa_normalise(reference) for reference in answers]
    matching_others = [answers.count(answer) - (annotator_answer == answer) for annotator_answer in answers]
    return sum(min(1.0, count / 3) for count in matching_others) / len(answers)


def pope_yes_no(reply: str) -> Literal["yes", "no"]:
    """POPE's parser: no if the text before the first full stop has the word No, no or not; else yes.

    So an empty reply, a refusal and `NO` are all yes. Words are split at blanks, commas deleted.
    """
    words = reply.split(".")[0].replace(",", "").split(" ")
    return "no" if {"No", "not", "no"} & set(words) else "yes"


def contains_words(text: str, words: str) -> bool:
    """Whether `words` occur in `text` between word boundaries."""
    return re.search(rf"\b{re.escape(words)}\b", text) is not None


def _line(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ").strip()


LEGACY_VQA_ACCURACY = reply_metric(
    legacy_vqa_accuracy,
    unit="share",
    title="legacy VQA accuracy",
    limit="full marks need an answer that four annotators gave",
)
