"""Verdicts, denials and refusals as patterns over a skeleton (`snellen.extraction.option_mentions`).

A skeleton is case-folded tokens separated by single blanks, Chinese characters joined, every mention of
an option one placeholder character. Each repetition is bounded or made of distinct words, so that
matching takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction import languages
from snellen.extraction.languages import PATTERNS as _WORDS
from snellen.extraction.phrases import BARE, BOTH, CONFLICT, DOUBTFUL, STRONG

MENTIONS = f"{BARE}-{CONFLICT}"
X = f"[{MENTIONS}]"
ANY = f"[{BARE}-{DOUBTFUL}]"
LABEL = f"[{BARE}{STRONG}{BOTH}{CONFLICT}]"
WORD = r"[^\W\d_]+"


def _any(words: str) -> str:
    """One of some words, and not the beginning of a longer one; phrases have `_` for blanks."""
    return (
        "(?:"
        + "|".join(sorted((w.replace("_", " ") for w in words.split()), key=len, reverse=True))
        + ")(?![a-z])"
    )


_JOIN = _any(_WORDS["join"])
_HEDGE = _any(_WORDS["hedge"])
# At most 31 members, and never given back, so that long chains cost no more than their length.
GROUP = late_pattern(rf"(?>{X}(?:(?: {_JOIN}){{0,2}}(?: {_HEDGE}){{0,2}} {X}){{0,30}})")
_GROUP = rf"(?P<group>{GROUP.pattern})"

_REASON = _any("because since as which with based due given for but not rather instead")
END = late_pattern(rf"(?= [.,;:!?)\n-]| {_REASON}\b|$)")
_END = END.pattern
KOREAN_END = late_pattern(r" ?(?:번(?! ?째)|입니다|이다(?!\w)|이에요|예요)")
"""What makes a number behind "the answer is" an option's in Korean: "number 2", "it is 2"; not "2 pieces"."""

