"""Explicit statements of an answer: "The answer is B", "B is correct", a line that is an option and nothing else."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import (
    cue_classes,
    dense_words,
    phrases_of,
    refusal_count,
    words_of,
)
from snellen.extraction.mentions import MarkedReply, Mention
from snellen.extraction.tokens import Token, is_article

StatementKind = Literal[
    "announced",
    "judged",
    "chosen",
    "opening",
    "opening text",
    "first line",
    "last line",
    "line",
    "listed",
]
"""How a statement is made: behind "the answer is"; before "is correct"; behind "I choose"; as the first word of the
reply ("B. A is too small."); as the first sentence ("A cat. The others ..."); as an option alone in a line. A line among
others that name other options, or in a numbered list, is `listed`, and states nothing."""


class Statement(NamedTuple):
    """One explicit statement that an option is the answer."""

    option: int
    kind: StatementKind
    mention: Mention
    plain: bool
    """Nothing in its sentence weakens it: no denial, supposition, alternative or question."""


_FRAME_WORDS = frozenset(
    "the a an is are was be would should must will to my best most likely so therefore thus hence this that it i it's that's"
    " final option answer correct right choice letter in image picture question given here conclusion :"
    " = - → ( ) [ ] { } \" ' . , ! * # & s as follow ✓ ✔ ☑ ✅ ∴ number label single one and following above based on definitely clearly certainly probably surely maybe perhaps"
    " 是 为 为 应 该 选 择 项 故 答 案 正 确 所 以 ： ， 。 입 니 다 답 정 은 는 で す は 正 解 え が い し の".split()
)
_LOOK_BACK = 9
_REACH = 30
"""Tokens of a sentence before a mention in which words that weaken it are looked for."""


def asks_what_is_wrong(question: str) -> bool:
    """Whether a question asks for what is not so: "Which of these is not shown?"."""
    return _NEGATIVE_QUESTION.search(question) is not None


_NEGATIVE_QUESTION = late_pattern(
    r"\b(?:not|isn't|aren't|doesn't|except|false|incorrect|wrong|untrue|missing|absent)\b",
    re.IGNORECASE,
)


def find_statements(marked: MarkedReply, question: str = "") -> list[Statement]:
    """Return all explicit statements of a reply, in order.

    "B is correct" does not answer a question that asks what is wrong.
    """
    tokens = marked.tokens
    others = {mention.first: mention for mention in marked.mentions if mention.kind != "part"}
    last_line = _last_line_start(tokens)
    is_negative = asks_what_is_wrong(question)
    found: list[Statement] = []
    for mention in marked.mentions:
        if mention.kind == "part":
            continue
        kind = _kind(marked, mention, last_line, others)
        if kind is None:
            continue
        weak = mention.conflict or _is_weakened(marked, mention, others, kind)
        weak = weak or (kind == "judged" and is_negative)
        found.append(Statement(mention.option, kind, mention, not weak))
    return _with_lists(marked, found)


_LINES = frozenset(["first line", "last line", "line"])


def _with_lists(marked: MarkedReply, statements: list[Statement]) -> list[Statement]:
    """The statements, with lines of a list that goes through the options marked as listed."""
    listed = _listed(marked)
    return [
        statement._replace(kind="listed", plain=False)
        if statement.kind in (*_LINES, "opening") and statement.mention.first in listed
        else statement
        for statement in statements
    ]


def _listed(marked: MarkedReply) -> set[int]:
    """First tokens of the mentions that begin lines which follow one another and name options in their order."""
    tokens = marked.tokens
    listed: set[int] = set()
    run: list[Mention] = []
    line_of_previous = -2
    line = 0
    previous_start = 0
    at = {mention.first: mention for mention in marked.mentions if mention.kind != "part"}
    number_of_previous = 0
    for start, end in _lines(tokens):
        if start == end:
            continue
        line += 1
        number = _list_number(tokens, start, end)
        if number:
            if number == number_of_previous + 1 and number > 1:
                listed |= {index for index in range(previous_start, end) if index in at}
            number_of_previous = number
            previous_start = start
        first = start
        while first < end and (not tokens[first].form[0].isalnum() or tokens[first].form == "x"):
            first += 1
        mention = at.get(first)
        if mention is None or not _has_more(tokens, mention, end):
            continue
        follows = line_of_previous == line - 1 and run and run[-1].option < mention.option
        run = [*run, mention] if follows else [mention]
        line_of_previous = line
        if len(run) > 1:
            listed |= {item.first for item in run}
    return listed


def _list_number(tokens: list[Token], start: int, end: int) -> int:
    """The number of a line of a list: "2. Set B"; 0 if it has none."""
    has_number = start + 2 < end and tokens[start].raw.isdigit() and len(tokens[start].raw) < 3
    return int(tokens[start].raw) if has_number and tokens[start + 1].form in (".", ")") else 0


def _lines(tokens: list[Token]) -> list[tuple[int, int]]:
    """[first, last) token indices of each line, empty ones too."""
    lines: list[tuple[int, int]] = []
    start = 0
    for index, token in enumerate(tokens):
        if token.form == "\n":
            lines.append((start, index))
            start = index + 1
    lines.append((start, len(tokens)))
    return lines


def _has_more(tokens: list[Token], mention: Mention, end: int) -> bool:
    """Whether a line has more than the label that begins it."""
    if mention.kind in ("text", "label+text"):
        return True
    return any(token.form[0].isalnum() for token in tokens[mention.last + 1 : end])


_DECIDING = frozenset(["announced", "judged", "chosen", "opening", "first line", "last line"])


def certain_statement(
    marked: MarkedReply, statements: list[Statement], *, cut: bool = False
) -> Statement | None:
    """The last statement of the one option that plain statements name; None if they name several, or none, or take it
    back.

    In a reply that was cut, the last line might have gone on.
    """
    deciding = [
        statement
        for statement in statements
        if statement.plain
        and statement.kind in _DECIDING
        and not (cut and statement.kind == "last line")
    ]
    if len({statement.option for statement in deciding}) != 1:
        return None
    return None if is_taken_back(marked, deciding[-1]) else deciding[-1]


def _last_line_start(tokens: list[Token]) -> int:
    end = len(tokens)
    while end and tokens[end - 1].form in ("\n", ".", " "):
        end -= 1
    for index in range(end - 1, -1, -1):
        if tokens[index].form == "\n":
            return index + 1
    return 0


def _kind(
    marked: MarkedReply, mention: Mention, last_line: int, others: dict[int, Mention]
) -> StatementKind | None:
    tokens = marked.tokens
    if _is_announced(tokens, mention):
        return "announced"
    if mention.kind != "bare label" and _is_alone_in_line(marked, mention):
        if all(token.form == "\n" for token in tokens[: _line_start(tokens, mention.first)]):
            return "first line"
        return "last line" if mention.first >= last_line else "line"
    if _is_judged(tokens, mention, others):
        return "judged"
    if _is_opening(tokens, mention):
        return "opening"
    if mention.kind == "text" and _is_first_sentence(marked, mention):
        return "opening text"
    if _is_chosen(tokens, mention):
        return "chosen"
    return None


def _is_opening(tokens: list[Token], mention: Mention) -> bool:
    """Whether a reply begins with a label that is set off from what follows."""
    if mention.kind == "text" or mention.first > _LOOK_BACK:
        return False
    if any(_is_said(token.form) for token in tokens[: mention.first]):
        return False
    label = tokens[mention.first].raw
    if mention.kind != "label+text" and not label.isupper():
        return False
    index = mention.last + 1
    while index < len(tokens) and tokens[index].form in _CLOSING and tokens[index].form != ".":
        index += 1
    if index >= len(tokens):
        return True
    following = tokens[index]
    if following.form in (".", "\n", "-", ",", "because", "since", "as"):
        return mention.kind != "bare label"
    if tokens[index - 1].form == ")" and index - 1 > mention.last:
        return True
    is_in_bold = following.start - tokens[index - 1].end >= _MARKUP
    begins_sentence = following.raw[0].isupper() and (
        mention.kind == "label+text" or label not in ("A", "I")
    )
    return is_in_bold or begins_sentence


def _is_first_sentence(marked: MarkedReply, mention: Mention) -> bool:
    """Whether the first sentence of a reply is an option and nothing else."""
    tokens = marked.tokens
    start, end = marked.sentences[0]
    if not start <= mention.first <= start + 2 or end > mention.last + _LOOK_BACK:
        return False
    others = [*range(start, mention.first), *range(mention.last + 1, end)]
    return all(is_article(tokens[at].form) or not tokens[at].form[0].isalnum() for at in others)


_MARKUP = 3
"""Blanks that are left of the markup between a label in bold and the next word."""


def _is_said(form: str) -> bool:
    return form[0].isalnum() and not _is_frame_word(form)


def _line_start(tokens: list[Token], index: int) -> int:
    while index and tokens[index - 1].form != "\n":
        index -= 1
    return index


def _is_alone_in_line(marked: MarkedReply, mention: Mention) -> bool:
    """Whether the line of a mention has nothing but the mention and words that announce it."""
    tokens = marked.tokens
    index = mention.first - 1
    steps = 0
    while index >= 0 and tokens[index].form != "\n":
        steps += 1
        if steps > _LOOK_BACK or not _is_frame_word(tokens[index].form):
            return False
        index -= 1
    index = mention.last + 1
    steps = 0
    while index < len(tokens) and tokens[index].form != "\n":
        steps += 1
        if steps > 4 or tokens[index].form[0].isalnum():
            return False
        index += 1
    return True


def _is_frame_word(form: str) -> bool:
    if form in _FRAME_WORDS or is_article(form):
        return True
    classes = cue_classes().get(form, ())
    return any(
        name in ("answer", "option", "correct", "copula", "final", "conclusion") for name in classes
    )


def _is_announced(tokens: list[Token], mention: Mention) -> bool:
    """Whether "the answer is", or the like, is just before a mention, and nothing follows that goes on to name more."""
    index = mention.first - 1
    linked = False
    for _ in range(_LOOK_BACK):
        if index < 0 or tokens[index].form in ("\n", ".", "?", ";"):
            return False
        form = tokens[index].form
        classes = cue_classes().get(form, ())
        if form in (":", "=", "→", "：", "-") or "copula" in classes:
            linked = True
        if (
            "answer" in classes
            and (linked or mention.kind == "label")
            and _is_bound(tokens, mention)
        ):
            return True
        if "option" in classes and linked and _is_called_correct(tokens, index):
            return True
        if not _is_frame_word(form):
            return _is_dense_announcement(tokens, mention)
        index -= 1
    return False


def _is_bound(tokens: list[Token], mention: Mention) -> bool:
    """Whether what follows a mention leaves it as it is: "the answer is 3" but not "the answer is 3 times larger"."""
    if mention.kind == "label" or mention.kind == "label+text":
        return True
    following = tokens[mention.last + 1].form if mention.last + 1 < len(tokens) else "\n"
    if mention.kind == "bare label":
        return not following[0].isalnum() or following in _AFTER_LABEL
    return True


_AFTER_LABEL = frozenset("because since as which with is and for but so".split())


def _is_called_correct(tokens: list[Token], index: int) -> bool:
    """Whether "correct" is before the word "option" at an index, or the word has nothing before it in its line."""
    before = tokens[max(0, index - 3) : index]
    if any(
        "correct" in cue_classes().get(token.form, ())
        or "final" in cue_classes().get(token.form, ())
        for token in before
    ):
        return True
    return all(token.form == "\n" or not token.form[0].isalnum() for token in before)


def _is_dense_announcement(tokens: list[Token], mention: Mention) -> bool:
    before = "".join(token.raw for token in tokens[max(0, mention.first - 8) : mention.first])
    return any(word in before for word in dense_words("answer") if len(word) > 1)


def _is_judged(tokens: list[Token], mention: Mention, others: dict[int, Mention]) -> bool:
    """Whether "is correct", or the like, is just behind a mention."""
    index = mention.last + 1
    linked = False
    for _ in range(7):
        if index >= len(tokens) or tokens[index].form in ("\n", ".", "?", ";", ","):
            return False
        if index in others:
            return False
        form = tokens[index].form
        classes = cue_classes().get(form, ())
        if "copula" in classes:
            linked = True
        elif ("correct" in classes or "answer" in classes) and linked:
            following = tokens[index + 1].form if index + 1 < len(tokens) else "\n"
            return following not in ("in", "side", "than") and not (
                form == "right"
                and following[0].isalnum()
                and following not in ("answer", "option", "choice", "one", "because", "as", "since")
            )
        elif not _is_frame_word(form):
            return False
        index += 1
    return False


_FIRST_PERSON = frozenset("i i'd i'll i'm we we'll my ich je yo eu io ik ja я ben saya tôi".split())


def _is_chosen(tokens: list[Token], mention: Mention) -> bool:
    """Whether "I choose", or the like, is just before a mention."""
    if mention.kind == "bare label" and tokens[mention.first].raw == "A":
        return False
    for index in range(mention.first - 1, max(-1, mention.first - 6), -1):
        form = tokens[index].form
        if "choose" in cue_classes().get(form, ()):
            before = tokens[max(0, index - 4) : index]
            begins = not before or before[-1].form in ("\n", ".", ",", ":")
            in_first_person = any(token.form in _FIRST_PERSON for token in before)
            return in_first_person or (begins and mention.kind != "text")
        if not (_is_frame_word(form) or form in ("with", "for", "on")) or form in (".", "\n"):
            return False
    return False


_SUPPOSING = frozenset(
    "if unless suppose assuming wenn falls si se als jeśli если eğer jika nếu 如果 もし".split()
)
_SPEAKING = frozenset(
    "said say says told tell asked ask claims example e.g instance form format reply respond output".split()
)
_CONNECTING = frozenset("or and / & , ; versus vs 、 和 与 と".split())
_CLOSING = frozenset(") ] } \" ' ( [ .".split())
_ARITHMETIC = frozenset("+ - * × ÷ / = < > ≤ ≥ ^".split())


def _is_weakened(
    marked: MarkedReply, mention: Mention, others: dict[int, Mention], kind: StatementKind
) -> bool:
    """Whether something in its sentence keeps a statement from being plain."""
    tokens = marked.tokens
    start, end = marked.sentences[marked.sentence_of(mention.first)]
    if tokens[end - 1].form in ("?", "？") and end - 1 <= mention.last + 3:
        return True
    if mention.kind == "text" and _is_part_of_calculation(tokens, mention):
        return True
    if _is_one_of_several(tokens, mention, others):
        return True
    if kind in _LINES:
        return False
    for index in range(max(start, mention.first - _REACH), mention.first):
        form = tokens[index].form
        if form in _SUPPOSING or form in _SPEAKING:
            return True
        classes = cue_classes().get(form, ())
        if "negation" in classes or "wrong" in classes or "tentative" in classes:
            return True
    for index in range(mention.last + 1, min(end, mention.last + 10)):
        form = tokens[index].form
        if form in (".", ";", "\n") or index in others:
            break
        if form in _SUPPOSING:
            return True
        classes = cue_classes().get(form, ())
        if kind == "judged" and ("negation" in classes or "wrong" in classes):
            return True
        if "copula" in classes and any(
            "wrong" in cue_classes().get(token.form, ()) for token in tokens[index + 1 : index + 4]
        ):
            return True  # "Option C is incorrect"
    return False


def _is_part_of_calculation(tokens: list[Token], mention: Mention) -> bool:
    following = tokens[mention.last + 1] if mention.last + 1 < len(tokens) else None
    if following is None or following.form not in _ARITHMETIC:
        return False
    after = tokens[mention.last + 2].form if mention.last + 2 < len(tokens) else "\n"
    return tokens[mention.last].form[0] == "#" and after[0] in "#(√π"


def _is_one_of_several(tokens: list[Token], mention: Mention, others: dict[int, Mention]) -> bool:
    """Whether a mention is in a series with another option: "B or C", "A, B and D"."""
    index = mention.last + 1
    while index < len(tokens) and tokens[index].form in _CLOSING:
        index += 1
    following = tokens[index].form if index < len(tokens) else "\n"
    if following in _CONNECTING or following in words_of("alternative"):
        near = range(index + 1, index + 6)
        if any(place in others and others[place].option != mention.option for place in near):
            return True
    if mention.kind != "text" and index in others:
        neighbour = others[index]
        if neighbour.option != mention.option and neighbour.kind in ("label", "label+text"):
            return True
    for index in range(mention.first - 1, max(-1, mention.first - 4), -1):
        form = tokens[index].form
        if form in _CONNECTING or form in words_of("alternative"):
            before = range(max(0, index - 5), index)
            return any(
                place in others and others[place].option != mention.option for place in before
            )
        if form in (".", "\n", ":") or "copula" in cue_classes().get(form, ()):
            return False
    return False


def is_taken_back(marked: MarkedReply, statement: Statement) -> bool:
    """Whether the reply corrects itself, or says that it does not know, behind a statement."""
    start = marked.tokens[statement.mention.last].end
    behind = marked.text[start:]
    if not behind.strip(" .\n*)"):
        return False
    lowered = behind.casefold()
    if phrases_of("correction").search(lowered) or refusal_count(lowered):
        return True
    tokens = marked.tokens
    for first, last in marked.sentences[marked.sentence_of(statement.mention.last) :]:
        if first <= statement.mention.last and last <= statement.mention.last + 1:
            continue
        first = max(first, statement.mention.last + 1)
        while first < last and not tokens[first].form[0].isalnum():
            first += 1
        if first >= last:
            continue
        if tokens[first].form in _CORRECTING:
            return True
        if tokens[first].form in ("but", "however") and any(
            token.form in ("wrong", "unclear", "uncertain", "sure") for token in tokens[first:last]
        ):
            return True
    return any(word in behind for word in dense_words("correction") if len(word) > 1)


_CORRECTING = frozenset(
    "wait hmm hm sorry oops whoops actually correction no nope apologies scratch moment nein korrektur espera perdón attends"
    " pardon désolé aspetta scusa desculpe wacht nie нет стоп подождите bekle tunggu khoan".split()
)


_RECONSIDERING = frozenset(
    "wait hmm sorry oops whoops actually correction nein nope scratch".split()
)
"""How a sentence begins that corrects what is before it; "no" may as well go on."""


def last_correction(marked: MarkedReply) -> int | None:
    """Where the last words are by which a reply corrects itself; None if it does not."""
    last = None
    for match in phrases_of("correction").finditer(marked.text.casefold()):
        last = match.start()
    for start, _ in marked.sentences[1:]:
        token = marked.tokens[start]
        if token.form in _RECONSIDERING and (last is None or token.start > last):
            last = token.start
    return last


_SHORT_REPLY = 25
"""Tokens of a reply in which an option behind a correction is the answer, however it is named."""


def corrected_mention(marked: MarkedReply) -> Mention | None:
    """The last mention behind the correction of a short reply: "B. On second thought, C."; None if there are several."""
    if len(marked.tokens) > _SHORT_REPLY:
        return None
    corrected_at = last_correction(marked)
    if corrected_at is None:
        return None
    behind = []
    before = set()
    for mention in marked.mentions:
        if mention.kind == "part":
            continue
        if marked.tokens[mention.first].start > corrected_at:
            behind.append(mention)
        else:
            before.add(mention.option)
    options_behind = {mention.option for mention in behind}
    if len(options_behind) != 1 or not before or options_behind == before:
        return None
    denials = ("negation", "wrong")
    for token in marked.tokens:
        is_behind = token.start > corrected_at
        if is_behind and any(name in denials for name in cue_classes().get(token.form, ())):
            return None
    return behind[-1]
