"""What in a reply speaks for each option, and against it, as numbers that a model weighs (`snellen.extraction.reader`).

The words around a mention stand for what they do (deny, conclude, compare, quote ...) and not for themselves, so that
what was learnt of one subject or language holds for others. Every number has a name; their order is that of the names.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction import languages, patterns, phrases
from snellen.extraction.inflections import english_stem
from snellen.extraction.likeness import Sentences, in_sentences, likeness
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.patterns import dense_pattern, words_of
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


@lru_cache(maxsize=256)
def _phrases(spoken: tuple[str, ...]) -> Mapping[str, Sequence[tuple[str, tuple[str, ...]]]]:
    """The words of some languages, and of English, by their first: of each what it does, and all of its words."""
    phrases_of: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for kind in KINDS:
        tables = _FOREIGN.get(kind, ())
        words = {word for table in tables for word in words_of(table, spoken)}
        words |= set(languages.MARKS.get(kind, "").split()) | (
            set("→∴⇒") if kind == "conclusion" else set()
        )
        if kind in _ENGLISH_TOO:
            words |= {word for table in tables for word in table.get("en", "").split()}
        for word in sorted(words, key=len, reverse=True):
            parts = tuple(word.split("_"))
            phrases_of.setdefault(parts[0], []).append((kind, parts))
    return phrases_of


_DENSE_MARKS = {
    kind: late_pattern(dense_pattern(words))
    for kind in KINDS
    if (words := f"{_DENSE_TABLES.get(kind, '')} {languages.DENSE_MARKS.get(kind, '')}".strip())
}


def _marks(whole: Skeleton) -> dict[str, list[int]]:
    """Of each kind of words where they begin in a skeleton, ascending."""
    marks: dict[str, list[int]] = {kind: [] for kind in KINDS}
    ends = dict.fromkeys(KINDS, 0)
    known, words, offset = _phrases(whole.spoken), whole.text.split(" "), 0
    for number, word in enumerate(words):
        does = known.get(word, ())
        if word.endswith("n't"):
            does = (("denial", (word,)), *does)
        for kind, parts in does:
            if offset >= ends[kind] and tuple(words[number : number + len(parts)]) == parts:
                marks[kind].append(offset)
                ends[kind] = offset + sum(map(len, parts)) + len(parts) - 1
        offset += len(word) + 1
    if not whole.text.isascii():
        for kind, pattern in _DENSE_MARKS.items():
            marks[kind] = sorted(
                {*marks[kind], *(match.start() for match in pattern.finditer(whole.text))}
            )
    return marks


class _Shown(NamedTuple):
    """Options by what is said of them."""

    named: frozenset[int]
    denied: frozenset[int]
    stated: frozenset[int]
    declared: frozenset[int]
    leading: frozenset[int]


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

    @cached_property
    def yes(self) -> list[int]:
        """The options that affirm."""
        return _agreeing(self.options, _YES)

    @cached_property
    def no(self) -> list[int]:
        """The options that deny."""
        return _agreeing(self.options, _NO)

    @cached_property
    def shown(self) -> _Shown:
        """The options that are named, and as what."""
        claims = self.claims
        return _Shown(
            *map(self.places, (None, claims.denied, claims.stated, claims.declared, claims.leading))
        )

    def places(self, offsets: Iterable[int] | None = None) -> frozenset[int]:
        """The options that are named at some offsets, or anywhere."""
        some = self.whole.offsets if offsets is None else offsets
        return frozenset(place for offset in some for place in self.whole.at[offset].places)


def sight_of(whole: Skeleton, index: OptionIndex, question: str, text: str, *, cut: bool) -> Sight:
    """The reply with all that is looked for in it."""
    asks_for_falsehood = _FALSEHOOD.search(_without_verdicts(question)) is not None
    claims = statements(whole, judging=not asks_for_falsehood)
    return Sight(whole, index, question, claims, _marks(whole), cut, text[:_LONGEST].lower())


_VERDICTS = frozenset({"true", "correct", "false", "incorrect"})
"""What a statement is called, also one that denies: to call "It is not red" false is to say that it is red."""
_YES, _NO = languages.YES | {"true", "correct"}, languages.NO | {"false", "incorrect"}
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
    question = sight.question.lower().strip()
    first = next((word for word in sight.whole.words if word[0].isalnum()), "")
    clues: dict[str, float] = {
        "options": sight.options.count,
        "options with labels": bool(sight.options.labels),
        "options of numbers": sight.options.numeric,
        "yes and no": len(sight.yes) == len(sight.no) == 1,
        "options named": len(every),
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
        "different words": len(frozenset(sight.whole.words)) / max(1, len(sight.whole.words)),
        "repeats the question": repeats_question(sight),
        "exclaims": text.count("!"),
        "arrow": "→" in text,
        "table": "|" in text,
        "cannot be told": CANNOT_BE_TOLD.search(sight.text) is not None,
        "refuses": patterns.REFUSAL.search(text) is not None,
        "question": bool(question),
        "question is negative": asks_for_what_is_not(sight.question),
        "question counts": question.startswith("how many"),
        "question is polar": _POLAR.match(question) is not None,
        "question has or": " or " in question,
        "opens with yes": first in _YES,
        "opens with no": first in _NO,
        "answering sentence": min(sight.parts.answering, 12),
        "sentences behind it": min(len(sight.parts.spans) - 1 - sight.parts.answering, 12),
        "covered there": sight.parts.covered[sight.parts.answering],
        "as such there": sight.parts.as_such[sight.parts.answering],
        "likened there": sight.parts.likened[sight.parts.answering],
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


def repeats_question(sight: Sight) -> bool:
    """Whether a reply is a stretch of the question."""
    said, asked = (" ".join(text.split()) for text in (sight.text, sight.question.lower()))
    return said in asked


_AT_ONCE = late_pattern(
    r"\W*([^\W\d_]+)(?=[,;:!\n—–]|[.](?! \d)| - |\s*$)(?![\s\S]*\b(?:\1|yes|no)\b(?! \w))"
)


def answers_at_once(sight: Sight) -> int | None:
    """The yes or no that a reply begins with, as a word of its own: "No, she is not."; None where it begins otherwise,
    where it says so of several things, and where the rest, or a question for what is not, could mean the other."""
    opening = _AT_ONCE.match(sight.text)
    word = opening[1] if opening else ""
    agreeing = sight.yes if word in _YES else sight.no if word in _NO else []
    denials = sight.marks["denial"] if word in _YES else []
    turned = any(sight.marks[kind] for kind in ("contrast", "correction"))
    doubtful = denials and (turned or denials[0] < sight.claims.sentences[0].end)
    negative = word not in _VERDICTS and asks_for_what_is_not(sight.question)
    return agreeing[0] if len(agreeing) == 1 and not doubtful and not negative else None


_FIRST_SENTENCE = late_pattern(r"\W*[^\W\d_]+\b\W*([^.!?\n;。！？；]*)")


def contradicts_itself(sight: Sight, place: int) -> bool:
    """Whether a reply that begins with yes or no denies in the same sentence what it affirms, or says just what it
    denies: "Yes, the rider does not fall." of "Does the rider fall?"."""
    opening = _FIRST_SENTENCE.match(sight.text)
    said = sight.text.lstrip(" \n\"'(").split(" ", 1)[0].strip(" ,.:;!")
    if opening is None or said not in _YES | _NO or asks_for_what_is_not(sight.question):
        return False
    clause = proposition(opening[1], sight.question)
    turns = clause["proposition denials"] + clause["proposition opposites"]
    if place in sight.yes:
        return said in _YES and turns % 2 == 1 and clause["proposition covered"] > 0.5
    besides = clause["proposition missing"] + clause["proposition words besides"]
    return (
        said in _NO
        and not turns
        and clause["proposition covered"] == 1
        and besides == 0
        and clause["proposition in order"] == 1
    )


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
    telling = tuple(
        frozenset(stem for stem in stems if sum(stem in rival for rival in own) == 1)
        for stems in own
    )
    every = frozenset[str]().union(*own)
    topic: dict[str, int] = {}
    for rank, stem in enumerate(content(sight.question.lower()[:2_000])):
        if stem not in every:
            topic.setdefault(stem, rank)
    return _Words(own, telling, topic, tuple([english_stem(word) for word in sight.whole.words]))


def of_options(sight: Sight) -> list[Clues]:
    """What speaks for each option and against it; last the clues that are not compared with those of other options."""
    words = _words(sight)
    offsets = named(sight.whole)
    around = {offset: _clause(sight, offsets, rank) for rank, offset in enumerate(offsets)}
    shared = {
        o: len(frozenset(content(sight.whole.text[s:e])) & words.topic.keys())
        for o, (s, e) in around.items()
    }
    alike = likeness(
        sight.text, sight.question.lower()[:LONGEST_QUESTION], sight.options, sight.parts
    )
    at_once = answers_at_once(sight)
    return [
        {
            "answers at once": place == at_once,
            **_of_mentions(sight, place, offsets),
            **_of_last(sight, place, offsets, words, around, shared),
            **_of_words(sight, place, words),
            **_where_asked(sight, place, offsets),
            **alike[place],
            **_of_marks(sight, place, offsets),
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
        sight.parts.at(sight.whole.at[offset].start)
        for offset in offsets
        if place in sight.whole.at[offset].places and offset not in sight.claims.denied
    ]
    covered = [sight.parts.covered[number] for number in own]
    return {
        "covered around it": max(covered, default=-1.0),
        "covered around the last": covered[-1] if own else -1.0,
        "as such around the last": sight.parts.as_such[own[-1]] if own else -1.0,
        "likened around the last": sight.parts.likened[own[-1]] if own else -1.0,
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
    every_place, denied, stated, declared, leading = sight.shown
    others = every_place - {place}
    last, first = claims.sentences[-1], claims.sentences[0]
    kinds = [sight.whole.at[offset].kind for offset in own]
    clues: dict[str, float] = {
        f"as {name}": min(kinds.count(kind), 3)
        for name, kind in zip(
            ("bare", "strong", "text", "both", "conflict"), _MENTION_KINDS, strict=True
        )
    }
    return clues | {
        "as doubtful": min(kinds.count(phrases.DOUBTFUL), 3),
        "named": min(len(naming), 3),
        "asserted": min(len(asserted), 3),
        "denied": min(len(naming) - len(asserted), 3),
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
        "opens alone": bool(naming) and naming[0] in claims.declared and naming[0] <= first.end,
        "ends alone": bool(naming) and naming[-1] in claims.declared and naming[-1] >= last.start,
        "in last sentence": any(last.start <= offset <= last.end for offset in asserted),
        "alone in last sentence": {
            p
            for o in offsets
            if o >= last.start and o not in claims.denied
            for p in sight.whole.at[o].places
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
    at = _last_mention(sight, place, offsets)
    if at is None:
        return _NOTHING_AROUND
    own = [offset for offset in offsets if place in sight.whole.at[offset].places]
    text, sentence = sight.whole.text, sight.claims.around(at)
    start, end = around[at]
    before, behind = content(text[sentence.start : at]), content(text[at + 1 : sentence.end])
    asked_before = [words.topic[stem] for stem in before if stem in words.topic]
    asked_behind = [words.topic[stem] for stem in behind if stem in words.topic]
    other_clauses = [shared[o] for o in offsets if place not in sight.whole.at[o].places]
    best = max(shared[offset] for offset in own)
    nearest = (
        text[max(0, at - 40) : at].split()[-1:] or [""],
        text[at + 1 : at + 41].split()[:1] or [""],
    )
    [previous], [following] = nearest
    clues: dict[str, float] = {
        "shares with the question": best,
        "shares more": best - max(other_clauses, default=0),
        "question words": len(words.topic),
        "others in sentence": sum(
            1
            for o in offsets
            if sentence.start <= o <= sentence.end and place not in sight.whole.at[o].places
        ),
        "clause says more": len(frozenset(content(text[start:end])) - words.topic.keys()),
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
    }
    return clues


def _of_marks(sight: Sight, place: int, offsets: list[int]) -> Clues:
    """How far words of each kind stand before and behind the last mention of an option in its sentence, and how many
    follow that sentence."""
    at = _last_mention(sight, place, offsets)
    if at is None:
        return _NOTHING_MARKED
    start, end, _ = sight.claims.around(at)
    clues: dict[str, float] = {}
    for kind, places in sight.marks.items():
        behind, later = bisect_left(places, at), bisect_left(places, end)
        before = places[behind - 1] if behind else -1
        clues[f"{kind} before"] = at - before if before >= start else _FAR
        clues[f"{kind} behind"] = places[behind] - at if behind < later else _FAR
        clues[f"{kind} later"] = min(len(places) - later, 4)
    return clues


def _last_mention(sight: Sight, place: int, offsets: list[int]) -> int | None:
    """Where an option is mentioned last without being denied, else last; None where it is not mentioned."""
    own = [offset for offset in offsets if place in sight.whole.at[offset].places]
    return next(
        (offset for offset in reversed(own) if offset not in sight.claims.denied),
        own[-1] if own else None,
    )


_AROUND = (
    "shares with the question", "shares more", "question words", "others in sentence", "clause says more",
    "first asked before", "last asked before", "first asked behind", "turned round", "more before", "more behind",
    "opposites", "begins the sentence", "ends the sentence", "asked", "behind a small word", "behind a copula",
)  # fmt: skip
_NOTHING_AROUND: Clues = dict.fromkeys(_AROUND, -1.0)
_NOTHING_MARKED: Clues = {
    f"{kind} {where}": far
    for kind in KINDS
    for where, far in (("before", _FAR), ("behind", _FAR), ("later", 0.0))
}


def _of_words(sight: Sight, place: int, words: _Words) -> Clues:
    """How many of an option's words the reply has, wherever they stand, and what kind of option it is."""
    own, telling, spoken = words.own[place], words.telling[place], frozenset(words.spoken)
    others = [len(t & spoken) / len(t) for p, t in enumerate(words.telling) if p != place and t]
    longer = [len((t - own) & spoken) / len(t - own) for p, t in enumerate(words.own) if own < t]
    first = sight.options.words[place][:1]
    return {
        "telling words": len(telling & spoken) / max(1, len(telling)),
        "own words": len(own & spoken) / max(1, len(own)),
        "telling words there are": len(telling),
        "own words there are": len(own),
        "telling words first": len(telling & frozenset(words.spoken[:12])) / max(1, len(telling)),
        "telling words last": len(telling & frozenset(words.spoken[-25:])) / max(1, len(telling)),
        "telling words of others": max(others, default=0.0),
        "part of another": max(longer, default=-1.0),
        "is yes": place in sight.yes,
        "is no": place in sight.no,
        "is none": first in (("none",), ("neither",), ("nothing",)),
        "is unknown": CANNOT_BE_TOLD.search(sight.options.options[place].lower()[:200]) is not None,
        "is a number": bool(first) and first[0][:1].isdigit(),
        **_of_statement(sight, place),
    }


