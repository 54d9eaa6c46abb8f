"""Where distractors come from: sources by name, alone or mixed (`near-text:2,random:1`), over what a reader offers.

A reader gives each question that needs options its candidates in tiers. A source puts them in another order, the
hardest first, or draws from all alike. Whatever the source, an answer that is also right is never a distractor.
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
Tiers = Sequence[Sequence[str]]
Ranking = Callable[[Draft, QuestionDraft], Tiers]
"""The candidates of a question in the order in which a source takes them, tier by tier."""


PictureEmbedder = Callable[[Sequence[bytes]], Any]
"""Unit vectors of pictures by a model, a row for each."""


class SourceContext(Struct, frozen=True):
    """What a source may look at."""

    benchmark: str
    seed: int
    drafts: Callable[[], Iterable[Draft]]
    """All questions of the benchmark, read from the beginning each time it is called."""
    embedder: PictureEmbedder | None = None
    """Where there is none, a small descriptor of pictures is used."""
    notes: Counter[str] = field(default_factory=Counter)
    """What the user should know, and of how many questions; a source adds to it."""


DistractorSource = Callable[[SourceContext], Ranking]
"""A source, made ready for a benchmark. Raises DataError, or MissingExtraError, when it cannot work."""


class SourcePart(Struct, frozen=True):
    """A source, and how many distractors it gives at most; 0 for all."""

    name: str
    most: int = 0


def parse_sources(text: str) -> tuple[SourcePart, ...]:
    """The parts of `near-text:2,random:1`. Raises UnknownNameError for an unknown source, and DataError."""
    parts = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, number = part.partition(":")
        if name not in (known := registry.names("distractor_sources")):
            raise registry.unknown("source of distractors", name, known)
        if colon and (not number.isdecimal() or not int(number)):
            raise DataError(f"distractors {part!r}: after the colon stands how many, as in {name}:2")
        parts.append(SourcePart(name, int(number or 0)))
    if len(parts) > 1 and any(part.name == WRITTEN for part in parts):
        raise DataError(f"distractors {text!r}: those that a model writes are not mixed with others; name it alone")
    return tuple(parts)


def open_sources(parts: Sequence[SourcePart], context: SourceContext) -> Callable[[Draft], Draft]:
    """A function that puts the candidates of a draft's questions in the order of the sources."""
    rankings = [(part.most, registry.find("distractor_sources", part.name)(context)) for part in parts]

    def arranged(draft: Draft) -> Draft:
        rng = rng_for(context.benchmark, draft.id, "distractor sources", context.seed)
        rounds = tuple(
            _arranged(draft, question, rankings, rng) if needs_source(question) else question
            for question in draft.rounds
        )
        return replace(draft, rounds=rounds)

    return arranged


def needs_source(question: QuestionDraft) -> bool:
    """Whether a source of distractors has a say in the question."""
    return question.distractors is not None and not question.distractors.closed and bool(question.texts)


def _arranged(
    draft: Draft, question: QuestionDraft, rankings: Sequence[tuple[int, Ranking]], rng: random.Random
) -> QuestionDraft:
    """The question with its candidates in that order. Those of the reader follow where a source has none, and where
    all that the sources give by their numbers may be too few."""
    spec = question.distractors or DistractorSpec()
    if [most for most, _ in rankings] == [0]:
        return replace(question, distractors=replace(spec, tiers=tuple(rankings[0][1](draft, question)) or spec.tiers))
    chosen: list[str] = []
    for most, ranking in rankings:
        chosen += _first(ranking(draft, question), question, chosen, most, rng)
    tiers = (*((candidate,) for candidate in chosen), *spec.tiers)
    return replace(question, distractors=replace(spec, tiers=tiers))


def _first(tiers: Tiers, question: QuestionDraft, before: Sequence[str], most: int, rng: random.Random) -> list[str]:
    """The first `most` candidates that can be distractors beside those chosen before; 0 for a dozen."""
    also_right = question.distractors.also_right if question.distractors else ()
    chosen: list[str] = []
    for candidate in candidates_in(tiers, rng):
        if not rejection_reason(candidate, question.texts, also_right, (*before, *chosen)):
            chosen.append(candidate)
        if len(chosen) == (most or 12):
            break
    return chosen


# --- sources ---------------------------------------------------------------------------------------------------------


def pool(context: SourceContext) -> Ranking:
    """The reader's own tiers: answers of the same kind first."""
    return lambda draft, question: question.distractors.tiers if question.distractors else ()


def random_answers(context: SourceContext) -> Ranking:
    """All candidates alike."""
    return lambda draft, question: (flat_candidates(question),)


def flat_candidates(question: QuestionDraft) -> Sequence[str]:
    """The candidates of all tiers; of one tier the tier itself."""
    tiers = question.distractors.tiers if question.distractors else ()
    if len(tiers) == 1:
        return tiers[0]
    return tuple(dict.fromkeys(candidate for tier in tiers for candidate in tier))


def wordnet_neighbours(context: SourceContext) -> Ranking:
    """Candidates that are nouns of WordNet, the nearest to the answer first; not its synonyms, nor what it is a kind of
    or what is a kind of it (ReForm-Eval A.1)."""
    network = open_wordnet()
    known: dict[str, str] = {}

    def synset(word: str) -> str:
        if word not in known:
            try:
                known[word] = network.noun_synset(word)
            except DataError:
                known[word] = ""
        return known[word]

    def rank(draft: Draft, question: QuestionDraft) -> Tiers:
        gold = synset(question.texts[0])
        if not gold:
            context.notes["an answer is no noun of WordNet, so its distractors are drawn from all"] += 1
            return ()
        words: dict[str, list[str]] = {}
        for word in flat_candidates(question):
            if (found := synset(word)) and not network.is_kind_of(found, gold):
                words.setdefault(found, []).append(word)
        return [[word for name in tier for word in words[name]] for tier in network.by_similarity(gold, words)]

    return rank
