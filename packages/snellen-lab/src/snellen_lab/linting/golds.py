"""Checks of the gold answers: their positions, their labels, texts that are always or never right.

Questions for people to look at, as models solve them without the picture or all miss them (as MMBench did).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from snellen.plugin_api import (
    QUESTION_FOLDS,
    LintMaterial,
    LintQuestion,
    QuestionKey,
    ScoredBenchmark,
    ScoredRun,
    estimate_mean,
    fold_text,
    headlines_of,
    hits_p_value,
    labelled_declaration,
    protocol_preference,
    question_values,
    rng_for,
    run_labels,
)
from snellen_lab.linting.material import (
    Finding,
    Severity,
    estimate_text,
    first_examples,
    rule_finding,
)

UNLIKELY = 0.001
"""p-value below which an imbalance is reported as one."""
MAX_LISTED = 8
SKEWED = 1.5
"""A position or label right this many times as often as by chance is serious."""


def gold_positions(material: LintMaterial) -> Iterator[Finding]:
    """Whether the answer is in each position, and is each label, equally often; per number of options."""
    by_count: dict[int, list[LintQuestion]] = defaultdict(list)
    for question in material.choices:
        if len(question.gold) == 1:
            by_count[len(question.options)].append(question)
    for count, questions in sorted(by_count.items()):
        orders = {question.folded for question in questions}
        labels = {frozenset(order) for order in orders}
        if len(orders) > 1:
            names = [f"place {place + 1}" for place in range(count)]
            yield _evenness(
                "gold-position", questions, [question.gold[0] for question in questions], names
            )
        if len(labels) == 1:
            names = sorted(next(iter(labels)))
            right = [names.index(question.folded[question.gold[0]]) for question in questions]
            yield _evenness("label-balance", questions, right, names)


def _evenness(
    check: str, questions: Sequence[LintQuestion], right: Sequence[int], names: Sequence[str]
) -> Finding:
    """Whether the answers, given as indexes into `names`, are spread evenly."""
    tally, cells = Counter(right), len(names)
    p = uniformity_p_value([tally[cell] for cell in range(cells)], check)
    favourite, most = tally.most_common(1)[0]
    severity: Severity = (
        "note" if p >= UNLIKELY else "serious" if most >= SKEWED * len(right) / cells else "warning"
    )
    spread = ", ".join(f"{names[cell]} {count:,}" for cell, count in tally.most_common(MAX_LISTED))
    says = (
        f"of {cells} options the answer is {spread}{', ...' if len(tally) > MAX_LISTED else ''}; p = {p:.2g} if all "
        "were equally likely"
    )
    ids = (
        question.id for question, cell in zip(questions, right, strict=True) if cell == favourite
    )
    examples = first_examples(ids) if severity != "note" else ()
    return Finding(check, severity, says, most, len(right), examples, chance=1 / cells, p=p)


def majority_answer(material: LintMaterial) -> Iterator[Finding]:
    """The accuracy of choosing the option that is most often right in other questions."""
    choices = material.choices
    if choices:
        often = [Counter[str]() for _ in range(QUESTION_FOLDS)]
        for question in choices:
            often[question.fold].update(question.folded[place] for place in question.gold)
        # Without only the question itself, of two balanced labels the other one would always lead.
        elsewhere = [
            sum(
                (often[other_fold] for other_fold in range(QUESTION_FOLDS) if other_fold != fold),
                Counter(),
            )
            for fold in range(QUESTION_FOLDS)
        ]
        values = [
            question.expected_accuracy(_most_often(question, elsewhere[question.fold]))
            for question in choices
        ]
        yield rule_finding(
            "majority-answer", "the option most often right about other pictures", choices, values
        )
    texts = [question for question in material.questions if not question.options and question.texts]
    if texts:
        yield _constant(texts)


def _most_often(question: LintQuestion, often: Counter[str]) -> list[int]:
    counts = [often[text] for text in question.folded]
    return [place for place, count in enumerate(counts) if count == max(counts)]


def _constant(texts: Sequence[LintQuestion]) -> Finding:
    """The one reply that most open questions accept."""
    accepted = [{fold_text(text) for text in question.texts} for question in texts]
    reply, _ = Counter(text for some_texts in accepted for text in some_texts).most_common(1)[0]
    estimate = estimate_mean(
        [float(reply in some_texts) for some_texts in accepted],
        [question.group for question in texts],
    )
    severity: Severity = "warning" if (estimate.low or 0) > 0.25 else "note"
    right = [
        question.id
        for question, some_texts in zip(texts, accepted, strict=True)
        if reply in some_texts
    ]
    return Finding(
        "constant-reply",
        severity,
        f"always replying {reply!r} scores {estimate_text(estimate)}",
        len(right),
        len(texts),
        first_examples(right) if severity == "warning" else (),
        estimate,
    )


def always_or_never_right(material: LintMaterial) -> Iterator[Finding]:
    """Option texts that are right, or wrong, wherever they are offered, more often than chance allows."""
    choices = [question for question in material.choices if len(question.gold) == 1]
    offered: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0, 0.0])
    for question in choices:
        for place, text in enumerate(question.folded):
            tally = offered[text]
            right = place in question.gold
            tally[0] += right
            tally[1] += not right
            tally[2] += math.log(question.chance)
            tally[3] += math.log1p(-question.chance)
    # Among many texts some are always right by chance, hence Bonferroni.
    bound = math.log(UNLIKELY / max(1, len(offered)))
    always = {text for text, (_, wrong, p, _) in offered.items() if not wrong and p < bound}
    never = {text for text, (right, _, _, p) in offered.items() if not right and p < bound}
    for check, texts, word in (("always-right", always, "right"), ("never-right", never, "wrong")):
        if texts:
            yield _one_sided_texts(check, texts, word, choices)


def _one_sided_texts(
    check: str, texts: set[str], word: str, choices: Sequence[LintQuestion]
) -> Finding:
    concerned = [question for question in choices if texts & set(question.folded)]
    listing = ", ".join(repr(text) for text in sorted(texts)[:5]) + (
        ", ..." if len(texts) > 5 else ""
    )
    says = f"offer one of {len(texts):,} texts that are {word} wherever they are offered: {listing}"
    severity: Severity = "serious" if 2 * len(concerned) > len(choices) else "warning"
    return Finding(
        check, severity, says, len(concerned), len(choices), first_examples(q.id for q in concerned)
    )


# --- how likely a count is by chance ---------------------------------------------------------------------------------


FEW = 5
"""With fewer expected per cell the chi-square distribution is a poor approximation (Cochran 1954)."""
DRAWS = 10_000


def uniformity_p_value(counts: Sequence[int], *names: str) -> float:
    """How likely counts at least this uneven are if every cell is equally likely (Pearson's test).

    With few expected per cell it is simulated, seeded by `names`: then no p-value is below 1 / (DRAWS + 1).
    """
    total, cells = sum(counts), len(counts)
    if not total or cells < 2:
        return 1.0
    observed = _unevenness(counts)
    if total / cells >= FEW:
        return chi_square_p_value(observed, cells - 1)
    rng = rng_for(*names, "uniform")
    as_uneven = 0
    for _ in range(DRAWS):
        simulated = Counter(rng.choices(range(cells), k=total))
        as_uneven += _unevenness([simulated[cell] for cell in range(cells)]) >= observed - 1e-9
    return (as_uneven + 1) / (DRAWS + 1)


def _unevenness(counts: Sequence[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected


def chi_square_p_value(statistic: float, freedom: int) -> float:
    """Upper tail of the chi-square distribution with whole degrees of freedom, in closed form.

    Q(k/2, x/2): for even k a Poisson sum, for odd k the complementary error function and a like sum
    (Abramowitz and Stegun 26.4.4 and 26.4.5).
    """
    half = statistic / 2
    if half <= 0:
        return 1.0
    odd = freedom % 2
    tail = math.erfc(math.sqrt(half)) if odd else 0.0
    for step in range(freedom // 2):
        power = step + odd / 2
        tail += math.exp(-half + power * math.log(half) - math.lgamma(power + 1))
    return min(tail, 1.0)


SOLVED_BLIND, MISSED_BY_ALL = "solved-blind", "missed-by-all"
RIGHT = 0.5
"""A question counts as answered right where more than this share of its presentations, or of its score, is."""
Verdicts = dict[str, dict[QuestionKey, bool]]
"""By model: whether it was right, question by question."""


class DoubtfulQuestion(Struct, frozen=True):
    """A question to be looked at by people, as it stands in a line of the list."""

    id: str
    turn: int
    reason: str
    detail: str


def doubtful_questions(
    name: str, runs: Sequence[ScoredRun]
) -> tuple[list[Finding], list[DoubtfulQuestion]]:
    """What runs on the benchmark of that name say of its questions: findings, and the questions with their reasons.

    Runs under protocols that show no picture tell what is solved blind, by more than half of them; the others what is
    missed by all.
    """
    scored = {
        label: benchmark
        for label, run in zip(run_labels(runs), runs, strict=True)
        for benchmark in run.benchmarks
        if benchmark.spec.name == name
    }
    blind, seeing = _verdicts(scored, sees_images=False), _verdicts(scored, sees_images=True)
    chances = {key: chance for benchmark in scored.values() for key, chance in _chances(benchmark)}
    findings, questions = list[Finding](), list[DoubtfulQuestion]()
    for check, verdicts in ((_solved_blind, blind), (_missed_by_all, seeing)):
        if verdicts:
            finding, concerned = check(verdicts, chances)
            findings.append(finding)
            questions += concerned
    return findings, questions


def _verdicts(scored: Mapping[str, ScoredBenchmark], *, sees_images: bool) -> Verdicts:
    """One headline number for each model that was asked so: under the protocol that stands for it."""
    verdicts: Verdicts = {}
    for label, benchmark in scored.items():
        names = headlines_of(benchmark)
        measured = [
            measures
            for measures in question_values(benchmark, names)
            if labelled_declaration(measures.protocol).sees_images == sees_images
            and measures.values
        ]
        if measured:
            best = min(
                measured, key=lambda m: (names.index(m.metric), protocol_preference(m.protocol))
            )
            verdicts[label] = {key: value > RIGHT for key, value in best.values.items()}
    return verdicts


def _chances(benchmark: ScoredBenchmark) -> Iterator[tuple[QuestionKey, float]]:
    for (sample_id, turn), answer in benchmark.answers.items():
        if answer.options and sample_id in benchmark.samples:
            yield (
                (sample_id, turn),
                len(answer.options) / len(benchmark.samples[sample_id].rounds[turn].options),
            )


def _solved_blind(
    verdicts: Verdicts, chances: Mapping[QuestionKey, float]
) -> tuple[Finding, list[DoubtfulQuestion]]:
    luck: list[float] = []
    concerned: list[DoubtfulQuestion] = []
    for key, right in _by_question(verdicts).items():
        by_luck = majority_by_luck(len(right), chances.get(key, 0.0))
        luck.append(by_luck)
        if 2 * sum(right) > len(right):
            detail = f"{sum(right)} of {len(right)} models that saw no picture were right; {by_luck:.1%} by luck"
            concerned.append(DoubtfulQuestion(*key, SOLVED_BLIND, detail))
    expected = math.fsum(luck)
    p = hits_p_value(len(concerned), luck)
    severity: Severity = "warning" if len(concerned) > expected and p < UNLIKELY else "note"
    says = (
        f"answered right without the picture by more than half of {len(verdicts)} models ({', '.join(verdicts)}); "
        f"{expected:,.1f} if all guessed independently"
    )
    return _finding(SOLVED_BLIND, severity, says, concerned, len(luck), p), concerned


def _missed_by_all(
    verdicts: Verdicts, chances: Mapping[QuestionKey, float]
) -> tuple[Finding, list[DoubtfulQuestion]]:
    questions = {
        key: right for key, right in _by_question(verdicts).items() if len(right) == len(verdicts)
    }
    missing = [sum(right[place] for right in questions.values()) for place in range(len(verdicts))]
    rate = math.prod(1 - hits / len(questions) for hits in missing) if questions else 0.0
    concerned = [
        DoubtfulQuestion(
            *key, MISSED_BY_ALL, f"none of {len(right)} models was right with the picture"
        )
        for key, right in questions.items()
        if not any(right)
    ]
    says = (
        f"missed with the picture by all of {len(verdicts)} models ({', '.join(verdicts)}); "
        f"{rate * len(questions):,.1f} if each erred as often as it does, independently"
    )
    p = hits_p_value(len(concerned), [rate] * len(questions))
    severity: Severity = (
        "warning" if len(concerned) > rate * len(questions) and p < UNLIKELY else "note"
    )
    return _finding(MISSED_BY_ALL, severity, says, concerned, len(questions), p), concerned


def _by_question(verdicts: Verdicts) -> dict[QuestionKey, list[bool]]:
    """The verdicts of the models that have one, in the order of the models, by question."""
    keys = sorted({key for by_key in verdicts.values() for key in by_key})
    return {key: [by_key[key] for by_key in verdicts.values() if key in by_key] for key in keys}


def _finding(
    check: str,
    severity: Severity,
    says: str,
    concerned: Sequence[DoubtfulQuestion],
    total: int,
    p: float,
) -> Finding:
    examples = first_examples(f"{q.id}#{q.turn + 1}" if q.turn else q.id for q in concerned)
    return Finding(check, severity, says, len(concerned), total, examples, p=p)


def majority_by_luck(models: int, chance: float) -> float:
    """The probability that more than half of models that guess independently are right."""
    return math.fsum(
        math.comb(models, right) * chance**right * (1 - chance) ** (models - right)
        for right in range(models // 2 + 1, models + 1)
    )
