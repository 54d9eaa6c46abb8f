"""How replies became options, stage by stage (MMBench, Table 2): rules, meaning, a judge, a random guess, or none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from snellen.analysis.reading_stages import STAGES, stage_of
from snellen.analysis.statistics import estimate_mean
from snellen.metrics.declaration import SHARE
from snellen.report.run_view import RunView
from snellen.report.table import Cell, NumberCell, Table


def stage_tables(views: Sequence[RunView]) -> list[Table]:
    """One row per model and protocol that shows options; no table without any."""
    rows = [row for view in views for row in _rows(view)]
    if not rows:
        return []
    note = "Of the replies to questions with options. What the rules leave open goes to --semantic and --judge."
    header = ("model", "protocol", "replies", "read by rules", *STAGES)
    return [Table("Extraction by stage", header, tuple(rows), label_columns=2, notes=(note,))]


def _rows(view: RunView) -> list[tuple[Cell, ...]]:
    stages: dict[str, list[str]] = defaultdict(list)
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for scored in view.run.benchmarks:
        for prediction in scored.predictions:
            sample = scored.samples[prediction.sample_id]
            if prediction.method == "generation" and sample.rounds[prediction.turn].options:
                stages[prediction.protocol].append(stage_of(prediction))
                groups[prediction.protocol].append((scored.spec.name, sample.group))
    return [_row(view.label, protocol, replies, groups[protocol]) for protocol, replies in stages.items()]


def _row(label: str, protocol: str, stages: Sequence[str], groups: Sequence[tuple[str, str]]) -> tuple[Cell, ...]:
    counts = Counter(stages)
    by_rules = estimate_mean([float(stage == "rules") for stage in stages], groups)
    return label, protocol, len(stages), NumberCell(SHARE, by_rules), *(counts[stage] for stage in STAGES)
