"""Measures of runs that analyses use in place of printed values (group `analysis_measures`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean

from snellen import parse_protocol
from snellen.plugin_api import (
    OVERALL,
    SHARE,
    Method,
    Result,
    RunView,
    accuracy_by_template,
    by_option_position,
    declared_row,
    headline_metrics,
    scored_predictions,
    suite_facts,
    unit_multiplier,
)
from snellen_lab.analyses.observations import Measured
from snellen_lab.row_names import CAPABILITY

PERCENT = "%"
CHANGED = {"template": "Instruct", "order": "Option Order", "labels": "Option Mark"}
"""What the protocol `instability` varies, as ReForm-Eval's Table 24 calls it."""
ROUND = "round="


def option_positions(view: RunView) -> Iterator[Measured]:
    """Measure how much more often the option at each position is chosen than by chance (ReForm-Eval, Figure 10)."""
    for line in view.method_rows:
        if line.method != "generation":
            continue
        for (n_options, position), estimate in by_option_position(line).choice_rate.items():
            if estimate.value is not None:
                name = f"{chr(ord('A') + position)} of {n_options}"
                excess = estimate.value - 1 / n_options
                yield Measured(name, line.method, 100 * excess, PERCENT)


def template_range(view: RunView) -> Iterator[Measured]:
    """Measure the accuracy of the best template minus that of the worst (ReForm-Eval, Table 25).

    It is above 0 by chance, even if templates make no difference.
    """
    for line in view.method_rows:
        families: dict[str, list[float]] = defaultdict(list)
        for name, estimate in accuracy_by_template(line).items():
            if estimate.value is not None:
                families[name.rpartition(".")[0]].append(estimate.value)
        for shares in families.values():
            spread = max(shares) - min(shares)
            yield Measured("Spread", line.method, 100 * spread, PERCENT, "lower")


def perturbations(view: RunView) -> Iterator[Measured]:
    """Yield the mean instability over benchmarks for each protocol that varies one thing (ReForm-Eval, Table 24)."""
    by_change: dict[tuple[str, Method], list[float]] = defaultdict(list)
    metric = view.substitutes.get("instability", "instability")
    for row, value in _benchmark_values(view, metric):
        perturbed: tuple[str, ...] = getattr(parse_protocol(row.protocol), "perturbed", ())
        if len(perturbed) == 1:
            by_change[CHANGED[perturbed[0]], row.method].append(value)
    for (change, method), values in by_change.items():
        yield Measured(change, method, fmean(values), "nats", "lower")


def format_hits(view: RunView) -> Iterator[Measured]:
    """Measure the share of replies that name a shown label, without and (+) with an in-context sample.

    ReForm-Eval, Table 22.
    """
    shares: dict[str, list[float]] = defaultdict(list)
    for row, value in _benchmark_values(view, "hit_rate"):
        with_sample = getattr(parse_protocol(row.protocol), "in_context", False)
        shares["Hit Rate+" if with_sample else "Hit Rate"].append(_percent(row, value))
    for name, values in shares.items():
        yield Measured(name, "generation", fmean(values), PERCENT)


def rounds(view: RunView) -> Iterator[Measured]:
    """Measure the accuracy by round of dialogues, in the mean over benchmarks."""
    by_round: dict[tuple[int, Method], list[float]] = defaultdict(list)
    for row in view.rows:
        if row.metric != "accuracy" or not row.slice.startswith(ROUND):
            continue
        if row.estimate.value is not None:
            number = int(row.slice.removeprefix(ROUND))
            by_round[number, row.method].append(_percent(row, row.estimate.value))
    for (number, method), values in sorted(by_round.items()):
        yield Measured(f"round {number}", method, fmean(values), PERCENT)


def number_of_options(view: RunView) -> Iterator[Measured]:
    """Measure the share of right presentations by the number of options (ReForm-Eval, Figure 15)."""
    right: dict[tuple[int, Method], list[float]] = defaultdict(list)
    for scored in view.run.benchmarks:
        for prediction, value in scored_predictions(scored):
            options = scored.samples[prediction.sample_id].rounds[prediction.turn].options
            right[len(options), prediction.method].append(value)
    for (number, method), values in sorted(right.items()):
        yield Measured(f"{number} options", method, 100 * fmean(values), PERCENT)


def capabilities(view: RunView) -> Iterator[Measured]:
    """Measure the capability in each dimension in percent (LVLM-eHub, Figure A.1).

    Numbers as published and shares are converted. Other numbers are placed between the smallest and the largest value
    that their metric declares.
    """
    titles: dict[str, str] = {}
    for suite in suite_facts().values():
        titles |= suite.dimensions
    for row in view.rows:
        if row.metric != CAPABILITY or row.dimension == OVERALL or row.estimate.value is None:
            continue
        multiplier = unit_multiplier(row.unit)
        if multiplier != 1 or row.unit == SHARE:
            position = row.estimate.value / multiplier
        else:
            metric = declared_row(_first_headline(view, row.dimension))
            if metric.low is None or metric.high is None:
                continue
            position = (row.estimate.value - metric.low) / (metric.high - metric.low)
        title = titles.get(row.dimension, row.dimension)
        yield Measured(title, row.method, 100 * position, PERCENT)


def _first_headline(view: RunView, dimension: str) -> str:
    """Return the headline metric of the first benchmark of a dimension."""
    for scored in view.run.benchmarks:
        if scored.spec.dimension == dimension:
            return headline_metrics(scored)[0]
    raise LookupError(dimension)


def _benchmark_values(view: RunView, metric: str) -> Iterator[tuple[Result, float]]:
    """Yield the rows of a metric on complete benchmarks, each with its value."""
    for row in view.rows:
        if row.metric != metric or row.slice or row.benchmark == OVERALL:
            continue
        if row.estimate.value is not None:
            yield row, row.estimate.value


def _percent(row: Result, value: float) -> float:
    """Return the value of a share in percent. Rows as published are in percent already."""
    return 100 / unit_multiplier(row.unit) * value
