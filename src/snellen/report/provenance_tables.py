"""Tables of provenance: what each run was, without paths of its machine, and the versions of its benchmarks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from snellen.building.benchmark import RandomPart
from snellen.records import Decoding
from snellen.report.number_text import DASH
from snellen.report.reported_runs import ReportedRun
from snellen.report.table import Column, Table, tabulate
from snellen.runs.run_folder import BenchmarkUse, RunManifest
from snellen.scoring.scored_run import without_address


class _FactRow(NamedTuple):
    """A fact and the models of the runs of which it is true."""

    models: str
    name: str
    value: str


class _BenchmarkRow(NamedTuple):
    """A use of a benchmark and the models of the runs that used it so."""

    models: str
    name: str
    version: str
    origin: str
    condition: str
    limit: int | str
    part: str


def provenance_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return two tables about the origin of results: settings and software of the runs, and versions of their benchmarks.

    Rows that are equal for several models are merged.
    """
    fact_columns: list[Column[_FactRow]] = [
        Column("model", lambda row: row.models, is_label=True),
        Column("fact", lambda row: row.name, is_label=True),
        Column("value", lambda row: row.value),
    ]
    benchmark_columns: list[Column[_BenchmarkRow]] = [
        Column("model", lambda row: row.models, is_label=True),
        Column("benchmark", lambda row: row.name, is_label=True),
        Column("version", lambda row: row.version),
        Column("built from", lambda row: row.origin),
        Column("condition", lambda row: row.condition),
        Column("limit", lambda row: row.limit),
        Column("part evaluated", lambda row: row.part),
    ]
    facts: list[_FactRow] = []
    benchmarks: list[_BenchmarkRow] = []
    for reported_run in reported_runs:
        facts += [_FactRow(reported_run.label, name, value) for name, value in _facts(reported_run)]
        benchmarks += [
            _benchmark_row(reported_run, use) for use in reported_run.run.manifest.benchmarks
        ]
    return [
        tabulate("Runs", fact_columns, _merge(facts)),
        tabulate("Benchmarks", benchmark_columns, _merge(benchmarks)),
    ]


RowT = TypeVar("RowT", _FactRow, _BenchmarkRow)


def _merge(rows: Sequence[RowT]) -> list[RowT]:
    """Merge the rows of a table that differ only in the column `models`, which then lists all their models.

    A merged row that covers every model of the table says `all` in this column, and comes first. The others follow in
    the order of the models.
    """
    models_by_content: dict[RowT, list[str]] = defaultdict(list)
    for row in rows:
        content = row._replace(models="")
        models_by_content[content].append(row.models)

    all_models = {row.models for row in rows}
    merged_rows: list[RowT] = []
    for content, models in models_by_content.items():
        covers_all = len(models) > 1 and set(models) == all_models
        models_text = "all" if covers_all else ", ".join(models)
        merged_rows.append(content._replace(models=models_text))

    first_index: dict[str, int] = {}
    for index, row in enumerate(rows):
        first_index.setdefault(row.models, index)
    first_index.setdefault("all", -1)

    def position(row: RowT) -> int:
        """Return the index of the first row of the model. A list of several models, which has none, comes last."""
        return first_index.get(row.models, len(rows))

    return sorted(merged_rows, key=position)


def _benchmark_row(reported_run: ReportedRun, use: BenchmarkUse) -> _BenchmarkRow:
    """Return the table row that says which build of a benchmark a run used, and which part of its samples."""
    part_text = str(use.part or DASH)
    if isinstance(use.part, RandomPart):
        part_text = f"{use.part.images:,} of {use.part.total_images:,} images, seed {use.part.seed}"
    limit = DASH if use.limit is None else use.limit
    return _BenchmarkRow(
        models=reported_run.label,
        name=use.name,
        version=use.version,
        origin=use.origin or DASH,
        condition=use.where or DASH,
        limit=limit,
        part=part_text,
    )


def _facts(reported_run: ReportedRun) -> Iterator[tuple[str, str]]:
    """Yield the settings and circumstances of a run for a report, as pairs of a name and a value: ("decoding", "greedy")."""
    manifest = reported_run.run.manifest
    scoring = reported_run.run.scoring
    yield "started", manifest.started
    yield "protocols", ", ".join(manifest.protocols)
    for name, value in sorted(manifest.fingerprint.items()):
        yield f"model: {name}", without_address(value)
    for role, use in manifest.roles.items():
        yield role, without_address(use.model)
        for name, value in sorted(use.fingerprint.items()):
            yield f"{role}: {name}", without_address(value)
    yield "templates", manifest.templates
    yield "response prefix", "yes" if manifest.prefix else "no"
    if manifest.few_shot:
        yield "examples shown", _few_shot_text(manifest)
    yield "decoding", _decoding_text(manifest.decoding)
    yield "replies parsed by", " + ".join((scoring.extractor, *reported_run.run.reading_stages))
    yield "likelihood rule", scoring.likelihood_rule
    for name, value in manifest.software.items():
        yield f"version: {name}", value
    for name, value in manifest.hardware.items():
        yield f"hardware: {name}", value
    for i, note in enumerate(manifest.notes, 1):
        yield f"note {i}", note


def _decoding_text(decoding: Decoding) -> str:
    """Return `temperature 0, top_p 1, seed 0, at most 64 tokens`."""
    settings = [
        f"temperature {decoding.temperature:g}",
        f"top_p {decoding.top_p:g}",
        f"seed {decoding.seed}",
    ]
    if decoding.stop:
        settings.append(f"stop {list(decoding.stop)}")
    if decoding.max_new_tokens:
        settings.append(f"at most {decoding.max_new_tokens} tokens")
    else:
        settings.append("each benchmark's own limit")
    return ", ".join(settings)


def _few_shot_text(manifest: RunManifest) -> str:
    """Describe the solved examples in each prompt of a run: `4 before each question, drawn for each, seed 0`."""
    count, is_same, seed = manifest.few_shot
    source = ", of another benchmark" if manifest.question_specs[0].few_shot_from else ""
    choice = "the same ones" if is_same else "drawn for each"
    return f"{count} before each question{source}, {choice}, seed {seed}"
