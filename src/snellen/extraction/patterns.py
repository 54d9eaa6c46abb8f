"""Verdicts, denials and refusals as patterns over a skeleton (`snellen.extraction.option_mentions`).

A skeleton is case-folded tokens separated by single blanks, Chinese characters joined, every mention of
an option one placeholder character. Each repetition is bounded or made of distinct words, so that
matching takes time linear in the text.
"""

from __future__ import annotations

from snellen.common.late import late_pattern
from snellen.extraction.phrases import BARE, BOTH, CONFLICT, DOUBTFUL, STRONG

MENTIONS = f"{BARE}-{CONFLICT}"
X = f"[{MENTIONS}]"
ANY_MENTION = X
ANY = f"[{BARE}-{DOUBTFUL}]"
LABEL = f"[{BARE}{STRONG}{BOTH}{CONFLICT}]"
ANY_LABEL = LABEL
WORD = r"[^\W\d_]+"


def _any(words: str) -> str:
    """One of some words, and not the beginning of a longer one; phrases have `_` for blanks."""
    return "(?:" + "|".join(sorted((w.replace("_", " ") for w in words.split()), key=len, reverse=True)) + ")(?![a-z])"


_JOIN = _any(
    ", / & ; [|] or and nor and_/_or vs versus then 或者 或 和 还是 与 及 "
    "und oder et ou y e o ed en of i oraz lub и или ve veya dan atau và hoặc و أو और या as_well_as "
    "als_auch sowie together_with along_with in_addition_to but_maybe but_perhaps but_possibly ni né nor weder "
    "noch como と や か ㆍ 와 과 또는 및"
)
_HEDGE = _any(
    "maybe perhaps possibly also probably even option options choice a an the 选项 un une el la le der die "
    "das den ein eine einen het een um uma uno"
)
# At most 31 members, and never given back, so that long chains cost no more than their length.
GROUP = late_pattern(rf"(?>{X}(?:(?: {_JOIN}){{0,2}}(?: {_HEDGE}){{0,2}} {X}){{0,30}})")
_GROUP = rf"(?P<group>{GROUP.pattern})"

_REASON = _any("because since as which with based due given for but not rather instead")
END = late_pattern(rf"(?= [.,;:!?)\n-]| {_REASON}\b|$)")
_END = END.pattern
KOREAN_END = late_pattern(r" ?(?:번(?! ?째)|입니다|이다(?!\w)|이에요|예요)")
"""What makes a number behind "the answer is" an option's in Korean: "number 2", "it is 2"; not "2 pieces"."""

