"""A check by blind solvers: models that see no image, or another question's image.

They are asked in all rotations of the options and should do no better than chance. If they do, some
questions are set apart. These are chosen without assuming that solvers err independently. For a
solver that cannot see, the right option of a good question is an option like the others. So among
good questions, right options reach a given number of votes as often as distractors do, in
proportion to the number of each. Among questions whose right option has at least t votes, the share
of good ones is then at most

    (1 + sum over questions of distractors with at least t votes / distractors)
    / right options with at least t votes,

where the 1 makes it hold in the mean (Barber and Candes 2015; in proteomics, the search among
decoys). The smallest t for which this is at most `Solvers.wrongly` decides.
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
    """For each option of a question, the share of the blind solvers' replies that named it."""

    sample_id: str
    group: str
    gold: frozenset[int]
    shares: tuple[float, ...]

    @property
    def decoys(self) -> tuple[float, ...]:
        """Return the shares of replies that named each of the wrong options."""
        return tuple(share for index, share in enumerate(self.shares) if index not in self.gold)

    @property
    def of_gold(self) -> float:
        """Return the share of replies that named the right option.

        If there are several right options, this is the largest of their shares.
        """
        return max(self.shares[index] for index in self.gold)

    @property
    def accuracy(self) -> float:
        """Return the share of replies that named a right option."""
        return sum(self.shares[index] for index in self.gold)

    @property
    def chance(self) -> float:
        """Return the probability that a random option is right."""
        return len(self.gold) / len(self.shares)


def _check_blind(material: CheckMaterial) -> CheckOutcome:
    """Check whether models answer better than chance without the image, or with another image.

    If they do, the questions that too many models answer correctly in this way are reported as
    faults.
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
    """Count how often a model named each option of each question.

    Args:
        scored: The model's scored replies.
        samples: Ids of the questions to count.

    Returns:
        For each question, the counts by the index of the option; `NO_CHOICE` counts unparsed replies.
    """
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for prediction in scored.predictions:
        if prediction.sample_id not in samples or prediction.error is not None:
            continue
        choice = NO_CHOICE if prediction.choice is None else prediction.choice
        counts[prediction.sample_id][choice] += 1
    return counts


def _blind_votes(
    samples: Iterable[Sample],
    golds: Mapping[str, frozenset[int]],
    counts: Mapping[str, Counter[int]],
) -> list[BlindVotes]:
    """Return for each question the share of replies that named each option.

    Questions without replies are left out.

    Args:
        samples: The questions.
        golds: Indices of the correct options by question.
        counts: How often each option was named, by question.
    """
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
    """Return the highest accuracy of a model, and the chance level on the questions it answered.

    Both are None if no model has a reply.
    """
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
    """Return the questions that too many models answer correctly without the image (see the module).

    These are the questions whose correct option was named in at least a certain share of replies. None are returned if
    the models are not above chance.

    Args:
        votes: The votes on all questions.
        wrongly: Largest expected share of good questions among those returned.
    """
    if not _is_above_chance(votes):
        return []
    with_decoys = [vote for vote in votes if vote.decoys]
    thresholds = {vote.of_gold for vote in with_decoys if vote.of_gold > MIN_SOLVED_SHARE}
    for threshold in sorted(thresholds):
        solved = [vote for vote in with_decoys if vote.of_gold >= threshold]
        # Wrong options that reach the threshold show how many correct ones reach it by luck.
        solved_by_luck = 0.0
        for vote in with_decoys:
            n_decoys_above = sum(share >= threshold for share in vote.decoys)
            solved_by_luck += len(vote.gold) * n_decoys_above / len(vote.decoys)
        if 1 + solved_by_luck <= wrongly * len(solved):
            return solved
    return []


def _is_above_chance(votes: Sequence[BlindVotes]) -> bool:
    """Return whether models answer these questions without images significantly better than by chance.

    The 95% interval of the mean of accuracy minus chance, over questions and clustered by image, must be above 0.
    """
    differences = [vote.accuracy - vote.chance for vote in votes]
    groups = [vote.group for vote in votes]
    mean_difference = estimate_mean(differences, groups, bounds=(-1.0, 1.0))
    return mean_difference.low is not None and mean_difference.low > 0


def _accuracy(votes: Sequence[BlindVotes]) -> Estimate:
    """Estimate the share of replies that name a correct option, with an interval clustered by image."""
    accuracies = [vote.accuracy for vote in votes]
    groups = [vote.group for vote in votes]
    return estimate_mean(accuracies, groups)


def _describe(votes: Sequence[BlindVotes], solved_ids: Collection[str]) -> str:
    """Return a sentence on the accuracy of blind solvers, before and after questions are removed."""
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
