"""MMBench's table: overall, L-1, L-2 and leaf abilities, by one pass and by all, for each model and benchmark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from snellen.analysis.question_means import mean_estimate, why_withheld
from snellen.metrics.declaration import declared_row
from snellen.reasons import word_reason
from snellen.records import Sample, Score
from snellen.report.content import SuiteTables
from snellen.report.run_view import ModelMethodRow, RunView, method_rows
from snellen.report.summary import absence_reason
from snellen.report.table import AbsentCell, Cell, NumberCell, Table
from snellen.scoring.scored_run import ScoredBenchmark
from snellen.suites.mmbench import taxonomy

COLUMNS = {
    "accuracy": "vanilla",
    "circular_accuracy": "circular",
    "circular_drop": "lost by turning",
    "consistency": "consistent",
}
Path = tuple[str, ...]
"""L-1, L-2 and leaf, or the first of them; empty for all questions."""
INDENT = "· "


def ability_tables(views: Sequence[RunView]) -> list[Table]:
    """Return a table for each model, method and benchmark whose questions are tagged with abilities."""
    return [
        table
        for line in method_rows(views)
        for scored in line.view.run.benchmarks
        if any("l2" in sample.tags or "l3" in sample.tags for sample in scored.samples.values())
        if (table := _ability_table(line, scored)) is not None
    ]


def _ability_table(line: ModelMethodRow, scored: ScoredBenchmark) -> Table | None:
    """Return the table of one benchmark, with a row for all questions and for each ability of the three levels.
    None if no metric of it was computed."""
    protocol = _table_protocol(line, scored)
    every = {metric: list(scored.scores_of(metric, protocol)) for metric in COLUMNS}
    by = {metric: scores for metric, scores in every.items() if scores}
    if not by:
        return None
    metrics = [metric for metric in COLUMNS if metric in by]
    parts = {metric: _scores_by_path(by[metric], scored) for metric in metrics}
    paths = sorted({path for by_path in parts.values() for path in by_path}, key=_paper_order)
    rows = [
        (
            _ability_title(path),
            *(_mean_cell(line, scored, metric, parts[metric].get(path, [])) for metric in metrics),
            _lost_cell(scored, parts, path),
        )
        for path in paths
    ]
    notes = [f"From {protocol}; questions count alike."]
    if "circular_drop" in by:
        notes.append(
            "Lost by turning: right in the first pass but not in all (the paired difference of the accuracies). "
            "Consistent: all passes name one option, right or wrong."
        )
    header = ("ability", *(COLUMNS[metric] for metric in metrics), "unscored / errors")
    return Table(
        f"{scored.spec.name} by ability, {line.label}", header, tuple(rows), notes=tuple(notes)
    )


def _table_protocol(line: ModelMethodRow, scored: ScoredBenchmark) -> str:
    """Return the circular protocol, whose first pass is VanillaEval, or else the protocol of the benchmark's
    accuracy."""
    row = line.lookup("circular_accuracy", scored.spec.name) or line.lookup(
        "accuracy", scored.spec.name
    )
    return row.protocol if row else ""


def _scores_by_path(scores: Iterable[Score], scored: ScoredBenchmark) -> Mapping[Path, list[Score]]:
    """Return the scores of the questions of each ability. An ability is given by its path: its L-1, L-2 and own
    name."""
    by_path: dict[Path, list[Score]] = defaultdict(list)
    for score in scores:
        for path in _ability_paths(scored.samples[score.sample_id]):
            by_path[path].append(score)
    return by_path


def _ability_paths(sample: Sample) -> Iterator[Path]:
    """Yield the paths of all abilities that a question belongs to, and the empty path for all questions. A level
    that the question does not name is skipped."""
    levels = [sample.tags.get(name, "") for name in ("l1", "l2", "l3")]
    yield ()
    for depth, level in enumerate(levels, 1):
        if level:
            yield tuple(levels[:depth])


def _paper_order(path: Path) -> tuple[tuple[int, str], ...]:
    """Return the sort key of an ability: abilities are in the order of the paper, and others follow by name."""
    abilities = taxonomy.packaged_taxonomy()
    orders = (
        list(abilities.l1),
        [second.name for second in abilities.l2],
        [third.name for third in abilities.leaf],
    )
    return tuple(
        (order.index(name) if name in order else len(order), name)
        for order, name in zip(orders, path, strict=False)
    )


def _ability_title(path: Path) -> str:
    """Return the title of an ability, indented by its level; `Overall` for the empty path."""
    if not path:
        return "Overall"
    return INDENT * (len(path) - 1) + taxonomy.packaged_taxonomy().title(
        path[-1], path[1] if len(path) > 2 else ""
    )


def _mean_cell(
    line: ModelMethodRow, scored: ScoredBenchmark, metric: str, scores: Sequence[Score]
) -> Cell:
    """Return the mean of scores as a cell of the table, or why there is none."""
    if not scores:
        return AbsentCell(absence_reason(line, metric))
    estimate = mean_estimate(scored, scores, metric)
    if reason := why_withheld(estimate, scores):
        return AbsentCell(reason)
    if estimate.value is None:
        return AbsentCell(
            f"no question could be scored: {next(word_reason(score.reason, score.detail) for score in scores)}"
        )
    return NumberCell(declared_row(metric).unit, estimate)


def _lost_cell(
    scored: ScoredBenchmark, parts: Mapping[str, Mapping[Path, list[Score]]], path: Path
) -> str:
    """Return how many questions have no verdict, unscored and with failed requests. It counts questions asked in
    all passes, or in one if only one was run."""
    metric = "circular_accuracy" if "circular_accuracy" in parts else "accuracy"
    estimate = mean_estimate(scored, parts.get(metric, {}).get(path, []), metric)
    return f"{estimate.unscored:,} / {estimate.unanswered:,}"


ABILITY_TABLES = SuiteTables("abilities", ability_tables)
