"""From a reader's drafts to the questions of a benchmark: sampled, then made multiple choice, as a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue import BenchmarkSpec
from snellen.common.drafts import Draft, QuestionDraft
from snellen.common.seeds import rng_for
from snellen.errors import DataError, WrongRowsError
from snellen.records import ItemDecision
from snellen.reformulation.answer_equality import opposite_yes_no
from snellen.reformulation.distractors import (
    WRITTEN,
    PictureEmbedder,
    Rejected,
    SourceContext,
    SourcePart,
    needs_source,
    open_sources,
    parse_sources,
    to_multiple_choice,
)
from snellen.reformulation.sampling import Sampling, draw_sample, inclusion_probabilities

Decisions = Mapping[str, ItemDecision]
"""By sample: which distractors are not to be used, and which questions are set apart."""
Drafts = Callable[[], Iterable[Draft]]
"""Reads a source from its beginning each time it is called."""
WINDOW = 64
"""Drafts passed to a distractor writer at once."""


class DistractorWriter(Protocol):
    """Writes distractors where the paper had a model write them."""

    @property
    def name(self) -> str: ...

    def write(
        self, benchmark: str, drafts: Sequence[Draft], count: int, rejected: Rejected
    ) -> list[Draft]:
        """The drafts with `count` distractors as the first tier of each round that needs them written."""
        ...


class Recipe(Struct, frozen=True):
    """Settings of a build that override those of the entry."""

    sample: Sampling | None = None
    """Replaces the entry's sampling; `Sampling()` builds the complete benchmark."""
    options: int | None = None
    """Replaces the entry's number of options (ReForm-Eval, Figure 15)."""
    distractors: str = ""
    """Replaces the entry's sources of distractors: `pool`, `random`, `near-text:2,random:1`, `written` ... Where it is
    empty and the entry names none, they are written where the paper had a model write them."""
    seed: int = 0
    examples: str = ""
    """Which questions are set apart as few-shot examples: a number of them, a condition on tags, or `all`."""
    embeddings: str = ""
    """The model that told which pictures are alike, for the source `near-picture`."""
    lenient: bool = False
    """Whether rows that cannot be used are left out and counted, instead of refusing the whole source."""


class BuildStats(Struct):
    """Statistics of a build: how many drafts there were, and how many candidates were rejected for which reason."""

    read: int = 0
    complete: int = 0
    rejected: Rejected = msgspec.field(default_factory=Counter)
    notes: list[str] = []
    """Notes about the source carried by drafts that were not chosen."""
    chance: tuple[float, float] | None = None
    """The lowest and the highest probability with which a question of the complete benchmark was drawn."""


def reformulate(
    spec: BenchmarkSpec,
    drafts_of_source: Drafts,
    recipe: Recipe,
    writer: DistractorWriter | None,
    stats: BuildStats,
    embedder: PictureEmbedder | None = None,
    decisions: Decisions = MappingProxyType({}),
) -> Iterator[Draft]:
    """The drafts of a benchmark, with all distractors in place; those that `decisions` set apart say why.

    The source of a sampled benchmark is read twice: first for the strata, then for the chosen drafts. Raises
    DataError for a source that has too few samples or candidates, or that needs a writer.
    """
    count = recipe.options or spec.source.options
    parts = parse_sources(recipe.distractors or spec.source.distractors)
    drafts = _sampled(spec, drafts_of_source, recipe, stats)
    names = [part.name for part in parts]
    for model, source, flag in (
        (writer, WRITTEN, "writer"),
        (embedder, "near-picture", "embeddings"),
    ):
        if model and names and source not in names:
            raise DataError(
                f"{flag}: is for the source of distractors {source!r}, and these are {', '.join(names)}"
            )
    if names in ([], [WRITTEN]):
        drafts = map(_to_be_written, drafts) if names else drafts
        drafts = _with_distractors(drafts, spec, count - 1, writer, stats.rejected)
    elif names != ["pool"]:
        context = SourceContext(spec.name, recipe.seed, drafts_of_source, embedder)
        drafts = _with_sources(drafts, parts, context, stats, is_asked=bool(recipe.distractors))

    def with_options(draft: Draft, rejected: Rejected) -> Draft:
        rounds = tuple(
            to_multiple_choice(
                question,
                count,
                rng_for(spec.name, draft.id, f"options {number}", recipe.seed),
                rejected,
                draft.where,
            )
            for number, question in enumerate(draft.rounds)
        )
        return replace(draft, rounds=rounds) if draft.rounds != rounds else draft

    undecided = set(decisions)
    for draft in drafts:
        undecided.discard(draft.id)
        if (decision := decisions.get(draft.id)) is None:
            yield with_options(draft, stats.rejected)
        else:
            yield _decided(draft, decision, with_options, stats.rejected)
    if undecided:
        stats.notes.append(
            f"{len(undecided)} decisions are about questions that are not here, such as {min(undecided)}"
        )


