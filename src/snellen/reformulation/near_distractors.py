"""Sources of hard distractors: texts that read like the answer, and answers to questions about similar images.

No model is needed, but an embedder of images can be given.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from snellen.common.decoding import decode_image
from snellen.common.drafts import Draft, ImageSpec, LazyFrames, LazyImage, QuestionDraft
from snellen.common.drawing import image_content
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.reformulation.answer_equality import fold_answer
from snellen.reformulation.distractor_sources import (
    DistractorRanking,
    ImageEmbedder,
    SourceContext,
    Tiers,
    flat_candidates,
    needs_source,
)

if TYPE_CHECKING:
    import numpy as np

PreparedT = TypeVar("PreparedT")
"""What is made of a pool of candidates."""
TextEmbedder = Callable[[Sequence[str]], Any]
"""Function from texts to unit vectors, an array with a row per text."""
TEXT_DIMENSIONS = 256
"""Dimensions of a text's vector: its words, pairs of words and runs of three letters, hashed."""
MAX_COMPARED = 20_000
"""Candidates that are compared with an answer; of a larger pool as many, drawn at random once."""
MAX_RANKED = 50
"""Candidates that are ranked for a question."""
IMAGES_AT_ONCE = 64
"""Images that are embedded together."""
MAX_POOLS = 16
"""Pools of candidates whose vectors are kept."""
SIDE_PIXELS = 16
"""Pixels along each side of the small copy that describes an image."""
N_COLOURS = 64
"""Colours of which an image has shares: four levels of each of red, green and blue."""

# --- texts -----------------------------------------------------------------------------------------------------------


def near_text(context: SourceContext) -> DistractorRanking:
    """Rank candidates by how similar their words and letters are to those of the answer."""
    return rank_by_vectors(context, text_vectors)


def rank_by_vectors(context: SourceContext, embed: TextEmbedder) -> DistractorRanking:
    """Return a function that ranks the candidates for wrong options of a question by their similarity to the answer.

    Args:
        context: The benchmark and the seed. If a pool of candidates is very large, a random part of it is compared.
        embed: Returns a vector for each text; similarity is the cosine of vectors.
    """

    def prepare(candidates: Sequence[str]) -> _TextPool:
        """Return the candidates that are compared, with their vectors."""
        texts = candidates
        if len(texts) > MAX_COMPARED:
            rng = rng_for(context.benchmark, len(texts), "near text", context.seed)
            texts = rng.sample(texts, MAX_COMPARED)
        return _TextPool(texts=texts, vectors=embed(texts), rankings={})

    pool_of = _cached_by_pool(prepare)

    def rank(draft: Draft, question: QuestionDraft) -> Tiers:
        """Rank the candidates of a question, those most similar to the answer first."""
        pool = pool_of(question)
        gold = question.texts[0]
        if gold not in pool.rankings:
            pool.rankings[gold] = _nearest_texts(pool.texts, pool.vectors, gold, embed)
        return pool.rankings[gold]

    return rank


class _TextPool(NamedTuple):
    """Candidates for wrong options that several questions share, prepared to be compared with answers."""

    texts: Sequence[str]
    vectors: Any
    """Unit vectors of the texts, a row each."""
    rankings: dict[str, Tiers]
    """The nearest texts of each answer that was ranked so far."""


def _cached_by_pool(
    prepare: Callable[[Sequence[str]], PreparedT],
) -> Callable[[QuestionDraft], PreparedT]:
    """Return a function that prepares the candidates for the wrong options of a question, such as by computing vectors.

    All questions with the same candidates (`tiers`) share the result, which is computed once.
    """
    cache: OrderedDict[tuple[int, ...], tuple[Tiers, PreparedT]] = OrderedDict()

    def prepared(question: QuestionDraft) -> PreparedT:
        """Return what `prepare` makes of the question's candidates, which questions with the same ones share."""
        tiers = question.distractors.tiers if question.distractors else ()
        key = tuple(id(tier) for tier in tiers)
        if key not in cache:
            # The tiers are kept, too, so that no other tier gets their ids.
            cache[key] = (tiers, prepare(flat_candidates(question)))
        cache.move_to_end(key)
        while len(cache) > MAX_POOLS:
            cache.popitem(last=False)
        _, content = cache[key]
        return content

    return prepared


def _nearest_texts(texts: Sequence[str], vectors: Any, gold: str, embed: TextEmbedder) -> Tiers:
    """Return the texts that are nearest in meaning to the correct answer, the nearest first, each in a tuple of its own.

    `vectors` are the unit vectors (N, D) that `embed` gave for the N texts.
    """
    import numpy as np

    if not texts:
        return ()
    [gold_vector] = embed([gold])
    # Rounded, so that another order of summation changes no rank.
    similarities = np.round(vectors @ gold_vector, 4)
    nearest = np.argsort(-similarities, kind="stable")[:MAX_RANKED]
    return [(texts[index],) for index in nearest]


def text_vectors(texts: Sequence[str]) -> np.ndarray:
    """Return unit vectors of texts, a row each. Texts that share many features have similar vectors.

    Features are words, pairs of words and runs of three letters; each is counted in a column chosen by its checksum. A
    text without features has a vector of zeros.
    """
    import numpy as np

    counts = np.zeros((len(texts), TEXT_DIMENSIONS), dtype=np.float32)
    for row, text in enumerate(texts):
        for feature in _text_features(text):
            column = zlib.crc32(feature.encode()) % TEXT_DIMENSIONS
            counts[row, column] += 1
    lengths = np.linalg.norm(counts, axis=1, keepdims=True)
    divisors = np.where(lengths == 0, 1, lengths)
    return counts / divisors


