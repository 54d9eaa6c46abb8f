"""The tables of a report besides the summary: dimensions, benchmarks, their parts, and where it all comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.capability import ALL, CAPABILITY
from snellen.analysis.capability import headline_metric as headline_of
from snellen.analysis.ranks import AVERAGE_RANK
from snellen.catalogue import dimension_titles, suites
from snellen.metrics.declaration import SHARE, declared
from snellen.report.formatting import DASH, heading, metric_title, percent
from snellen.report.request_counts import headline
from snellen.report.run_view import (
    CHOICE_ROWS,
    MethodRow,
    MetricEstimates,
    RunView,
    benchmarks_of,
    chance,
    dimensions_of,
    mean_chance,
    method_rows,
)
from snellen.report.summary import summary_number
from snellen.report.table import AbsentCell, Cell, NumberCell, Table
from snellen.scoring.scored_run import ScoredBenchmark
from snellen.scoring.text_scoring import DEFAULT_TEXT_METRICS, rows_of

NO_ROW = "not measured here: the benchmark is not part of the run, or the metric does not apply to it"


class BenchmarkPart(Struct, frozen=True):
    """A row of a matrix: its labels, and where its numbers are found."""

    labels: tuple[str, ...]
    benchmark: str
    dimension: str = ""
    part: str = ""
    chance: float | None = None
    metric: str = ""
    """Its own one, where it is not the table's."""


def scored_benchmarks(sheets: Sequence[RunView]) -> dict[str, ScoredBenchmark]:
    """Each benchmark once, as the first run has it."""
    found: dict[str, ScoredBenchmark] = {}
    for sheet in sheets:
        for one in sheet.run.benchmarks:
            found.setdefault(one.spec.name, one)
    return {name: found[name] for name in benchmarks_of(sheets)}


def dimension_tables(sheets: Sequence[RunView]) -> list[Table]:
    """Capabilities, then a table a metric of choices: dimensions by lines."""
    places = [
        BenchmarkPart(
            (f"{dimension_titles().get(name, name)} ({name})",), ALL, name, "", dimension_chance(sheets, name)
        )
        for name in dimensions_of(sheets)
    ]
    overall = BenchmarkPart(("mean of the dimensions",), ALL, ALL)
    rank = BenchmarkPart(("average rank",), ALL, ALL, metric=AVERAGE_RANK)
    capability = [
        replace(table, notes=_capability_notes(sheets))
        for table in _matrix("dimension", [*places, overall, rank], sheets, CAPABILITY)
    ]
    return [
        *capability,
        *(table for metric in CHOICE_ROWS for table in _matrix("dimension", places, sheets, metric)),
    ]


def _capability_notes(sheets: Sequence[RunView]) -> tuple[str, ...]:
    """What stands for a dimension, and which dimensions lack benchmarks of their suite."""
    there = scored_benchmarks(sheets).values()
    notes = [
        "Of each benchmark its first metric: accuracy where there are options; benchmarks count alike. A mean is only "
        "over metrics of one scale; ranks are over the dimensions that all models have."
    ]
    for dimension in dimensions_of(sheets):
        specs = [one.spec for one in there if one.spec.dimension == dimension]
        measured = ", ".join(dict.fromkeys(metric_title(headline_of(spec)) for spec in specs))
        suites_here = dict.fromkeys(spec.suite for spec in specs)
        whole = {spec.name for suite in suites_here for spec in suites().get(suite, ()) if spec.dimension == dimension}
        missing = sorted(name.rpartition("/")[2] for name in whole - {spec.name for spec in specs})
        partial = f"; partial, without {', '.join(missing)}" if missing else ""
        notes.append(f"{dimension}: {measured} of {len(specs)} benchmark{'s' * (len(specs) > 1)}{partial}.")
    return tuple(notes)


