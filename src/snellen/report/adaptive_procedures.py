"""What a procedure that chooses its own questions declares, so that its runs can be shown and compared.

The mean over questions that were chosen by earlier replies says nothing about a benchmark. The procedure therefore says
how its runs are summarised and compared. It is registered in the group `adaptive_procedures` under its `rule`
(`snellen.building.benchmark.ChosenPart`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen import registry
from snellen.errors import DataError, UnknownNameError
from snellen.installation import LAB, sibling_install_line
from snellen.report.table import Table
from snellen.runs.run_folder import RunManifest
from snellen.scoring.scored_run import ScoredRun

PROCEDURES_OF_LAB = ("acuity",)
"""Procedures of the package snellen-lab."""


class AdaptiveComparison(Struct, frozen=True):
    """The result of comparing runs that were made by the same adaptive procedure, as tables and as JSON.

    Examples:
        >>> AdaptiveComparison(tables=(), records=()).tables
        ()
    """

    tables: tuple[Table, ...]
    records: tuple[str, ...]
    """The differences as lines of JSON."""


class AdaptiveProcedure(Struct, frozen=True, kw_only=True):
    """How the runs of a procedure are summarised and compared.

    Examples:
        >>> procedure = AdaptiveProcedure(
        ...     measures="thresholds",
        ...     summarise=lambda run: [("smallest letter", "12 px")],
        ...     compare=lambda runs: AdaptiveComparison(tables=(), records=()),
        ... )
        >>> procedure.measures
        'thresholds'
    """

    measures: str
    """What the procedure measures, in the plural: `thresholds`."""
    summarise: Callable[[ScoredRun], Sequence[tuple[str, str]]]
    """Return the results of a run as pairs of a name and a text."""
    compare: Callable[[Sequence[ScoredRun]], AdaptiveComparison]
    """Compare runs. Raises DataError if they have nothing in common."""


def procedure_of(manifest: RunManifest) -> AdaptiveProcedure | None:
    """Return the procedure that chose the questions of a run by earlier replies; None for an ordinary run.

    The manifest of such a run has the name under which its procedure is registered, for example `acuity`.

    Raises:
        UnknownNameError: The package of the procedure is not installed.
    """
    rules = manifest.adaptive_rules
    if not rules:
        return None
    rule = rules[0]
    if rule not in registry.targets("adaptive_procedures"):
        remedy = "install the package that provides it"
        if rule in PROCEDURES_OF_LAB:
            remedy = f"install the package {LAB}: {sibling_install_line(LAB)}"
        raise UnknownNameError(
            f"the questions of this run were chosen by the procedure {rule!r}, which is not installed; {remedy}"
        )
    procedure: AdaptiveProcedure = registry.find_registered("adaptive_procedures", rule)
    return procedure


def common_procedure(runs: Sequence[ScoredRun]) -> AdaptiveProcedure:
    """Return the adaptive procedure by which all of these runs were made. At least one of them must be adaptive.

    Raises:
        DataError: The runs were made by different procedures, or some are ordinary runs.
        UnknownNameError: The package of a procedure is not installed.
    """
    procedures = [procedure_of(run.manifest) for run in runs]
    first = next(procedure for procedure in procedures if procedure is not None)
    if any(procedure != first for procedure in procedures):
        raise DataError(
            f"only some of these runs measured {first.measures}; compare each kind separately"
        )
    return first