def _of_statement(sight: Sight, place: int) -> Clues:
    """Of yes and no: whether the clause that is nearest to the question says so, or says the contrary, and how fully;
    apart where it has the question's words in another order."""
    side = (place in sight.yes) - (place in sight.no)
    clause = proposition(sight.text, sight.question) if side else {}
    if not clause:
        return dict.fromkeys(
            ("statement for", "statement turned", "statement to the point", "statement judged"), 0.0
        )
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
_EITHER = late_pattern(
    rf"\b(?:{'|'.join(sorted(_YES | {'right', 'accurate'}))})['\"]?"
    r"(?:\s?[,/|]\s?|,? (?:or|oder|ou|o|of|lub|czy|или|veya|atau|hay|hoặc|أو|या|또는) )['\"]?"
    rf"(?:{'|'.join(sorted(_NO | {'not', 'wrong', 'untrue', 'inaccurate'}))})\b"
)
"""The verdicts that a question offers: "yes or no", "(True, False)"."""
_FALSEHOOD = late_pattern(
    r"\b(?:false|incorrect|wrong|untrue|inaccurate|not (?:true|correct|right|accurate))\b"
)


@lru_cache(maxsize=4096)
def asks_for_what_is_not(question: str) -> bool:
    """Whether a question asks for the option that is denied: "Which of these is not in the picture?"."""
    return _NEGATIVE.search(_without_verdicts(question)) is not None


