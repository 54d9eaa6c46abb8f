"""How replies became options, stage by stage (MMBench, Table 2): rules, meaning, a judge, a random guess, or none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from snellen.analysis.reading_stages import STAGES, stage_of
from snellen.analysis.statistics import estimate_mean
from snellen.metrics.declaration import SHARE
from snellen.report.run_view import RunView
from snellen.report.table import Cell, NumberCell, Table


def stage_tables(sheets: Sequence[RunView]) -> list[Table]:
    """A row a model and protocol that shows options; no table without one."""
    rows = [row for sheet in sheets for row in _rows(sheet)]
    if not rows:
        return []
    note = "Of the replies to questions with options. What the rules leave open goes to --semantic and --judge."
    header = ("model", "protocol", "replies", "read by rules", *STAGES)
    return [Table("Extraction by stage", header, tuple(rows), labels=2, notes=(note,))]


def _rows(sheet: RunView) -> list[tuple[Cell, ...]]:
    stages: dict[str, list[str]] = defaultdict(list)
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in sheet.run.benchmarks:
        for prediction in one.predictions:
            sample = one.samples[prediction.sample_id]
            if prediction.method == "generation" and sample.rounds[prediction.turn].options:
                stages[prediction.protocol].append(stage_of(prediction))
                groups[prediction.protocol].append((one.spec.name, sample.group))
    return [_row(sheet.label, protocol, found, groups[protocol]) for protocol, found in stages.items()]


def _row(label: str, protocol: str, stages: Sequence[str], groups: Sequence[tuple[str, str]]) -> tuple[Cell, ...]:
    counts = Counter(stages)
    by_rules = estimate_mean([float(stage == "rules") for stage in stages], groups)
    return label, protocol, len(stages), NumberCell(SHARE, by_rules), *(counts[stage] for stage in STAGES)
