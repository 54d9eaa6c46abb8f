"""Verdicts, denials and refusals as patterns over a skeleton (`snellen.extraction.option_mentions`).

A skeleton is case-folded tokens separated by single blanks, Chinese characters joined, every mention of
an option one placeholder character. Each repetition is bounded or made of distinct words, so that
matching takes time linear in the text.
"""

from __future__ import annotations

from snellen.extraction.phrases import BARE, BOTH, CONFLICT, DENIED, DOUBTFUL, ORDINALS, STRONG
from snellen.formats.late_patterns import late_pattern

MENTIONS = f"{BARE}-{CONFLICT}"
X = f"[{MENTIONS}]"
ANY_MENTION = X
ANY = f"[{BARE}-{DOUBTFUL}]"
ASIDE = late_pattern(f"[{BARE}-{CONFLICT}{DOUBTFUL}]")
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
NAMES_ANSWER = late_pattern(
    r"\b(?:answers?|ans|conclusion|verdict|solution|option|choice|correct|best (?:fit|guess|bet|match|candidate"
    r"|description|explanation))\b|[✓✔✅☑]"
)
ANSWERS_ELSEWHERE = late_pattern(rf"\b{_EUROPEAN}|{_CHINESE}")

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
_PREDICATE = _any("is are was has and or looks seems shows can could would does do appears cannot 是 有 fits matches")
LEADING_STRONG = late_pattern(rf"[{STRONG}{BOTH}{CONFLICT}](?! (?:{_PREDICATE}|{WORD}n't)\b)(?! {X})")
# "A: It is a dog", of who speaks as likely as of the option A.
SPEAKER = late_pattern(rf"{LABEL} : (?:it's|it is|this is|that's|that is)(?: (?:a|an|the))? {X}")
SAYS_NOTHING = late_pattern(rf"(?:{ANY}|[ .,:;!\n-])*")

