"""Checks of whether the form of options gives the answer away: their length, punctuation, words."""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from snellen.plugin_api import (
    SURFACE_FEATURES,
    LintMaterial,
    LintQuestion,
    estimate_mean,
    hits_p_value,
)
from snellen_lab.linting.material import (
    SERIOUS_MARGIN,
    SIGNIFICANCE_LEVEL,
    Finding,
    Severity,
    estimate_text,
    first_examples,
    rule_finding,
    severity_above_chance,
)

MAX_QUESTIONS = 20_000
"""Maximum number of questions for the blind reader: those whose identifiers have the lowest hashes."""
MIN_QUESTIONS = 20
"""Number of questions below which a check has no finding."""
COMMON_SHARE = 0.05
"""Share of questions below which a feature that gives the answer away is not serious."""


def option_lengths(material: LintMaterial) -> Iterator[Finding]:
    """Measure the accuracy of always choosing the longest option, and of always the shortest."""
    choices = material.choices
    if not choices:
        return
    longest_values = []
    shortest_values = []
    for question in choices:
        indices_by_length: dict[int, list[int]] = defaultdict(list)
        for index, option in enumerate(question.options):
            indices_by_length[len(option)].append(index)
        longest = indices_by_length[max(indices_by_length)]
        shortest = indices_by_length[min(indices_by_length)]
        longest_values.append(question.expected_accuracy(longest))
        shortest_values.append(question.expected_accuracy(shortest))
    yield rule_finding("longest-option", "the longest option", choices, longest_values)
    yield rule_finding("shortest-option", "the shortest option", choices, shortest_values)


def odd_one_out(material: LintMaterial) -> Iterator[Finding]:
    """Check whether an option that differs from all others in a feature is right unusually often.

    For example, if only one option of a question contains a digit, or only one contains none.
    Options that are unusually seldom right are reported as well.
    """
    choices = material.choices
    for feature in SURFACE_FEATURES:
        alone_with: list[tuple[LintQuestion, int]] = []
        alone_without: list[tuple[LintQuestion, int]] = []
        for question in choices:
            flags = feature.flags(question)
            if flags.count(True) == 1:
                alone_with.append((question, flags.index(True)))
            # If one of two options lacks it, the other one alone has it, which is reported already.
            if flags.count(False) == 1 and len(flags) > 2:
                alone_without.append((question, flags.index(False)))
        for odd_options, description in (
            (alone_with, feature.has),
            (alone_without, feature.lacks),
        ):
            if len(odd_options) < MIN_QUESTIONS:
                continue
            check = f"leak-{feature.name}"
            finding = _odd_one_finding(check, description, odd_options, len(choices))
            if finding is not None:
                yield finding


def _odd_one_finding(
    check: str, description: str, odd_options: Sequence[tuple[LintQuestion, int]], total: int
) -> Finding | None:
    """Return the finding about options that differ from the others; None if chance explains it.

    Args:
        check: Name of the check.
        description: What the option has or lacks, to complete "if only one option ...".
        odd_options: The questions, each with the index of its odd option.
        total: Number of questions with options.
    """
    chances = []
    values = []
    groups = []
    for question, index in odd_options:
        chances.append(question.chance)
        values.append(float(index in question.gold))
        groups.append(question.group)
    p = hits_p_value(sum(values), chances)
    if p >= SIGNIFICANCE_LEVEL:
        return None

    estimate = estimate_mean(values, groups)
    chance = sum(chances) / len(chances)
    low = estimate.low or 0.0
    high = 1.0 if estimate.high is None else estimate.high
    is_far = low >= chance + SERIOUS_MARGIN or high <= chance - SERIOUS_MARGIN
    is_common = len(odd_options) >= COMMON_SHARE * total
    severity: Severity = "serious" if is_far and is_common else "warning"
    return Finding(
        check,
        severity,
        f"if only one option {description}, it is the answer in {estimate_text(estimate)}; chance {chance:.1%}",
        len(odd_options),
        total,
        first_examples(question.id for question, _ in odd_options),
        estimate,
        chance,
        p,
    )


Traits = Sequence[Collection[str]]
"""Names of the features of each option."""


