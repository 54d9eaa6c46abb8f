"""What a comparison of runs holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from snellen.analysis.capability import ALL
from snellen.analysis.paired.significance import Correction
from snellen.formats.frames import check_polars
from snellen.formats.shown_text import object_line
from snellen.reasons import Reason
from snellen.records import Better, Estimate, Method

if TYPE_CHECKING:
    import polars

RESAMPLES = 10_000
"""Bootstrap draws behind intervals of ranks."""


class PairedDifference(Struct, frozen=True):
    """How much higher `first` scores than `second`, on common questions."""

    first: str
    second: str
    """Labels of the runs."""
    benchmark: str
    """`*` for a mean over benchmarks, which count equally."""
    dimension: str
    suite: str
    protocol: str
    method: Method
    metric: str
    first_value: float | None
    second_value: float | None
    difference: Estimate
    p: float | None = None
    """By the sign-flip test over pictures."""
    p_adjusted: float | None = None
    """Corrected for the comparisons of its scope: benchmarks, dimensions, or overall."""
    only_first: int | None = None
    """Questions on which the first run did better; None for a metric that no single question has."""
    only_second: int | None = None
    only_one_has_value: int = 0
    """Questions left out because one of the runs has no value there."""
    unit: str = ""
    better: Better = "higher"
    needed: int | None = None
    """Questions that would show a difference of this size at the 5 % level with probability 0.8."""
    reason: Reason | None = None
    """Why there is no difference."""

    @property
    def scope(self) -> str:
        """What it is corrected together with."""
        return "benchmark" if self.benchmark != ALL else "overall" if self.dimension == ALL else "dimension"


class QuestionFlip(Struct, frozen=True):
    """A question on which two runs differ."""

    first: str
    second: str
    benchmark: str
    sample_id: str
    turn: int
    protocol: str
    method: Method
    metric: str
    first_value: float
    second_value: float


class RankInterval(Struct, frozen=True):
    """The rank of a run among those compared, 1 being best, on the questions that all have a value for."""

    model: str
    benchmark: str
    dimension: str
    """`*` overall: the average of the ranks over dimensions (ReForm-Eval, Table 1)."""
    method: Method
    metric: str
    rank: float
    low: float | None
    high: float | None
    """95 % of resamples, drawn picture by picture, rank it between these; None for a single picture."""
    best: float | None
    """Share of resamples in which no other run is better."""
    n: int


class Comparison(Struct, frozen=True):
    """What `compare_runs` found."""

    labels: tuple[str, ...]
    differences: tuple[PairedDifference, ...]
    ranks: tuple[RankInterval, ...]
    """Of the benchmarks that all runs have."""
    flips: tuple[QuestionFlip, ...]
    correction: Correction
    resamples: int
    partial: dict[str, tuple[str, ...]]
    """Benchmarks that not every run has, with the runs that have them."""

    def __repr__(self) -> str:
        return object_line(
            self, ", ".join(self.labels),
            differences=len(self.differences), ranks=len(self.ranks), flips=len(self.flips),
        )  # fmt: skip

    def table(self) -> polars.DataFrame:
        """One row a difference: runs, benchmark, dimension, values of both, difference with stderr, low, high, n and
        groups, p, p_adjusted, and how often only one of the two did better."""
        check_polars()
        import polars as pl

        return pl.DataFrame([flat_difference(difference) for difference in self.differences], infer_schema_length=None)

    def rank_table(self) -> polars.DataFrame:
        """One row a run and place: rank, low, high, and the share of resamples in which nobody is better."""
        check_polars()
        import polars as pl

        return pl.DataFrame([asdict(rank) for rank in self.ranks], infer_schema_length=None)

    def flip_table(self) -> polars.DataFrame:
        """One row a question on which two runs differ, with both values."""
        check_polars()
        import polars as pl

        return pl.DataFrame([asdict(flip) for flip in self.flips], infer_schema_length=None)


def flat_difference(difference: PairedDifference) -> dict[str, object]:
    """A difference as a flat dict of plain values; the value of its estimate is `difference`."""
    fields = asdict(difference)
    estimate = asdict(fields.pop("difference"))
    return {**fields, "difference": estimate.pop("value"), **estimate}
