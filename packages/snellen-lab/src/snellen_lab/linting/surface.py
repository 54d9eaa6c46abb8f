"""Checks of what the surface of options gives away: length, punctuation, words."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from snellen.plugin_api import (
    QUESTION_FOLDS,
    SURFACE_FEATURES,
    LintMaterial,
    LintQuestion,
    estimate_mean,
    hits_p_value,
)
from snellen_lab.linting.golds import UNLIKELY
from snellen_lab.linting.material import (
    MUCH,
    Finding,
    estimate_text,
    first_examples,
    rule_finding,
    severity_above_chance,
)

MOST = 20_000
"""Most questions that the blind reader learns from and is tested on; of more, those whose ids hash lowest."""
LEAST = 20
"""With fewer questions that have an odd option there is no finding."""
COMMON = 0.05
"""A feature that gives the answer away in a smaller share of the questions is not serious."""


def option_lengths(material: LintMaterial) -> Iterator[Finding]:
    """The accuracy of always choosing the longest option, and the shortest."""
    choices = material.choices
    if not choices:
        return
    for name, best in (("longest", max), ("shortest", min)):
        values = [question.expected_accuracy(_lengthwise(question, best)) for question in choices]
        yield rule_finding(f"{name}-option", f"the {name} option", choices, values)


def _lengthwise(question: LintQuestion, best: Callable[[list[int]], int]) -> list[int]:
    sizes = [len(option) for option in question.options]
    best_size = best(sizes)
    return [place for place, size in enumerate(sizes) if size == best_size]


def odd_one_out(material: LintMaterial) -> Iterator[Finding]:
    """Whether the one option that looks unlike the others is the answer more, or less, often than chance."""
    choices = material.choices
    for look in SURFACE_FEATURES:
        marked = [look.flags(question) for question in choices]
        for unlike, says in ((True, look.has), (False, look.lacks)):
            odd = [
                (question, flags.index(unlike))
                for question, flags in zip(choices, marked, strict=True)
                # With two options, one lacking it means that the other alone has it, which is reported already.
                if flags.count(unlike) == 1 and (unlike or len(flags) > 2)
            ]
            if len(odd) >= LEAST and (
                finding := _odd_one_finding(f"leak-{look.name}", says, odd, len(choices))
            ):
                yield finding


def _odd_one_finding(
    check: str, says: str, odd: Sequence[tuple[LintQuestion, int]], total: int
) -> Finding | None:
    chances = [question.chance for question, _ in odd]
    values = [float(place in question.gold) for question, place in odd]
    p = hits_p_value(sum(values), chances)
    if p >= UNLIKELY:
        return None
    estimate, chance = (
        estimate_mean(values, [question.group for question, _ in odd]),
        sum(chances) / len(chances),
    )
    far = (estimate.low or 0.0) >= chance + MUCH or (
        1.0 if estimate.high is None else estimate.high
    ) <= chance - MUCH
    return Finding(
        check,
        "serious" if far and len(odd) >= COMMON * total else "warning",
        f"where one option alone {says}, it is the answer in {estimate_text(estimate)}; chance {chance:.1%}",
        len(odd),
        total,
        first_examples(question.id for question, _ in odd),
        estimate,
        chance,
        p,
    )


Traits = list[tuple[str, ...]]
"""For each option, the features that the blind reader sees."""


def blind_reader(material: LintMaterial) -> Iterator[Finding]:
    """The accuracy of a naive Bayes reader of the options' surface, position and wording, without question or picture.

    It learns from four fifths of the pictures and is tested on the last fifth, for each fifth in turn.
    """
    choices = sorted(material.choices, key=lambda q: zlib.crc32(q.id.encode()))[:MOST]
    if len(choices) < LEAST:
        return
    often = Counter(text for question in choices for text in question.folded)
    traits = [_traits(question, often) for question in choices]
    tallies = [_Tally() for _ in range(QUESTION_FOLDS)]
    for question, question_traits in zip(choices, traits, strict=True):
        tallies[question.fold].add(question, question_traits)
    readers = [
        _learned([tally for i, tally in enumerate(tallies) if i != fold])
        for fold in range(QUESTION_FOLDS)
    ]
    values = [
        question.expected_accuracy(_likeliest(question_traits, readers[question.fold]))
        for question, question_traits in zip(choices, traits, strict=True)
    ]
    estimate = estimate_mean(values, [question.group for question in choices])
    chance = sum(question.chance for question in choices) / len(choices)
    yield Finding(
        "blind-reader",
        severity_above_chance(estimate, chance),
        f"a naive reader of the options' looks, places and wordings scores {estimate_text(estimate)} on questions that "
        f"it has not learned from; chance {chance:.1%}",
        round(sum(values)),
        len(choices),
        (),
        estimate,
        chance,
    )


def _traits(question: LintQuestion, often: Counter[str]) -> Traits:
    sizes = [len(option) for option in question.options]
    columns = [[f"place {place} of {len(sizes)}" for place in range(len(sizes))]]
    columns.append(
        [f"{sum(rival < size for rival in sizes)} shorter of {len(sizes)}" for size in sizes]
    )
    for look in SURFACE_FEATURES:
        flags = look.flags(question)
        columns.append(
            [f"{look.name} {flag}, {flags.count(flag)} of {len(flags)}" for flag in flags]
        )
    # A text that is offered only once says nothing about other questions.
    columns.append([f"text {text}" if often[text] > 1 else "" for text in question.folded])
    columns.append([f"first {text.partition(' ')[0]}" for text in question.folded])
    return list(zip(*columns, strict=True))


class _Tally:
    """How often each trait occurred in answers, and in wrong options."""

    def __init__(self) -> None:
        self.right: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    def add(self, question: LintQuestion, traits: Traits) -> None:
        for place, option_traits in enumerate(traits):
            (self.right if place in question.gold else self.wrong).update(option_traits)


def _learned(tallies: Sequence[_Tally]) -> dict[str, float]:
    """Log-odds of being right, by trait, smoothed with one answer and the usual number of wrong options per answer."""
    right, wrong = Counter[str](), Counter[str]()
    for tally in tallies:
        right.update(tally.right)
        wrong.update(tally.wrong)
    usual = (wrong.total() + 1) / (right.total() + 1)
    return {
        trait: math.log((right[trait] + 1) / (wrong[trait] + usual) * usual)
        for trait in {*right, *wrong}
    }


def _likeliest(traits: Traits, odds: dict[str, float]) -> list[int]:
    scores = [
        math.fsum(odds.get(trait, 0.0) for trait in option_traits) for option_traits in traits
    ]
    return [place for place, score in enumerate(scores) if score == max(scores)]
