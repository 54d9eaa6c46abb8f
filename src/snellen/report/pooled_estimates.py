"""Estimates pooled over the questions of all benchmarks: by tag, by option position, by prompt template.

A pool collects one value per question or presentation, each with the number of its group: the image (or dialogue) that
questions share, by which intervals are clustered. A `ModelMethodRow` has the numbers of one model by one method.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from snellen.analysis.choice_values import value_of
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.option_letters import order_shown
from snellen.records import Estimate, Prediction, Sample
from snellen.report.reported_runs import ModelMethodRow
from snellen.scoring.scored_run import ScoredBenchmark

MAX_TAG_VALUES = 12
"""A tag with more values than this identifies rather than groups."""
DIFFICULTY_LEVELS = ("easy", "medium", "hard")
OptionPosition = tuple[int, int]
"""Number of options shown, and position from 0."""


class PositionEstimates(Struct, frozen=True):
    """Estimates by position of an option."""

    choice_rate: dict[OptionPosition, Estimate]
    """How often the position is chosen."""
    right: dict[OptionPosition, Estimate]
    """How often the reply is correct if the correct option is there."""
    labels: dict[int, set[tuple[str, ...]]]
    """Labels of the options from the first position on, such as `("A", "B")`, by number of options."""
    protocols: frozenset[str]


def accuracy_by_tag(
    model_row: ModelMethodRow, most_values: int = MAX_TAG_VALUES
) -> dict[str, dict[str, Estimate]]:
    """Return the accuracy for each value of each tag, over the questions of all benchmarks that have the tag.

    Args:
        model_row: The results of a model by one method.
        most_values: The greatest number of values of a tag. Tags with more values, or with only one, are left out.

    Returns:
        Estimates by tag and value, such as `{"level": {"easy": ..., "hard": ...}}`.
    """
    pools: dict[str, dict[str, ValuePool]] = defaultdict(lambda: defaultdict(ValuePool))
    groups = GroupNumbers()
    for scored, protocol in _protocols_with_accuracy(model_row):
        for score in scored.scores_of("accuracy", protocol):
            if score.value is None:
                continue
            sample = scored.samples[score.sample_id]
            group = groups.number(scored, sample)
            for tag, value in sample.tags.items():
                # One value too many is kept, which shows that the tag has too many.
                if value in pools[tag] or len(pools[tag]) <= most_values:
                    pools[tag][value].add(score.value, group)

    accuracies: dict[str, dict[str, Estimate]] = {}
    for tag, pool_by_value in sorted(pools.items()):
        if 2 <= len(pool_by_value) <= most_values:
            values = sorted(pool_by_value, key=_tag_value_order)
            accuracies[tag] = {value: pool_by_value[value].estimate() for value in values}
    return accuracies


def accuracy_by_template(model_row: ModelMethodRow) -> dict[str, Estimate]:
    """Return the accuracy with each prompt template, such as `{"choice.1": ..., "choice.2": ...}`.

    The part before the last dot is the family of a template: `choice.1` and `choice.2` belong to `choice`. If a run
    used only one template of a family, the family is left out, because there is nothing to compare.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> from snellen.plugin_api import prepare_reported_runs
        >>> [reported_run] = prepare_reported_runs(results.runs, results.rows)
        >>> [model_row] = reported_run.method_rows
        >>> accuracy_by_template(model_row)  # one template was used
        {}
    """
    pools: dict[str, ValuePool] = defaultdict(ValuePool)
    groups = GroupNumbers()
    for scored, protocol in _protocols_with_accuracy(model_row):
        for prediction, sample in with_samples(scored):
            if prediction.protocol != protocol:
                continue
            value = value_of(scored, prediction)
            if value is not None:
                pools[prediction.variant.template].add(value, groups.number(scored, sample))

    templates_by_family: dict[str, list[str]] = defaultdict(list)
    for template in pools:
        family, _, _ = template.rpartition(".")
        templates_by_family[family].append(template)
    accuracies: dict[str, Estimate] = {}
    for templates in templates_by_family.values():
        if len(templates) > 1:
            for template in sorted(templates):
                accuracies[template] = pools[template].estimate()
    return accuracies


def by_option_position(model_row: ModelMethodRow) -> PositionEstimates:
    """Estimate how often a model chooses the first option, the second and so on, and how often it is right there.

    Only generated replies are counted, because likelihoods do not depend on the position.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> from snellen.plugin_api import prepare_reported_runs
        >>> [reported_run] = prepare_reported_runs(results.runs, results.rows)
        >>> [model_row] = reported_run.method_rows
        >>> round(sum(share.value for share in by_option_position(model_row).choice_rate.values()), 6)
        1.0
    """
    # By number of options, the position of the chosen option in each reply.
    chosen: dict[int, ValuePool] = defaultdict(ValuePool)
    correct: dict[OptionPosition, ValuePool] = defaultdict(ValuePool)
    labels: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    protocols: set[str] = set()
    groups = GroupNumbers()
    for scored, protocol in _protocols_with_accuracy(model_row):
        protocols.add(protocol)
        for prediction, sample in with_samples(scored):
            if prediction.protocol != protocol or prediction.error is not None:
                continue
            order = order_shown(prediction)
            if order is None:
                continue
            n_options = len(order)
            group = groups.number(scored, sample)
            labels[n_options].add(prediction.variant.labels)
            if prediction.choice is not None:
                chosen[n_options].add(order.index(prediction.choice), group)

            answer = scored.answers.get((prediction.sample_id, prediction.turn))
            if answer and len(answer.options) == 1:
                correct_option = answer.options[0]
                is_correct = prediction.choice == correct_option
                position = order.index(correct_option)
                correct[n_options, position].add(float(is_correct), group)

    choice_rate: dict[OptionPosition, Estimate] = {}
    for n_options in sorted(chosen):
        for position in range(n_options):
            choice_rate[n_options, position] = chosen[n_options].share_of(position)
    accuracy = {
        option_position: correct[option_position].estimate() for option_position in sorted(correct)
    }
    return PositionEstimates(choice_rate, accuracy, labels, frozenset(protocols))


def _protocols_with_accuracy(model_row: ModelMethodRow) -> Iterator[tuple[ScoredBenchmark, str]]:
    """Yield each benchmark that has an accuracy, with the protocol from which tables take the accuracy.

    A run may have used several protocols for a benchmark. Charts must use the same one as the tables.
    """
    for scored in model_row.reported_run.run.benchmarks:
        number = model_row.lookup("accuracy", scored.spec.name)
        if number is not None:
            yield scored, number.protocol


def _tag_value_order(value: str) -> tuple[int, float, str]:
    """Return the sort key of a tag's value: easy, medium, hard; then numbers by size; then texts."""
    if value in DIFFICULTY_LEVELS:
        return DIFFICULTY_LEVELS.index(value), 0.0, value
    try:
        return len(DIFFICULTY_LEVELS), float(value), value
    except ValueError:
        return len(DIFFICULTY_LEVELS) + 1, 0.0, value


