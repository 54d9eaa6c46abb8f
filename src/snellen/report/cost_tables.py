"""The table of quality and cost: the headline of each run next to its tokens, seconds and price.

A run is on the Pareto front if no other run is at least as good in both score and cost and better in one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from snellen.analysis.headline import leading_headline
from snellen.metrics.declaration import declared_row
from snellen.protocols.base import labelled_declaration
from snellen.records import Estimate
from snellen.report.number_text import DASH, decimal_text, metric_title
from snellen.report.reported_runs import ReportedRun
from snellen.report.table import Cell, Column, NumberCell, Table, tabulate
from snellen.runs.drivers import cost_of
from snellen.scoring.request_costs import PERCENTILES, RequestCost
from snellen.scoring.scored_run import ScoredBenchmark

COST_TABLE_NOTE = (
    "Over all questions of the run, with each protocol counted as if it ran alone: replies reused from another "
    "protocol are included. Requests in a batch of a local model share its time."
)
FRONT_HINT = (
    "Pareto front: no other run is at least as good in both score and cost and better in one. Cost is price, "
    "tokens or median seconds, whichever most runs have; runs without it have a dash"
)
CostKind = Literal["price", "tokens", "seconds"]
COST_KINDS: tuple[CostKind, ...] = ("price", "tokens", "seconds")
"""Kinds of cost. If as many runs have one as another, the earlier one decides who is on the front."""


class _CostRow(Struct, frozen=True):
    """A row of the table of costs: what one protocol of one run on one benchmark cost, and its score."""

    reported_run: ReportedRun
    scored: ScoredBenchmark
    cost: RequestCost
    metric: str
    """The leading headline metric of the benchmark."""
    unit: str
    estimate: Estimate | None
    """None if the protocol has no result of this metric."""

    @property
    def stands_for_model(self) -> bool:
        """Whether the score says how good the model is, unlike that of a control."""
        return labelled_declaration(self.cost.protocol).stands_for_model

    @property
    def tokens(self) -> float | None:
        """The number of input and output tokens; None if they were not counted."""
        usage = self.cost.usage
        if usage is None:
            return None
        return float((usage.prompt_tokens or 0) + (usage.completion_tokens or 0))

    @property
    def price(self) -> float | None:
        """The price of all tokens of the run, if the user gave prices and the tokens were counted."""
        usage = self.cost.usage
        if self.reported_run.run.price is None or usage is None:
            return None
        return cost_of(usage, self.reported_run.run.price)

    def cost_in(self, cost_kind: CostKind) -> float | None:
        """Return a cost: the price, the number of tokens, or the median seconds of a request."""
        if cost_kind == "price":
            return self.price
        if cost_kind == "tokens":
            return self.tokens
        return self.cost.seconds[0] if self.cost.seconds else None


def cost_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return the table "Quality and cost", with a row for each run, benchmark and protocol.

    The costs are the numbers of requests and tokens, the seconds that requests took, and the price if the user gave
    prices per token. If there are several runs, the column `front` marks rows on the Pareto front: no other row is
    at least as good in score and cost and better in one of them.

    Args:
        reported_runs: The runs of the report.

    Returns:
        A list with the table; an empty list if no run recorded its costs.
    """
    rows: list[_CostRow] = []
    for reported_run in reported_runs:
        rows += _cost_rows(reported_run)
    if not rows:
        return []

    columns: list[Column[_CostRow]] = [
        Column("run", lambda row: row.reported_run.label, is_label=True),
        Column("benchmark", lambda row: row.cost.benchmark, is_label=True),
        Column("protocol", lambda row: row.cost.protocol, is_label=True),
        Column("metric", lambda row: metric_title(row.metric), is_label=True),
        Column("score", _score_cell, "the benchmark's headline"),
        Column("requests", lambda row: row.cost.answered),
        Column("failed", lambda row: row.cost.failed),
        Column("tokens read", _tokens_read, "as counted by the model"),
        Column("tokens written", _tokens_written),
    ]
    for index in range(len(PERCENTILES)):
        columns.append(_seconds_column(index))
    if any(row.price is not None for row in rows):
        columns.append(
            Column("price", _price_text, "for all these requests; tokens of batches count half")
        )
    if len(reported_runs) > 1:
        columns.append(Column("front", lambda row: _front_text(row, rows), FRONT_HINT))
    return [tabulate("Quality and cost", columns, rows, [COST_TABLE_NOTE])]


