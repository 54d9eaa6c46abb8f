"""Turn the drafts of a reader into the questions of a benchmark: sample them, then give them options, as a stream.

Distractors are wrong options. They come from sources such as the answers to other questions, or a writer (a model)
writes them. A stratum is a group of questions that sampling balances, and a decision is what checks or people found of
a question: distractors to avoid, or that it is set apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import setting
from snellen.catalogue import BenchmarkSpec
from snellen.common.drafts import Draft, QuestionDraft
from snellen.common.seeds import rng_for
from snellen.errors import DataError, WrongRowsError
from snellen.records import ItemDecision
from snellen.reformulation.answer_equality import opposite_yes_no
from snellen.reformulation.distractor_sources import (
    WRITTEN,
    ImageEmbedder,
    SourceContext,
    SourcePart,
    needs_source,
    open_sources,
    parse_sources,
)
from snellen.reformulation.distractors import Rejected, to_multiple_choice
from snellen.reformulation.sampling import Sampling, draw_sample, inclusion_probabilities

Decisions = Mapping[str, ItemDecision]
"""Decisions by sample id."""
Drafts = Callable[[], Iterable[Draft]]
"""Function that reads a source from its beginning each time it is called."""
DRAFTS_AT_ONCE = 64
"""Number of drafts that a distractor writer gets at once."""


class DistractorWriter(Protocol):
    """Model that writes distractors."""

    @property
    def name(self) -> str: ...

    def write(
        self, benchmark: str, drafts: Sequence[Draft], count: int, rejected: Rejected
    ) -> list[Draft]:
        """Return the drafts with `count` distractors as the first tier of each question that needs them written.

        Args:
            benchmark: Name of the benchmark.
            drafts: Drafts with at least one such question.
            count: Number of distractors of a question.
            rejected: Counter of rejected candidates by reason, to update.
        """
        ...


class Recipe(Struct, frozen=True):
    """Settings of a build that override those of the entry.

    Examples:
        >>> Recipe(options=3, seed=1).options
        3
    """

    sample: Sampling | None = None
    """Replaces the entry's sampling; `Sampling()` builds the complete benchmark."""
    options: int | None = None
    """Replaces the entry's number of options (ReForm-Eval, Figure 15)."""
    distractors: str = ""
    """Replaces the entry's sources of distractors: `pool`, `random`, `near-text:2,random:1`, `written` ... If neither
    names any, a writer writes the distractors that the paper had a model write."""
    seed: int = 0
    examples: str = ""
    """Questions to set apart as few-shot examples: a number of them, a condition on tags, or `all`."""
    embeddings: str = ""
    """Model that finds similar images, for the source `near-image`."""
    lenient: bool = False
    """Whether rows that cannot be used are skipped and counted, instead of rejecting the source."""


class BuildInputs(Struct, frozen=True, kw_only=True):
    """What goes into a build besides the entry, its files and the recipe.

    Examples:
        >>> BuildInputs(limit=50, origin="photos of the clinic").limit
        50
    """

    writer: DistractorWriter | None = None
    """Writes distractors."""
    embedder: ImageEmbedder | None = None
    """Turns images into unit vectors, for distractors from similar images."""
    decisions: Decisions = MappingProxyType({})
    """Distractors to avoid and questions to set apart, by sample. They are kept in the folder of the benchmark."""
    limit: int | None = None
    """Builds only the samples that a run with this limit uses."""
    origin: str = ""
    """Text that says where the files come from. By default it says whose files they are."""
    may_replace: bool = True
    """Whether the build may replace one with other content that was built from another source."""


class BuildStats(Struct):
    """Statistics of a build."""

    read: int = 0
    """Drafts in the source."""
    complete: int = 0
    """Drafts of the complete benchmark, before sampling."""
    rejected: Rejected = msgspec.field(default_factory=Counter)
    """Rejected candidates for distractors, by reason."""
    notes: list[str] = []
    """Notes about the source carried by drafts that were not chosen."""
    chance: tuple[float, float] | None = None
    """Lowest and highest probability with which a question of the complete benchmark was drawn."""


