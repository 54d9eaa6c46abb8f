"""Equals of an option's text: 2 and two, cat and cats, three fifths and 3/5, "all of them" and "all of the above"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unicodedata import normalize

from snellen.extraction import languages, phrases

Words = tuple[str, ...]


def aliases(words: Words, every: Sequence[Words]) -> list[Words]:
    """Other ways to say the words of one option, of the words of all options."""
    return [
        *_places(words, every),
        *_owner(words, every),
        *_unaccented(words),
        *_of_subject(words, every),
        *_numbers(words),
        *_other_forms(words, every),
        *_summing_up(words),
        *_ordinal(words),
        *_synonyms(words, every),
    ]


def _places(words: Words, every: Sequence[Words]) -> Iterator[Words]:
    """ "Train station" of "at a train station", where every option is a place by itself."""
    cores = [_place(one) for one in every]
    core = _place(words)
    if (
        core
        and all(cores)
        and len(set(cores)) == len(cores)
        and not any(core == other[-len(core) :] for other in cores if other != core)
    ):
        yield core


def _place(words: Words) -> Words:
    """What stands behind a preposition, and an article."""
    core = words[1:] if words[0] in _AT else ()
    core = core[1:] if core and core[0] in ("a", "an", "the") else core
    return core if len(core) > 0 and all(word.isalpha() and len(word) > 2 for word in core) else ()


def _owner(words: Words, every: Sequence[Words]) -> Iterator[Words]:
    """ "The teacher" of "the teacher's", where every option is someone's."""
    if all(one and one[-1].endswith(("'s", "’s")) for one in every):
        bare = (*words[:-1], words[-1][:-2])
        yield bare
        if bare[0] in languages.ARTICLES and len(bare) > 1:
            yield bare[1:]


def _unaccented(words: Words) -> Iterator[Words]:
    """ "Emily Bronte" of "Emily Brontë"."""
    plain = tuple("".join(c for c in normalize("NFD", word) if not "\u0300" <= c <= "\u036f") for word in words)
    if plain != words and all(word.isascii() for word in plain):
        yield plain


def _of_subject(words: Words, every: Sequence[Words]) -> Iterator[Words]:
    """ "Bends toward the normal" of "it bends toward the normal", where all options but one begin so."""
    alike = [one for one in every if one and one[0] == words[0]]
    if words[0] in _PRONOUNS and len(words) > _FEWEST_BEHIND and len(alike) >= max(2, len(every) - 1):
        yield words[1:]


_PRONOUNS = ("it", "they", "he", "she", "this", "these")
_FEWEST_BEHIND = 3
_AT = ("in", "at", "on", "inside", "near")


def _numbers(words: Words) -> Iterator[Words]:
    if words[0] in phrases.NUMBER_WORDS:
        yield (phrases.NUMBER_WORDS[words[0]], *words[1:])
    yield from ((form, *words[1:]) for form in _NUMBER_FORMS.get(words[0], ()))
    if words[0] in _DIGITS:
        yield (_DIGITS[words[0]], *words[1:])
    yield from _FRACTION_WORDS.get(words, ())
    if words[0].startswith("-") and words[0][1:] in phrases.NUMBER_WORDS:
        yield from ((sign, phrases.NUMBER_WORDS[words[0][1:]], *words[1:]) for sign in ("minus", "negative"))


def _other_forms(words: Words, every: Sequence[Words]) -> Iterator[Words]:
    """Without an article, in the singular or plural, and 5 for "5 cm" where every option has the unit."""
    if len(words) > 1 and words[0] in languages.ARTICLES and _articled(every):
        yield words[1:]
    last = words[-1]
    if last.isalpha() and last.isascii() and len(last) > 2 and last not in phrases.UNCOUNTABLE:
        yield from ((*words[:-1], form) for form in _other_number(last))
    unit = words[1:]
    if unit and words[0][-1].isdigit() and all(w[1:] == unit and w[0][-1].isdigit() for w in every):
        yield words[:1]


def _articled(every: Sequence[Words]) -> bool:
    """Whether options begin with articles: one that is nothing else, or two."""
    firsts = [words[0] for words in every if len(words) > 1]
    return any(word in languages.SURE_ARTICLES for word in firsts) or sum(w in languages.ARTICLES for w in firsts) > 1


