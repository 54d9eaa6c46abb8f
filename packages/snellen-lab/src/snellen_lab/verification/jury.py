"""A check by a jury: several models judge for each option whether it is right.

They are asked yes-no questions that the reader `jury` derives from the checked benchmark, and their
votes are a run of these questions. A model is not asked twice about the same option.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen import DataError, Sample
from snellen.plugin_api import (
    Answer,
    Benchmark,
    BenchmarkSpec,
    CheckMaterial,
    CheckOutcome,
    Draft,
    ItemFault,
    QuestionCheck,
    QuestionDraft,
    ScoredBenchmark,
    Solvers,
    SourceSpec,
    build_benchmark,
    open_answers,
    read_params,
    rng_for,
    snellen_home,
)
from snellen_lab.verification.solver_runs import run_solver

YES = "Yes"
NO = "No"
MIN_SKILL = 0.5
"""Smallest difference between the shares of right and of wrong options that a juror accepts. Other jurors cannot tell
them apart, and have no vote."""
JURY_QUESTION = (
    "A question about the picture: {question}\nA proposed answer: {answer}\n"
    "Going by the picture, is the proposed answer right?"
)
JudgedOption = tuple[str, int]
"""Identifier of a sample and index of one of its options."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Which benchmark, in which version, the derived questions are about."""

    of: str
    version: str


def read(params: dict[str, Any], source: Path | None) -> Iterator[Draft]:
    """Yield a yes-no question for each option of a built benchmark, and for the first answer to each open question.

    Dialogues and questions with hidden answers are left out.
    """
    settings = read_params(params, Params)
    if source is None:
        raise DataError(f"a jury judges the built folder of {settings.of}; name it as the source")
    benchmark = Benchmark(source)
    answers = open_answers(source)
    for sample, gold in judged_samples(benchmark, answers):
        for index, answer in enumerate(judged_answers(sample, gold)):
            # Whether yes or no comes first depends on the words only, so that the same option always gives the same request.
            options = tuple(rng_for(sample.id, answer, "yes or no").sample((YES, NO), 2))
            right_reply = YES if _is_right(sample, gold, index) else NO
            question = QuestionDraft(
                JURY_QUESTION.format(question=sample.question, answer=answer),
                options,
                (options.index(right_reply),),
            )
            yield Draft(
                id=judged_id(sample, index),
                rounds=(question,),
                images=tuple(benchmark.images.path(image.digest) for image in sample.images),
                where=f"{benchmark.folder}: {sample.id}",
                context=sample.context,
                regions=sample.regions,
                group=sample.group,
            )


def judged_samples(benchmark: Benchmark, answers: Any) -> Iterator[tuple[Sample, Answer]]:
    """Yield each question with its answer, without dialogues and questions with unknown answers."""
    for sample in benchmark.samples():
        if sample.turns:
            continue
        gold: Answer | None = answers.get((sample.id, 0))
        if gold is not None:
            yield sample, gold


def judged_answers(sample: Sample, gold: Answer) -> tuple[str, ...]:
    """Return the texts that a jury judges: all options, or one accepted answer to an open question.

    They are empty for an open question without accepted answers.
    """
    return sample.options or gold.texts[:1]


def judged_id(sample: Sample, index: int) -> str:
    """Return the id of the derived question about an option, such as "17 option 2"."""
    return f"{sample.id} option {index + 1}"


def _is_right(sample: Sample, gold: Answer, index: int) -> bool:
    """Return whether a judged text is right by the ground truth."""
    return index in gold.options or not sample.options


def jury_benchmark(benchmark: Benchmark) -> Benchmark:
    """Build the yes-no questions for a jury on a benchmark."""
    name = f"{benchmark.name}-jury"
    source = SourceSpec("jury", {"of": benchmark.name, "version": benchmark.manifest.version})
    spec = BenchmarkSpec(
        name=name, title=f"{benchmark.name}: is it right?", formulation="choice", source=source
    )
    return build_benchmark(spec, source=benchmark.folder, to=snellen_home() / "verification" / name)


