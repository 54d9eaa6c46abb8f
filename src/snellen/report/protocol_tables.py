"""Tables of what some protocols tell: controls, degraded pictures, answers that came of several requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.dose_response import DoseResponse, dose_responses
from snellen.analysis.headline import leading_headline
from snellen.analysis.paired.differences import QuestionMeasures, pair, question_values
from snellen.analysis.statistics import estimate_mean
from snellen.common.degradation import DEGRADATIONS
from snellen.metrics.declaration import SHARE, declared
from snellen.protocols.base import labelled_declaration
from snellen.records import Answer, Estimate, Prediction, Turn, Variant
from snellen.report.charts import Axis, ChartPanel, Point, ScatterPoint, axis_of, scatter_chart
from snellen.report.run_view import RunView, question_metric
from snellen.report.table import (
    DASH,
    AbsentCell,
    Cell,
    NumberCell,
    Table,
    metric_title,
    unit_of_difference,
    value_text,
)
from snellen.scoring.request_costs import COST
from snellen.scoring.scored_run import ScoredBenchmark

HEADER = (
    "run",
    "benchmark",
    "protocol",
    "shown instead",
    "metric",
    "score",
    "control",
    "difference [95%] n",
    "chance",
    "other answers",
)
NOTES = (
    "The difference is what the score owes to the pictures: the same questions with and without them, by picture. One "
    "whose interval holds 0 may owe them nothing; a control above chance is answered from the words. "
    "Other answers: replies (of likelihoods, scores) that differ from those with the own picture; none at all means that "
    "the pictures do not reach the model.",
)
SAME_SCORE = 1e-4
"""Likelihoods, in nats, that differ by less may differ by rounding."""
DOSE_HEADER = (
    "run", "benchmark", "protocol", "metric", "the picture", "clean", "degraded", "loss [95%] n",
    "half of what is above chance is lost at",
)  # fmt: skip
DOSE_NOTES = (
    "A loss is of the same questions with clean and with degraded pictures. The last column is the dose at which a "
    "curve that never rises, linear between the doses asked, reaches the middle between clean and chance; with a 95% "
    "interval by bootstrap over pictures.",
)


def control_tables(views: Sequence[RunView]) -> list[Table]:
    """A table of controls and one of degraded pictures, of all runs; neither where nothing of the kind was asked."""
    rows = tuple(
        (view.label, *row)
        for view in views
        for scored in view.run.benchmarks
        for row in _rows(scored)
    )
    doses = tuple(
        (view.label, *row)
        for view in views
        for scored in view.run.benchmarks
        for row in _dose_rows(scored)
    )
    controls = Table("What the pictures are needed for", HEADER, rows, label_columns=5, notes=NOTES)
    responses = Table(
        "What degraded pictures cost", DOSE_HEADER, doses, label_columns=5, notes=DOSE_NOTES
    )
    return [table for table in (controls, responses) if table.rows]


def _dose_rows(scored: ScoredBenchmark) -> Iterator[tuple[Cell, ...]]:
    for response in dose_responses(scored):
        clean = value_text(Estimate(response.clean, None, None, None, 0), response.unit)
        half = _half_text(response)
        for point in response.points:
            unit, is_known = unit_of_difference(response.unit), point.loss.value is not None
            loss = NumberCell(unit, point.loss) if is_known else AbsentCell("no questions")
            yield (
                response.benchmark,
                response.protocol,
                metric_title(response.metric),
                DEGRADATIONS[response.kind].title.format(f"{point.dose:g}"),
                clean,
                value_text(Estimate(point.value, None, None, None, 0), response.unit),
                loss,
                half,
            )


DOSE_CAPTION = (
    "A score by the dose of what makes pictures worse, beside that of clean ones. Whiskers are the 95% interval of "
    "what is lost, paired by question. A hollow mark is where half of what is above chance (dashed) is lost."
)


def dose_panels(views: Sequence[RunView]) -> Iterator[ChartPanel]:
    """A panel for each benchmark, protocol, metric and kind of damage, with a curve for each run."""
    by_panel: dict[tuple[str, str, str, str], list[tuple[int, DoseResponse]]] = defaultdict(list)
    for number, view in enumerate(views):
        for response in (
            response for scored in view.run.benchmarks for response in dose_responses(scored)
        ):
            key = response.benchmark, response.protocol, response.metric, response.kind
            by_panel[key].append((number, response))
    for (benchmark, protocol, metric, kind), responses in by_panel.items():
        title = f"{benchmark}, {protocol}, {kind}"
        by_run = [
            list(_dose_points(number, views[number], response)) for number, response in responses
        ]
        points = [point for run_points in by_run for point in run_points]
        doses = [point.x.value or 0.0 for point in points]
        x = Axis(DEGRADATIONS[kind].title.format("dose"), "", max(doses), min(doses))
        y = axis_of(declared(metric), [point.y for point in points], responses[0][1].unit)
        curves: list[tuple[int | None, list[Point]]] = [
            (
                run_points[0].series,
                [(p.x.value or 0.0, p.y.value or 0.0) for p in run_points if not p.is_hollow],
            )
            for run_points in by_run
        ]
        curves.append((None, [(end, responses[0][1].chance) for end in (x.bottom, x.top)]))
        yield ChartPanel(
            title, scatter_chart(f"{title}: dose and score", points, x, y, curves=curves)
        )


def _dose_points(number: int, view: RunView, response: DoseResponse) -> Iterator[ScatterPoint]:
    """The score on clean pictures and at each dose, and the dose at which half of it is lost."""
    yield _dose_point(number, view, DEGRADATIONS[response.kind].none, response.clean)
    for point in response.points:
        if point.value is not None:
            ends = [
                None if end is None else response.clean - end
                for end in (point.loss.high, point.loss.low)
            ]
            yield _dose_point(number, view, point.dose, point.value, *ends)
    half = response.half
    if half.value is not None:
        level = response.chance + (response.clean - response.chance) / 2
        x = Estimate(half.value, None, half.low, half.high, 0)
        words = f"{view.label}: half of what is above chance is lost at {_half_text(response)}"
        yield ScatterPoint(
            number,
            view.label,
            x,
            Estimate(level, None, None, None, 0),
            is_hollow=True,
            tooltip=words,
        )


def _dose_point(
    number: int,
    view: RunView,
    dose: float,
    score: float,
    low: float | None = None,
    high: float | None = None,
) -> ScatterPoint:
    y = Estimate(score, None, low, high, 0)
    return ScatterPoint(
        number, f"{view.label}, dose {dose:g}", Estimate(dose, None, None, None, 0), y
    )


def _half_text(response: DoseResponse) -> Cell:
    half = response.half
    if half.why_not:
        return AbsentCell(half.why_not)
    worst = response.points[-1].dose
    value, low, high = (
        f"beyond {worst:g}" if dose is None else f"{dose:.3g}"
        for dose in (half.value, half.low, half.high)
    )
    return value if half.value is half.low is half.high is None else f"{value} [{low}, {high}]"


def _rows(scored: ScoredBenchmark) -> Iterator[tuple[Cell, ...]]:
    headlines = [leading_headline(scored)]
    protocols = {protocol for protocol, _, metric in scored.score_rows if metric in headlines}
    if not any(labelled_declaration(protocol).control_of in protocols for protocol in protocols):
        return
    measured = {
        (values.protocol, values.metric): values for values in question_values(scored, headlines)
    }
    for control in measured.values():
        declaration = labelled_declaration(control.protocol)
        if declaration.dose is not None:
            continue
        score = measured.get((declaration.control_of, control.metric))
        if score is not None:
            yield (
                scored.spec.name,
                score.protocol,
                declaration.shown,
                metric_title(score.metric),
                *_figures(score, control),
                _other_answers(score, control),
            )


def _other_answers(score: QuestionMeasures, control: QuestionMeasures) -> str:
    """How many presentations were answered differently with and without their picture, of how many."""
    originals: dict[tuple[str, Variant], Prediction] = {}
    changed: dict[tuple[str, Variant], Prediction] = {}
    for prediction in score.scored.predictions:
        if prediction.error is not None or prediction.method != score.method:
            continue
        if prediction.protocol == score.protocol:
            originals[prediction.sample_id, prediction.variant] = prediction
        elif prediction.protocol == control.protocol:
            changed[prediction.sample_id, prediction.variant] = prediction
    shared = originals.keys() & changed.keys()
    different = sum(_differ(originals[key], changed[key]) for key in shared)
    return f"{different:,} of {len(shared):,}" if shared else DASH


def _differ(first: Prediction, second: Prediction) -> bool:
    if first.scores and second.scores:
        scores = zip(first.scores, second.scores, strict=True)
        return any(abs(one - other) > SAME_SCORE for one, other in scores)
    said = [(one.choice, one.text, one.unparsed_text) for one in (first, second)]
    return said[0] != said[1]


def _figures(score: QuestionMeasures, control: QuestionMeasures) -> Iterator[Cell]:
    result = pair((score.protocol, control.protocol), score, control).result
    unit = score.row.unit
    for value in (result.first_value, result.second_value):
        yield value_text(Estimate(value, None, None, None, 0), unit)
    if result.difference.value is None:
        yield AbsentCell("no question has a value with and without its picture")
    else:
        yield NumberCell(unit_of_difference(unit), result.difference)
    level = score.scored.chance_accuracy if score.metric == "accuracy" else None
    yield DASH if level is None else value_text(Estimate(level, None, None, None, 0), unit)


# --- steps -----------------------------------------------------------------------------------------------------------


MAX_CLASSES = 10
"""Different right answers up to which each has a row of its own."""
UNCOUNTED = "no number: nothing was answered, or a model does not count its tokens"


class _Place(Struct, frozen=True):
    """One benchmark of one run, with its protocols: those of several steps and those beside them."""

    view: RunView
    scored: ScoredBenchmark
    protocols: tuple[str, ...]


def talk_tables(views: Sequence[RunView]) -> list[Table]:
    """Tables of the benchmarks that a protocol of several steps asked; none where there is no such protocol."""
    places = [place for view in views for place in _places(view)]
    return [_costs(places), *_classes(places)] if places else []


def _places(view: RunView) -> Iterator[_Place]:
    for scored in view.run.benchmarks:
        generated = (
            protocol for protocol, method, _ in scored.score_rows if method == "generation"
        )
        protocols = tuple(dict.fromkeys(generated))
        if any(map(_has_steps, protocols)):
            yield _Place(view, scored, tuple(sorted(protocols, key=_has_steps)))


def _has_steps(protocol: str) -> bool:
    return labelled_declaration(protocol).conclude is not None


def _costs(places: Sequence[_Place]) -> Table:
    rows = [
        (
            place.view.label,
            place.scored.spec.name,
            protocol,
            metric_title(leading_headline(place.scored)),
            _headline(place, protocol),
            _unknown(place.scored, protocol),
            *(_cost(place, protocol, row) for row in COST.names),
        )
        for place in places
        for protocol in place.protocols
    ]
    titles = ("rounds", "requests", "tokens")
    return Table(
        "Answers in several steps",
        ("model", "benchmark", "protocol", "metric", "value", "unknown", *titles),
        tuple(rows),
        label_columns=4,
        notes=(
            "Unknown: no answer could be read, or none came out of the last round; not right. Rounds, requests and "
            "tokens are means over questions; tokens are read and written by all models.",
        ),
    )


def _headline(place: _Place, protocol: str) -> Cell:
    name = leading_headline(place.scored)
    name = place.view.substitutes.get(name, name)
    row = place.view.results_by_key.get((protocol, name, place.scored.spec.name, "", ""))
    if row is None or row.estimate.value is None:
        return AbsentCell("no question was scored; see the counts")
    return NumberCell(row.unit, row.estimate)


def _unknown(scored: ScoredBenchmark, protocol: str) -> Cell:
    came = [p for p in scored.predictions if p.protocol == protocol and p.error is None]
    unknown = [float(p.choice is None and p.text is None) for p in came]
    estimate = estimate_mean(unknown, [scored.samples[p.sample_id].group for p in came])
    return NumberCell(SHARE, estimate) if came else AbsentCell("no question was answered")


def _cost(place: _Place, protocol: str, name: str) -> Cell:
    if not _has_steps(protocol):
        asked_once = labelled_declaration(protocol).presentations == 1
        return "1" if name == "requests_used" and asked_once else DASH
    row = place.view.results_by_key.get((protocol, name, place.scored.spec.name, "", ""))
    if row is None or row.estimate.value is None:
        return AbsentCell(UNCOUNTED)
    return NumberCell(declared(name).unit, row.estimate)


# --- by right answer -----------------------------------------------------------------------------------------------


def _classes(places: Sequence[_Place]) -> list[Table]:
    protocols = tuple(dict.fromkeys(protocol for place in places for protocol in place.protocols))
    rows: list[tuple[Cell, ...]] = []
    for place in places:
        kinds = _kinds(place.scored)
        for kind in dict.fromkeys(sorted(kinds.values())):
            members = {sample for sample, sample_kind in kinds.items() if sample_kind == kind}
            cells = (_share_right(place.scored, protocol, members) for protocol in protocols)
            rows.append((place.view.label, place.scored.spec.name, kind, *cells))
    if not rows:
        return []
    header = ("model", "benchmark", "right answer", *protocols)
    return [Table("Share right by right answer", header, tuple(rows), label_columns=3)]


def _kinds(scored: ScoredBenchmark) -> dict[str, str]:
    """The right answer of each sample; its place where there are too many different ones, and none where that fails."""
    golds = {
        sample.id: (sample.rounds[0], answer)
        for sample in scored.samples.values()
        if not sample.turns and (answer := scored.answers.get((sample.id, 0)))
    }
    for name in (_as_text, _as_place):
        kinds = {sample: name(turn, answer) for sample, (turn, answer) in golds.items()}
        if all(kinds.values()) and 1 < len(set(kinds.values())) <= MAX_CLASSES:
            return kinds
    return {}


def _as_text(turn: Turn, answer: Answer) -> str:
    return (
        turn.options[answer.options[0]]
        if answer.options
        else answer.texts[0]
        if answer.texts
        else ""
    )


def _as_place(turn: Turn, answer: Answer) -> str:
    return f"option {answer.options[0] + 1}" if answer.options else ""


def _share_right(scored: ScoredBenchmark, protocol: str, members: set[str]) -> Cell:
    options = any(sample.options for sample in scored.samples.values())
    metric = question_metric(scored, options)
    scores = [score for score in scored.scores_of(metric, protocol) if score.sample_id in members]
    valued = [score for score in scores if score.value is not None]
    if not valued:
        return AbsentCell("no question of this answer was scored")
    groups = [scored.samples[score.sample_id].group for score in valued]
    estimate = estimate_mean([score.value for score in valued if score.value is not None], groups)
    return NumberCell(declared(metric).unit, estimate)
