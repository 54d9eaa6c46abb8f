"""A part of a built benchmark as a benchmark of its own: the built folder is the source that it is drawn from.

The reader opens answers, so it stands here; the registry names it as the source `built`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import HISTORY, Benchmark
from snellen.building.builder import Progress, build_benchmark
from snellen.building.recipe import Decisions, Recipe
from snellen.catalogue import BenchmarkSpec, Expected, SourceSpec
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.records import Answer, Sample, SourceRows
from snellen.reformulation.sampling import Sampling
from snellen.scoring.answers import Key, open_answers

Reopened = Literal["options", "distractors"]
"""What of a built benchmark is drawn again from the candidates of its questions."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """What a part is drawn from."""

    of: str
    version: str
    by: str = ""
    """The tag that is balanced by; the answer when empty."""
    reopen: Reopened | Literal[""] = ""
    """What of questions with options a build makes anew: how many there are, their own coming first; or all
    distractors, from the answers to other questions, those to the same question first."""


def reopened(benchmark: Benchmark, name: str, reopen: Reopened) -> BenchmarkSpec:
    """A benchmark with the questions of a built one, whose options are made anew by a recipe: as many as most have."""
    sizes = Counter(
        len(turn.options)
        for sample in benchmark.samples()
        for turn in sample.rounds
        if turn.options
    )
    if not sizes:
        raise DataError(
            f"{benchmark.name} has no multiple-choice questions; there are no options to regenerate"
        )
    params = {"of": benchmark.name, "version": benchmark.manifest.version, "reopen": reopen}
    source = SourceSpec(
        "built", params, drawn_with=benchmark.spec.draw, options=sizes.most_common(1)[0][0]
    )
    return replace(
        benchmark.spec, name=name, source=source, expected=Expected(), complete=Expected()
    )


def draw_subset(
    benchmark: Benchmark,
    sampling: Sampling,
    *,
    name: str,
    by: str = "",
    seed: int = 0,
    to: Path | None = None,
    progress: Progress | None = None,
    decisions: Decisions = MappingProxyType({}),
) -> Benchmark:
    """Build a part of a built benchmark, drawn by a rule, which runs and scores as any other.

    Of those drawn, `decisions` set questions apart; options are what they are, so that one with a distractor to avoid
    is set apart too.

    Rules balance by the answer, or by the tag `by`. The manifest says what it was drawn from, in which
    version, and how. Raises DataError for a name that is the whole's own, a tag that no sample has, or more
    samples than there are.
    """
    whole = benchmark.manifest
    if name == benchmark.name:
        raise DataError(f"a part of {name} needs a name of its own; give another --name")
    names = sorted({*whole.tags, *whole.answer_tags})
    if by and by not in names:
        tag_words = f"its tags are {', '.join(names)}" if names else "it has no tags"
        raise DataError(f"no sample of {benchmark.name} has a tag {by!r}; {tag_words}")
    params = {"of": benchmark.name, "version": whole.version} | ({"by": by} if by else {})
    source = SourceSpec("built", params, sample=sampling)
    spec = replace(
        benchmark.spec, name=name, source=source, expected=Expected(), complete=Expected()
    )
    return build_benchmark(
        spec,
        source=benchmark.folder,
        to=to,
        recipe=Recipe(seed=seed),
        progress=progress,
        decisions=decisions,
    )


def subset_name(whole: str, sampling: Sampling) -> str:
    """`mscoco-count-10p`, `-500`, `-5-each`, `-every-40`: what a part is called unless it is named."""
    if sampling.ratio:
        return f"{whole}-{100 * sampling.ratio:g}p"
    if sampling.each:
        return f"{whole}-{sampling.each}-each"
    return f"{whole}-every-{sampling.step}" if sampling.step else f"{whole}-{sampling.count}"


def read(params: dict[str, Any], source: Path | None) -> Iterator[Draft]:
    """The samples of the built benchmark in the folder `source`, with their answers, as they were built.

    Raises DataError for a folder that holds another benchmark, or another version of it.
    """
    settings = read_params(params, Params)
    if source is None:
        raise DataError(
            f"a part of {settings.of} is drawn from its built folder; name it with --source"
        )
    whole = Benchmark(source)
    if (whole.name, whole.manifest.version) != (settings.of, settings.version):
        raise DataError(
            f"{source} is {whole.name} version {whole.manifest.version}, not {settings.of} version {settings.version}; "
            "draw again with `snellen sample`"
        )
    answers, origins = open_answers(source), whole.origins()
    histories = whole.histories() if (source / HISTORY).exists() else {}
    pools = _answer_pools(whole, answers) if settings.reopen else {}
    for sample in whole.samples():
        draft = _draft(sample, whole, answers, origins.get(sample.id))
        if settings.reopen:
            own_first = settings.reopen == "options"
            draft = replace(
                draft,
                rounds=tuple(_reopen(turn, pools, own_first=own_first) for turn in draft.rounds),
            )
        yield replace(
            draft,
            replies=histories.get(sample.id, ()),
            stratum=stratum_of(sample, answers, settings.by),
        )


ALL_QUESTIONS = ""
"""The pool of the answers to all questions; the others are by the words of their question."""


def _answer_pools(whole: Benchmark, answers: Mapping[Key, Answer]) -> dict[str, tuple[str, ...]]:
    """The distinct answers to questions with options, by the question, and of all."""
    pools: dict[str, dict[str, None]] = defaultdict(dict)
    for sample in whole.samples():
        for number, turn in enumerate(sample.rounds):
            answer = answers.get((sample.id, number))
            golds = (
                [turn.options[place] for place in answer.options] if answer and turn.options else []
            )
            for pool in (turn.question, ALL_QUESTIONS):
                pools[pool] |= dict.fromkeys(golds)
    return {question: tuple(sorted(golds)) for question, golds in pools.items()}


def _reopen(
    turn: QuestionDraft, pools: Mapping[str, tuple[str, ...]], *, own_first: bool
) -> QuestionDraft:
    """A question with options as one that is still to get its distractors; any other as it is."""
    if not turn.options or not turn.gold:
        return turn
    golds = tuple(turn.options[place] for place in turn.gold)
    own = tuple(text for place, text in enumerate(turn.options) if place not in turn.gold)
    tiers = (pools[turn.question], pools[ALL_QUESTIONS])
    spec = DistractorSpec(tiers=(own, *tiers) if own_first else tiers)
    return replace(turn, options=(), gold=(), relevance=(), texts=golds, distractors=spec)


def _draft(
    sample: Sample, whole: Benchmark, answers: Mapping[Key, Answer], origin: SourceRows | None
) -> Draft:
    golds = [
        answers.get((sample.id, turn), Answer(sample.id, turn))
        for turn in range(len(sample.rounds))
    ]
    return Draft(
        id=sample.id,
        rounds=tuple(
            QuestionDraft(
                turn.question,
                turn.options,
                gold.options,
                gold.texts,
                rewordings=sample.rewordings,
                relevance=gold.relevance,
            )
            for turn, gold in zip(sample.rounds, golds, strict=True)
        ),
        images=tuple(whole.images.path(image.digest) for image in sample.images),
        where=f"{whole.folder}: {sample.id}",
        dialogue=bool(sample.turns),
        context=sample.context,
        regions=sample.regions,
        group=sample.group,
        tags=sample.tags,
        answer_tags={name: value for gold in golds for name, value in gold.tags.items()},
        rows=origin.rows if origin else (),
        cells=origin.cells if origin else {},
    )


def stratum_of(sample: Sample, answers: Mapping[Key, Answer], by: str = "") -> str:
    """What a rule balances a sample by: its value of the tag `by`, else the text of its first answer.

    A dialogue, which has many answers, is of no stratum, and neither is a hidden answer.
    """
    answer = answers.get((sample.id, 0))
    if by:
        return sample.tags.get(by) or (answer.tags.get(by, "") if answer else "")
    if answer is None or sample.turns:
        return ""
    return sample.options[answer.options[0]] if answer.options else answer.texts[0]