def _cost_rows(reported_run: ReportedRun) -> list[_CostRow]:
    """Return the table rows of a run, one for each benchmark and protocol, with the costs and the headline number."""
    rows: list[_CostRow] = []
    for cost in reported_run.run.costs:
        scored = reported_run.benchmark(cost.benchmark)
        if scored is None:
            continue
        metric = leading_headline(scored)
        result = reported_run.find_result(cost.protocol, metric, cost.benchmark)
        row = _CostRow(
            reported_run=reported_run,
            scored=scored,
            cost=cost,
            metric=metric,
            unit=result.unit if result else "",
            estimate=result.estimate if result else None,
        )
        rows.append(row)
    return rows


def _score_cell(row: _CostRow) -> Cell:
    return DASH if row.estimate is None else NumberCell(row.unit, row.estimate)


def _tokens_read(row: _CostRow) -> Cell:
    """Return the number of input tokens, or a dash if the model does not count them."""
    usage = row.cost.usage
    if usage is None:
        return DASH
    return usage.prompt_tokens or 0


def _tokens_written(row: _CostRow) -> Cell:
    """Return the number of output tokens, or a dash if the model does not count them."""
    usage = row.cost.usage
    if usage is None:
        return DASH
    return usage.completion_tokens or 0


def _seconds_column(index: int) -> Column[_CostRow]:
    """Return a column with a percentile of the seconds per request, such as the median.

    Args:
        index: The index of the percentile in `PERCENTILES`.
    """
    percentile = PERCENTILES[index]

    def seconds_text(row: _CostRow) -> str:
        if not row.cost.seconds:
            return DASH
        return decimal_text(row.cost.seconds[index], 3)

    hint = f"{percentile}% of the requests took at most this long"
    return Column(f"p{percentile} seconds", seconds_text, hint)


def _price_text(row: _CostRow) -> str:
    return DASH if row.price is None else decimal_text(row.price, 4)


# --- Pareto front ----------------------------------------------------------------------------------------------------


def _front_text(row: _CostRow, rows: Sequence[_CostRow]) -> str:
    """Return whether a row is on the Pareto front of its benchmark: `yes`, `no`, or a dash if it cannot be decided.

    Rows of a benchmark are compared by score and one kind of cost: price, tokens or seconds, whichever most rows
    have. The result is a dash if the row has no such cost, if fewer than two rows have it, or if the row is a
    control, such as questions without their image, whose score is not the model's.

    Args:
        row: The row.
        rows: All rows of the table.
    """
    rivals = [
        other
        for other in rows
        if other.cost.benchmark == row.cost.benchmark
        and other.metric == row.metric
        and other.stands_for_model
    ]
    if row not in rivals:
        return DASH

    # Of kinds that as many rows have, max takes the first.
    kind = max(COST_KINDS, key=lambda kind: len(_score_and_cost(rivals, kind)))
    points = _score_and_cost(rivals, kind)
    own_point = _score_and_cost([row], kind)
    if not own_point or len(points) < 2:
        return DASH
    return "yes" if on_front(own_point[0], points) else "no"


def _score_and_cost(rows: Sequence[_CostRow], cost_kind: CostKind) -> list[tuple[float, float]]:
    """Return pairs of a score and a cost, for the rows that have both.

    If a lower value of the metric is better, the score is the negated value, so that higher scores are always better.
    """
    points: list[tuple[float, float]] = []
    for row in rows:
        cost = row.cost_in(cost_kind)
        if row.estimate is None or row.estimate.value is None or cost is None:
            continue
        score = row.estimate.value
        if declared_row(row.metric).better == "lower":
            score = -score
        points.append((score, cost))
    return points


def on_front(point: tuple[float, float], points: Sequence[tuple[float, float]]) -> bool:
    """Return whether a point is on the Pareto front of some points.

    It is, unless another point is at least as good in score and cost and better in one of them.

    Args:
        point: A pair of a score (higher is better) and a cost (lower is better).
        points: All points.

    Examples:
        >>> on_front((0.5, 10.0), [(0.5, 10.0), (0.6, 20.0)])
        True
        >>> on_front((0.5, 30.0), [(0.5, 30.0), (0.6, 20.0)])
        False
    """
    score, cost = point
    for other_score, other_cost in points:
        is_as_good = other_score >= score and other_cost <= cost
        if is_as_good and (other_score > score or other_cost < cost):
            return False
    return True
