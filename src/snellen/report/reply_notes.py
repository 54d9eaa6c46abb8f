"""Notes on the replies of runs that change what a number means: unread ones, and ones that speak to the grader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from snellen.report.reported_runs import ReportedRun
from snellen.scoring.scored_run import reading_limits


def unread_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return notes on correct replies that an extractor cannot read, with the benchmarks that this concerns.

    An extractor finds out which option a reply chooses. It may for example not know the letters of the options.
    """
    benchmarks_by_limit: dict[str, set[str]] = defaultdict(set)
    for reported_run in reported_runs:
        for scored in reported_run.run.benchmarks:
            for limit in reading_limits(reported_run.run, scored):
                benchmarks_by_limit[limit].add(scored.spec.name)

    notes: list[str] = []
    for limit, benchmarks in benchmarks_by_limit.items():
        concerned = min(benchmarks)
        if len(benchmarks) > 1:
            concerned += f" and {len(benchmarks) - 1} more"
        notes.append(f"Correct replies may remain unparsed: {limit} ({concerned}).")
    return notes


def grader_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return which models addressed their grader, how often, and an example."""
    notes = []
    for reported_run in reported_runs:
        speaking = reported_run.replies_to_grader
        if speaking:
            first = speaking[0]
            replies_speak = "reply speaks" if len(speaking) == 1 else "replies speak"
            notes.append(
                f"{len(speaking):,} {replies_speak} to the grader ({reported_run.label}; {first.sample_id}: {first.addresses_grader!r}); they are "
                "parsed like any other reply."
            )
    return notes
