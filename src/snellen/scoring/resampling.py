"""Build a benchmark from a part of another built benchmark, whose folder is its source.

The registry knows the reader of such sources as `built`. It is in this package because it opens answers.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import HISTORY, MANIFEST, Benchmark
from snellen.building.builder import Progress, build_benchmark
from snellen.building.recipe import BuildInputs, Decisions, Recipe
from snellen.callers import setting, source_setting
from snellen.catalogue import BenchmarkSpec, ExpectedCounts, SourceSpec
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.records import Answer, Sample, SourceRows
from snellen.reformulation.sampling import Sampling
from snellen.scoring.answers import Key, open_answers

Reopened = Literal["options", "distractors"]
"""What a build draws again: the number of options, or only the distractors."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a source that is a built benchmark."""

    of: str
    """Name of the built benchmark."""
    version: str
    """Its version."""
    by: str = ""
    """Tag whose values a draw balances; if empty, it balances the answers."""
    reopen: Reopened | Literal[""] = ""
    """What the build draws again for questions with options.

    With `options`, the number of options changes; the original distractors are used first. With `distractors`, all
    distractors are drawn from the answers to other questions, first from those with the same question text.
    """
    samples: tuple[str, ...] = ()
    """Ids of the samples to read, in this order; if empty, all."""


def build_selection(benchmark: Benchmark, samples: Sequence[str]) -> Benchmark:
    """Build some samples of a built benchmark, in a given order. The name ends in a digest of their ids.

    Raises:
        DataError: No sample is chosen, or the benchmark has changed.
    """
    if not samples:
        raise DataError(
            f"no question of {benchmark.name} is selected; there is nothing to evaluate"
        )
    digest = hashlib.sha256("\n".join(samples).encode()).hexdigest()[:8]
    params = {
        "of": benchmark.name,
        "version": benchmark.manifest.version,
        "samples": list(samples),
    }
    spec = replace(
        benchmark.spec,
        name=f"{benchmark.name}-{digest}",
        source=SourceSpec("built", params),
        expected=ExpectedCounts(),
        complete=ExpectedCounts(),
    )
    return build_benchmark(spec, source=benchmark.folder)


def reopened(benchmark: Benchmark, name: str, reopen: Reopened) -> BenchmarkSpec:
    """Return a benchmark entry that builds the questions of a built benchmark again, with newly drawn options.

    Each question gets as many options as most questions of the built benchmark have.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> reopened(open_benchmark("eyechart/colour"), "colour-anew", "distractors").source.reader
        'built'
    """
    numbers_of_options: Counter[int] = Counter()
    for sample in benchmark.samples():
        for turn in sample.rounds:
            if turn.options:
                numbers_of_options[len(turn.options)] += 1
    if not numbers_of_options:
        raise DataError(
            f"{benchmark.name} has no multiple-choice questions; there are no options to regenerate"
        )
    params = {"of": benchmark.name, "version": benchmark.manifest.version, "reopen": reopen}
    [(usual_number, _)] = numbers_of_options.most_common(1)
    source = SourceSpec("built", params, drawn_with=benchmark.spec.draw, options=usual_number)
    return replace(
        benchmark.spec,
        name=name,
        source=source,
        expected=ExpectedCounts(),
        complete=ExpectedCounts(),
    )