_LINK = _any(_WORDS["link"])
_ABOUT = rf"(?: (?:to|for|of|here|in|from|among|regarding|based|about|on)(?: {WORD}){{0,7}}?)?"
_ASIDE = rf"(?: , [^.,;:!?\n{MENTIONS}]{{1,60}} ,)?"
"""What may stand between commas: "my answer, with some doubt, is X"."""
_BE = _any("is are was would should must will could might may be : = - > →")
_CHOOSE = _any(_WORDS["choose"])
_CHOSEN = _any("that it it's is would be option the answer choice a an as my final letter :")
_CONCLUDE = _any(_WORDS["conclude"])
_CONCLUDED = _any(_WORDS["concluded"])
_CHINESE = _any(_WORDS["chinese"])
_EUROPEAN = _any("antwort réponse respuesta resposta risposta ответ antwoord 정답 정답은 답 답은")
VERDICTS = tuple(
    late_pattern(pattern)
    for pattern in (
        # "the answer is X", "Answer: X", "the answer to the question is clearly the X"
        r"\b(?:answers?|conclusion|verdict|solution|prediction)"
        rf"{_ABOUT}{_ASIDE}(?: {_BE}){{1,3}}(?: {_LINK}){{0,8}} (?P<x>{X})",
        rf"\banswers?(?: (?:option|choice|letter|with|as|number))? (?P<x>{LABEL})",
        # "the correct option is X", "best choice: X"
        r"\b(?<!every )(?<!each )(?:option|choice|one|category|label|letter|statement|description)"
        rf"{_ABOUT}(?: {_BE}){{1,3}}(?: {_LINK}){{0,8}} (?P<x>{X})",
        # "I choose X", "I'd go with X", "I would say it is X"
        rf"\b{_CHOOSE}(?: {_CHOSEN}){{0,6}} (?P<x>{X}){_END}",
        # "I think it's X", "so it must be X"
        rf"\b{_CONCLUDE}(?: ,)?(?: {_CONCLUDED}){{0,8}} (?P<x>{X}){_END}",
        rf"(?:[✓✔✅☑]|\bans)(?: [.:=-])? (?P<x>{X})",
        rf"\b{_EUROPEAN}(?: (?:ist|est|es|é|è|:|-|la|le|el|die|der|correcta|correcte)){{0,4}} (?P<x>{X})",
    )
)
VERDICTS_DENSE = (
    late_pattern(
        rf"{_CHINESE}(?:应为|应该是|应当是|應該是|就是|选择|选项|是|为|选|は|的|\s|:){{0,6}}(?P<x>{X})"
    ),
    late_pattern(rf"(?:^|[\n.,;:!?] ?)(?:选|(?:所以|因此|故)就?[是选为])(?: ?:)? (?P<x>{X})"),
)
"""Verdicts in Chinese and Japanese, and in Korean words for the answer."""
# Not "a right angle", "right of the tree", "the best player".
_NO_NOUN = (
    r"(?= [^\w]|$| (?:for|in|here|as|because|since|given|based|on|to|according|and|but|so|from|among|with|by|when|if"
    r"|which|that|while|whereas|about|this|these|due|per|considering)\b)"
)
# "X is the correct answer"
POST_VERDICT = late_pattern(
    rf"{_GROUP}(?: ,)? (?:is|are|would be|should be|seems|seem|appears|must be|looks|has to be)"
    r"(?: (?:to|be|the|my|most|a|clearly|definitely|indeed|likely|also|probably|obviously|therefore|thus|only)){0,4}"
    r" (?:(?:correct|right|best|true|accurate|suitable|appropriate) (?:answer|option|choice|one|match|fit|guess"
    r"|bet|candidate|description|explanation)\b"
    rf"|(?:answer|option|choice)\b|(?:correct|right|best|true|accurate|suitable|appropriate){_NO_NOUN})"
)
POST_VERDICT_CJK = late_pattern(
    rf"(?P<group>{X}) ?(?:选项|项)?是?(?:正确|最合适|最符合|对的|符合题意)"
)
_PRE = _any(_WORDS["pre"])
_POST = _any(_WORDS["post"])
DECLARED = late_pattern(rf"(?:{_PRE} ){{0,12}}{_GROUP}(?: {_POST}){{0,8}}")
LEADING = late_pattern(
    rf"(?:{_PRE} ){{0,4}}{_GROUP}(?= [,;:-]| (?:{_REASON}|it|he|she|they|there|i)\b|因为)"
)
_FILL = _any(_WORDS["fill"])
_NOT_ONLY = r"(?! (?:only|just|merely|simply)\b)(?:(?: the)? (?:true|correct|right|case) that)?"
_DENIAL = _any(_WORDS["denial"])
_ALSO = (
    rf"(?:(?: , {X}){{0,30}}(?: ,)?(?: (?:or|nor|and|any|even|option|a|an|the)){{1,3}} {X}"
    r"(?! (?:is|are|looks|seems|has|must|fits)\b)){0,30}"
)
# What is not an option may be denied first: "not a lion or a tiger".
_UNNAMED = r"[^\W\d_][^\s,;:!?]{1,19}"
PRE_DENIAL = late_pattern(
    rf"(?:\bnot{_NOT_ONLY}|\b{WORD}n't{_NOT_ONLY}|\b{_DENIAL}|(?<!no )(?<!out )(?<!any )(?<!out a "
    rf")\bdoubt(?:ful)?\b)(?: {_FILL}){{0,6}}(?: {_UNNAMED} (?:or|nor)(?: (?:a|an|the))?)? (?P<group>{X}{_ALSO})"
)
PRE_DENIAL_CJK = late_pattern(
    r"(?:不是|不选|并非|绝非|而非|不应选|排除|没有|不可能是|除了)(?:选项|\s){0,3}"
    rf"(?P<group>{X}(?: ?(?:或者|或|和|,|与) ?{X}){{0,30}})"
)
_AUX = _any(_WORDS["aux"])
_WRONG_WORDS = _WORDS["wrong_words"]
_WRONG = _any(_WRONG_WORDS)
POST_DENIAL = late_pattern(
    rf"{_GROUP}(?:(?: ,)?(?: {_AUX}){{0,6}} {_WRONG}\b"
    rf"|(?:(?: {_AUX}){{1,4}} (?:not|never)|(?: {_AUX}){{0,4}} (?:cannot|{WORD}n't))(?: {_AUX}){{0,4}}"
    rf"(?P<soft>(?: {WORD})?))"
)
POST_DENIAL_CJK = late_pattern(
    rf"{_GROUP} ?(?:选项)?[是都均]?(?:不对|不正确|错误|错的|不是|不符|不合适|错)"
)

