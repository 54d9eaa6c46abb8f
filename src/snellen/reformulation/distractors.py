"""Making a question multiple choice: distractors from tiers of candidates, filtered, fixed at build time.

Where distractors come from: sources by name, alone or mixed (`near-text:2,random:1`), over what a reader offers.

A reader gives each question that needs options its candidates in tiers. A source puts them in another order, the
hardest first, or draws from all alike. Whatever the source, an answer that is also right is never a distractor.

Hard ones read like the right answer, or are answers of pictures that look alike; no model is needed.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from snellen import registry
from snellen.common.decoding import decode_image
from snellen.common.drafts import (
    DistractorSpec,
    Draft,
    LazyFrames,
    LazyImage,
    PictureSpec,
    QuestionDraft,
)
from snellen.common.drawing import image_content
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.reformulation.answer_equality import fold_answer, opposite_yes_no, same_answer
from snellen.reformulation.wordnet import open_wordnet

if TYPE_CHECKING:
    import numpy as np

Rejected = Counter[str]
"""How many candidates were rejected, by reason."""
ENOUGH = 200
"""Candidates of a tier to look at before it counts as exhausted."""


def to_multiple_choice(
    question: QuestionDraft, count: int, rng: random.Random, rejected: Rejected, where: str
) -> QuestionDraft:
    """The question with `count` options, the gold among them in a position drawn by `rng`.

    The gold is the first of its answer texts. Distractors come from its tiers, nearest first and at random
    within a tier, then from its fillers. A candidate that means the same as an accepted answer or an earlier
    option is rejected and counted. A yes/no question gets the opposite answer, unless it has fillers. Raises
    DataError, naming `where`, when there are too few candidates.
    """
    spec = question.distractors
    if spec is None:
        return question
    if not question.texts:
        raise DataError(
            f"{where}: no answer to make options for; a split with hidden answers needs its own options"
        )
    gold = question.texts[0]
    yes_or_no = opposite_yes_no(gold)
    if yes_or_no is not None and not spec.fillers:
        return _settled(question, [gold, yes_or_no], rng)
    chosen: list[str] = []
    for candidate in chain(candidates_in(spec.tiers, rng), spec.fillers):
        if len(chosen) == count - 1:
            break
        if candidate == gold:
            continue  # a pool of answers contains the gold itself
        reason = rejection_reason(candidate, question.texts, spec.also_right, chosen)
        if reason:
            rejected[reason] += 1
        else:
            chosen.append(candidate)
    if len(chosen) < count - 1 and not spec.allow_fewer:
        raise DataError(
            f"{where}: {count - 1} distractors are wanted for {gold!r}, the source has {len(chosen)} that fit; "
            "ask for fewer options"
        )
    if not chosen:
        raise DataError(f"{where}: no distractor for {gold!r} in the source")
    return _settled(question, [gold, *chosen], rng)


def candidates_in(tiers: Iterable[Sequence[str]], rng: random.Random) -> Iterator[str]:
    """Candidates one by one, nearest tier first, at random within a tier."""
    for tier in tiers:
        # Most questions need only a few candidates of a large tier, so it is drawn from rather than shuffled.
        drawn_places: set[int] = set()
        while len(drawn_places) < min(len(tier), ENOUGH):
            place = rng.randrange(len(tier))
            if place not in drawn_places:
                drawn_places.add(place)
                yield tier[place]


SameAnswer = Callable[[str, str], bool]
"""Whether two answers mean the same."""


def rejection_reason(
    candidate: str,
    accepted: Sequence[str],
    avoid: Sequence[str],
    chosen: Sequence[str],
    is_same: SameAnswer = same_answer,
) -> str:
    """Why a candidate cannot be a distractor; empty when it can."""
    if not candidate.strip():
        return "empty"
    if is_same(candidate, accepted[0]):
        return "says the same as the answer"
    if any(is_same(candidate, text) for text in (*accepted[1:], *avoid)):
        return "accepted by an annotator"
    if any(is_same(candidate, text) for text in chosen):
        return "says the same as another option"
    return ""


def _settled(question: QuestionDraft, options: list[str], rng: random.Random) -> QuestionDraft:
    gold = options[0]
    shuffled = rng.sample(options, len(options))
    return replace(
        question, options=tuple(shuffled), gold=(shuffled.index(gold),), texts=(), distractors=None
    )


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


class SourcePart(Struct, frozen=True):
    """A source, and how many distractors it gives at most; 0 for all."""

    name: str
    most: int = 0


def parse_sources(text: str) -> tuple[SourcePart, ...]:
    """The parts of `near-text:2,random:1`. Raises UnknownNameError for an unknown source, and DataError."""
    parts = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, number = part.partition(":")
        if name not in (sources := registry.names("distractor_sources")):
            raise registry.unknown("source of distractors", name, sources)
        if colon and (not number.isdecimal() or not int(number)):
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
    """A function that puts the candidates of a draft's questions in the order of the sources."""
    rankings = [
        (part.most, registry.find("distractor_sources", part.name)(context)) for part in parts
    ]

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
    return (
        question.distractors is not None
        and not question.distractors.closed
        and bool(question.texts)
    )


