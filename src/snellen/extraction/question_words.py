"""Replies that answer in the question's own words: "the main idea is A", "Peter holds the bag and Ann the umbrella"."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache

from snellen.extraction import languages, patterns, phrases
from snellen.extraction.assertion_filters import mentioned, sentences, set_aside
from snellen.extraction.foreign_patterns import words_pattern
from snellen.extraction.inflections import english_stem
from snellen.extraction.negative_questions import LONGEST_QUESTION, asks_for_what_is_not, denies
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.phrases import CONFLICT, DOUBTFUL
from snellen.formats.late_patterns import late_pattern

_STOP = frozenset(
    "the and are was were what which who whom whose what where when why how does did has have had this that "
    "these those there their "
    "its his her with from for into onto image picture photo shown show shows many much can could would "
    "you your following "
    "most option options answer question one two being been about than then they them but not all any some "
    "más plus più mais mehr meer bardziej самый самая самое paling nhất est son per que del der die das den dem ein "
    "eine una les des het een van dan mit con pour dans sur por para pada yang adalah".split()
)
_WORD = late_pattern(r"[^\W\d_]{3,}|\d+|\b[a-z](?= ?- ?axis)")
_STEM = 4
_MOST_MENTIONS = 200
"""So many mentions are looked at one by one; more are no sentence that says one thing of another."""


def stems(text: str) -> frozenset[str]:
    """First letters of the words that say something, and numbers."""
    return frozenset(word[:_STEM] for word in _WORD.findall(text.casefold()) if word not in _STOP)


@lru_cache(maxsize=4096)
def question_stems(question: str) -> frozenset[str]:
    return stems(question[:LONGEST_QUESTION])


@lru_cache(maxsize=4096)
def topic(question: str) -> frozenset[str]:
    """The stems of a question's words that say something."""
    return frozenset(
        english_stem(word) for word in _WORD.findall(question[:LONGEST_QUESTION].casefold()) if word not in _STOP
    )


@lru_cache(maxsize=4096)
def predicates(question: str) -> frozenset[str]:
    """The beginnings of what a question asks for, with "have" where it asks what has something."""
    lowered = question[:LONGEST_QUESTION].lower()
    has = re.search(r"\b(?:has|have|had)\b", lowered)
    does = _WHO_DOES.match(lowered.strip())
    return question_stems(question) | ({"have"} if has else frozenset()) | (_DO if does else frozenset())


_WHO_DOES = late_pattern(r"(?:who|which(?: \w+)?) (?!is\b|are\b|was\b|were\b|of\b|one\b|best\b)\w+")
_DO = frozenset(("do", "does", "did"))


def of_other_things(skeleton: Skeleton, question: str, index: OptionIndex) -> Skeleton:
    """Without adjectives of a thing beside the one asked about: the house of "the car is next to a red house"."""
    wanted = question_stems(question)
    if not index.adjectival or not wanted:
        return skeleton
    spans = []
    for offset in mentioned(skeleton)[:_MOST_MENTIONS]:
        noun = _NOUN_BEHIND.match(skeleton.text, offset + 1)
        if skeleton.at[offset].kind != phrases.TEXT or noun is None or noun[1] in phrases.FOLLOWERS:
            continue
        sentence = patterns.SENTENCE_END.split(skeleton.text[max(0, offset - 300) : offset])[-1]
        if noun[1][:_STEM] not in wanted and stems(sentence) & wanted and _BESIDE.search(sentence):
            spans.append((offset, offset + 1))
    return set_aside(skeleton, spans, phrases.IDLE)