_UNABLE = _any(_WORDS["unable"])
_DO = _any(_WORDS["do"])
_PICTURE = "(?:image|picture|photo)"
REFUSAL = late_pattern(
    rf"\b{_UNABLE}(?: {WORD}){{0,3}} {_DO}\b"
    r"|\b(?:do not|don't|didn't) (?:know|understand)\b"
    rf"|\b(?:do not|don't) (?:see|have)(?: {WORD}){{0,3}} (?:{_PICTURE}|information|access|ability|enough|context)\b"
    r"|\b(?:sorry|apologi[sz]e|apologies)\b|\bas an? (?:ai|language model)\b"
    r"(?!(?: [a-z]+){0,3} (?:i|my) (?:think|believe|say|choose|guess|answer))"
    r"|\b(?:not enough|insufficient|lack of) (?:information|context|evidence|details)\b"
    rf"|\bno {_PICTURE}\b|\bwithout (?:the|an|any|a) {_PICTURE}\b"
    rf"|{X} can be (?:determined|known|confirmed|identified|established|inferred with certainty)\b"
    r"|\bnot sure\b|\bno idea\b|\bunsure\b|\buncertain\b|\bno answer\b|\bagainst my (?:guidelines|policy|policies)\b"
    r"|\b(?:please|kindly|could you) (?:provide|upload|share)\b"
    r"|无法|抱歉|对不起|不能(?:确定|回答|判断|看到|提供|协助)|不知道|不确定|请提供|看不到|没有(?:图片|图像|足够)"
)
SENTENCE_END = late_pattern(r"[.!?\n](?: |$)")
SAYS_NOTHING = late_pattern(rf"(?:{ANY}|[ .,:;!\n-])*")


# --- other languages --------------------------------------------------------------------------------------------------

_LETTER = r"[^\W\d_]"
_HANGUL_OR_WORD = r"[^\W\d_][^\s.,;:!?()\n]*"


def words_pattern(words: Iterable[str]) -> str:
    """One of some words as a word of its own; phrases have `_` for blanks."""
    every = sorted({re.escape(word.replace("_", " ")) for word in words}, key=len, reverse=True)
    return rf"(?<![\w'])(?:{'|'.join(every)})(?![\w'])" if every else "(?!)"


def dense_pattern(words: str) -> str:
    """One of some Chinese, Japanese or Korean expressions, inside a run of characters."""
    return "(?:" + "|".join(sorted(map(re.escape, words.split()), key=len, reverse=True)) + ")"


_BECAUSE = _WORDS["because"]
_EDGE = rf"(?= [.,;:!?)\n-]|$| {words_pattern(_BECAUSE.split())})"


class ForeignPatterns(Struct, frozen=True):
    """The verdicts and denials of some languages."""

    verdicts: tuple[re.Pattern[str], ...]
    post_verdict: re.Pattern[str]
    denials: tuple[re.Pattern[str], ...]
    declared: re.Pattern[str]


def words_of(table: languages.Words, spoken: tuple[str, ...]) -> frozenset[str]:
    """The words of some languages, and those that hold in several."""
    return frozenset(
        word for language in (*spoken, "any") for word in table.get(language, "").split()
    )


