"""Which of several assertions a reply ends with: guesses that were given up, corrections, conclusions."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from snellen.extraction import languages, patterns
from snellen.extraction.assertion_filters import mentioned, sentences, set_aside
from snellen.extraction.foreign_patterns import DENSE, dense_pattern, words_pattern
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.patterns import SAYS_NOTHING
from snellen.extraction.phrases import IDLE
from snellen.formats.late_patterns import late_pattern

_CLAUSE = r"(?:^|(?<=[.,;:!?\n-] ))"
_BEFORE = (
    r"(?:(?:but|oh|well|hmm?|ah|and|so|then|no|yes|actually|wait|"
    r"eigentlich|warte|en fait|en realidad|na verdade|in realtà|"
    r"aber|mais|pero|mas|ma|maar|ale|но|et|и|à|eh|нет|não|non|"
    r"nein|nee|nie|ne|ach|or|of|oder|ou|o|albo|lub|или|veya)"
    r"(?: [,.])* ){0,3}"
)
_NOT_AFTER_NO = (
    r"(?! (?:doubt|other|others|need|more|matter|longer|question|problem|one|way|hay|es|está|c|sign|"
    r"evidence|text|[^\W\d_]+ing)\b)"
)
_PUNCTUATED = r"(?= [,.;:!?-]|$)"
_BRIEF = frozenset(
    "no nope non não nein nee nie нет hayır tidak không नहीं لا 아니 아니요 아뇨 bukan yok hm hmm ah oh eh à uh "
    "er rather actually in_fact "
    "eigentlich en_fait plutôt en_realidad na_verdade in_realtà anzi właściwie aslında sebenarnya thực_ra".split()
)
_STRONG = late_pattern(
    r"wait|hold on|hang on|scratch|strike|correction|oops|whoops|my mistake|misread|recount|second thought|"
    r"recheck|checking|"
    r"warte|moment|korrektur|attend|espera|espere|aspett|wacht|czekaj|chwila|подожд|погод|стоп|bekle|dur|"
    r"tunggu|khoan|chờ|انتظر|مهلا|"
    r"等|不对|不對|重新|再看|待って|待てよ|잠깐|다시"
)
_RETAINED = late_pattern(
    r"\b(?:stand by|stick with|sticking with|keep|keeping|still|remains|return to|back to|stay with|bleibe|"
    r"maintiens|mantengo|"
    r"mantenho|confermo|blijf|pozostaję|остаюсь)"
)


_MATCHES = ("matching", "matches", "corresponds", "corresponding", "which")
_INFERS = (
    r"\b(?:i'm|i am|is|are|must|can)(?: [a-z]+ly)? (?:therefore|thus|hence)\b"
    r"|\b(?:i|we|one)(?:'d| would| can| must| could)?(?: safely| reasonably| confidently)? (?:conclude|infer"
    r"|deduce|settle on)\b"
    r"|\bi(?:'d| would) (?:describe|call|classify|characteri[sz]e|label)\b"
    r"|\bi(?:'m| am)(?: (?:quite|fairly|very|pretty|reasonably))? (?:confident|certain|sure|convinced)(?: that)?\b"
    rf"|\b(?:{'|'.join(_MATCHES)})(?: is| to| with)? (?=(?:option|choice|answer|letter) [{patterns.MENTIONS}])"
)
# At the end of a reply, behind a whole clause: "one habitat is left: the desert."
_AFTER_COLON = (
    r"(?:[^\W\d_]+ ){4}: (?=(?:it's |it is |it was |this is |that's )?"
    rf"(?:a |an |the )?[{patterns.MENTIONS}](?: [.!])?$)"
)


class Marker(NamedTuple):
    """Words of one function in some languages: the pattern, and of each the longest word."""

    pattern: re.Pattern[str]
    telling: frozenset[str]

    def occurs(self, skeleton: Skeleton) -> bool:
        """Whether it is worth looking for: a word of it stands in the reply, or the script has no words."""
        return not self.telling.isdisjoint(skeleton.words) or DENSE.search(skeleton.text) is not None


class Markers(NamedTuple):
    """What corrects, guesses, turns and concludes in some languages and English."""

    correction: Marker
    tentative: Marker
    contrast: Marker
    conclusion: Marker


def _marker(pattern: str, words: frozenset[str], *more: str) -> Marker:
    return Marker(late_pattern(pattern), frozenset(max(word.split("_"), key=_rarity) for word in words) | set(more))


def _rarity(word: str) -> tuple[bool, int]:
    return word not in _COMMON, len(word)


_COMMON = frozenset("would could might people looks that which have correct think wrong".split())


@lru_cache(maxsize=256)
def _markers(spoken: tuple[str, ...]) -> Markers:
    def of(table: languages.Words) -> frozenset[str]:
        return frozenset(word for language in ("en", *spoken) for word in table.get(language, "").split())

    corrects, tentative, contrast = of(languages.CORRECTION), of(languages.TENTATIVE), of(languages.CONTRAST)
    concludes = of(languages.CONCLUSION) - {"→", "∴"}
    return Markers(
        correction=_marker(
            rf"{_CLAUSE}{_BEFORE}(?:{words_pattern(corrects & _BRIEF)}{_NOT_AFTER_NO}"
            rf"(?:{_PUNCTUATED}|(?= (?:it's |it is |the |a |an |option )?[{patterns.MENTIONS}]))|"
            rf"{words_pattern(corrects - _BRIEF)})"
            rf"|{_CLAUSE}(?:不过|不過|但是|但|哦|啊|嗯|あ|ああ|あっ|でも|呃|"
            rf"噢)?{dense_pattern(languages.CORRECTION_DENSE)}",
            corrects,
        ),
        tentative=_marker(
            rf"{words_pattern(tentative)}|{dense_pattern(languages.TENTATIVE_DENSE)}"
            r"|\b(?:looks?|looked|seems?|seemed|appears?|appeared)\b[^.!?\n]{0,80}?\bat first\b",
            tentative,
            "first",
        ),
        contrast=_marker(
            rf"(?: [,;-])? {words_pattern(contrast)} "
            r"|但是|但|然而|而是|实际上|實際上|其实|其實|しかし|でも|けど|けれど|ですが|ますが|"
            r"だが|が ,|が,|実際|하지만|지만",
            contrast,
        ),
        conclusion=_marker(
            rf"{_CLAUSE}(?:(?:and|but|or|y|e|et|und|en|i|и) |\n ?)?{words_pattern(concludes)}"
            r"| but(?: [,])?(?: (?:actually|really|in fact|in reality|here|clearly))?"
            r"(?= (?:it's|it is|this is|that's|these are|they are|they're)(?: (?:really|actually|clearly|just))?"
            rf"(?: (?:a|an|the))? [{patterns.MENTIONS}])"
            rf"|{_INFERS}|{_AFTER_COLON}"
            rf"|[→∴⇒]|{_CLAUSE}{dense_pattern(languages.CONCLUSION_DENSE)}|(?:ですので|なので|ので|므로|니까|이므로)"
            + (r"| (?:dus|więc|also|donc|pues|quindi|nên là)(?= |$)" if spoken else ""),
            concludes, "→", "∴", "⇒", "but", "i", "i'd", "i'm", ":", *_MATCHES,
            *("dus więc also donc pues quindi nên".split() if spoken else ()),
        ),
    )  # fmt: skip


_SENTENCE = late_pattern(r"[.!?\n](?: |$)")
MOST_CORRECTIONS = 4


class Corrected(NamedTuple):
    """What is left of a reply's assertions after its last correction."""

    said: Skeleton
    changed: bool
    """Something asserted before was set aside."""
    start: int = 0
    """Where what is left begins."""
    open: bool = False
    """The last word takes the answer back, or the reply goes to and fro."""


