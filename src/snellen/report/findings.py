"""The sentences at the head of a report: what the runs found. Each rests on an interval or a test.

A model is better than another if their paired difference on common questions is significant, by the p-value that the
tables of the report have: corrected for all pairs of runs or, if the user chose a baseline, for all pairs with it. A
model is above chance in a dimension if its interval is, corrected for all its dimensions.

The sentences of a single model are here, those of several in `snellen.report.lead_sentences`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from snellen.analysis.headline import HEADLINE, WORD_OVERLAP_METRIC
from snellen.analysis.paired.comparison import ComparedRuns, compare_runs
from snellen.analysis.paired.differences import PairedDifference
from snellen.analysis.paired.significance import SIGNIFICANCE_LEVEL
from snellen.analysis.quantiles import normal_quantile
from snellen.analysis.sequential import parts_of
from snellen.callers import for_caller
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE
from snellen.records import METHODS, Estimate
from snellen.report.lead_sentences import (
    Differences,
    dimension_lead,
    leading_differences,
    order_differences,
    order_sentence,
    smallest_lead,
    standings,
)
from snellen.report.model_numbers import (
    RECORDED_VERDICT,
    DimensionShare,
    ModelNumbers,
    model_numbers,
    runs_to_describe,
)
from snellen.report.number_text import capitalised, metric_title, percent_text, value_text
from snellen.report.paired_tables import describe_family
from snellen.report.reported_runs import ReportedRun, describe_average
from snellen.report.sentence_parts import (
    MAX_LISTED_NAMES,
    NO_INTERVAL,
    interval_range,
    name_list,
    ranked_values,
    review_advice,
    some_dimensions,
)
from snellen.scoring.scored_run import empty_reply_sentences, whole_text_sentences

UNSURE_WARNING_SHARE = 0.02
"""Share of unsure readings above which a sentence warns of them."""


def findings(
    reported_runs: Sequence[ReportedRun],
    compared: ComparedRuns | None = None,
    *,
    of_instruments: bool = False,
) -> list[str]:
    """Return the sentences at the top of a report: first what was found, then what to be careful about.

    Args:
        reported_runs: The runs. Instruments (reference baselines such as random guessing) are left out if there are models.
        compared: The comparison of the runs that were scored by the standard rules, if the page already has it. If
            None, the runs are compared here. If they cannot be compared, a sentence says why.
        of_instruments: Whether instruments are included next to models.
    """
    # An acuity test chooses its own questions, so its accuracy says nothing.
    adaptive_labels: list[str] = []
    ordinary_runs: list[ReportedRun] = []
    for reported_run in reported_runs:
        if reported_run.run.manifest.adaptive_rules:
            adaptive_labels.append(reported_run.label)
        else:
            ordinary_runs.append(reported_run)
    described = runs_to_describe(ordinary_runs, of_instruments=of_instruments)
    stopped_labels = [
        reported_run.label for reported_run in described if parts_of(reported_run.run)
    ]
    cautions = _run_cautions(ordinary_runs, described, stopped_labels, adaptive_labels)

    # A run that a rule stopped early covers random parts of benchmarks, and has intervals of its own.
    numbers: list[ModelNumbers] = []
    for reported_run in described:
        if reported_run.label not in stopped_labels:
            numbers += model_numbers(reported_run)

    differences: Differences = {}
    in_every_order: Sequence[PairedDifference] = ()
    has_several_models = len({model.name for model in numbers}) > 1
    try:
        if has_several_models:
            if not compared:
                standard_runs = [
                    reported_run.run
                    for reported_run in reported_runs
                    if reported_run.run.convention == "standard"
                ]
                comparison = compare_runs(standard_runs, resamples=0, with_flips=False)
                compared = ComparedRuns(standard_runs, comparison)
            differences = leading_differences(compared, numbers)
            nearest = smallest_lead(differences.get("generation", ()))
            if nearest is not None:
                in_every_order = order_differences(compared, nearest.first, nearest.second)
    except DataError as error:
        cautions.append(f"The runs are not compared: {error}.")
    family = describe_family(compared.headline) if compared else ""
    return [*sentences(numbers, differences, in_every_order, family), *cautions]


def _run_cautions(
    ordinary_runs: Sequence[ReportedRun],
    described: Sequence[ReportedRun],
    stopped_labels: Sequence[str],
    adaptive_labels: Sequence[str],
) -> list[str]:
    """Return sentences about runs as a whole: which are left out, incomplete, or stopped by a rule.

    Args:
        ordinary_runs: The runs that asked all questions, whatever the replies were.
        described: Those of them that the other sentences of the report are about.
        stopped_labels: Labels of the described runs that a rule stopped early.
        adaptive_labels: Labels of the runs that chose their own questions by earlier replies.
    """
    cautions: list[str] = []
    left_out_names = [
        reported_run.label
        for reported_run in ordinary_runs
        if reported_run not in described and reported_run.run.convention == "standard"
    ]
    if left_out_names:
        cautions.append(
            f"This summary leaves out {name_list(left_out_names)}: reference baselines, not models."
        )

    stopped_early = [
        reported_run.label
        for reported_run in described
        if reported_run.label in stopped_labels and _is_complete(reported_run)
    ]
    if stopped_early:
        cautions.append(
            f"A rule stopped {name_list(stopped_early)} early; the section “Stopped by a rule” has intervals that allow for that."
        )
    for reported_run in described:
        if reported_run.run.extent and not _is_complete(reported_run):
            cautions.append(
                f"The run of {reported_run.label} is incomplete: {reported_run.run.extent.text}."
            )
    for reported_run in described:
        for text in (
            *empty_reply_sentences(reported_run.run),
            *whole_text_sentences(reported_run.run),
        ):
            cautions.append(f"Of {reported_run.label}, {text}.")
    if adaptive_labels:
        cautions.append(
            f"The questions of {name_list(adaptive_labels)} were chosen adaptively to measure thresholds, so their accuracy "
            "has no meaning; see the acuity card."
        )
    return cautions


def _is_complete(reported_run: ReportedRun) -> bool:
    return reported_run.run.extent is None or reported_run.run.extent.is_whole


def sentences(
    numbers: Sequence[ModelNumbers],
    differences: Differences,
    in_every_order: Sequence[PairedDifference] = (),
    family: str = "all pairs",
) -> list[str]:
    """Return the sentences about some models.

    Args:
        numbers: The numbers of each model by each method.
        differences: The differences of the leader from each other model, by method.
        in_every_order: The differences of the two best models in circular accuracy and in circular drop, as
            `order_differences` returns them.
        family: The comparisons whose p-values are corrected together, as text: `all pairs`.
    """
    used_methods = {model.method for model in numbers}
    methods = [method for method in METHODS if method in used_methods]
    if not methods:
        return []
    models = [model for model in numbers if model.method == methods[0]]

    all_sentences: list[str] = []
    if any(model.metric == WORD_OVERLAP_METRIC for model in models):
        judging = for_caller(
            "--metric judged_correct --judge MODEL", "metrics='judged_correct' and judge=MODEL"
        )
        names = name_list([model.name for model in models if model.metric == WORD_OVERLAP_METRIC])
        all_sentences.append(
            f"Right answers are long texts, and only a judge can say which replies mean the same, so {names} has no score "
            f"yet: score with {judging}. ROUGE-L in the table counts the words in common, and is no share of right answers."
        )
    if len(models) == 1:
        if models[0].metric != WORD_OVERLAP_METRIC:
            all_sentences.append(_level(numbers))
        all_sentences.append(_dimension_range(models[0]))
    else:
        all_sentences.append(_contradictions(models))
        standing_sentences = list(standings(differences, models, family))
        all_sentences += standing_sentences[:1]
        lead = dimension_lead(differences.get(methods[0], ()))
        all_sentences.append(f"{lead} {_above_chance(models)}".strip())
        all_sentences.append(order_sentence(in_every_order))
        all_sentences += standing_sentences[1:]
    all_sentences.append(_lowest_benchmarks(models))
    all_sentences.append(_stability(models))
    all_sentences.append(_caution(models))
    return [sentence for sentence in all_sentences if sentence]


# --- one model -------------------------------------------------------------------------------------------------------


def _level(numbers: Sequence[ModelNumbers]) -> str:
    """Return the headline of the only model next to chance, and its headline by other methods.

    For example `A answers 62.5% of the questions correctly (95% interval 58.1 to 66.7%), significantly above chance
    (25.0%).`
    """
    model = numbers[0]
    if model.headline.value is None:
        return (
            f"{model.name} has no overall score for its {model.benchmarks} benchmarks, because "
            f"{model.unaveraged_metrics} have no common scale; the table has a score for each benchmark."
        )
    value = value_text(model.headline, model.unit)
    if model.counts_replies:
        opening = f"{model.name} answers {value} of the questions correctly"
        has_all_orders = model.circular is not None and model.circular.value is not None
        if has_all_orders and model.metric == "accuracy":
            opening += " in their first option order"
    elif model.metric == HEADLINE:
        opening = f"{model.name} scores {value}"
    elif model.metric == RECORDED_VERDICT:
        count = f"{model.headline.n:,}"
        opening = f"{model.name} scores {value} by the file's own verdicts on {count} replies, not recomputed"
    else:
        opening = f"{model.name} scores {value} in {metric_title(model.metric)}"

    if model.unit.startswith("edits per ") and model.headline.value > 1:
        what = model.unit.removeprefix("edits per ")
        opening += f", more errors than the right texts have {what}s"
    if model.share_in_file is not None:
        opening += (
            f", but {percent_text(model.share_in_file)} by the file's own verdicts; compare some replies with the "
            "correct answers"
        )
    interval = interval_range(model.headline, model.unit)
    if interval != NO_INTERVAL:
        interval = f"95% interval {interval}"
    if model.benchmarks == 1:
        level = f"{opening} ({interval})"
    elif model.over == "questions":
        level = f"{opening} ({interval}), over all questions of {model.benchmarks} benchmarks"
    else:
        level = f"{opening} {describe_average(model.benchmarks, model.over)} ({interval})"
    return f"{level}{_against_chance(model)}.{_by_other_methods(numbers)}"


def _contradictions(models: Sequence[ModelNumbers]) -> str:
    """Return a warning that names the models whose numbers are far from the verdicts in their imported files.

    Returns:
        The warning; empty if there is no such model.
    """
    shares: list[str] = []
    for model in models:
        if model.share_in_file is not None:
            here = value_text(model.headline, model.unit)
            shares.append(f"{model.name} {percent_text(model.share_in_file)} (here {here})")
    if not shares:
        return ""
    return (
        f"The verdicts in the files give other numbers: {', '.join(shares)}. Compare some replies with the correct "
        "answers."
    )


def _against_chance(model: ModelNumbers) -> str:
    """Return `, significantly above chance (25.0%)`, or another end of a sentence; empty without a chance level."""
    low = model.headline.low
    high = model.headline.high
    chance = model.chance
    if low is None or high is None or chance is None:
        return ""
    if low > chance:
        return f", significantly above chance ({percent_text(chance)})"
    if high < chance:
        return f", significantly below chance ({percent_text(chance)})"
    return f", not significantly different from chance ({percent_text(chance)})"


def _by_other_methods(numbers: Sequence[ModelNumbers]) -> str:
    """Return a sentence for each other method by which the first model was evaluated, with its headline number.

    The methods are generation and likelihood. For example ` Under likelihood: 55.0% (50.3 to 59.7%).` If the other
    method covers fewer benchmarks, the sentence says how many.

    Args:
        numbers: The numbers of all models by each method. The text before has described the first of them.

    Returns:
        The sentences, each with a leading space; empty if the model has no number by another method.
    """
    first, *others = numbers
    text = ""
    for other in others:
        is_same_model = other.name == first.name
        if not is_same_model or other.headline.value is None:
            continue
        value = value_text(other.headline, other.unit)
        interval = interval_range(other.headline, other.unit)
        scope = ""
        if other.benchmarks != first.benchmarks:
            scope = f" on {other.benchmarks} of the {first.benchmarks} benchmarks"
        text += f" Under {other.method}{scope}: {value} ({interval})."
    return text


def _dimension_range(model: ModelNumbers) -> str:
    """Return the highest and the lowest dimension of a model, and those not above chance; empty for fewer than two."""
    count = len(model.dimensions)
    if count < 2:
        return ""
    doubtful = _not_above_chance(model)
    if doubtful:
        chance = (
            f"Its accuracy in {some_dimensions(doubtful, count)} is not significantly above chance."
        )
    else:
        chance = (
            f"Its accuracy is significantly above chance in all {count} dimensions{model.scope}."
        )

    ordered = sorted(model.dimensions, key=lambda dimension: dimension.estimate.value or 0.0)
    lowest = ordered[0]
    highest = ordered[-1]
    if lowest.estimate.value == highest.estimate.value:
        return chance
    ends = f"{_dimension_text(lowest)} to {_dimension_text(highest)}"
    return f"Its {count} dimensions{model.scope} range from {ends}. {chance}"


def _dimension_text(dimension: DimensionShare) -> str:
    """Return `spatial understanding at 62.5% (58.1 to 66.7%)`."""
    value = value_text(dimension.estimate)
    return f"{dimension.title} at {value} ({interval_range(dimension.estimate)})"


# --- dimensions and benchmarks ---------------------------------------------------------------------------------------


def _not_above_chance(model: ModelNumbers) -> list[str]:
    """Return the dimensions in which a model is not significantly above chance, corrected for all its dimensions."""
    quantile = normal_quantile(SIGNIFICANCE_LEVEL / max(len(model.dimensions), 1))
    titles: list[str] = []
    for dimension in model.dimensions:
        estimate = dimension.estimate
        corrected_low = (estimate.value or 0.0) - quantile * (estimate.stderr or 0.0)
        is_above = (
            estimate.low is not None
            and estimate.low > dimension.chance
            and corrected_low > dimension.chance
        )
        if not is_above:
            titles.append(dimension.title)
    return titles


def _above_chance(models: Sequence[ModelNumbers]) -> str:
    """Return a sentence that names the models whose accuracy is not significantly above chance, with the dimensions.

    If many models are concerned, they are counted, and only the dimensions that concern all of them are named.

    Args:
        models: The numbers of the models. Those without ability dimensions are ignored.

    Returns:
        The sentence; empty if no model has an ability dimension.
    """
    models = [model for model in models if model.dimensions]
    if not models:
        return ""
    scope = models[0].scope
    at_chance: list[tuple[ModelNumbers, list[str]]] = []
    for model in models:
        titles = _not_above_chance(model)
        if titles:
            at_chance.append((model, titles))
    if not at_chance:
        return f"All models are significantly above chance in every dimension{scope}."
    if len(at_chance) <= MAX_LISTED_NAMES:
        clauses: list[str] = []
        for model, titles in at_chance:
            dimensions = some_dimensions(titles, len(model.dimensions))
            clauses.append(f"{model.name} in {dimensions}")
        return f"Not significantly above chance{scope}: {', '.join(clauses)}."

    shared_titles: list[str] = []
    for dimension in models[0].dimensions:
        if all(dimension.title in titles for _, titles in at_chance):
            shared_titles.append(dimension.title)
    where = f"in {name_list(shared_titles)}" if shared_titles else f"in every dimension{scope}"
    if len(at_chance) == len(models):
        return f"None of the {len(models)} models is significantly above chance {where}."
    return f"{len(at_chance)} of {len(models)} models are not significantly above chance {where}."


def _lowest_benchmarks(models: Sequence[ModelNumbers]) -> str:
    """Return a sentence that names the benchmark on which each model is significantly worst.

    Returns:
        The sentence; empty if no benchmark stands out, or if there are many models.
    """
    if len(models) > MAX_LISTED_NAMES:
        return ""
    clauses: list[str] = []
    for model in models:
        lowest = _significantly_lowest(model.by_benchmark)
        if not lowest:
            continue
        texts = [f"{name} ({value_text(share)}, {interval_range(share)})" for name, share in lowest]
        clauses.append(f"{model.name} is worst in {' or '.join(texts)}")
    if not clauses:
        return ""
    return f"{'; '.join(clauses)}: significantly below every other benchmark."


def _significantly_lowest(
    shares: Sequence[tuple[str, Estimate]],
) -> list[tuple[str, Estimate]]:
    """Return the shares of a model that are clearly its lowest, for a sentence that names its weak points.

    These are the lowest share and all shares that are not significantly above it. Intervals are corrected for comparing
    all pairs of shares.

    Args:
        shares: Pairs of a name (a benchmark or dimension) and a share.

    Returns:
        The pairs, the lowest first. The list is empty if there are fewer than three shares, or if so many are tied with
        the lowest that it does not stand out.
    """
    n_pairs = len(shares) * (len(shares) - 1) // 2
    if n_pairs < 3:
        return []
    lowest, *others = sorted(shares, key=lambda named_share: named_share[1].value or 0.0)
    _, lowest_share = lowest
    widening = normal_quantile(SIGNIFICANCE_LEVEL / n_pairs) / normal_quantile()

    tied: list[tuple[str, Estimate]] = []
    for name, share in others:
        if not _is_above(share, lowest_share, widening):
            tied.append((name, share))
    if len(tied) >= min(MAX_LISTED_NAMES, len(others)):
        return []
    return [lowest, *tied]


def _is_above(share: Estimate, compared_to: Estimate, widening: float) -> bool:
    """Return whether one share is significantly above another.

    The interval of the difference is computed from the intervals of both shares (Newcombe 1998, method 10).

    Args:
        share: A share with its 95% interval.
        compared_to: The share to which it is compared.
        widening: Factor by which the margin of error is multiplied, as a correction for several comparisons.
    """
    if share.value is None or share.low is None:
        return False
    if compared_to.value is None or compared_to.high is None:
        return False
    margin_below = share.value - share.low
    margin_above_other = compared_to.high - compared_to.value
    margin_of_difference = math.hypot(margin_above_other, margin_below)
    difference = share.value - compared_to.value
    return difference > widening * margin_of_difference


# --- stability and cautions ------------------------------------------------------------------------------------------


def _stability(models: Sequence[ModelNumbers]) -> str:
    """Return the instability of models, or which of them lack circular accuracy; empty without either.

    Circular accuracy itself is a column of the table beside the sentences, so that its number is shown once.
    """
    scope = models[0].scope if models else ""
    incomplete: list[str] = []
    for model in models:
        if model.circular and model.circular.value is None and model.circular.unanswered:
            incomplete.append(model.name)
    if incomplete:
        return (
            f"{name_list(incomplete)} saw too few questions in every option order to measure circular accuracy; "
            "accuracy is that of the first order."
        )
    if any(model.circular and model.circular.value is not None for model in models):
        return ""
    instability = ranked_values([(model.name, model.instability) for model in models], "nats")
    if instability:
        return f"Instability across wordings and option orders{scope} (in nats; 0 is stable): {instability}."
    return ""


def _caution(models: Sequence[ModelNumbers]) -> str:
    """Return sentences that qualify the numbers of models.

    They name the shares of replies that could not be read or are uncertain, and how many questions are missing.
    """
    unparsed: list[tuple[str, Estimate]] = []
    unsure: list[tuple[str, Estimate]] = []
    for model in models:
        if model.unparsed and model.unparsed.value:
            unparsed.append((model.name, model.unparsed))
        if model.unsure and (model.unsure.value or 0.0) > UNSURE_WARNING_SHARE:
            unsure.append((model.name, model.unsure))

    clauses: list[str] = []
    if unparsed:
        clauses.append(f"unparsed replies, scored as wrong: {ranked_values(unparsed, SHARE)}")
    if unsure:
        clauses.append(
            f"replies read with a confidence below 90%: {ranked_values(unsure, SHARE)} ({review_advice()})"
        )
    failed = [model for model in models if model.errors]
    if failed:
        n_lost = sum(model.errors for model in failed)
        names = name_list([model.name for model in failed])
        noun = "question" if n_lost == 1 else "questions"
        clauses.append(f"{n_lost:,} {noun} received no reply from {names}")

    cautions: list[str] = []
    if clauses:
        cautions.append(f"{capitalised('; '.join(clauses))}.")
    if any(model.is_partial for model in models):
        cautions.append("The results cover only part of the benchmarks or questions.")
    return " ".join(cautions)
