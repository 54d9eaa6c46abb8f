"""What runs found, in a few sentences: each rests on an interval or a test, and says no more than that does.

A model is better than another where the paired difference over their common questions says so, with the p-value that
the tables beside it have: corrected for all pairs of runs, or where a baseline was chosen for all pairs with that. It
is above guessing in a dimension where that holds for all its dimensions at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from snellen.analysis.capability import ALL, CAPABILITY, headlines_of
from snellen.analysis.paired.comparison import (
    ComparedRuns,
    as_one_of,
    compare_runs,
    differences_of,
    is_instrument,
    overall_of,
)
from snellen.analysis.paired.differences import PairedDifference, corrected_estimate, gain, is_shown
from snellen.analysis.paired.significance import LEVEL
from snellen.analysis.sequential import parts_of
from snellen.analysis.statistics import z
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE
from snellen.psychometrics import is_adaptive
from snellen.records import METHODS, Better, Estimate, Method
from snellen.report.paired_tables import family_words
from snellen.report.run_view import (
    ModelMethodRow,
    RunView,
    dimensions_of,
    each_choice_benchmark,
    mean_chance,
)
from snellen.report.table import (
    capitalised,
    decimal_text,
    dimension_title,
    metric_title,
    percent,
    value_text,
)
from snellen.scoring.scored_run import empty_reply_sentences

MOST_NAMES = 3
"""More names than this are counted."""
NO_INTERVAL = "too few pictures for an interval"
Differences = Mapping[Method, Sequence[PairedDifference]]
"""Of the best model from each other one, by method."""


def findings(
    views: Sequence[RunView], compared: ComparedRuns | None = None, *, of_instruments: bool = False
) -> list[str]:
    """The sentences for a report: what was found first, then what to be careful about. Instruments that were run beside
    models are left out, unless somebody asks about them.

    `compared` are the runs that were scored by the standard rules, as the tables beside the sentences compare them;
    without it they are compared here.
    """
    placed = [view.label for view in views if is_adaptive(view.run.manifest)]
    every = [view for view in views if view.label not in placed]
    shown = compared_views(every, of_instruments=of_instruments)
    stopped = [view.label for view in shown if parts_of(view.run)]
    facts = [model for view in shown if view.label not in stopped for model in model_numbers(view)]
    left_out = [
        view.label for view in every if view not in shown and view.run.convention == "standard"
    ]
    cautions = (
        [f"These sentences leave out {_names(left_out)}: instruments, not models."]
        if left_out
        else []
    )
    if early := [view.label for view in shown if view.label in stopped and _has_ended(view)]:
        cautions.append(
            f"A rule stopped {_names(early)} early; the section “Stopped by a rule” has intervals that allow for that."
        )
    cautions += [
        f"The run of {view.label} has not come to its end: {view.run.extent.words}."
        for view in shown
        if view.run.extent and not _has_ended(view)
    ]
    cautions += [
        f"Of {view.label}, {words}." for view in shown for words in empty_reply_sentences(view.run)
    ]
    if placed:
        cautions.append(
            f"The questions of {_names(placed)} were placed to measure thresholds: how many answers are right says "
            "nothing; see the acuity card."
        )
    differences: Differences = {}
    in_every_order: Sequence[PairedDifference] = ()
    try:
        if len({model.name for model in facts}) > 1:
            compared = compared or _compared(views)
            differences = leading_differences(compared, facts)
            if nearest := _nearest(differences.get("generation", ())):
                in_every_order = order_differences(compared, nearest.first, nearest.second)
    except DataError as error:
        cautions.append(f"The runs are not compared: {error}.")
    family = family_words(compared.headline) if compared else ""
    return [*sentences(facts, differences, in_every_order, family), *cautions]


def _has_ended(view: RunView) -> bool:
    return view.run.extent is None or view.run.extent.is_whole


def _compared(views: Sequence[RunView]) -> ComparedRuns:
    runs = [view.run for view in views if view.run.convention == "standard"]
    return ComparedRuns(runs, compare_runs(runs, resamples=0, with_flips=False))


def sentences(
    facts: Sequence[ModelNumbers],
    differences: Differences,
    in_every_order: Sequence[PairedDifference] = (),
    family: str = "all pairs",
) -> list[str]:
    """The sentences about some models, each a row for every method that it was asked by. `in_every_order` are what the
    best differs by from the nearest: in circular accuracy, and in what the order of the options does. `family` says
    what the differences are corrected for."""
    methods = [method for method in METHODS if any(model.method == method for model in facts)]
    if not methods:
        return []
    first = [model for model in facts if model.method == methods[0]]
    if len(first) == 1:
        found = [_level(facts), _own_dimensions(first[0])]
    else:
        gap, guessing = _gap(differences.get(methods[0], ())), _above_guessing(first)
        standings = list(_standings(differences, family))
        order = _order_part(in_every_order)
        found = [*standings[:1], " ".join(filter(None, (gap, guessing))), order, *standings[1:]]
    return list(filter(None, (*found, _lowest(first), _stability(first), _caution(first))))


# --- one model -------------------------------------------------------------------------------------------------------


def _level(facts: Sequence[ModelNumbers]) -> str:
    """The headline of the only model against guessing, and by the other method."""
    model = facts[0]
    value, interval = value_text(model.headline, model.unit), _interval(model.headline, model.unit)
    words = "over all questions of" if model.over == "questions" else "on average over"
    over = f", {words} {model.benchmarks} benchmarks" if model.benchmarks > 1 else ""
    if model.metric == "accuracy" and model.unit == SHARE:
        opening = f"{model.name} answers {value} of the questions correctly"
    else:
        opening = f"{model.name} scores {value} in {metric_title(model.metric)}"
    others = "".join(
        f" By {other.method}: {value_text(other.headline, other.unit)} ({_interval(other.headline, other.unit)})."
        for other in facts[1:]
        if other.name == model.name
    )
    interval = interval if interval == NO_INTERVAL else f"95% interval {interval}"
    return f"{opening} ({interval}){over}{_against_guessing(model)}.{others}"


def _against_guessing(model: ModelNumbers) -> str:
    low, high, chance = model.headline.low, model.headline.high, model.chance
    if low is None or high is None or chance is None:
        return ""
    if low <= chance <= high:
        return f", which cannot be told apart from guessing ({percent(chance)})"
    return f", {'more' if low > chance else 'fewer'} than guessing would ({percent(chance)})"


def _own_dimensions(model: ModelNumbers) -> str:
    """The highest and the lowest dimension, and those in which the model may be guessing."""
    if len(model.dimensions) < 2:
        return ""
    low, *_, high = sorted(model.dimensions, key=lambda dimension: dimension.estimate.value or 0.0)
    doubtful = _not_above(model)
    guessing = (
        f"It is not shown to be above guessing in {_some_of(doubtful, len(model.dimensions))}."
        if doubtful
        else f"It is above guessing in all {len(model.dimensions)} dimensions."
    )
    if low.estimate.value == high.estimate.value:
        return guessing
    ends = (f"{d.title} at {value_text(d.estimate)} ({_interval(d.estimate)})" for d in (low, high))
    return f"Its {len(model.dimensions)} dimensions range from {' to '.join(ends)}. {guessing}"


def _not_above(model: ModelNumbers) -> list[str]:
    """Dimensions that are not shown to be above guessing, at a level that holds for all of them together."""
    margin = z(LEVEL / max(len(model.dimensions), 1))
    return [
        dimension.title
        for dimension in model.dimensions
        if dimension.estimate.low is None
        or dimension.estimate.low <= dimension.chance
        or (dimension.estimate.value or 0.0) - margin * (dimension.estimate.stderr or 0.0)
        <= dimension.chance
    ]


# --- several models --------------------------------------------------------------------------------------------------


def _standings(differences: Differences, family: str) -> Iterator[str]:
    """Who is better than whom, and who cannot be told apart: a sentence for each method."""
    overall = {
        method: [d for d in of_method if d.scope == "overall"]
        for method, of_method in differences.items()
    }
    methods = [method for method, of_method in overall.items() if of_method]
    for method in methods:
        yield f"{f'By {method}, ' if len(methods) > 1 else ''}{_standing(overall[method], family)}."


def _standing(differences: Sequence[PairedDifference], family: str) -> str:
    better, worse, level = _parted(differences)
    first, others = differences[0].first, len(differences)
    nearest = _nearest(differences)
    words = []
    if nearest and others == len(better) > 1:
        lead = _points(nearest, family)
        words.append(
            f"{first} is the best of {others + 1} models, ahead of {nearest.second} by {lead}"
        )
    elif nearest:
        name = nearest.second
        whom = (
            f"{len(better)} of the {others} other models, ahead of the nearest, {name},"
            if len(better) > 1
            else name
        )
        words.append(f"{first} is better than {whom} by {_points(nearest, family)}")
    if level:
        bounds = f": {_bounds(level[0], family)}" if others == 1 else ""
        who = "it" if words else first
        words.append(f"{who} cannot be told apart from {_names([d.second for d in level])}{bounds}")
    words += [
        f"{difference.second} is better than {first} by {_points(difference, family)}"
        for difference in worse
    ]
    return "; ".join(words)


def _bounds(difference: PairedDifference, family: str) -> str:
    if difference.difference.low is None:
        return f"with {difference.difference.n:,} questions in common, there are too few pictures for an interval"
    return f"the difference lies between {_points(difference, family, ' and ')}"


def _nearest(differences: Sequence[PairedDifference]) -> PairedDifference | None:
    """The smallest lead over all benchmarks that is shown."""
    better, _, _ = _parted(
        [difference for difference in differences if difference.scope == "overall"]
    )
    return min(better, key=gain, default=None)


def _order_part(differences: Sequence[PairedDifference]) -> str:
    """What a lead is where only answers count that stay right in every order, and by how much it is larger or smaller
    than that of first answers, where both are shown. Circular accuracy is accuracy less the circular drop."""
    if len(differences) < 2 or not all(map(is_shown, differences)) or gain(differences[0]) < 0:
        return ""
    circular, drop = differences
    change = _ends_of(drop, " to ")
    if gain(drop) > 0:
        comparison = f", {change} more than by first answers: {drop.second}'s change more often with the order."
    else:
        comparison = (
            f"; the rest of its lead, {change}, comes from answers that change with the order."
        )
    return (
        f"Counting only answers that stay right in every order of the options, {circular.first} leads "
        f"{circular.second} by {_ends_of(circular, ' to ')}{comparison}"
    )


def _gap(differences: Sequence[PairedDifference]) -> str:
    """In which dimensions two models differ."""
    dimensions = [difference for difference in differences if difference.scope == "dimension"]
    better, worse, _ = _parted(dimensions)
    shares = [difference for difference in better if difference.unit == SHARE]
    if len(dimensions) < 2 or not shares:
        return ""
    widest = max(shares, key=gain)
    every = len({difference.dimension for difference in dimensions})
    sure = len({d.dimension for d in better} - {d.dimension for d in dimensions if d not in better})
    count = f"{sure} of {every}" if sure < every else f"all {every}" if every > 2 else "both"
    reverse = (
        f", and worse in {_names([dimension_title(d.dimension) for d in worse])}" if worse else ""
    )
    place = f"{dimension_title(widest.dimension)} ({_ends_of(widest, ' to ')} of {metric_title(widest.metric)})"
    return f"{widest.first} is shown to be better in {count} dimensions, most of all in {place}{reverse}."


def _parted(
    differences: Sequence[PairedDifference],
) -> tuple[list[PairedDifference], list[PairedDifference], list[PairedDifference]]:
    """Those in which the first run is shown to be better, those in which it is worse, and those that show nothing."""
    shown = [difference for difference in differences if is_shown(difference)]
    better = [difference for difference in shown if gain(difference) > 0]
    return better, [d for d in shown if d not in better], [d for d in differences if d not in shown]


def _above_guessing(models: Sequence[ModelNumbers]) -> str:
    """Which models are not shown to be above guessing, and where."""
    models = [model for model in models if model.dimensions]
    doubtful = [(model, titles) for model in models if (titles := _not_above(model))]
    if not doubtful:
        return "All models are above guessing in every dimension." if models else ""
    if len(doubtful) <= MOST_NAMES:
        where = (
            f"{model.name} in {_some_of(titles, len(model.dimensions))}"
            for model, titles in doubtful
        )
        return f"Not shown to be above guessing: {', '.join(where)}."
    hardest = [
        d.title for d in models[0].dimensions if all(d.title in titles for _, titles in doubtful)
    ]
    place = f"in {_names(hardest)}" if hardest else "in every dimension"
    if len(doubtful) == len(models):
        return f"None of the {len(models)} models is shown to be above guessing {place}."
    return f"{len(doubtful)} of {len(models)} models are not shown to be above guessing {place}."


def _some_of(titles: Sequence[str], count: int) -> str:
    """Dimensions by name, or how many of all."""
    if len(titles) == count:
        return "any dimension"
    return _names(titles) if len(titles) < MOST_NAMES else f"{len(titles)} of {count} dimensions"


def _lowest(models: Sequence[ModelNumbers]) -> str:
    """The benchmark that each of a few models is worst at, or those that cannot be told apart from it."""
    words = []
    for model in models if len(models) <= MOST_NAMES else ():
        if lowest := _not_above_lowest(model.by_benchmark):
            where = (f"{name} ({value_text(share)}, {_interval(share)})" for name, share in lowest)
            words.append(f"{model.name} is worst in {' or '.join(where)}")
    return f"{'; '.join(words)}: shown to be below every other benchmark." if words else ""


def _not_above_lowest(shares: Sequence[tuple[str, Estimate]]) -> list[tuple[str, Estimate]]:
    """The lowest of three or more shares, and those not shown to be above it at a level that holds for all pairs;
    nothing where these are many, or all. Differences have the interval of Newcombe (1998, method 10)."""
    ordered = sorted(shares, key=lambda pair: pair[1].value or 0.0)
    pairs = len(ordered) * (len(ordered) - 1) // 2
    if pairs < 3:
        return []
    wider = z(LEVEL / pairs) / z()
    (_, low), *_ = ordered

    def is_above(high: Estimate) -> bool:
        ends = low.value, low.high, high.low, high.value
        if None in ends:
            return False
        below, below_end, above_end, above = (end or 0.0 for end in ends)
        return above - below > wider * math.hypot(below_end - below, above - above_end)

    tied = [pair for pair in ordered[1:] if not is_above(pair[1])]
    return [ordered[0], *tied] if len(tied) < min(MOST_NAMES, len(ordered) - 1) else []


# --- how stable, and what to be careful about ------------------------------------------------------------------------


def _stability(models: Sequence[ModelNumbers]) -> str:
    """How often an answer holds in every order of the options; without such a test, how far it wavers."""
    if open_runs := [
        m.name for m in models if m.circular and m.circular.value is None and m.circular.unanswered
    ]:
        return (
            f"Too few questions were put to {_names(open_runs)} in every order of the options to say how many answers "
            "stay right; accuracy is of the first order alone."
        )
    if words := _listed([(model.name, model.circular) for model in models], SHARE):
        return f"Answers that stay right in every order of the options: {words}."
    if words := _listed([(model.name, model.instability) for model in models], "nats"):
        return f"Instability across wordings and orders of the options (in nats, 0 is stable): {words}."
    return ""


def _listed(numbers: Sequence[tuple[str, Estimate | None]], unit: str) -> str:
    """The greatest first; of many the greatest and the least."""
    values = [
        (name, estimate) for name, estimate in numbers if estimate and estimate.value is not None
    ]
    values.sort(key=lambda pair: -(pair[1].value or 0.0))
    shown = values if len(values) <= MOST_NAMES else [values[0], values[-1]]
    words = [
        f"{name} {value_text(estimate, unit)} ({_interval(estimate, unit)})"
        for name, estimate in shown
    ]
    return (
        f"among {len(values)} models, from {' down to '.join(words)}"
        if len(values) > MOST_NAMES
        else ", ".join(words)
    )


def _caution(models: Sequence[ModelNumbers]) -> str:
    """Replies that were not read, requests that failed, and questions that were left out."""
    words = []
    if unparsed := _listed(
        [(m.name, m.unparsed) for m in models if m.unparsed and m.unparsed.value], SHARE
    ):
        words.append(f"share of replies that name no option, and count as not right: {unparsed}")
    if failed := [model for model in models if model.errors]:
        count = sum(model.errors for model in failed)
        words.append(
            f"{count:,} questions got no answer from {_names([model.name for model in failed])}"
        )
    counted = [f"{capitalised('; '.join(words))}."] if words else []
    if any(model.is_partial for model in models):
        counted.append(
            "Only part of the benchmarks or of their questions was asked and has a value."
        )
    return " ".join(counted)


# --- words -----------------------------------------------------------------------------------------------------------


def _interval(estimate: Estimate, unit: str = SHARE) -> str:
    if estimate.low is None or estimate.high is None:
        return NO_INTERVAL
    ends = (
        value_text(Estimate(end, None, None, None, 0), unit)
        for end in (estimate.low, estimate.high)
    )
    return " to ".join(ends).replace("%", "", 1)


def _points(difference: PairedDifference, family: str, between: str = " to ") -> str:
    """`4.1 to 9.0 points of accuracy (95% interval, paired on 360 questions)`; where it is one of several, the interval
    that is corrected for that family, as whether it is shown is."""
    is_alone = corrected_estimate(difference) == difference.difference
    kind = "95% interval" if is_alone else f"95% interval, corrected for {family}"
    is_of_one_metric = difference.unit == SHARE != difference.metric
    of_what = f" of {metric_title(difference.metric)}" if is_of_one_metric else ""
    return f"{_ends_of(difference, between)}{of_what} ({kind}, paired on {difference.difference.n:,} questions)"


def _ends_of(difference: PairedDifference, between: str) -> str:
    """The ends of a difference's interval, in points for shares, in any other unit as they are; of one that is shown to
    be on one side of zero without signs."""
    estimate = corrected_estimate(difference)
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return NO_INTERVAL
    if is_shown(difference):
        low, high = sorted((abs(low), abs(high)))
    factor, digits, name = (
        (100, 1, "points") if difference.unit == SHARE else (1, 3, difference.unit)
    )
    return f"{decimal_text(factor * low, digits)}{between}{decimal_text(factor * high, digits)} {name}".strip()


def _names(names: Sequence[str]) -> str:
    """`A, B and C`; of many, the first and how many more."""
    if len(names) > MOST_NAMES + 1:
        names = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


# --- what the sentences are made of ----------------------------------------------------------------------------------


class DimensionShare(Struct, frozen=True):
    """How often a model is right in one dimension, all of whose benchmarks have options, and how often guessing is."""

    title: str
    estimate: Estimate
    chance: float


class ModelNumbers(Struct, frozen=True):
    """What the sentences say of one model, by one method."""

    name: str
    method: Method
    metric: str
    headline: Estimate
    unit: str = SHARE
    chance: float | None = None
    benchmarks: int = 1
    dimensions: tuple[DimensionShare, ...] = ()
    circular: Estimate | None = None
    instability: Estimate | None = None
    unparsed: Estimate | None = None
    errors: int = 0
    is_partial: bool = False
    better: Better = "higher"
    by_benchmark: tuple[tuple[str, Estimate], ...] = ()
    """The accuracy in each benchmark with options."""
    over: str = "benchmarks"
    """What counts alike in the headline."""


def compared_views(views: Sequence[RunView], *, of_instruments: bool) -> list[RunView]:
    """The runs that sentences are about: models, unless all are Snellen's own instruments, by one convention."""
    models = [
        view for view in views if of_instruments or not is_instrument(view.run.manifest)
    ] or list(views)
    # Published numbers have scales of their own, which sentences do not know.
    return [view for view in models if view.run.convention == "standard"]


