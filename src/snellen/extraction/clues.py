"""What in a reply speaks for each option, and against it, as numbers that a model weighs (`snellen.extraction.reader`).

The words around a mention stand for what they do (deny, conclude, compare, quote ...) and not for themselves, so that
what was learnt of one subject or language holds for others. Every number has a name; their order is that of the names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction import languages, patterns, phrases
from snellen.extraction.inflections import english_stem
from snellen.extraction.likeness import Sentences, in_sentences, likeness
from snellen.extraction.option_index import OptionIndex, tokens
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.patterns import dense_pattern, words_of, words_pattern
from snellen.extraction.propositions import content, opposites, proposition, verdict_on_statement
from snellen.extraction.statements import Statements, named, statements

Array = np.ndarray[Any, Any]
Clues = Mapping[str, float]

_FOREIGN = {
    "denial": (languages.NEGATION, languages.NEGATION_BEHIND),
    "wrong": (languages.WRONG,),
    "contrast": (languages.CONTRAST,),
    "conclusion": (languages.CONCLUSION,),
    "answer": (languages.ANSWER, languages.OPTION),
    "choice": (languages.CHOOSE,),
    "correct": (languages.CORRECT,),
    "supposition": (languages.HYPOTHESIS, languages.SUPPOSED),
    "comparison": (languages.THAN,),
    "copula": (languages.COPULA,),
    "degree": (languages.MORE,),
    "correction": (languages.CORRECTION,),
    "tentative": (languages.TENTATIVE,),
}
_ENGLISH_TOO = ("contrast", "conclusion", "correction", "tentative")
"""Tables of which English has one as the other languages do."""
_DENSE_TABLES = {
    "denial": f"{languages.DENIED_BEFORE_DENSE} {languages.DENIED_BEHIND_DENSE} {languages.DENIED_BEHIND_KOREAN}",
    "correction": languages.CORRECTION_DENSE,
    "conclusion": languages.CONCLUSION_DENSE,
    "tentative": languages.TENTATIVE_DENSE,
    "supposition": languages.HYPOTHESIS_DENSE,
}
KINDS = tuple(dict.fromkeys((*languages.MARKS, *_FOREIGN)))
"""What words may do."""
TURNS = (
    "denial", "wrong", "contrast", "alternative", "supposition", "others", "speech", "ignorance", "correction",
    "tentative", "hedge",
)  # fmt: skip
"""Words of these kinds may turn what is said."""
_FAR = 80.0
_LONGEST = 4_000
_OPENING = 100
"""Characters in which a reply may agree or disagree with what is asked."""


@lru_cache(maxsize=1024)
def _pattern(kind: str, spoken: tuple[str, ...]) -> re.Pattern[str]:
    """The words of some languages, and of English, that do one thing."""
    tables = _FOREIGN.get(kind, ())
    words = {word for table in tables for word in words_of(table, spoken)} | set(languages.MARKS.get(kind, "").split())
    if kind in _ENGLISH_TOO:
        words |= {word for table in tables for word in table.get("en", "").split()}
    alternatives = [words_pattern(words - {"→", "∴"})]
    alternatives += [r"n't\b"] if kind == "denial" else ["[→∴⇒]"] if kind == "conclusion" else []
    dense = f"{_DENSE_TABLES.get(kind, '')} {languages.DENSE_MARKS.get(kind, '')}".strip()
    return re.compile("|".join([*alternatives, *([dense_pattern(dense)] if dense else [])]))


class Sight(Struct, frozen=True, dict=True):
    """A reply as the clues are taken from it."""

    whole: Skeleton
    options: OptionIndex
    question: str
    claims: Statements
    marks: dict[str, list[int]]
    """Of each kind of words where they begin."""
    cut: bool
    text: str
    """The reply in small letters, without markup."""

    @cached_property
    def parts(self) -> Sentences:
        """Its sentences, which nothing but the weighing needs."""
        return in_sentences(self.text, self.question.lower()[:LONGEST_QUESTION], self.options)

    def places(self, offsets: Iterable[int] | None = None) -> frozenset[int]:
        """The options that are named at some offsets, or anywhere."""
        some = self.whole.offsets if offsets is None else offsets
        return frozenset(place for offset in some for place in self.whole.at[offset].places)


def sight_of(whole: Skeleton, index: OptionIndex, question: str, text: str, *, cut: bool) -> Sight:
    """The reply with all that is looked for in it."""
    marks = {kind: [match.start() for match in _pattern(kind, whole.spoken).finditer(whole.text)] for kind in KINDS}
    spoken = text[:_LONGEST].lower()
    return Sight(whole, index, question, statements(whole), marks, cut, spoken)


_YES, _NO = languages.YES | {"true", "correct"}, languages.NO | {"false", "incorrect"}
_AGREES = late_pattern(
    r"(?:well , |sure , )?(?:(?:that's|that is|this is|it's) (?:correct|right|true)|absolutely|certainly|definitely"
    r"|of course|sure|indeed|correct|affirmative|true|exactly)\b"
)
_DISAGREES = late_pattern(
    r"(?:that's|that is|this is|it's) (?:incorrect|wrong|false|not)|(?:incorrect|false|negative|not really|not at all"
    r"|unlikely|hardly|nope)\b"
)
_POLAR = late_pattern(r"(?:is|are|does|do|did|can|was|were|has|have|will|statement)\b")
CANNOT_BE_TOLD = late_pattern(
    r"\b(?:can't|cannot|can not|couldn't|could not|unable to|not able to|impossible to|not possible to"
    r"|no way (?:to|of)) (?:\w+ ){0,3}?"
    r"(?:tell|know|determine|say|infer|conclude|be (?:told|known|determined|said|inferred))\b"
    r"|\b(?:not enough|insufficient|too little) (?:information|evidence|detail|details|context|data)\b"
    r"|\b(?:unknown|unclear|undetermined|indeterminate|inconclusive)\b|\b(?:isn't|is not|not) clear\b|\bnot sure\b"
)


def of_reply(sight: Sight) -> Clues:
    """What holds for the reply as a whole."""
    text, every = sight.whole.text, sight.places()
    asserted = frozenset(named(sight.whole)) - sight.claims.denied
    question = sight.question.lower().strip()
    spoken = " ".join(token.text for token in tokens(sight.text[:_OPENING]))
    first = spoken.split(" ", 1)[0]
    clues: dict[str, float] = {
        "options": sight.options.count,
        "options with labels": bool(sight.options.labels),
        "options of numbers": sight.options.numeric,
        "yes and no": len(_agreeing(sight.options, _YES)) == len(_agreeing(sight.options, _NO)) == 1,
        "options named": len(every),
        "options asserted": len(sight.places(asserted)),
        "options denied": len(sight.places(sight.claims.denied)),
        "mentions": min(len(sight.whole.at), 12),
        "sentences": min(len(sight.claims.sentences), 12),
        "words": math.log1p(len(text.split())),
        "cut": sight.cut,
        "foreign": bool(sight.whole.spoken),
        "asks": "?" in text,
        "quotes": sight.text.count('"'),
        "lines": min(text.count("\n"), 12),
        "colons": min(text.count(" :"), 8),
        "arrow": "→" in text,
        "table": "|" in text,
        "object": "{" in text,
        "cannot be told": CANNOT_BE_TOLD.search(sight.text) is not None,
        "refuses": patterns.REFUSAL.search(text) is not None,
        "question": bool(question),
        "question is negative": asks_for_what_is_not(sight.question),
        "question counts": question.startswith("how many"),
        "question is polar": _POLAR.match(question) is not None,
        "question has or": " or " in question,
        "opens with yes": first in _YES,
        "opens with no": first in _NO,
        "agrees": _AGREES.match(spoken) is not None,
        "disagrees": _DISAGREES.match(spoken) is not None,
        "answering sentence": min(sight.parts.answering, 12),
        "sentences behind it": min(len(sight.parts.spans) - 1 - sight.parts.answering, 12),
        "covered there": sight.parts.covered[sight.parts.answering],
    }
    clues |= {f"{kind} words": min(len(at), 6) for kind, at in sight.marks.items()}
    return {**clues, **proposition(sight.text, sight.question)}


def _agreeing(index: OptionIndex, words: frozenset[str]) -> list[int]:
    """The options that are yes, or no, or begin so."""
    return [
        p
        for p, own in enumerate(index.words)
        if "".join(own) in words or (own[:1] in (("yes",), ("no",)) and own[0] in words)
    ]


_AT_ONCE = late_pattern(r"\W*([^\W\d_]+)(?=[,;:!\n—–]|[.](?! \d)| - |\s*$)(?![\s\S]*\b\1\b)")


def answers_at_once(sight: Sight) -> int | None:
    """The yes or no that a reply begins with, as a word of its own: "No, she is not."; None where it begins otherwise,
    where it says so of several things, and where the rest, or a question for what is not, could mean the other."""
    opening = _AT_ONCE.match(sight.text)
    word = opening[1] if opening else ""
    agreeing = _agreeing(sight.options, _YES if word in _YES else _NO) if word in _YES | _NO else []
    doubtful = asks_for_what_is_not(sight.question) or (word in _YES and sight.marks["denial"])
    return agreeing[0] if len(agreeing) == 1 and not doubtful else None


def yes_or_no(index: OptionIndex) -> list[int]:
    """The options that affirm or deny what is asked."""
    return [*_agreeing(index, _YES), *_agreeing(index, _NO)]


class _Words(NamedTuple):
    """What all options share of the reply's words."""

    own: tuple[frozenset[str], ...]
    """The stems of each option's words."""
    telling: tuple[frozenset[str], ...]
    """Those that no other option has."""
    topic: dict[str, int]
    """The stems of the question's words that are not an option's, and which of these each is."""
    spoken: tuple[str, ...]
    """The stems of the reply's words."""


