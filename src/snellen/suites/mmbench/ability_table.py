"""MMBench's table: overall, L-1, L-2 and leaf abilities, by one pass and by all, for each model and benchmark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from snellen.analysis.question_means import mean_estimate, why_withheld
from snellen.metrics.declaration import declared_row
from snellen.reasons import word_reason
from snellen.records import Sample, Score
from snellen.report.content import SuiteTables
from snellen.report.reported_runs import ModelMethodRow, ReportedRun, method_rows
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
"""An ability with those that it belongs to, from general (L-1) to specific (leaf): `("LR", "AR")` is an L-2 ability.

The empty path stands for all questions."""
INDENT = "· "


def ability_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table of abilities for each model, method and benchmark whose questions are tagged with abilities."""
    tables = []
    for model_row in method_rows(reported_runs):
        for scored in model_row.reported_run.run.benchmarks:
            if not _has_abilities(scored):
                continue
            table = _ability_table(model_row, scored)
            if table is not None:
                tables.append(table)
    return tables


def _has_abilities(scored: ScoredBenchmark) -> bool:
    """Return whether a question of a benchmark is tagged with its ability."""
    return any("l2" in sample.tags or "l3" in sample.tags for sample in scored.samples.values())


def _ability_table(model_row: ModelMethodRow, scored: ScoredBenchmark) -> Table | None:
    """Return the table of one model on one benchmark: a row for all questions, then one for each ability.

    Returns:
        The table; None if the run has none of the metrics that are its columns.
    """
    protocol = _table_protocol(model_row, scored)
    scores_by_metric: dict[str, Mapping[Path, list[Score]]] = {}
    for metric in COLUMNS:
        scores = list(scored.scores_of(metric, protocol))
        if scores:
            scores_by_metric[metric] = _scores_by_path(scores, scored)
    if not scores_by_metric:
        return None

    paths: set[Path] = set()
    for scores_by_path in scores_by_metric.values():
        paths.update(scores_by_path)
    rows = []
    for path in sorted(paths, key=_paper_order):
        cells = [
            _mean_cell(model_row, scored, metric, scores_by_path.get(path, []))
            for metric, scores_by_path in scores_by_metric.items()
        ]
        rows.append((_ability_title(path), *cells, _lost_cell(scored, scores_by_metric, path)))

    notes = [f"From {protocol}; questions count alike."]
    if "circular_drop" in scores_by_metric:
        notes.append(
            "Lost by turning: right in the first pass but not in all (the paired difference of the accuracies). "
            "Consistent: all passes name one option, right or wrong."
        )
    titles = [COLUMNS[metric] for metric in scores_by_metric]
    return Table(
        f"{scored.spec.name} by ability, {model_row.label}",
        ("ability", *titles, "unscored / errors"),
        tuple(rows),
        notes=tuple(notes),
    )


def _table_protocol(model_row: ModelMethodRow, scored: ScoredBenchmark) -> str:
    """Return the protocol whose scores the table shows.

    It is the circular one if it was used, and otherwise the one from which tables take the accuracy. The circular
    protocol is enough, because its first pass is the same as asking each question once (VanillaEval).

    Returns:
        The label of the protocol; empty if there is no accuracy.
    """
    for metric in ("circular_accuracy", "accuracy"):
        row = model_row.lookup(metric, scored.spec.name)
        if row:
            return row.protocol
    return ""


def _scores_by_path(scores: Iterable[Score], scored: ScoredBenchmark) -> Mapping[Path, list[Score]]:
    """Return the scores of the questions of each ability, of all three levels (see `Path`)."""
    by_path: dict[Path, list[Score]] = defaultdict(list)
    for score in scores:
        for path in _ability_paths(scored.samples[score.sample_id]):
            by_path[path].append(score)
    return by_path


def _ability_paths(sample: Sample) -> Iterator[Path]:
    """Yield the abilities of a question on each level, and the empty path for all questions.

    A question with the tags l1=LR, l2=AR and l3=ocr yields (), (LR,), (LR, AR) and (LR, AR, ocr). A level that it has
    no tag for is skipped.
    """
    levels = [sample.tags.get(name, "") for name in ("l1", "l2", "l3")]
    yield ()
    for depth, level in enumerate(levels, 1):
        if level:
            yield tuple(levels[:depth])


def _paper_order(path: Path) -> tuple[tuple[int, str], ...]:
    """Return the sort key of an ability: abilities are in the order of the paper, and others follow by name."""
    abilities = taxonomy.packaged_taxonomy()
    names_by_level = (
        list(abilities.l1),
        [ability.name for ability in abilities.l2],
        [ability.name for ability in abilities.leaf],
    )
    key = []
    for names, name in zip(names_by_level, path, strict=False):
        position = names.index(name) if name in names else len(names)
        key.append((position, name))
    return tuple(key)


def _ability_title(path: Path) -> str:
    """Return the title of an ability for the table, indented by its level; `Overall` for the empty path."""
    if not path:
        return "Overall"
    l2 = path[1] if len(path) > 2 else ""
    indent = INDENT * (len(path) - 1)
    return indent + taxonomy.packaged_taxonomy().title(path[-1], l2)


def _mean_cell(
    model_row: ModelMethodRow, scored: ScoredBenchmark, metric: str, scores: Sequence[Score]
) -> Cell:
    """Return the mean of scores as a cell of the table, or the reason why there is none.

    Args:
        model_row: The model and method.
        scored: The benchmark.
        metric: The metric.
        scores: The scores of the questions of an ability.
    """
    if not scores:
        return AbsentCell(absence_reason(model_row, metric))
    estimate = mean_estimate(scored, scores, metric)
    reason = why_withheld(estimate, scores)
    if reason:
        return AbsentCell(reason)
    if estimate.value is None:
        first = scores[0]
        return AbsentCell(f"no question could be scored: {word_reason(first.reason, first.detail)}")
    return NumberCell(declared_row(metric).unit, estimate)


def _lost_cell(
    scored: ScoredBenchmark, scores_by_metric: Mapping[str, Mapping[Path, list[Score]]], path: Path
) -> str:
    """Return how many questions of an ability have no value: unscored ones and those with failed requests, as `3 / 1`.

    If the circular protocol was run, a question needs all its passes.
    """
    metric = "circular_accuracy" if "circular_accuracy" in scores_by_metric else "accuracy"
    scores = scores_by_metric.get(metric, {}).get(path, [])
    estimate = mean_estimate(scored, scores, metric)
    return f"{estimate.unscored:,} / {estimate.unanswered:,}"


ABILITY_TABLES = SuiteTables("abilities", ability_tables)
