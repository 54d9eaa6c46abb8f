"""A gate for pipelines: is a candidate worse than its baseline by more than a margin?

Both runs answered the same questions, so a difference d (candidate minus baseline, oriented so that more is better) is
taken question by question. Two one-sided tests at the level alpha share the boundary at minus the margin m:

    pass                  d > -m is shown: the lower end of the one-sided interval is above -m
    fail                  d < -m is shown: the upper end is below -m
    not enough evidence   neither is shown

So if a candidate is truly worse by m or more, it passes with a probability of at most alpha (a miss). If it is truly
less than m worse, it fails with a probability of at most alpha (a false alarm). Of several rules a release passes if it
passes all, which needs no correction (an intersection-union test; Berger 1982), and fails if one of them fails, so that
the tests of failing are corrected by Holm (1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.headline import OVERALL
from snellen.analysis.paired.comparison import common_measures, run_measures
from snellen.analysis.paired.differences import Paired, mean_of_pairs, pair
from snellen.analysis.paired.significance import POWER, holm
from snellen.analysis.quantiles import normal_quantile
from snellen.analysis.subset import check_same_builds
from snellen.callers import for_caller
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE, declared_row, row_called
from snellen.records import METHODS, Better, Estimate
from snellen.scoring.scored_run import ScoredRun, run_labels

GateVerdict = Literal["pass", "fail", "not enough evidence"]
ALPHA = 0.05
MAX_MISSING_SHARE = 0.05
"""The share of the questions that may lack a value in the candidate alone: it could be those it would fail."""
MAX_TIMES_AS_MANY = 100
"""More times the questions that there are is no useful advice."""


class GateRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of a release gate: in which number a candidate must not be worse than its baseline, and by how much.

    Examples:
        >>> sn.GateRule(worse="2pt", on="modern/docvqa:anls").on
        'modern/docvqa:anls'
    """

    worse: str
    """The margin: points of a share (`1pt`), or a number in the unit of the metric."""
    on: str = ""
    """`BENCHMARK`, for its headline, or `BENCHMARK:METRIC`; empty for the headline of the run."""


class GateOutcome(Struct, frozen=True):
    """What a rule of a release gate found: whether the candidate passes it, and the numbers behind that."""

    on: str
    """The benchmark, or `*`, and the metric."""
    verdict: GateVerdict
    margin: float
    candidate: float | None
    baseline: float | None
    difference: Estimate
    """Candidate minus baseline, with a two-sided interval of the level 1 - 2 alpha."""
    p_pass: float
    """Of the hypothesis that the candidate is worse by the margin or more."""
    p_fail: float
    """Of the hypothesis that it is not, corrected for the number of rules."""
    unit: str
    better: Better
    more: int | None
    """About how many more questions would decide it, if the difference is what was observed; None if it is decided, or
    if no useful number would."""
    missing: int
    """Questions that have a value in the baseline alone."""
    detail: str = ""


class GateResult(Struct, frozen=True):
    """The verdict over a release."""

    candidate: str
    baseline: str
    alpha: float
    verdict: GateVerdict
    outcomes: tuple[GateOutcome, ...]

    @property
    def exit_code(self) -> int:
        """0 if it passes, 1 if it fails, 2 if there is not enough evidence."""
        return {"pass": 0, "fail": 1, "not enough evidence": 2}[self.verdict]


class GatePlan(Struct, frozen=True):
    """What a rule of a release gate can detect with as many questions as two existing runs have (see `plan_gate`)."""

    on: str
    questions: int
    margin: float
    unit: str
    passes_equal: float
    """The probability that a candidate which is as good as the baseline passes."""
    detectable: float
    """The smallest drop that makes a candidate fail in four of five cases."""
    needed: int
    """The number of questions with which an equally good candidate passes in four of five cases."""


class RuleData(Struct, frozen=True):
    """The paired difference that a rule is about, oriented so that a higher value is better."""

    on: str
    margin: float
    estimate: Estimate
    candidate: float | None
    baseline: float | None
    unit: str
    better: Better
    missing: int


def read_margin(text: str, unit: str) -> float:
    """Return a margin in the unit of a metric: `1pt` is 0.01 of a share. Raises DataError."""
    words = text.strip().casefold()
    for suffix in ("points", "point", "pts", "pt"):
        if words.endswith(suffix):
            number = words.removesuffix(suffix).strip()
            if not unit.startswith(SHARE):
                raise DataError(
                    f"worse {text!r}: points apply to shares, but this metric is in {unit or 'no unit'}; give a "
                    "number"
                )
            return _parse_positive(number, text) / 100
    if unit.startswith(SHARE):
        raise DataError(f"worse {text!r}: give percentage points of a share, such as 1pt")
    return _parse_positive(words, text)