def reformulate(
    spec: BenchmarkSpec,
    drafts_of_source: Drafts,
    recipe: Recipe,
    writer: DistractorWriter | None,
    stats: BuildStats,
    embedder: ImageEmbedder | None = None,
    decisions: Decisions = MappingProxyType({}),
) -> Iterator[Draft]:
    """Yield the drafts of a benchmark with all distractors.

    The source of a sampled benchmark is read twice: first for the strata, then for the drawn drafts.

    Args:
        spec: The benchmark.
        drafts_of_source: Reads its source.
        recipe: Settings that override those of its entry.
        writer: Model that writes distractors, if any.
        stats: Statistics to update.
        embedder: Model that finds similar images, if any.
        decisions: Distractors to avoid, and questions to set apart.

    Raises:
        DataError: The source has too few samples or candidates, or needs a writer, or a model was given that no source
            of distractors uses.
    """
    n_options = recipe.options or spec.source.options
    parts = parse_sources(recipe.distractors or spec.source.distractors)
    source_names = [part.name for part in parts]
    if writer:
        _check_used("writer", WRITTEN, source_names)
    if embedder:
        _check_used("embeddings", "near-image", source_names)

    drafts = _sampled(spec, drafts_of_source, recipe, stats)
    if source_names == [WRITTEN]:
        # The user or the entry wants all wrong options written, those of questions that name no prompt, too.
        drafts = map(_with_prompt, drafts)
    if source_names in ([], [WRITTEN]):
        drafts = _with_written(drafts, spec, n_options - 1, writer, stats.rejected)
    elif source_names != ["pool"]:
        context = SourceContext(spec.name, recipe.seed, drafts_of_source, embedder)
        drafts = _with_sources(drafts, parts, context, stats, is_asked=bool(recipe.distractors))

    def with_options(draft: Draft, rejected: Rejected) -> Draft:
        """Return a sample whose questions have wrong options, drawn from the candidates that its source provides."""
        rounds: list[QuestionDraft] = []
        for number, question in enumerate(draft.rounds):
            rng = rng_for(spec.name, draft.id, f"options {number}", recipe.seed)
            rounds.append(to_multiple_choice(question, n_options, rng, rejected, draft.where))
        if tuple(rounds) == draft.rounds:
            return draft
        return replace(draft, rounds=tuple(rounds))

    unused = set(decisions)
    for draft in drafts:
        unused.discard(draft.id)
        decision = decisions.get(draft.id)
        if decision is None:
            yield with_options(draft, stats.rejected)
        else:
            yield _apply_decision(draft, decision, with_options, stats.rejected)
    if unused:
        stats.notes.append(
            f"{len(unused)} decisions refer to questions that do not exist, such as {min(unused)}"
        )


def _check_used(flag: str, source: str, source_names: Sequence[str]) -> None:
    """Raise DataError if the user named a model that none of the chosen sources of wrong options uses.

    Args:
        flag: The setting that named the model: `writer` or `embeddings`.
        source: The only source of wrong options that uses such a model.
        source_names: The chosen sources. If there are none, nothing is checked.
    """
    if source_names and source not in source_names:
        raise DataError(
            f"{flag} applies only to the distractor source {source!r}, but the sources are {', '.join(source_names)}"
        )


def _apply_decision(
    draft: Draft,
    decision: ItemDecision,
    with_options: Callable[[Draft, Rejected], Draft],
    rejected: Rejected,
) -> Draft:
    """Return a draft with options, following a decision that a check or a reviewer made about it.

    A decision lists wrong options to avoid, or says that the question is bad. New options are drawn
    without the avoided texts. If that is not possible, or the question is bad, it is marked as set
    apart: it will be stored with the reasons but never asked.

    Args:
        draft: The draft without options.
        decision: The decision.
        with_options: Function that draws the options of a draft.
        rejected: Counter of rejected candidates for wrong options, to update.
    """
    if decision.set_apart:
        return replace(with_options(draft, rejected), set_apart=decision.set_apart)
    rejected_here: Rejected = Counter()
    try:
        repaired = with_options(_exclude_distractors(draft, tuple(decision.avoid)), rejected_here)
    except DataError as error:
        reasons = (*decision.avoid.values(), f"no other distractor: {error}")
        return replace(with_options(draft, rejected), set_apart=reasons)
    if _has_distractor(repaired, decision.avoid):
        reasons = tuple(decision.avoid.values())
        return replace(with_options(draft, rejected), set_apart=reasons)
    rejected.update(rejected_here)
    return repaired


def _has_distractor(draft: Draft, texts: Container[str]) -> bool:
    """Return whether any of `texts` is a wrong option in one of the draft's questions."""
    for question in draft.rounds:
        for index, option in enumerate(question.options):
            if option in texts and index not in question.gold:
                return True
    return False


def _exclude_distractors(draft: Draft, texts: tuple[str, ...]) -> Draft:
    """Return a draft whose questions never get one of `texts` as a wrong option.

    They are treated like correct answers, which are no wrong options either.
    """
    rounds: list[QuestionDraft] = []
    for question in draft.rounds:
        distractors = question.distractors
        if distractors:
            also_correct = (*distractors.also_right, *texts)
            restricted = replace(distractors, also_right=also_correct)
            question = replace(question, distractors=restricted)
        rounds.append(question)
    return replace(draft, rounds=tuple(rounds))


def _sampled(
    spec: BenchmarkSpec, drafts_of_source: Drafts, recipe: Recipe, stats: BuildStats
) -> Iterator[Draft]:
    """Yield the drafts of a source that will be evaluated.

    Two rules of the entry choose them: `select` reduces the source to the complete benchmark, and
    `sample` draws from that. Notes of drafts that are not chosen are added to `stats`.
    """
    select = spec.source.select
    sample = spec.source.sample if recipe.sample is None else recipe.sample
    if select.rule == sample.rule == "all":
        for draft in drafts_of_source():
            stats.read += 1
            stats.complete += 1
            yield draft
        return

    try:
        strata = [draft.stratum for draft in drafts_of_source()]
    except WrongRowsError:
        # Nothing is drawn from such a source. All of it is read, so that errors also name wrong images.
        yield from drafts_of_source()
        return
    stats.read = len(strata)
    complete = draw_sample(strata, select, spec.draw, "select", recipe.seed)
    stats.complete = len(complete)
    complete_strata = [strata[index] for index in complete]
    sampled = draw_sample(complete_strata, sample, spec.draw, "sample", recipe.seed)
    if sampled and sample.rule != "all":
        probabilities = inclusion_probabilities(complete_strata, sample).values()
        stats.chance = (min(probabilities), max(probabilities))

    indices = iter([complete[index] for index in sampled])
    del strata, complete, complete_strata, sampled  # large while the source is read again
    next_index = next(indices, None)
    for index, draft in enumerate(drafts_of_source()):
        if index == next_index:
            yield draft
            next_index = next(indices, None)
        else:
            stats.notes += draft.notes


