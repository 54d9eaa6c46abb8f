"""Whether a sentence says what a question asks: "The cat chases the dog" of "Is the dog chasing the cat?"."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from snellen.common.late import late_pattern
from snellen.extraction import languages, phrases
from snellen.extraction.inflections import english_stem

SMALL = (
    phrases.DETERMINERS
    | phrases.AUXILIARIES
    | frozenset(
        "there and so yes also indeed no not in the image picture photo photograph shown show here a an which what who "
        "whom whose where when how why following best please answer option question given choose select".split()
    )
)
_SMALL_DENSE = frozenset(
    "的了在是着吗有个一不没这那哪什么呢图片中里上はがをにでのもとかですますたしてるいれ이그저"
)
_DENSE = late_pattern("[\u3040-\u30ff\u4e00-\u9fff]")
_HANGUL = late_pattern("[\uac00-\ud7a3]")
_WORD = late_pattern(r"[^\W_]+")
_CLAUSE = late_pattern(r"[.!?\n;。！？；]|, (?:so|and|but|while)\b")
_DENIES = late_pattern(
    r"\b(?:not|no|never|neither|nor|none|without|cannot|nobody|nothing|nicht|kein\w*|pas|não|non|niet|geen|nie|не|нет"
    r"|değil|yok|bukan|tidak|không|chưa|ليس|ليست|لا|नहीं)\b|m[ıiuü]yor|n't\b|不|没|ない|ません|않|없|아닙|아니"
)
_LONGEST, _MOST_WORDS = 3_000, 60


@lru_cache(maxsize=8192)
def content(text: str) -> tuple[str, ...]:
    """The stems of a text's words but the small ones, in order; the text in small letters."""
    stems: list[str] = []
    for word in _WORD.findall(text):
        if word.isascii():
            stems += [english_stem(word)] if len(word) > 1 and word not in SMALL else []
        elif _DENSE.search(word):
            stems += [letter for letter in word if letter not in _SMALL_DENSE]
        else:
            stems.append(word[:2] if _HANGUL.match(word) else word[:_BEGINNING])
    return tuple(stems)


_BEGINNING = 5
"""Letters of a word of another language than English that stand for all of its forms."""


def _numbers(text: str) -> frozenset[str]:
    """The numbers of a text, in digits."""
    return frozenset(
        number
        for word in _WORD.findall(text)
        for number in (word, phrases.NUMBER_WORDS.get(word, ""))
        if number.isdigit()
    )


@lru_cache(maxsize=1)
def _opposites() -> Mapping[str, Sequence[tuple[frozenset[str], frozenset[str]]]]:
    """Of each stem the pairs of contraries that it is on the first side of."""
    pairs: dict[str, list[tuple[frozenset[str], frozenset[str]]]] = {}
    for pair in languages.OPPOSITES:
        sides = [frozenset(map(english_stem, side)) for side in pair]
        for word, contrary in (sides, sides[::-1]):
            for stem in word:
                pairs.setdefault(stem, []).append((word, contrary))
    return pairs


def opposites(stems: Collection[str], question_stems: Collection[str]) -> int:
    """How many stems of a question have their contrary in what is said, and not themselves."""
    stems, question_stems = frozenset(stems), frozenset(question_stems)
    table = _opposites()
    asked = {pair for stem in question_stems for pair in table.get(stem, ())}
    return sum(
        bool(contrary & stems) and not word & stems and not contrary & question_stems
        for word, contrary in asked
    )


_NAMES = (
    "covered", "to the point", "words besides", "in order", "first word first", "second word first", "last word last",
    "last word first", "opposites", "denials", "passive", "clause", "clause words", "missing",
)  # fmt: skip


@lru_cache(maxsize=64)
def proposition(text: str, question: str) -> Mapping[str, float]:
    """How the clause that comes nearest to a question's words has them, and in which order; the text in small
    letters."""
    best: tuple[float, tuple[float, ...]] = (0.0, (0.0,) * len(_NAMES))
    question_stems = content(question.lower()[:_LONGEST])[:_MOST_WORDS]
    counted = _numbers(question.lower()[:_LONGEST])
    for number, clause in enumerate(_CLAUSE.split(text[:_LONGEST])):
        stems = content(clause)[:_MOST_WORDS]
        shared = [stem for stem in stems if stem in question_stems]
        if not shared:
            continue
        covered, to_the_point = (
            len(frozenset(shared)) / len(frozenset(question_stems)),
            len(shared) / len(stems),
        )
        rank = covered + to_the_point / 2
        if rank <= best[0]:
            continue
        in_order = [stem for stem in question_stems if stem in shared]
        turned = opposites(stems, question_stems) + _other_number(counted, clause)
        best = (
            rank,
            (
                covered,
                to_the_point,
                len(stems) - len(shared),
                _common(shared, in_order) / min(len(shared), len(in_order)),
                shared[0] == in_order[0],
                len(in_order) > 1 and shared[0] == in_order[1],
                shared[-1] == in_order[-1],
                shared[0] == in_order[-1],
                turned,
                len(_DENIES.findall(clause)),
                " by " in clause,
                number,
                len(stems),
                len(frozenset(question_stems)) - len(frozenset(shared)),
            ),
        )
    return {
        f"proposition {name}": float(value) for name, value in zip(_NAMES, best[1], strict=True)
    }