def dimension_chance(sheets: Sequence[RunView], dimension: str) -> float | None:
    return mean_chance([one for one in scored_benchmarks(sheets).values() if one.spec.dimension == dimension])


def benchmark_tables(sheets: Sequence[RunView]) -> list[Table]:
    """One table a metric, of choices and of what else was measured: benchmarks by lines."""
    places = [BenchmarkPart((name,), name, "", "", chance(one)) for name, one in scored_benchmarks(sheets).items()]
    metrics = (*CHOICE_ROWS, *other_metrics(sheets), "template_spread")
    return [table for metric in metrics for table in _matrix("benchmark", places, sheets, metric)]


def slice_tables(sheets: Sequence[RunView]) -> list[Table]:
    """Parts of benchmarks by tag and round: accuracy, and the first metric of each benchmark that asks for text."""
    scored = scored_benchmarks(sheets)
    parts = sorted({(row.benchmark, row.slice) for sheet in sheets for row in sheet.rows if is_part(row.slice)})
    places = [BenchmarkPart((name, part), name, "", part) for one in scored for name, part in parts if name == one]
    firsts = dict.fromkeys(headline(one, has_options=False) for one in scored.values() if chance(one) is None)
    return [table for metric in ("accuracy", *firsts) for table in _matrix("part", places, sheets, metric)]


def is_part(part: str) -> bool:
    """Whether a row's slice is a part of a benchmark; a template is none, it is about all questions."""
    return bool(part) and not part.startswith("template=")


def other_metrics(sheets: Sequence[RunView]) -> list[str]:
    """All metrics but those of every choice: first those of the benchmarks' specs, then what else was asked for."""
    rows = [row.metric for sheet in sheets for row in sheet.rows]
    wanted = [row for one in scored_benchmarks(sheets).values() for row in spec_rows(one)]
    known = set(rows)
    return [
        m
        for m in dict.fromkeys((*wanted, *rows))
        if m in known and not _is_choice_row(m) and m not in ("template_spread", CAPABILITY, AVERAGE_RANK)
    ]


def _is_choice_row(name: str) -> bool:
    return name in CHOICE_ROWS or declared(name).secondary_to in CHOICE_ROWS


def spec_rows(one: ScoredBenchmark) -> list[str]:
    """The rows of a benchmark's own metrics."""
    return [row for metric in one.spec.metrics or DEFAULT_TEXT_METRICS for row in rows_of(metric)]


def _matrix(what: str, places: Sequence[BenchmarkPart], sheets: Sequence[RunView], metric: str) -> list[Table]:
    """One metric: places by lines, without those that have nothing; no table when nothing is left."""
    grid = [
        (line, [line.at(p.metric or metric, p.benchmark, p.dimension, p.part) for p in places])
        for line in method_rows(sheets)
    ]
    grid = [(line, column) for line, column in grid if any(column)]
    kept = [i for i in range(len(places)) if any(column[i] for _, column in grid)]
    if not kept:
        return []
    main = _main_protocols(grid)
    has_chance = metric == "accuracy" and any(places[i].chance is not None for i in kept)
    rows = []
    for i in kept:
        level = places[i].chance
        guess: list[Cell] = [percent(level) if level is not None else DASH] if has_chance else []
        rows.append(
            (*places[i].labels, *guess, *(_cell(line, metric, column[i], main, places[i]) for line, column in grid))
        )
    names = ("benchmark", "part") if len(places[0].labels) == 2 else (what,)
    labels = len(names) + has_chance
    header = (*names, *(["chance"] if has_chance else []), *(line.label for line, _ in grid))
    sources = [f"By {method}: from {protocol}." for method, protocol in main.items() if protocol != method]
    spans = [(label, len(list(same))) for label, same in groupby(line.sheet.label for line, _ in grid)]
    units = {found.unit for _, column in grid for found in column if found}
    told = [
        f"{heading(note)}."
        for note in [replace(declared(metric), unit=unit).facts for unit in units]
        if note and len(units) == 1
    ]
    title = f"{heading(metric_title(metric))} by {what}"
    return [Table(title, header, tuple(rows), labels, (*told, *sources), tuple(spans))]


