"""Read a psychometric test as a benchmark: a pool of questions from which an adaptive procedure chooses.

`signs`, `lines`, `scenes` and `degraded` declare the tests (`snellen_lab.acuity.trials`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.plugin_api import (
    Draft,
    QuestionDraft,
    find_registered,
    read_params,
)
from snellen_lab.acuity.trials import AcuityTest


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    test: str
    """A name in the group `acuity_tests`."""
    side: int = 0
    """Width and height of images in pixels; 0 for the test's own."""
    exemplars: int = 0
    """Questions of each level; 0 for the test's own number."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield all questions of a test, level by level. Raises DataError if images are too small for a level."""
    chosen = read_params(params, Params)
    test: AcuityTest = find_registered("acuity_tests", chosen.test)
    for level, name, stimulus in test.stimuli(chosen.side, chosen.exemplars):
        yield Draft(
            id=name,
            rounds=(QuestionDraft(stimulus.question, stimulus.options, (stimulus.right,)),),
            images=stimulus.images,
            where=f"acuity/{test.name}, level {level}",
            tags={"level": level, **stimulus.tags},
        )
