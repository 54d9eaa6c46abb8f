"""What in a reply speaks for each option, and against it, as numbers that a model weighs (`snellen.extraction.reader`).

The words around a mention stand for what they do (deny, conclude, compare, quote ...) and not for themselves, so that
what was learnt of one subject or language holds for others. Every number has a name; their order is that of the names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction import languages, patterns, phrases
from snellen.extraction.inflections import english_stem
from snellen.extraction.likeness import Sentences, in_sentences, likeness
from snellen.extraction.option_index import OptionIndex, tokens
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.patterns import dense_pattern, words_of, words_pattern
from snellen.extraction.propositions import content, opposites, proposition, verdict_on_statement
from snellen.extraction.statements import Statements, named, statements

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
_FAR = 80.0
_LONGEST = 4_000


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


class Sight(NamedTuple):
    """A reply as the clues are taken from it."""

    whole: Skeleton
    options: OptionIndex
    question: str
    said: Statements
    marks: dict[str, list[int]]
    """Of each kind of words where they begin."""
    cut: bool
    text: str
    """The reply in small letters, without markup."""
    parts: Sentences

    def places(self, offsets: Iterable[int] | None = None) -> frozenset[int]:
        """The options that are named at some offsets, or anywhere."""
        some = self.whole.offsets if offsets is None else offsets
        return frozenset(place for offset in some for place in self.whole.at[offset].places)


def sight(whole: Skeleton, index: OptionIndex, question: str, text: str, *, cut: bool) -> Sight:
    """The reply with all that is looked for in it."""
    marks = {kind: [match.start() for match in _pattern(kind, whole.spoken).finditer(whole.text)] for kind in KINDS}
    spoken = text[:_LONGEST].lower()
    parts = in_sentences(spoken, question.lower()[:LONGEST_QUESTION], index)
    return Sight(whole, index, question, statements(whole), marks, cut, spoken, parts)


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


def of_reply(seen: Sight) -> Clues:
    """What holds for the reply as a whole."""
    text, every = seen.whole.text, seen.places()
    asserted = frozenset(named(seen.whole)) - seen.said.denied
    question = seen.question.lower().strip()
    spoken = " ".join(token.text for token in tokens(seen.text[:600]))
    first = spoken.split(" ", 1)[0]
    clues: dict[str, float] = {
        "options": seen.options.count,
        "options with labels": bool(seen.options.labels),
        "options of numbers": seen.options.numeric,
        "yes and no": len(_agreeing(seen.options, _YES)) == len(_agreeing(seen.options, _NO)) == 1,
        "options named": len(every),
        "options asserted": len(seen.places(asserted)),
        "options denied": len(seen.places(seen.said.denied)),
        "mentions": min(len(seen.whole.at), 12),
        "sentences": min(len(seen.said.sentences), 12),
        "words": math.log1p(len(text.split())),
        "cut": seen.cut,
        "foreign": bool(seen.whole.spoken),
        "asks": "?" in text,
        "quotes": seen.text.count('"'),
        "lines": min(text.count("\n"), 12),
        "colons": min(text.count(" :"), 8),
        "arrow": "→" in text,
        "table": "|" in text,
        "object": "{" in text,
        "cannot be told": CANNOT_BE_TOLD.search(seen.text) is not None,
        "refuses": patterns.REFUSAL.search(text) is not None,
        "question": bool(question),
        "question is negative": asks_for_what_is_not(seen.question),
        "question counts": question.startswith("how many"),
        "question is polar": _POLAR.match(question) is not None,
        "question has or": " or " in question,
        "opens with yes": first in _YES,
        "opens with no": first in _NO,
        "agrees": _AGREES.match(spoken) is not None,
        "disagrees": _DISAGREES.match(spoken) is not None,
        "answering sentence": min(seen.parts.answering, 12),
        "sentences behind it": min(len(seen.parts.spans) - 1 - seen.parts.answering, 12),
        "covered there": seen.parts.covered[seen.parts.answering],
    }
    clues |= {f"{kind} words": min(len(at), 6) for kind, at in seen.marks.items()}
    return {**clues, **proposition(seen.text, seen.question)}


def _agreeing(index: OptionIndex, words: frozenset[str]) -> list[int]:
    """The options that are yes, or no, or begin so."""
    return [
        p
        for p, own in enumerate(index.words)
        if "".join(own) in words or (own[:1] in (("yes",), ("no",)) and own[0] in words)
    ]


class _Words(NamedTuple):
    """What all options share of the reply's words."""

    own: tuple[frozenset[str], ...]
    """The stems of each option's words."""
    telling: tuple[frozenset[str], ...]
    """Those that no other option has."""
    asked: dict[str, int]
    """The stems of the question's words that are no option's, and which of these each is."""
    said: tuple[str, ...]
    """The stems of the reply's words."""