def _arranged(
    draft: Draft,
    question: QuestionDraft,
    rankings: Sequence[tuple[int, Ranking]],
    rng: random.Random,
) -> QuestionDraft:
    """The question with its candidates in that order. Those of the reader follow where a source has none, and where
    all that the sources give by their numbers may be too few."""
    spec = question.distractors or DistractorSpec()
    if [most for most, _ in rankings] == [0]:
        return replace(
            question,
            distractors=replace(spec, tiers=tuple(rankings[0][1](draft, question)) or spec.tiers),
        )
    chosen: list[str] = []
    for most, ranking in rankings:
        chosen += _first(ranking(draft, question), question, chosen, most, rng)
    tiers = (*((candidate,) for candidate in chosen), *spec.tiers)
    return replace(question, distractors=replace(spec, tiers=tiers))


def _first(
    tiers: Tiers, question: QuestionDraft, before: Sequence[str], most: int, rng: random.Random
) -> list[str]:
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
    synsets: dict[str, str] = {}

    def synset(word: str) -> str:
        if word not in synsets:
            try:
                synsets[word] = network.noun_synset(word)
            except DataError:
                synsets[word] = ""
        return synsets[word]

    def rank(draft: Draft, question: QuestionDraft) -> Tiers:
        gold = synset(question.texts[0])
        if not gold:
            context.notes[
                "an answer is not a noun of WordNet, so its distractors are drawn from all"
            ] += 1
            return ()
        words: dict[str, list[str]] = {}
        for word in flat_candidates(question):
            if (candidate := synset(word)) and not network.is_kind_of(candidate, gold):
                words.setdefault(candidate, []).append(word)
        return [
            [word for name in tier for word in words[name]]
            for tier in network.by_similarity(gold, words)
        ]

    return rank


PreparedT = TypeVar("PreparedT")
COLUMNS = 256
"""Numbers of a text's vector: its words, pairs of words and runs of three letters, hashed."""
LARGEST_POOL = 20_000
"""Candidates that are compared with an answer; of a larger pool as many, drawn at random once."""
NEAREST = 50
"""Candidates that are ranked for a question."""
BATCH = 64
"""Pictures that are embedded together."""
POOLS = 16
"""Pools of candidates whose vectors are kept."""
SIDE = 16
"""Pixels along each side of the small picture that stands for one."""


def near_text(context: SourceContext) -> Ranking:
    """Candidates by how alike their words and letters are to those of the answer."""
    return rank_by_vectors(context, text_vectors)


def rank_by_vectors(context: SourceContext, vectors_of: Callable[[Sequence[str]], Any]) -> Ranking:
    """Candidates by the cosine of their vectors with that of the answer, by `vectors_of`: a row of unit length each."""

    def prepared(candidates: Sequence[str]) -> tuple[Sequence[str], Any, dict[str, Tiers]]:
        texts = candidates
        if len(texts) > LARGEST_POOL:
            texts = rng_for(context.benchmark, len(texts), "near text", context.seed).sample(
                texts, LARGEST_POOL
            )
        return texts, vectors_of(texts), {}

    pool_of = _by_pool(prepared)

    def rank(draft: Draft, question: QuestionDraft) -> Tiers:
        (texts, vectors, ranked), gold = pool_of(question), question.texts[0]
        if gold not in ranked:
            ranked[gold] = _nearest(texts, vectors, gold, vectors_of)
        return ranked[gold]

    return rank


def _by_pool(prepare: Callable[[Sequence[str]], PreparedT]) -> Callable[[QuestionDraft], PreparedT]:
    """What `prepare` makes of a question's candidates, kept for the next questions that have the same tiers."""
    cache: OrderedDict[tuple[int, ...], tuple[Tiers, PreparedT]] = OrderedDict()

    def of_question(question: QuestionDraft) -> PreparedT:
        tiers = question.distractors.tiers if question.distractors else ()
        key = tuple(map(id, tiers))  # the tiers are kept too, so that no other one gets their ids
        if key not in cache:
            cache[key] = (tiers, prepare(flat_candidates(question)))
        cache.move_to_end(key)
        while len(cache) > POOLS:
            cache.popitem(last=False)
        return cache[key][1]

    return of_question