def without_guesses(skeleton: Skeleton) -> Skeleton:
    """Without the mentions in a guess that was not kept ("I first thought A, but"); if no other is left, all stay."""
    text, markers = skeleton.text, _markers(skeleton.spoken)
    if (
        not markers.tentative.occurs(skeleton)
        or markers.tentative.pattern.search(text) is None
        or _RETAINED.search(text)
    ):
        return skeleton
    contrasts = [match.span() for match in markers.contrast.pattern.finditer(text)]
    turns = sorted([start for start, _ in contrasts] + [m.start() for m in markers.correction.pattern.finditer(text)])
    ends = [end for _, end in contrasts]
    spans = []
    for start, end, _ in sentences(skeleton):
        for match in markers.tentative.pattern.finditer(text, start, end):
            before, after = bisect_right(ends, match.start()), bisect_left(turns, match.end())
            begin = max(start, ends[before - 1]) if before else start
            spans.append((begin, min(end, turns[after]) if after < len(turns) else end))
    aside = set_aside(skeleton, spans, IDLE)
    return aside if mentioned(aside) else skeleton


def after_correction(skeleton: Skeleton, cut: bool) -> Corrected:
    """What was asserted from the last correction on, where it asserts anything."""
    text = skeleton.text
    offsets = mentioned(skeleton)
    if not offsets:
        return Corrected(skeleton, False)
    correction = _markers(skeleton.spoken).correction
    if _takes_back(skeleton, offsets[-1]):
        return Corrected(skeleton, False, open=True)
    if not correction.occurs(skeleton):
        return Corrected(skeleton, False)
    begins = [found for found in correction.pattern.finditer(text) if found.start() > offsets[0]]
    if not begins:
        return Corrected(skeleton, False)
    if len(begins) >= MOST_CORRECTIONS and _wavers(skeleton, [found.start() for found in begins]):
        return Corrected(skeleton, True, open=True)
    last = begins[-1]
    taken_back = _STRONG.search(last[0]) is not None and _RETAINED.search(text, last.start()) is None
    for found in reversed(begins):
        if mentioned(skeleton, found.end()):
            aside = set_aside(skeleton, [(0, found.start())], IDLE)
            return Corrected(aside, True, found.end(), open=found is not last and taken_back and cut)
    return Corrected(skeleton, False, open=taken_back)