def _words(sight: Sight) -> _Words:
    own = tuple(
        frozenset(english_stem(word) for word in words if word not in phrases.DETERMINERS)
        for words in sight.options.words
    )
    telling = tuple(frozenset(stem for stem in stems if sum(stem in rival for rival in own) == 1) for stems in own)
    every = frozenset[str]().union(*own)
    topic: dict[str, int] = {}
    for rank, stem in enumerate(content(sight.question.lower()[:2_000])):
        if stem not in every:
            topic.setdefault(stem, rank)
    return _Words(own, telling, topic, tuple(english_stem(token.text) for token in tokens(sight.text)))


def of_options(sight: Sight) -> list[Clues]:
    """What speaks for each option and against it."""
    words = _words(sight)
    offsets = named(sight.whole)
    around = {offset: _clause(sight, offsets, rank) for rank, offset in enumerate(offsets)}
    shared = {o: len(frozenset(content(sight.whole.text[s:e])) & words.topic.keys()) for o, (s, e) in around.items()}
    alike = likeness(sight.text, sight.question.lower()[:LONGEST_QUESTION], sight.options, sight.parts)
    return [
        {
            **_of_mentions(sight, place, offsets),
            **_of_last(sight, place, offsets, words, around, shared),
            **_of_words(sight, place, words),
            **_where_asked(sight, place, offsets),
            **alike[place],
        }
        for place in range(sight.options.count)
    ]


