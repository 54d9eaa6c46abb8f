"""The values that an analysis rests on, of a model, a quantity, a method, printed in a paper or measured by a run; the
groups of their models; and what is computed over them: means, ranks, differences, quartiles, correlations."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from statistics import fmean, quantiles

from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError, parse_protocol
from snellen.plugin_api import (
    ALL,
    CAPABILITY,
    METHODS,
    PERTURBATIONS,
    SHARE,
    Better,
    Estimate,
    Method,
    ModelCard,
    Result,
    RunView,
    accuracy_by_template,
    by_option_position,
    card_of_model,
    card_of_printed,
    competition_ranks,
    declared,
    dimension_titles,
    find,
    headlines_of,
    scored_predictions,
    spearman,
    student_t,
    unit_multiplier,
)
from snellen_lab.analyses.declaration import (
    MODEL,
    AnalysisSource,
    AnalysisSpec,
    Grouping,
)
from snellen_lab.papers.paper_tables import NOT_SHARED, compare_with_printed
from snellen_lab.papers.printed_tables import (
    METHOD,
    Paper,
    PrintedValue,
    paper_of,
)


class Observation(Struct, frozen=True, kw_only=True):
    """One value of one model."""

    model: str
    """Its name in the paper, or the label of the run."""
    card: str
    """The name of its card; empty where it has none."""
    is_run: bool
    method: Method
    quantity: str
    value: float
    unit: str
    better: Better = "higher"
    slack: float = 0.0
    """How far the value may be from the one that was rounded to it."""


class Measured(Struct, frozen=True):
    """What a measure found in a run: a quantity, by a method, in a unit."""

    quantity: str
    method: Method
    value: float
    unit: str
    better: Better = "higher"


AnalysisMeasure = Callable[[RunView], Iterable[Measured]]
"""(a run) -> its values (the registry's group `analysis_measures`)."""


class ObservedValues(Struct, frozen=True):
    """The values of an analysis, and what has to be said of those that are missing."""

    observations: list[Observation]
    notes: tuple[str, ...]


def observe(
    spec: AnalysisSpec, views: Sequence[RunView], cards: dict[str, ModelCard]
) -> ObservedValues:
    """All values of the paper's models, then those of the runs. Raises DataError for cells that no table has."""
    paper = paper_of(spec.suite) if any(source.cells for source in spec.values) else None
    observations: list[Observation] = []
    missing: dict[tuple[str, str], list[str]] = {}
    for source in spec.values:
        cells = _cells(paper, source) if paper else []
        observations += _averaged(
            source, [_of_print(cell, source, spec.suite, cards) for cell in cells]
        )
    for view in views:
        card = card_of_model(view.run.manifest.model, cards)
        of_run: list[Observation] = []
        for source in spec.values:
            own_values = _RunValues(view, source, card[0] if card else "")
            if source.measure:
                of_run += own_values.measured()
            elif paper is not None:
                run_values, absent = own_values.compared(paper, _cells(paper, source))
                for column, why in absent.items():
                    missing.setdefault((view.label, why), []).append(column)
                of_run += [] if source.quantity and absent else _averaged(source, run_values)
        if not of_run:
            missing[view.label, "nothing of what the analysis looks at is in this run"] = []
        observations += of_run
    return ObservedValues(
        observations, tuple(_missing_note(*key, columns) for key, columns in missing.items())
    )


def _missing_note(label: str, why: str, columns: Sequence[str]) -> str:
    column_list = f" ({', '.join(dict.fromkeys(columns))})" if columns else ""
    return f"{label}: {why}{column_list}."


def _cells(paper: Paper, source: AnalysisSource) -> list[PrintedValue]:
    """The printed values of a source, those without a model left out."""
    cells: list[PrintedValue] = []
    for reference in source.cells:
        table, _, pattern = reference.partition(":")
        matching_cells = [cell for cell in paper.values(table) if fnmatchcase(cell.column, pattern)]
        if not matching_cells:
            raise DataError(
                f"the analysis names {reference!r}, but Table {table} has no such column"
            )
        cells += [
            cell
            for cell in matching_cells
            if cell.value is not None and cell.model and _enters(cell, source)
        ]
    return cells


def _column(cell: PrintedValue) -> str:
    """The column, after the row's labels other than model and method: `Random, Accuracy`."""
    labels = (text for label, text in cell.labels.items() if label not in (MODEL, METHOD))
    return ", ".join((*labels, cell.column))


def _enters(cell: PrintedValue, source: AnalysisSource) -> bool:
    fits = all(cell.labels.get(label, text) == text for label, text in source.rows.items())
    return fits and not any(
        cell.labels.get(label) in texts for label, texts in source.without.items()
    )


def _of_print(
    cell: PrintedValue, source: AnalysisSource, suite: str, cards: dict[str, ModelCard]
) -> Observation:
    card = card_of_printed(suite, cell.model, cards)
    return Observation(
        model=cell.model,
        card=card[0] if card else "",
        is_run=False,
        method=source.method or cell.method,
        quantity=source.quantity or _column(cell),
        value=float(cell.value or 0),
        unit=cell.unit,
        better=_better(cell),
        slack=0.5 * 10.0**-cell.digits,
    )


def _better(cell: PrintedValue) -> Better:
    return declared(cell.metric).better if cell.metric and not cell.dimension else "higher"


class _RunValues(Struct, frozen=True):
    """A run, what of it is asked for, and the name of its model's card."""

    view: RunView
    source: AnalysisSource
    card: str

    def measured(self) -> Iterator[Observation]:
        measure: AnalysisMeasure = find("analysis_measures", self.source.measure)
        for measured in measure(self.view):
            yield self._observation(
                measured.method, measured.quantity, measured.value, measured.unit, measured.better
            )

    def compared(
        self, paper: Paper, cells: Sequence[PrintedValue]
    ) -> tuple[list[Observation], dict[str, str]]:
        """The run's numbers of the same columns, by the methods that it has; and why others are missing."""
        observations: list[Observation] = []
        absent: dict[str, str] = {}
        columns = {(cell.method, cell.table, _column(cell)): cell for cell in cells}
        for line in self.view.method_rows:
            for cell in columns.values():
                if cell.method != line.method:
                    continue
                number = compare_with_printed(paper, line, [cell])
                if number is None or number.estimate.value is None:
                    absent[_column(cell)] = NOT_SHARED if number is None else number.note
                    continue
                method, quantity = (
                    self.source.method or cell.method,
                    self.source.quantity or _column(cell),
                )
                observations.append(
                    self._observation(
                        method, quantity, number.estimate.value, cell.unit, _better(cell)
                    )
                )
        return observations, absent

    def _observation(
        self, method: Method, quantity: str, value: float, unit: str, better: Better
    ) -> Observation:
        return Observation(
            model=self.view.label,
            card=self.card,
            is_run=True,
            method=method,
            quantity=quantity,
            value=value,
            unit=unit,
            better=better,
        )


def _averaged(source: AnalysisSource, observations: Sequence[Observation]) -> list[Observation]:
    """A model's values of a named quantity as one, if it has all that the others have."""
    if not source.quantity:
        return list(observations)
    kinds: dict[tuple[str, Method], list[Observation]] = {}
    for observation in observations:
        kinds.setdefault((observation.model, observation.method), []).append(observation)
    most = {
        method: max(len(of) for (_, m), of in kinds.items() if m == method) for _, method in kinds
    }
    return [
        replace(of[0], value=sum(observation.value for observation in of) / len(of))
        for (_, method), of in kinds.items()
        if len(of) == most[method]
    ]


# --- groups of models ------------------------------------------------------------------------------------------------


WITH, WITHOUT = "with", "without"


def group_of(
    observation: Observation, grouping: Grouping, cards: Mapping[str, ModelCard]
) -> str | None:
    """The group; None where the card does not say, or is in none of the lists."""
    if grouping.by == MODEL:
        return observation.model
    if grouping.members:
        # Beside the paper's lists of its models, a run stands alone.
        own_group = observation.model if observation.is_run else None
        return next(
            (group for group, names in grouping.members.items() if observation.card in names),
            own_group,
        )
    if observation.card not in cards:
        return None
    card = cards[observation.card]
    if grouping.trained_on:
        trained_on = card.trained_on
        return (
            None if trained_on is None else WITH if grouping.trained_on in trained_on else WITHOUT
        )
    fact = getattr(card, grouping.by)
    if fact in (None, ""):
        return None
    if isinstance(fact, int):
        return number_class(fact, grouping.edges)
    return text_class(str(fact), grouping.names)


def text_class(text: str, names: Mapping[str, tuple[str, ...]]) -> str:
    """The first group one of whose patterns fits; the text itself where none does."""
    return next(
        (group for group, patterns in names.items() if any(fnmatchcase(text, p) for p in patterns)),
        text,
    )


def number_class(number: float, edges: tuple[float, ...]) -> str:
    """`> 10M to 100M`: above one edge, up to and including the next; the number itself without edges."""
    if not edges:
        return short_number(number)
    if number <= edges[0]:
        return f"up to {short_number(edges[0])}"
    for low, high in pairwise(edges):
        if number <= high:
            return f"> {short_number(low)} to {short_number(high)}"
    return f"> {short_number(edges[-1])}"


def short_number(number: float) -> str:
    """`6.74B`, `187.2M`, `32`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{number / size:.4g}{letter}"
    return f"{number:.4g}"


def why_no_group(
    observation: Observation, grouping: Grouping, cards: Mapping[str, ModelCard]
) -> str:
    """What to do so that a model joins a group."""
    if observation.card not in cards:
        fact_name = "trained_on" if grouping.trained_on else grouping.by
        model = observation.model
        return f"{model} has no model card, so its {fact_name} is not known; write one (--cards FILE, docs/analyses.md)"
    return f"the card {observation.card} does not say {'trained_on' if grouping.trained_on else grouping.by}"


# --- what is measured on runs ----------------------------------------------------------------------------------------


PERCENT = "%"
CHANGED = dict(zip(PERTURBATIONS, ("Instruct", "Option Order", "Option Mark"), strict=True))
"""What ReForm-Eval's Table 24 calls them."""
ROUND = "round="


def option_positions(view: RunView) -> Iterator[Measured]:
    """How much more often the option in each place is chosen than 1 in their number (ReForm-Eval, Figure 10)."""
    for line in view.method_rows:
        for (n_options, place), estimate in by_option_position(line).chosen.items():
            if estimate.value is not None and line.method == "generation":
                name = f"{chr(ord('A') + place)} of {n_options}"
                yield Measured(name, line.method, 100 * (estimate.value - 1 / n_options), PERCENT)


def template_range(view: RunView) -> Iterator[Measured]:
    """Accuracy of the best template minus that of the worst, chance and all, as Table 25 of ReForm-Eval has it."""
    for line in view.method_rows:
        families: dict[str, list[float]] = defaultdict(list)
        for name, estimate in accuracy_by_template(line).items():
            if estimate.value is not None:
                families[name.rpartition(".")[0]].append(estimate.value)
        for shares in families.values():
            yield Measured(
                "Spread", line.method, 100 * (max(shares) - min(shares)), PERCENT, "lower"
            )


def perturbations(view: RunView) -> Iterator[Measured]:
    """Mean instability over benchmarks, by the one thing that a protocol varies (ReForm-Eval, Table 24)."""
    by_change: dict[tuple[str, Method], list[float]] = defaultdict(list)
    metric = view.substitutes.get("instability", "instability")
    for row, value in _benchmark_values(view, metric):
        perturbed: tuple[str, ...] = getattr(parse_protocol(row.protocol), "perturbed", ())
        if len(perturbed) == 1:
            by_change[CHANGED[perturbed[0]], row.method].append(value)
    for (change, method), values in by_change.items():
        yield Measured(change, method, fmean(values), "nats", "lower")


def format_hits(view: RunView) -> Iterator[Measured]:
    """Replies that name a label that was shown, without and (+) with an in-context sample (ReForm-Eval, Table 22)."""
    shares: dict[str, list[float]] = defaultdict(list)
    for row, value in _benchmark_values(view, "hit_rate"):
        with_sample = getattr(parse_protocol(row.protocol), "in_context", False)
        shares["Hit Rate+" if with_sample else "Hit Rate"].append(_percent(row, value))
    for name, values in shares.items():
        yield Measured(name, "generation", fmean(values), PERCENT)


def rounds(view: RunView) -> Iterator[Measured]:
    """Accuracy by round of dialogues, the mean over benchmarks."""
    by_round: dict[tuple[int, Method], list[float]] = defaultdict(list)
    for row in view.rows:
        if (
            row.metric == "accuracy"
            and row.slice.startswith(ROUND)
            and row.estimate.value is not None
        ):
            by_round[int(row.slice.removeprefix(ROUND)), row.method].append(
                _percent(row, row.estimate.value)
            )
    for (number, method), values in sorted(by_round.items()):
        yield Measured(f"round {number}", method, fmean(values), PERCENT)


def number_of_options(view: RunView) -> Iterator[Measured]:
    """Share of right presentations by the number of options (ReForm-Eval, Figure 15)."""
    right: dict[tuple[int, Method], list[float]] = defaultdict(list)
    for scored in view.run.benchmarks:
        for prediction, value in scored_predictions(scored):
            options = scored.samples[prediction.sample_id].rounds[prediction.turn].options
            right[len(options), prediction.method].append(value)
    for (number, method), values in sorted(right.items()):
        yield Measured(f"{number} options", method, 100 * fmean(values), PERCENT)


def capabilities(view: RunView) -> Iterator[Measured]:
    """Each dimension's capability in per cent: figures as printed, shares, and others from the least to the greatest
    value that their metric declares (LVLM-eHub, Figure A.1)."""
    for row in view.rows:
        if row.metric != CAPABILITY or row.dimension == ALL or row.estimate.value is None:
            continue
        value, multiplier = row.estimate.value, unit_multiplier(row.unit)
        if multiplier != 1 or row.unit == SHARE:
            position = value / multiplier
        else:
            headlines = (
                headlines_of(s)[0] for s in view.run.benchmarks if s.spec.dimension == row.dimension
            )
            metric = declared(next(headlines))
            if metric.low is None or metric.high is None:
                continue
            position = (value - metric.low) / (metric.high - metric.low)
        yield Measured(
            dimension_titles().get(row.dimension, row.dimension),
            row.method,
            100 * position,
            PERCENT,
        )


def _benchmark_values(view: RunView, metric: str) -> Iterator[tuple[Result, float]]:
    """The rows of a metric on whole benchmarks, each with its value."""
    for row in view.rows:
        if (
            row.metric == metric
            and not row.slice
            and row.benchmark != ALL
            and row.estimate.value is not None
        ):
            yield row, row.estimate.value


def _percent(row: Result, value: float) -> float:
    """The value of a share in per cent; rows as published are in per cent already."""
    return 100 / unit_multiplier(row.unit) * value


# --- statistics ------------------------------------------------------------------------------------------------------


POOLED = "all values"
RANK = "rank"
DIGITS = {"%": 1, RANK: 2}
"""Decimals of figures by unit, where they are not the usual ones."""
FEWEST = 3
"""Models that a mean needs for an interval."""
Place = tuple[tuple[str, ...], str, str, str]
"""Groups, method, quantity, unit."""


class Member(Struct, frozen=True):
    """A value and the groups that its model belongs to."""

    observation: Observation
    groups: tuple[str, ...]
    """Empty for a model of no group, which counts as a rival in ranks and nowhere else."""
    x: float | None = None
    """The number on its card that the first grouping names."""


class AnalysisRow(Struct, frozen=True, kw_only=True):
    """One number of an analysis."""

    groups: tuple[str, ...]
    method: str
    quantity: str
    statistic: str
    unit: str
    estimate: Estimate
    """Its interval takes the models of the group as a sample of such models."""
    models: int
    slack: float = 0.0
    """How far the number may be off because the printed ones are rounded."""


class AnalysisStatistic(Struct, frozen=True):
    """What is computed over grouped values (the registry's group `analysis_statistics`)."""

    title: str
    compute: Callable[[Sequence[Member]], Iterable[AnalysisRow]]


def mean_over_models(values: Sequence[float]) -> Estimate:
    """Mean with Student's 95% interval over models; none for fewer than three, of which it says nothing."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < FEWEST:
        return Estimate(mean, None, None, None, n)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    reach = student_t(n - 1) * error
    return Estimate(mean, error, mean - reach, mean + reach, n)


def _by_place(members: Iterable[Member]) -> dict[Place, list[Member]]:
    places: dict[Place, list[Member]] = defaultdict(list)
    for member in (member for member in members if member.groups):
        observation = member.observation
        places[member.groups, observation.method, observation.quantity, observation.unit].append(
            member
        )
    return places


def _estimated(
    members: Iterable[Member],
    statistic: str,
    estimate: Callable[[Sequence[float]], Estimate] = mean_over_models,
) -> Iterator[AnalysisRow]:
    """A row for each place, of the values of its members."""
    for (groups, method, quantity, unit), of in _by_place(members).items():
        yield AnalysisRow(
            groups=groups,
            method=method,
            quantity=quantity,
            statistic=statistic,
            unit=unit,
            estimate=estimate([member.observation.value for member in of]),
            models=len({member.observation.model for member in of}),
            slack=max(member.observation.slack for member in of),
        )


def _mean(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    return _estimated(members, "mean")


def ranked(members: Sequence[Member]) -> Iterator[Member]:
    """Each value's competition rank among all models of the same method and quantity, in place of the value."""
    rivals: dict[tuple[str, str], list[Member]] = defaultdict(list)
    for member in members:
        rivals[member.observation.method, member.observation.quantity].append(member)
    for of in rivals.values():
        places = competition_ranks(
            [member.observation.value for member in of], of[0].observation.better
        )
        for member, place in zip(of, places, strict=True):
            yield replace(
                member,
                observation=replace(member.observation, value=float(place), unit=RANK, slack=0.0),
            )


def _mean_rank(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    return _estimated(ranked(members), "mean rank")


def gaps(members: Sequence[Member]) -> Iterator[Member]:
    """Likelihood minus generation, for each model and quantity that has both."""
    by_method: dict[tuple[str, str], dict[str, Member]] = defaultdict(dict)
    for member in members:
        by_method[member.observation.model, member.observation.quantity][
            member.observation.method
        ] = member
    generation, likelihood = METHODS
    for of in by_method.values():
        if len(of) == len(METHODS):
            first, second = of[likelihood].observation, of[generation].observation
            gap = replace(first, value=first.value - second.value, slack=first.slack + second.slack)
            yield replace(of[likelihood], observation=gap)


def _gap(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    for row in _estimated(gaps(members), "likelihood - generation"):
        yield replace(row, method="")


def _median_and_quartiles(values: Sequence[float]) -> Estimate:
    """Median with the quartiles as its ends (not an interval of confidence)."""
    low, middle, high = (
        quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    )
    return Estimate(middle, None, low, high, len(values))


def _quartiles(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    return _estimated(members, "median [quartiles]", _median_and_quartiles)


def _correlation(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    """Spearman's, of each model's mean value with the number of the first group, by the other groups."""
    strata = [
        replace(member, groups=("all", *member.groups[1:]))
        for member in members
        if member.groups and member.x is not None
    ]
    for (groups, method, quantity, _), of in _by_place(strata).items():
        x = {member.observation.model: member.x for member in of if member.x is not None}
        values: dict[str, list[float]] = defaultdict(list)
        for member in of:
            values[member.observation.model].append(member.observation.value)
        means = [math.fsum(values[model]) / len(values[model]) for model in x]
        yield AnalysisRow(
            groups=groups,
            method=method,
            quantity=quantity,
            statistic="rank correlation",
            unit="1",
            estimate=replace(spearman(list(x.values()), means, len(x)), n=len(x)),
            models=len(x),
        )


MEAN = AnalysisStatistic("Mean over models", _mean)
MEAN_RANK = AnalysisStatistic("Mean rank", _mean_rank)
GAP = AnalysisStatistic("Likelihood minus generation", _gap)
QUARTILES = AnalysisStatistic("Median and quartiles", _quartiles)
CORRELATION = AnalysisStatistic("Rank correlation", _correlation)


def pooled(members: Iterable[Member]) -> list[Member]:
    """All quantities as one."""
    return [
        replace(member, observation=replace(member.observation, quantity=POOLED))
        for member in members
    ]


def by_quantity(
    rows: Iterable[AnalysisRow],
) -> Mapping[tuple[tuple[str, ...], str, str], dict[str, AnalysisRow]]:
    """Rows of one group, method and statistic, by quantity."""
    lines: dict[tuple[tuple[str, ...], str, str], dict[str, AnalysisRow]] = defaultdict(dict)
    for row in rows:
        lines[row.groups, row.method, row.statistic][row.quantity] = row
    return lines