# --- pools of values -------------------------------------------------------------------------------------------------


class GroupNumbers:
    """Gives a number to each group of questions (those about the same image or dialogue), over several benchmarks.

    Answers to questions of one group are not independent of each other, so intervals are computed from groups.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, scored: ScoredBenchmark, sample: Sample) -> int:
        """Return the number of the group of a sample. A group that was not seen before receives the next number."""
        group = (scored.spec.name, sample.group)
        next_number = len(self._numbers)
        return self._numbers.setdefault(group, next_number)


class ValuePool:
    """Values of questions with the number of the group of each, from which a mean with its interval is estimated."""

    def __init__(self) -> None:
        self._values = array("d")
        self._groups = array("i")

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float, group: int) -> None:
        """Add the value of a question, with the number of its group (`GroupNumbers`)."""
        self._values.append(value)
        self._groups.append(group)

    def estimate(self) -> Estimate:
        """Estimate the mean of the values, with a 95% interval that is clustered by group."""
        return estimate_mean(self._values, self._groups)

    def share_of(self, value: float) -> Estimate:
        """Estimate the share of the pooled values that are equal to a value."""
        is_equal = array("d", (pooled == value for pooled in self._values))
        return estimate_mean(is_equal, self._groups)


def with_samples(scored: ScoredBenchmark) -> Iterator[tuple[Prediction, Sample]]:
    """Yield each prediction of a benchmark with its sample.

    Consecutive predictions often have the same sample, which is looked up only once for them, because a lookup
    decompresses a block of samples.
    """
    sample = None
    for prediction in scored.predictions:
        if sample is None or sample.id != prediction.sample_id:
            sample = scored.samples[prediction.sample_id]
        yield prediction, sample