_LINK = _any(
    "is are was be would should must will could might may can : = - > → , clearly definitely probably likely most "
    "actually therefore thus simply obviously indeed then only either both the a an option choice letter number answer "
    "following as follows that it it's appears seems to labelled labeled marked correct one best final my by in "
    "called indicated represented given"
)
_ABOUT = rf"(?: (?:to|for|of|here|in|from|among|regarding|based|about|on)(?: {WORD}){{0,7}}?)?"
_ASIDE = rf"(?: , [^.,;:!?\n{MENTIONS}]{{1,60}} ,)?"
"""What may stand between commas: "my answer, with some doubt, is X"."""
_BE = _any("is are was would should must will could might may be : = - > →")
_CHOOSE = _any(
    "meant stand_by stick_to lean_towards lean_toward leaning_towards leaning_toward tend_towards "
    "confident_in settled_on "
    "choose chose chosen choosing select selected selecting pick picked picking go_with going_with go_for going_for "
    "opt_for opting_for vote_for settle_on bet_on guess say answer_with respond_with stick_with"
)
_CHOSEN = _any("that it it's is would be option the answer choice a an as my final letter :")
_CONCLUDE = _any(
    "think believe suppose suspect conclude concluded therefore thus hence so means implies indicates leaving leaves "
)
_CONCLUDED = _any(
    "that it this that's it's is must would should will be the option a an answer probably likely most to clearly "
    "definitely correct choice looks like appears seems :"
)
_CHINESE = _any(
    "答案 正确选项 正确的选项 正确的 正解 答え 应选 应该选 应选择 应该选择 应当选 应当选择 故选 故选择 我选 我选择 "
    "正しくは 正解は 正しいのは 正答は 應選 應該選 應選擇 正確答案 正確的選項 正确答案 选项应为 答案应为 해답 "
    "本题选 所以选 所以选择 因此选 因此选择 选择 答 回答"
)
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
    late_pattern(rf"{_CHINESE}(?:应为|应该是|应当是|應該是|就是|选择|选项|是|为|选|は|的|\s|:){{0,6}}(?P<x>{X})"),
    late_pattern(rf"(?:^|[\n.,;:!?] ?)选(?: ?:)? (?P<x>{X})"),
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
POST_VERDICT_CJK = late_pattern(rf"(?P<group>{X}) ?(?:选项|项)?是?(?:正确|最合适|最符合|对的|符合题意)")
_PRE = _any(
    "most very quite pretty fairly highly i'm going with lean leaning towards toward meant mean actually "
    "really still wait hmm "
    "hm oh oops sorry apologies previously answered rather ans answered stay "
    "so ok okay sure well yes therefore thus hence then and but probably maybe perhaps likely possibly definitely "
    "clearly certainly surely final my the a an option choice letter answer assistant output response result ai "
    "conclusion select it this that it's that's is was be must would should seems looks appears like i'd say guess "
    "think i obviously simply correct just either both or , : - > # = → 选项 是 这是 它是 选 一只 一个 一张 图中是 "
    "这是一只 这是一个 ∴"
)
_POST = _any(
    "please here thanks definitely probably i think guess believe in the image picture photo shown above below only "
    ", : - 的 选项 です"
)
DECLARED = late_pattern(rf"(?:{_PRE} ){{0,12}}{_GROUP}(?: {_POST}){{0,8}}")
LEADING = late_pattern(rf"(?:{_PRE} ){{0,4}}{_GROUP}(?= [,;:-]| (?:{_REASON}|it|he|she|they|there|i)\b|因为)")
_FILL = _any(
    "a an the option options choice choices answer answers letter be been any either both of really actually exactly "
    "likely necessarily called to look looks like show shows see have has contain contains depict depicts match "
    "matches seem appear think believe it it's is this that there are image picture correct right select choose pick "
    "say as being in on at to would by with : my i"
)
_NOT_ONLY = r"(?! (?:only|just|merely|simply)\b)(?:(?: the)? (?:true|correct|right|case) that)?"
_DENIAL = _any(
    "no never neither nor without cannot unlike except excluding exclude excluded excludes eliminate eliminated "
    "eliminates eliminating reject rejected rejecting rule_out ruled_out rules_out ruling_out refuse_to "
    "rather_than instead_of "
    "no_need_for no_sign_of no_evidence_of no_trace_of no_reason_for rules_against speaks_against argues_against "
    "used_to_be no_longer formerly "
    "false_that untrue_that incorrect_that "
    "all_but everything_but everyone_but "
    "other_than as_opposed_to opposed_to dismiss dismissed than compared_to compared_with versus anything_but "
    "disagree_with disagreed_with mistake_to mistaken_to wrong_to incorrect_to error_to would_avoid "
    "opposite_of reverse_of contrary_to far_from nothing_like hardly scarcely"
)
_ALSO = (
    rf"(?:(?: , {X}){{0,30}}(?: ,)?(?: (?:or|nor|and|any|even|option|a|an|the)){{1,3}} {X}"
    r"(?! (?:is|are|looks|seems|has|must|fits)\b)){0,30}"
)
# What is no option may be denied first: "not a lion or a tiger".
_UNNAMED = r"[^\W\d_][^\s,;:!?]{1,19}"
PRE_DENIAL = late_pattern(
    rf"(?:\bnot{_NOT_ONLY}|\b{WORD}n't{_NOT_ONLY}|\b{_DENIAL}|(?<!no )(?<!out )(?<!any )(?<!out a "
    rf")\bdoubt(?:ful)?\b)(?: {_FILL}){{0,6}}(?: {_UNNAMED} (?:or|nor)(?: (?:a|an|the))?)? (?P<group>{X}{_ALSO})"
)
PRE_DENIAL_CJK = late_pattern(
    r"(?:不是|不选|并非|绝非|而非|不应选|排除|没有|不可能是|除了)(?:选项|\s){0,3}"
    rf"(?P<group>{X}(?: ?(?:或者|或|和|,|与) ?{X}){{0,30}})"
)
_AUX = _any(
    "is are was were be been to also both all clearly obviously definitely therefore thus probably simply the a an "
    "option can could would should must may seems seem looks look appears appear do does did has have which"
)
_WRONG_WORDS = (
    "wrong incorrect false ruled_out excluded eliminated unlikely impossible invalid irrelevant inaccurate mistaken "
    "untrue out_of_the_question is_out are_out crossed_out struck_out dropped discarded inconsistent "
    "unsuitable inapplicable rejected"
)
_WRONG = _any(_WRONG_WORDS)
POST_DENIAL = late_pattern(
    rf"{_GROUP}(?:(?: ,)?(?: {_AUX}){{0,6}} {_WRONG}\b"
    rf"|(?:(?: {_AUX}){{1,4}} (?:not|never)|(?: {_AUX}){{0,4}} (?:cannot|{WORD}n't))(?: {_AUX}){{0,4}}"
    rf"(?P<soft>(?: {WORD})?))"
)
POST_DENIAL_CJK = late_pattern(rf"{_GROUP} ?(?:选项)?[是都均]?(?:不对|不正确|错误|错的|不是|不符|不合适|错)")

_UNABLE = _any(
    "cannot can't can_not could_not couldn't unable_to not_able_to won't not_possible_to impossible_to difficult_to "
    "hard_to not_going_to"
)
_DO = _any(
    "determine answer assist help identify see view provide tell say know process analyze analyse access comply make "
    "give choose decide comment discuss fulfil fulfill interpret recognize recognise confirm infer judge respond "
    "select open read"
)
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