def _words(seen: Sight) -> _Words:
    own = tuple(
        frozenset(english_stem(word) for word in words if word not in phrases.DETERMINERS)
        for words in seen.options.words
    )
    telling = tuple(frozenset(stem for stem in stems if sum(stem in other for other in own) == 1) for stems in own)
    every = frozenset[str]().union(*own)
    asked: dict[str, int] = {}
    for rank, stem in enumerate(content(seen.question.lower()[:2_000])):
        if stem not in every:
            asked.setdefault(stem, rank)
    return _Words(own, telling, asked, tuple(english_stem(token.text) for token in tokens(seen.text)))


def of_options(seen: Sight) -> list[Clues]:
    """What speaks for each option and against it."""
    words = _words(seen)
    offsets = named(seen.whole)
    around = {offset: _clause(seen, offsets, rank) for rank, offset in enumerate(offsets)}
    shared = {o: len(frozenset(content(seen.whole.text[s:e])) & words.asked.keys()) for o, (s, e) in around.items()}
    alike = likeness(seen.text, seen.question.lower()[:LONGEST_QUESTION], seen.options, seen.parts)
    return [
        {
            **_of_mentions(seen, place, offsets),
            **_of_last(seen, place, offsets, words, around, shared),
            **_of_words(seen, place, words),
            **_where_asked(seen, place, offsets),
            **alike[place],
        }
        for place in range(seen.options.count)
    ]


def _where_asked(seen: Sight, place: int, offsets: list[int]) -> Clues:
    """Whether an option is named in the sentence that comes nearest to the question, and which others are."""
    start, end = seen.parts.spans[seen.parts.answering]
    inside = [offset for offset in offsets if start <= seen.whole.at[offset].start < end]
    asserted = [offset for offset in inside if offset not in seen.said.denied]
    named_there = seen.places(asserted)
    own = [
        seen.parts.covered[seen.parts.at(seen.whole.at[offset].start)]
        for offset in offsets
        if place in seen.whole.at[offset].places and offset not in seen.said.denied
    ]
    return {
        "covered around it": max(own, default=-1.0),
        "covered around the last": own[-1] if own else -1.0,
        "named where asked": place in named_there,
        "denied where asked": place in seen.places(inside) - named_there,
        "others where asked": len(named_there - {place}),
        "first where asked": bool(asserted) and place in seen.whole.at[asserted[0]].places,
        "last where asked": bool(asserted) and place in seen.whole.at[asserted[-1]].places,
    }


def _clause(seen: Sight, offsets: list[int], rank: int) -> tuple[int, int]:
    """The part of the sentence around a mention up to its neighbours."""
    sentence = seen.said.around(offsets[rank])
    start = max(sentence.start, offsets[rank - 1] + 1) if rank else sentence.start
    return start, min(sentence.end, offsets[rank + 1]) if rank + 1 < len(offsets) else sentence.end


