"""The tables of a report besides the summary: dimensions, benchmarks, slices, provenance,
common questions and conventions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.aggregate import results_of
from snellen.analysis.capability import CAPABILITY, TASK_CAPABILITY
from snellen.analysis.headline import (
    ALL,
    HEADLINE,
    headline_metric,
    headlines_of,
    protocol_preference,
)
from snellen.analysis.ranks import AVERAGE_RANK
from snellen.building.benchmark import RandomPart
from snellen.metrics.declaration import (
    DEFAULT_TEXT_METRICS,
    OF_ANSWERED,
    SHARE,
    declared,
    find_metric,
)
from snellen.reasons import word_reason
from snellen.records import Method, Result
from snellen.report.run_view import (
    CHOICE_ROWS,
    HeadlineEstimate,
    ModelMethodRow,
    RunView,
    benchmarks_of,
    chance_levels,
    common_chance,
    dimensions_of,
    is_of_first_alone,
    method_rows,
    overall_label,
    pools_of,
    question_metric,
)
from snellen.report.summary import summary_cell
from snellen.report.table import (
    DASH,
    AbsentCell,
    Cell,
    NumberCell,
    Table,
    capitalised,
    counts_text,
    dimension_title,
    metric_meaning,
    metric_title,
    percent,
)
from snellen.runs.run_folder import BenchmarkUse, RunManifest
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, without_address

NO_ROW = (
    "not measured here: the benchmark is not part of the run, or the metric does not apply to it"
)


class MatrixRow(Struct, frozen=True):
    """A row of a matrix: its labels, and where to look up its numbers."""

    labels: tuple[str, ...]
    benchmark: str
    dimension: str = ""
    slice: str = ""
    chance: Mapping[str, float] = {}
    """The level of guessing of each run, by its label."""
    metric: str = ""
    """The row's own metric, where it is not the table's."""


def scored_benchmarks(views: Sequence[RunView]) -> dict[str, ScoredBenchmark]:
    """Each benchmark once, from the first run that has it."""
    benchmarks: dict[str, ScoredBenchmark] = {}
    for view in views:
        for scored in view.run.benchmarks:
            benchmarks.setdefault(scored.spec.name, scored)
    return {name: benchmarks[name] for name in benchmarks_of(views)}


def dimension_tables(views: Sequence[RunView]) -> list[Table]:
    """Capabilities, then one table per choice metric: a row per dimension, a column per model and method."""
    places = [
        MatrixRow(
            (f"{dimension_title(name)} ({name})",), ALL, name, "", dimension_chances(views, name)
        )
        for name in dimensions_of(views)
    ]
    overall = MatrixRow((overall_label(method_rows(views)),), ALL, ALL, metric=HEADLINE)
    rank = MatrixRow(("average rank",), ALL, ALL, metric=AVERAGE_RANK)
    capability = [
        replace(table, notes=_capability_notes(views))
        for table in _matrix(
            "dimension", [*_with_tasks(places, views), overall, rank], views, CAPABILITY
        )
    ]
    return [
        *capability,
        *(table for metric in CHOICE_ROWS for table in _matrix("dimension", places, views, metric)),
    ]


def _with_tasks(places: Sequence[MatrixRow], views: Sequence[RunView]) -> list[MatrixRow]:
    """Under each dimension its tasks, where it has several."""
    of_dimension: dict[str, dict[str, None]] = defaultdict(dict)
    for row in (row for view in views for row in view.rows if row.metric == TASK_CAPABILITY):
        of_dimension[row.dimension][row.slice] = None
    rows = []
    for place in places:
        rows.append(place)
        for task in of_dimension[place.dimension]:
            title = f"· {task.removeprefix('task=')}"
            rows.append(MatrixRow((title,), ALL, place.dimension, task, metric=TASK_CAPABILITY))
    return rows


def _capability_notes(views: Sequence[RunView]) -> tuple[str, ...]:
    """What counts alike, and the headline metric of each dimension."""
    benchmarks = scored_benchmarks(views).values()
    counted = {
        row.over
        for view in views
        for row in view.rows
        if row.metric == CAPABILITY and row.dimension != ALL
    }
    units = " or ".join(sorted(counted - {""}))
    notes = [
        f"Each dimension is a mean over {units} of headline metrics: accuracy where there are options. A mean is only "
        "taken over metrics of one scale; ranks are over the dimensions in which all models were measured alike."
    ]
    for dimension in dimensions_of(views):
        specs = [scored.spec for scored in benchmarks if scored.spec.dimension == dimension]
        measured = ", ".join(dict.fromkeys(metric_title(headline_metric(spec)) for spec in specs))
        partial = _partial_words(method_rows(views), CAPABILITY, dimension)
        title, plural = capitalised(dimension_title(dimension)), "s" * (len(specs) > 1)
        name = dimension if title == dimension else f"{title} ({dimension})"
        notes.append(f"{name}: {measured} of {len(specs)} benchmark{plural}{partial}.")
    for title, metric in (("Over all dimensions", HEADLINE), ("Average rank", AVERAGE_RANK)):
        if partial := _partial_words(method_rows(views), metric, ALL):
            notes.append(f"{title}{partial}.")
    return tuple(notes)


def _partial_words(lines: Sequence[ModelMethodRow], metric: str, dimension: str) -> str:
    """What the numbers of a dimension lack, with the columns that lack it where not all do."""
    numbers = {
        line.label: number for line in lines if (number := line.lookup(metric, ALL, dimension))
    }
    lacking: dict[str, list[str]] = defaultdict(list)
    for label, number in numbers.items():
        if number.partial:
            lacking[number.partial].append(label)
    if len(lacking) == 1 and len(next(iter(lacking.values()))) == len(numbers):
        first, *other_reasons = next(iter(lacking)).split("; ")
        return ". ".join([f"; partial, {first}", *map(capitalised, other_reasons)])
    return "".join(
        f"; partial ({' and '.join(labels)}): {partial.replace('; ', ', ')}"
        for partial, labels in lacking.items()
    )


def dimension_chances(views: Sequence[RunView], dimension: str) -> dict[str, float]:
    return chance_levels(views, lambda spec: spec.dimension == dimension)


def benchmark_chances(views: Sequence[RunView], name: str) -> dict[str, float]:
    return chance_levels(views, lambda spec: spec.name == name)


def benchmark_tables(views: Sequence[RunView]) -> list[Table]:
    """One table per metric: a row per benchmark, a column per model and method."""
    places = [
        MatrixRow((name,), name, "", "", benchmark_chances(views, name))
        for name in scored_benchmarks(views)
    ]
    places += [MatrixRow((name,), name) for name in pools_of(views)]
    metrics = (*CHOICE_ROWS, *other_metrics(views), "template_deviation")
    return [table for metric in metrics for table in _matrix("benchmark", places, views, metric)]


def slice_tables(views: Sequence[RunView]) -> list[Table]:
    """Slices of benchmarks by tag and round: accuracy, and the first metric of each benchmark that asks for text."""
    scored = scored_benchmarks(views)
    slices = sorted(
        {(row.benchmark, row.slice) for view in views for row in view.rows if is_slice(row.slice)}
    )
    places = [
        MatrixRow((name, slice_name), name, "", slice_name)
        for scored_name in scored
        for name, slice_name in slices
        if name == scored_name
    ]
    firsts = dict.fromkeys(
        question_metric(benchmark, has_options=False)
        for benchmark in scored.values()
        if benchmark.chance_accuracy is None
    )
    return [
        table
        for metric in ("accuracy", *firsts)
        for table in _matrix("part", places, views, metric)
    ]


def is_slice(slice_name: str) -> bool:
    """Whether a row is about part of a benchmark; a template is not, since it covers all questions."""
    return bool(slice_name) and not slice_name.startswith("template=")


def other_metrics(views: Sequence[RunView]) -> list[str]:
    """All metrics but those of every choice question: the benchmarks' own first, then any others requested."""
    rows = [row.metric for view in views for row in view.rows]
    own_rows = [
        row for scored in scored_benchmarks(views).values() for row in benchmark_metric_rows(scored)
    ]
    measured = set(rows)
    return [
        m
        for m in dict.fromkeys((*own_rows, *rows))
        if m in measured
        and not _is_choice_row(m)
        and not m.endswith(OF_ANSWERED)  # shown beside the row
        and m
        not in (
            "template_deviation",
            HEADLINE,
            CAPABILITY,
            TASK_CAPABILITY,
            AVERAGE_RANK,
        )
    ]


