"""Find where a reply states its answer explicitly: "The answer is B", "B is correct", a line that is only an option.

A *statement* is a mention of an option (`snellen.extraction.mentions`) together with the form in which it is stated. A
statement is *plain* if nothing in its sentence weakens it, such as a denial ("not B"), a supposition ("if B"), an
alternative ("B or C") or a question mark. If all plain statements of a reply name the same option, that option is the
answer (`certain_statement`), unless the reply takes it back ("Wait, no").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import (
    dense_words,
    has_cue,
    phrases_of,
    refusal_count,
    words_of,
)
from snellen.extraction.mentions import MarkedReply, Mention
from snellen.extraction.tokens import Token, is_article, normalised_at

StatementKind = Literal[
    "announced",  # behind "the answer is"
    "judged",  # before "is correct"
    "chosen",  # behind "I choose"
    "opening",  # a label as the first word of the reply: "B. The others are too small."
    "opening text",  # an option as the first sentence of the reply: "A cat. The others are larger."
    "first line",  # an option alone in the first line
    "last line",  # an option alone in the last line
    "line",  # an option alone in another line
    "listed",  # in a list that goes through the options; states nothing
]
"""Form in which a reply states an answer."""


class Statement(NamedTuple):
    """An explicit statement that an option is the answer."""

    option: int
    """Index of the option."""
    kind: StatementKind
    mention: Mention
    plain: bool
    """Whether nothing in its sentence weakens it: no denial, supposition, alternative or question."""


_WHOLE_LINES = frozenset(["first line", "last line", "line"])
"""Kinds of statements that are alone in their line."""
_DECIDING = frozenset(["announced", "judged", "chosen", "opening", "first line", "last line"])
"""Kinds of statements that decide what a reply means if they are plain."""
_NEGATIVE_QUESTION = late_pattern(
    r"\b(?:not|isn't|aren't|doesn't|except|false|incorrect|wrong|untrue|missing|absent)\b",
    re.IGNORECASE,
)


def asks_what_is_wrong(question: str) -> bool:
    """Return whether a question asks for what is not the case: "Which of these is not shown?"."""
    return _NEGATIVE_QUESTION.search(question) is not None


def find_statements(marked: MarkedReply, question: str = "") -> list[Statement]:
    """Return all explicit statements of a reply, in order.

    "B is correct" is not a plain statement if the question asks what is wrong.

    Example:
        >>> from snellen.extraction.mentions import mark_mentions
        >>> from snellen.extraction.option_forms import option_forms
        >>> forms = option_forms(("red", "blue"), ("A", "B"))
        >>> marked = mark_mentions("A is wrong. The answer is B.", forms)
        >>> [(statement.option, statement.kind) for statement in find_statements(marked)]
        [(1, 'announced')]
    """
    mention_at = whole_mentions(marked)
    last_line_start = _start_of_last_line(marked.tokens)
    is_negative_question = asks_what_is_wrong(question)
    listed = _mentions_in_lists(marked, mention_at)
    statements: list[Statement] = []
    for mention in marked.mentions:
        if mention.kind == "part":
            continue
        kind = _kind_of_statement(marked, mention, last_line_start, mention_at)
        if kind is None:
            continue
        is_listed = mention.first in listed and (kind in _WHOLE_LINES or kind == "opening")
        if is_listed:
            statements.append(Statement(mention.option, "listed", mention, plain=False))
            continue
        is_weak = (
            mention.conflict
            or _is_weakened(marked, mention, mention_at, kind)
            or (kind == "judged" and is_negative_question)
        )
        statements.append(Statement(mention.option, kind, mention, plain=not is_weak))
    return statements


def whole_mentions(marked: MarkedReply) -> dict[int, Mention]:
    """Return the mentions by a label or by a complete text, by the index of their first token."""
    return {mention.first: mention for mention in marked.mentions if mention.kind != "part"}


def certain_statement(
    marked: MarkedReply, statements: Iterable[Statement], *, cut: bool = False
) -> Statement | None:
    """Return the last plain statement of a reply if all of them name the same option.

    Args:
        marked: The reply.
        statements: Its statements.
        cut: Whether the reply was cut off. Then its last line could have continued, and states nothing.

    Returns:
        The statement, or None if there is none, if several options are stated, or if the reply takes it back.
    """
    deciding: list[Statement] = []
    for statement in statements:
        is_incomplete = cut and statement.kind == "last line"
        if statement.plain and statement.kind in _DECIDING and not is_incomplete:
            deciding.append(statement)
    stated_options = {statement.option for statement in deciding}
    if len(stated_options) != 1:
        return None
    last = deciding[-1]
    return None if is_taken_back(marked, last) else last


# --- kinds of statements ----------------------------------------------------------------------------------------------

_FRAME_WORDS = frozenset(
    "the a an is are was be would should must will to my best most likely so therefore thus hence this that it i it's that's"
    " final option answer correct right choice letter in image picture question given here conclusion :"
    " = - → ( ) [ ] { } \" ' . , ! * # & s as follow ✓ ✔ ☑ ✅ ∴ number label single one and following above based on definitely clearly certainly probably surely maybe perhaps"
    " 是 为 为 应 该 选 择 项 故 答 案 正 确 所 以 ： ， 。 입 니 다 답 정 은 는 で す は 正 解 え が い し の".split()
)
"""Words and signs that announce an answer and say nothing about it: "So the best answer is most likely"."""
_FRAME_CLASSES = ("answer", "option", "correct", "copula", "final", "conclusion")
"""Classes of cue words that announce an answer as well."""
_CLOSING = frozenset(") ] } \" ' ( [ .".split())
"""Brackets, quotes and full stops that can follow a label."""
_CLOSING_WITHOUT_STOP = _CLOSING - {"."}
_LOOK_BACK = 9
"""Tokens before a mention in which an announcement is looked for."""
_MOST_CLOSING = 4
"""Signs that a line can have behind an option that is alone in it."""
_MARKUP_WIDTH = 3
"""Blanks that markup leaves between a label in bold and the next word: "**B** is" is "  B   is" without its markup."""
_AFTER_LABEL = frozenset("because since as which with is and for but so".split())
"""Words after which a bare label is complete: "The answer is B because ..."."""
_AFTER_CORRECT = frozenset("answer option choice one because as since".split())
"""Words after which "right" means "correct": "B is the right answer"."""
_FIRST_PERSON = frozenset("i i'd i'll i'm we we'll my ich je yo eu io ik ja я ben saya tôi".split())


def _kind_of_statement(
    marked: MarkedReply, mention: Mention, last_line_start: int, mention_at: Mapping[int, Mention]
) -> StatementKind | None:
    """Return the form in which a mention states an answer, or None if it states nothing.

    Args:
        marked: The reply.
        mention: A mention by label or complete text.
        last_line_start: Index of the first token of the last line.
        mention_at: All such mentions by their first token.
    """
    tokens = marked.tokens
    if _is_announced(tokens, mention):
        return "announced"
    if mention.kind != "bare label" and _is_alone_in_line(tokens, mention):
        line_start = _start_of_line(tokens, mention.first)
        if all(token.normalised == "\n" for token in tokens[:line_start]):
            return "first line"
        return "last line" if mention.first >= last_line_start else "line"
    if _is_judged(tokens, mention, mention_at):
        return "judged"
    if _is_opening_label(tokens, mention):
        return "opening"
    if mention.kind == "text" and _is_first_sentence(marked, mention):
        return "opening text"
    if _is_chosen(tokens, mention):
        return "chosen"
    return None


def _is_frame_word(word: str) -> bool:
    """Return whether a word or sign only announces an answer: "the", "answer", "is", ":", but not "car"."""
    return word in _FRAME_WORDS or is_article(word) or has_cue(word, *_FRAME_CLASSES)


def _is_announced(tokens: list[Token], mention: Mention) -> bool:
    """Return whether words just before a mention announce it: "The answer is B", "Correct option: B"."""
    is_linked = False  # by a copula or a colon
    for index in range(mention.first - 1, mention.first - 1 - _LOOK_BACK, -1):
        word = normalised_at(tokens, index)
        if word in ("\n", ".", "?", ";"):
            return False
        if word in (":", "=", "→", "：", "-") or has_cue(word, "copula"):
            is_linked = True
        announces_answer = has_cue(word, "answer") and (is_linked or mention.kind == "label")
        if announces_answer and _is_complete(tokens, mention):
            return True
        if is_linked and has_cue(word, "option") and _is_called_correct(tokens, index):
            return True
        if not _is_frame_word(word):
            return _is_announced_densely(tokens, mention)
    return False


def _is_complete(tokens: list[Token], mention: Mention) -> bool:
    """Return whether a mention does not continue as something else: "The answer is A dog" does not announce label A."""
    if mention.kind != "bare label":
        return True
    following = normalised_at(tokens, mention.last + 1)
    return not following[0].isalnum() or following in _AFTER_LABEL


def _is_called_correct(tokens: list[Token], index: int) -> bool:
    """Return whether the word "option" at an index announces an answer.

    It does after "correct" or "final" ("The correct option is B"), and if no word is before it ("Option: B").
    """
    preceding = tokens[max(0, index - 3) : index]
    if any(has_cue(token.normalised, "correct", "final") for token in preceding):
        return True
    return not any(token.normalised[0].isalnum() for token in preceding)


def _is_announced_densely(tokens: list[Token], mention: Mention) -> bool:
    """Return whether Chinese, Japanese or Korean characters before a mention announce it: "答案是B"."""
    preceding = tokens[max(0, mention.first - 8) : mention.first]
    characters = "".join(token.raw for token in preceding)
    return any(word in characters for word in dense_words("answer") if len(word) > 1)


def _is_alone_in_line(tokens: list[Token], mention: Mention) -> bool:
    """Return whether the line of a mention has nothing else but words that announce it: "So: B."."""
    index = mention.first - 1
    while normalised_at(tokens, index) != "\n":
        is_far = mention.first - index > _LOOK_BACK
        if is_far or not _is_frame_word(tokens[index].normalised):
            return False
        index -= 1

    index = mention.last + 1
    while normalised_at(tokens, index) != "\n":
        is_far = index - mention.last > _MOST_CLOSING
        is_word = tokens[index].normalised[0].isalnum()
        if is_far or is_word:
            return False
        index += 1
    return True


_JUDGEMENT_REACH = 7
"""Tokens behind a mention in which a judgement of it may stand."""


def _is_judged(tokens: list[Token], mention: Mention, mention_at: Mapping[int, Mention]) -> bool:
    """Return whether words just behind a mention call it correct: "B is correct", "B is the answer".

    Args:
        tokens: Tokens of the reply.
        mention: The mention.
        mention_at: Mentions of the reply by their first token; words behind the next one do not count.
    """
    follows_copula = False
    for index in range(mention.last + 1, mention.last + 1 + _JUDGEMENT_REACH):
        word = normalised_at(tokens, index)
        if word in ("\n", ".", "?", ";", ",") or index in mention_at:
            return False
        if has_cue(word, "copula"):
            follows_copula = True
        elif follows_copula and has_cue(word, "correct", "answer"):
            following = normalised_at(tokens, index + 1)
            if following in ("in", "side", "than"):
                return False
            if word != "right":
                return True
            # "right" also means a side: "B is the right car".
            is_last_word = not following[0].isalnum()
            return is_last_word or following in _AFTER_CORRECT
        elif not _is_frame_word(word):
            return False
    return False


def _is_opening_label(tokens: list[Token], mention: Mention) -> bool:
    """Return whether a reply begins with a label that is set off from what follows: "B. It is a cat.", "B because"."""
    if mention.kind == "text" or mention.first > _LOOK_BACK:
        return False
    for token in tokens[: mention.first]:
        is_word = token.normalised[0].isalnum()
        if is_word and not _is_frame_word(token.normalised):
            return False
    label = tokens[mention.first].raw
    if mention.kind != "label+text" and not label.isupper():
        return False

    index = mention.last + 1
    while index < len(tokens) and tokens[index].normalised in _CLOSING_WITHOUT_STOP:
        index += 1
    if index >= len(tokens):
        return True
    preceding = tokens[index - 1]
    following = tokens[index]
    if following.normalised in (".", "\n", "-", ",", "because", "since", "as"):
        return mention.kind != "bare label"
    if preceding.normalised == ")" and index - 1 > mention.last:
        return True
    is_in_bold = following.start - preceding.end >= _MARKUP_WIDTH
    is_only_label = mention.kind == "label+text" or label not in ("A", "I")
    begins_sentence = following.raw[0].isupper() and is_only_label
    return is_in_bold or begins_sentence


def _is_first_sentence(marked: MarkedReply, mention: Mention) -> bool:
    """Return whether the first sentence of a reply is an option and nothing else: "A cat. The others are larger."."""
    start, end = marked.sentences[0]
    is_at_beginning = start <= mention.first <= start + 2
    is_long = end > mention.last + _LOOK_BACK
    if not is_at_beginning or is_long:
        return False
    before = marked.tokens[start : mention.first]
    behind = marked.tokens[mention.last + 1 : end]
    for token in (*before, *behind):
        is_word = token.normalised[0].isalnum()
        if is_word and not is_article(token.normalised):
            return False
    return True


_CHOICE_REACH = 5
"""Tokens before a mention in which a verb of choosing may stand: "go" of "I would go with option B"."""
_CHOOSER_REACH = 4
"""Tokens before such a verb in which the one who chooses may stand: "I" of "I would rather go"."""


def _is_chosen(tokens: list[Token], mention: Mention) -> bool:
    """Return whether words just before a mention choose it: "I choose B", "I would go with B"."""
    if mention.kind == "bare label" and tokens[mention.first].raw == "A":
        return False  # "I choose a car"
    reach_start = max(0, mention.first - _CHOICE_REACH)
    for index in reversed(range(reach_start, mention.first)):
        word = tokens[index].normalised
        if has_cue(word, "choose"):
            preceding = tokens[max(0, index - _CHOOSER_REACH) : index]
            in_first_person = any(token.normalised in _FIRST_PERSON for token in preceding)
            begins_sentence = not preceding or preceding[-1].normalised in ("\n", ".", ",", ":")
            return in_first_person or (begins_sentence and mention.kind != "text")
        can_be_between = _is_frame_word(word) or word in ("with", "for", "on")
        if word in (".", "\n") or not can_be_between:
            return False
    return False


# --- lines and lists --------------------------------------------------------------------------------------------------


def _start_of_line(tokens: list[Token], index: int) -> int:
    """Return the index of the first token of the line that contains a token."""
    while index > 0 and tokens[index - 1].normalised != "\n":
        index -= 1
    return index


def _start_of_last_line(tokens: list[Token]) -> int:
    """Return the index of the first token of the last line that has more than full stops."""
    end = len(tokens)
    while end > 0 and tokens[end - 1].normalised in ("\n", ".", " "):
        end -= 1
    return _start_of_line(tokens, end - 1) if end > 0 else 0


def _split_lines(tokens: list[Token]) -> list[tuple[int, int]]:
    """Return, for each line with a token, the index of its first token and the index behind its last token."""
    lines: list[tuple[int, int]] = []
    start = 0
    for index in range(len(tokens) + 1):
        if normalised_at(tokens, index) == "\n":
            if index > start:
                lines.append((start, index))
            start = index + 1
    return lines


def _mentions_in_lists(marked: MarkedReply, mention_at: Mapping[int, Mention]) -> set[int]:
    """Return the first tokens of the mentions that are in a list of options.

    These are the lines of a numbered list ("1. Red", "2. Blue"), and lines that follow one another and begin with
    options in the order of the question ("A. Too small", "B. Too large").

    Args:
        marked: The reply.
        mention_at: Its mentions by their first token.
    """
    tokens = marked.tokens
    listed: set[int] = set()
    series: list[Mention] = []  # options that begin the lines just before, in order
    previous_number = 0
    numbered_start = 0  # index of the first token of the last numbered line
    for start, end in _split_lines(tokens):
        number = _number_of_line(tokens, start, end)
        if number > 0:
            if number == previous_number + 1 and number > 1:
                both_lines = range(numbered_start, end)
                listed.update(index for index in both_lines if index in mention_at)
            previous_number = number
            numbered_start = start

        first = start
        while first < end and _is_bullet(tokens[first].normalised):
            first += 1
        mention = mention_at.get(first)
        if mention is None or not _has_more_than_label(tokens, mention, end):
            series = []
            continue
        continues_series = bool(series) and series[-1].option < mention.option
        series = [*series, mention] if continues_series else [mention]
        if len(series) > 1:
            listed.update(item.first for item in series)
    return listed


def _is_bullet(form: str) -> bool:
    """Return whether a token can be before the first word of a line: a sign, or the "x" of a box that is ticked."""
    return form == "x" or not form[0].isalnum()


def _number_of_line(tokens: list[Token], start: int, end: int) -> int:
    """Return the number of a line in a list, 2 for "2. Blue"; 0 if the line has no number.

    Args:
        tokens: Tokens of the reply.
        start: Index of the first token of the line.
        end: Index behind its last token.
    """
    if end - start < 3:
        return 0
    number = tokens[start].raw
    is_list_number = (
        number.isdigit() and len(number) < 3 and tokens[start + 1].normalised in (".", ")")
    )
    return int(number) if is_list_number else 0


def _has_more_than_label(tokens: list[Token], mention: Mention, end: int) -> bool:
    """Return whether a line has more words than the label that begins it. `end` is the index behind the line."""
    if mention.kind in ("text", "label+text"):
        return True
    return any(token.normalised[0].isalnum() for token in tokens[mention.last + 1 : end])


# --- words that weaken a statement ------------------------------------------------------------------------------------

_SUPPOSING = frozenset(
    "if unless suppose assuming wenn falls si se als jeśli если eğer jika nếu 如果 もし".split()
)
_SPEAKING = frozenset(
    "said say says told tell asked ask claims example e.g instance form format reply respond output".split()
)
"""Words of a statement by someone else, or of an example: "You said that the answer is B"."""
_CONNECTING = frozenset("or and / & , ; versus vs 、 和 与 と".split())
_ARITHMETIC = frozenset("+ - * × ÷ / = < > ≤ ≥ ^".split())
_REACH_BEFORE = 30
"""Tokens of a sentence before a mention in which words that weaken it are looked for."""
_REACH_BEHIND = 9
"""Tokens behind a mention in which words that weaken it are looked for."""


def _is_weakened(
    marked: MarkedReply, mention: Mention, mention_at: Mapping[int, Mention], kind: StatementKind
) -> bool:
    """Return whether the sentence of a statement weakens it: "not B", "if B", "B or C", "B?".

    Args:
        marked: The reply.
        mention: The mention that is stated.
        mention_at: All mentions of the reply by their first token.
        kind: Form of the statement.
    """
    tokens = marked.tokens
    start, end = marked.sentences[marked.sentence_of(mention.first)]
    is_question = tokens[end - 1].normalised in ("?", "？") and end - 1 <= mention.last + 3
    if is_question:
        return True
    if mention.kind == "text" and _is_in_calculation(tokens, mention):
        return True
    if _is_one_of_several(tokens, mention, mention_at):
        return True
    if kind in _WHOLE_LINES:
        return False

    for token in tokens[max(start, mention.first - _REACH_BEFORE) : mention.first]:
        if token.normalised in _SUPPOSING or token.normalised in _SPEAKING:
            return True
        if has_cue(token.normalised, "negation", "wrong", "tentative"):
            return True
    for index in range(mention.last + 1, min(end, mention.last + 1 + _REACH_BEHIND)):
        word = tokens[index].normalised
        if word in (".", ";", "\n") or index in mention_at:
            break
        if word in _SUPPOSING:
            return True
        if kind == "judged" and has_cue(word, "negation", "wrong"):
            return True
        if has_cue(word, "copula"):
            following = tokens[index + 1 : index + 4]
            if any(has_cue(token.normalised, "wrong") for token in following):
                return True  # "Option C is incorrect"
    return False


def _is_in_calculation(tokens: list[Token], mention: Mention) -> bool:
    """Return whether a number that names an option is followed by an operation and another number: "3" in "3 + 4"."""
    is_number = tokens[mention.last].normalised[0] == "#"
    operator = normalised_at(tokens, mention.last + 1)
    operand = normalised_at(tokens, mention.last + 2)
    begins_number = operand[0] in "#(√π"
    return is_number and operator in _ARITHMETIC and begins_number


_CONNECTION_REACH = 3
"""Tokens before a mention in which a word that connects it with another option may stand."""
_LIST_REACH = 5
"""Tokens before or behind such a word in which the other option may begin."""


def _is_one_of_several(
    tokens: list[Token], mention: Mention, mention_at: Mapping[int, Mention]
) -> bool:
    """Return whether a mention is next to a mention of another option: "B or C", "A, B and D", "(A) (B)".

    Args:
        tokens: Tokens of the reply.
        mention: The mention.
        mention_at: All mentions of the reply by their first token.
    """
    index = mention.last + 1
    while index < len(tokens) and tokens[index].normalised in _CLOSING:
        index += 1
    following = normalised_at(tokens, index)
    is_connected = following in _CONNECTING or following in words_of("alternative")
    behind_connection = range(index + 1, index + 1 + _LIST_REACH)
    if is_connected and _has_other_option(mention, mention_at, behind_connection):
        return True
    neighbour = mention_at.get(index)
    if mention.kind != "text" and neighbour is not None:
        is_label = neighbour.kind in ("label", "label+text")
        if is_label and neighbour.option != mention.option:
            return True

    reach_start = max(0, mention.first - _CONNECTION_REACH)
    for index in reversed(range(reach_start, mention.first)):
        word = tokens[index].normalised
        if word in _CONNECTING or word in words_of("alternative"):
            before_connection = range(max(0, index - _LIST_REACH), index)
            return _has_other_option(mention, mention_at, before_connection)
        if word in (".", "\n", ":") or has_cue(word, "copula"):
            return False
    return False


def _has_other_option(
    mention: Mention, mention_at: Mapping[int, Mention], indices: Iterable[int]
) -> bool:
    """Return whether a mention of another option than that of `mention` begins at one of some tokens."""
    for index in indices:
        other = mention_at.get(index)
        if other is not None and other.option != mention.option:
            return True
    return False


# --- corrections ------------------------------------------------------------------------------------------------------

_CORRECTING = frozenset(
    "wait hmm hm sorry oops whoops actually correction no nope apologies scratch moment nein korrektur espera perdón attends"
    " pardon désolé aspetta scusa desculpe wacht nie нет стоп подождите bekle tunggu khoan".split()
)
"""First words of a sentence that takes back a statement before it: "Wait, ..."."""
_RECONSIDERING = frozenset(
    "wait hmm sorry oops whoops actually correction nein nope scratch".split()
)
"""First words of a sentence that corrects any sentence before it. "no" is missing, as it can also continue: "No, ..."."""
_DOUBTING = frozenset(["wrong", "unclear", "uncertain", "sure"])
_LONGEST_CORRECTED = 25
"""Tokens of the longest reply in which the option behind a correction is the answer, in whatever form it is named."""


def is_taken_back(marked: MarkedReply, statement: Statement) -> bool:
    """Return whether the reply corrects a statement or doubts it in what follows: "B. Wait, ...", "B. I am not sure."."""
    last = statement.mention.last
    rest = marked.text[marked.tokens[last].end :]
    if not rest.strip(" .\n*)"):
        return False
    lowered = rest.casefold()
    if phrases_of("correction").search(lowered) or refusal_count(lowered):
        return True

    for start, end in marked.sentences[marked.sentence_of(last) :]:
        first = max(start, last + 1)
        while first < end and not marked.tokens[first].normalised[0].isalnum():
            first += 1
        if first >= end:
            continue
        first_word = marked.tokens[first].normalised
        if first_word in _CORRECTING:
            return True
        is_doubted = any(token.normalised in _DOUBTING for token in marked.tokens[first:end])
        if first_word in ("but", "however") and is_doubted:
            return True
    return any(word in rest for word in dense_words("correction") if len(word) > 1)


def last_correction(marked: MarkedReply) -> int | None:
    """Return where the last correction of a reply begins, as an index into its text, or None if there is none.

    A correction is a phrase such as "on second thought", or a sentence that begins with "Wait" or the like.
    """
    last: int | None = None
    for match in phrases_of("correction").finditer(marked.text.casefold()):
        last = match.start()
    for start, _ in marked.sentences[1:]:
        first_word = marked.tokens[start]
        if first_word.normalised in _RECONSIDERING and (last is None or first_word.start > last):
            last = first_word.start
    return last


def corrected_mention(marked: MarkedReply) -> Mention | None:
    """Return the mention by which a short reply corrects itself: C in "B. On second thought, C.".

    Returns:
        The last mention behind the correction, or None if the reply is long, if several options or the same ones as
        before are behind the correction, or if there is a denial behind it.
    """
    if len(marked.tokens) > _LONGEST_CORRECTED:
        return None
    correction = last_correction(marked)
    if correction is None:
        return None

    options_before: set[int] = set()
    mentions_behind: list[Mention] = []
    for mention in whole_mentions(marked).values():
        if marked.tokens[mention.first].start > correction:
            mentions_behind.append(mention)
        else:
            options_before.add(mention.option)
    options_behind = {mention.option for mention in mentions_behind}
    if len(options_behind) != 1 or not options_before or options_behind == options_before:
        return None
    for token in marked.tokens:
        if token.start > correction and has_cue(token.normalised, "negation", "wrong"):
            return None
    return mentions_behind[-1]