def _parse_positive(number: str, text: str) -> float:
    """Return a number above 0 from its text.

    Args:
        number: The text of the number.
        text: What the user wrote, for the error message.

    Raises:
        DataError: The text is not a finite number above 0.
    """
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not value > 0 or math.isinf(value):
        raise DataError(f"worse {text!r} is not a margin above 0, such as 1pt")
    return value


def check_gate(
    candidate: ScoredRun, baseline: ScoredRun, rules: Sequence[GateRule], alpha: float = ALPHA
) -> GateResult:
    """Decide whether a candidate model is worse than its baseline by more than is acceptable.

    Args:
        candidate: The run of the model that is to replace the baseline, one of `Results.runs`.
        baseline: The run that it is compared with. Both answered the same questions.
        rules: What must not be worse, and by how much.
        alpha: The probability of a false alarm, and of a miss.

    Returns:
        The verdict, the exit code of `snellen compare --fail-if-worse`, and what each rule found.

    Raises:
        DataError: The runs used different builds of a benchmark, or a rule names a number that one of them lacks.

    Examples:
        >>> models = ["snellen:oracle", "snellen:uniform"]
        >>> results = sn.evaluate(models, "eyechart/colour", limit=40, report=False)
        >>> candidate, baseline = results.runs
        >>> sn.check_gate(candidate, baseline, [sn.GateRule(worse="1pt")]).verdict
        'pass'
    """
    candidate_label, baseline_label = run_labels([candidate, baseline])
    measured = [rule_data(candidate, baseline, rule) for rule in rules]
    return judge_release(candidate_label, baseline_label, measured, alpha)


def judge_release(
    candidate: str, baseline: str, data: Sequence[RuleData], alpha: float = ALPHA
) -> GateResult:
    """Decide whether a candidate may replace its baseline, given the measured difference for each rule.

    The candidate fails if it fails any rule. It passes only if it passes all of them.

    Args:
        candidate: Label of the candidate's run.
        baseline: Label of the baseline's run.
        data: For each rule, the difference and the margin by which the candidate may be worse.
        alpha: The probability of a false alarm, and of a miss.
    """
    # A failure of any rule fails the release, so the p-values of failures are corrected for the number of rules.
    p_fails = holm([_one_sided_p(rule_data, above=False) for rule_data in data])
    outcomes: list[GateOutcome] = []
    for rule_data, p_fail in zip(data, p_fails, strict=True):
        outcomes.append(_decide_rule(rule_data, p_fail, alpha))

    verdicts = {outcome.verdict for outcome in outcomes}
    verdict: GateVerdict = "pass"
    if "fail" in verdicts:
        verdict = "fail"
    elif "not enough evidence" in verdicts:
        verdict = "not enough evidence"
    return GateResult(
        candidate=candidate,
        baseline=baseline,
        alpha=alpha,
        verdict=verdict,
        outcomes=tuple(outcomes),
    )


def _decide_rule(data: RuleData, p_fail: float, alpha: float) -> GateOutcome:
    """Decide a rule of a release gate: pass, fail, or not enough evidence.

    The rule fails if `p_fail` is at most alpha. It passes if the p-value of the opposite claim is at most alpha, unless
    more than `MAX_MISSING_SHARE` of the questions have no value in the candidate. An undecided rule says how many
    more questions would decide it, or why that is not known.

    Args:
        data: The difference and its margin.
        p_fail: P value of the claim that the candidate is worse by more than the margin, corrected for the number of
            rules.
        alpha: Error rate that the rule may have.
    """
    p_pass = _one_sided_p(data, above=True)
    questions = data.estimate.n + data.missing
    verdict: GateVerdict = "not enough evidence"
    detail = ""
    if data.estimate.low is None:
        detail = "too few images for an interval"
    elif p_fail <= alpha:
        verdict = "fail"
    elif data.missing > MAX_MISSING_SHARE * questions:
        detail = f"{data.missing:,} of {questions:,} questions have no value in the candidate"
    elif p_pass <= alpha:
        verdict = "pass"

    more: int | None = None
    if verdict == "not enough evidence" and not detail:
        more = _more_questions(data, alpha)
        if more is None:
            detail = "the difference is too close to the margin"
    shown = _with_gate_interval(data.estimate, alpha)
    if data.better == "lower":
        shown = replace(
            shown,
            value=_negated(shown.value),
            low=_negated(shown.high),
            high=_negated(shown.low),
        )
    return GateOutcome(
        on=data.on,
        verdict=verdict,
        margin=data.margin,
        candidate=data.candidate,
        baseline=data.baseline,
        difference=shown,
        p_pass=p_pass,
        p_fail=p_fail,
        unit=data.unit,
        better=data.better,
        more=more,
        missing=data.missing,
        detail=detail,
    )


