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
"""Folder of WordNet's files if a Debian package installed them."""
MAX_DISTANCE = 6
"""Most steps between a word and one that counts as related."""
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
    """The nouns of WordNet. Methods take synsets as ids and raise DataError for an id that does not exist.

    `reader` is NLTK's reader, with words of every part of speech.
    """

    def __init__(self, reader: Any) -> None:
        """Use an NLTK reader of WordNet; what is looked up is cached."""
        self.reader = reader
        self._ancestors_by_synset: dict[str, dict[str, int]] = {}
        self._depths: dict[str, int] = {}

    def names(self, synset: str) -> tuple[str, ...]:
        """Return the names of a synset (a set of synonyms), the usual one first."""
        lemma_names = self._synset(synset).lemma_names()
        return tuple(name.replace("_", " ") for name in lemma_names)

    def noun_synset(self, word: str) -> str:
        """Return the most frequent synset of a noun."""
        synsets = self.reader.synsets(word.replace(" ", "_"), "n")
        if not synsets:
            raise DataError(f"WordNet has no noun {word!r}")
        return _id(synsets[0])

    def with_names(self, names: tuple[str, ...]) -> list[str]:
        """Return the noun synsets (sets of synonyms) that have exactly these names, in this order."""
        first_name = names[0].replace(" ", "_")
        matches = []
        for synset in self.reader.synsets(first_name, "n"):
            if self.names(_id(synset)) == names:
                matches.append(_id(synset))
        return matches

    def synonymous(self, first: str, second: str) -> bool:
        """Return whether two phrases share a meaning (`couch`, `sofa`), or differ only in spelling or number."""
        if same_answer(first, second):
            return True
        return not self._meanings(first).isdisjoint(self._meanings(second))

    def is_kind_of(self, first: str, second: str) -> bool:
        """Return whether one synset is a kind of the other, or both are the same."""
        return second in self._ancestors(first) or first in self._ancestors(second)

    def _meanings(self, text: str) -> set[Any]:
        """Return all synsets of a phrase, of any part of speech."""
        lemma = fold_answer(text).replace(" ", "_")
        return set(self.reader.synsets(lemma))

    def by_similarity(self, synset: str, among: Iterable[str]) -> Tiers:
        """Return the other synsets in `among` in tiers, the most similar to `synset` first."""
        other_synsets = [candidate for candidate in among if candidate != synset]
        ranks = [self._path_rank(synset, candidate) for candidate in other_synsets]
        return _tiers(zip(ranks, other_synsets, strict=True))

    def related_words(self, synset: str, enough: int) -> Tiers:
        """Return usual words that share a hypernym (a more general term) with `synset`: other animals for "dog".

        Terms that are more general or more special than `synset` are left out. The words are in tiers, the nearest
        first; further tiers are added until there are `enough` words. Words that never occur in WordNet's tagged texts
        are left out, because the paper's authors replaced uncommon words by hand.
        """
        tiers: list[tuple[str, ...]] = []
        seen_words: set[str] = set()
        for related_synsets in self._related_synsets(synset):
            words = []
            for related in related_synsets:
                word = self._usual_name(related)
                if word and word not in seen_words:
                    seen_words.add(word)
                    words.append(word)
            if words:
                tiers.append(tuple(words))
            if len(seen_words) >= enough:
                break
        return tuple(tiers)

    def _related_synsets(self, synset: str) -> Iterator[tuple[str, ...]]:
        """Yield tiers of synsets that are reached over a shared hypernym within MAX_DISTANCE steps, nearest first."""
        ancestors = self._ancestors(synset)
        # Of each hypernym, the synsets that are as many steps below it as were taken so far.
        lowest_below = {ancestor: [ancestor] for ancestor in ancestors if ancestor != synset}
        met_synsets = set(ancestors)
        for distance in range(2, MAX_DISTANCE + 1):
            ranks: dict[str, tuple[int, int]] = {}
            for ancestor, steps_up in ancestors.items():
                if not 0 < steps_up < distance:
                    continue
                lowest_below[ancestor] = self._hyponyms(lowest_below[ancestor])
                rank = (distance, -self._depth(ancestor))
                for neighbour in lowest_below[ancestor]:
                    ranks[neighbour] = min(ranks.get(neighbour, rank), rank)

            unmet = []
            for neighbour in sorted(ranks):
                if neighbour in met_synsets:
                    continue
                is_below = synset in self._ancestors(neighbour)
                if not is_below:
                    unmet.append(neighbour)
            yield from _tiers((ranks[neighbour], neighbour) for neighbour in unmet)
            met_synsets.update(ranks)

    def _hyponyms(self, synsets: Iterable[str]) -> list[str]:
        """Return the synsets one step below some synsets."""
        hyponyms: list[str] = []
        for synset in synsets:
            hyponyms.extend(_id(child) for child in self._synset(synset).hyponyms())
        return hyponyms

    def _path_rank(self, first: str, second: str) -> tuple[int, int]:
        """Return the length of the shortest path, and minus the depth of the deepest shared hypernym on such a path."""
        steps_from_first = self._ancestors(first)
        steps_from_second = self._ancestors(second)
        ranks = []
        for shared in steps_from_first.keys() & steps_from_second.keys():
            length = steps_from_first[shared] + steps_from_second[shared]
            ranks.append((length, -self._depth(shared)))
        return min(ranks)

    def _ancestors(self, synset: str) -> dict[str, int]:
        """Return a synset and all its hypernyms, with the fewest steps to each."""
        if synset in self._ancestors_by_synset:
            return self._ancestors_by_synset[synset]
        steps_to = {synset: 0}
        for parent in self._parents(synset):
            for ancestor, steps_from_parent in self._ancestors(parent).items():
                steps = steps_from_parent + 1
                steps_to[ancestor] = min(steps_to.get(ancestor, steps), steps)
        self._ancestors_by_synset[synset] = steps_to
        return steps_to

    def _depth(self, synset: str) -> int:
        """Return the number of synsets (sets of synonyms) on the longest path from WordNet's root to this one, inclusive."""
        if synset not in self._depths:
            parent_depths = [self._depth(parent) for parent in self._parents(synset)]
            self._depths[synset] = 1 + max(parent_depths, default=0)
        return self._depths[synset]

    def _parents(self, synset: str) -> list[str]:
        """Return the synsets one step above: those that this one is a kind of, or an instance of."""
        noun = self._synset(synset)
        hypernyms = [*noun.hypernyms(), *noun.instance_hypernyms()]
        return [_id(hypernym) for hypernym in hypernyms]

    def _usual_name(self, synset: str) -> str:
        """Return the name used most in tagged texts; empty if none is used, and for proper names."""
        most_used = max(self._synset(synset).lemmas(), key=lambda lemma: lemma.count())
        name = str(most_used.name()).replace("_", " ")
        if not most_used.count() or not name.islower():
            return ""
        return name

    def _synset(self, synset: str) -> Any:
        """Return NLTK's synset of an ImageNet id such as n01440764; raises DataError if there is none."""
        if len(synset) != 9 or synset[0] != "n" or not synset[1:].isdecimal():
            raise DataError(f"{synset!r} is not a WordNet id such as n01440764")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NLTK warns about a wrong number and returns None.
            noun = self.reader.synset_from_pos_and_offset("n", int(synset[1:]))
        if noun is None:
            raise DataError(f"WordNet {VERSION} has no noun {synset}")
        return noun


