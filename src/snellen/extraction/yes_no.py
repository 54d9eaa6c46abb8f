"""Yes and no in other words: "I think so", "the light is not green", "both images show the same person"."""

from __future__ import annotations

import re

from snellen.extraction import languages, phrases
from snellen.extraction.foreign_patterns import words_pattern
from snellen.extraction.inflections import english_stem
from snellen.extraction.negative_questions import LONGEST_QUESTION, asks_for_what_is_not
from snellen.extraction.option_index import OptionIndex, tokens
from snellen.extraction.question_words import question_stems, stems
from snellen.extraction.undetermined import CANNOT_BE_TOLD
from snellen.formats.late_patterns import late_pattern

_YES, _NO = languages.YES | {"true"}, languages.NO | {"false", "incorrect"}
_SAYS_YES = late_pattern(
    r"(?:well , )?(?:(?:most )?(?:likely|probably)|i (?:think|believe|guess|suppose) so|it (?:is|does|has|"
    r"was|can)|(?:they|there) (?:are|is|do)|he (?:is|does)|she (?:is|does)"
    r"|absolutely|certainly|definitely|of course|sure|indeed|correct|that's (?:right|correct|true)|"
    r"affirmative|true)(?: , .*)?[ .!]*"
)
_SAYS_NO = late_pattern(
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
_DENYING = late_pattern(rf"{_DENIES}|n't\b|不|没|沒|ない|ません|않|없|아닙니다")
_DOUBTS = late_pattern(rf"{_DENYING.pattern}|\bor\b")
_BREAK = late_pattern(r"[.!?\n,;]")


def yes_or_no(text: str, question: str, index: OptionIndex) -> int | None:
    """The option yes, or no, that a reply means without the word: "I think so", "The light is not green"."""
    yes, no = _place(index, _YES), _place(index, _NO)
    if yes is None or no is None or yes == no:
        return None
    spoken = _NO_DOUBT.sub("", " ".join(token.text for token in tokens(text.strip()[:400])))
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
    judged = _verdict_on_statement(spoken)
    if judged is not None:
        return yes if judged else no
    if CANNOT_BE_TOLD.search(spoken) or _turns_round(spoken, question):
        return None
    if not asks_for_what_is_not(question):
        if _lacks(spoken, question):
            return no
        side = _side(spoken, question)
        if side is not None:
            return yes if side else no
        if _is_just_so(spoken, question):
            return yes
        first, _, behind = _split_first(spoken)
        if _affirmed(spoken, question) and not _DOUBTS.search(first) and not _TAKES_BACK.search(behind):
            return yes
    return _by_statement(spoken, question, yes, no)


def _by_statement(spoken: str, question: str, yes: int, no: int) -> int | None:
    """What a statement of the very thing that is asked, or its denial, means; its words have to stand in the order of
    the question's, since "the cat chases the dog" says nothing of a dog that chases a cat."""
    sentence, _, behind = _split_first(spoken)
    said, wanted = stems(_DENYING.sub(" ", sentence)), question_stems(question)
    shared = said & wanted
    if (
        not shared
        or len(shared) < 0.75 * len(said)
        or asks_for_what_is_not(question)
        or len(_BREAK.findall(spoken)) > 2
        or _TAKES_BACK.search(behind)
        or not _in_order_of(question, _relational(_DENYING.sub(" ", sentence)))
    ):
        return None
    if _DENYING.search(sentence):
        return no
    return yes if said <= wanted and len(said) > 1 else None


def _split_first(spoken: str) -> tuple[str, str, str]:
    """The first clause, what ends it, and what stands behind."""
    end = _BREAK.search(spoken)
    return (spoken[: end.start()], end[0], spoken[end.end() :]) if end else (spoken, "", "")


def _relational(text: str) -> list[str]:
    """The words of a text that say what stands in which relation to what, in order: all but articles, auxiliaries and
    where it is seen."""
    shown = _SHOWN_IN.sub(" ", text.lower())
    return [
        english_stem(token.text)
        for token in tokens(shown)
        if token.kind in ("word", "number") and token.text not in _UNRELATED
    ]


def _in_order_of(question: str, said: list[str]) -> bool:
    """Whether words are some of the question's, in its order; only a verb that opens a question stands anywhere in an
    answer ("Brennt die Lampe?")."""
    wanted = _relational(question)
    if wanted and _POLAR.match(question.lower().strip()) is None:
        said, wanted = [word for word in said if word != wanted[0]], wanted[1:]
    rest = iter(wanted)
    return all(word in rest for word in said)


_UNRELATED = phrases.DETERMINERS | phrases.AUXILIARIES | frozenset("there and so yes also indeed".split())
_SHOWN_IN = late_pattern(r"\b(?:in|on) (?:the|this) (?:image|picture|photo|photograph|scene)\b")
_TAKES_BACK = late_pattern(
    rf"{_DENYING.pattern}|\b(?:false|wrong|incorrect|untrue|inaccurate|opposite|reverse|contrary|but|however|instead"
    r"|rather|actually|though|although|whereas|unlike)\b"
)
_JUDGED = r"(?:statement|claim|caption|description|sentence|assertion|premise)(?: [\"“][^\"”]*[\"”])?"
_VERDICT = late_pattern(
    rf"\b(?:the|this|that|your)(?: (?:given|above))? {_JUDGED}(?:"
    r" (?:is|was|seems|appears)(?: (?:therefore|thus|clearly|indeed|also|actually|to be))*(?P<is_not> not)? "
    r"(?P<is>true|correct|right|accurate|false|incorrect|wrong|untrue|inaccurate)\b"
    r"| (?P<fails>(?:does not|doesn't|fails to) )?(?P<does>match|matches|fit|fits|describe|describes)\b)"
    r"|\bit (?:is|was|would be)(?P<it_is_not> not)? (?P<it_is>true|correct|right|accurate|false|incorrect|wrong|untrue"
    r"|inaccurate)(?: to say)? that\b"
)
_RIGHT = frozenset("true correct right accurate".split())


def _verdict_on_statement(spoken: str) -> bool | None:
    """Whether a reply calls the statement that it judges true, or false: "..., so the statement is false"."""
    verdicts = {_holds(found) for found in _VERDICT.finditer(spoken) if not _WHETHER.search(spoken[: found.start()])}
    return verdicts.pop() if len(verdicts) == 1 else None


def _holds(verdict: re.Match[str]) -> bool:
    if verdict["does"]:
        return not verdict["fails"]
    return ((verdict["is"] or verdict["it_is"]) in _RIGHT) != bool(verdict["is_not"] or verdict["it_is_not"])


_WHETHER = late_pattern(r"\b(?:whether|if) $")


def _turns_round(spoken: str, question: str) -> bool:
    """Whether only one of a statement and a question says by whom something is done: its things change places."""
    return (_DONE_BY.search(spoken) is None) != (_DONE_BY.search(question[:LONGEST_QUESTION].lower()) is None)


_DONE_BY = late_pattern(
    r"\b(?:is|are|was|were|be|been|being) (?:\w+ ){0,4}?[a-z]{2,}(?:ed|en|t) by (?:a|an|the|his|her|its)\b"
)


def _affirmed(spoken: str, question: str) -> bool:
    """Whether one clause says all that the question asks, in its order and with nothing but small words between."""
    wanted = _words(question)
    said = _words(_BREAK.split(spoken, maxsplit=1)[0])
    stretch = len(wanted)
    there_is = _IS_THERE.match(question.lower().strip()) is not None and _THERE_IS.match(spoken) is not None
    return (stretch > 1 or there_is) and said[:stretch] == wanted


_POLAR = late_pattern(r"(?:is|are|was|were|does|do|did|has|have|can|will) ")
_PRONOUN = late_pattern(r"(?:it|they|he|she|this|that|both|the two)(?:'s|'re)? ")
_PASSIVE = late_pattern(r"\b(?:is|are|was|were|been) [a-z]+ed\b(?! by\b)")
"""Who is acted upon stands first: "bicycles are prohibited" of a sign that prohibits them."""
_SIDES = tuple(pair for one, other in languages.OPPOSITES for pair in ((one, other), (other, one)))


def _side(spoken: str, question: str) -> bool | None:
    """Whether a reply of one sentence says the same of what is asked about, or the opposite: "The shop is closed"."""
    asked = question.lower().strip()[:LONGEST_QUESTION]
    spoken = _REASON.split(spoken.strip(" .!"))[0].strip(" ,")
    if _POLAR.match(asked) is None or _BREAK.search(spoken) or _DENYING.search(spoken) or _ON_THE_ONE.search(spoken):
        return None
    if any(found not in asked for found in _WHEN.findall(spoken)):
        return None
    of, said = frozenset(re.findall(r"[a-z]+", asked)), frozenset(re.findall(r"[a-z]+", spoken))
    words, wanted = _words(spoken), _words(question)
    if (not words or words[0] not in wanted) and _PRONOUN.match(spoken) is None:
        return None
    if not _in_order_of(question, [word for word in words if word in wanted]) and not _PASSIVE.search(spoken):
        return None
    pairs = [(one, other) for one, other in _SIDES if of & one and not of & other]
    if any(said & other and not said & one for one, other in pairs):
        return False
    same = any(said & one and not said & other for one, other in pairs)
    held = frozenset(wanted) | {english_stem(word) for one, _ in pairs for word in one}
    return True if same and len(words) > 1 and all(word in held for word in words) else None


def _is_just_so(spoken: str, question: str) -> bool:
    """ "They are parallel to each other" of "Are the two lines parallel?"."""
    match = _IS_SO.match(spoken)
    asked = question.lower().strip()
    wanted = _words(asked[:LONGEST_QUESTION].split("?")[0])
    first = _BREAK.split(spoken, maxsplit=1)[0]
    if match is None or not wanted or _POLAR.match(asked) is None or re.search(r"\bor\b", asked):
        return False
    return english_stem(match[1]) == wanted[-1] and not _DENYING.search(first) and not _HALF.search(first)


_IS_SO = late_pattern(
    r"(?:they|it|he|she|these|both|the two)(?:'re|'s| are| is| were| was)(?: (?:indeed|all|both|clearly"
    r"|definitely|exactly"
    r"|certainly|perfectly))* ([a-z]+)\b"
)
_HALF = late_pattern(
    r"\b(?:if|or|but|would|could|might|may|almost|nearly|half|partly|usually|often|instead|rather|only)\b"
)
_REASON = late_pattern(r"(?: ,)? (?:since|because|as|so|given)\b")
_WHEN = late_pattern(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekends?|weekdays?|\d+|mornings?|evenings?|nights?|today|tomorrow)\b"
)
_ON_THE_ONE = late_pattern(
    r"\b(?:if|or|and|but|while|would|could|might|may|almost|nearly|half|partly|one|some|other|usually|often)\b"
)


