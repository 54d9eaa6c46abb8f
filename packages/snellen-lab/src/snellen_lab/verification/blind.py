"""Blind solvers: models that are asked without the picture, and with another one, in all rotations of the options.

They must not do better than chance. Which questions are set apart where they do is decided without assuming that
solvers err independently: to somebody who cannot see, the answer of a good question is an option like the others. So
as many good questions have an answer with so many votes as have a distractor with as many, for each distractor that
there is to one answer. Among questions whose answer has at least t votes, the share of good ones is then at most

    (1 + sum over questions of distractors with at least t votes / distractors) / answers with at least t votes,

where the 1 makes it hold in the mean (Barber and Candes 2015; in proteomics, the search among decoys). The least t at
which this is at most `Solvers.wrongly` decides.

The jury: several models say of each option whether it is right. Their votes are a run of a benchmark of yes and no.

That benchmark is made of the one that is checked by the reader `jury`; what a model has said of the same option of
the same question before is not asked again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from snellen import load_model
from snellen.plugin_api import (
    Answer,
    Benchmark,
    BenchmarkSpec,
    Check,
    CheckMaterial,
    CheckOutcome,
    DataError,
    Draft,
    Estimate,
    ItemFault,
    QuestionDraft,
    Sample,
    ScoredBenchmark,
    Solvers,
    SourceSpec,
    build_benchmark,
    check_budget,
    estimate_mean,
    evaluate_spec,
    home,
    open_answers,
    read_params,
    rng_for,
    run_spec,
    slug,
)
from snellen_lab.linting.material import estimate_text

YES_NO = ("Yes", "No")
LEAST_SKILL = 0.5
"""A juror who says yes to answers in a share that is not at least this much above that of distractors cannot tell them
apart, and has no vote."""
ASKED = (
    "A question about the picture: {question}\nA proposed answer: {answer}\n"
    "Going by the picture, is the proposed answer right?"
)


# --- the derived benchmark -------------------------------------------------------------------------------------------


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Of which version of which benchmark the options are judged."""

    of: str
    version: str


def read(params: dict[str, Any], source: Path | None) -> Iterator[Draft]:
    """For each option of a built benchmark's questions, and each answer of an open one, whether it is right.

    Questions of dialogues, and those with hidden answers, are left out.
    """
    settings = read_params(params, Params)
    if source is None:
        raise DataError(f"a jury judges the built folder of {settings.of}; name it with --source")
    whole, answers = Benchmark(source), open_answers(source)
    for sample, gold in judged_samples(whole, answers):
        for place, answer in enumerate(judged_answers(sample, gold)):
            is_right = place in gold.options if sample.options else True
            # The order of yes and no follows from the words alone, so that the same option is asked the same again.
            options = tuple(rng_for(sample.id, answer, "yes or no").sample(YES_NO, 2))
            yield Draft(
                id=judged_id(sample, place),
                rounds=(
                    QuestionDraft(
                        ASKED.format(question=sample.question, answer=answer),
                        options,
                        (options.index(YES_NO[0] if is_right else YES_NO[1]),),
                    ),
                ),
                images=tuple(whole.images.path(image.digest) for image in sample.images),
                where=f"{whole.folder}: {sample.id}",
                context=sample.context,
                regions=sample.regions,
                group=sample.group,
            )


def judged_samples(benchmark: Benchmark, answers: Any) -> Iterator[tuple[Sample, Answer]]:
    """The questions of one round whose answers are known, with these."""
    for sample in benchmark.samples():
        gold: Answer | None = answers.get((sample.id, 0)) if not sample.turns else None
        if gold is not None:
            yield sample, gold


def judged_answers(sample: Sample, gold: Answer) -> tuple[str, ...]:
    """What the jury judges: each option, or the usual answer to an open question."""
    return sample.options or gold.texts[:1]


def judged_id(sample: Sample, place: int) -> str:
    """The derived question about an option."""
    return f"{sample.id} option {place + 1}"


def jury_benchmark(benchmark: Benchmark) -> Benchmark:
    """The questions that a jury is asked about a built benchmark."""
    name = f"{benchmark.name}-jury"
    source = SourceSpec("jury", {"of": benchmark.name, "version": benchmark.manifest.version})
    spec = BenchmarkSpec(
        name=name, title=f"{benchmark.name}: is it right?", formulation="choice", source=source
    )
    return build_benchmark(spec, source=benchmark.folder, to=home() / "verification" / name)


# --- asking ----------------------------------------------------------------------------------------------------------


