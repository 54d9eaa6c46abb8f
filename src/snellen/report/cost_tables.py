"""Quality and what it costs: tokens, seconds and price beside each headline, and who is on the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.analysis.headline import leading_headline
from snellen.metrics.declaration import declared
from snellen.protocols.base import labelled_declaration
from snellen.records import Estimate
from snellen.report.run_view import RunView
from snellen.report.table import DASH, Cell, NumberCell, Table, decimal_text, metric_title
from snellen.scoring.request_costs import PERCENTILES, RequestCost
from snellen.scoring.scored_run import ScoredBenchmark

MILLION = 1_000_000
HEADER = (
    "run",
    "benchmark",
    "protocol",
    "metric",
    "score",
    "requests",
    "failed",
    "tokens read",
    "tokens written",
)
NOTE = (
    "Of all questions of the run, each protocol as if it were asked alone: replies taken over from another count. A "
    "local model's requests in a batch share its time."
)
HINTS = {
    "score": "the benchmark's headline",
    "tokens read": "as the model counts them",
    **{f"p{p} seconds": f"{p}% of the requests took at most so long" for p in PERCENTILES},
    "price": "of all these requests",
    "front": "no other run has at least this score on the benchmark at no greater cost, one of them better; cost "
    "is price, tokens or the middle of the seconds, whichever most have; the others have a dash",
}


class _Line(Struct, frozen=True):
    """One protocol of one run on one benchmark."""

    view: RunView
    scored: ScoredBenchmark
    cost: RequestCost
    metric: str
    unit: str
    estimate: Estimate | None

    @property
    def stands_for_model(self) -> bool:
        return labelled_declaration(self.cost.protocol).stands_for_model

    @property
    def price(self) -> float | None:
        if self.view.run.price is None or self.cost.usage is None:
            return None
        price_read, price_written = self.view.run.price
        usage = self.cost.usage
        return (
            (usage.prompt_tokens or 0) * price_read + (usage.completion_tokens or 0) * price_written
        ) / MILLION

    @property
    def costs(self) -> tuple[float | None, ...]:
        """By price, tokens, seconds."""
        usage, seconds = self.cost.usage, self.cost.seconds
        tokens = (
            float((usage.prompt_tokens or 0) + (usage.completion_tokens or 0)) if usage else None
        )
        return self.price, tokens, seconds[0] if seconds else None


def cost_tables(views: Sequence[RunView]) -> list[Table]:
    """One table of all runs, with a column for the price where one is given and for the front of several runs."""
    lines = [line for view in views for line in _lines(view)]
    if not lines:
        return []
    has_price, several = any(line.price is not None for line in lines), len(views) > 1
    header = (*HEADER, *(f"p{p} seconds" for p in PERCENTILES), *(("price",) if has_price else ()))
    rows = tuple(
        (
            *_row(line),
            *((_text(line.price, 4),) if has_price else ()),
            *((_on_front(line, lines),) if several else ()),
        )
        for line in lines
    )
    header = (*header, *(("front",) if several else ()))
    hints = {name: hint for name, hint in HINTS.items() if name in header}
    return [Table("Quality and cost", header, rows, label_columns=4, notes=(NOTE,), hints=hints)]


def _lines(view: RunView) -> list[_Line]:
    lines = []
    for cost in view.run.costs:
        scored = view.benchmark(cost.benchmark)
        if scored is None:
            continue
        metric = leading_headline(scored)
        result = view.results_by_key.get((cost.protocol, metric, cost.benchmark, "", ""))
        unit, estimate = (result.unit, result.estimate) if result else ("", None)
        lines.append(_Line(view, scored, cost, metric, unit, estimate))
    return lines


def _row(line: _Line) -> tuple[Cell, ...]:
    cost = line.cost
    usage: tuple[Cell, Cell] = (DASH, DASH)
    if cost.usage:
        usage = (cost.usage.prompt_tokens or 0, cost.usage.completion_tokens or 0)
    seconds = [decimal_text(value, 3) for value in cost.seconds] or [DASH] * len(PERCENTILES)
    score: Cell = DASH if line.estimate is None else NumberCell(line.unit, line.estimate)
    title = metric_title(line.metric)
    return (
        line.view.label,
        cost.benchmark,
        cost.protocol,
        title,
        score,
        cost.answered,
        cost.failed,
        *usage,
        *seconds,
    )


def _text(value: float | None, digits: int) -> str:
    return DASH if value is None else decimal_text(value, digits)


def _on_front(line: _Line, lines: Sequence[_Line]) -> str:
    """`yes` or `no`, among those that have the kind of cost that most have, as in a chart of that kind; a dash for the
    others, where fewer than two have it, and for what is asked without the pictures."""
    place = line.cost.benchmark, line.metric
    rivals = [
        line
        for line in lines
        if (line.cost.benchmark, line.metric) == place and line.stands_for_model
    ]
    if line not in rivals:
        return DASH
    sign = -1 if declared(line.metric).better == "lower" else 1
    kinds = [_points(rivals, kind, sign) for kind in range(len(line.costs))]
    points = max(kinds, key=len)  # of as many price goes before tokens, and these before seconds
    [own] = _points([line], kinds.index(points), sign) or [None]
    return DASH if own is None or len(points) < 2 else "yes" if on_front(own, points) else "no"


def _points(lines: Sequence[_Line], kind: int, sign: int) -> list[tuple[float, float]]:
    """Score and cost of a kind, of those lines that have both."""
    return [
        (sign * line.estimate.value, cost)
        for line in lines
        if line.estimate
        and line.estimate.value is not None
        and (cost := line.costs[kind]) is not None
    ]


def on_front(point: tuple[float, float], points: Sequence[tuple[float, float]]) -> bool:
    """Whether no other (score, cost) is at least as good in both and better in one."""
    score, cost = point
    return not any(s >= score and c <= cost and (s > score or c < cost) for s, c in points)
