"""Answers to which several steps led, with single-turn beside them: how often right, how often none, at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.capability import headlines_of
from snellen.analysis.statistics import estimate_mean
from snellen.metrics.declaration import SHARE, declared
from snellen.protocols.base import labelled_declaration
from snellen.records import Answer, Turn
from snellen.report.reply_counts import question_metric
from snellen.report.run_view import RunView
from snellen.report.table import DASH, AbsentCell, Cell, NumberCell, Table, metric_title
from snellen.scoring.scored_run import ScoredBenchmark
from snellen.scoring.talks import COST

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
        generated = (protocol for protocol, method, _ in scored.score_rows if method == "generation")
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
            metric_title(headlines_of(place.scored)[-1]),
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
    name = headlines_of(place.scored)[-1]
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
    return turn.options[answer.options[0]] if answer.options else answer.texts[0] if answer.texts else ""


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
