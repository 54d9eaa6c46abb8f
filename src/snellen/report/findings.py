"""What runs found, in a few sentences: each rests on an interval or a test, and says no more than that does.

A model is better than another where the paired difference over their common questions says so, with the p-value that
the tables beside it have: corrected for all pairs of runs, or where a baseline was chosen for all pairs with that. It
is above guessing in a dimension where that holds for all its dimensions at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from snellen.analysis.capability import CAPABILITY
from snellen.analysis.headline import ALL, HEADLINE, headlines_of
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
from snellen.protocols.base import labelled_declaration
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
from snellen.scoring.published_means import PUBLISHED_MEAN, QUESTION_SCORE
from snellen.scoring.scored_run import empty_reply_sentences, whole_text_sentences

MOST_NAMES = 3
"""More names than this are counted."""
COUNTED_METRICS = ("accuracy", "overall_accuracy", "question_score", "exact_match", "typed_match")
"""Rows that say whether a reply is correct, if every question has the value 0 or 1."""
NO_INTERVAL = "too few pictures for an interval"
Differences = Mapping[Method, Sequence[PairedDifference]]
"""Of the best model from each other one, by method."""


def findings(
    views: Sequence[RunView], compared: ComparedRuns | None = None, *, of_instruments: bool = False
) -> list[str]:
    """Return the sentences for a report: what was found first, then what to be careful about.

    Args:
        views: The runs. Instruments among them that were run next to models are left out.
        compared: The comparison of the runs that were scored by the standard rules, as the tables of the same page show
            it. If None, the runs are compared here.
        of_instruments: Include instruments.
    """
    placed = [view.label for view in views if view.run.manifest.adaptive_rules]
    every = [view for view in views if view.label not in placed]
    shown = compared_views(every, of_instruments=of_instruments)
    stopped = [view.label for view in shown if parts_of(view.run)]
    facts = [model for view in shown if view.label not in stopped for model in model_numbers(view)]
    cautions = _run_cautions(every, shown, stopped, placed)

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


def _run_cautions(
    every: Sequence[RunView],
    shown: Sequence[RunView],
    stopped: Sequence[str],
    placed: Sequence[str],
) -> list[str]:
    """Return what to know of whole runs: instruments, runs that have not ended, runs that a rule stopped."""
    cautions: list[str] = []
    left_out = [
        view.label for view in every if view not in shown and view.run.convention == "standard"
    ]
    if left_out:
        cautions.append(
            f"This summary excludes {_names(left_out)}: reference baselines, not models."
        )
    early = [view.label for view in shown if view.label in stopped and _has_ended(view)]
    if early:
        cautions.append(
            f"A rule stopped {_names(early)} early; the section “Stopped by a rule” has intervals that allow for that."
        )
    cautions += [
        f"The run of {view.label} is incomplete: {view.run.extent.words}."
        for view in shown
        if view.run.extent and not _has_ended(view)
    ]
    for view in shown:
        for sentences in (empty_reply_sentences, whole_text_sentences):
            cautions.extend(f"Of {view.label}, {words}." for words in sentences(view.run))
    if placed:
        cautions.append(
            f"The questions of {_names(placed)} were placed to measure thresholds: how many answers are right says "
            "nothing; see the acuity card."
        )
    return cautions


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
    """Return the sentences about some models.

    Args:
        facts: The numbers of each model by each method.
        differences: The leading model against each other one, by method.
        in_every_order: What the leading model and the nearest one differ by in circular accuracy, and in what the
            order of the options does.
        family: What the differences are corrected for.
    """
    methods = [method for method in METHODS if any(model.method == method for model in facts)]
    if not methods:
        return []
    first = [model for model in facts if model.method == methods[0]]
    found: list[str] = []
    if len(first) == 1:
        found += [_level(facts), _own_dimensions(first[0])]
    else:
        standings = list(_standings(differences, first, family))
        found += standings[:1]
        found.append(
            " ".join(filter(None, (_gap(differences.get(methods[0], ())), _above_guessing(first))))
        )
        found.append(_order_part(in_every_order))
        found += standings[1:]
    found += [_lowest(first), _stability(first), _caution(first)]
    return [sentence for sentence in found if sentence]


# --- one model -------------------------------------------------------------------------------------------------------


def _level(facts: Sequence[ModelNumbers]) -> str:
    """Return the number of the only model, next to guessing, and its number by the other method."""
    model = facts[0]
    if model.headline.value is None:
        return (
            f"{model.name} has no number over all {model.benchmarks} benchmarks: {model.no_mean} have no common "
            "scale; the table has a number for each benchmark."
        )
    value = value_text(model.headline, model.unit)
    if model.counts_replies:
        opening = f"{model.name} answers {value} of the questions correctly"
    elif model.metric == HEADLINE:
        opening = f"{model.name} scores {value}"
    else:
        opening = f"{model.name} scores {value} in {metric_title(model.metric)}"

    interval = _interval(model.headline, model.unit)
    if interval != NO_INTERVAL:
        interval = f"95% interval {interval}"
    over = ""
    if model.benchmarks > 1 and model.over == "questions":
        over = f", over all questions of {model.benchmarks} benchmarks"
    elif model.benchmarks > 1:
        over = f" on average over {model.benchmarks} benchmarks"
        return f"{opening}{over} ({interval}){_against_guessing(model)}.{_by_other_methods(facts)}"
    return f"{opening} ({interval}){over}{_against_guessing(model)}.{_by_other_methods(facts)}"


def _by_other_methods(facts: Sequence[ModelNumbers]) -> str:
    """Return the numbers of the first model by other methods, each with the benchmarks that it is of."""
    model, *others = facts
    words = ""
    for other in others:
        if other.name != model.name or other.headline.value is None:
            continue
        value = value_text(other.headline, other.unit)
        scope = ""
        if other.benchmarks != model.benchmarks:
            scope = f" on {other.benchmarks} of the {model.benchmarks} benchmarks"
        words += f" By {other.method}{scope}: {value} ({_interval(other.headline, other.unit)})."
    return words


def _against_guessing(model: ModelNumbers) -> str:
    low, high, chance = model.headline.low, model.headline.high, model.chance
    if low is None or high is None or chance is None:
        return ""
    if low <= chance <= high:
        return f", not significantly different from chance ({percent(chance)})"
    return f", significantly {'above' if low > chance else 'below'} chance ({percent(chance)})"


def _own_dimensions(model: ModelNumbers) -> str:
    """Return the highest and the lowest dimension, and those in which the model may be guessing."""
    count = len(model.dimensions)
    if count < 2:
        return ""
    doubtful = _not_above(model)
    if doubtful:
        guessing = f"Its accuracy in {_some_of(doubtful, count)} is not significantly above chance."
    else:
        guessing = (
            f"Its accuracy is significantly above chance in all {count} dimensions{model.scope}."
        )

    low, *_, high = sorted(model.dimensions, key=lambda dimension: dimension.estimate.value or 0.0)
    if low.estimate.value == high.estimate.value:
        return guessing
    ends = [
        f"{dimension.title} at {value_text(dimension.estimate)} ({_interval(dimension.estimate)})"
        for dimension in (low, high)
    ]
    return f"Its {count} dimensions{model.scope} range from {' to '.join(ends)}. {guessing}"


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


def _standings(
    differences: Differences, models: Sequence[ModelNumbers], family: str
) -> Iterator[str]:
    """Yield a sentence for each method: which model is better than which, and which differ too little to say."""
    for method, of_method in differences.items():
        opening = f"By {method}, " if len(differences) > 1 else ""
        overall = [difference for difference in of_method if difference.scope == "overall"]
        single = [difference for difference in of_method if difference.scope == "benchmark"]
        if overall:
            scope = _common_scope(overall, single, models)
            yield f"{opening}{_standing(overall, family, scope)}."
        elif single:
            yield f"{opening}{_standing_by_benchmark(single, models)}."


def _common_scope(
    overall: Sequence[PairedDifference],
    single: Sequence[PairedDifference],
    models: Sequence[ModelNumbers],
) -> str:
    """Return what an overall difference is a mean of, and of how many of the benchmarks that the models have."""
    benchmarks = {difference.benchmark for difference in single if _has_value(difference)}
    every = max((model.benchmarks for model in models), default=0)
    if benchmarks and len(benchmarks) < every:
        return f" on the {len(benchmarks)} of {every} benchmarks that are compared"
    return f" on average over {len(benchmarks)} benchmarks" if len(benchmarks) > 1 else ""


def _has_value(difference: PairedDifference) -> bool:
    return difference.difference.value is not None


def _standing(differences: Sequence[PairedDifference], family: str, scope: str = "") -> str:
    better, worse, level = _parted(differences)
    first = differences[0].first
    others = len(differences)
    nearest = _nearest(differences)
    clauses: list[str] = []
    if nearest and others == len(better) > 1:
        lead = _points(nearest, family, scope)
        clauses.append(
            f"{first} is the best of {others + 1} models, ahead of {nearest.second} by {lead}"
        )
    elif nearest:
        whom = nearest.second
        if len(better) > 1:
            whom = f"{len(better)} of the {others} other models, ahead of the nearest, {whom},"
        clauses.append(f"{first} is better than {whom} by {_points(nearest, family, scope)}")
    turning = [difference for difference in level if difference.may_turn]
    level = [difference for difference in level if not difference.may_turn]
    if level:
        bounds = f": {_bounds(level[0], family, scope)}" if others == 1 else ""
        who = "it" if clauses else first
        names = _names([difference.second for difference in level])
        clauses.append(f"{who} is not significantly different from {names}{bounds}")
    for difference in worse:
        lead = _points(difference, family, scope)
        clauses.append(f"{difference.second} is better than {first} by {lead}")
    if turning:
        names = _names([difference.second for difference in turning])
        clauses.append(
            f"there is no verdict between {first} and {names}, since unsure readings of their replies could turn the "
            f"difference ({TO_BE_SURE})"
        )
    return "; ".join(clauses)


def _standing_by_benchmark(
    differences: Sequence[PairedDifference], models: Sequence[ModelNumbers]
) -> str:
    """Compare models whose benchmarks have no common scale: on how many each is better than the first."""
    by_pair: dict[str, list[PairedDifference]] = defaultdict(list)
    for difference in differences:
        by_pair[difference.second].append(difference)
    first = differences[0].first
    scales = next((model.no_mean for model in models if model.no_mean), "their metrics")
    clauses: list[str] = []
    for second, of_pair in by_pair.items():
        better, worse, _ = _parted(of_pair)
        clauses.append(
            f"{first} is better than {second} on {len(better)} of {len(of_pair)} benchmarks and worse on {len(worse)}"
        )
    return (
        f"{scales} have no common scale, so models are compared by benchmark: {'; '.join(clauses)}"
    )


def _bounds(difference: PairedDifference, family: str, scope: str) -> str:
    if difference.difference.low is None:
        return f"with {difference.difference.n:,} questions in common, there are too few pictures for an interval"
    return f"the difference lies between {_points(difference, family, scope, ' and ')}"


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
    """Split differences: the first run is shown to be better, shown to be worse, or neither is shown."""
    better: list[PairedDifference] = []
    worse: list[PairedDifference] = []
    undecided: list[PairedDifference] = []
    for difference in differences:
        if not is_shown(difference):
            undecided.append(difference)
        elif gain(difference) > 0:
            better.append(difference)
        else:
            worse.append(difference)
    return better, worse, undecided


def _above_guessing(models: Sequence[ModelNumbers]) -> str:
    """Return which models are not shown to be above guessing, and in which dimensions."""
    models = [model for model in models if model.dimensions]
    if not models:
        return ""
    scope = models[0].scope
    doubtful = [(model, titles) for model in models if (titles := _not_above(model))]
    if not doubtful:
        return f"All models are significantly above chance in every dimension{scope}."
    if len(doubtful) <= MOST_NAMES:
        clauses = [
            f"{model.name} in {_some_of(titles, len(model.dimensions))}"
            for model, titles in doubtful
        ]
        return f"Not significantly above chance{scope}: {', '.join(clauses)}."

    hardest = [
        dimension.title
        for dimension in models[0].dimensions
        if all(dimension.title in titles for _, titles in doubtful)
    ]
    place = f"in {_names(hardest)}" if hardest else f"in every dimension{scope}"
    if len(doubtful) == len(models):
        return f"None of the {len(models)} models is significantly above chance {place}."
    return f"{len(doubtful)} of {len(models)} models are not significantly above chance {place}."


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
    scope = models[0].scope if models else ""
    if open_runs := [
        m.name for m in models if m.circular and m.circular.value is None and m.circular.unanswered
    ]:
        return (
            f"Too few questions were put to {_names(open_runs)} in every order of the options to say how many answers "
            "stay right; accuracy is of the first order alone."
        )
    if words := _listed([(model.name, model.circular) for model in models], SHARE):
        return f"Answers that stay right in every order of the options{scope}: {words}."
    if words := _listed([(model.name, model.instability) for model in models], "nats"):
        return f"Instability across wordings and orders of the options{scope} (in nats, 0 is stable): {words}."
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
        words.append(f"unparsed replies, scored as wrong: {unparsed}")
    unsure = [(model.name, model.unsure) for model in models if _is_hard_to_read(model)]
    if unsure:
        words.append(
            f"replies read with a probability below 90%: {_listed(unsure, SHARE)} ({TO_BE_SURE})"
        )
    if failed := [model for model in models if model.errors]:
        count = sum(model.errors for model in failed)
        words.append(
            f"{count:,} questions got no answer from {_names([model.name for model in failed])}"
        )
    counted = [f"{capitalised('; '.join(words))}."] if words else []
    if any(model.is_partial for model in models):
        counted.append("The results cover only part of the benchmarks or questions.")
    return " ".join(counted)


def _is_hard_to_read(model: ModelNumbers) -> bool:
    return (
        model.unsure is not None
        and model.unsure.value is not None
        and model.unsure.value > MOST_UNSURE
    )


# --- words -----------------------------------------------------------------------------------------------------------

MOST_UNSURE = 0.02
"""The share of unsure readings up to which a number is given without a word about them."""
TO_BE_SURE = "score with --judge, or label some of them: snellen audit"


def _interval(estimate: Estimate, unit: str = SHARE) -> str:
    if estimate.low is None or estimate.high is None:
        return NO_INTERVAL
    ends = (
        value_text(Estimate(end, None, None, None, 0), unit)
        for end in (estimate.low, estimate.high)
    )
    return " to ".join(ends).replace("%", "", 1)


def _points(
    difference: PairedDifference, family: str, scope: str = "", between: str = " to "
) -> str:
    """Return `4.1 to 9.0 points of accuracy (95% interval, paired on 360 questions)`.

    If the difference is one of several, the interval is corrected for that family, as whether it is shown is.
    """
    is_alone = corrected_estimate(difference) == difference.difference
    kind = "95% interval" if is_alone else f"95% interval, corrected for {family}"
    of_what = ""
    is_of_one_metric = difference.metric not in (SHARE, QUESTION_SCORE, PUBLISHED_MEAN)
    if difference.unit == SHARE and is_of_one_metric:
        of_what = f" of {metric_title(difference.metric)}"
    count = f"{difference.difference.n:,} questions"
    return f"{_ends_of(difference, between)}{of_what}{scope} ({kind}, paired on {count})"


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
    """The numbers of one model by one method that sentences are made of."""

    name: str
    method: Method
    metric: str
    """The row of the only benchmark, or of all benchmarks; `headline` for a mean of several rows."""
    headline: Estimate
    """The number of the run."""
    unit: str = SHARE
    chance: float | None = None
    """What guessing scores in it."""
    benchmarks: int = 1
    """Benchmarks in it; if it has no value, those with a number of their own."""
    dimensions: tuple[DimensionShare, ...] = ()
    circular: Estimate | None = None
    instability: Estimate | None = None
    unparsed: Estimate | None = None
    unsure: Estimate | None = None
    """The share of replies that are read with less than 90%."""
    errors: int = 0
    is_partial: bool = False
    better: Better = "higher"
    by_benchmark: tuple[tuple[str, Estimate], ...] = ()
    """The headline of each benchmark, if all are shares of which a higher one is better."""
    over: str = "benchmarks"
    """What has equal weight in the headline."""
    counts_replies: bool = False
    """Whether the headline is the share of all questions that were answered correctly."""
    scope: str = ""
    """Which benchmarks numbers of options are of: ` on the 12 of 14 benchmarks with options`; empty for all."""
    no_mean: str = ""
    """Names of the metrics that have no common scale, if the run has no number for that reason."""


def compared_views(views: Sequence[RunView], *, of_instruments: bool) -> list[RunView]:
    """The runs that sentences are about: models, unless all are Snellen's own instruments, by one convention."""
    models = [
        view for view in views if of_instruments or not is_instrument(view.run.manifest)
    ] or list(views)
    # Published numbers have scales of their own, which sentences do not know.
    return [view for view in models if view.run.convention == "standard"]