def model_numbers(view: RunView) -> Iterator[ModelNumbers]:
    for line in view.method_rows:
        number, metric = line.overall("accuracy"), "accuracy"
        if number is None or number.estimate.value is None:
            number, metric = line.lookup(CAPABILITY, ALL, ALL), CAPABILITY
        if number is None or number.estimate.value is None:
            continue
        headlines = {headlines_of(scored)[-1] for scored in view.run.benchmarks}
        shown = headlines.pop() if metric == CAPABILITY and len(headlines) == 1 else metric
        yield ModelNumbers(
            view.label,
            line.method,
            shown,
            number.estimate,
            number.unit,
            mean_chance(view.run.benchmarks)
            if metric == "accuracy" and number.unit == SHARE
            else None,
            view.benchmark_counts[number.protocol, metric] or len(view.run.benchmarks),
            tuple(_dimension_shares(line)),
            *_beside(line),
            number.estimate.errors + number.estimate.absent,
            bool(number.partial),
            view.results_by_key[
                number.protocol, view.substitutes.get(metric, metric), ALL, ALL, ""
            ].better,
            tuple(_benchmark_shares(line)),
            number.over,
        )


def _benchmark_shares(line: ModelMethodRow) -> Iterator[tuple[str, Estimate]]:
    for scored in each_choice_benchmark(line.view):
        number = line.lookup("accuracy", scored.spec.name)
        if number and number.unit == SHARE and number.estimate.value is not None:
            yield scored.spec.name, number.estimate