def _of_mentions(seen: Sight, place: int, offsets: list[int]) -> Clues:
    """How often an option is named, as what, and which others are."""
    every, said = seen.whole.offsets, seen.said
    own = [offset for offset in every if place in seen.whole.at[offset].places]
    naming = [offset for offset in own if seen.whole.text[offset] <= phrases.CONFLICT]
    asserted = [offset for offset in naming if offset not in said.denied]
    others = seen.places() - {place}
    denied = seen.places(said.denied)
    stated, declared, leading = (seen.places(found) for found in (said.stated, said.declared, said.leading))
    last, first = said.sentences[-1], said.sentences[0]
    kinds = [seen.whole.at[offset].kind for offset in own]
    clues: dict[str, float] = {
        f"as {name}": min(kinds.count(kind), 3)
        for name, kind in zip(("bare", "strong", "text", "both", "conflict"), _MENTION_KINDS, strict=True)
    }
    return clues | {
        "as doubtful": min(kinds.count(phrases.DOUBTFUL), 3),
        "named": min(len(naming), 3),
        "asserted": min(len(asserted), 3),
        "denied": min(len(naming) - len(asserted), 3),
        "listed": any(offset in said.listed for offset in own),
        "others named": len(others),
        "others denied": len(denied - {place}),
        "all others denied": len(denied - {place}) == seen.options.count - 1,
        "all others named": len(others) == seen.options.count - 1 and not own,
        "all named": len(others) == seen.options.count - 1 and bool(own),
        "first named": bool(offsets) and place in seen.whole.at[offsets[0]].places,
        "last named": bool(offsets) and place in seen.whole.at[offsets[-1]].places,
        "last at all": bool(every) and place in seen.whole.at[every[-1]].places,
        "soft": any(seen.whole.at[offset].soft for offset in naming),
        "alias": any(seen.whole.at[offset].alias for offset in naming),
        "alias alone": bool(naming) and all(seen.whole.at[offset].alias for offset in naming),
        "shared": any(len(seen.whole.at[offset].places) > 1 for offset in naming),
        "stated": place in stated,
        "last stated": bool(said.stated) and place in seen.whole.at[max(said.stated)].places,
        "others stated": len(stated - {place}),
        "declared": place in declared,
        "others declared": len(declared - {place}),
        "leading": place in leading,
        "opens": bool(naming) and naming[0] in said.leading and naming[0] <= first.end,
        "others leading": len(leading - {place}),
        "in last sentence": any(last.start <= offset <= last.end for offset in asserted),
        "alone in last sentence": {
            p for o in offsets if o >= last.start and o not in said.denied for p in seen.whole.at[o].places
        }
        == {place},
        "in first sentence": any(first.start <= offset <= first.end for offset in asserted),
        "in sentences": len({said.around(offset) for offset in asserted}),
        "begins at": min(naming[0], 400) if naming else -1,
        "ends before": min(len(seen.whole.text) - naming[-1], 400) if naming else -1,
    }


_MENTION_KINDS = (phrases.BARE, phrases.STRONG, phrases.TEXT, phrases.BOTH, phrases.CONFLICT)


def _of_last(
    seen: Sight,
    place: int,
    offsets: list[int],
    words: _Words,
    around: Mapping[int, tuple[int, int]],
    shared: Mapping[int, int],
) -> Clues:
    """What stands around the last mention of an option that is not denied, or the last."""
    own = [offset for offset in offsets if place in seen.whole.at[offset].places]
    if not own:
        return _NOTHING_AROUND
    at = next((offset for offset in reversed(own) if offset not in seen.said.denied), own[-1])
    text, sentence = seen.whole.text, seen.said.around(at)
    start, end = around[at]
    before, behind = content(text[sentence.start : at]), content(text[at + 1 : sentence.end])
    asked_before = [words.asked[stem] for stem in before if stem in words.asked]
    asked_behind = [words.asked[stem] for stem in behind if stem in words.asked]
    other_clauses = [shared[o] for o in offsets if place not in seen.whole.at[o].places]
    best = max(shared[offset] for offset in own)
    nearest = text[max(0, at - 40) : at].split()[-1:] or [""], text[at + 1 : at + 41].split()[:1] or [""]
    [left], [right] = nearest
    clues: dict[str, float] = {
        "shares with the question": best,
        "shares more": best - max(other_clauses, default=0),
        "sentence shares": len(asked_before) + len(asked_behind),
        "question words": len(words.asked),
        "others in sentence": sum(
            1 for o in offsets if sentence.start <= o <= sentence.end and place not in seen.whole.at[o].places
        ),
        "clause says more": len(frozenset(content(text[start:end])) - words.asked.keys()),
        "asked before": len(asked_before),
        "asked behind": len(asked_behind),
        "first asked before": asked_before[0] if asked_before else -1,
        "last asked before": asked_before[-1] if asked_before else -1,
        "first asked behind": asked_behind[0] if asked_behind else -1,
        "turned round": asked_before[0] > asked_behind[0] if asked_before and asked_behind else -1,
        "more before": len(before) - len(asked_before),
        "more behind": len(behind) - len(asked_behind),
        "opposites": opposites(before + behind, words.asked.keys()),
        "begins the sentence": not text[sentence.start : at].strip(),
        "ends the sentence": right in ("", ".", "!", "\n"),
        "asked": sentence.ending == "?",
        "behind a small word": left in phrases.AUXILIARIES or left in phrases.PREPOSITIONS,
        "behind a copula": left in ("is", "be", ":", "=", "→", "it's", "answer", "that's"),
        "behind the": left in ("the", "this", "that"),
        "behind a": left in ("a", "an"),
        "before a verb": right in ("is", "are", "was", "has", "does", "can"),
        "before a comma": right in (",", "and", "or"),
        "in quotes": _in_quotes(seen, at),
        "last is bare": seen.whole.at[at].kind == phrases.BARE,
        "last is a label": seen.whole.at[at].kind in (phrases.STRONG, phrases.BOTH),
        "last is soft": seen.whole.at[at].soft,
        "last is an alias": seen.whole.at[at].alias,
        "introduced": not left or left in phrases.BEFORE_BARE,
        "ends a clause": patterns.END.match(text, at + 1) is not None,
    }
    for kind, places in seen.marks.items():
        inside = [mark - at for mark in places if sentence.start <= mark < sentence.end]
        clues[f"{kind} before"] = min((-far for far in inside if far < 0), default=_FAR)
        clues[f"{kind} behind"] = min((far for far in inside if far > 0), default=_FAR)
        clues[f"{kind} later"] = min(sum(mark >= sentence.end for mark in places), 4)
    return clues