def _main_protocols(grid: Sequence[tuple[MethodRow, list[MetricEstimates | None]]]) -> dict[str, str]:
    """By method: the protocol that most cells come from."""
    counts: dict[str, Counter[str]] = {}
    for line, column in grid:
        counts.setdefault(line.method, Counter()).update(found.protocol for found in column if found)
    return {method: count.most_common(1)[0][0] for method, count in counts.items()}


def _cell(
    line: MethodRow, metric: str, found: MetricEstimates | None, main: dict[str, str], place: BenchmarkPart
) -> Cell:
    if found is None:
        return AbsentCell(NO_ROW)
    cell = summary_number(line, metric, found, "" if place.benchmark == ALL else place.benchmark)
    if not isinstance(cell, NumberCell):
        return cell
    notes = [
        f"from {found.protocol}" if found.protocol != main[line.method] else "",
        f"in {found.unit}" if metric == CAPABILITY and found.unit not in (SHARE, "rank") else "",
    ]
    return replace(cell, note=", ".join(note for note in notes if note))


def provenance_tables(sheets: Sequence[RunView]) -> list[Table]:
    """What each run was, without the paths of the machine it ran on; and the benchmarks' versions."""
    facts = [(sheet.label, name, value) for sheet in sheets for name, value in _facts(sheet)]
    benchmarks = tuple(
        (sheet.label, use.name, use.version, use.where or DASH, DASH if use.limit is None else use.limit)
        for sheet in sheets
        for use in sheet.run.manifest.benchmarks
    )
    return [
        Table("Runs", ("model", "fact", "value"), _merged(facts), labels=2),
        Table("Benchmarks", ("model", "benchmark", "version", "where", "limit"), _merged(benchmarks), labels=2),
    ]


def _facts(sheet: RunView) -> Iterable[tuple[str, str]]:
    manifest, scoring = sheet.run.manifest, sheet.run.scoring
    decoding = manifest.decoding
    yield "started", manifest.started
    yield "protocols", ", ".join(manifest.protocols)
    for name, value in sorted(manifest.fingerprint.items()):
        yield f"model: {name}", value
    yield "templates", manifest.templates
    yield "response prefix", "yes" if manifest.prefix else "no"
    yield (
        "decoding",
        f"temperature {decoding.temperature:g}, top_p {decoding.top_p:g}, seed {decoding.seed}"
        + (f", stop {list(decoding.stop)}" if decoding.stop else "")
        + (
            f", at most {decoding.max_new_tokens} tokens" if decoding.max_new_tokens else ", each benchmark's own limit"
        ),
    )
    yield "replies read by", " + ".join((scoring.extractor, *sheet.run.reading_stages))
    yield "likelihood rule", scoring.likelihood_rule
    for name, value in manifest.software.items():
        yield f"version: {name}", value
    for name, value in manifest.hardware.items():
        yield f"hardware: {name}", value
    for i, note in enumerate(manifest.notes, 1):
        yield f"note {i}", note


def _merged(rows: Sequence[tuple[Cell, ...]]) -> tuple[tuple[Cell, ...], ...]:
    """One row for all runs that agree; first what is true of all of them."""
    models: dict[tuple[Cell, ...], list[str]] = {}
    for model, *rest in rows:
        models.setdefault(tuple(rest), []).append(str(model))
    everybody = {str(row[0]) for row in rows}
    named = [
        ("all" if set(who) == everybody and len(who) > 1 else ", ".join(who), *rest) for rest, who in models.items()
    ]
    order = {"all": -1, **{str(row[0]): i for i, row in reversed(list(enumerate(rows)))}}
    return tuple(sorted(named, key=lambda row: order.get(str(row[0]), len(rows))))