def asked(
    model: Any, benchmark: Benchmark, protocol: str, solvers: Solvers, pictures: Sequence[str] = ()
) -> tuple[str, ScoredBenchmark]:
    """A model's name, and what it answered: a run like any other, which goes on where it stopped, and asks nothing that
    it was asked in an earlier one. With `pictures` only these controls of the protocol are asked."""
    opened = load_model(model)
    if "generate" not in opened.kinds:
        protocol += f"{'&' if '?' in protocol else '?'}by=likelihood"
    controls = [
        f"control?picture={picture}&of={quote(protocol, safe='?=')}" for picture in pictures
    ]
    name = f"verify-{slug(benchmark.name)}-{benchmark.manifest.version}-{slug(opened.name)}"
    spec = run_spec(
        {
            "benchmarks": [str(benchmark.folder)],
            "protocols": controls or [protocol],
            "name": name,
            "runs": solvers.runs,
            "cache": str(home() / "verification" / "answers"),
            "allow_same_requests": True,
            "report": False,
        }
    )
    [finished] = evaluate_spec(spec, [opened], progress=solvers.progress, announce=solvers.announce)
    check_budget(finished.outcome, spec.execution.error_budget)
    return opened.name, finished.scored.benchmarks[0]


# --- votes -----------------------------------------------------------------------------------------------------------


Votes = dict[tuple[str, int], list[bool]]
"""By sample and option: who says that it is right. What could not be read is not a vote."""


def _jury(material: CheckMaterial) -> CheckOutcome:
    benchmark, solvers = material.benchmark, material.solvers
    derived = jury_benchmark(benchmark)
    answers = open_answers(benchmark.folder)
    judged = list(judged_samples(benchmark, answers))
    places = {
        judged_id(s, place): (s.id, place)
        for s, gold in judged
        for place in range(len(judged_answers(s, gold)))
    }
    votes: Votes = defaultdict(list)
    names, details = list[str](), list[str]()
    for model in solvers.jury:
        name, scored = asked(model, derived, "vanilla", solvers)
        own = {
            places[prediction.sample_id]: scored.samples[prediction.sample_id].options[
                prediction.choice
            ]
            == YES_NO[0]
            for prediction in scored.predictions
            if prediction.choice is not None
        }
        of_answers, of_distractors = _yes_rates(judged, own)
        skill = f"{name} says yes to {of_answers:.1%} of the answers and {of_distractors:.1%} of the distractors"
        if own and of_answers - of_distractors >= LEAST_SKILL:
            names.append(name)
            for place, vote in own.items():
                votes[place].append(vote)
        else:
            skill += ", which is no use: it has no vote"
            solvers.announce(skill)
        details.append(skill)
    faults = [
        fault for sample, gold in judged for fault in _condemned(sample, gold, votes, solvers)
    ]
    return CheckOutcome(faults, len(judged), tuple(names), "; ".join(details))


def _yes_rates(
    judged: Sequence[tuple[Sample, Answer]], own: dict[tuple[str, int], bool]
) -> tuple[float, float]:
    """In which share a juror finds keyed answers right, and distractors: what it errs by, where keys are right."""
    votes_on: dict[bool, list[bool]] = {True: [], False: []}
    for sample, gold in judged:
        for place in range(len(judged_answers(sample, gold))):
            if (vote := own.get((sample.id, place))) is not None:
                votes_on[place in gold.options or not sample.options].append(vote)
    of_answers, of_distractors = (
        sum(votes) / len(votes) if votes else 0.0 for votes in (votes_on[True], votes_on[False])
    )
    return of_answers, of_distractors


def _condemned(sample: Sample, gold: Answer, votes: Votes, solvers: Solvers) -> Iterator[ItemFault]:
    for place, text in enumerate(judged_answers(sample, gold)):
        own_votes = votes.get((sample.id, place), [])
        is_key = place in gold.options or not sample.options
        against = sum(vote != is_key for vote in own_votes)
        if (
            not own_votes or against < len(own_votes)
            if solvers.votes == "all"
            else 2 * against <= len(own_votes)
        ):
            continue
        tally = f"{against} of {len(own_votes)} of the jury"
        if is_key:
            yield ItemFault(sample.id, f"{tally} say that the answer {text!r} is wrong")
        else:
            yield ItemFault(sample.id, f"{tally} say that the option {text!r} is right too", text)