HYPOTHETICAL = late_pattern(r"\bif\b")
HYPOTHESIS = late_pattern(r"\bif\b.{0,200}\b(?:were|was|had|would|could|might)\b")
SETTLED = late_pattern(r"[,;] (?:so|therefore|hence|thus|which means|but (?:it|this|that|here|since|as))\b")
# "Although it looks like A, ..."
CONCESSION = late_pattern(r"(?:^|[.!?\n,;] )(?:although|even though|though|while)\b[^,;.!?\n]{0,200} ,")
# "It has a tail like a cat", "dressed as a cow".
LIKENESS = late_pattern(
    rf"(?:(?<!looks )(?<!look )(?<!looked )(?<!looking )(?<!seems )(?<!seem )(?<!more )(?<!is )(?<!it's )(?<!most )"
    rf"(?<!appears )(?<!sounds )(?<!feels )(?<!would )(?<!very )(?<!much )(?<!^)\blike"
    rf"|\b(?:dressed|disguised|shaped) (?:up )?(?:as|like)|\bas if it were|\b(?:similar|related|comparable) to"
    rf"|\bas (?!well ){WORD} as|\bthe size of|\bsame {WORD} as)(?: (?:a|an|the))? (?P<group>{X})"
)
# "Were it smaller, it would be X", "I would have said X".
INVERTED = late_pattern(
    r"(?:^|, |[.!?\n] )(?:were|had|should) (?:it|this|that|they|he|she|there)\b"
    r"|(?:^|[,.;] )without\b[^.!?\n]{0,60} would (?:be|look|have)\b"
    r"|\bwould have (?:said|been|guessed|picked|chosen)\b"
)
INVERTING = frozenset(("were", "had", "should", "would"))
# "Option A would mean that ..."
SUPPOSED = late_pattern(
    rf"(?P<group>{X}) (?:would|could|might) (?:mean|require|need|imply|suggest|show|look|depict|involve|have)\b"
)
# "Not to be confused with a plain X, which means X".
CONFUSED = late_pattern(
    r"\b(?:(?:not (?:to )?|never |don't |cannot |should not |shouldn't )(?:be )?|be |is |are |easily |often )"
    r"(?:confused?|mistaken?|mixed up) (?:it )?(?:with|for)\b[^;.!?\n]{0,200}"
)
# "Some may say X", "people often think it is X": no opinion of the reply's.
_OTHERS = "some other others many people everyone everybody someone somebody students readers viewers observers"
_OPINES = (
    "say says think thinks guess guesses believe believes assume assumes argue argues claim claims suppose answer pick "
    "choose mistake mistakes confuse confuses suggest expect call"
)
OTHERS_SAY = late_pattern(
    rf"\b{_any(_OTHERS)}(?: (?:{_any(_OTHERS)}|of|them|might|may|could|would|will|often|sometimes|even|also|wrongly"
    rf"|mistakenly)){{0,4}} {_any(_OPINES)}[^,;.!?\n]{{0,200}}"
)
# "One can imagine X", "which could also be found in X", "you'd find similar ones at X".
IMAGINED = late_pattern(
    r"\b(?:(?:one|you|we|they|i|it|this|that|which|they)(?:'d| would| can| could| may| might)(?: (?:also|even"
    r"|easily|often))?"
    r" (?:imagine|picture|find|expect|be (?:found|used|seen|expected))|imagine (?:that|how|if|a|an|the)"
    r"|would (?:also )?expect)\b"
    r"[^,;.!?\n]{0,160}"
)
WOULD_IF = late_pattern(r"\bwould (?:be|have|look|seem)\b[^.;!?\n]{0,80}? if\b")
UNASSERTED = (
    (WOULD_IF, frozenset(("would",))),
    (IMAGINED, frozenset(("imagine", "find", "expect", "picture", "found", "used", "seen", "expected"))),
    # Each with words of which it needs one.
    (CONCESSION, frozenset(("although", "even", "though", "while"))),
    (
        LIKENESS,
        frozenset(("like", "dressed", "disguised", "shaped", "as", "size", "similar", "related", "comparable", "same")),
    ),
    (SUPPOSED, frozenset(("would", "could", "might"))),
    (CONFUSED, frozenset(("confuse", "confused", "mistaken", "mistake"))),
    (OTHERS_SAY, frozenset(_OTHERS.split())),
)
FORCED_CHOICE = late_pattern(
    r"\b(?:to|must|forced) (?:choose|guess|pick|answer|say|select|bet|decide)\b|\bi (?:choose|pick|guess)\b"
    r"|\bif (?:(?:i'm|i am|i was|i were|really|hard) )?(?:pressed|pushed|forced|made to|i must|i had to|i have to)\b"
)

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
# "We can rule out A because ..., and C because ...": what is said of the first holds for the others.
DENIED_TOO = late_pattern(rf"{DENIED}(?: {_REASON})[^.!?\n]{{0,120}}?(?: ,)? (?:and|nor) (?P<group>{X}) {_REASON}")
BETTER_THAN = late_pattern(
    rf"(?:\b(?:no|not|never)|n't)\b[^.!?\n]{{0,60}}? (?:better|closer|clearer|likelier|more "
    rf"{WORD})[^.!?\n]{{0,40}}? than (?P<x>{X})"
)
# "A: 10 %, B: 80 %"
SHARE = late_pattern(rf"(?P<x>{LABEL})(?: [:=-])? (?:\d[\d.,]* %|0[.,]\d+)")
# "The wrong answer is A"; "A: no".
WRONG_ANSWER = late_pattern(
    rf"\b(?:{_WRONG}|worst|least (?:likely|plausible|suitable)|not the (?:right|correct|best)) (?:answers?|"
    rf"options?|choices?|ones?|letters?|statements?|picks?)"
    rf"{_ABOUT}(?: {_BE}){{1,3}}(?: {_LINK}){{0,4}} {_GROUP}"
)
LEAST = late_pattern(
    rf"\b(?:least (?:likely|plausible|probable|suitable)|worst)(?: {WORD})?(?: {_BE}){{1,2}}(?: "
    rf"{_LINK}){{0,2}} {_GROUP}"
)
# "It looks like a bus but isn't one"; "A describes a taxi, which does not match".
BUT_WRONG = late_pattern(
    rf"(?P<group>{X}(?=[^.,;!?\n{MENTIONS}]{{0,60}}(?: ,)? (?:but|yet|though)"
    rf"(?: (?:it's|it|is|that's|that|this|actually|still|clearly|probably))* {_WRONG}"
    rf"| (?:is|are|was|were) (?:missing|absent|gone|lacking|nowhere)\b))"
)
BUT_IS_NOT = late_pattern(
    rf"{_GROUP}(?: ,)? (?:but|and|yet|though)(?: (?:it|this|that|actually|really|he|she))*"
    r" (?:isn't|is not|it's not|wasn't|doesn't|does not|is actually not|not really)(?: (?:one|it|so|that|"
    r"match|fit|really|actually))*(?= [.,;!?\n]|$)"
)
NOT_MATCHING = late_pattern(
    rf"(?P<group>{X}[^.!?\n]{{0,60}}?) , which (?:does not|doesn't|is not|isn't|cannot|can't)(?: be)?"
    r" (?:match|fit|apply|correspond|correct|right|present|visible|shown|seen|the case|possible)\b"
)
SAID_NO = late_pattern(
    rf"{_GROUP}(?: ,)? [:=-] (?:no|nope|nah|not|wrong|incorrect|false|unlikely|impossible|excluded|ruled "
    rf"out)\b(?! (?:doubt|question|other))"
)
# "A. taxi (not correct)"
MARKED_WRONG = late_pattern(rf"{_GROUP}(?: -)? not (?:correct|right|true|it|possible|shown|visible)\b")
SO_IS_DENIED = late_pattern(rf"\b{_WRONG}(?: [,;.])?(?: and)? so (?:is|are) {_GROUP}")
POST_DENIAL_CJK = late_pattern(rf"{_GROUP} ?(?:选项)?[是都均]?(?:不对|不正确|错误|错的|不是|不符|不合适|错)")