def _is_choice_row(name: str) -> bool:
    return name in CHOICE_ROWS or declared(name).secondary_to in CHOICE_ROWS


def benchmark_metric_rows(scored: ScoredBenchmark) -> list[str]:
    """The rows of the metrics that a benchmark's entry names."""
    return [
        row
        for metric in scored.spec.metrics or DEFAULT_TEXT_METRICS
        for row in find_metric(metric).names
    ]


def _matrix(
    row_kind: str, places: Sequence[MatrixRow], views: Sequence[RunView], metric: str
) -> list[Table]:
    """One metric as a table of `places` by models and methods, without empty rows; no table if all are empty."""
    grid = [
        (line, [line.lookup(p.metric or metric, p.benchmark, p.dimension, p.slice) for p in places])
        for line in method_rows(views)
    ]
    grid = [(line, column) for line, column in grid if any(column)]
    filled = [i for i in range(len(places)) if any(column[i] for _, column in grid)]
    if not filled:
        return []
    main = _main_protocols(grid)
    has_chance = metric == "accuracy" and any(places[i].chance for i in filled)
    rows = []
    for i in filled:
        guess: list[Cell] = [_chance_cell(places[i].chance)] if has_chance else []
        rows.append(
            (
                *places[i].labels,
                *guess,
                *(_cell(line, metric, column[i], main, places[i]) for line, column in grid),
            )
        )
    names = ("benchmark", "part") if len(places[0].labels) == 2 else (row_kind,)
    labels = len(names) + has_chance
    header = (*names, *(["chance"] if has_chance else []), *(line.label for line, _ in grid))
    sources = [
        f"By {method}: from {protocol}{', each first presentation' * is_of_first_alone(metric, protocol)}."
        for method, protocol in main.items()
        if protocol != method
    ]
    spans = [
        (label, len(list(columns)))
        for label, columns in groupby(line.view.label for line, _ in grid)
    ]
    units = {number.unit for _, column in grid for number in column if number}
    meaning = metric_meaning(metric)
    facts = [f"{capitalised(metric_title(metric))}: {meaning.rstrip('.')}."] if meaning else []
    facts += [
        f"{capitalised(note)}."
        for note in [replace(declared(metric), unit=unit).qualifiers for unit in units]
        if note and len(units) == 1
    ]
    if has_chance:
        facts += [note for i in filled for note in _chance_notes(places[i])]
    title = f"{capitalised(metric_title(metric))} by {row_kind}"
    return [Table(title, header, tuple(rows), labels, (*facts, *sources), tuple(spans))]


