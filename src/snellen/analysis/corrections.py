"""Corrections of a run's numbers, which another package can bring.

A package registers a `NumberCorrection` in the group `corrections`. The corrected number takes the place of the number as read
in every sentence, table, export and comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from snellen import registry
from snellen.installation import LAB
from snellen.records import Estimate, Result
from snellen.scoring.scored_run import ScoredRun

AUDIT_FILE = "audit.json"
"""The file in the folder of a run of which people have labelled some replies (`snellen audit`, of snellen-lab)."""
BenchmarkNumber = Callable[[str, str, str], Estimate | None]
"""The corrected number of a benchmark, by its name, protocol and metric; None for one that is not corrected."""


class NumberCorrection(Struct, frozen=True):
    """Two functions by which an installed package corrects the numbers of a run, such as by an audit of its replies.

    Examples:
        >>> unchanged = NumberCorrection(lambda run, rows: list(rows), lambda run: lambda name, protocol, metric: None)
    """

    rows: Callable[[ScoredRun, Sequence[Result]], list[Result]]
    """Returns the rows of a run, before they are put on a printed scale, with the corrected ones in place."""
    numbers: Callable[[ScoredRun], BenchmarkNumber]
    """Returns how to look up the corrected numbers of single benchmarks of a run, for paired comparisons."""


def corrected_rows(run: ScoredRun, rows: Sequence[Result]) -> list[Result]:
    """Return the result rows of a run after every installed correction was applied; unchanged if there is none."""
    corrected = list(rows)
    for correction in _installed():
        corrected = correction.rows(run, corrected)
    return corrected


def corrected_numbers(run: ScoredRun) -> BenchmarkNumber:
    """Return a function that looks up the corrected number of a benchmark, by benchmark, protocol and metric.

    The first installed correction that has the number counts. The function returns None if no correction has it.
    """
    lookups = [correction.numbers(run) for correction in _installed()]

    def number(benchmark: str, protocol: str, metric: str) -> Estimate | None:
        """Return the corrected number from the first lookup that has one."""
        for lookup in lookups:
            estimate = lookup(benchmark, protocol, metric)
            if estimate is not None:
                return estimate
        return None

    return number


def unused_audits(run: ScoredRun) -> Iterator[str]:
    """Yield a warning if a run has an audit, but the package that corrects numbers by audits is not installed.

    In an audit, people label a sample of the replies.
    """
    if (run.folder / AUDIT_FILE).is_file() and "audit" not in registry.targets("corrections"):
        yield f"the labels of its audit need {LAB}; without it, its numbers are not corrected"


def _installed() -> list[NumberCorrection]:
    return list(registry.loadable("corrections").values())
