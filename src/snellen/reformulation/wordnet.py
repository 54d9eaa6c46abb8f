"""Words and classes that mean something similar, by WordNet 3.0 (ReForm-Eval A.1: ImageNet-1K, CIFAR10).

Over the noun hierarchy a synset is the nearer the shorter the path over a shared hypernym is (path similarity). Among
equally distant ones that with the deeper shared hypernym is nearer, which is the order of Wu and Palmer. A synset is
named as ImageNet does: `n01440764`.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from snellen.common.late import import_extra
from snellen.errors import DataError
from snellen.reformulation.answer_equality import fold_answer, same_answer

Tiers = tuple[tuple[str, ...], ...]
"""Tiers of synsets or words, the most similar first; those in one tier are equally similar."""
VERSION = "3.0"
"""The WordNet version whose ids name ImageNet's classes."""
DEBIAN = Path("/usr/share/wordnet")
FARTHEST = 6
"""Steps within which a word counts as related."""
_LEXNAMES = """
adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition
noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person
noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape noun.state
noun.substance noun.time verb.body verb.change verb.cognition verb.communication verb.competition verb.consumption
verb.contact verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative
verb.weather adj.ppl
""".split()
"""Names of the lexicographer files, a list that Debian omits (lexnames(5WN))."""


class WordNet:
    """The nouns of WordNet. Methods take synsets as ids and raise DataError for an id that does not exist."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._above: dict[str, dict[str, int]] = {}
        self._depths: dict[str, int] = {}

    def names(self, synset: str) -> tuple[str, ...]:
        """Its names, the usual one first."""
        return tuple(name.replace("_", " ") for name in self._synset(synset).lemma_names())

    def noun_synset(self, word: str) -> str:
        """The most frequent synset of a noun."""
        synsets = self._reader.synsets(word.replace(" ", "_"), "n")
        if not synsets:
            raise DataError(f"WordNet has no noun {word!r}")
        return _id(synsets[0])

    def with_names(self, names: tuple[str, ...]) -> list[str]:
        """The noun synsets with exactly these names in this order, as `names` gives them."""
        synsets = map(_id, self._reader.synsets(names[0].replace(" ", "_"), "n"))
        return [synset for synset in synsets if self.names(synset) == names]

    def synonymous(self, first: str, second: str) -> bool:
        """Whether two words or phrases share a meaning (`couch`, `sofa`), or differ in spelling or number only."""
        return same_answer(first, second) or bool(self._meanings(first) & self._meanings(second))

    def is_kind_of(self, synset: str, second: str) -> bool:
        """Whether one is a kind of the other, or both are the same."""
        return second in self._ancestors(synset) or synset in self._ancestors(second)

    def _meanings(self, text: str) -> set[Any]:
        return set(self._reader.synsets("_".join(fold_answer(text).split())))

    def by_similarity(self, synset: str, among: Iterable[str]) -> Tiers:
        """The other synsets in `among`, by similarity to `synset`."""
        return _tiers(
            (self._shortest_path(synset, candidate), candidate)
            for candidate in among
            if candidate != synset
        )

    def related_words(self, synset: str, enough: int) -> Tiers:
        """Usual words for synsets that share a hypernym with `synset` and are neither its hypernyms nor hyponyms.

        Gives tiers until there are `enough` words. Words that never occur in WordNet's tagged texts are left
        out: the paper's authors replaced uncommon words by hand.
        """
        chosen: list[tuple[str, ...]] = []
        seen_words: set[str] = set()
        for tier in self._beside(synset):
            words = tuple(
                word
                for word in dict.fromkeys(map(self._usual_name, tier))
                if word and word not in seen_words
            )
            seen_words.update(words)
            chosen += [words] * bool(words)
            if len(seen_words) >= enough:
                break
        return tuple(chosen)

    def _beside(self, synset: str) -> Iterator[tuple[str, ...]]:
        """Synsets reached over a shared hypernym within FARTHEST steps, nearest first."""
        above = self._ancestors(synset)
        rows = {up: [up] for up in above if up != synset}
        met_synsets = {*above}
        for distance in range(2, FARTHEST + 1):
            paths: dict[str, tuple[int, int]] = {}
            for up, steps in above.items():
                if 0 < steps < distance:
                    rows[up] = [
                        _id(child)
                        for parent in rows[up]
                        for child in self._synset(parent).hyponyms()
                    ]
                    for neighbour in rows[up]:
                        paths[neighbour] = min(
                            paths.get(neighbour, (distance, 0)), (distance, -self._depth(up))
                        )
            unmet = sorted(
                neighbour
                for neighbour in paths
                if neighbour not in met_synsets and synset not in self._ancestors(neighbour)
            )
            yield from _tiers((paths[neighbour], neighbour) for neighbour in unmet)
            met_synsets |= paths.keys()

    def _shortest_path(self, first: str, second: str) -> tuple[int, int]:
        """Length of the shortest path, and minus the depth of the deepest shared hypernym on such a path."""
        above, beyond = self._ancestors(first), self._ancestors(second)
        return min(
            (above[shared] + beyond[shared], -self._depth(shared))
            for shared in above.keys() & beyond.keys()
        )

    def _ancestors(self, synset: str) -> dict[str, int]:
        """A synset and all its hypernyms, with the fewest steps to each."""
        if (distances := self._above.get(synset)) is None:
            distances = {synset: 0}
            for parent in self._parents(synset):
                for name, steps in self._ancestors(parent).items():
                    distances[name] = min(distances.get(name, steps + 1), steps + 1)
            self._above[synset] = distances
        return distances

    def _depth(self, synset: str) -> int:
        """Number of synsets on the longest path from the root to this one, inclusive."""
        if (depth := self._depths.get(synset)) is None:
            depth = self._depths[synset] = 1 + max(
                map(self._depth, self._parents(synset)), default=0
            )
        return depth

    def _parents(self, synset: str) -> list[str]:
        noun = self._synset(synset)
        return [_id(parent) for parent in (*noun.hypernyms(), *noun.instance_hypernyms())]

    def _usual_name(self, synset: str) -> str:
        """The name used most in tagged texts; empty when none is, and for proper names."""
        counted = max(self._synset(synset).lemmas(), key=lambda lemma: lemma.count())
        name = str(counted.name()).replace("_", " ")
        return name if counted.count() and name.islower() else ""

    def _synset(self, synset: str) -> Any:
        if len(synset) != 9 or synset[0] != "n" or not synset[1:].isdecimal():
            raise DataError(f"{synset!r} is not a WordNet id such as n01440764")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NLTK warns about a wrong number and returns None
            noun = self._reader.synset_from_pos_and_offset("n", int(synset[1:]))
        if noun is None:
            raise DataError(f"WordNet {VERSION} has no noun {synset}")
        return noun


@cache
def open_wordnet() -> WordNet:
    """The installed WordNet: $WNSEARCHDIR or Debian's, else NLTK's data.

    Raises MissingExtraError without NLTK, and DataError saying what to install when there is no WordNet 3.0.
    """
    nltk_data = import_extra("nltk.data", "data", "finding similar words", "nltk")
    folder = _folder_of_files() or _of_nltk(nltk_data)
    if folder is None:
        raise DataError(
            "no WordNet is installed; `apt-get install wordnet-base`, or `python -m nltk.downloader wordnet`, or "
            "name the folder of its files (data.noun and others) in $WNSEARCHDIR"
        )
    if str(folder) not in nltk_data.path:
        nltk_data.path.append(str(folder))  # NLTK reads only folders on its search path
    reader = _reader_class()(folder, None)
    if (version := reader.get_version()) != VERSION:
        raise DataError(
            f"{folder}: WordNet {version}; the ids of classes are those of {VERSION}, install that"
        )
    return WordNet(reader)


def _folder_of_files() -> str | None:
    named_folder = os.environ.get("WNSEARCHDIR")
    folder = Path(named_folder or DEBIAN)
    if (folder / "data.noun").exists():
        return str(folder)
    if named_folder:
        raise DataError(
            f"$WNSEARCHDIR names {named_folder}, which has no data.noun; unset it or name WordNet's folder"
        )
    return None


def _of_nltk(nltk_data: Any) -> Any:
    """WordNet in NLTK's data, unpacked or zipped as its downloader leaves it."""
    for name in ("corpora/wordnet", "corpora/wordnet.zip/wordnet/"):
        try:
            return nltk_data.find(name)
        except LookupError:
            continue
    return None