@cache
def open_wordnet() -> WordNet:
    """Return the installed WordNet: that in $WNSEARCHDIR or Debian's, else that in NLTK's data.

    Raises:
        MissingExtraError: NLTK is not installed.
        DataError: There is no WordNet 3.0. The message says what to install.
    """
    nltk_data = import_extra("nltk.data", "data", "finding similar words", "nltk")
    folder = _folder_of_files() or _folder_in_nltk(nltk_data)
    if folder is None:
        raise DataError(
            "no WordNet is installed; `apt-get install wordnet-base`, or `python -m nltk.downloader wordnet`, or "
            "name the folder of its files (data.noun and others) in $WNSEARCHDIR"
        )
    if str(folder) not in nltk_data.path:
        nltk_data.path.append(str(folder))  # NLTK reads only folders on its search path.
    reader = _reader_class()(folder, None)
    version = reader.get_version()
    if version != VERSION:
        raise DataError(
            f"{folder}: WordNet {version}; the ids of classes are those of {VERSION}, install that"
        )
    return WordNet(reader)


def _folder_of_files() -> str | None:
    """Return the folder of an installed WordNet, by $WNSEARCHDIR or where Debian puts it; None if there is none."""
    named_folder = os.environ.get("WNSEARCHDIR")
    folder = Path(named_folder or DEBIAN)
    if (folder / "data.noun").exists():
        return str(folder)
    if named_folder:
        raise DataError(
            f"$WNSEARCHDIR names {named_folder}, which has no data.noun; unset it or name WordNet's folder"
        )
    return None


