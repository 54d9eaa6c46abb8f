"""Where distractors come from: sources by name, alone or mixed (`near-text:2,random:1`), over a reader's candidates.

A source orders the candidates of a question, the hardest first, or treats all alike. Those that need WordNet are here;
those that compare texts or images are in `near_distractors` and `near_meaning`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from snellen import registry
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.reformulation.distractors import candidates_in, rejection_reason
from snellen.reformulation.wordnet import open_wordnet

WRITTEN = "written"
"""The source that is a model: its distractors come before the tiers."""
DEFAULT_MOST = 12
"""Distractors that a source gives at most if it is mixed with others and names no number."""
NOT_A_NOUN = "an answer is not a noun of WordNet, so its distractors are drawn from all"
"""Note for the user about questions for which `wordnet_neighbours` has no candidates."""
Tiers = Sequence[Sequence[str]]
"""Candidates in tiers, the nearest first."""
DistractorRanking = Callable[[Draft, QuestionDraft], Tiers]
"""Function from a question to its candidates in the order in which a source takes them, tier by tier."""
ImageEmbedder = Callable[[Sequence[bytes]], Any]
"""Function from image files to unit vectors, an array with a row per image."""


class SourceContext(Struct, frozen=True):
    """What a source of wrong options (distractors) can use to choose them."""

    benchmark: str
    seed: int
    drafts: Callable[[], Iterable[Draft]]
    """All questions of the benchmark, read from the beginning each time it is called."""
    embedder: ImageEmbedder | None = None
    """Embeds images; if None, a small descriptor of them is used."""
    notes: Counter[str] = field(default_factory=Counter)
    """Notes for the user, each with the number of questions that it is about; a source adds to it."""


class SourcePart(Struct, frozen=True):
    """A source by name, and how many distractors it gives at most; 0 for all."""

    name: str
    most: int = 0


def parse_sources(text: str) -> tuple[SourcePart, ...]:
    """Parse where wrong options come from: `near-text:2,random:1` means two of `near-text`, then one of `random`.

    Raises:
        UnknownNameError: A source does not exist.
        DataError: A number is wrong, or `written` is mixed with others.
    """
    known_sources = registry.names("distractor_sources")
    parts = []
    for item in text.split(","):
        part = item.strip()
        if not part:
            continue
        name, colon, number = part.partition(":")
        if name not in known_sources:
            raise registry.unknown_name("source of distractors", name, known_sources)
        is_positive = number.isdecimal() and int(number) > 0
        if colon and not is_positive:
            raise DataError(
                f"distractors {part!r}: after the colon stands how many, as in {name}:2"
            )
        parts.append(SourcePart(name, int(number or 0)))
    if len(parts) > 1 and any(part.name == WRITTEN for part in parts):
        raise DataError(
            f"distractors {text!r}: those that a model writes are not mixed with others; name it alone"
        )
    return tuple(parts)


def open_sources(parts: Sequence[SourcePart], context: SourceContext) -> Callable[[Draft], Draft]:
    """Return a function that takes a draft (a sample before its options are drawn) and adds
    candidates for wrong options to its questions.

    The function returns the draft with these candidates. It leaves questions as they are that need
    none: those with fixed options or without a known answer.

    Args:
        parts: The sources of candidates, such as `near-text:2,random:1` (two similar answers of
            other questions, and a random one), in order of preference.
        context: What the sources draw from: the benchmark, all its drafts and the seed.
    """
    rankings: list[tuple[int, DistractorRanking]] = []
    for part in parts:
        source = registry.find_registered("distractor_sources", part.name)
        rankings.append((part.most, source(context)))

    def with_distractors(draft: Draft) -> Draft:
        """Return a draft whose questions have the candidates of the sources."""
        rng = rng_for(context.benchmark, draft.id, "distractor sources", context.seed)
        rounds = []
        for question in draft.rounds:
            if needs_source(question):
                question = _ordered_question(draft, question, rankings, rng)
            rounds.append(question)
        return replace(draft, rounds=tuple(rounds))

    return with_distractors


def needs_source(question: QuestionDraft) -> bool:
    """Return whether a source of distractors can change a question."""
    if question.distractors is None or question.distractors.closed:
        return False
    return bool(question.texts)


def _ordered_question(
    draft: Draft,
    question: QuestionDraft,
    rankings: Sequence[tuple[int, DistractorRanking]],
    rng: random.Random,
) -> QuestionDraft:
    """Return the question with distractor candidates from the sources, in the order of the sources.

    A question offers its candidates in groups (`tiers`), and a later group is drawn from only if the earlier ones are
    too small. A single source without a number gives all its groups; if it gives none, those of the reader stay.
    Otherwise each source adds up to its number of candidates, and the groups of the reader follow, as these may be too
    few.

    Args:
        draft: The image and the questions on it.
        question: The question to complete.
        rankings: The sources, each with its number of candidates, where 0 means no number.
        rng: Source of randomness for draws.
    """
    spec = question.distractors or DistractorSpec()
    if len(rankings) == 1:
        [(max_count, ranking)] = rankings
        if max_count == 0:
            tiers = tuple(ranking(draft, question)) or spec.tiers
            return replace(question, distractors=replace(spec, tiers=tiers))

    distractors: list[str] = []
    for max_count, ranking in rankings:
        _add_distractors(
            distractors, ranking(draft, question), question, max_count or DEFAULT_MOST, rng
        )
    own_tiers = [(candidate,) for candidate in distractors]
    return replace(question, distractors=replace(spec, tiers=(*own_tiers, *spec.tiers)))


def _add_distractors(
    distractors: list[str],
    tiers: Tiers,
    question: QuestionDraft,
    max_count: int,
    rng: random.Random,
) -> None:
    """Add candidates of some tiers to the chosen distractors, next to which they can be distractors.

    Args:
        distractors: The chosen distractors, which are changed.
        tiers: The candidates.
        question: The question.
        max_count: Number of candidates to add at most.
        rng: Draws candidates within a tier.
    """
    also_right = question.distractors.also_right if question.distractors else ()
    added = 0
    for candidate in candidates_in(tiers, rng):
        if not rejection_reason(candidate, question.texts, also_right, distractors):
            distractors.append(candidate)
            added += 1
        if added == max_count:
            break


# --- sources ---------------------------------------------------------------------------------------------------------


def pool(context: SourceContext) -> DistractorRanking:
    """Return a source that keeps the groups of candidates that the reader made: answers of the same kind first."""
    return lambda draft, question: question.distractors.tiers if question.distractors else ()


def random_answers(context: SourceContext) -> DistractorRanking:
    """Return a source that puts all candidates into one group, so that wrong options are drawn at random."""
    return lambda draft, question: (flat_candidates(question),)


def flat_candidates(question: QuestionDraft) -> Sequence[str]:
    """Return the different candidates of all tiers; if there is one tier, the tier itself."""
    tiers = question.distractors.tiers if question.distractors else ()
    if len(tiers) == 1:
        return tiers[0]
    candidates: dict[str, None] = {}
    for tier in tiers:
        candidates.update(dict.fromkeys(tier))
    return tuple(candidates)


def wordnet_neighbours(context: SourceContext) -> DistractorRanking:
    """Rank candidates that are nouns of WordNet, the nearest to the answer first (ReForm-Eval A.1).

    Synonyms of the answer, kinds of it, and what it is a kind of are left out.
    """
    network = open_wordnet()
    synsets: dict[str, str] = {}

    def synset_of(word: str) -> str:
        """Return the synset of a noun; empty for another word."""
        if word not in synsets:
            try:
                synsets[word] = network.noun_synset(word)
            except DataError:
                synsets[word] = ""
        return synsets[word]

    def rank(draft: Draft, question: QuestionDraft) -> Tiers:
        """Rank the candidates of a question by their similarity to the answer in WordNet, the most similar group first.

        Candidates that are kinds of the answer (a poodle for "dog") are left out.
        """
        gold = synset_of(question.texts[0])
        if not gold:
            context.notes[NOT_A_NOUN] += 1
            return ()
        words_by_synset: dict[str, list[str]] = {}
        for word in flat_candidates(question):
            synset = synset_of(word)
            if synset and not network.is_kind_of(synset, gold):
                words_by_synset.setdefault(synset, []).append(word)

        tiers = []
        for similar_synsets in network.by_similarity(gold, words_by_synset):
            tier: list[str] = []
            for synset in similar_synsets:
                tier.extend(words_by_synset[synset])
            tiers.append(tier)
        return tiers

    return rank
