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
    ReportedRun,
    Result,
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


def option_positions(reported_run: ReportedRun) -> Iterator[Measured]:
    """Measure how much more often the option at each position is chosen than by chance, in percentage points.

    ReForm-Eval, Figure 10. Questions with different numbers of options are separate: `A of 4`, `B of 4`, ...
    """
    for model_row in reported_run.method_rows:
        if model_row.method != "generation":
            continue
        choice_rates = by_option_position(model_row).choice_rate
        for (n_options, position), estimate in choice_rates.items():
            if estimate.value is None:
                continue
            letter = chr(ord("A") + position)
            excess = estimate.value - 1 / n_options
            yield Measured(f"{letter} of {n_options}", model_row.method, 100 * excess, PERCENT)


def template_range(reported_run: ReportedRun) -> Iterator[Measured]:
    """Measure the accuracy of the best prompt template minus that of the worst, in percentage points.

    ReForm-Eval, Table 25. It is above 0 by chance, even if templates make no difference. Templates are compared within
    a family: `choice.1` and `choice.2`, for example.
    """
    for model_row in reported_run.method_rows:
        accuracies_by_family: dict[str, list[float]] = defaultdict(list)
        for template, estimate in accuracy_by_template(model_row).items():
            if estimate.value is not None:
                family = template.rpartition(".")[0]
                accuracies_by_family[family].append(estimate.value)
        for accuracies in accuracies_by_family.values():
            spread = max(accuracies) - min(accuracies)
            yield Measured("Spread", model_row.method, 100 * spread, PERCENT, "lower")


def perturbations(reported_run: ReportedRun) -> Iterator[Measured]:
    """Measure how unstable replies are if one thing about the prompt varies, such as the order of options.

    ReForm-Eval, Table 24: the instability (in nats) for each thing that varies, as the mean over benchmarks. Protocols
    that vary several things at once are left out.
    """
    values_by_change: dict[tuple[str, Method], list[float]] = defaultdict(list)
    metric = reported_run.substitutes.get("instability", "instability")
    for row, value in _benchmark_values(reported_run, metric):
        protocol = parse_protocol(row.protocol)
        perturbed: tuple[str, ...] = getattr(protocol, "perturbed", ())
        if len(perturbed) == 1:
            change = CHANGED[perturbed[0]]
            values_by_change[change, row.method].append(value)
    for (change, method), values in values_by_change.items():
        yield Measured(change, method, fmean(values), "nats", "lower")


def format_hits(reported_run: ReportedRun) -> Iterator[Measured]:
    """Measure the share of replies that name one of the shown option labels, as the mean over benchmarks, in percent.

    ReForm-Eval, Table 22: `Hit Rate` without an in-context sample in the prompt, and `Hit Rate+` with one.
    """
    rates: dict[str, list[float]] = defaultdict(list)
    for row, value in _benchmark_values(reported_run, "hit_rate"):
        has_in_context_sample = getattr(parse_protocol(row.protocol), "in_context", False)
        name = "Hit Rate+" if has_in_context_sample else "Hit Rate"
        rates[name].append(_percent(row, value))
    for name, values in rates.items():
        yield Measured(name, "generation", fmean(values), PERCENT)


def rounds(reported_run: ReportedRun) -> Iterator[Measured]:
    """Measure the accuracy in each round of dialogues, as the mean over benchmarks, in percent."""
    accuracies: dict[tuple[int, Method], list[float]] = defaultdict(list)
    for row in reported_run.rows:
        is_of_round = row.slice.startswith(ROUND)
        if row.metric != "accuracy" or not is_of_round or row.estimate.value is None:
            continue
        number = int(row.slice.removeprefix(ROUND))
        accuracies[number, row.method].append(_percent(row, row.estimate.value))
    for (number, method), values in sorted(accuracies.items()):
        yield Measured(f"round {number}", method, fmean(values), PERCENT)


def number_of_options(reported_run: ReportedRun) -> Iterator[Measured]:
    """Measure the accuracy on questions with each number of options, over all benchmarks, in percent.

    ReForm-Eval, Figure 15.
    """
    values_by_number: dict[tuple[int, Method], list[float]] = defaultdict(list)
    for scored in reported_run.run.benchmarks:
        for prediction, value in scored_predictions(scored):
            sample = scored.samples[prediction.sample_id]
            n_options = len(sample.rounds[prediction.turn].options)
            values_by_number[n_options, prediction.method].append(value)
    for (n_options, method), values in sorted(values_by_number.items()):
        yield Measured(f"{n_options} options", method, 100 * fmean(values), PERCENT)


def capabilities(reported_run: ReportedRun) -> Iterator[Measured]:
    """Measure the capability in each dimension in percent (LVLM-eHub, Figure A.1).

    Numbers as published and shares are converted. Other numbers are placed between the smallest and the largest value
    that their metric declares.
    """
    titles: dict[str, str] = {}
    for suite in suite_facts().values():
        titles |= suite.dimensions
    for row in reported_run.rows:
        if row.metric != CAPABILITY or row.dimension == OVERALL or row.estimate.value is None:
            continue
        multiplier = unit_multiplier(row.unit)
        if multiplier != 1 or row.unit == SHARE:
            position = row.estimate.value / multiplier
        else:
            metric = declared_row(_first_headline(reported_run, row.dimension))
            if metric.low is None or metric.high is None:
                continue
            position = (row.estimate.value - metric.low) / (metric.high - metric.low)
        title = titles.get(row.dimension, row.dimension)
        yield Measured(title, row.method, 100 * position, PERCENT)


def _first_headline(reported_run: ReportedRun, dimension: str) -> str:
    """Return the headline metric of the first benchmark of a dimension."""
    for scored in reported_run.run.benchmarks:
        if scored.spec.dimension == dimension:
            return headline_metrics(scored)[0]
    raise LookupError(dimension)


def _benchmark_values(reported_run: ReportedRun, metric: str) -> Iterator[tuple[Result, float]]:
    """Yield the rows of a metric on complete benchmarks, each with its value."""
    for row in reported_run.rows:
        if row.metric != metric or row.slice or row.benchmark == OVERALL:
            continue
        if row.estimate.value is not None:
            yield row, row.estimate.value


def _percent(row: Result, value: float) -> float:
    """Return the value of a share in percent. Rows as published are in percent already."""
    return 100 / unit_multiplier(row.unit) * value