def _lacks(spoken: str, question: str) -> bool:
    """Whether a reply says no, without or kein right before a thing that the question ends with: "and no glasses"."""
    words = _words(question)
    last = words[-1] if words else ""
    if _IS_THERE.match(question.lower().strip()):
        last = next((word for word in words if word not in _SIGNS), last)
    return len(last) > 2 and re.search(rf"\b{_NONE}(?: {_SIGN})? {re.escape(last)}", spoken) is not None


def _words(text: str) -> list[str]:
    """The stems of a text's words but the small ones."""
    return [english_stem(t.text) for t in tokens(text) if t.kind in ("word", "number") and t.text not in _SMALL]


_NO_DOUBT = late_pattern(r"^no (?:doubt|question|problem|worries)(?: (?:,|that|about it))* ")
_IS_THERE = late_pattern(r"(?:is|are) there\b")
_THERE_IS = late_pattern(r"(?:well , )?there(?:'s| is| are)\b")
_SIGN = r"(?:[a-z]+ )?(?:sign|signs|evidence|trace|traces|indication)s? of(?: an?| the)?"
_SIGNS = frozenset(english_stem(word) for word in ("sign", "evidence", "trace", "indication", "any"))
_NONE = r"(?:no|without|without any|kein|keine|keinen|ohne|sans|pas de|sin|sem|senza|geen|zonder|bez|без)"
_SMALL = (
    phrases.FUNCTION_WORDS
    | phrases.DETERMINERS
    | phrases.AUXILIARIES
    | frozenset("both two picture image photo".split())
)


def contradicts_itself(text: str, question: str, choice: int | None, index: OptionIndex) -> bool:
    """Whether a reply that opens with yes or no goes on to say the contrary: "Yes, there is no dog"."""
    if choice not in (_place(index, _YES), _place(index, _NO)) or choice is None:
        return False
    _, _, behind = text.partition(",")
    other = yes_or_no(behind, question, index) if behind.strip() else None
    return other is not None and other != choice


_CJK = late_pattern("[\u3040-\u30ff\u4e00-\u9fff]")


def _place(index: OptionIndex, words: frozenset[str]) -> int | None:
    places = [place for place, sequence in enumerate(index.words) if "".join(sequence) in words]
    return places[0] if len(places) == 1 else None