def _where_asked(sight: Sight, place: int, offsets: list[int]) -> Clues:
    """Whether an option is named in the sentence that comes nearest to the question, and which others are."""
    start, end = sight.parts.spans[sight.parts.answering]
    inside = [offset for offset in offsets if start <= sight.whole.at[offset].start < end]
    asserted = [offset for offset in inside if offset not in sight.claims.denied]
    named_there = sight.places(asserted)
    own = [
        sight.parts.covered[sight.parts.at(sight.whole.at[offset].start)]
        for offset in offsets
        if place in sight.whole.at[offset].places and offset not in sight.claims.denied
    ]
    return {
        "covered around it": max(own, default=-1.0),
        "covered around the last": own[-1] if own else -1.0,
        "named where asked": place in named_there,
        "denied where asked": place in sight.places(inside) - named_there,
        "others where asked": len(named_there - {place}),
        "first where asked": bool(asserted) and place in sight.whole.at[asserted[0]].places,
        "last where asked": bool(asserted) and place in sight.whole.at[asserted[-1]].places,
    }


def _clause(sight: Sight, offsets: list[int], rank: int) -> tuple[int, int]:
    """The part of the sentence around a mention up to its neighbours."""
    sentence = sight.claims.around(offsets[rank])
    start = max(sentence.start, offsets[rank - 1] + 1) if rank else sentence.start
    return start, min(sentence.end, offsets[rank + 1]) if rank + 1 < len(offsets) else sentence.end