def _chance_cell(levels: Mapping[str, float]) -> str:
    if not levels:
        return DASH
    level = common_chance(levels)
    return (
        percent(level)
        if level is not None
        else f"{percent(min(levels.values()))} to {percent(max(levels.values()))}"
    )


def _chance_notes(place: MatrixRow) -> list[str]:
    """The level of each run, where these were asked what is guessed differently."""
    if not place.chance or common_chance(place.chance) is not None:
        return []
    levels = ", ".join(f"{percent(level)} ({label})" for label, level in place.chance.items())
    return [f"Guessing in {place.labels[0]}, of what each was asked: {levels}."]


def _main_protocols(
    grid: Sequence[tuple[ModelMethodRow, list[HeadlineEstimate | None]]],
) -> dict[str, str]:
    """For each method, the protocol that most cells come from."""
    counts: dict[str, Counter[str]] = {}
    for line, column in grid:
        counts.setdefault(line.method, Counter()).update(
            number.protocol for number in column if number
        )
    return {method: count.most_common(1)[0][0] for method, count in counts.items()}


def _cell(
    line: ModelMethodRow,
    metric: str,
    number: HeadlineEstimate | None,
    main: dict[str, str],
    place: MatrixRow,
) -> Cell:
    if number is None:
        return AbsentCell(NO_ROW)
    cell = summary_cell(line, metric, number, "" if place.benchmark == ALL else place.benchmark)
    if not isinstance(cell, NumberCell):
        return cell
    notes = [
        f"from {number.protocol}" if number.protocol != main[line.method] else "",
        f"in {number.unit}" if metric == CAPABILITY and number.unit not in (SHARE, "rank") else "",
    ]
    return replace(cell, note="; ".join(note for note in notes if note))