def _beside(line: ModelMethodRow) -> tuple[Estimate | None, Estimate | None, Estimate | None]:
    """Circular accuracy, instability and the share of unparsed replies, in the units that tables have them in."""
    circular, instability, unparsed = map(
        line.overall, ("circular_accuracy", "instability", "unparsed_rate")
    )
    return (
        circular.estimate if circular and circular.unit == SHARE else None,
        instability.estimate if instability else None,
        unparsed.estimate if unparsed else None,
    )


def _dimension_shares(line: ModelMethodRow) -> Iterator[DimensionShare]:
    """The dimensions that are means of accuracies alone, since guessing has a level only there."""
    for dimension in dimensions_of([line.view]):
        members = [
            scored for scored in line.view.run.benchmarks if scored.spec.dimension == dimension
        ]
        number, chance = line.lookup(CAPABILITY, ALL, dimension), mean_chance(members)
        is_accuracy = all(set(headlines_of(scored)) == {"accuracy"} for scored in members)
        if (
            number
            and number.unit == SHARE
            and number.estimate.value is not None
            and chance is not None
            and is_accuracy
        ):
            yield DimensionShare(dimension_title(dimension), number.estimate, chance)


def _merit(model: ModelNumbers) -> float:
    value = model.headline.value or 0.0
    return -value if model.better == "lower" else value


