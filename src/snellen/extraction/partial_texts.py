"""Options by the words that tell one from the others, for replies that give only these: "it would decrease"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property, lru_cache

from snellen.extraction import languages, phrases
from snellen.extraction.assertion_filters import mentioned
from snellen.extraction.foreign_patterns import words_pattern
from snellen.extraction.inflections import english_stem
from snellen.extraction.option_index import CJK, OptionIndex, OptionPhrase, spelt_out, tokens
from snellen.extraction.option_mentions import Skeleton
from snellen.formats.late_patterns import late_pattern

_NEGATIONS = frozenset("not no never without nor cannot".split()) | languages.union(
    languages.NEGATION, languages.NEGATION_BEHIND
)
_IDLE_WORDS = (
    phrases.FUNCTION_WORDS
    | phrases.DETERMINERS
    | phrases.PREPOSITIONS
    | phrases.AUXILIARIES
    | (languages.union(languages.MARKERS, languages.FILL, languages.COPULA) - languages.EITHER)
    | languages.ARTICLES
    | _NEGATIONS
) - phrases.QUANTIFIERS
"""Words that tell nothing by themselves."""
_LONGEST = 12
"""Words of an option of which every stretch is looked for; of longer ones only single words."""


class PartialIndex(OptionIndex, frozen=True, dict=True):
    """Options by the words that only one of them has."""

    asked: frozenset[str] = frozenset()
    """Stems of the question's words, which tell nothing."""

    @property
    def partial(self) -> bool:
        return True

    @cached_property
    def words(self) -> tuple[tuple[str, ...], ...]:
        every = OptionIndex(self.options, self.labels).words
        return tuple(
            tuple(part for word in of_one if word not in phrases.DETERMINERS for part in spelt_out(word))
            for of_one in every
        )

    @cached_property
    def telling(self) -> tuple[frozenset[str], ...]:
        """Of each option the stems that no other option has."""
        contents = [frozenset(map(english_stem, self._content(words))) for words in self.words]
        counted = Counter(stem for stems in contents for stem in stems)
        return tuple(frozenset(s for s in stems if counted[s] == 1 and s not in self.asked) for stems in contents)

    def _content(self, words: tuple[str, ...]) -> Iterator[str]:
        for word in words:
            if word not in _IDLE_WORDS and (len(word) > 1 or word.isdigit()) and word not in self.folded:
                yield word

    @cached_property
    def phrases(self) -> dict[str, tuple[OptionPhrase, ...]]:
        """First word -> stretches of options that hold a telling word, longest first."""
        places: dict[tuple[str, ...], set[int]] = {}
        for place, words in enumerate(self.words):
            for stretch in self._stretches(place, words):
                places.setdefault(stretch, set()).add(place)
        found: dict[str, list[OptionPhrase]] = {}
        for stretch, several in places.items():
            if len(several) == 1:
                found.setdefault(stretch[0], []).append(OptionPhrase(stretch, tuple(several), alias=True))
        return {first: tuple(sorted(some, key=lambda p: -len(p.words))) for first, some in found.items()}

    def _stretches(self, place: int, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        telling = self.telling[place]
        tells = [english_stem(word) in telling for word in words]
        longest = len(words) if len(words) <= _LONGEST else 1
        for start in range(len(words)):
            for stop in range(start + 1, min(len(words), start + longest) + 1):
                ends = stop - start == 1 or stop == len(words) or words[stop - 1] not in _IDLE_WORDS
                if any(tells[start:stop]) and ends:
                    yield words[start:stop]
        if words and words[0] in phrases.QUANTIFIERS and tells[0]:
            yield (words[0], "of")

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        telling = frozenset[str]().union(*self.telling)
        return tuple(word for word in super().vocabulary if english_stem(word) in telling)


@lru_cache(maxsize=4096)
def partial_index(options: tuple[str, ...], labels: tuple[str, ...], question: str) -> PartialIndex | None:
    """The options by their telling words; None where each is one word, or something else that says no more in part."""
    if not any(" " in option.strip() for option in options) or _DENSE.search("".join(options)):
        return None
    asked = frozenset(english_stem(token.text) for token in tokens(question[:2000]) if token.kind == "word")
    index = PartialIndex(options, labels, asked)
    return index if any(index.telling) else None


_DENSE = late_pattern(f"[{CJK}]")
_CLAUSE_END = late_pattern(r" [,.;:!?\n-](?= |$)| (?:but|and|because|since|while|so|however|although|that|which)(?= )")
_DENYING = late_pattern(rf"(?:{words_pattern(_NEGATIONS)})|n't\b|\b(?:hardly|neither|nobody|nothing|too|instead)\b")


def supported_option(skeleton: Skeleton, text: str, asked: PartialIndex, stated: int | None) -> int | None:
    """The one option most of whose telling words are asserted, and none of any other's unless it is `stated`."""
    stems: dict[int, set[str]] = {}
    for offset in mentioned(skeleton):
        mention = skeleton.at[offset]
        if mention.kind != phrases.TEXT:
            return None
        words = [token.text for token in tokens(text[mention.start : mention.end])]
        if _denied(skeleton, offset) and _NEGATIONS.isdisjoint(asked.words[mention.places[0]]):
            return None
        found = {english_stem(word) for word in words} & asked.telling[mention.places[0]]
        stems.setdefault(mention.places[0], set()).update(found or words)
    place = next(iter(stems)) if len(stems) == 1 else stated
    if place is None or place not in stems:
        return None
    found, total = stems[place], len(asked.telling[place])
    says_more = any(
        word not in _IDLE_WORDS | phrases.OPENERS and english_stem(word) not in asked.asked
        for word in _WORDS.findall(skeleton.text)
    )
    if says_more and (len(found) < _enough(total) or _reversed(text, asked.words[place], asked)):
        return None
    return place


def _reversed(text: str, words: tuple[str, ...], asked: PartialIndex) -> bool:
    """Whether what stands at either side of the telling word has changed places: "the cat is in front of the dog"."""
    stems = [english_stem(word) for word in words]
    telling = frozenset[str]().union(*asked.telling)
    middle = next((rank for rank, stem in enumerate(stems) if stem in telling), 0)
    said = list(dict.fromkeys(english_stem(token.text) for token in tokens(text)))
    before, behind = (
        [stem for stem, word in zip(stems[part], words[part], strict=True) if word not in _IDLE_WORDS and stem in said]
        for part in (slice(middle), slice(middle + 1, None))
    )
    if any(said.index(one) > said.index(other) for one in before for other in behind if other not in telling):
        return True
    relation = next((stem for stem in said if stem in phrases.RELATIONS and stem in stems), None)
    return relation is not None and any(
        said.index(stem) < said.index(relation) for stem in behind if stem not in telling
    )


_WORDS = late_pattern(r"[^\W_]+(?:'[^\W_]+)*")


def _enough(total: int) -> int:
    return total if total <= 2 else (2 * total + 2) // 3


_REACH = 300


def _denied(skeleton: Skeleton, offset: int) -> bool:
    """Whether a word in the clause of a mention denies it, in whatever way."""
    begin = max(0, offset - _REACH)
    start = max((m.end() for m in _CLAUSE_END.finditer(skeleton.text, begin, offset)), default=begin)
    stop = _CLAUSE_END.search(skeleton.text, offset)
    return _DENYING.search(skeleton.text, start, stop.start() if stop else len(skeleton.text)) is not None


def framed_option(text: str, index: OptionIndex) -> int | None:
    """The option that a short reply is, but for words that all options begin or end with: "III" of "Molecule III"."""
    every = [words for words in index.words if words]
    agreeing = [
        place for place, words in enumerate(index.words) if words[:1] and words[0] in languages.YES | languages.NO
    ]
    short = [token.text for token in tokens(text[:400]) if token.kind == "word"]
    if len(short) == 1 and len([place for place in agreeing if index.words[place][0] == short[0]]) == 1:
        return next(place for place in agreeing if index.words[place][0] == short[0])
    if len(every) < 2 or len(text) > 400 or len(every) < index.count:
        return None
    head = next((i for i, some in enumerate(zip(*every, strict=False)) if len(set(some)) > 1), 0)
    backwards = [words[: head - 1 if head else None : -1] for words in every]
    tail = next((i for i, some in enumerate(zip(*backwards, strict=False)) if len(set(some)) > 1), 0)
    if not head and not tail:
        return None
    said = tuple(
        t.text for t in tokens(text) if t.kind not in ("sign", "newline") and t.text not in phrases.DETERMINERS
    )
    cores = [tuple(w for w in words[head : len(words) - tail] if w not in phrases.DETERMINERS) for words in every]
    places = [place for place, core in enumerate(cores) if core and core == said]
    return places[0] if len(places) == 1 and index.label(" ".join(said)) is None else None
