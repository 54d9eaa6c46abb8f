"""Which stage read a reply (MMBench 4.2): the rules, meaning, a judge, a random guess, or none."""

from __future__ import annotations

from typing import Literal

from snellen.reasons import Reason
from snellen.records import ExtractionMethod, Prediction

ReadingStageName = Literal["rules", "meaning", "judge", "random guess", "none named", "refused", "empty", "failed"]
STAGES: tuple[ReadingStageName, ...] = (
    "meaning",
    "judge",
    "random guess",
    "none named",
    "refused",
    "empty",
    "failed",
)
"""All stages but the rules."""
_BY_METHOD: dict[ExtractionMethod | None, ReadingStageName] = {
    "semantic": "meaning",
    "judge": "judge",
    "random guess": "random guess",
}
_BY_REASON: dict[Reason | None, ReadingStageName] = {"refused": "refused", "empty": "empty"}


def stage_of(prediction: Prediction) -> ReadingStageName:
    """The stage that read a reply to a question with options, or why no stage could."""
    if prediction.error is not None:
        return "failed"
    if prediction.choice is not None:
        return _BY_METHOD.get(prediction.extraction_method, "rules")
    return _BY_REASON.get(prediction.reason, "none named")