def _in_quotes(seen: Sight, offset: int) -> bool:
    """Whether the reply has quotation marks around the mention."""
    start = seen.whole.at[offset].start
    return seen.text[:start].count('"') % 2 == 1 and '"' in seen.text[start:]


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


def _of_words(seen: Sight, place: int, words: _Words) -> Clues:
    """How many of an option's words the reply has, wherever they stand, and what kind of option it is."""
    own, telling, said = words.own[place], words.telling[place], frozenset(words.said)
    others = [len(t & said) / len(t) for p, t in enumerate(words.telling) if p != place and t]
    first = seen.options.words[place][:1]
    return {
        "telling words": len(telling & said) / max(1, len(telling)),
        "own words": len(own & said) / max(1, len(own)),
        "telling words there are": len(telling),
        "own words there are": len(own),
        "telling words first": len(telling & frozenset(words.said[:12])) / max(1, len(telling)),
        "telling words last": len(telling & frozenset(words.said[-25:])) / max(1, len(telling)),
        "telling words of others": max(others, default=0.0),
        "is yes": place in _agreeing(seen.options, _YES),
        "is no": place in _agreeing(seen.options, _NO),
        "is none": first in (("none",), ("neither",), ("nothing",)),
        "is all": place in seen.options.summing_up,
        "is unknown": CANNOT_BE_TOLD.search(seen.options.options[place].lower()[:200]) is not None,
        "is longer than another": place in seen.options.nested,
        "is a number": bool(first) and first[0][:1].isdigit(),
        **_of_statement(seen, place),
    }


def _of_statement(seen: Sight, place: int) -> Clues:
    """Of yes and no: whether the clause that is nearest to the question says so, or says the contrary, and how fully;
    apart where it has the question's words in another order."""
    side = (place in _agreeing(seen.options, _YES)) - (place in _agreeing(seen.options, _NO))
    said = proposition(seen.text, seen.question) if side else {}
    if not said:
        return dict.fromkeys(("statement for", "statement turned", "statement to the point", "statement judged"), 0.0)
    turns = said["proposition denials"] + said["proposition opposites"]
    stands = side * (1 if turns % 2 == 0 else -1) * said["proposition covered"]
    ordered = said["proposition in order"] == 1 and not said["proposition passive"]
    return {
        "statement for": stands if ordered else 0.0,
        "statement turned": 0.0 if ordered else stands,
        "statement to the point": stands * said["proposition to the point"] if ordered else 0.0,
        "statement judged": float(side * verdict_on_statement(" ".join(seen.text.split()))),
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


def rows(seen: Sight) -> tuple[list[str], list[list[float]]]:
    """The names of all clues, and a row of them an option: its own, the most that any other has, the reply's."""
    of_each, shared = of_options(seen), of_reply(seen)
    names = list(of_each[0])
    values = [[float(clues[name]) for name in names] for clues in of_each]
    everything = [float(value) for value in shared.values()]
    return (
        [*names, *(f"others: {name}" for name in names), *(f"reply: {name}" for name in shared)],
        [[*own, *_most(values, place), *everything] for place, own in enumerate(values)],
    )


def _most(values: Sequence[Sequence[float]], place: int) -> list[float]:
    others = [row for other, row in enumerate(values) if other != place]
    return [max(column) for column in zip(*others, strict=True)] if others else [0.0] * len(values[place])