JURY = Check(
    "an answer that is wrong, or another option that is right, as most of the jury say",
    _jury,
    "jury",
)


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
        if sample.options
        and sample.images
        and (sample.id, 0) in answers
        and answers[sample.id, 0].options
    }
    if not asked_samples:
        return CheckOutcome([], 0, detail="no question has both a picture and options")
    pictures = {sample.images for sample in asked_samples.values()}
    controls = ["text", *(["shuffled"] if len(pictures) > 1 else [])]
    by_model: dict[str, dict[str, Counter[int]]] = {}
    for model in solvers.blind:
        name, scored = asked(model, benchmark, INNER, solvers, controls)
        by_model[name] = _counts(scored, asked_samples)
    golds = {sample_id: frozenset(answers[sample_id, 0].options) for sample_id in asked_samples}
    every = {
        name: sum((counts[name] for counts in by_model.values()), Counter())
        for name in asked_samples
    }
    votes = _votes(asked_samples.values(), golds, every)
    solved = solved_blind(votes, solvers.wrongly)
    apart = {vote.sample_id for vote in solved}
    remaining = [sample for sample in asked_samples.values() if sample.id not in apart]
    best, chance = _best([_votes(remaining, golds, counts) for counts in by_model.values()])
    faults = [
        ItemFault(
            vote.sample_id,
            f"solved without its picture in {100 * vote.accuracy:.0f}% of all presentations",
        )
        for vote in solved
    ]
    return CheckOutcome(faults, len(votes), tuple(by_model), _detail(votes, apart), best, chance)


def _votes(
    samples: Iterable[Sample],
    golds: Mapping[str, frozenset[int]],
    counts: Mapping[str, Counter[int]],
) -> list[BlindVotes]:
    return [
        BlindVotes(
            sample.id,
            sample.group,
            golds[sample.id],
            _shares(counts[sample.id], len(sample.options)),
        )
        for sample in samples
        if counts[sample.id]
    ]


def _best(by_model: Sequence[Sequence[BlindVotes]]) -> tuple[Estimate | None, float | None]:
    """The highest accuracy of a model, and what guessing would score on the questions that it was asked."""
    scores = [
        (estimate_mean([v.accuracy for v in votes], _groups(votes)), votes)
        for votes in by_model
        if votes
    ]
    if not scores:
        return None, None
    best, votes = max(scores, key=lambda score: score[0].value or 0.0)
    return best, sum(vote.chance for vote in votes) / len(votes)


def _counts(scored: ScoredBenchmark, samples: Mapping[str, Sample]) -> dict[str, Counter[int]]:
    """How often each option of each question was named."""
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for prediction in scored.predictions:
        if prediction.sample_id in samples and prediction.error is None:
            # What could not be read is a presentation that names nothing.
            counts[prediction.sample_id][
                -1 if prediction.choice is None else prediction.choice
            ] += 1
    return counts


def _shares(counts: Counter[int], options: int) -> tuple[float, ...]:
    return tuple(counts[place] / counts.total() for place in range(options))


def solved_blind(votes: Sequence[BlindVotes], wrongly: float) -> list[BlindVotes]:
    """The questions to set apart: of these at most the share `wrongly` is expected to be good. None where the accuracy
    of blind solvers is not above chance."""
    if not _is_above_chance(votes):
        return []
    judged = [vote for vote in votes if vote.decoys]
    for least in sorted({vote.of_gold for vote in judged if vote.of_gold > MOST_OF}):
        targets = [vote for vote in judged if vote.of_gold >= least]
        lucky = sum(
            len(vote.gold) * sum(decoy >= least for decoy in vote.decoys) / len(vote.decoys)
            for vote in judged
        )
        if 1 + lucky <= wrongly * len(targets):
            return targets
    return []


def _is_above_chance(votes: Sequence[BlindVotes]) -> bool:
    estimate = estimate_mean(
        [vote.accuracy - vote.chance for vote in votes], _groups(votes), bounds=(-1.0, 1.0)
    )
    return estimate.low is not None and estimate.low > 0


def _groups(votes: Sequence[BlindVotes]) -> list[str]:
    return [vote.group for vote in votes]


def _detail(votes: Sequence[BlindVotes], apart: set[str]) -> str:
    if not votes:
        return "no reply could be read"
    remaining = [vote for vote in votes if vote.sample_id not in apart]
    chance = sum(vote.chance for vote in votes) / len(votes)
    text = f"without their pictures {_accuracy(votes)} are solved; chance {chance:.1%}"
    if apart and remaining:
        text += f"; of those kept {_accuracy(remaining)}"
    return text + (
        ""
        if apart or not _is_above_chance(votes)
        else "; above chance, but luck would solve as many of them"
    )


def _accuracy(votes: Sequence[BlindVotes]) -> str:
    return estimate_text(estimate_mean([vote.accuracy for vote in votes], _groups(votes)))


BLIND = Check("a question that blind solvers answer, more surely than by luck", _blind, "blind")