def _negated(value: float | None) -> float | None:
    return None if value is None else 0.0 - value


def _with_gate_interval(estimate: Estimate, alpha: float) -> Estimate:
    """Replace the 95% interval of an estimate by one with the confidence level 1 - 2 alpha, with proportional margins."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    scale = normal_quantile(2 * alpha) / normal_quantile()
    return replace(
        estimate,
        low=estimate.value - scale * (estimate.value - estimate.low),
        high=estimate.value + scale * (estimate.high - estimate.value),
    )


def _one_sided_p(data: RuleData, *, above: bool) -> float:
    """Return the one-sided p-value for the claim that a difference is above, or below, minus its margin.

    Minus the margin is the boundary: the candidate may be worse than the baseline by the margin, but not by more. The
    standard error is taken from the 95% interval, on the side that faces the boundary: if its end is at the distance w
    from the value, the standard error is w / z (Altman and Bland 2011).

    Args:
        data: The difference, candidate minus baseline, with its interval and margin.
        above: Whether the claim is "above the boundary" (the candidate passes) or "below" (it fails).
    """
    value, low, high = data.estimate.value, data.estimate.low, data.estimate.high
    if value is None or low is None or high is None:
        return 1.0
    if above:
        distance = value + data.margin
        width = value - low
    else:
        distance = -data.margin - value
        width = high - value
    if distance <= 0:
        return 1.0
    if not width:
        return 0.0
    return NormalDist().cdf(-normal_quantile() * distance / width)


def _more_questions(data: RuleData, alpha: float) -> int | None:
    """Estimate how many more questions would be needed to decide a rule.

    With that many, the rule would be decided with the probability `POWER`, if the true difference is the observed one.

    Returns:
        The number, at least 1; None if the difference is at the boundary or has no interval, or if more than `MAX_TIMES_AS_MANY`
        times as many questions were needed.
    """
    value = data.estimate.value
    low = data.estimate.low
    high = data.estimate.high
    if value is None or low is None or high is None:
        return None
    distance = value + data.margin
    width = value - low if distance > 0 else high - value
    if not distance or not width:
        return None
    quantiles = normal_quantile(2 * alpha) + NormalDist().inv_cdf(POWER)
    # The interval implies a standard error of width / z. The standard error is inversely proportional to the square root of the number of questions.
    times_as_many = (quantiles * width / normal_quantile() / distance) ** 2
    if times_as_many > MAX_TIMES_AS_MANY:
        return None
    return max(1, math.ceil((times_as_many - 1) * data.estimate.n))


# --- what a rule is about --------------------------------------------------------------------------------------------


def rule_data(candidate: ScoredRun, baseline: ScoredRun, rule: GateRule) -> RuleData:
    """Measure the difference between a candidate and its baseline that a rule is about.

    Args:
        candidate: The run that is to replace the baseline.
        baseline: The run that it is compared with.
        rule: What must not be worse, and by how much. `rule.on` names a benchmark, a metric or both, as
            `BENCHMARK:METRIC`. Without a benchmark the difference is the mean over all that both runs have.

    Raises:
        DataError: The runs do not both have such a value, or the benchmarks have no common scale.
    """
    check_same_builds([candidate, baseline])
    benchmark, _, metric = rule.on.partition(":")
    paired = _paired_benchmarks(candidate, baseline, row_called(metric) if metric else "")
    if benchmark not in ("", OVERALL):
        named = [each for each in paired if each.result.benchmark == benchmark]
        if not named:
            names = sorted({each.result.benchmark for each in paired})
            raise DataError(
                f"on {rule.on!r}: the runs do not both have this value; they share {', '.join(names) or 'nothing'}"
            )
        return _oriented_rule_data(rule, named[0])

    usable = [each for each in paired if each.result.difference.value is not None]
    if not usable:
        raise DataError(f"on {rule.on or 'the headline'!r}: these runs do not share such a value")
    if len(usable) == 1:
        return _oriented_rule_data(rule, usable[0])
    mean = mean_of_pairs(usable, OVERALL)
    if mean is None:
        names = ", ".join(sorted(each.result.benchmark for each in usable))
        raise DataError(
            f"the headlines of {names} have no common scale; set a margin for each with "
            + for_caller(
                "--on BENCHMARK --fail-if-worse MARGIN", "GateRule(on=BENCHMARK, worse=MARGIN)"
            )
        )
    return _oriented_rule_data(rule, mean)


def _paired_benchmarks(candidate: ScoredRun, baseline: ScoredRun, metric: str) -> list[Paired]:
    """Return the difference of two runs on each benchmark that both have.

    Only one method is used, generation or likelihood: the first in `METHODS` that both runs have.

    Args:
        candidate: A run.
        baseline: The run that it is compared with.
        metric: The metric; if empty, the preferred metric of each benchmark.
    """
    labels = ("candidate", "baseline")
    tables = [run_measures(candidate, metric), run_measures(baseline, metric)]
    common = list(common_measures(tables))
    for method in METHODS:
        paired: list[Paired] = []
        for first, second in common:
            if first.method == method:
                paired.append(pair(labels, first, second))
        if paired:
            return paired
    return []


def _oriented_rule_data(rule: GateRule, paired: Paired) -> RuleData:
    """Return what a rule of a release gate needs to know of a difference, turned so that a higher value is better."""
    result = paired.result
    row = declared_row(result.metric)
    unit = result.unit or row.unit
    estimate = paired.raw or result.difference
    if result.better == "lower":
        estimate = replace(
            estimate,
            value=_negated(estimate.value),
            low=_negated(estimate.high),
            high=_negated(estimate.low),
        )
    return RuleData(
        on=f"{result.benchmark}:{result.metric}",
        margin=read_margin(rule.worse, unit),
        estimate=estimate,
        candidate=result.first_value,
        baseline=result.second_value,
        unit=unit,
        better=result.better,
        missing=paired.missing_in_first,
    )


# --- before a release ------------------------------------------------------------------------------------------------


def plan_gate(
    first: ScoredRun, second: ScoredRun, rules: Sequence[GateRule], alpha: float = ALPHA
) -> list[GatePlan]:
    """Estimate what a release gate could detect with the questions of two existing runs.

    How much the two runs differ from question to question tells how precise a comparison will be.

    Args:
        first: A run.
        second: A run of another model on the same questions.
        rules: What a candidate must not be worse in, and by how much.
        alpha: The probability of a false alarm, and of a miss.

    Returns:
        For each rule: the probability that an equally good candidate passes, the difference that is detected with the
        probability `POWER`, and the number of questions at which an equally good candidate passes with that
        probability.
    """
    if not rules:
        return []
    plans: list[GatePlan] = []
    z_power = NormalDist().inv_cdf(POWER)
    z_pass = normal_quantile(2 * alpha)
    z_fail = NormalDist().inv_cdf(1 - alpha / len(rules))  # corrected for the number of rules
    for rule in rules:
        data = rule_data(first, second, rule)
        standard_error = data.estimate.stderr or 0.0
        low = data.estimate.low
        high = data.estimate.high
        if low is not None and high is not None:
            error_of_interval = (high - low) / 2 / normal_quantile()
            standard_error = max(standard_error, error_of_interval)
        probability_to_pass = 1.0
        if standard_error:
            probability_to_pass = NormalDist().cdf(data.margin / standard_error - z_pass)
        times_as_many = ((z_pass + z_power) * standard_error / data.margin) ** 2
        plan = GatePlan(
            on=data.on,
            questions=data.estimate.n,
            margin=data.margin,
            unit=data.unit,
            passes_equal=probability_to_pass,
            detectable=data.margin + (z_fail + z_power) * standard_error,
            needed=math.ceil(times_as_many * data.estimate.n),
        )
        plans.append(plan)
    return plans


def gate_rules(margin: str, on: Sequence[str]) -> list[GateRule]:
    """Return a rule with the margin for each number in `on`; if `on` is empty, one rule for the headline of the run."""
    return [GateRule(margin, name) for name in on or ("",)]