_OF_WRONG = frozenset(" ".join(_WRONG_WORDS.split()).replace("_", " ").split()) | {"worst", "least", "not"}
DENIALS = (
    # Each with words of which it needs one; those without are Chinese.
    (WRONG_ANSWER, _OF_WRONG),
    (LEAST, frozenset(("least", "worst"))),
    (BUT_IS_NOT, frozenset(("but", "and", "yet", "though"))),
    (NOT_MATCHING, frozenset(("which",))),
    (SAID_NO, _OF_WRONG | {"no", "nope", "nah"}),
    (MARKED_WRONG, frozenset(("not",))),
    (PRE_DENIAL_CJK, frozenset[str]()),
    (SO_IS_DENIED, frozenset(("so",))),
    (POST_DENIAL_CJK, frozenset[str]()),
    (BUT_WRONG, frozenset(("but", "yet", "though", "missing", "absent", "gone", "lacking", "nowhere"))),
)

CROSSES = frozenset("✗✘❌✕❎✖☒")
CROSS = late_pattern("[✗✘❌✕❎✖☒]")
CROSSED = late_pattern(rf"(?P<group>{X})[^\n✗✘❌✕❎✖☒✓✔✅☑]{{0,80}}?{CROSS.pattern}")

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
# A sentence that begins with a refusal.
REFUSED_AT_LAST = late_pattern(
    rf"[.!?\n] (?:(?:but|so|therefore|however|overall|unfortunately)(?: ,)? )?i(?:'m"
    rf"| am)? {_UNABLE}(?: {WORD}){{0,2}}? {_DO}\b"
)
CLAUSE_BREAK = late_pattern(r" [,;](?= |$)| (?:but|however|though|although|yet|但是|但|不过)\b|但是|不过")
ASKS = late_pattern(
    r"(?:^|(?<=[.!?\n] ))(?:(?:or|so|but) )?(?:is|are|could|might|was|does) (?:it|this|that|they|there|these)\b"
    r"[^.!?\n]{0,200}\?"
)
CLAUSE_START = late_pattern(
    rf" (?:[,;:.!?\n-]|but|because|since|as|so|that|which|who|when|while|and|if|although|though"
    rf"|only|except|until|{ANY})(?= |$)"
)
SOMEHOW_DENIED = late_pattern(
    r"(?:\bnot\b(?! (?:only|just|sure|far|certain|clear|easy|hard|difficult|least))|n't\b|\bnever\b|\bcannot\b"
    r"|\bno\b(?! (?:doubt|question|mistake)))"
)
SENTENCE_END = late_pattern(r"[.!?\n](?: |$)")

LIST_GAP = late_pattern(r"(?: (?:[,.;:|/\n-]|and|or|option|the|a|an))* ")
LIST_END = late_pattern(r" ?(?:[.,;:!?\n|]|$)")

# Over the plain text, lower case.
UNKNOWN_LABEL = late_pattern(r"[(\[\"' ]*(?:[a-z]|\d{1,2})[)\].:\"' ]*")
OPENINGS = late_pattern(r"(?:(?:the )?(?:correct )?answer is:? )?(?:(?:it|this) is |it's )?(?:(?:a|an|the) )?")
ORDINAL = late_pattern(
    r"(?:(?:it is|it's|i (?:would )?(?:choose|pick|say)|i'd say|the answer is|answer:) )?(?:the )?"
    rf"(?:({'|'.join(ORDINALS)}|last)(?: one| option| choice| answer)|(?:option|choice|answer|number|no\."
    rf"|#) ?(\d{{1,2}}))[.! ]*"
)