def leading_differences(
    compared: ComparedRuns, facts: Sequence[ModelNumbers]
) -> dict[Method, Sequence[PairedDifference]]:
    """Of the model with the highest headline, or of the baseline, from each other one; of two models also by dimension.
    Raises DataError for different builds."""
    return {
        method: _from_first(compared, of_method, method)
        for method in METHODS
        if len(of_method := [model for model in facts if model.method == method]) > 1
    }


def _from_first(
    compared: ComparedRuns, models: Sequence[ModelNumbers], method: Method
) -> list[PairedDifference]:
    """In accuracy where the best has one, else in the headlines: by the comparison that the tables show, unless the
    headlines of some benchmarks are other metrics."""
    best = max(models, key=_merit)
    first = next((model for model in models if model.name == compared.headline.baseline), best).name
    metric = "accuracy" if best.metric == "accuracy" else ""
    others = [model.name for model in models if model.name != first]
    by_pair = [
        list(differences_of(compared.headline, first, other, method, metric)) for other in others
    ]
    if metric and not all(map(overall_of, by_pair)):
        in_metric = compared.in_metric(metric)
        by_pair = [
            list(differences_of(in_metric, first, other, method, metric)) for other in others
        ]
    differences = [overall for of_pair in by_pair if (overall := overall_of(of_pair))]
    if len(others) == 1:
        differences += [difference for difference in by_pair[0] if difference.scope == "dimension"]
    return differences


def order_differences(
    compared: ComparedRuns, first: str, second: str
) -> tuple[PairedDifference, ...]:
    """Of two models over all benchmarks in common: circular accuracy, and how far it falls short of the accuracy, which
    is what the order of the options does. Nothing where they were not asked in all orders. Raises DataError."""
    circular = overall_of(differences_of(compared.circular, first, second, "generation", ""))
    if circular is None:
        return ()
    pair = [
        run
        for run, label in zip(compared.runs, compared.headline.labels, strict=True)
        if label in (first, second)
    ]
    drop = compare_runs(pair, metrics=("circular_drop",), resamples=0, with_flips=False)
    known = overall_of(differences_of(drop, first, second, "generation", ""))
    return (circular, as_one_of(known, compared.headline)) if known else ()