def _of_mentions(sight: Sight, place: int, offsets: list[int]) -> Clues:
    """How often an option is named, as what, and which others are."""
    every, claims = sight.whole.offsets, sight.claims
    own = [offset for offset in every if place in sight.whole.at[offset].places]
    naming = [offset for offset in own if sight.whole.text[offset] <= phrases.CONFLICT]
    asserted = [offset for offset in naming if offset not in claims.denied]
    others = sight.places() - {place}
    denied = sight.places(claims.denied)
    stated, declared, leading = (
        sight.places(mentions) for mentions in (claims.stated, claims.declared, claims.leading)
    )
    last, first = claims.sentences[-1], claims.sentences[0]
    kinds = [sight.whole.at[offset].kind for offset in own]
    clues: dict[str, float] = {
        f"as {name}": min(kinds.count(kind), 3)
        for name, kind in zip(("bare", "strong", "text", "both", "conflict"), _MENTION_KINDS, strict=True)
    }
    return clues | {
        "as doubtful": min(kinds.count(phrases.DOUBTFUL), 3),
        "named": min(len(naming), 3),
        "asserted": min(len(asserted), 3),
        "denied": min(len(naming) - len(asserted), 3),
        "listed": any(offset in claims.listed for offset in own),
        "others named": len(others),
        "others denied": len(denied - {place}),
        "all others denied": len(denied - {place}) == sight.options.count - 1,
        "all others named": len(others) == sight.options.count - 1 and not own,
        "all named": len(others) == sight.options.count - 1 and bool(own),
        "first named": bool(offsets) and place in sight.whole.at[offsets[0]].places,
        "last named": bool(offsets) and place in sight.whole.at[offsets[-1]].places,
        "last at all": bool(every) and place in sight.whole.at[every[-1]].places,
        "soft": any(sight.whole.at[offset].soft for offset in naming),
        "alias": any(sight.whole.at[offset].alias for offset in naming),
        "alias alone": bool(naming) and all(sight.whole.at[offset].alias for offset in naming),
        "shared": any(len(sight.whole.at[offset].places) > 1 for offset in naming),
        "stated": place in stated,
        "last stated": bool(claims.stated) and place in sight.whole.at[max(claims.stated)].places,
        "others stated": len(stated - {place}),
        "declared": place in declared,
        "others declared": len(declared - {place}),
        "leading": place in leading,
        "opens": bool(naming) and naming[0] in claims.leading and naming[0] <= first.end,
        "others leading": len(leading - {place}),
        "in last sentence": any(last.start <= offset <= last.end for offset in asserted),
        "alone in last sentence": {
            p for o in offsets if o >= last.start and o not in claims.denied for p in sight.whole.at[o].places
        }
        == {place},
        "in first sentence": any(first.start <= offset <= first.end for offset in asserted),
        "in sentences": len({claims.around(offset) for offset in asserted}),
        "begins at": min(naming[0], 400) if naming else -1,
        "ends before": min(len(sight.whole.text) - naming[-1], 400) if naming else -1,
    }


_MENTION_KINDS = (phrases.BARE, phrases.STRONG, phrases.TEXT, phrases.BOTH, phrases.CONFLICT)


