"""The score of a question of OCRBench v2, by the rule of its type, and its metric."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from snellen.common.late import import_extra
from snellen.errors import DataError, MissingExtraError
from snellen.metrics.declaration import share_row
from snellen.metrics.question_counts import QuestionCounts, tally_of
from snellen.metrics.questions import AskedQuestion, Unscored
from snellen.metrics.scoring_context import ScoringContext
from snellen.reasons import NEVER_ANSWERED
from snellen.records import Prediction
from snellen.reformulation.wordnet import open_wordnet
from snellen.suites.modern.metrics import ShareByRule
from snellen.suites.modern.ocrbench_v2.boxes import (
    grounding_score,
    position_score,
    spotting_score,
)
from snellen.suites.modern.ocrbench_v2.documents import page_structure_score
from snellen.suites.modern.ocrbench_v2.fields import FIELDS, field_score
from snellen.suites.modern.ocrbench_v2.long_texts import long_text_score
from snellen.suites.modern.ocrbench_v2.short_texts import (
    choice_score,
    count_score,
    formula_score,
    text_score,
    written_letters_score,
)
from snellen.suites.modern.ocrbench_v2.tables import chart_score, table_score

LONG_TEXTS = ("fine-grained text recognition", "full-page OCR", "text translation")
SHORT_ANSWER = "简答"
"""In a question about a handwritten answer: the answer is a text, and not letters of options."""
PARSED = ("chart parsing", "document parsing", "table parsing")
PACKAGES = {"apted": "apted", "jieba": "jieba", "lxml.html": "lxml", "nltk": "nltk"}
"""Modules that compare tables, documents and long texts, with the packages that have them."""


def ocrbench_v2_right(question: AskedQuestion, prediction: Prediction) -> float:
    """Return the score of a reply to a question of OCRBench v2, at most 1, by the rule of its type.

    Raises:
        MissingExtraError: The type needs a package of the extra `documents`, which is not installed.
        DataError: It needs WordNet, which is not installed.
    """
    tags = question.sample.tags
    category = tags.get("category", "")
    form = tags.get("form", "")
    golds = question.reference_answers
    reply = prediction.text or ""
    kind, _, language = category.rpartition(" ")
    in_chinese = language == "cn"
    if prediction.reason in NEVER_ANSWERED:  # an empty reply has a part of a document's structure
        return 0.0

    if kind == "table parsing":
        in_markdown = not in_chinese and "html" not in question.turn.question.lower()
        return table_score(reply, golds[0], in_markdown=in_markdown)
    if kind == "chart parsing":
        return chart_score(reply, golds[0])
    if kind == "document parsing":
        return page_structure_score(reply, golds[0])
    if kind in LONG_TEXTS:
        return long_text_score(reply, golds[0])
    if kind == "handwritten answer extraction":
        if SHORT_ANSWER in question.turn.question:
            return long_text_score(reply, golds[0])
        return written_letters_score(reply, golds[0])
    if kind == "text grounding":
        return grounding_score(reply, golds[0])
    if kind == "VQA with position":
        return position_score(reply, golds)
    if kind == "text spotting":
        return spotting_score(reply, golds[0])
    if kind == "formula recognition":
        return formula_score(reply, golds, in_chinese=in_chinese)
    if kind == "text counting":
        return max(count_score(reply, gold, form) for gold in golds)
    if kind in FIELDS:
        return field_score(reply, golds[-1])
    if form == "multiple choice":
        return choice_score(reply, golds[0])
    if form == "case sensitive":  # Chinese texts are then compared as English ones
        return text_score(reply, golds, keeps_case=True)
    return text_score(reply, golds, in_chinese=in_chinese)


class OcrBenchV2(ShareByRule, frozen=True, kw_only=True):
    """The mean over questions of the score of each by the rule of its type.

    If a package is missing that some of the questions need, no question has a value. Otherwise the mean would be that
    of easier questions.
    """

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        try:
            if any(_needs_packages(question) for question in questions):
                check_packages()
        except (MissingExtraError, DataError) as error:
            missing = Unscored("metric undefined", str(error))
            return [tally_of(question, context.metric, missing) for question in questions]
        return super().tallies(questions, context)


def _needs_packages(question: AskedQuestion) -> bool:
    kind, _, _ = question.sample.tags.get("category", "").rpartition(" ")
    return kind in PARSED or kind in LONG_TEXTS or SHORT_ANSWER in question.turn.question


def check_packages() -> None:
    """Raise MissingExtraError or DataError if something is missing that compares tables, documents or long texts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba has escapes that newer Pythons warn about.
        for module, package in PACKAGES.items():
            import_extra(module, "documents", "OCRBench v2", package)
    open_wordnet()


OCRBENCH_V2 = OcrBenchV2(
    description="OCRBench v2: the score of each type of question by its rule (arXiv 2501.00321)",
    rows=(share_row("ocrbench_v2", "OCRBench v2", interval="linearised", unparsed="wrong"),),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("ocrbench_v2",),
    rule=ocrbench_v2_right,
)