def _reader_class() -> Callable[[Any, Any], Any]:
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):
        """NLTK's reader, working with only the files that Debian installs."""

        def __init__(self, root: Any, omw: Any) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about missing data for other languages
                super().__init__(root, omw)

        def open(self, file: str) -> Any:
            if file == "lexnames":
                return io.StringIO(
                    "".join(f"{number:02}\t{name}\t0\n" for number, name in enumerate(_LEXNAMES))
                )
            opened = super().open(file)
            if not file.startswith("index."):
                return opened
            with opened:  # which is read from its beginning to its end, for which NLTK's own kind of file is slow
                return io.StringIO(opened.read())

        @cached_property
        def counts(self) -> dict[str, int]:
            """How often each name of a synset occurs in tagged texts, by its key."""
            lines = (line.split() for line in self.open("cntlist.rev").read().splitlines())
            return {key: int(count) for key, _, count in lines}

        def lemma_count(self, lemma: Any) -> int:
            """As NLTK's, which searches the file anew for each name."""
            return self.counts.get(lemma.key(), 0)

        def map_wn(self, version: str = "wordnet") -> None:
            """Does nothing: the map to other versions serves other languages, and needs a file that Debian lacks."""

    return Reader


def _id(synset: Any) -> str:
    return f"n{synset.offset():08d}"


def _tiers(ranked: Iterable[tuple[tuple[int, int], str]]) -> Tiers:
    """Names grouped into tiers by rank, smallest first, keeping their order within a tier."""
    tiers: dict[tuple[int, int], list[str]] = {}
    for rank, name in ranked:
        tiers.setdefault(rank, []).append(name)
    return tuple(tuple(tiers[rank]) for rank in sorted(tiers))