def blind_reader(material: LintMaterial) -> Iterator[Finding]:
    """Measure how often a naive Bayes classifier finds the answer from the options alone.

    It uses their length, position and wording, but neither question nor image. It is trained on
    four fifths of the images and tested on the last fifth, for each fifth in turn.
    """

    def hash_order(question: LintQuestion) -> int:
        """Return a sort key that puts questions into an arbitrary order, the same each time."""
        return zlib.crc32(question.id.encode())

    choices = sorted(material.choices, key=hash_order)[:MAX_QUESTIONS]
    if len(choices) < MIN_QUESTIONS:
        return

    text_frequency: Counter[str] = Counter()
    for question in choices:
        text_frequency.update(question.folded)
    traits = [_traits(question, text_frequency) for question in choices]
    counts_by_fold = [_TraitCounts() for _ in range(LintQuestion.n_folds)]
    for question, question_traits in zip(choices, traits, strict=True):
        counts_by_fold[question.fold].add(question, question_traits)
    log_odds_by_fold = []
    for fold in range(LintQuestion.n_folds):
        training = [counts for index, counts in enumerate(counts_by_fold) if index != fold]
        log_odds_by_fold.append(_log_odds(training))

    values = []
    for question, question_traits in zip(choices, traits, strict=True):
        likeliest = _likeliest_options(question_traits, log_odds_by_fold[question.fold])
        values.append(question.expected_accuracy(likeliest))
    estimate = estimate_mean(values, [question.group for question in choices])
    chance = sum(question.chance for question in choices) / len(choices)
    yield Finding(
        "blind-reader",
        severity_above_chance(estimate, chance),
        f"a naive reader of the options' form, positions and wording scores {estimate_text(estimate)} on questions that "
        f"it has not learned from; chance {chance:.1%}",
        round(sum(values)),
        len(choices),
        (),
        estimate,
        chance,
    )


def _traits(question: LintQuestion, text_frequency: Counter[str]) -> Traits:
    """Return simple traits of each option of a question, such as its position and length.

    Args:
        question: The question.
        text_frequency: How often each text is an option in the benchmark.

    Returns:
        For each option, a list of traits as texts, such as `place 0 of 4`.
    """
    lengths = [len(option) for option in question.options]
    n_options = len(lengths)
    flags_by_feature = {feature.name: feature.flags(question) for feature in SURFACE_FEATURES}
    traits = []
    for index, text in enumerate(question.folded):
        n_shorter = sum(length < lengths[index] for length in lengths)
        option_traits = [f"place {index} of {n_options}", f"{n_shorter} shorter of {n_options}"]
        for name, flags in flags_by_feature.items():
            flag = flags[index]
            option_traits.append(f"{name} {flag}, {flags.count(flag)} of {len(flags)}")
        # A text that occurs only once says nothing about other questions.
        option_traits.append(f"text {text}" if text_frequency[text] > 1 else "")
        first_word = text.partition(" ")[0]
        option_traits.append(f"first {first_word}")
        traits.append(option_traits)
    return traits


class _TraitCounts:
    """Counts how often each trait occurred in right options, and how often in wrong ones."""

    def __init__(self) -> None:
        self.right: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    def add(self, question: LintQuestion, traits: Traits) -> None:
        """Count the traits of the options of a question."""
        for index, option_traits in enumerate(traits):
            if index in question.gold:
                self.right.update(option_traits)
            else:
                self.wrong.update(option_traits)


def _log_odds(training: Sequence[_TraitCounts]) -> dict[str, float]:
    """Return for each trait the log-odds that an option with it is right.

    One right option, and the mean number of wrong options per right one, are added to the counts,
    so that rare traits get no extreme values.
    """
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for counts in training:
        right.update(counts.right)
        wrong.update(counts.wrong)
    wrong_per_right = (wrong.total() + 1) / (right.total() + 1)
    log_odds = {}
    for trait in {*right, *wrong}:
        odds = (right[trait] + 1) / (wrong[trait] + wrong_per_right)
        log_odds[trait] = math.log(odds * wrong_per_right)
    return log_odds


def _likeliest_options(traits: Traits, log_odds: Mapping[str, float]) -> list[int]:
    """Return the indices of the options that look most like right ones; several if they are tied.

    Args:
        traits: The traits of each option, such as its position.
        log_odds: For each trait, the log-odds that an option with it is correct; 0 for other
            traits.
    """
    scores = []
    for option_traits in traits:
        scores.append(math.fsum(log_odds.get(trait, 0.0) for trait in option_traits))
    highest = max(scores)
    return [index for index, score in enumerate(scores) if score == highest]