def draw_subset(
    benchmark: Benchmark,
    sampling: Sampling,
    *,
    name: str = "",
    by: str = "",
    seed: int = 0,
    to: Path | None = None,
    progress: Progress | None = None,
    decisions: Decisions = MappingProxyType({}),
    reuse: bool = False,
) -> Benchmark:
    """Build a benchmark from some samples of a built one, drawn by a rule. It is run and scored like any other.

    The manifest of the new benchmark says from which version of which benchmark it was drawn, and how.

    Args:
        benchmark: The whole benchmark.
        sampling: The rule.
        name: Name of the part; by default that of the whole with the amount, as in `animals-10p`.
        by: Tag by which the rule balances; the answer if empty.
        seed: Seed of the draw.
        to: Folder of the part; by default that of its name under $SNELLEN_HOME.
        progress: Receives the number of questions that are built.
        decisions: Reviewers' decisions. Questions to exclude are removed from the part, and so are questions with a
            distractor to avoid, because the part keeps the options.
        reuse: Whether to return the part that is already in `to`, if it was drawn from this version by this rule.

    Raises:
        DataError: The name is that of the whole, no sample has the tag, or there are fewer samples than asked for.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> whole = open_benchmark("eyechart/colour")
        >>> part = draw_subset(whole, Sampling("random", count=10), name="colour-10", to=Path("part"))
        >>> part.count()
        10
    """
    manifest = benchmark.manifest
    name = name or sampling.subset_name(benchmark.name)
    if reuse and to is not None and (to / MANIFEST).exists():
        part = Benchmark(to)
        drawn_from = part.spec.source.params.get("version")
        if drawn_from == manifest.version and part.spec.source.sample == sampling:
            return part
    if name == benchmark.name:
        raise DataError(
            f"a part of {name} needs a different name; choose another {setting('name')}"
        )
    tags = sorted({*manifest.tags, *manifest.answer_tags})
    if by and by not in tags:
        available = f"its tags are {', '.join(tags)}" if tags else "it has no tags"
        raise DataError(f"no sample of {benchmark.name} has a tag {by!r}; {available}")
    params = {"of": benchmark.name, "version": manifest.version}
    if by:
        params["by"] = by
    source = SourceSpec("built", params, sample=sampling)
    spec = replace(
        benchmark.spec,
        name=name,
        source=source,
        expected=ExpectedCounts(),
        complete=ExpectedCounts(),
    )
    return build_benchmark(
        spec,
        source=benchmark.folder,
        to=to,
        recipe=Recipe(seed=seed),
        inputs=BuildInputs(decisions=decisions),
        progress=progress,
    )


def read(params: dict[str, Any], source: Path | None) -> Iterator[Draft]:
    """Yield the samples of the built benchmark in the folder `source`, with their answers.

    Raises:
        DataError: The folder has another benchmark, or another version of it.
    """
    settings = read_params(params, Params)
    if source is None:
        raise DataError(
            f"a part of {settings.of} is drawn from its built folder; give that folder with {source_setting()}"
        )
    benchmark = Benchmark(source)
    if (benchmark.name, benchmark.manifest.version) != (settings.of, settings.version):
        raise DataError(
            f"{source} is {benchmark.name} version {benchmark.manifest.version}, not {settings.of} version {settings.version}; "
            "draw again with `snellen sample`"
        )
    answers = open_answers(source)
    origins = benchmark.origins()
    histories = benchmark.histories() if (source / HISTORY).exists() else {}
    pools = _answer_pools(benchmark, answers) if settings.reopen else {}
    for sample in _chosen_samples(benchmark, settings.samples):
        draft = _draft(sample, benchmark, answers, origins.get(sample.id))
        if settings.reopen:
            own_first = settings.reopen == "options"
            rounds = [_reopen(turn, pools, own_first=own_first) for turn in draft.rounds]
            draft = replace(draft, rounds=tuple(rounds))
        yield replace(
            draft,
            replies=histories.get(sample.id, ()),
            stratum=stratum_of(sample, answers, settings.by),
        )


def _chosen_samples(benchmark: Benchmark, ids: Sequence[str]) -> Iterable[Sample]:
    """Return the samples with the given identifiers, in the order of the identifiers; all samples if there are none."""
    if not ids:
        return benchmark.samples()
    wanted_ids = set(ids)
    chosen = {sample.id: sample for sample in benchmark.samples() if sample.id in wanted_ids}
    return [chosen[sample_id] for sample_id in ids]


ALL_QUESTIONS = ""
"""Key of the pool with the answers to all questions. The keys of the other pools are question texts."""