_IRREGULAR = dict(
    pair.split("-")
    for pair in (
        "leaf-leaves loaf-loaves wolf-wolves knife-knives shelf-shelves calf-calves half-halves thief-thieves "
        "wife-wives "
        "mouse-mice goose-geese foot-feet tooth-teeth man-men woman-women child-children ox-oxen person-people "
        "cactus-cacti fungus-fungi"
    ).split()
)
_IRREGULAR |= {plural: single for single, plural in _IRREGULAR.items()}


def _other_number(noun: str) -> list[str]:
    if noun in _IRREGULAR:
        return [_IRREGULAR[noun]]
    if noun.endswith("s"):
        return [noun[:-1]] if not noun.endswith(("ss", "us", "is")) else [noun + "es"] if noun.endswith("ss") else []
    return [noun + ("es" if noun.endswith(("x", "ch", "sh")) else "s")]


def _number_forms() -> dict[str, Words]:
    forms: dict[str, list[str]] = {}
    for words in languages.NUMBERS:
        for value, word in enumerate(words.split()):
            if word != "-":
                forms.setdefault(str(value), []).append(word)
    return {digits: tuple(dict.fromkeys(words)) for digits, words in forms.items()}


def _fraction_words() -> dict[Words, tuple[Words, ...]]:
    """3/5 -> three fifths, for the fractions that have names."""
    parts = dict(enumerate(phrases.ORDINALS, start=1)) | {2: "half", 3: "third", 4: "quarter"}
    named: dict[Words, tuple[Words, ...]] = {}
    for below, part in list(parts.items())[1:]:
        for above in range(1, below):
            counts = (phrases.NUMBER_WORDS[str(above)],) + (("a", "an") if above == 1 else ())
            nouns = {part, phrases.ORDINALS[3]} if below == 4 else {part}
            forms = [(count, noun if above == 1 else f"{noun}s") for count in counts for noun in sorted(nouns)]
            named[f"{above}/{below}",] = tuple(forms)
    named["1/2",] += (("half",),)
    named |= {("12",): (("dozen",),), ("24",): (("two", "dozen"),)}
    return named | {(f"{share}", "%"): named[fraction,] for share, fraction in ((50, "1/2"), (25, "1/4"), (75, "3/4"))}


_NUMBER_FORMS = _number_forms()
_DIGITS = {
    word: digits
    for digits, forms in _NUMBER_FORMS.items()
    for word in forms
    if len(word) > 2 and sum(word in others for others in _NUMBER_FORMS.values()) == 1
}
_FRACTION_WORDS = _fraction_words()

_LISTED = ("above", "these", "them", "statements", "options", "answers", "choices", "others")
_NONE_LISTED = ("above", "these", "options", "answers", "choices", "statements")


def _summing_up(words: Words) -> Iterator[Words]:
    """ "All of the statements" for "all of the above", "none of these" for "none of the above"."""
    kind = words[0] if 2 <= len(words) <= 4 and words[0] in ("all", "none") else ""
    if not kind or words[-1] not in _LISTED:
        return
    for noun in _LISTED if kind == "all" else _NONE_LISTED:
        yield from ((kind, "of", noun), (kind, "of", "the", noun), (kind, "of", "the", "listed", noun))
    if kind == "all":
        yield from (("all", count) for count in ("three", "four", "five"))
        yield from (("all", "of", "the", "above", noun) for noun in ("statements", "options", "answers"))


def _ordinal(words: Words) -> Iterator[Words]:
    """ "The eighth panel" for "panel 8"."""
    if len(words) == 2 and words[1].isdigit() and words[0].isalpha() and 0 < int(words[1][:3]) <= len(phrases.ORDINALS):
        yield (phrases.ORDINALS[int(words[1]) - 1], words[0])


def _synonyms(words: Words, every: Sequence[Words]) -> Iterator[Words]:
    """ "Gray" of "grey", "a bike" of "a bicycle", where no other option has a word of that meaning."""
    for at, word in enumerate(words):
        for meaning in _MEANINGS.get(word, ()):
            if not any(meaning.intersection(other) for other in every if other != words):
                same = (tuple(other.split()) for other in sorted(meaning) if other != word)
                yield from ((*words[:at], *other, *words[at + 1 :]) for other in same)


_MEANINGS: dict[str, list[frozenset[str]]] = {}
for _meaning in languages.SYNONYMS:
    for _word in _meaning:
        _MEANINGS.setdefault(_word, []).append(_meaning)
