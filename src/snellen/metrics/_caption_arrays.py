"""CIDEr and BLEU over whole corpora as array arithmetic; imported late, because numpy takes a tenth of a second to load.

An n-gram's code is found by exact re-coding: the pairs (code of the first n - 1 words, last word) are
sorted and renumbered. So there is no hashing and no collision, and one sort per order does all the
counting: equal n-grams are adjacent, in the order of their captions and so of their images.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_SIGMA = 6.0
_ORDERS = 4


class Corpus(Struct, frozen=True):
    """All captions as one array of word numbers: first every reference, then every reply."""

    words: Ints
    lengths: Ints
    """Words in each caption; shape (references + replies,)."""
    image: Ints
    """Image of each reference; shape (references,)."""
    vocabulary: int
    """Number of different words."""

    @property
    def references(self) -> int:
        return len(self.image)

    @property
    def images(self) -> int:
        return len(self.lengths) - len(self.image)


class Counts(Struct, frozen=True):
    """How often each n-gram of one order occurs in each caption; parallel arrays, by code, then by caption."""

    caption: Ints
    code: Ints
    count: Ints
    codes: int
    """Number of codes, which start at 0."""

    def where(self, keep: NDArray[np.bool_], shift: int = 0) -> tuple[Ints, Ints, Ints]:
        return self.caption[keep] - shift, self.code[keep], self.count[keep]


def encode(words: list[str], end: str, sizes: list[int]) -> Corpus:
    """Number the words of a corpus in order of first appearance.

    Args:
        words: The words of all references, image by image, then those of all replies.
        end: The text in `words` after each caption.
        sizes: Number of references of each image.
    """
    # An unknown word gets the next number.
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    numbers[end]  # gets 0
    codes = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
    ends = np.flatnonzero(codes == 0)
    lengths = np.diff(ends, prepend=-1) - 1
    image_of_reference = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    n_words = len(numbers) - 1
    return Corpus(codes[codes > 0] - 1, lengths, image_of_reference, n_words)


def ngrams(corpus: Corpus) -> list[Counts]:
    """Count the n-grams of each caption, for n = 1, 2, 3, 4."""
    words = corpus.words
    lengths = corpus.lengths
    caption = np.repeat(np.arange(len(lengths)), lengths)
    # Number of words from each one to the end of its caption.
    caption_ends = np.repeat(np.cumsum(lengths), lengths)
    words_left = caption_ends - np.arange(len(words))

    # The first word of each n-gram, and a number for its words.
    position = np.arange(len(words))
    code = words
    grams = []
    for n in range(1, _ORDERS + 1):
        if n > 1:
            has_n_words = words_left[position] >= n
            position = position[has_n_words]
            code = code[has_n_words] * corpus.vocabulary + words[position + n - 1]
        order = _stable_order(code)
        captions = caption[position[order]]
        new_code = _changes(code[order])
        dense_code = np.cumsum(new_code) - 1
        first = np.flatnonzero(new_code | _changes(captions))
        count = np.diff(first, append=len(order))
        grams.append(Counts(captions[first], dense_code[first], count, int(new_code.sum())))
        code = np.empty_like(code)
        code[order] = dense_code
    return grams


def _stable_order(keys: Ints) -> Ints:
    """`np.argsort(keys, kind="stable")`, by the much faster sort of plain values where they fit 63 bits."""
    n = len(keys)
    if n == 0 or (int(keys.max()) + 1) * n >= 2**63:
        return np.argsort(keys, kind="stable")
    order: Ints = np.sort(keys * n + np.arange(n)) % n
    return order


def _changes(values: Ints) -> NDArray[np.bool_]:
    """Where a value differs from the one before; the first always does."""
    changes = np.ones(len(values), dtype=bool)
    changes[1:] = values[1:] != values[:-1]
    return changes


def cider_arrays(corpus: Corpus) -> Floats:
    """CIDEr-D of each reply; shape (images,). The formula is in `captions.cider`."""
    bigrams = np.maximum(corpus.lengths - 1, 0)
    delta = bigrams[corpus.references :][corpus.image] - bigrams[: corpus.references]
    penalty = np.exp(-(delta**2) / (2 * _SIGMA**2))
    similarity = np.zeros(corpus.images)
    for counts in ngrams(corpus):
        if counts.codes:
            cosine = _cosines(corpus, counts, _idf(corpus, counts))
            similarity += np.bincount(corpus.image, cosine * penalty, corpus.images)
    per_image = np.bincount(corpus.image, minlength=corpus.images)
    return similarity / _ORDERS / per_image * 10.0


def _idf(corpus: Corpus, counts: Counts) -> Floats:
    """Return the inverse document frequency of each n-gram, where the captions of one image are a document."""
    captions, codes, _ = counts.where(counts.caption < corpus.references)
    once = _changes(codes) | _changes(corpus.image[captions])
    document_counts = np.bincount(codes[once], minlength=counts.codes)
    idf: Floats = math.log(corpus.images) - np.log(np.maximum(1.0, document_counts))
    return idf


def _cosines(corpus: Corpus, counts: Counts, idf: Floats) -> Floats:
    """Clipped cosine of each reference with the reply of its image, for one order; shape (references,)."""
    of_reference = counts.caption < corpus.references
    reference, reference_code, reference_count = counts.where(of_reference)
    image, reply_code, reply_count = counts.where(~of_reference, shift=corpus.references)
    reference_weight, reply_weight = (
        reference_count * idf[reference_code],
        reply_count * idf[reply_code],
    )
    reference_norm = np.sqrt(np.bincount(reference, reference_weight**2, corpus.references))
    reply_norm = np.sqrt(np.bincount(image, reply_weight**2, corpus.images))

    # Join on (n-gram, image): every n-gram of a reply meets its equals in that image's references.
    keys, reply_keys = (
        reference_code * corpus.images + corpus.image[reference],
        reply_code * corpus.images + image,
    )
    low = np.searchsorted(keys, reply_keys, "left")
    matches = np.searchsorted(keys, reply_keys, "right") - low
    within = np.arange(matches.sum()) - np.repeat(np.cumsum(matches) - matches, matches)
    matched_rows = np.repeat(low, matches) + within
    product = (
        np.minimum(np.repeat(reply_weight, matches), reference_weight[matched_rows])
        * reference_weight[matched_rows]
    )

    dot = np.bincount(reference[matched_rows], product, corpus.references)
    norms = reply_norm[corpus.image] * reference_norm
    cosine: Floats = dot / np.where(norms == 0, 1.0, norms)  # where a norm is 0, so is the product
    return cosine


def bleu_count_arrays(corpus: Corpus) -> Floats:
    """BLEU's counts for each reply, to be summed; shape (10, images).

    Right n-grams for n = 1 to 4, all n-grams for n = 1 to 4, words, words of the nearest reference.
    """
    length = corpus.lengths[corpus.references :]
    guesses = np.maximum(0, length - np.arange(_ORDERS)[:, None])
    return np.vstack([_clipped(corpus), guesses, length, _nearest_lengths(corpus, length)]).astype(
        float
    )


def _nearest_lengths(corpus: Corpus, length: Ints) -> Ints:
    """Length of the reference nearest in length to each reply; of two equally near, the shorter."""
    lengths = corpus.lengths[: corpus.references]
    by_image = np.lexsort((lengths, np.abs(lengths - length[corpus.image]), corpus.image))
    first = np.searchsorted(corpus.image[by_image], np.arange(corpus.images))
    return lengths[by_image[first]]


def _clipped(corpus: Corpus) -> Floats:
    """Clipped n-gram matches of each reply for n = 1 to 4: each counts at most as often as in the reference with most.

    Shape (4, images). An n-gram is considered only where its first n - 1 words occur in the reply and in a
    reference of its image, so each order has far fewer than the one before.
    """
    words, vocabulary = corpus.words, corpus.vocabulary
    image = np.arange(corpus.images)
    image_of, ends = np.concatenate([corpus.image, image]), np.cumsum(corpus.lengths)
    slots = int(np.bincount(corpus.image).max()) + 1
    # Within its image the reply has the last slot, so that its n-grams come last among their equals.
    slot_of = np.concatenate([_within(corpus.image), np.full(corpus.images, slots - 1)])
    caption = np.repeat(np.arange(len(corpus.lengths)), corpus.lengths)
    gram = image_of[caption]
    position = np.flatnonzero(
        _in_reply(gram * vocabulary + words, int(corpus.lengths[: corpus.references].sum()))
    )
    gram = gram[position]
    matched_counts = np.zeros((_ORDERS, corpus.images))
    for n in range(_ORDERS):
        has_n_words = ends[caption[position]] - position > n
        position, gram = position[has_n_words], gram[has_n_words]
        if not len(position):
            break
        identity, order = _sorted(
            (gram * vocabulary + words[position + n]) * slots + slot_of[caption[position]]
        )
        runs = np.flatnonzero(_changes(identity))
        count, of_run = np.diff(runs, append=len(identity)), identity[runs]
        key = of_run // slots
        of_reply = of_run - key * slots == slots - 1
        is_new = _changes(key)
        first = np.flatnonzero(is_new)
        last_run = np.append(first[1:], len(runs)) - 1
        reference_most = np.maximum.reduceat(np.where(of_reply, 0, count), first)
        matched = np.where(of_reply[last_run], np.minimum(count[last_run], reference_most), 0)
        image = image[key[first] // vocabulary]
        matched_counts[n] = np.bincount(image, matched, corpus.images)
        number = np.cumsum(is_new) - 1  # of a run's n-gram
        is_matched = matched[number] > 0
        position, gram = (
            position[order[np.repeat(is_matched, count)]],
            np.repeat(number[is_matched], count[is_matched]),
        )
    return matched_counts


def _in_reply(keys: Ints, references: int) -> NDArray[np.bool_]:
    """Which keys may occur among those of the replies; most others are ruled out here, which saves sorting them."""
    slot = keys & ((1 << 22) - 1)
    in_replies = np.zeros(1 << 22, dtype=bool)
    in_replies[slot[references:]] = True
    is_candidate: NDArray[np.bool_] = in_replies[slot]
    return is_candidate


def _sorted(keys: Ints) -> tuple[Ints, Ints]:
    """Keys in order, and where each came from; by the fast sort of plain values where both fit 63 bits."""
    bits = len(keys).bit_length()
    if int(keys.max()) >> (63 - bits):
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    packed = np.sort(keys << bits | np.arange(len(keys)))
    return packed >> bits, packed & ((1 << bits) - 1)


def _within(image: Ints) -> Ints:
    """Number of each reference within its image, from 0; `image` is in order."""
    starts = np.flatnonzero(_changes(image))
    within: Ints = np.arange(len(image)) - np.repeat(starts, np.diff(starts, append=len(image)))
    return within