def _text_features(text: str) -> list[str]:
    """Return the words of a text, its pairs of neighbouring words and its runs of three letters."""
    words = fold_answer(text).split()
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    padded = f" {' '.join(words)} "
    runs = [padded[start : start + 3] for start in range(len(padded) - 2)]
    return [*words, *pairs, *runs]


# --- images ----------------------------------------------------------------------------------------------------------


def near_image(context: SourceContext) -> DistractorRanking:
    """Rank candidates that are answers to other questions, those about the most similar images first.

    Reads every image of the source once.

    Raises:
        DataError: No question with an image needs distractors, or a question has a clip.
    """
    import numpy as np

    images = _EmbeddedImages(context.embedder or image_descriptors)
    for draft in context.drafts():
        texts = [question.texts[0] for question in draft.rounds if needs_source(question)]
        if texts and draft.images:
            images.add(draft, texts)
    if not images.answers:
        raise DataError(
            "near-image: no question with an image needs distractors; name another source"
        )
    matrix = images.matrix()
    candidates_of = _cached_by_pool(frozenset)

    def rank(draft: Draft, question: QuestionDraft) -> Tiers:
        """Rank the candidates of a question: answers to questions about the most similar images come first."""
        candidates = candidates_of(question)
        if not draft.images:
            return ()
        own_index = images.index_of(draft)
        if own_index is None:
            return ()
        similarities = np.round(matrix @ matrix[own_index], 4)
        ranked: dict[str, None] = {}
        for index in np.argsort(-similarities, kind="stable"):
            if index == own_index:
                continue
            answers = images.answers[index]
            ranked.update(dict.fromkeys(answer for answer in answers if answer in candidates))
            if len(ranked) >= MAX_RANKED:
                break
        return [(answer,) for answer in ranked]

    return rank


class _EmbeddedImages:
    """The different images of a benchmark as vectors, with the answers to the questions about each."""

    def __init__(self, embed: ImageEmbedder) -> None:
        """Start without images."""
        self.answers: list[list[str]] = []
        """By index of the image."""
        self._embed = embed
        self._indexes: dict[Hashable, int] = {}
        self._vectors: list[Any] = []
        self._waiting: list[bytes] = []

    def add(self, draft: Draft, answers: Sequence[str]) -> None:
        """Add answers to questions about the image of a draft."""
        key = _image_key(draft)
        if key not in self._indexes:
            self._indexes[key] = len(self._indexes)
            self.answers.append([])
            content = image_content(_relevant_part(draft), draft.where)
            self._waiting.append(content)
            if len(self._waiting) == IMAGES_AT_ONCE:
                self._embed_waiting()
        self.answers[self._indexes[key]] += answers

    def index_of(self, draft: Draft) -> int | None:
        """Return the index of the image of a draft; None if it was not added."""
        return self._indexes.get(_image_key(draft))

    def matrix(self) -> Any:
        """Return the vectors of all images, a row each."""
        import numpy as np

        if self._waiting:
            self._embed_waiting()
        return np.concatenate(self._vectors)

    def _embed_waiting(self) -> None:
        """Embed the images that wait for it, all at once."""
        self._vectors.append(self._embed(self._waiting))
        self._waiting = []


def _image_key(draft: Draft) -> Hashable:
    """Return a key that two drafts share if they are about the same part of the same image."""
    part = _relevant_part(draft)
    if isinstance(part.file, LazyImage):
        return part.file.place, part.crop
    return part.file, part.crop


def _relevant_part(draft: Draft) -> ImageSpec:
    """Return the image of a question, cut to what is cropped or outlined in it.

    Raises:
        DataError: It is a clip.
    """
    image = draft.images[0]
    if isinstance(image, LazyFrames):
        raise DataError(
            f"{draft.where}: near-image is for images, not for clips; name another source"
        )
    if not isinstance(image, ImageSpec):
        return ImageSpec(image)
    if image.crop is None and image.outlines:
        return ImageSpec(image.file, image.outlines[0].box)
    return ImageSpec(image.file, image.crop)


def image_descriptors(contents: Sequence[bytes]) -> np.ndarray:
    """Return a vector for each image, so that similar images have similar vectors; shape (images, features).

    The features are the pixels of a very small copy of the image, without its mean colour, and the shares of 64
    colours. Each vector has length 1.

    Args:
        contents: The image files.
    """
    import numpy as np

    rows = []
    for content in contents:
        image = decode_image(content, "an image").upright
        small = image.resize((SIDE_PIXELS, SIDE_PIXELS))
        pixels = np.asarray(small, dtype=np.float32) / 255  # (SIDE_PIXELS, SIDE_PIXELS, 3)
        mean_colour = pixels.mean(axis=(0, 1))
        layout = (pixels - mean_colour).ravel() / SIDE_PIXELS
        colours = np.sqrt(_colour_shares(pixels))
        vector = np.concatenate([layout, colours]).astype(np.float32)
        rows.append(vector / np.linalg.norm(vector))
    return np.stack(rows)


def _colour_shares(pixels: np.ndarray) -> np.ndarray:
    """Return the share of the pixels that has each of `N_COLOURS` colours.

    Args:
        pixels: Red, green and blue of each pixel from 0 to 1; shape (height, width, 3).
    """
    import numpy as np

    levels = np.minimum((pixels * 4).astype(int), 3)
    colour_indexes = levels.reshape(-1, 3) @ np.array([16, 4, 1])
    pixels_by_colour = np.bincount(colour_indexes, minlength=N_COLOURS)
    return pixels_by_colour / len(colour_indexes)