def _other_number(counted: frozenset[str], clause: str) -> bool:
    """Whether a clause counts otherwise than the question."""
    numbers = _numbers(clause) if counted else frozenset[str]()
    return bool(numbers) and not numbers & counted


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for item in first:
        before = 0
        for column, compared in enumerate(second, start=1):
            before, row[column] = (
                row[column],
                before + 1 if item == compared else max(row[column], row[column - 1]),
            )
    return row[-1]


# --- the order of things ----------------------------------------------------------------------------------------------

_OTHER_WORDS = late_pattern(
    r", (?:and )?not\b|(?:\bnot|n't) (?:only|just|as|so)\b"
    r"|\b(?:instead|rather|compared|except|unless|without|other than|apart from|anything but|far from|fails?|failed)\b"
    r"|\b(?:stopped|only|almost|nearly|neither|either|if|whether)\b"
    r"|(?:\bnot|n't)\b[^.]{0,60}\bas \w+(?: \w+)? as\b"
)
"""What makes another thing of a statement than its words and a denial."""


_STATEMENT = r"(?:statement|claim|caption|sentence|description|assertion)"
_JUDGE = "(?:right|true|correct|accurate|false|wrong)"
_FRAME = late_pattern(
    rf"\b(?:is|are) (?:(?:this|that|it)(?: {_STATEMENT})?|the (?:following |given |above )?{_STATEMENT})"
    rf"(?: about [^.:?]{{0,40}})? {_JUDGE}(?! \w)|\b{_JUDGE} or {_JUDGE}\b|\byes or no\b"
    rf"|\b(?:(?:is|does) (?:the|this) |judge the )?(?:following )?{_STATEMENT}(?: (?:fit|match))?\b"
    r"|\bis it (?:true|correct|right|the case) that\b",
    re.IGNORECASE,
)


def _without_frame(question: str) -> str:
    """What a question asks about: "The horse pulls the cart" of "The horse pulls the cart. Is this right?"."""
    return _FRAME.sub(" ", question[:_LONGEST])


def stands_as_asked(text: str, question: str) -> bool:
    """Whether the clause that comes nearest to a question, which denies nothing, says of all its things, in their
    order, what is asked, or denies that; a contrary may stand for a word. In another order, with a thing missing, or
    with words such as "not only" a statement is none on what is asked."""
    about = _without_frame(question)
    clause = proposition(text, about)
    denials, contraries = clause["proposition denials"], clause["proposition opposites"]
    missing = clause["proposition missing"] - contraries
    ordered = clause["proposition in order"] == 1 and not clause["proposition passive"]
    return (
        ordered
        and missing <= denials <= 1
        and denials + contraries <= 1
        and bool(clause["proposition covered"])
        and _DENIES.search(about.lower()) is None
        and _OTHER_WORDS.search(_CLAUSE.split(text[:_LONGEST])[int(clause["proposition clause"])])
        is None
    )


_JUDGED = (
    r"(?:statement|claim|caption|description|sentence|assertion|premise)(?: [\"“][^\"”]*[\"”])?"
)
_VERDICT = late_pattern(
    rf"\b(?:the|this|that|your)(?: (?:given|above))? {_JUDGED}(?:"
    r" (?:is|was|seems|appears)(?: (?:therefore|thus|clearly|indeed|also|actually|to be))*(?P<is_not> not)? "
    r"(?P<is>true|correct|right|accurate|false|incorrect|wrong|untrue|inaccurate)\b"
    r"| (?P<fails>(?:does not|doesn't|fails to) )?(?P<does>match|matches|fit|fits|describe|describes)\b)"
    r"|\bit (?:is|was|would be)(?P<it_is_not> not)? (?P<it_is>true|correct|right|accurate|false|incorrect|wrong|untrue"
    r"|inaccurate)(?: to say)? that\b"
)
_RIGHT = frozenset("true correct right accurate".split())
_WHETHER = late_pattern(r"\b(?:whether|if) $")


def verdict_on_statement(text: str) -> int:
    """1 where a reply calls the statement that it judges true, -1 where false, 0 where neither or both; the text in
    small letters: "..., so the statement is false"."""
    matches = [
        match for match in _VERDICT.finditer(text) if not _WHETHER.search(text[: match.start()])
    ]
    verdicts = {1 if _holds(match) else -1 for match in matches}
    return verdicts.pop() if len(verdicts) == 1 else 0


def judged_in_other_words(text: str, question: str) -> bool:
    """Whether a reply judges a statement of its own, which is not plainly that of the question: "It is not true that
    the gate is unlocked" of "Is the gate locked?"."""
    own = [match for match in _VERDICT.finditer(text) if match["it_is"]]
    return bool(own) and not all(_repeats(text[match.end() :], question) for match in own)


def _repeats(text: str, question: str) -> bool:
    clause = proposition(text, _without_frame(question))
    other = (
        clause["proposition missing"]
        + clause["proposition denials"]
        + clause["proposition opposites"]
    )
    return bool(clause["proposition covered"]) and not other and clause["proposition in order"] == 1


def _holds(verdict: re.Match[str]) -> bool:
    if verdict["does"]:
        return not verdict["fails"]
    return ((verdict["is"] or verdict["it_is"]) in _RIGHT) != bool(
        verdict["is_not"] or verdict["it_is_not"]
    )