def without_reversed_relations(skeleton: Skeleton, question: str, index: OptionIndex) -> Skeleton:
    """Without "right" of "the cube is right of the ball", where the question asks where the ball is from the cube."""
    if not question:
        return skeleton
    skeleton = _without_other_party(skeleton, question, index)
    relations = phrases.RELATIONS | phrases.PREPOSITIONS
    if not all(words and words[0] in relations for words in index.words):
        return skeleton
    order = {word[:_STEM]: at for at, word in enumerate(_WORD.findall(question[:LONGEST_QUESTION].casefold()))}
    wanted = question_stems(question)
    spans = []
    for offset in mentioned(skeleton)[:_MOST_MENTIONS]:
        before = stems(patterns.SENTENCE_END.split(skeleton.text[max(0, offset - 300) : offset])[-1]) & wanted
        behind = stems(patterns.CLAUSE_START.split(skeleton.text[offset + 1 : offset + 300])[0]) & wanted
        if before and behind and min(order[stem] for stem in before) > max(order[stem] for stem in behind):
            spans.append((offset, offset + 1))
    return set_aside(skeleton, spans, phrases.IDLE)


def _without_other_party(skeleton: Skeleton, question: str, index: OptionIndex) -> Skeleton:
    """Without "taller" of "the woman is taller", where the question is whether the man is taller than she."""
    asked = " ".join(re.findall(r"\w+", question[:LONGEST_QUESTION].casefold()))
    found = [match for words in index.words if (match := re.search(rf"\b{re.escape(' '.join(words))}\b", asked))]
    if len(found) < _FEWEST_NAMED or any(not words for words in index.words):
        return skeleton
    first, last = min(match.start() for match in found), max(match.end() for match in found)
    subject, compared = stems(asked[:first]), stems(asked[last:])
    subject, other = subject - compared, compared - subject
    if not subject or not other or " or " not in asked[first:last]:
        return skeleton
    spans = []
    for offset in mentioned(skeleton)[:_MOST_MENTIONS]:
        sentence = patterns.SENTENCE_END.split(skeleton.text[max(0, offset - 300) : offset])[-1]
        before = stems(patterns.CLAUSE_START.split(sentence)[-1])
        if before & other and not before & subject:
            spans.append((offset, offset + 1))
    return set_aside(skeleton, spans, phrases.IDLE)


_FEWEST_NAMED = 2
_NOUN_BEHIND = late_pattern(r" ([a-z]{3,})\b(?! (?:car|one)\b)")
_BESIDE = late_pattern(
    r"\b(?:next to|near|beside|behind|by|with|against|under|above|below|between|towards?|past|"
    r"across from|in front of|of)(?: (?:a|an|the|some|two|its|his|her))? $"
)


# --- a sentence whose subject is what was asked for -------------------------------------------------------------------

COPULAS = words_pattern(
    languages.union(languages.COPULA) | set("is are was were would_be must_be shows : = reads says".split())
)
FILL = words_pattern(
    languages.union(languages.FILL, languages.OPTION)
    | set("clearly probably most likely therefore thus definitely a an the number that".split())
)
_SUBJECT = late_pattern(
    rf"(?P<subject>(?:[^\W\d_][^\s.,;:!?\n]*(?: ,)? ){{1,14}}?){COPULAS}"
    rf"(?: (?:{FILL}|:)){{0,4}} "
    rf"(?P<x>[{patterns.MENTIONS}]){patterns.END.pattern}"
)
_CLEFT = late_pattern(
    rf"(?:(?:so|and|but|thus|therefore|hence)(?: ,)? )?(?:it's|it is|it was) (?:a |an "
    rf"|the )?(?P<x>[{patterns.MENTIONS}])"
    r" (?:that|who|which) (?P<deed>[^.!?\n,;]*)"
)
_THE_ONE = late_pattern(r"\b(?:one|option|thing|choice|item|answer|only|statement) (?:that|which|who|to)\b")
NAMELESS = late_pattern(r"\b(?:it|this|that|there|he|she|they|these|those|here|i|we|you|if|not)\b")


def answers_in_its_words(skeleton: Skeleton, question: str) -> list[int]:
    """Offsets of the mentions that are said to be what the question asks for."""
    asked = question_stems(question)
    found = []
    for start, end, ending in sentences(skeleton):
        if ending == "?":
            continue
        cleft = _CLEFT.match(skeleton.text, start, end + 1)
        if (
            cleft is not None
            and stems(cleft["deed"]) & asked
            and not denies(cleft[0])
            and not asks_for_what_is_not(question)
        ):
            found.append(cleft.start("x"))
        match = _SUBJECT.match(skeleton.text, start, end + 1)
        if match is None:
            continue
        subject = match["subject"]
        the_one = _THE_ONE.search(subject) is not None
        words = stems(subject)
        if the_one:
            fits = denies(subject) == asks_for_what_is_not(question) or bool(words & asked)
        else:
            fits = bool(words) and words <= asked and NAMELESS.search(subject) is None
        if fits and (the_one or denies(subject) <= asks_for_what_is_not(question)):
            found.append(match.start("x"))
    return found