@lru_cache(maxsize=4096)
def _without_verdicts(question: str) -> str:
    return _EITHER.sub(" ", question[:LONGEST_QUESTION].lower())


def rows(sight: Sight) -> tuple[tuple[str, ...], Array]:
    """The names of all clues, and a row of them an option: its own, the most that any other has, the reply's."""
    of_each, shared = of_options(sight), of_reply(sight)
    own = np.array([[*clues.values()] for clues in of_each], dtype=np.float64)
    everything = np.array([*shared.values()], dtype=np.float64)
    compared = own[:, : own.shape[1] - len(_NOTHING_MARKED)]
    return _names(tuple(of_each[0]), tuple(shared)), np.hstack(
        [own, _most(compared), np.tile(everything, (len(own), 1))]
    )


@lru_cache(maxsize=4)
def _names(own: tuple[str, ...], shared: tuple[str, ...]) -> tuple[str, ...]:
    compared = own[: len(own) - len(_NOTHING_MARKED)]
    return *own, *(f"others: {name}" for name in compared), *(f"reply: {name}" for name in shared)


def _most(values: Array) -> Array:
    """Of each row and column the most that any other row has there; 0 where there is no other."""
    if len(values) == 1:
        return np.zeros_like(values)
    second, most = np.partition(values, -2, axis=0)[-2:]
    others: Array = np.where(values == most, second, most)
    return others