def _with_prompt(draft: Draft) -> Draft:
    """Mark each question of a draft that has too few wrong options, so that a model writes them.

    The mark is the name of the prompt by which the model is asked. Questions without a prompt of their own get the
    one called `options`.
    """
    rounds: list[QuestionDraft] = []
    for question in draft.rounds:
        distractors = question.distractors
        if distractors and needs_source(question):
            prompt = distractors.prompt or "options"
            question = replace(question, distractors=replace(distractors, prompt=prompt))
        rounds.append(question)
    return replace(draft, rounds=tuple(rounds))


def _with_sources(
    drafts: Iterator[Draft],
    parts: Sequence[SourcePart],
    context: SourceContext,
    stats: BuildStats,
    *,
    is_asked: bool,
) -> Iterator[Draft]:
    """Add wrong options to choose from to each question that has too few, from sources such as other questions.

    Candidates of the first source come first.

    Args:
        drafts: The samples.
        parts: The sources.
        context: What the sources draw from.
        stats: Statistics of the build, which are updated.
        is_asked: Whether the user chose the sources, rather than the benchmark entry.

    Raises:
        DataError: The user chose the sources, but no question needs wrong options.
    """
    with_candidates = open_sources(parts, context)
    has_use = False
    for draft in drafts:
        has_use = has_use or any(needs_source(question) for question in draft.rounds)
        yield with_candidates(draft)
    if is_asked and not has_use:
        source_names = ", ".join(part.name for part in parts)
        raise DataError(
            f"distractors {source_names}: no question of {context.benchmark} needs distractors; remove it"
        )
    for note, count in sorted(context.notes.items()):
        stats.notes.append(f"{note}: {count:,} times")


def _with_written(
    drafts: Iterator[Draft],
    spec: BenchmarkSpec,
    count: int,
    writer: DistractorWriter | None,
    rejected: Rejected,
) -> Iterator[Draft]:
    """Yield the drafts, with wrong options that a model has written for the questions that need
    them.

    Args:
        drafts: The drafts, which are processed `DRAFTS_AT_ONCE` at a time.
        spec: The benchmark.
        count: Number of wrong options for each question.
        writer: The model that writes them.
        rejected: Counter of rejected candidates, to update.

    Raises:
        DataError: A question needs a writer, but none was given.
    """
    for window in _windows(drafts):
        unwritten: list[Draft] = []
        for draft in window:
            if any(needs_writing(question) for question in draft.rounds):
                unwritten.append(draft)
        if not unwritten:
            yield from window
            continue
        if writer is None:
            raise DataError(
                f"{unwritten[0].where}: a model writes the distractors of {spec.name}; name one with "
                f"{setting('writer', 'MODEL')}, "
                f"or draw them from the answers to other questions with {setting('distractors', 'pool')}"
            )
        written = {draft.id: draft for draft in writer.write(spec.name, unwritten, count, rejected)}
        for draft in window:
            yield written.get(draft.id, draft)


def _windows(drafts: Iterator[Draft]) -> Iterator[list[Draft]]:
    """Yield the drafts in lists of `DRAFTS_AT_ONCE`, the last of which may be shorter.

    If the source turns out to have wrong rows, it will be rejected, so no model should be asked for
    its last drafts. They are yielded as questions that need no wrong options, and then the error is
    raised. Yielding them lets the caller find their own faults too.
    """
    window: list[Draft] = []
    try:
        for draft in drafts:
            window.append(draft)
            if len(window) == DRAFTS_AT_ONCE:
                yield window
                window = []
    except WrongRowsError:
        yield [_without_distractors(draft) for draft in window]
        raise
    if window:
        yield window


def _without_distractors(draft: Draft) -> Draft:
    rounds = tuple(replace(question, distractors=None) for question in draft.rounds)
    return replace(draft, rounds=rounds)


def needs_writing(question: QuestionDraft) -> bool:
    """Return whether a model must write wrong options for a question.

    That is so if the question names a prompt for it and has a known answer. A yes/no question needs no written
    options, because its only wrong option is the opposite, unless it is to have further ones (`fillers`).
    """
    distractors = question.distractors
    if distractors is None or not distractors.prompt or not question.texts:
        return False
    is_yes_no = opposite_yes_no(question.texts[0]) is not None
    return bool(distractors.fillers) or not is_yes_no
