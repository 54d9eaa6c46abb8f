"""Hard distractors: answers that read like the right one, and answers of pictures that look alike; without a model."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from snellen.common.drafts import Draft, LazyFrames, LazyImage, PictureSpec, QuestionDraft, picture_bytes
from snellen.common.images import decode_picture
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.reformulation.answer_equality import fold_answer
from snellen.reformulation.distractors import Ranking, SourceContext, Tiers, flat_candidates, needs_source
from snellen.reformulation.regions import render_picture

if TYPE_CHECKING:
    import numpy as np

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
            texts = rng_for(context.benchmark, len(texts), "near text", context.seed).sample(texts, LARGEST_POOL)
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
    kept: OrderedDict[tuple[int, ...], tuple[Tiers, PreparedT]] = OrderedDict()

    def of_question(question: QuestionDraft) -> PreparedT:
        tiers = question.distractors.tiers if question.distractors else ()
        key = tuple(map(id, tiers))  # the tiers are kept too, so that no other one gets their ids
        if key not in kept:
            kept[key] = (tiers, prepare(flat_candidates(question)))
        kept.move_to_end(key)
        while len(kept) > POOLS:
            kept.popitem(last=False)
        return kept[key][1]

    return of_question


def _nearest(texts: Sequence[str], vectors: Any, gold: str, vectors_of: Callable[[Sequence[str]], Any]) -> Tiers:
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
        raise DataError("near-picture: no question with a picture needs distractors; name another source")
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
        raise DataError(f"{draft.where}: near-picture is for pictures, not for clips; name another source")
    if not isinstance(picture, PictureSpec):
        return PictureSpec(picture)
    return PictureSpec(picture.file, picture.crop or next((outline.box for outline in picture.outlines), None))


def _picture_key(draft: Draft) -> Hashable:
    picture = _looked_at(draft)
    return (picture.file.place if isinstance(picture.file, LazyImage) else picture.file, picture.crop)


def _shown_part(draft: Draft) -> bytes:
    picture = _looked_at(draft)
    return render_picture(picture, picture_bytes(picture.file, draft.where), draft.where)


def picture_descriptors(contents: Sequence[bytes]) -> np.ndarray:
    """Unit vectors of pictures: what a very small copy looks like, and which colours there are."""
    import numpy as np

    rows = []
    for content in contents:
        small = decode_picture(content, "a picture").upright.resize((SIDE, SIDE))
        pixels = np.asarray(small, dtype=np.float32) / 255
        layout = (pixels - pixels.mean(axis=(0, 1))).ravel() / SIDE
        bins = np.minimum((pixels * 4).astype(int), 3).reshape(-1, 3) @ np.array([16, 4, 1])
        colours = np.sqrt(np.bincount(bins, minlength=64) / SIDE**2)
        vector = np.concatenate([layout, colours]).astype(np.float32)
        rows.append(vector / np.linalg.norm(vector))
    return np.stack(rows)
