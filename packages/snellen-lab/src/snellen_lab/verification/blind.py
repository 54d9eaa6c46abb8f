"""Blind solvers: models that see no image, or another one, in all rotations of the options.

They should not do better than chance. If they do, some questions are set apart. The choice of these questions does not
assume that solvers err independently: for a solver that cannot see, the right option of a good question is an option
like the others. Among good questions, therefore, as many right options have a given number of votes as distractors
have, in proportion to the number of distractors per right option. Among questions whose right option has at least t
votes, the share of good ones is then at most

    (1 + sum over questions of distractors with at least t votes / distractors) / right options with at least t votes,

where the 1 makes it hold in the mean (Barber and Candes 2015; in proteomics, the search among decoys). The smallest t
for which this is at most `Solvers.wrongly` decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from snellen import Sample
from snellen.plugin_api import (
    CheckMaterial,
    CheckOutcome,
    Estimate,
    ItemFault,
    QuestionCheck,
    ScoredBenchmark,
    estimate_mean,
    open_answers,
)
from snellen_lab.linting.material import estimate_text
from snellen_lab.verification.solver_runs import run_solver

PROTOCOL = "circular?all_passes=true"
MIN_SOLVED_SHARE = 0.5
"""Share of presentations that must name the right option for a question to count as solved."""
NO_CHOICE = -1
"""Key of presentations whose reply names no option."""


class BlindVotes(Struct, frozen=True):
    """Share of all presentations of a question to blind solvers that named each option."""

    sample_id: str
    group: str
    gold: frozenset[int]
    shares: tuple[float, ...]

    @property
    def decoys(self) -> tuple[float, ...]:
        """The shares of the distractors."""
        return tuple(share for index, share in enumerate(self.shares) if index not in self.gold)

    @property
    def of_gold(self) -> float:
        """The largest share of a right option."""
        return max(self.shares[index] for index in self.gold)

    @property
    def accuracy(self) -> float:
        """Share of the presentations that named a right option."""
        return sum(self.shares[index] for index in self.gold)

    @property
    def chance(self) -> float:
        """Accuracy of random choices."""
        return len(self.gold) / len(self.shares)


def _check_blind(material: CheckMaterial) -> CheckOutcome:
    """Check whether models answer without the image, or with the image of another question, better than chance.

    If one does, the questions that too many models solve that way are at fault.
    """
    benchmark = material.benchmark
    solvers = material.solvers
    answers = open_answers(benchmark.folder)
    samples: dict[str, Sample] = {}
    golds: dict[str, frozenset[int]] = {}
    for sample in benchmark.samples():
        answer = answers.get((sample.id, 0))
        if sample.options and sample.images and answer is not None and answer.options:
            samples[sample.id] = sample
            golds[sample.id] = frozenset(answer.options)
    if not samples:
        return CheckOutcome([], 0, detail="no question has both an image and options")

    controls = ["text"]
    has_several_images = len({sample.images for sample in samples.values()}) > 1
    if has_several_images:
        controls.append("shuffled")
    counts_by_model: dict[str, dict[str, Counter[int]]] = {}
    total_counts: dict[str, Counter[int]] = defaultdict(Counter)
    for model in solvers.blind:
        name, scored = run_solver(model, benchmark, PROTOCOL, solvers, controls)
        counts_by_model[name] = _choice_counts(scored, samples)
    for counts in counts_by_model.values():
        for sample_id, choices in counts.items():
            total_counts[sample_id].update(choices)

    votes = _blind_votes(samples.values(), golds, total_counts)
    solved = solved_blind(votes, solvers.wrongly)
    solved_ids = {vote.sample_id for vote in solved}
    remaining = [sample for sample in samples.values() if sample.id not in solved_ids]
    remaining_votes = [
        _blind_votes(remaining, golds, counts) for counts in counts_by_model.values()
    ]
    best, chance = _best_model(remaining_votes)
    faults = []
    for vote in solved:
        share = f"{100 * vote.accuracy:.0f}%"
        faults.append(
            ItemFault(vote.sample_id, f"solved without the image in {share} of all presentations")
        )
    detail = _describe(votes, solved_ids)
    return CheckOutcome(faults, len(votes), tuple(counts_by_model), detail, best, chance)


def _choice_counts(scored: ScoredBenchmark, samples: Collection[str]) -> dict[str, Counter[int]]:
    """Return how often each option of each question was named. Unparsed replies count as `NO_CHOICE`."""
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for prediction in scored.predictions:
        if prediction.sample_id in samples and prediction.error is None:
            choice = NO_CHOICE if prediction.choice is None else prediction.choice
            counts[prediction.sample_id][choice] += 1
    return counts


def _blind_votes(
    samples: Iterable[Sample],
    golds: Mapping[str, frozenset[int]],
    counts: Mapping[str, Counter[int]],
) -> list[BlindVotes]:
    """Return the votes on the questions that have any."""
    votes = []
    for sample in samples:
        choices = counts.get(sample.id)
        if not choices:
            continue
        total = choices.total()
        shares = tuple(choices[index] / total for index in range(len(sample.options)))
        votes.append(BlindVotes(sample.id, sample.group, golds[sample.id], shares))
    return votes


def _best_model(
    votes_by_model: Sequence[Sequence[BlindVotes]],
) -> tuple[Estimate | None, float | None]:
    """Return the highest accuracy of a model, and the chance level on its questions."""
    best: Estimate | None = None
    chance = None
    for votes in votes_by_model:
        if not votes:
            continue
        accuracy = _accuracy(votes)
        if best is None or (accuracy.value or 0.0) > (best.value or 0.0):
            best = accuracy
            chance = sum(vote.chance for vote in votes) / len(votes)
    return best, chance


def solved_blind(votes: Sequence[BlindVotes], wrongly: float) -> list[BlindVotes]:
    """Return the questions to set apart. None are if the accuracy of blind solvers is not above chance.

    Args:
        votes: The votes on all questions.
        wrongly: Largest expected share of good questions among them.
    """
    if not _is_above_chance(votes):
        return []
    with_decoys = [vote for vote in votes if vote.decoys]
    thresholds = {vote.of_gold for vote in with_decoys if vote.of_gold > MIN_SOLVED_SHARE}
    for threshold in sorted(thresholds):
        solved = [vote for vote in with_decoys if vote.of_gold >= threshold]
        lucky = 0.0
        for vote in with_decoys:
            n_decoys = sum(decoy >= threshold for decoy in vote.decoys)
            lucky += len(vote.gold) * n_decoys / len(vote.decoys)
        if 1 + lucky <= wrongly * len(solved):
            return solved
    return []


def _is_above_chance(votes: Sequence[BlindVotes]) -> bool:
    """Return whether models answer these questions without images better than by chance."""
    differences = [vote.accuracy - vote.chance for vote in votes]
    groups = [vote.group for vote in votes]
    estimate = estimate_mean(differences, groups, bounds=(-1.0, 1.0))
    return estimate.low is not None and estimate.low > 0


def _accuracy(votes: Sequence[BlindVotes]) -> Estimate:
    groups = [vote.group for vote in votes]
    return estimate_mean([vote.accuracy for vote in votes], groups)


def _describe(votes: Sequence[BlindVotes], solved_ids: Collection[str]) -> str:
    """Return a sentence on the accuracy of blind solvers before and after questions are set apart."""
    if not votes:
        return "no reply could be read"
    chance = sum(vote.chance for vote in votes) / len(votes)
    text = f"without images, {estimate_text(_accuracy(votes))} are solved; chance {chance:.1%}"
    remaining = [vote for vote in votes if vote.sample_id not in solved_ids]
    if solved_ids and remaining:
        text += f"; of the questions kept, {estimate_text(_accuracy(remaining))}"
    if not solved_ids and _is_above_chance(votes):
        text += "; above chance, but chance alone would solve as many of them"
    return text


BLIND = QuestionCheck(
    "a question that blind solvers answer, more surely than by luck", _check_blind, "blind"
)
