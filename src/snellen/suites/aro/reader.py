"""COCO-Order and Flickr30k-Order: find the caption of an image among four shuffles of its words.

The authors' loader makes new shuffles each time, with the tags of spaCy and NumPy's global random generator, and no
shuffles were published. If the user has a file of shuffles that the loader wrote (its `test_cases`), the file is
read. If there are only captions, the shuffles are made here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import Draft, Exclusion, QuestionDraft, read_params, without_exclusions
from snellen.common.seeds import rng_for
from snellen.formats.locate import locate_file, locate_or_none
from snellen.readers.mapped import read as read_mapped

ALIKE = "two of its options are the same"
TOO_SHORT = "a caption that cannot be shuffled in four ways"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Two mappings of the reader `mapped`: of options, and of captions; the first whose file is there is read."""

    shuffled: dict[str, Any]
    captions: dict[str, Any]


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Return a draft for each caption, in the order of the file, with the true caption as its first option.
    Published shuffles are read if their file exists; else they are made."""
    chosen = read_params(params, Params)
    ready, captions = (
        tuple(mapping["records"]["file"]) for mapping in (chosen.shuffled, chosen.captions)
    )
    if path := locate_or_none(folder, *ready):
        return without_exclusions(
            map(_exclude_if_repeated, read_mapped(chosen.shuffled, folder)), path
        )
    path = locate_file(folder, *captions, *ready)
    return without_exclusions(map(_with_shuffles, read_mapped(chosen.captions, folder)), path)


def _exclude_if_repeated(draft: Draft) -> Draft | Exclusion:
    """Return a draft, or an exclusion if two of its options are equal."""
    options = draft.rounds[0].options
    return Exclusion(ALIKE) if len(set(options)) < len(options) else draft


def _with_shuffles(draft: Draft) -> Draft | Exclusion:
    """Return a draft with the caption and four shuffles as options, or an exclusion if the caption is too short for
    them."""
    question = draft.rounds[0]
    caption = clean_caption(question.texts[0])
    shuffles = make_shuffles(caption, rng_for("aro order", draft.id))
    if shuffles is None:
        return Exclusion(TOO_SHORT)
    return replace(draft, rounds=(QuestionDraft(question.question, (caption, *shuffles), (0,)),))


# --- Four shuffles of a caption (ARO): its nouns and adjectives, all other words, within trigrams, and ---
# Nouns and adjectives are told from other words by lists and endings, not by a tagger: a word is one of them unless
# it is in `other_words.txt` or ends as verbs and adverbs do. They change places among themselves, where the authors
# keep nouns and adjectives apart.


MOST_WORDS = 30
"""Words to which captions are cut, as by the authors."""
TRIES = 50
"""Orders that are tried until one gives a text that is not there yet."""
_LEFT_OUT = re.compile(r'[.!"()*#:;~]')
_VERBS_AND_ADVERBS = re.compile(r"(?:ing|ed|ly)$")


def clean_caption(text: str) -> str:
    """Return a caption in lower case, without full stops, brackets and the like, cut to 30 words."""
    return " ".join(_LEFT_OUT.sub(" ", text.lower()).split()[:MOST_WORDS])


def make_shuffles(caption: str, rng: random.Random) -> tuple[str, ...] | None:
    """Return four wrong captions: the words of a caption in another order, by four kinds of shuffle.

    In this order: only nouns and adjectives change places; only the other words do; words change places within
    groups of three; the groups of three change places. All four differ from each other and from the caption.

    Args:
        caption: The caption, as `clean_caption` returns it.
        rng: Source of the random orders.

    Returns:
        The four texts; None if a kind of shuffle finds no new order in `TRIES` tries, because there are too few
        words.
    """
    texts = [caption]
    for shuffle in (
        _shuffle_nouns_and_adjectives,
        _shuffle_other_words,
        _shuffle_within_trigrams,
        _shuffle_trigrams,
    ):
        words = caption.split(" ")
        orders = (" ".join(shuffle(list(words), rng)) for _ in range(TRIES))
        new = next((text for text in orders if text not in texts), None)
        if new is None:
            return None
        texts.append(new)
    return tuple(texts[1:])


def is_name_or_quality(word: str) -> bool:
    """Return whether a word counts as a noun or an adjective.

    It does unless it is a number, is in the list of other words, or ends with -ing, -ed or -ly. A word in the list
    of exceptions (`_word_lists`) always does.
    """
    bare = word.strip(",'’-?")
    if not bare or bare.isdecimal():
        return False
    listed = _word_lists()
    return bare in listed["nouns"] or (
        bare not in listed["others"] and not _VERBS_AND_ADVERBS.search(bare)
    )


@cache
def _word_lists() -> dict[str, frozenset[str]]:
    """Return the two word lists of `other_words.txt`, by which nouns and adjectives are recognised without a tagger.

    `others` has words that are neither nouns nor adjectives. `nouns` has the exceptions to the rule about endings:
    nouns and adjectives that end with -ing, -ed or -ly, such as most verbs and adverbs do.
    """
    text = files("snellen.suites.aro").joinpath("other_words.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    heading = "nouns and adjectives all the same"
    other_words, _, nouns = "\n".join(lines).partition(heading)
    return {"others": frozenset(other_words.split()), "nouns": frozenset(nouns.split())}


def _shuffle_nouns_and_adjectives(words: list[str], rng: random.Random) -> list[str]:
    """Return the words with the nouns and adjectives in another order among themselves."""
    return _shuffle_at(
        words, [place for place, word in enumerate(words) if is_name_or_quality(word)], rng
    )


def _shuffle_other_words(words: list[str], rng: random.Random) -> list[str]:
    """Return the words with all but the nouns and adjectives in another order among themselves."""
    return _shuffle_at(
        words, [place for place, word in enumerate(words) if not is_name_or_quality(word)], rng
    )


def _shuffle_at(words: list[str], indices: Sequence[int], rng: random.Random) -> list[str]:
    """Return words with those at some indices shuffled among these indices; the others keep their positions."""
    source_indices = list(indices)
    rng.shuffle(source_indices)
    shuffled = list(words)
    for index, source_index in zip(indices, source_indices, strict=True):
        shuffled[index] = words[source_index]
    return shuffled


def _shuffle_within_trigrams(words: list[str], rng: random.Random) -> list[str]:
    """Return the words with each three consecutive ones in another order."""
    trigrams = _split_into_trigrams(words)
    for trigram in trigrams:
        rng.shuffle(trigram)
    return [word for trigram in trigrams for word in trigram]


def _shuffle_trigrams(words: list[str], rng: random.Random) -> list[str]:
    """Return the words with groups of three consecutive ones in another order."""
    trigrams = _split_into_trigrams(words)
    rng.shuffle(trigrams)
    return [word for trigram in trigrams for word in trigram]


def _split_into_trigrams(words: list[str]) -> list[list[str]]:
    """Return the words in groups of three."""
    return [words[start : start + 3] for start in range(0, len(words), 3)]