@lru_cache(maxsize=256)
def foreign_patterns(spoken: tuple[str, ...]) -> ForeignPatterns:
    """The patterns of some languages together."""
    answer, option = (
        words_pattern(words_of(languages.ANSWER, spoken)),
        words_pattern(words_of(languages.OPTION, spoken)),
    )
    correct, choose = (
        words_pattern(words_of(languages.CORRECT, spoken)),
        words_pattern(words_of(languages.CHOOSE, spoken)),
    )
    tables = (
        languages.FILL,
        languages.OPTION,
        languages.CORRECT,
        languages.FINAL,
        languages.ANSWER,
        languages.COPULA,
    )
    between = frozenset[str]().union(*(words_of(table, spoken) for table in tables)) - set(":-=→,")
    filled = rf"(?: (?:{words_pattern(between)}|[:=→-]))"
    pointed = rf"(?: (?:{words_pattern(words_of(languages.COPULA, spoken))}|[:=→-]))"
    denying = words_of(languages.NEGATION, spoken) - (
        _MEANS_IN_THE if "pt" in spoken else frozenset()
    )
    negation, wrong = words_pattern(denying), words_pattern(words_of(languages.WRONG, spoken))
    stops = words_pattern(
        words_of(languages.CONTRAST, spoken) | words_of(languages.CONCLUSION, spoken)
    )
    within = rf"(?: (?!{stops}){_HANGUL_OR_WORD})"
    behind = words_pattern(
        words_of(languages.NEGATION_BEHIND, spoken)
        | words_of({"ko": languages.DENIED_BEHIND_KOREAN}, spoken)
    )
    lead = rf"(?:(?:{words_pattern(between | words_of(languages.CONCLUSION, spoken))}|[,:=→-]) ){{0,10}}"
    verdicts = (
        rf"{answer}{filled}{{0,8}} (?P<x>{X})",
        rf"(?:{option}{filled}{{0,6}} (?P<x>{LABEL}){_EDGE})",
        rf"{correct}{filled}{{0,6}} (?P<x>{LABEL})",
        rf"{choose}{filled}{{0,6}} (?P<x>{X}){_EDGE}",
        rf"{correct}{filled}{{0,4}}{pointed}{filled}{{0,3}} (?P<x>{X}){_EDGE}",
    )
    denials = (
        rf"{negation}{within}{{0,5}} {_GROUP}",
        rf"{wrong}(?: :)?{filled}{{0,5}} {_GROUP}",
        rf"{_GROUP}{within}{{0,4}} {wrong}",
        rf"{_GROUP}{within}{{0,5}} {behind}",
        rf"{_GROUP}{within}{{0,3}} {negation}(?! (?:{_HANGUL_OR_WORD} ){{0,3}}{X})",
    )
    return ForeignPatterns(
        verdicts=tuple(map(re.compile, verdicts)),
        post_verdict=re.compile(rf"{_GROUP}(?: ,)?{filled}{{0,6}} (?:{correct}|{answer})"),
        denials=tuple(map(re.compile, denials)),
        declared=re.compile(rf"{lead}{_GROUP}{filled}{{0,4}}"),
    )


_MEANS_IN_THE = frozenset({"no"})
"""Portuguese and Spanish look alike, and the "no" of one is not a denial in the other."""
DENSE_DENIALS = (
    late_pattern(
        rf"{_GROUP} ?(?:选项|選項|项|的|は|が|も|都|均|是|と){{0,3}} ?{dense_pattern(languages.DENIED_BEHIND_DENSE)}"
    ),
    late_pattern(
        rf"{dense_pattern(languages.DENIED_BEFORE_DENSE)}(?:选项|選項|[\u3040-\u30ff\u4e00-\u9fff]|\s){{0,4}}"
        rf"(?P<group>{X}(?: ?(?:或者|或|和|,|与|と|や) ?{X}){{0,30}})"
    ),
)
ASIAN = late_pattern("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")
DENSE = late_pattern("[\u3040-\u30ff\u4e00-\u9fff]")
REFUSED = late_pattern(languages.REFUSED)