def _nearest(
    texts: Sequence[str], vectors: Any, gold: str, vectors_of: Callable[[Sequence[str]], Any]
) -> Tiers:
    import numpy as np

    if not texts:
        return ()
    # Rounded, so that another order of adding up changes no rank.
    scores = np.round(vectors @ vectors_of([gold])[0], 4)
    return [(texts[place],) for place in np.argsort(-scores, kind="stable")[:NEAREST]]


def text_vectors(texts: Sequence[str]) -> np.ndarray:
    """Unit vectors of texts, a row each; texts that share rare or many features are near."""
    import numpy as np

    counts = np.zeros((len(texts), COLUMNS), dtype=np.float32)
    for row, text in enumerate(texts):
        words = fold_answer(text).split()
        spelled = f" {' '.join(words)} "
        features = [*words, *(" ".join(pair) for pair in pairwise(words))]
        features += [spelled[place : place + 3] for place in range(len(spelled) - 2)]
        for feature in features:
            counts[row, zlib.crc32(feature.encode()) % COLUMNS] += 1
    lengths = np.linalg.norm(counts, axis=1, keepdims=True)
    return counts / np.where(lengths == 0, 1, lengths)


def near_picture(context: SourceContext) -> Ranking:
    """Answers of other questions whose pictures look alike, the most alike first; of answers that are candidates.

    Reads every picture of the source once.
    """
    import numpy as np

    vectors_of = context.embedder or picture_descriptors
    places: dict[Hashable, int] = {}
    answers: list[list[str]] = []
    contents: list[bytes] = []
    parts: list[Any] = []
    for draft in context.drafts():
        texts = [question.texts[0] for question in draft.rounds if needs_source(question)]
        if not texts or not draft.images:
            continue
        key = _picture_key(draft)
        if key not in places:
            places[key] = len(places)
            contents.append(_shown_part(draft))
            answers.append([])
            if len(contents) == BATCH:
                parts.append(vectors_of(contents))
                contents = []
        answers[places[key]] += texts
    if not places:
        raise DataError(
            "near-picture: no question with a picture needs distractors; name another source"
        )
    matrix = np.concatenate([*parts, vectors_of(contents)] if contents else parts)
    pool_of = _by_pool(frozenset)

    def rank(draft: Draft, question: QuestionDraft) -> Tiers:
        fitting, own = pool_of(question), places.get(_picture_key(draft)) if draft.images else None
        if own is None:
            return ()
        ordered: dict[str, None] = {}
        for place in np.argsort(-np.round(matrix @ matrix[own], 4), kind="stable"):
            if place != own:
                ordered.update((text, None) for text in answers[place] if text in fitting)
            if len(ordered) >= NEAREST:
                break
        return [(text,) for text in ordered]

    return rank


def _looked_at(draft: Draft) -> PictureSpec:
    """The picture of a question, cut to what is cropped or outlined in it. Raises DataError for a clip."""
    picture = draft.images[0]
    if isinstance(picture, LazyFrames):
        raise DataError(
            f"{draft.where}: near-picture is for pictures, not for clips; name another source"
        )
    if not isinstance(picture, PictureSpec):
        return PictureSpec(picture)
    return PictureSpec(
        picture.file, picture.crop or next((outline.box for outline in picture.outlines), None)
    )


def _picture_key(draft: Draft) -> Hashable:
    picture = _looked_at(draft)
    return (
        picture.file.place if isinstance(picture.file, LazyImage) else picture.file,
        picture.crop,
    )


def _shown_part(draft: Draft) -> bytes:
    return image_content(_looked_at(draft), draft.where)


def picture_descriptors(contents: Sequence[bytes]) -> np.ndarray:
    """Unit vectors of pictures: what a very small copy looks like, and which colours there are."""
    import numpy as np

    rows = []
    for content in contents:
        small = decode_image(content, "a picture").upright.resize((SIDE, SIDE))
        pixels = np.asarray(small, dtype=np.float32) / 255
        layout = (pixels - pixels.mean(axis=(0, 1))).ravel() / SIDE
        bins = np.minimum((pixels * 4).astype(int), 3).reshape(-1, 3) @ np.array([16, 4, 1])
        colours = np.sqrt(np.bincount(bins, minlength=64) / SIDE**2)
        vector = np.concatenate([layout, colours]).astype(np.float32)
        rows.append(vector / np.linalg.norm(vector))
    return np.stack(rows)