def _of_last(
    sight: Sight,
    place: int,
    offsets: list[int],
    words: _Words,
    around: Mapping[int, tuple[int, int]],
    shared: Mapping[int, int],
) -> Clues:
    """What stands around the last mention of an option that is not denied, or the last."""
    own = [offset for offset in offsets if place in sight.whole.at[offset].places]
    if not own:
        return _NOTHING_AROUND
    at = next((offset for offset in reversed(own) if offset not in sight.claims.denied), own[-1])
    text, sentence = sight.whole.text, sight.claims.around(at)
    start, end = around[at]
    before, behind = content(text[sentence.start : at]), content(text[at + 1 : sentence.end])
    asked_before = [words.topic[stem] for stem in before if stem in words.topic]
    asked_behind = [words.topic[stem] for stem in behind if stem in words.topic]
    other_clauses = [shared[o] for o in offsets if place not in sight.whole.at[o].places]
    best = max(shared[offset] for offset in own)
    nearest = text[max(0, at - 40) : at].split()[-1:] or [""], text[at + 1 : at + 41].split()[:1] or [""]
    [previous], [following] = nearest
    clues: dict[str, float] = {
        "shares with the question": best,
        "shares more": best - max(other_clauses, default=0),
        "sentence shares": len(asked_before) + len(asked_behind),
        "question words": len(words.topic),
        "others in sentence": sum(
            1 for o in offsets if sentence.start <= o <= sentence.end and place not in sight.whole.at[o].places
        ),
        "clause says more": len(frozenset(content(text[start:end])) - words.topic.keys()),
        "asked before": len(asked_before),
        "asked behind": len(asked_behind),
        "first asked before": asked_before[0] if asked_before else -1,
        "last asked before": asked_before[-1] if asked_before else -1,
        "first asked behind": asked_behind[0] if asked_behind else -1,
        "turned round": asked_before[0] > asked_behind[0] if asked_before and asked_behind else -1,
        "more before": len(before) - len(asked_before),
        "more behind": len(behind) - len(asked_behind),
        "opposites": opposites(before + behind, words.topic.keys()),
        "begins the sentence": not text[sentence.start : at].strip(),
        "ends the sentence": following in ("", ".", "!", "\n"),
        "asked": sentence.ending == "?",
        "behind a small word": previous in phrases.AUXILIARIES or previous in phrases.PREPOSITIONS,
        "behind a copula": previous in ("is", "be", ":", "=", "→", "it's", "answer", "that's"),
        "behind the": previous in ("the", "this", "that"),
        "behind a": previous in ("a", "an"),
        "before a verb": following in ("is", "are", "was", "has", "does", "can"),
        "before a comma": following in (",", "and", "or"),
        "in quotes": _in_quotes(sight, at),
        "last is bare": sight.whole.at[at].kind == phrases.BARE,
        "last is a label": sight.whole.at[at].kind in (phrases.STRONG, phrases.BOTH),
        "last is soft": sight.whole.at[at].soft,
        "last is an alias": sight.whole.at[at].alias,
        "introduced": not previous or previous in phrases.BEFORE_BARE,
        "ends a clause": patterns.END.match(text, at + 1) is not None,
    }
    for kind, places in sight.marks.items():
        inside = [mark - at for mark in places if sentence.start <= mark < sentence.end]
        clues[f"{kind} before"] = min((-far for far in inside if far < 0), default=_FAR)
        clues[f"{kind} behind"] = min((far for far in inside if far > 0), default=_FAR)
        clues[f"{kind} later"] = min(sum(mark >= sentence.end for mark in places), 4)
    return clues


def _in_quotes(sight: Sight, offset: int) -> bool:
    """Whether the reply has quotation marks around the mention."""
    start = sight.whole.at[offset].start
    return sight.text[:start].count('"') % 2 == 1 and '"' in sight.text[start:]


_AROUND = (
    "shares with the question", "shares more", "sentence shares", "question words", "others in sentence",
    "clause says more", "asked before", "asked behind", "first asked before", "last asked before", "first asked behind",
    "turned round", "more before", "more behind", "opposites", "begins the sentence", "ends the sentence", "asked",
    "behind a small word", "behind a copula", "behind the", "behind a", "before a verb", "before a comma", "in quotes",
    "last is bare", "last is a label", "last is soft", "last is an alias", "introduced", "ends a clause",
)  # fmt: skip
_NOTHING_AROUND: Clues = dict.fromkeys(_AROUND, -1.0) | {
    f"{kind} {where}": far for kind in KINDS for where, far in (("before", _FAR), ("behind", _FAR), ("later", 0.0))
}


