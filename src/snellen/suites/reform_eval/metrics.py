"""ReForm-Eval's scorers of open questions, defect for defect, to reproduce its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.metrics.declaration import reply_metric
from snellen.metrics.legacy import contains_words
from snellen.metrics.normalise import legacy_ocr_normalise


def ocr_match(reply: str, references: Sequence[str]) -> float:
    """ReForm-Eval, OCR: 1 if the references, joined by blanks, stand in the reply between word boundaries.

    Called word-level accuracy in the paper (section 3.3.2), but the whole answer is looked for. Both
    sides lose all but ASCII letters and digits: a gold without any matches every reply that has a word.
    """
    return float(contains_words(legacy_ocr_normalise(reply), legacy_ocr_normalise(" ".join(references))))


OCR_MATCH = reply_metric(
    ocr_match,
    name="legacy_ocr_match",
    unit="share",
    title="legacy OCR match",
    limit="where several answers are accepted a reply has to hold all of them, and a gold without a letter or digit "
    "matches no reply without one",
)
