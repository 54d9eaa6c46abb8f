"""The records of the settings of comparisons, behind `Results.compare()`, `Results.only()` and `snellen compare`.

    CompareSpec   how runs are compared
    GateSpec      when a candidate is worse than its baseline (--fail-if-worse, --gate)
    SubsetSpec    which questions count, in comparisons, scores and reports

Each field is declared once. Flags, keywords of Python functions and the tables of docs/reference/comparison.md are made
of its type, default and `Option`; `make fields` writes those that are files.
"""

# Without postponed annotations: flags are made of these types, and to read them from text takes 10 ms.

from typing import Annotated

from msgspec import Meta, Struct

from snellen.analysis.paired.differences import RESAMPLES
from snellen.analysis.paired.significance import Correction
from snellen.common.record_fields import Option


class SubsetSpec(Struct, frozen=True, kw_only=True):
    """Which questions of runs count."""

    where: Annotated[
        str,
        Option("Use only questions that meet a condition: \"l2 != 'logic_reasoning'\"."),
    ] = ""
    common_answered: Annotated[
        bool, Option("Use only questions that every run answered without refusal or error.")
    ] = False


class CompareSpec(Struct, frozen=True, kw_only=True):
    """How runs are compared."""

    metrics: Annotated[
        tuple[str, ...],
        Option("Metric to compare.", unless="each benchmark's headline", page="metrics.md"),
    ] = ()
    baseline: Annotated[
        str, Option("Run that all others are compared with.", unless="all pairs", metavar="RUN")
    ] = ""
    correction: Annotated[
        Correction,
        Option(
            "Correction of p-values for multiple comparisons: Holm, Benjamini-Hochberg, or none."
        ),
    ] = "holm"
    resamples: Annotated[int, Meta(ge=0), Option("Bootstrap resamples for ranks; 0 for none.")] = (
        RESAMPLES
    )
    seed: Annotated[int, Option("Random seed of the resamples.")] = 0


class GateSpec(Struct, frozen=True, kw_only=True):
    """When a candidate is worse than its baseline."""

    fail_if_worse: Annotated[
        str,
        Option(
            "With CANDIDATE BASELINE: a gate for pipelines. Exit with 1 if the candidate is worse "
            "by more than this (1pt), with 2 if there is not enough evidence, otherwise with 0.",
            metavar="MARGIN",
        ),
    ] = ""
    on: Annotated[
        tuple[str, ...],
        Option(
            "With --fail-if-worse: metric that must not get worse.",
            unless="the headline of the run",
            metavar="BENCHMARK[:METRIC]",
        ),
    ] = ()
    gate: Annotated[
        str,
        Option(
            "TOML file with the rules of a gate, instead of --fail-if-worse and --on.",
            metavar="FILE",
            page="gate.md",
        ),
    ] = ""
    plan: Annotated[
        bool,
        Option(
            "With a gate: print the smallest drop that these questions can detect, and exit with 0."
        ),
    ] = False
