"""How many words, or characters, of a text a reply has: CC-OCR's tracks of scenes and of languages.

Source: Yang et al., CC-OCR: A Comprehensive and Challenging OCR Benchmark for Evaluating Large Multimodal Models in
Literacy (arXiv:2412.02210), whose macro F1 is the mean over questions, and then over subsets.
"""

from __future__ import annotations

import re
from collections import Counter

from snellen.metrics.declaration import share_row
from snellen.metrics.questions import AskedQuestion
from snellen.records import Prediction
from snellen.suites.modern.metrics import ShareByRule

UNSPACED = ("Arabic", "Japanese", "Korean")
"""Subsets that are compared character by character, as those that begin with `zh` are."""
SCENES = "_text"
"""How the category of a question of the track of scenes ends; the others are of the track of languages."""
_MARKS = re.compile(r"###|\*\*\*")
_OTHER = re.compile(r"[^a-z0-9]+")


def tokens(text: str, subset: str, category: str) -> list[str]:
    """Return the words of a text in lower case, or its characters if the language has no spaces between words.

    Args:
        text: A reply or a reference text.
        subset: Language of the text, such as `zh`.
        category: Category of the question. For texts in photos of scenes, only Latin letters and digits are kept.
    """
    on_one_line = text.strip().replace("\t", " ").replace("\n", " ")
    without_marks = _MARKS.sub("", on_one_line)
    plain = " ".join(without_marks.split()).lower()
    if subset in UNSPACED or subset.startswith("zh"):
        return list(plain.replace(" ", ""))
    words = plain.split(" ")
    if category.endswith(SCENES):
        words = [_OTHER.sub("", word) for word in words]
    return [word for word in words if word]


def overlap_f1(reply: list[str], gold: list[str]) -> float:
    """Return the F1 of the words of a reply against those of the ground truth, in [0, 1]; 0 if they have none in
    common.

    If a word is repeated, it matches at most as often as the other text has it.
    """
    n_shared = (Counter(reply) & Counter(gold)).total()
    if not n_shared:
        return 0.0
    precision = n_shared / len(reply)
    recall = n_shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def text_f1(question: AskedQuestion, prediction: Prediction) -> float:
    """Return the F1 of the words in a reply against the text in the image, in [0, 1]."""
    tags = question.sample.tags
    subset = tags.get("subset", "")
    category = tags.get("category", "")
    reply_words = tokens(prediction.text or "", subset, category)
    gold_words = tokens(question.reference_answers[0], subset, category)
    return overlap_f1(reply_words, gold_words)


TEXT_F1 = ShareByRule(
    description="CC-OCR: F1 of the words that reply and text have in common (arXiv 2412.02210)",
    rows=(
        share_row(
            "text_f1", "F1 of words read", interval="linearised", scale="f1", unparsed="wrong"
        ),
    ),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("text_f1",),
    rule=text_f1,
)