def provenance_tables(views: Sequence[RunView]) -> list[Table]:
    """What each run was, without paths of the machine it ran on; and the benchmarks' versions."""
    facts = [(view.label, name, value) for view in views for name, value in _facts(view)]
    benchmarks = tuple(
        (view.label, use.name, use.version, use.origin or DASH, *_selection(use))
        for view in views
        for use in view.run.manifest.benchmarks
    )
    return [
        Table("Runs", ("model", "fact", "value"), _merged(facts), label_columns=2),
        Table("Benchmarks", _BENCHMARK_HEADER, _merged(benchmarks), label_columns=2),
    ]


_BENCHMARK_HEADER = ("model", "benchmark", "version", "built from", "where", "limit", "part asked")


def _selection(use: BenchmarkUse) -> tuple[Cell, ...]:
    return use.where or DASH, DASH if use.limit is None else use.limit, _part(use)


def _part(use: BenchmarkUse) -> str:
    if isinstance(use.part, RandomPart):
        return f"{use.part.pictures:,} of {use.part.of:,} pictures, seed {use.part.seed}"
    return str(use.part or DASH)


def _facts(view: RunView) -> Iterable[tuple[str, str]]:
    manifest, scoring = view.run.manifest, view.run.scoring
    decoding = manifest.decoding
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
        yield "examples shown", _few_shot(manifest)
    yield (
        "decoding",
        f"temperature {decoding.temperature:g}, top_p {decoding.top_p:g}, seed {decoding.seed}"
        + (f", stop {list(decoding.stop)}" if decoding.stop else "")
        + (
            f", at most {decoding.max_new_tokens} tokens"
            if decoding.max_new_tokens
            else ", each benchmark's own limit"
        ),
    )
    yield "replies read by", " + ".join((scoring.extractor, *view.run.reading_stages))
    yield "likelihood rule", scoring.likelihood_rule
    for name, value in manifest.software.items():
        yield f"version: {name}", value
    for name, value in manifest.hardware.items():
        yield f"hardware: {name}", value
    for i, note in enumerate(manifest.notes, 1):
        yield f"note {i}", note


def _few_shot(manifest: RunManifest) -> str:
    """`4 before each question, drawn for each, seed 0`."""
    count, is_same, seed = manifest.few_shot
    source = ", of another benchmark" if manifest.asked[0].few_shot_from else ""
    return f"{count} before each question{source}, {'the same ones' if is_same else 'drawn for each'}, seed {seed}"


def _merged(rows: Sequence[tuple[Cell, ...]]) -> tuple[tuple[Cell, ...], ...]:
    """One row for all runs that agree, those on which all runs agree first."""
    models: dict[tuple[Cell, ...], list[str]] = {}
    for model, *fact in rows:
        models.setdefault(tuple(fact), []).append(str(model))
    everybody = {str(row[0]) for row in rows}
    merged = [
        ("all" if set(labels) == everybody and len(labels) > 1 else ", ".join(labels), *fact)
        for fact, labels in models.items()
    ]
    order = {"all": -1, **{str(row[0]): i for i, row in reversed(list(enumerate(rows)))}}
    return tuple(sorted(merged, key=lambda row: order.get(str(row[0]), len(rows))))


# --- on common questions ---------------------------------------------------------------------------------------------


MAX_LISTED = 200


