"""COCO-Order and Flickr30k-Order: a caption among four of its own shuffles.

The authors' loader makes the shuffles anew each time, with spaCy's tags and NumPy's global generator; none are
published. Where what it made was written to a file (its `test_cases`), that file is read. From the captions alone the
shuffles are made by `snellen.suites.aro.reader`.
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
    """A draft per caption, in the order of the file, the true caption as its first option."""
    chosen = read_params(params, Params)
    ready, captions = (
        tuple(mapping["records"]["file"]) for mapping in (chosen.shuffled, chosen.captions)
    )
    if path := locate_or_none(folder, *ready):
        return without_exclusions(map(_checked, read_mapped(chosen.shuffled, folder)), path)
    path = locate_file(folder, *captions, *ready)
    return without_exclusions(map(_shuffled, read_mapped(chosen.captions, folder)), path)


def _checked(draft: Draft) -> Draft | Exclusion:
    options = draft.rounds[0].options
    return Exclusion(ALIKE) if len(set(options)) < len(options) else draft


def _shuffled(draft: Draft) -> Draft | Exclusion:
    question = draft.rounds[0]
    caption = as_caption(question.texts[0])
    shuffles = shuffles_of(caption, rng_for("aro order", draft.id))
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


def as_caption(text: str) -> str:
    """A caption in lower case, without full stops, brackets and the like, and cut to 30 words."""
    return " ".join(_LEFT_OUT.sub(" ", text.lower()).split()[:MOST_WORDS])


def shuffles_of(caption: str, rng: random.Random) -> tuple[str, ...] | None:
    """Four different texts of the same words in another order; None for a caption that has not so many."""
    texts = [caption]
    for shuffle in (_names_and_qualities, _other_words, _within_trigrams, _trigrams):
        words = caption.split(" ")
        orders = (" ".join(shuffle(list(words), rng)) for _ in range(TRIES))
        new = next((text for text in orders if text not in texts), None)
        if new is None:
            return None
        texts.append(new)
    return tuple(texts[1:])


def is_name_or_quality(word: str) -> bool:
    """Whether a word is taken for a noun or an adjective."""
    bare = word.strip(",'’-?")
    if not bare or bare.isdecimal():
        return False
    listed = _listed()
    return bare in listed["nouns"] or (
        bare not in listed["others"] and not _VERBS_AND_ADVERBS.search(bare)
    )


@cache
def _listed() -> dict[str, frozenset[str]]:
    """The words of `other_words.txt`: `other_words`, and `nouns` that end as other words do."""
    text = files("snellen.suites.aro").joinpath("other_words.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    halves = "\n".join(lines).split("nouns and adjectives all the same")
    other_words, nouns = (frozenset(half.split()) for half in halves)
    return {"others": other_words, "nouns": nouns}


def _names_and_qualities(words: list[str], rng: random.Random) -> list[str]:
    return _permuted(
        words, [place for place, word in enumerate(words) if is_name_or_quality(word)], rng
    )


def _other_words(words: list[str], rng: random.Random) -> list[str]:
    return _permuted(
        words, [place for place, word in enumerate(words) if not is_name_or_quality(word)], rng
    )


def _permuted(words: list[str], places: Sequence[int], rng: random.Random) -> list[str]:
    """The words with those at these places in another order."""
    shuffled = list(places)
    rng.shuffle(shuffled)
    moved = {place: words[source] for place, source in zip(places, shuffled, strict=True)}
    return [moved.get(place, word) for place, word in enumerate(words)]


def _within_trigrams(words: list[str], rng: random.Random) -> list[str]:
    trigrams = _in_threes(words)
    for trigram in trigrams:
        rng.shuffle(trigram)
    return [word for trigram in trigrams for word in trigram]


def _trigrams(words: list[str], rng: random.Random) -> list[str]:
    trigrams = _in_threes(words)
    rng.shuffle(trigrams)
    return [word for trigram in trigrams for word in trigram]


def _in_threes(words: list[str]) -> list[list[str]]:
    return [words[start : start + 3] for start in range(0, len(words), 3)]
