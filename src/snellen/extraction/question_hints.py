"""What a question says about how a reply to it is meant: a denial, yes or no, the words that the answer shares."""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.extraction import languages
from snellen.extraction.foreign_patterns import words_pattern
from snellen.extraction.option_index import OptionIndex, tokens
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.patterns import GROUP
from snellen.extraction.phrases import CONFLICT, DENIED, DOUBTFUL

_LONGEST_QUESTION = 2_000
_NEGATIVE = re.compile(
    r"\b(?:not|except|isn't|aren't|doesn't|don't|can't|cannot|false|incorrect|wrong|untrue|missing|absent|"
    r"lacks?|nicht|kein|keine|keinen"
    r"|keines|falsch|fehlt|pas|aucun|absente?|manque|incorrecte|fausse|no|ningún|falta|ausente|não|nenhum|"
    r"non|nessun|manca|niet|geen|ontbreekt|nie|brakuje"
    r"|не|нет|отсутствует|değil|yok|olmayan|bukan|tidak|"
    r"không|ليس|لا|नहीं)\b|不是|没有|沒有|不在|不属于|不見|不见|没|ない|ません|"
    r"いない|없는|않은|않는|아닌|않"
)


@lru_cache(maxsize=4096)
def asks_for_what_is_not(question: str) -> bool:
    """Whether a question asks for the option that is denied: "Which of these is not in the picture?"."""
    return _NEGATIVE.search(question[:_LONGEST_QUESTION].lower()) is not None


def denied_option(said: Skeleton) -> int | None:
    """The one option that a reply denies, where it denies just one."""
    places = {mention.places for offset, mention in said.at.items() if said.text[offset] == DENIED}
    [only] = places if len(places) == 1 else [()]
    return only[0] if len(only) == 1 else None


# --- the words that question and answer share ----------------------------------------------------------------------

_STOP = frozenset(
    "the and are was were what which who whom whose where when why how does did has have had this that "
    "these those there their "
    "its his her with from for into onto image picture photo shown show shows many much can could would "
    "you your following best "
    "most option options answer question one two being been about than then they them but not all any some left".split()
)
_BOUNDARY = re.compile(
    r" (?:[,;:.!?\n-]|and|while|whereas|but|however|und|während|et|tandis|y|mientras|e|enquanto|mentre|en|"
    r"terwijl|i|podczas|и|тогда|ve|dan|sedangkan|và) "
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_STEM = 4


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in _WORD.findall(text.lower()) if word not in _STOP)


@lru_cache(maxsize=4096)
def _question_stems(question: str) -> frozenset[str]:
    return _stems(question[:_LONGEST_QUESTION])


def answering_option(said: Skeleton, question: str, asked: OptionIndex) -> int | None:
    """Of several options named in prose, the one whose clause shares clearly most words with the question."""
    wanted = _question_stems(question) - frozenset(word[:_STEM] for word in asked.vocabulary)
    offsets = [o for o in said.offsets if said.text[o] <= CONFLICT or said.text[o] == DOUBTFUL]
    if not wanted or not offsets or any(len(said.at[o].places) != 1 or said.at[o].kind == CONFLICT for o in offsets):
        return None
    shared: dict[int, int] = {}
    bounds = [0, *(m.start() for m in _BOUNDARY.finditer(said.text)), len(said.text)]
    starts = [max(bound for bound in bounds if bound <= offset) for offset in offsets]
    for number, offset in enumerate(offsets):
        start = starts[number]
        end = next((later for later in starts[number + 1 :] if later > offset), len(said.text))
        place = said.at[offset].places[0]
        shared[place] = max(shared.get(place, 0), len(_stems(said.text[start:end]) & wanted))
        if _paired(said, offset):
            return None
    ranked = sorted(shared.values(), reverse=True)
    if len(ranked) < 2 or ranked[0] == 0 or (ranked[1] and ranked[0] - ranked[1] < 2):
        return None
    return next(place for place, count in shared.items() if count == ranked[0])


def _paired(said: Skeleton, offset: int) -> bool:
    """Whether a mention is coordinated with one of another option: "between joy and rage"."""
    group = GROUP.match(said.text, offset)
    return group is not None and len({said.at[o].places for o in said.offsets if offset <= o < group.end()}) > 1


# --- yes and no ------------------------------------------------------------------------------------------------------

_YES, _NO = (frozenset(table["mixed"].split()) for table in (languages.YES, languages.NO))
_SAYS_YES = re.compile(
    r"(?:well , )?(?:(?:most )?(?:likely|probably)|i (?:think|believe|guess|suppose) so|it (?:is|does|has|"
    r"was|can)|(?:they|there) (?:are|is|do)|he (?:is|does)|she (?:is|does)"
    r"|absolutely|certainly|definitely|of course|sure|indeed|correct|that's (?:right|correct|true)|"
    r"affirmative|true)(?: , .*)?[ .!]*"
)
_SAYS_NO = re.compile(
    r"(?:well , )?(?:(?:most |very )?(?:likely|probably|certainly|definitely|absolutely|of course|obviously|"
    r"clearly|perhaps) not|i don't (?:think|believe) so"
    r"|not (?:really|at all|that i can see|quite|likely)|(?:it|he|she) (?:is not|isn't|does not|doesn't|has "
    r"not|hasn't)|(?:they|there) (?:aren't|are not|isn't|is not|don't)"
    r"|unlikely|i doubt it|negative|false|nope|nah|hardly)(?: , .*)?[ .!]*"
)
_DENIES = words_pattern(
    languages.union(languages.NEGATION, languages.NEGATION_BEHIND)
    | set("not no isn't aren't doesn't don't wasn't can't cannot never nothing nobody none without".split())
)
_DENYING = re.compile(rf"{_DENIES}|n't\b|不|没|沒|ない|ません|않|없|아닙니다")
_BREAK = re.compile(r"[.!?\n,;]")


def yes_or_no(text: str, question: str, asked: OptionIndex) -> int | None:
    """The option yes, or no, that a reply means without the word: "I think so", "The light is not green"."""
    yes, no = _place(asked, _YES), _place(asked, _NO)
    if yes is None or no is None or yes == no:
        return None
    spoken = " ".join(token.text for token in tokens(text.strip()[:400]))
    if _SAYS_NO.fullmatch(spoken):
        return no
    if _SAYS_YES.fullmatch(spoken):
        return yes
    first = (
        spoken.split(" ", 1)[0]
        if not _CJK.match(spoken)
        else next((w for w in ("不是", "はい", "いいえ", "是的") if spoken.replace(" ", "").startswith(w)), "")
    )
    if first in _YES or first in _NO:
        return yes if first in _YES else no
    sentence = _BREAK.split(spoken, maxsplit=1)[0]
    said, wanted = _stems(_DENYING.sub(" ", sentence)), _question_stems(question)
    if (
        not said
        or len(said & wanted) < max(1, 0.75 * len(said))
        or asks_for_what_is_not(question)
        or len(_BREAK.findall(spoken)) > 2
    ):
        return None
    if _DENYING.search(sentence):
        return no
    return yes if said <= wanted and len(said) > 1 else None


_CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")


def _place(asked: OptionIndex, words: frozenset[str]) -> int | None:
    places = [place for place, sequence in enumerate(asked.words) if "".join(sequence) in words]
    return places[0] if len(places) == 1 else None