def common_question_tables(views: Sequence[RunView]) -> list[Table]:
    """Tables of a comparison on common questions; none if the runs were not narrowed to these."""
    if any(view.run.left_out is None for view in views):
        return []
    return [_counts(views), *_left_out(views)]


def _counts(views: Sequence[RunView]) -> Table:
    rows = []
    for view in views:
        reasons = Counter(
            word_reason(excluded.reason, excluded.detail)
            for excluded in view.run.left_out or ()
            if excluded.reason
        )
        compared = sum(len(scored.samples) for scored in view.run.benchmarks)
        total = compared + len(view.run.left_out or ())
        rows.append(
            (view.label, total, total - reasons.total(), counts_text(dict(reasons)), compared)
        )
    header = ("model", "questions", "answered", "not answered", "answered by all")
    note = "All numbers in this report except request counts are over the questions that all models answered."
    return Table("Common questions", header, tuple(rows), notes=(note,))


def _left_out(views: Sequence[RunView]) -> list[Table]:
    reasons_by_question: dict[tuple[str, str], list[str]] = {}
    for view in views:
        for excluded in view.run.left_out or ():
            reasons_by_question.setdefault((excluded.benchmark, excluded.sample_id), []).extend(
                [f"{view.label}: {word_reason(excluded.reason, excluded.detail)}"]
                if excluded.reason
                else []
            )
    if not reasons_by_question:
        return []
    rows = tuple(
        (benchmark, sample, "; ".join(reasons))
        for (benchmark, sample), reasons in reasons_by_question.items()
    )
    notes = (f"The first {MAX_LISTED} of {len(rows):,}.",) if len(rows) > MAX_LISTED else ()
    return [
        Table(
            "Questions left out",
            ("benchmark", "question", "why"),
            rows[:MAX_LISTED],
            label_columns=2,
            notes=notes,
        )
    ]


# --- by both conventions ---------------------------------------------------------------------------------------------


def convention_tables(views: Sequence[RunView]) -> list[Table]:
    """One table for each run that was scored as published: a row per benchmark and method, a column per convention."""
    return [
        table
        for view in views
        if view.run.counterpart is not None
        for table in _tables(view, view.run.counterpart)
    ]


def _tables(view: RunView, standard: ScoredRun) -> list[Table]:
    standard_rows = results_of(standard)
    rows = [
        (
            published.spec.name,
            method,
            *_cells(ours, standard_rows, method),
            *_cells(published, view.rows, method),
        )
        for ours, published in zip(standard.benchmarks, view.run.benchmarks, strict=True)
        if published.published
        for method in dict.fromkeys(
            row.method for row in view.rows if row.benchmark == published.spec.name
        )
    ]
    if not rows:
        return []
    header = (
        "benchmark",
        "method",
        "standard metric",
        "standard",
        "published metric",
        "as published",
    )
    limits = (
        f"{metric_title(name)}: {limit}."
        for name in _metrics(view)
        if (limit := declared(name).limit)
    )
    notes = ("Each benchmark's headline number by both conventions, of the same replies.", *limits)
    return [
        Table(
            f"Standard and as published: {view.label}",
            header,
            tuple(rows),
            label_columns=2,
            notes=notes,
        )
    ]


def _metrics(view: RunView) -> list[str]:
    """The metrics in the column of published numbers."""
    return list(
        dict.fromkeys(
            headlines_of(scored)[-1] for scored in view.run.benchmarks if scored.published
        )
    )


def _cells(scored: ScoredBenchmark, rows: Sequence[Result], method: Method) -> tuple[Cell, Cell]:
    """The headline metric's title and its number."""
    metrics = headlines_of(scored)
    fitting = [
        row
        for row in rows
        if (row.benchmark, row.method, row.slice) == (scored.spec.name, method, "")
        and row.metric in metrics
    ]
    if not fitting:
        return metric_title(metrics[-1]), DASH
    row = min(
        fitting, key=lambda row: (metrics.index(row.metric), protocol_preference(row.protocol))
    )
    return metric_title(row.metric), NumberCell(row.unit, row.estimate)
