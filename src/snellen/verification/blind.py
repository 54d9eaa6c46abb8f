"""Blind solvers: models that are asked without the picture, and with another one, in all rotations of the options.

They must not do better than chance. Which questions are set apart where they do is decided without assuming that
solvers err independently: to somebody who cannot see, the answer of a good question is an option like the others. So
as many good questions have an answer with so many votes as have a distractor with as many, for each distractor that
there is to one answer. Among questions whose answer has at least t votes, the share of good ones is then at most

    (1 + sum over questions of distractors with at least t votes / distractors) / answers with at least t votes,

where the 1 makes it hold in the mean (Barber and Candes 2015; in proteomics, the search among decoys). The least t at
which this is at most `Solvers.wrongly` decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from snellen.analysis.lint.findings import estimate_text
from snellen.analysis.statistics import estimate_mean
from snellen.records import Estimate, Sample
from snellen.scoring.answers import open_answers
from snellen.scoring.scored_run import ScoredBenchmark
from snellen.verification.declaration import Check, CheckMaterial, CheckOutcome, ItemFault
from snellen.verification.jury import asked

INNER = "circular?all_passes=true"
MOST_OF = 0.5
"""An answer that fewer of the presentations name than this is not solved."""


class BlindVotes(Struct, frozen=True):
    """Of one question: which share of all presentations to all solvers named each option."""

    sample_id: str
    group: str
    gold: frozenset[int]
    shares: tuple[float, ...]

    @property
    def decoys(self) -> tuple[float, ...]:
        """The shares of the distractors."""
        return tuple(share for place, share in enumerate(self.shares) if place not in self.gold)

    @property
    def of_gold(self) -> float:
        """That of the answer that was named most."""
        return max(self.shares[place] for place in self.gold)

    @property
    def accuracy(self) -> float:
        """Share of the presentations that named an answer."""
        return sum(self.shares[place] for place in self.gold)

    @property
    def chance(self) -> float:
        """Of guessing."""
        return len(self.gold) / len(self.shares)


def _blind(material: CheckMaterial) -> CheckOutcome:
    benchmark, solvers = material.benchmark, material.solvers
    answers = open_answers(benchmark.folder)
    asked_samples = {
        sample.id: sample
        for sample in benchmark.samples()
        if sample.options and sample.images and (sample.id, 0) in answers and answers[sample.id, 0].options
    }
    if not asked_samples:
        return CheckOutcome([], 0, detail="no question has both a picture and options")
    pictures = {sample.images for sample in asked_samples.values()}
    shown = ["text", *(["shuffled"] if len(pictures) > 1 else [])]
    named: dict[str, dict[str, Counter[int]]] = {}
    for model in solvers.blind:
        name, scored = asked(model, benchmark, INNER, solvers, shown)
        named[name] = _counts(scored, asked_samples)
    golds = {sample_id: frozenset(answers[sample_id, 0].options) for sample_id in asked_samples}
    every = {sample_id: sum((counts[sample_id] for counts in named.values()), Counter()) for sample_id in asked_samples}
    votes = _votes(asked_samples.values(), golds, every)
    solved = solved_blind(votes, solvers.wrongly)
    apart = {vote.sample_id for vote in solved}
    kept = [sample for sample in asked_samples.values() if sample.id not in apart]
    best, chance = _best([_votes(kept, golds, counts) for counts in named.values()])
    faults = [
        ItemFault(vote.sample_id, f"solved without its picture in {100 * vote.accuracy:.0f} % of all presentations")
        for vote in solved
    ]
    return CheckOutcome(faults, len(votes), tuple(named), _detail(votes, apart), best, chance)


def _votes(
    samples: Iterable[Sample], golds: Mapping[str, frozenset[int]], named: Mapping[str, Counter[int]]
) -> list[BlindVotes]:
    return [
        BlindVotes(sample.id, sample.group, golds[sample.id], _shares(named[sample.id], len(sample.options)))
        for sample in samples
        if named[sample.id]
    ]


def _best(by_model: Sequence[Sequence[BlindVotes]]) -> tuple[Estimate | None, float | None]:
    """The highest accuracy of a model, and what guessing would score on the questions that it was asked."""
    scores = [(estimate_mean([v.accuracy for v in votes], _groups(votes)), votes) for votes in by_model if votes]
    if not scores:
        return None, None
    best, votes = max(scores, key=lambda score: score[0].value or 0.0)
    return best, sum(vote.chance for vote in votes) / len(votes)


def _counts(scored: ScoredBenchmark, samples: Mapping[str, Sample]) -> dict[str, Counter[int]]:
    """How often each option of each question was named."""
    named: dict[str, Counter[int]] = defaultdict(Counter)
    for prediction in scored.predictions:
        if prediction.sample_id in samples and prediction.error is None:
            # What could not be read is a presentation that names nothing.
            named[prediction.sample_id][-1 if prediction.choice is None else prediction.choice] += 1
    return named


def _shares(named: Counter[int], options: int) -> tuple[float, ...]:
    return tuple(named[place] / named.total() for place in range(options))


def solved_blind(votes: Sequence[BlindVotes], wrongly: float) -> list[BlindVotes]:
    """The questions to set apart: of these at most the share `wrongly` is expected to be good. None where the accuracy
    of blind solvers is not above chance."""
    if not _is_above_chance(votes):
        return []
    judged = [vote for vote in votes if vote.decoys]
    for least in sorted({vote.of_gold for vote in judged if vote.of_gold > MOST_OF}):
        targets = [vote for vote in judged if vote.of_gold >= least]
        lucky = sum(len(vote.gold) * sum(decoy >= least for decoy in vote.decoys) / len(vote.decoys) for vote in judged)
        if 1 + lucky <= wrongly * len(targets):
            return targets
    return []


def _is_above_chance(votes: Sequence[BlindVotes]) -> bool:
    estimate = estimate_mean([vote.accuracy - vote.chance for vote in votes], _groups(votes), bounds=(-1.0, 1.0))
    return estimate.low is not None and estimate.low > 0


def _groups(votes: Sequence[BlindVotes]) -> list[str]:
    return [vote.group for vote in votes]


def _detail(votes: Sequence[BlindVotes], apart: set[str]) -> str:
    if not votes:
        return "no reply could be read"
    kept = [vote for vote in votes if vote.sample_id not in apart]
    chance = sum(vote.chance for vote in votes) / len(votes)
    text = f"without their pictures {_accuracy(votes)} are solved; chance {chance:.1%}"
    if apart and kept:
        text += f"; of those kept {_accuracy(kept)}"
    return text + (
        "" if apart or not _is_above_chance(votes) else "; above chance, but luck would solve as many of them"
    )


def _accuracy(votes: Sequence[BlindVotes]) -> str:
    return estimate_text(estimate_mean([vote.accuracy for vote in votes], _groups(votes)))


BLIND = Check("a question that blind solvers answer, more surely than by luck", _blind, "blind")
