"""How replies became options, stage by stage (MMBench, Table 2): rules, meaning, a judge, a random guess, or none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from snellen.analysis.reading_stages import STAGES, stage_of
from snellen.metrics.declaration import SHARE
from snellen.report.run_view import RunView
from snellen.report.table import Cell, NumberCell, Table
from snellen.report.value_pool import Groups, ValuePool, with_samples


def stage_tables(views: Sequence[RunView]) -> list[Table]:
    """One row per model and protocol that shows options; no table without any."""
    rows = [row for view in views for row in _rows(view)]
    if not rows:
        return []
    note = "Of the replies to questions with options. What the rules leave open goes to --semantic and --judge."
    header = ("model", "protocol", "replies", "read by rules", *STAGES)
    return [Table("Extraction by stage", header, tuple(rows), label_columns=2, notes=(note,))]


def _rows(view: RunView) -> list[tuple[Cell, ...]]:
    stages: dict[str, Counter[str]] = defaultdict(Counter)
    by_rules: dict[str, ValuePool] = defaultdict(ValuePool)
    groups = Groups()
    for scored in view.run.benchmarks:
        for prediction, sample in with_samples(scored):
            if prediction.method == "generation" and sample.rounds[prediction.turn].options:
                stage = stage_of(prediction)
                stages[prediction.protocol][stage] += 1
                by_rules[prediction.protocol].add(float(stage == "rules"), groups.number(scored, sample))
    return [
        (
            view.label,
            protocol,
            counts.total(),
            NumberCell(SHARE, by_rules[protocol].estimate()),
            *(counts[stage] for stage in STAGES),
        )
        for protocol, counts in stages.items()
    ]