# --- the clause that shares its words with the question ---------------------------------------------------------------

_APART = (
    r"[;.!?\n]|while|whereas|but|however|während|aber|tandis|mientras|pero|enquanto|"
    "mentre|terwijl|podczas|а|sedangkan|còn"
)
_TOGETHER = r"[,:-]|and|und|et|y|e|en|i|и|тогда|ve|dan|và"
_BOUNDARIES = tuple(
    late_pattern(rf" (?:{words})(?= |$)") for words in (rf"{_APART}|{_TOGETHER}", rf"{_APART}|,(?= (?:and )?)", _APART)
)


def answering_option(skeleton: Skeleton, question: str, index: OptionIndex) -> int | None:
    """Of several options named in prose, the one whose clause shares clearly most words with the question."""
    wanted = question_stems(question) - frozenset(word[:_STEM] for word in index.vocabulary) - COPULAR_STEMS
    offsets = [o for o in skeleton.offsets if skeleton.text[o] <= CONFLICT or skeleton.text[o] == DOUBTFUL]
    if (
        not wanted
        or not offsets
        or any(len(skeleton.at[o].places) != 1 or skeleton.at[o].kind == CONFLICT for o in offsets)
    ):
        return None
    if _OF_OTHERS_TOO.search(skeleton.text):
        return None
    for boundary in _BOUNDARIES:
        place = _most_shared(skeleton, offsets, wanted, boundary)
        if place is not None:
            return (
                place if _says_just_that(skeleton, offsets, place, question_stems(question) - COPULAR_STEMS) else None
            )
    return None


_LONGEST_CLAUSE = 600
_FEWEST_SHARED = 2
_ENOUGH = 0.6
# "and so does B", "B too": what is said of one is said of another.
_OF_OTHERS_TOO = late_pattern(
    r"\b(?:so|neither|nor) (?:do|does|did|is|are|was|were|has|have|can|will)\b"
    r"|\bas (?:do|does|did)\b"
    r"|\b(?:too|also|as well|likewise|both|auch|ebenfalls|ebenso|aussi|également|también|também|anche|pure|ook|też"
    r"|także|również|тоже|также|juga|cũng|ayrıca|de igual modo)\b|也|も|도 |भी|أيضا"
)
_CLAUSES = late_pattern(rf" (?:{_APART}|,|{_TOGETHER.partition('|')[2]}|so|because|since)(?= |$)")


def _says_just_that(skeleton: Skeleton, offsets: list[int], place: int, wanted: frozenset[str]) -> bool:
    """Whether a clause says of a place what is asked for, and nothing behind it may turn to another option.

    Either it says nothing else (in two words, or as the last word on any option), or most of what is asked for
    and no clause of another option any of it.
    """
    shown = [(offset, _clause_words(skeleton, offset)) for offset in offsets[:_MOST_MENTIONS]]
    of_others = (
        frozenset(w for offset, words in shown if skeleton.at[offset].places != (place,) for w in words) & wanted
    )
    begins = [match.start() for match in turns(skeleton.spoken).finditer(skeleton.text)]
    for offset, words in shown:
        if skeleton.at[offset].places != (place,) or not words or denies(_clause_around(skeleton, offset)):
            continue
        later = max((o for o in offsets if skeleton.at[o].places != (place,)), default=0)
        last = later < offset
        if not last and any(offset < turn < later for turn in begins):
            continue
        whole = len(words) >= _FEWEST_SHARED or (words == wanted and words.isdisjoint(of_others))
        if words <= wanted and (whole or (last and _identified(skeleton, offset))):
            return True
        shared = (words & wanted) - of_others
        if len(shared) >= max(_FEWEST_SHARED, _ENOUGH * len(wanted)) and shared == words & wanted and not of_others:
            return True
    return False