def _of_words(sight: Sight, place: int, words: _Words) -> Clues:
    """How many of an option's words the reply has, wherever they stand, and what kind of option it is."""
    own, telling, spoken = words.own[place], words.telling[place], frozenset(words.spoken)
    others = [len(t & spoken) / len(t) for p, t in enumerate(words.telling) if p != place and t]
    first = sight.options.words[place][:1]
    return {
        "telling words": len(telling & spoken) / max(1, len(telling)),
        "own words": len(own & spoken) / max(1, len(own)),
        "telling words there are": len(telling),
        "own words there are": len(own),
        "telling words first": len(telling & frozenset(words.spoken[:12])) / max(1, len(telling)),
        "telling words last": len(telling & frozenset(words.spoken[-25:])) / max(1, len(telling)),
        "telling words of others": max(others, default=0.0),
        "is yes": place in _agreeing(sight.options, _YES),
        "is no": place in _agreeing(sight.options, _NO),
        "is none": first in (("none",), ("neither",), ("nothing",)),
        "is all": place in sight.options.summing_up,
        "is unknown": CANNOT_BE_TOLD.search(sight.options.options[place].lower()[:200]) is not None,
        "is longer than another": place in sight.options.nested,
        "is a number": bool(first) and first[0][:1].isdigit(),
        **_of_statement(sight, place),
    }


def _of_statement(sight: Sight, place: int) -> Clues:
    """Of yes and no: whether the clause that is nearest to the question says so, or says the contrary, and how fully;
    apart where it has the question's words in another order."""
    side = (place in _agreeing(sight.options, _YES)) - (place in _agreeing(sight.options, _NO))
    clause = proposition(sight.text, sight.question) if side else {}
    if not clause:
        return dict.fromkeys(("statement for", "statement turned", "statement to the point", "statement judged"), 0.0)
    turns = clause["proposition denials"] + clause["proposition opposites"]
    stands = side * (1 if turns % 2 == 0 else -1) * clause["proposition covered"]
    ordered = clause["proposition in order"] == 1 and not clause["proposition passive"]
    return {
        "statement for": stands if ordered else 0.0,
        "statement turned": 0.0 if ordered else stands,
        "statement to the point": stands * clause["proposition to the point"] if ordered else 0.0,
        "statement judged": float(side * verdict_on_statement(" ".join(sight.text.split()))),
    }


LONGEST_QUESTION = 2_000
_NEGATIVE = late_pattern(
    r"\b(?:not|except|isn't|aren't|doesn't|don't|can't|cannot|false|incorrect|wrong|untrue|missing|absent|"
    r"lacks?|odd one|odd man|does not belong|different from the|nicht|kein|keine|keinen"
    r"|keines|falsch|fehlt|pas|aucun|absente?|manque|incorrecte|fausse|no|ningún|falta|ausente|não|nenhum|"
    r"non|nessun|manca|niet|geen|ontbreekt|nie|brakuje"
    r"|не|нет|отсутствует|лишний|лишнее|лишняя|лишним|değil|yok|olmayan|bukan|tidak|"
    r"không|ليس|لا|नहीं)\b|不是|没有|沒有|不在|不属于|不見|不见|没|ない|ません|"
    r"いない|없는|않은|않는|아닌|않"
)
_EITHER = late_pattern(r"\b(?:true|right|correct|accurate) or (?:not|false|wrong|incorrect|untrue|inaccurate)\b")


@lru_cache(maxsize=4096)
def asks_for_what_is_not(question: str) -> bool:
    """Whether a question asks for the option that is denied: "Which of these is not in the picture?"."""
    return _NEGATIVE.search(_EITHER.sub(" ", question[:LONGEST_QUESTION].lower())) is not None


def rows(sight: Sight) -> tuple[tuple[str, ...], Array]:
    """The names of all clues, and a row of them an option: its own, the most that any other has, the reply's."""
    of_each, shared = of_options(sight), of_reply(sight)
    names = tuple(of_each[0])
    own = np.array([[clues[name] for name in names] for clues in of_each], dtype=np.float64)
    everything = np.array([*shared.values()], dtype=np.float64)
    return _names(names, tuple(shared)), np.hstack([own, _most(own), np.tile(everything, (len(own), 1))])


@lru_cache(maxsize=4)
def _names(own: tuple[str, ...], shared: tuple[str, ...]) -> tuple[str, ...]:
    return *own, *(f"others: {name}" for name in own), *(f"reply: {name}" for name in shared)


def _most(values: Array) -> Array:
    """Of each row and column the most that any other row has there; 0 where there is no other."""
    if len(values) == 1:
        return np.zeros_like(values)
    second, most = np.partition(values, -2, axis=0)[-2:]
    others: Array = np.where(values == most, second, most)
    return others