def _decided(
    draft: Draft,
    decision: ItemDecision,
    with_options: Callable[[Draft, Rejected], Draft],
    rejected: Rejected,
) -> Draft:
    """The draft with other distractors than those to be avoided; set apart where there are none, or for itself."""
    if decision.set_apart:
        return replace(with_options(draft, rejected), set_apart=decision.set_apart)
    tried: Rejected = Counter()
    try:
        mended = with_options(_avoiding(draft, tuple(decision.avoid)), tried)
        if not any(
            text in decision.avoid and place not in question.gold
            for question in mended.rounds
            for place, text in enumerate(question.options)
        ):
            rejected.update(tried)
            return mended
        reasons = tuple(decision.avoid.values())
    except DataError as error:
        reasons = (*decision.avoid.values(), f"no other distractor: {error}")
    return replace(with_options(draft, rejected), set_apart=reasons)


def _avoiding(draft: Draft, texts: tuple[str, ...]) -> Draft:
    """The draft, whose distractors are to be others than these texts."""
    rounds = tuple(
        replace(question, distractors=replace(spec, also_right=(*spec.also_right, *texts)))
        if (spec := question.distractors)
        else question
        for question in draft.rounds
    )
    return replace(draft, rounds=rounds)


def _sampled(
    spec: BenchmarkSpec, drafts_of_source: Drafts, recipe: Recipe, stats: BuildStats
) -> Iterator[Draft]:
    select, sample = (
        spec.source.select,
        spec.source.sample if recipe.sample is None else recipe.sample,
    )
    if select.rule == sample.rule == "all":
        for draft in drafts_of_source():
            stats.read += 1
            stats.complete += 1
            yield draft
        return
    try:
        strata = [draft.stratum for draft in drafts_of_source()]
    except WrongRowsError:
        # Nothing is drawn from such a source: all of it is looked at, so that pictures that are wrong are named too.
        yield from drafts_of_source()
        return
    stats.read = len(strata)
    complete = draw_sample(strata, select, spec.draw, "select", recipe.seed)
    stats.complete = len(complete)
    of_complete = [strata[place] for place in complete]
    chosen = draw_sample(of_complete, sample, spec.draw, "sample", recipe.seed)
    if chosen and sample.rule != "all":
        chances = inclusion_probabilities(of_complete, sample).values()
        stats.chance = (min(chances), max(chances))
    places = iter([complete[place] for place in chosen])
    del strata, complete, of_complete, chosen
    next_place = next(places, None)
    for place, draft in enumerate(drafts_of_source()):
        if place == next_place:
            yield draft
            next_place = next(places, None)
        else:
            stats.notes += draft.notes


def _to_be_written(draft: Draft) -> Draft:
    """The draft with a writer's prompt for each question whose distractors are made."""
    rounds = tuple(
        replace(
            question,
            distractors=replace(
                question.distractors, prompt=question.distractors.prompt or "options"
            ),
        )
        if question.distractors and needs_source(question)
        else question
        for question in draft.rounds
    )
    return replace(draft, rounds=rounds)


def _with_sources(
    drafts: Iterator[Draft],
    parts: Sequence[SourcePart],
    context: SourceContext,
    stats: BuildStats,
    *,
    is_asked: bool,
) -> Iterator[Draft]:
    """The drafts with their candidates in the order of the sources. Raises DataError where sources that the user asked
    for have no say in any question."""
    arranged, has_say = open_sources(parts, context), False
    for draft in drafts:
        has_say = has_say or any(map(needs_source, draft.rounds))
        yield arranged(draft)
    if is_asked and not has_say:
        source_names = ", ".join(part.name for part in parts)
        raise DataError(
            f"distractors {source_names}: no question of {context.benchmark} has distractors to be made; leave it out"
        )
    stats.notes += [f"{why}: {number:,} times" for why, number in sorted(context.notes.items())]


def _with_distractors(
    drafts: Iterator[Draft],
    spec: BenchmarkSpec,
    count: int,
    writer: DistractorWriter | None,
    rejected: Rejected,
) -> Iterator[Draft]:
    """The drafts with `count` written distractors where they need them, one window of drafts at a time."""
    for window in _windows(drafts):
        asking = [
            draft for draft in window if any(needs_writing(question) for question in draft.rounds)
        ]
        if asking and writer is None:
            raise DataError(
                f"{asking[0].where}: the distractors of {spec.name} are written by a model; name one with --writer "
                "MODEL, or draw them from the answers of other questions with --distractors pool"
            )
        completed = writer.write(spec.name, asking, count, rejected) if asking and writer else []
        by_id = {draft.id: draft for draft in completed}
        yield from (by_id.get(draft.id, draft) for draft in window)


def _windows(drafts: Iterator[Draft]) -> Iterator[list[Draft]]:
    """The drafts in lists; those before wrong rows come too, so that what is wrong with them is named as well."""
    window: list[Draft] = []
    try:
        for draft in drafts:
            window.append(draft)
            if len(window) == WINDOW:
                yield window
                window = []
    except WrongRowsError:
        # Nothing is written for a source that will be refused.
        yield [
            replace(draft, rounds=tuple(replace(r, distractors=None) for r in draft.rounds))
            for draft in window
        ]
        raise
    if window:
        yield window


def needs_writing(question: QuestionDraft) -> bool:
    """Whether a model must write the question's distractors; a yes/no question needs none unless it has fillers."""
    spec = question.distractors
    if spec is None or not spec.prompt or not question.texts:
        return False
    return bool(spec.fillers) or opposite_yes_no(question.texts[0]) is None