def _identified(skeleton: Skeleton, offset: int) -> bool:
    """Whether a mention stands beside a copula: "the radius is 5", "green is the largest", not "there are 5 apples"."""
    before, behind = skeleton.text[max(0, offset - 60) : offset], skeleton.text[offset + 1 : offset + 60]
    return _IS_BEHIND.search(before) is not None or _IS_BEFORE.match(behind) is not None


_IS_BEHIND = late_pattern(rf"(?<!there) {COPULAS}(?: (?:{FILL}))* $")
_IS_BEFORE = late_pattern(rf" {COPULAS}(?= )")


def _clause_around(skeleton: Skeleton, offset: int) -> str:
    """The clause that a mention stands in."""
    begin = max(0, offset - _LONGEST_CLAUSE)
    start = max((match.end() for match in _CLAUSES.finditer(skeleton.text, begin, offset + 1)), default=begin)
    stop = _CLAUSES.search(skeleton.text, offset + 1)
    return skeleton.text[start : min(stop.start() if stop else len(skeleton.text), offset + _LONGEST_CLAUSE)]


def _clause_words(skeleton: Skeleton, offset: int) -> frozenset[str]:
    """What the clause around a mention says, in stems."""
    return stems(_clause_around(skeleton, offset)) - COPULAR_STEMS


@lru_cache(maxsize=256)
def turns(spoken: tuple[str, ...]) -> re.Pattern[str]:
    """But, and what says so in some languages."""
    words = frozenset(word for language in ("en", *spoken) for word in languages.CONTRAST.get(language, "").split())
    return re.compile(rf" {words_pattern(words)}(?= )|但|不过|しかし|でも|けど|하지만|지만")


_ASKING = (
    "welk welche wer wie wat wo hoeveel wieviel quel combien qui que où cuál cuánto quién qué dónde qual quais quem "
    "quanto onde quale quali quanti chi dove che który która które ile kto gdzie jaki jaka jakie "
    "какой какая какое сколько кто где mana siapa berapa hangisi kaç kim nào mấy"
).split()
COPULAR_STEMS = frozenset(word[:_STEM] for word in (*languages.union(languages.COPULA, languages.FILL), *_ASKING))


def _most_shared(
    skeleton: Skeleton, offsets: list[int], wanted: frozenset[str], boundary: re.Pattern[str]
) -> int | None:
    """The place whose clauses hold most of the wanted words that not every such clause holds."""
    bounds = [0, *(m.start() for m in boundary.finditer(skeleton.text)), len(skeleton.text)]
    starts = [bounds[bisect_right(bounds, offset) - 1] for offset in offsets]
    ends = [*starts[1:], len(skeleton.text)]
    shared: dict[int, frozenset[str]] = {}
    for offset, start in zip(offsets, starts, strict=True):
        end = ends[bisect_right(starts, start) - 1]
        place = skeleton.at[offset].places[0]
        shared[place] = shared.get(place, frozenset()) | (stems(skeleton.text[start:end][:_LONGEST_CLAUSE]) & wanted)
    if len(shared) < 2:
        return None
    common = frozenset.intersection(*shared.values())
    ranked = sorted(shared, key=lambda place: len(shared[place]), reverse=True)
    first, second = (shared[place] - common for place in ranked[:2])
    if not first or (second and len(first) - len(second) < 2) or _paired(skeleton, offsets, ranked[0]):
        return None
    return ranked[0]


def _paired(skeleton: Skeleton, offsets: list[int], place: int) -> bool:
    """Whether a place is named together with another: "between joy and rage"."""
    for offset in offsets[:_MOST_MENTIONS]:
        group = patterns.GROUP.match(skeleton.text, offset)
        if group is not None:
            inside = offsets[bisect_left(offsets, offset) : bisect_left(offsets, group.end())]
            together = {skeleton.at[o].places[0] for o in inside}
            if len(together) > 1 and place in together:
                return True
    return False