# "Actually the legend doesn't say."
_TAKES_BACK = late_pattern(
    r"[.!?\n] (?:but |oh |hmm? |ah |wait |well )?(?:, )?(?:actually|wait|hold on|hang on|on second thoughts?"
    r"|in fact|hmm?|scratch that"
    r"|no|looking again|on reflection|then again|come to think of it|however)(?: ,)?(?: but)? "
    r"(?:the|a|this|that|it|there|i|we|you|none|nothing|no|neither)\b[^.!?\n]{0,80}?"
    r"(?:(?:doesn't|does not|don't|do not|didn't) (?:say|tell|show|know|mention|specify|indicate|match|fit|have)"
    r"|(?:can't|cannot|couldn't|could not) (?:be |really )?(?:tell|say|know|see|read|told|seen|determined?|sure"
    r"|certain|confirmed)"
    r"|(?<=none )of (?:them|these|the options) |(?<=nothing )(?:in|on|here) "
    r"|\b(?:not sure|no idea|no longer sure|isn't clear|is not clear|unclear|illegible|isn't (?:right|correct|true|it)"
    r"|is wrong|may be wrong|might be wrong|was wrong|none of|no way to|isn't listed|is not listed))"
)


def _takes_back(skeleton: Skeleton, last: int) -> bool:
    """Whether a sentence behind the last mention unsays it without naming another."""
    return _TAKES_BACK.search(skeleton.text, last) is not None and _RETAINED.search(skeleton.text, last) is None


def _wavers(skeleton: Skeleton, begins: list[int]) -> bool:
    """Whether a reply that corrects itself many times comes back to what it had given up."""
    named = [skeleton.at[offset].places for offset in mentioned(skeleton)]
    changes = sum(one != other for one, other in pairwise(named))
    return changes >= MOST_CORRECTIONS and len(set(named)) < changes and len(begins) >= MOST_CORRECTIONS


def concluded(skeleton: Skeleton, cut: bool) -> list[int]:
    """Offsets of what the last conclusion names, where nothing else is asserted behind it: "so it is B"."""
    offsets = mentioned(skeleton)
    if not offsets:
        return []
    last = None
    conclusion = _markers(skeleton.spoken).conclusion
    if conclusion.occurs(skeleton):
        for match in conclusion.pattern.finditer(skeleton.text, 0, offsets[-1] + 1):
            last = match if match.end() <= offsets[-1] else last
    equation = -1 if cut else _last_equation(skeleton)
    start = max(last.end() if last else -1, equation)
    if start < 0:
        return []
    stop = _SENTENCE.search(skeleton.text, start)
    end = stop.start() if stop else len(skeleton.text)
    if cut and stop and _GOES_ON.match(skeleton.text, stop.end()):
        return []
    inside = [offset for offset in offsets if start <= offset < end]
    behind = [offset for offset in offsets if offset >= end]
    if not inside:
        return []
    places = {skeleton.at[offset].places for offset in inside}
    if cut and skeleton.text[max(0, inside[0] - 2) : inside[0]] == "= ":
        return []
    agree = len(places) == 1 and all(skeleton.at[offset].places in places for offset in behind)
    return inside if agree else []


_GOES_ON = late_pattern(r"(?:then|next|now|also|but|however|wait|we|let|let's|second|secondly|additionally|moreover)\b")
_IDENTIFIES = late_pattern(
    rf"(?:it's|it is|this is|that's|c est|das ist|es ist|es handelt sich um|se trata de|trata - se de|si "
    rf"tratta di|это) (?:a |an |the |un |une |el |la |le |ein |eine |"
    rf"um |uma |il )?[{patterns.MENTIONS}] [.!\n]"
)


def concluded_before_cut(skeleton: Skeleton) -> bool:
    """Whether a cut reply had said what it is in a whole sentence, or says one sentence over and over."""
    if _IDENTIFIES.search(skeleton.text) or (len(skeleton.at) > 1 and SAYS_NOTHING.fullmatch(skeleton.text)):
        return True
    whole = [skeleton.text[start:end] for start, end, ending in sentences(skeleton) if ending]
    return len(whole) > 1 and len(set(whole)) == 1


@lru_cache(maxsize=256)
def _result(spoken: tuple[str, ...]) -> Marker:
    """What stands before the result of a calculation in some languages and English."""
    said = frozenset(word for lang in ("en", *spoken) for word in languages.RESULT.get(lang, "").split())
    pattern = re.compile(
        rf"(?:(?<!{patterns.LABEL} )[=≈]|{words_pattern(said)})(?: (?:a|an|the|of|to|total|sum|in|:|is)){{0,4}} "
        rf"(?P<x>[{patterns.MENTIONS}])(?=(?: [a-z]{{3,}})? (?:[.,;:!?\n)]|$)|(?: [a-z]{{3,}})?$)"
    )
    return Marker(pattern, frozenset(word.partition("_")[0] for word in said) | {"=", "≈"})


def _last_equation(skeleton: Skeleton) -> int:
    """Where the result of the last equation begins, or -1."""
    last = -1
    result = _result(skeleton.spoken)
    if result.telling.isdisjoint(skeleton.words):
        return last
    for match in result.pattern.finditer(skeleton.text):
        last = match.start()
    return last
