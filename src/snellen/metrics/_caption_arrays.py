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

_LENGTH_PENALTY_SIGMA = 6.0
_MAX_NGRAM_LENGTH = 4


class Corpus(Struct, frozen=True):
    """All captions: first the references, image by image, then one reply for each image."""

    words: Ints
    """The words of all captions one after the other, each as a number; shape (words of all captions,)."""
    lengths: Ints
    """Number of words in each caption; shape (references + replies,)."""
    image_of_reference: Ints
    """Index of the image of each reference, ascending; shape (references,)."""
    n_words: int
    """Number of different words."""

    @property
    def n_references(self) -> int:
        return len(self.image_of_reference)

    @property
    def n_images(self) -> int:
        return len(self.lengths) - len(self.image_of_reference)


class Counts(Struct, frozen=True):
    """How often each n-gram, for one n, occurs in each caption.

    The arrays have one item for each pair of a caption and an n-gram in it, sorted by n-gram, then by caption.
    """

    caption: Ints
    """Index of the caption."""
    code: Ints
    """Number of the n-gram, from 0."""
    count: Ints
    """How often the n-gram occurs in the caption."""
    n_codes: int
    """Number of different n-grams."""

    def where(self, keep: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
        """Return caption, code and count of the pairs where `keep` is true."""
        return self.caption[keep], self.code[keep], self.count[keep]


def encode(words: list[str], end: str, sizes: list[int]) -> Corpus:
    """Number the words of a corpus in order of first appearance.

    Args:
        words: The words of all references, image by image, then those of all replies.
        end: The text in `words` after each caption.
        sizes: Number of references of each image.
    """
    # Looking up a new text gives it the next number: the text after each caption 0, the first word 1, and so on.
    number_by_text: defaultdict[str, int] = defaultdict(count().__next__)
    end_number = number_by_text[end]
    numbers = np.fromiter(map(number_by_text.__getitem__, words), np.int64, len(words))
    is_end = numbers == end_number
    lengths = np.diff(np.flatnonzero(is_end), prepend=-1) - 1
    return Corpus(
        words=numbers[~is_end] - 1,  # words are numbered from 0
        lengths=lengths,
        image_of_reference=np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        n_words=len(number_by_text) - 1,
    )


def ngrams(corpus: Corpus) -> list[Counts]:
    """Count the n-grams of each caption, for n = 1, 2, 3, 4."""
    words = corpus.words
    lengths = corpus.lengths
    caption = np.repeat(np.arange(len(lengths)), lengths)
    # Number of words from each one to the end of its caption.
    caption_ends = np.repeat(np.cumsum(lengths), lengths)
    words_left = caption_ends - np.arange(len(words))

    # For each n-gram in the text: the index of its first word, and a number that equal n-grams share.
    position = np.arange(len(words))
    code = words
    counts_by_n = []
    for n in range(1, _MAX_NGRAM_LENGTH + 1):
        if n > 1:
            has_n_words = words_left[position] >= n
            position = position[has_n_words]
            last_word = words[position + n - 1]
            code = code[has_n_words] * corpus.n_words + last_word

        # After sorting, equal n-grams are adjacent, and among these the ones in the same caption.
        order = _stable_order(code)
        captions = caption[position[order]]
        is_new_code = _changes(code[order])
        dense_code = np.cumsum(is_new_code) - 1  # numbers without gaps: 0, 1, 2, ...
        first = np.flatnonzero(is_new_code | _changes(captions))
        count = np.diff(first, append=len(order))
        n_codes = int(is_new_code.sum())
        counts_by_n.append(Counts(captions[first], dense_code[first], count, n_codes))

        # Back to the order of the text, for the next n.
        code = np.empty_like(code)
        code[order] = dense_code
    return counts_by_n


def _stable_order(keys: Ints) -> Ints:
    """Return `np.argsort(keys, kind="stable")` for numbers from 0.

    Where key and index fit into 63 bits together, their sums are sorted as plain numbers, which is much faster.
    """
    n = len(keys)
    if n == 0 or (int(keys.max()) + 1) * n >= 2**63:
        return np.argsort(keys, kind="stable")
    keys_with_index = keys * n + np.arange(n)
    order: Ints = np.sort(keys_with_index) % n
    return order


def _changes(values: Ints) -> NDArray[np.bool_]:
    """Return, for each value of an array, whether it differs from the one before. The first one always does.

    For example, [3, 3, 5] gives [True, False, True].
    """
    changes = np.ones(len(values), dtype=bool)
    changes[1:] = values[1:] != values[:-1]
    return changes


def cider_arrays(corpus: Corpus) -> Floats:
    """Return the CIDEr-D score of each reply, from 0 to 10, in the order of the images; shape (images,).

    For each n from 1 to 4, a reply is compared with every reference of its image: the cosine of their weighted n-gram
    counts is multiplied by a penalty for a difference in length. The score is 10 times the mean over the references and
    over n. The formula is in `captions.cider`.
    """
    # The length of a caption is its number of bigrams, as in the COCO evaluation; shape (references + replies,).
    n_bigrams = np.maximum(corpus.lengths - 1, 0)
    reply_bigrams = n_bigrams[corpus.n_references :]
    reference_bigrams = n_bigrams[: corpus.n_references]
    difference = reply_bigrams[corpus.image_of_reference] - reference_bigrams
    penalty = np.exp(-(difference**2) / (2 * _LENGTH_PENALTY_SIGMA**2))  # shape (references,)

    similarity = np.zeros(corpus.n_images)  # shape (images,); summed over references and n
    for counts in ngrams(corpus):
        if counts.n_codes:
            cosine = _cosines(corpus, counts, _idf(corpus, counts))
            similarity += np.bincount(corpus.image_of_reference, cosine * penalty, corpus.n_images)
    references_per_image = np.bincount(corpus.image_of_reference, minlength=corpus.n_images)
    return similarity / _MAX_NGRAM_LENGTH / references_per_image * 10.0


def _idf(corpus: Corpus, counts: Counts) -> Floats:
    """Return the inverse document frequency of each n-gram: log(images / images with the n-gram in a reference).

    The result has shape (n_codes,). An n-gram that occurs only in replies is treated as if one image had it in a
    reference, so that there is no division by zero.
    """
    captions, codes, _ = counts.where(counts.caption < corpus.n_references)
    # Several references of an image may have the n-gram; they are adjacent, and count once.
    is_new_image = _changes(codes) | _changes(corpus.image_of_reference[captions])
    image_counts = np.bincount(codes[is_new_image], minlength=counts.n_codes)
    idf: Floats = math.log(corpus.n_images) - np.log(np.maximum(1.0, image_counts))
    return idf


def _cosines(corpus: Corpus, counts: Counts, idf: Floats) -> Floats:
    """Return the cosine of each reference with the reply of its image, for the n-grams of one n; shape (references,).

    A caption is a vector with a dimension for each n-gram: the number of times that it occurs, weighted by `idf`. In
    the product, a weight of the reply is clipped to that of the reference, as CIDEr-D prescribes.

    Args:
        corpus: The captions: all references, then the reply of each image.
        counts: How often each n-gram occurs in each caption, a row for each pair that occurs.
        idf: The weight of each n-gram, by its code.
    """
    is_reference = counts.caption < corpus.n_references
    reference, reference_code, reference_count = counts.where(is_reference)
    reply_caption, reply_code, reply_count = counts.where(~is_reference)
    image = reply_caption - corpus.n_references
    reference_weight = reference_count * idf[reference_code]
    reply_weight = reply_count * idf[reply_code]
    reference_norm = np.sqrt(np.bincount(reference, reference_weight**2, corpus.n_references))
    reply_norm = np.sqrt(np.bincount(image, reply_weight**2, corpus.n_images))

    # Pair each n-gram of a reply with the same n-gram in the references of its image. Both have the same key.
    reference_key = reference_code * corpus.n_images + corpus.image_of_reference[reference]
    reply_key = reply_code * corpus.n_images + image
    reply_row, reference_row = _matching_rows(reply_key, reference_key)
    clipped_weight = np.minimum(reply_weight[reply_row], reference_weight[reference_row])
    product = clipped_weight * reference_weight[reference_row]

    dot_product = np.bincount(reference[reference_row], product, corpus.n_references)
    norms = reply_norm[corpus.image_of_reference] * reference_norm
    cosine: Floats = dot_product / np.where(norms == 0, 1.0, norms)  # 0 / 1 if a norm is 0
    return cosine


def _matching_rows(keys: Ints, sorted_keys: Ints) -> tuple[Ints, Ints]:
    """Return all pairs of rows with equal keys (a join): the rows of the first table, and those of the second.

    Args:
        keys: Keys of the first table, shape (N,).
        sorted_keys: Keys of the second table in ascending order, shape (M,).
    """
    # Because the keys are sorted, the partners of a row are a range of rows.
    range_start = np.searchsorted(sorted_keys, keys, "left")
    range_size = np.searchsorted(sorted_keys, keys, "right") - range_start
    first_row = np.repeat(np.arange(len(keys)), range_size)
    # All ranges one after the other: 3 rows from 7 and 2 rows from 20 give 7, 8, 9, 20, 21.
    position_of_first = np.repeat(np.cumsum(range_size) - range_size, range_size)
    index_in_range = np.arange(range_size.sum()) - position_of_first
    second_row = np.repeat(range_start, range_size) + index_in_range
    return first_row, second_row


def bleu_count_arrays(corpus: Corpus) -> Floats:
    """Return the counts of BLEU for each reply, which are summed over a corpus; shape (10, images).

    The rows are: matching n-grams for n = 1 to 4, all n-grams for n = 1 to 4, the number of words, and the number of
    words of the reference whose length is nearest.
    """
    length = corpus.lengths[corpus.n_references :]
    n = np.arange(1, _MAX_NGRAM_LENGTH + 1)[:, None]  # shape (4, 1)
    n_ngrams = np.maximum(0, length - n + 1)  # shape (4, images)
    rows = [_count_matching_ngrams(corpus), n_ngrams, length, _nearest_lengths(corpus, length)]
    return np.vstack(rows).astype(float)


def _nearest_lengths(corpus: Corpus, reply_lengths: Ints) -> Ints:
    """Return, for each image, the length of the reference that is nearest in length to the reply.

    Of two references that are equally near, it is the shorter one.

    Args:
        corpus: The captions.
        reply_lengths: Number of words of each reply; shape (images,).
    """
    image = corpus.image_of_reference
    reference_lengths = corpus.lengths[: corpus.n_references]
    distance = np.abs(reference_lengths - reply_lengths[image])
    # Sorted by image, then by distance, then by length (the last key of lexsort is the first to compare).
    order = np.lexsort((reference_lengths, distance, image))
    first_of_image = np.searchsorted(image[order], np.arange(corpus.n_images))
    return reference_lengths[order[first_of_image]]


def _count_matching_ngrams(corpus: Corpus) -> Floats:
    """Count the n-grams of each reply that match the references of its image, for n = 1 to 4.

    An n-gram counts at most as often as it occurs in the reference in which it is most frequent (BLEU's clipped counts).
    For n > 1, only n-grams whose first n - 1 words matched are compared, so that there are fewer and fewer candidates.

    Args:
        corpus: The captions: first all references, then the reply of each image.

    Returns:
        The counts; shape (4, images).
    """
    words = corpus.words
    n_replies = corpus.n_images
    # For each word, the index of its caption.
    caption = np.repeat(np.arange(len(corpus.lengths)), corpus.lengths)
    caption_ends = np.cumsum(corpus.lengths)
    image_of_caption = np.concatenate([corpus.image_of_reference, np.arange(n_replies)])
    # A slot is the number of a caption within its image: references from 0 on, and the last number for the reply.
    n_slots = int(np.bincount(corpus.image_of_reference).max()) + 1
    reply_slot = n_slots - 1
    reply_slots = np.full(n_replies, reply_slot)
    slot_of_caption = np.concatenate([_index_within_image(corpus.image_of_reference), reply_slots])

    # A candidate is an n-gram at one position in a caption. `position` is the index of its first word. `prefix` is a
    # number for its image and its first n - 1 words, which is the image for n = 1; `image_of_prefix` gives the image.
    n_reference_words = int(corpus.lengths[: corpus.n_references].sum())
    word_keys = image_of_caption[caption] * corpus.n_words + words
    position = np.flatnonzero(_may_be_in_reply(word_keys, n_reference_words))
    prefix = image_of_caption[caption[position]]
    image_of_prefix = np.arange(corpus.n_images)

    matched_counts = np.zeros((_MAX_NGRAM_LENGTH, corpus.n_images))
    for n in range(1, _MAX_NGRAM_LENGTH + 1):
        words_left = caption_ends[caption[position]] - position
        has_n_words = words_left >= n
        position = position[has_n_words]
        prefix = prefix[has_n_words]
        if not len(position):
            break

        # Sorting by image, n-gram and slot makes equal n-grams of an image adjacent, with those of the reply last.
        last_word = words[position + n - 1]
        ngram = prefix * corpus.n_words + last_word
        slot = slot_of_caption[caption[position]]
        ngram_and_slot, order = _sort_with_order(ngram * n_slots + slot)

        # A run consists of the occurrences of an n-gram in one caption; `count` is their number.
        run_start = np.flatnonzero(_changes(ngram_and_slot))
        count = np.diff(run_start, append=len(ngram_and_slot))
        ngram_of_run, slot_of_run = np.divmod(ngram_and_slot[run_start], n_slots)
        is_reply = slot_of_run == reply_slot

        # A group consists of the runs of an n-gram in all captions of an image. Only the last one can be the reply's.
        is_new_group = _changes(ngram_of_run)
        group_start = np.flatnonzero(is_new_group)
        last_run = np.append(group_start[1:], len(run_start)) - 1
        reference_counts = np.where(is_reply, 0, count)
        highest_reference_count = np.maximum.reduceat(reference_counts, group_start)
        clipped_count = np.minimum(count[last_run], highest_reference_count)
        matched_count = np.where(is_reply[last_run], clipped_count, 0)
        image_of_group = image_of_prefix[ngram_of_run[group_start] // corpus.n_words]
        matched_counts[n - 1] = np.bincount(image_of_group, matched_count, corpus.n_images)

        # The candidates for the next n are the occurrences of n-grams that matched.
        group_of_run = np.cumsum(is_new_group) - 1
        is_matched = matched_count[group_of_run] > 0
        position = position[order[np.repeat(is_matched, count)]]
        prefix = np.repeat(group_of_run[is_matched], count[is_matched])
        image_of_prefix = image_of_group
    return matched_counts


def _may_be_in_reply(keys: Ints, n_references: int) -> NDArray[np.bool_]:
    """Return, for each word of all captions, whether the reply to the same image may have it too; shape (words,).

    A key stands for an image and a word. Only words that a reply has can match, so leaving out most others here saves
    sorting them. A few others remain, because only the lowest 22 bits of the keys are compared.

    Args:
        keys: Keys of the words of all references, then of all replies.
        n_references: How many keys are of references.
    """
    low_bits = keys & ((1 << 22) - 1)
    is_in_replies = np.zeros(1 << 22, dtype=bool)
    is_in_replies[low_bits[n_references:]] = True
    is_candidate: NDArray[np.bool_] = is_in_replies[low_bits]
    return is_candidate


def _sort_with_order(keys: Ints) -> tuple[Ints, Ints]:
    """Return numbers (at least 0) in ascending order, and the index of each before: [7, 5] gives [5, 7] and [1, 0].

    If a number and its index fit into 63 bits together, they are sorted as one plain number, which is faster.
    """
    index_bits = len(keys).bit_length()
    fits = int(keys.max()) >> (63 - index_bits) == 0
    if not fits:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    packed = np.sort(keys << index_bits | np.arange(len(keys)))
    return packed >> index_bits, packed & ((1 << index_bits) - 1)


def _index_within_image(image: Ints) -> Ints:
    """Return the number of each reference within its image, from 0: [0, 1, 0, 1, 2] for the images [4, 4, 7, 7, 7].

    Args:
        image: Image of each reference, ascending.
    """
    starts = np.flatnonzero(_changes(image))
    sizes = np.diff(starts, append=len(image))
    start_of_own_image = np.repeat(starts, sizes)
    within: Ints = np.arange(len(image)) - start_of_own_image
    return within