def _folder_in_nltk(nltk_data: Any) -> Any:
    """Return WordNet in NLTK's data, unpacked or zipped as its downloader leaves it; None if it is not there."""
    for name in ("corpora/wordnet", "corpora/wordnet.zip/wordnet/"):
        try:
            return nltk_data.find(name)
        except LookupError:
            continue
    return None


def _reader_class() -> Callable[[Any, Any], Any]:
    """Return NLTK's reader of WordNet, adapted to fewer files; a function, because importing NLTK takes long."""
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):
        """NLTK's reader, working with only the files that Debian installs."""

        def __init__(self, root: Any, omw: Any) -> None:
            with warnings.catch_warnings():
                # NLTK warns about missing data for other languages.
                warnings.simplefilter("ignore")
                super().__init__(root, omw)

        def open(self, file: str) -> Any:
            """Open a file of WordNet; the list of lexicographer files, which Debian omits, is that of this module."""
            if file == "lexnames":
                lines = [f"{number:02}\t{name}\t0\n" for number, name in enumerate(_LEXNAMES)]
                return io.StringIO("".join(lines))
            opened = super().open(file)
            if not file.startswith("index."):
                return opened
            # An index is read from beginning to end, which is slow with NLTK's own kind of file.
            with opened:
                return io.StringIO(opened.read())

        @cached_property
        def counts(self) -> dict[str, int]:
            """Number of occurrences of each name of a synset in tagged texts, by its key."""
            counts = {}
            for line in self.open("cntlist.rev").read().splitlines():
                key, _, count = line.split()
                counts[key] = int(count)
            return counts

        def lemma_count(self, lemma: Any) -> int:
            """Return the count of a name. NLTK's own method searches the file again for each name."""
            return self.counts.get(lemma.key(), 0)

        def map_wn(self, version: str = "wordnet") -> None:
            """Do nothing: the map to other versions serves other languages, and needs a file that Debian lacks."""

    return Reader


def _id(synset: Any) -> str:
    """Return the id of an NLTK noun synset, such as n01440764."""
    return f"n{synset.offset():08d}"


def _tiers(ranked: Iterable[tuple[tuple[int, int], str]]) -> Tiers:
    """Group names by their rank, the smallest rank first.

    `[((2, 0), "cat"), ((1, 0), "wolf"), ((2, 0), "fox")]` gives `(("wolf",), ("cat", "fox"))`.
    """
    names_by_rank: dict[tuple[int, int], list[str]] = {}
    for rank, name in ranked:
        names_by_rank.setdefault(rank, []).append(name)
    return tuple(tuple(names_by_rank[rank]) for rank in sorted(names_by_rank))