def model_numbers(view: RunView) -> Iterator[ModelNumbers]:
    """Yield the numbers of a run by each method that gave any benchmark a value."""
    for line in view.method_rows:
        number = line.headline
        if number is None or not line.headlines:
            continue
        metrics = list(dict.fromkeys(row.metric for row in line.headlines.values()))
        circular, instability, unparsed, unsure = _of_options(line)
        yield ModelNumbers(
            view.label,
            line.method,
            metrics[0] if len(metrics) == 1 else HEADLINE,
            number.estimate,
            number.unit,
            line.chance,
            len(line.headlines),
            tuple(_dimension_shares(line)),
            circular,
            instability,
            unparsed,
            unsure,
            number.estimate.errors + number.estimate.absent,
            bool(number.partial),
            number.better,
            _benchmark_shares(line),
            number.over,
            _counts_replies(line),
            _option_scope(view),
            number.detail if number.estimate.value is None else "",
        )


def _counts_replies(line: ModelMethodRow) -> bool:
    """Return whether the number of a run is the share of its questions with a correct reply.

    That holds for one reply to each question, each of which is correct or not, if all questions have equal weight.
    """
    rows = list(line.headlines.values())
    if len(rows) > 1 and (line.headline is None or line.headline.over != "questions"):
        return False
    for row in rows:
        scored = line.view.benchmark(row.benchmark)
        if scored is None or row.unit != SHARE or row.metric not in COUNTED_METRICS:
            return False
        declaration = labelled_declaration(row.protocol)
        if declaration.n_unbiased != 1:
            return False
        scores = scored.scores_of(row.metric, row.protocol)
        if not all(score.value in (0.0, 1.0, None) for score in scores):
            return False
    return True


