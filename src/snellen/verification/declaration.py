"""What a check of questions declares, and what it is given. Another package adds one by the entry point group
`snellen.checks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from snellen.analysis.lint.material import LintMaterial, gather_material
from snellen.building.benchmark import Benchmark
from snellen.experiments.evaluation import silent
from snellen.records import Estimate
from snellen.runs.plan import Announce
from snellen.runs.progress import ProgressListener, ignore_progress
from snellen.verification.pictures import alike_pictures

Votes = Literal["majority", "all"]
"""How many of the jury's votes condemn an option: more than half of those that could be read, or every one."""


class Solvers(Struct, frozen=True):
    """The models that checks may ask, and how."""

    jury: tuple[Any, ...] = ()
    """Models, as strings or objects, that see the picture and vote on each option."""
    blind: tuple[Any, ...] = ()
    """Models that must not do better than chance without the picture, or with another one."""
    votes: Votes = "majority"
    wrongly: float = 0.3
    """Of the questions set apart because they were solved blind, the share that may be good ones."""
    runs: str = "runs"
    progress: ProgressListener = ignore_progress
    announce: Announce = silent


class ItemFault(Struct, frozen=True):
    """Why a question does not pass."""

    sample_id: str
    reason: str
    avoid: str = ""
    """The distractor at fault: with another one the question may be good. Empty where the question itself is."""


class CheckOutcome(Struct, frozen=True):
    """What a check found."""

    faults: Sequence[ItemFault]
    checked: int
    by: tuple[str, ...] = ()
    detail: str = ""
    estimate: Estimate | None = None
    """Of blind models: the highest of their accuracies on the questions that are not at fault."""
    chance: float | None = None
    """What guessing would score in its place."""


class CheckMaterial(Struct, frozen=True, dict=True):
    """What checks look at."""

    benchmark: Benchmark
    solvers: Solvers = Solvers()

    @cached_property
    def lint(self) -> LintMaterial:
        """The questions with their answers, texts folded."""
        return gather_material(self.benchmark)

    @cached_property
    def alike(self) -> dict[str, str]:
        """For each picture, by digest, the first one that shows the same."""
        return alike_pictures(self.benchmark.images, list(self.lint.pictures.values()))


class Check(Struct, frozen=True):
    """A check of questions, one by one."""

    title: str
    """What a question that fails has, in words."""
    run: Callable[[CheckMaterial], CheckOutcome]
    needs: Literal["", "jury", "blind"] = ""
    """The models that it asks; it is carried out only where some are named."""


def beyond_chance(hits: int, misses: int, chance: float) -> int:
    """How many of the hits luck does not explain, given the misses: without these the share of hits is chance."""
    return max(0, round(hits - misses * chance / (1 - chance)))