def _check_by_jury(material: CheckMaterial) -> CheckOutcome:
    """Find questions whose right answer a jury of models rejects, or whose wrong option it accepts.

    Models that accept right and wrong answers equally often have no vote.
    """
    benchmark = material.benchmark
    solvers = material.solvers
    derived = jury_benchmark(benchmark)
    judged = list(judged_samples(benchmark, open_answers(benchmark.folder)))
    option_by_id: dict[str, JudgedOption] = {}
    for sample, gold in judged:
        for index in range(len(judged_answers(sample, gold))):
            option_by_id[judged_id(sample, index)] = (sample.id, index)

    votes: dict[JudgedOption, list[bool]] = defaultdict(list)
    jurors: list[str] = []
    details: list[str] = []
    for model in solvers.jury:
        name, scored = run_solver(model, derived, "vanilla", solvers)
        model_votes = _votes_of_model(scored, option_by_id)
        accepted_right, accepted_wrong = _acceptance_rates(judged, model_votes)
        detail = f"{name} says yes to {accepted_right:.1%} of the answers and {accepted_wrong:.1%} of the distractors"
        if model_votes and accepted_right - accepted_wrong >= MIN_SKILL:
            jurors.append(name)
            for option, vote in model_votes.items():
                votes[option].append(vote)
        else:
            detail += ", which is not informative; its votes are not counted"
            solvers.announce(detail)
        details.append(detail)

    faults: list[ItemFault] = []
    for sample, gold in judged:
        faults.extend(_faults(sample, gold, votes, solvers))
    return CheckOutcome(faults, len(judged), tuple(jurors), "; ".join(details))


def _votes_of_model(
    scored: ScoredBenchmark, option_by_id: Mapping[str, JudgedOption]
) -> dict[JudgedOption, bool]:
    """Return for each option whether a model says that it is right. Unparsed replies are not votes."""
    votes = {}
    for prediction in scored.predictions:
        if prediction.choice is not None:
            reply = scored.samples[prediction.sample_id].options[prediction.choice]
            votes[option_by_id[prediction.sample_id]] = reply == YES
    return votes


def _acceptance_rates(
    judged: Sequence[tuple[Sample, Answer]], votes: Mapping[JudgedOption, bool]
) -> tuple[float, float]:
    """Return the share of right answers, and of wrong ones, that a model says are right.

    A share is 0 if the model has voted on none of them.
    """
    on_right: list[bool] = []
    on_wrong: list[bool] = []
    for sample, gold in judged:
        for index in range(len(judged_answers(sample, gold))):
            vote = votes.get((sample.id, index))
            if vote is None:
                continue
            if _is_right(sample, gold, index):
                on_right.append(vote)
            else:
                on_wrong.append(vote)
    return _share(on_right), _share(on_wrong)


def _share(votes: Sequence[bool]) -> float:
    return sum(votes) / len(votes) if votes else 0.0


def _faults(
    sample: Sample, gold: Answer, votes: Mapping[JudgedOption, list[bool]], solvers: Solvers
) -> Iterator[ItemFault]:
    """Yield a fault for each option on which the jury contradicts the ground truth."""
    for index, text in enumerate(judged_answers(sample, gold)):
        option_votes = votes.get((sample.id, index), [])
        is_right = _is_right(sample, gold, index)
        n_votes = len(option_votes)
        n_against = sum(vote != is_right for vote in option_votes)
        if solvers.votes == "all":
            is_contradicted = n_votes > 0 and n_against == n_votes
        else:
            is_contradicted = 2 * n_against > n_votes
        if not is_contradicted:
            continue
        tally = f"{n_against} of {n_votes} of the jury"
        if is_right:
            yield ItemFault(sample.id, f"{tally} say that the answer {text!r} is wrong")
        else:
            yield ItemFault(sample.id, f"{tally} say that the option {text!r} is right too", text)


JURY = QuestionCheck(
    "an answer that is wrong, or another option that is right, as most of the jury say",
    _check_by_jury,
    "jury",
)