def _option_scope(view: RunView) -> str:
    """Return ` on the 12 of 14 benchmarks with options`, or an empty text if all benchmarks have options."""
    every = len(view.run.benchmarks)
    with_options = len(list(each_choice_benchmark(view)))
    if with_options == every:
        return ""
    return f" on the {with_options} of {every} benchmarks with options"


def _benchmark_shares(line: ModelMethodRow) -> tuple[tuple[str, Estimate], ...]:
    """Return the headline of each benchmark, or nothing if some are not shares of which a higher one is better."""
    rows = line.headlines.values()
    if any(row.unit != SHARE or row.better != "higher" for row in rows):
        return ()
    return tuple((row.benchmark, row.estimate) for row in rows)


def _of_options(line: ModelMethodRow) -> tuple[Estimate | None, ...]:
    """Return circular accuracy, instability, and the shares of unparsed and of unsure replies, as tables have them."""
    circular = line.overall("circular_accuracy")
    others = [line.overall(name) for name in ("instability", "unparsed_rate", "unsure_rate")]
    return (
        circular.estimate if circular and circular.unit == SHARE else None,
        *(other.estimate if other else None for other in others),
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
    """Return the differences of the leading model, or of the baseline, from each other one, by method.

    Raises DataError for different builds of a benchmark.
    """
    return {
        method: _from_first(compared, of_method, method)
        for method in METHODS
        if len(of_method := [model for model in facts if model.method == method]) > 1
    }


def _from_first(
    compared: ComparedRuns, models: Sequence[ModelNumbers], method: Method
) -> list[PairedDifference]:
    """Return differences of the first model from each other one: overall, by benchmark and, of two, by dimension."""
    best = max(models, key=_merit)
    first = next((model for model in models if model.name == compared.headline.baseline), best).name
    others = [model.name for model in models if model.name != first]
    differences: list[PairedDifference] = []
    for other in others:
        of_pair = list(differences_of(compared.headline, first, other, method, ""))
        overall = overall_of(of_pair)
        if overall is not None:
            differences.append(overall)
        differences += [
            difference
            for difference in of_pair
            if difference.scope == "benchmark"
            or (difference.scope == "dimension" and len(others) == 1)
        ]
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
