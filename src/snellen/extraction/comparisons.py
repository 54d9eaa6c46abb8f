"""Comparisons: "Anna is shorter than Ben" says that one is more than the other, which only some questions ask for."""

from __future__ import annotations

import re

from snellen.extraction import languages, patterns
from snellen.extraction.assertion_filters import set_aside
from snellen.extraction.foreign_patterns import words_pattern
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.phrases import DENIED, IDLE
from snellen.extraction.question_words import question_stems, stems
from snellen.formats.late_patterns import late_pattern

_X = f"[{patterns.MENTIONS}]"
_MEMBER = rf"(?: (?:,|{words_pattern(languages.JOINS | languages.ARTICLES)}))"
_THAN = late_pattern(
    rf"(?<! rather)(?<! other) than(?:{_MEMBER}| that| of| in| for){{0,4}} "
    rf"(?P<group>{_X}(?:{_MEMBER}{{1,3}} {_X}){{0,30}})"
)
_CLAUSE = late_pattern(r"[,;.!?\n:](?: |$)|(?<= )(?:but|and|while|whereas|so|because)(?= )")
_GRADED = late_pattern(r"\b(?:more|most|less|least|fewer|fewest|[^\W\d_]{2,}(?:er|est|ier|iest))\b")
_UNGRADED = frozenset(
    "other rather number water paper river flower letter computer player rest west forest test best chest guest nest "
    "never over under after order corner container server her per center together another whether either neither "
    "former latter winter summer weather sister brother mother father father's tower power answer".split()
)
_MUCH = frozenset("more most larger largest bigger biggest higher highest greater greatest".split())
_LITTLE = frozenset("less least fewer fewest smaller smallest lower lowest".split())


def _grades(text: str) -> frozenset[str]:
    """The stems of the comparatives and superlatives of a text; those of quantity are one."""
    graded = [word for word in _GRADED.findall(text) if word not in _UNGRADED]
    return frozenset(
        "much" if word in _MUCH else "little" if word in _LITTLE else re.sub(r"i?e(?:r|st)$", "", word)[:4]
        for word in graded
    )


def without_comparisons(skeleton: Skeleton, question: str) -> Skeleton:
    """Without what is compared by another measure than the question's, and what something is compared with."""
    if "less" in skeleton.words:
        skeleton = set_aside(skeleton, [match.span() for match in _LESS_LIKELY.finditer(skeleton.text)], DENIED)
    if "than" in skeleton.words:
        skeleton = _without_other_measures(skeleton, question)
    if skeleton.spoken:
        skeleton = _without_foreign(skeleton, question)
    if "比" in skeleton.text or "より" in skeleton.text:
        skeleton = set_aside(skeleton, [match.span() for match in _DENSE.finditer(skeleton.text)], DENIED)
    return skeleton


_LESS_LIKELY = late_pattern(
    rf"{_X} (?:is|are|seems|looks|appears) (?:much |far |a lot )?less (?:likely|plausible|probable|suitable|convincing)"
    rf"|\bless {_X} than"
)


def _without_other_measures(skeleton: Skeleton, question: str) -> Skeleton:
    asked = _grades(question.lower())
    if not asked:
        return skeleton
    spans = []
    for match in _THAN.finditer(skeleton.text):
        start = _start(_CLAUSE, skeleton.text, match.start())
        clause = skeleton.text[start : match.start()]
        if not _agree(_grades(clause), asked) or _NOT.search(clause):
            if not _MENTION.search(clause):  # "but smaller than the horse": of whom was said before
                start = _start(patterns.SENTENCE_END, skeleton.text, match.start())
            first = match.start("group")
            spans.append((start, first + 1 if _names_again(skeleton, match) else match.end("group")))
    return set_aside(skeleton, spans, IDLE)


_NOT = late_pattern(r"\b(?:not|no|never)\b|n't\b")
_MENTION = late_pattern(_X)


def _agree(said: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether a comparison is by the measure that is asked for; "more" is any but little, "less" is no other."""
    little = not asked.isdisjoint(_SCALED_DOWN)
    return bool(said & asked) or ("much" in said and not little) or ("little" in said and little)


_SCALED_DOWN = frozenset("little shor chea slow ligh youn few cold cool weak thin narr near clos earl".split())


def _without_foreign(skeleton: Skeleton, question: str) -> Skeleton:
    """The same in other languages, whose measures are the words before "than"; "more" and "less" alone are none."""
    asked = question_stems(question)
    graded = _GRADED_ELSEWHERE.search(question.lower()) is not None
    aside: list[tuple[int, int]] = []
    denied: list[tuple[int, int]] = []
    for match in _foreign(skeleton.spoken).finditer(skeleton.text):
        measures = stems(match["measure"] or "")
        other = graded and measures and not measures & asked
        start = _start(_CLAUSE, skeleton.text, match.start())
        (aside if other else denied).append((start, match.end("group")) if other else match.span("group"))
    return set_aside(set_aside(skeleton, denied, DENIED), aside, IDLE)


_GRADED_ELSEWHERE = late_pattern(
    r"\b(?:más|mayor|menor|plus|moins|mais|maior|più|maggiore|minore|am|nhất|paling|самый|самая|самое|najbardziej|hơn|lebih)"
    r"\b|\w{3,}(?:er|ere|erer|ste|sten|szy|sza|sze|ейший|ее)\b"
)


def _start(boundary: re.Pattern[str], text: str, at: int) -> int:
    """Where the clause or sentence around `at` begins, at most some way before."""
    begin = max(0, at - _REACH)
    return max((match.end() for match in boundary.finditer(text, begin, at)), default=begin)


_REACH = 300


def _names_again(skeleton: Skeleton, match: re.Match[str]) -> bool:
    """ "less than nitrogen, and nitrogen makes up most": the second is no part of the comparison."""
    places = [skeleton.at[o].places for o in skeleton.offsets if match.start("group") <= o < match.end("group")]
    return len(set(places)) < len(places)


def _foreign(spoken: tuple[str, ...]) -> re.Pattern[str]:
    """ "más grande que el coche y la moto", "größer als das Auto"."""
    thans = {word for language in spoken for word in languages.THAN.get(language, "").split()}
    mores = {word for language in spoken for word in languages.MORE.get(language, "").split()}
    more = rf"(?P<measure>(?:{words_pattern(mores)}(?: [^\W\d_]+){{0,3}}|[^\W\d_]{{3,}}(?:er|szy|sza|sze|ее|ей)))"
    return re.compile(
        rf"{more} {words_pattern(thans)}{_MEMBER}{{0,2}} (?P<group>{_X}(?:{_MEMBER}{{1,3}} {_X}){{0,30}})"
    )


_DENSE = late_pattern(rf"(?:比 ?{_X}(?=[^\n.!?]))|{_X} ?より(?! ?もっと)")