def _answer_pools(
    benchmark: Benchmark, answers: Mapping[Key, Answer]
) -> dict[str, tuple[str, ...]]:
    """Collect the correct options of a benchmark, from which wrong options of other questions can be drawn.

    Returns:
        The distinct correct options, by the text of the question. Under `ALL_QUESTIONS` are those of all questions.
    """
    pools: dict[str, set[str]] = defaultdict(set)
    for sample in benchmark.samples():
        for number, turn in enumerate(sample.rounds):
            answer = answers.get((sample.id, number))
            correct_options: list[str] = []
            if answer is not None and turn.options:
                correct_options = [turn.options[index] for index in answer.options]
            pools[turn.question].update(correct_options)
            pools[ALL_QUESTIONS].update(correct_options)
    return {question: tuple(sorted(options)) for question, options in pools.items()}


def _reopen(
    turn: QuestionDraft, pools: Mapping[str, tuple[str, ...]], *, own_first: bool
) -> QuestionDraft:
    """Remove the wrong options of a question, so that new ones are drawn when the benchmark is built.

    Args:
        turn: The question. It is returned unchanged if it has no options or no correct answer.
        pools: Correct options of other questions, from which wrong options are drawn (see `_answer_pools`).
        own_first: Whether the original wrong options are drawn first.
    """
    if not turn.options or not turn.gold:
        return turn
    correct: list[str] = [turn.options[index] for index in turn.gold]
    wrong: list[str] = []
    for index, text in enumerate(turn.options):
        if index not in turn.gold:
            wrong.append(text)

    tiers = [pools[turn.question], pools[ALL_QUESTIONS]]
    if own_first:
        tiers.insert(0, tuple(wrong))
    return replace(
        turn,
        options=(),
        gold=(),
        relevance=(),
        texts=tuple(correct),
        distractors=DistractorSpec(tiers=tuple(tiers)),
    )


def _draft(
    sample: Sample, benchmark: Benchmark, answers: Mapping[Key, Answer], origin: SourceRows | None
) -> Draft:
    """Return a built sample with its answers as a draft, from which another benchmark can be built.

    Args:
        sample: The sample.
        benchmark: Its benchmark.
        answers: Answers of the benchmark, by sample and round.
        origin: Rows of the source from which the sample was built; None if they are not known.
    """
    rounds = []
    answer_tags = {}
    for number, turn in enumerate(sample.rounds):
        answer = answers.get((sample.id, number), Answer(sample.id, number))
        answer_tags.update(answer.tags)
        draft = QuestionDraft(
            turn.question,
            turn.options,
            answer.options,
            answer.texts,
            rewordings=sample.rewordings,
            relevance=answer.relevance,
        )
        rounds.append(draft)
    return Draft(
        id=sample.id,
        rounds=tuple(rounds),
        images=tuple(benchmark.images.path(image.digest) for image in sample.images),
        where=f"{benchmark.folder}: {sample.id}",
        dialogue=bool(sample.turns),
        context=sample.context,
        regions=sample.regions,
        group=sample.group,
        tags=sample.tags,
        answer_tags=answer_tags,
        rows=origin.rows if origin else (),
        cells=origin.cells if origin else {},
    )


def stratum_of(sample: Sample, answers: Mapping[Key, Answer], by: str = "") -> str:
    """Return the class of a sample, for a draw that takes equally many samples of each class.

    Args:
        sample: The sample.
        answers: The correct answers of its benchmark.
        by: The tag whose value is the class. By default the class is the text of the first correct answer.

    Returns:
        The class. It is empty if there is no such tag or answer, and without `by` also for a dialogue.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> benchmark = open_benchmark("eyechart/colour")
        >>> sample = next(benchmark.samples())
        >>> stratum_of(sample, open_answers(benchmark.folder)) in sample.options
        True
    """
    answer = answers.get((sample.id, 0))
    if by:
        value = sample.tags.get(by, "")
        if not value and answer:
            value = answer.tags.get(by, "")
        return value
    if answer is None or sample.turns:
        return ""
    if answer.options:
        return sample.options[answer.options[0]]
    return answer.texts[0]
