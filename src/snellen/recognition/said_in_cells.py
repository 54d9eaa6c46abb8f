"""How often the cells of one column stand in those of another: so replies and right answers are told by what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct

from snellen.formats.source_row import SourceRow
from snellen.recognition.columns import (
    PARTLY,
    distractor_columns,
    name_score,
    option_columns,
    split_name,
)
from snellen.recognition.folding import as_text, folded, folded_name, word_count
from snellen.recognition.model_columns import (
    CONDITION_IS_NONE,
    IN_WORDS,
    NOT_REPLIES,
    is_called_after_model,
)
from snellen.recognition.named_pairs import rest_of_gold
from snellen.recognition.profiles import ColumnProfile
from snellen.recognition.reply_names import FACT_WORDS, MADE_WORDS, are_binary, is_verdict

_WITHOUT_BLANKS = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD = re.compile(rf"[{_WITHOUT_BLANKS}]|[^\W{_WITHOUT_BLANKS}]+")
"""A word, or a character of a script that puts no blanks between words, or that adds endings to them, as Korean does."""
MOSTLY = 0.9
SURELY = 0.3
"""The share of the replies that have to have the right answers of their rows, for cells alone to tell what they are."""


def in_whole_words(text: str) -> str:
    """Return the words of a text between single blanks, also before the first and after the last.

    Examples:
        >>> in_whole_words("two dogs") in in_whole_words("I see two dogs."), in_whole_words("dog") in in_whole_words("dogs")
        (True, False)
        >>> in_whole_words("고양이") in in_whole_words("고양이입니다"), in_whole_words("3") in in_whole_words("정답은 3번")
        (True, True)
    """
    return f" {' '.join(_WORD.findall(text.casefold()))} "


class Said(Struct, frozen=True):
    """How often texts, such as replies, have words, such as right answers; shares of all texts."""

    share: float
    """Of the texts that have the words of their own row."""
    share_elsewhere: float
    """Of the texts that have the words of another row, drawn at random."""
    share_in_words: float
    """Of the texts that are the words of any row."""
    share_having: float
    """Of the texts that have the words of any row; of many texts, some are looked at."""

    @property
    def is_sure(self) -> bool:
        """Whether so many texts have their words, and others so rarely, that it can hardly be something else.

        Words that all texts have were made of these. Of few classes, others have the words by chance.
        """
        are_classes = self.share_in_words >= MOSTLY and self._is_often
        is_rare_elsewhere = self.share >= SURELY and 5 * self.share_elsewhere <= self.share
        return self.share < 1 - SURELY / 10 and (are_classes or is_rare_elsewhere)

    @property
    def is_of_closed_set(self) -> bool:
        """Whether nearly all texts have the words of some row, and those of their own rows far more often than others."""
        return self.share < 1 - SURELY / 10 and self.share_having >= MOSTLY and self._is_often

    @property
    def _is_often(self) -> bool:
        return self.share - self.share_elsewhere >= SURELY


def how_often_said(
    texts: Sequence[str], words: Sequence[Sequence[str]], asked: Sequence[str]
) -> Said:
    """Return how often texts have the words of their rows, and those of other rows.

    Args:
        texts: A text for each row, as `in_whole_words` gives it.
        words: For each row the words of which one is enough, as `in_whole_words` gives them.
        asked: The question of each row. Words that stand in it do not count, since a reply may repeat them.
    """
    order = list(range(len(texts)))
    Random(0).shuffle(order)
    n_said = 0
    n_elsewhere = 0
    for number, several in enumerate(words):
        looked_for = [word for word in several if word.strip() and word not in asked[number]]
        n_said += any(word in texts[number] for word in looked_for)
        n_elsewhere += any(word in texts[order[number]] for word in looked_for)
    n_texts = max(1, len(texts))
    all_words = {word for several in words for word in several if word.strip()}
    n_in_words = sum(text in all_words for text in texts)
    looked_at = texts[:: max(1, len(texts) // MOST_SEARCHED)]
    n_having = sum(any(word in text for word in all_words) for text in looked_at)
    share_having = n_having / max(1, len(looked_at))
    return Said(n_said / n_texts, n_elsewhere / n_texts, n_in_words / n_texts, share_having)


MOST_SEARCHED = 200
"""Texts that are searched for the words of any row."""


MOST_WORDS = 12
"""Words of replies on average; longer texts that have right answers may be what people wrote to explain these."""
OTHER_ROLES = (
    "question",
    "image",
    "options",
    "id",
    "distractors",
    "context",
    "group",
    "tag",
    "model",
    "caption",
)


def replies_by_cells(
    profiles: Mapping[str, ColumnProfile], rows: Sequence[SourceRow]
) -> tuple[str, ...]:
    """Return the columns of replies, one for each model, in a table in which no column is named like replies.

    The cells are compared with the column of correct answers, so names may be in any language. A column holds replies if
    one of these is true:

    - it is named after a model;
    - its cells are mostly correct answers of some row, or texts of the columns that are named after models;
    - its cells have the correct answer of their row far more often than those of other rows;
    - its name has the same last word as one of these columns, as in `base_model` and `finetuned_model`.

    Args:
        profiles: All columns of the table.
        rows: Its rows.

    Returns:
        The columns in the order of the table; none if there are no such columns.
    """
    golds = [name for name in profiles if name_score("answer", name) > PARTLY or rest_of_gold(name)]
    if not golds:
        return _reply_of_pair(profiles, rows)
    named = [name for name in profiles if is_called_after_model(name, profiles[name])]
    compared = _Compared(profiles, rows)
    options, _ = option_columns(profiles, golds)
    # In a row, one option is correct. If several such columns are, they are replies of several models.
    if any(sum(compared.said(name, gold).share for name in options) > 1 for gold in golds):
        options = ()
    used = {*golds, *options, *distractor_columns(profiles, golds)}
    candidates: list[str] = []
    for name, profile in profiles.items():
        if name not in used and _may_have_replies(name, profile):
            candidates.append(name)

    usual_texts: set[str] = set()
    for name in (*golds, *named):
        usual_texts.update(map(folded, profiles[name].texts))
    found = set(named)
    for name in candidates:
        if name in found:
            continue
        has_usual_texts = (
            not _has_name_of_other_role(name) and profiles[name].share_in(usual_texts) > IN_WORDS
        )
        if has_usual_texts or any(compared.are_answers(name, gold) for gold in golds):
            found.add(name)
    for name in candidates:
        if any(_are_called_alike(name, other) for other in found):
            found.add(name)
    return tuple(name for name in profiles if name in found)


def _has_name_of_other_role(name: str) -> bool:
    """Return whether any word in the name of a column is a usual one for something else than replies."""
    return any(name_score(role, name) for role in (*OTHER_ROLES, "answer", "label"))


def _are_called_alike(name: str, other: str) -> bool:
    """Whether two names differ in what stands before their last word alone: `base_model` and `finetuned_model`."""
    words = folded_name(name).split("_")
    words_of_other = folded_name(other).split("_")
    return min(len(words), len(words_of_other)) > 1 and words[-1] == words_of_other[-1]


def _reply_of_pair(
    profiles: Mapping[str, ColumnProfile], rows: Sequence[SourceRow]
) -> tuple[str, ...]:
    """Return the column of replies in a table in which no column is named like correct answers either.

    The table has a pair of columns, correct answers and replies, whose cells are compared: the replies have the correct
    answers of their rows far more often than those of other rows, and wrong replies are correct answers of other rows. If
    each column has the texts of the other, the one with more of them has the replies; if both have as many, the second.

    Returns:
        The column; none if several pairs are like that, or if the table has neither questions nor images.
    """
    has_questions = False
    has_images = False
    for name, profile in profiles.items():
        if name_score("question", name) or profile.questions > 0.5:
            has_questions = True
        if name_score("image", name) > PARTLY or profile.pictures > 0.5:
            has_images = True
    if not has_questions and not has_images:
        return ()

    candidates = [name for name, profile in profiles.items() if _may_have_replies(name, profile)]
    compared = _Compared(profiles, rows)
    shares: dict[tuple[str, str], float] = {}
    for gold in candidates:
        for reply in candidates:
            if reply == gold or not compared.are_answers(reply, gold):
                continue
            if compared.are_of_one_set(reply, gold):
                shares[gold, reply] = compared.said(reply, gold).share
    pairs = {frozenset(pair) for pair in shares}
    if len(pairs) != 1:
        return ()
    _, reply = max(shares, key=lambda pair: shares[pair])
    return (reply,)


class _Compared:
    """The cells of columns, in words, compared with each other."""

    def __init__(self, profiles: Mapping[str, ColumnProfile], rows: Sequence[SourceRow]) -> None:
        self._rows = rows
        self._texts: dict[str, list[str]] = {}
        questions = [name for name in profiles if name_score("question", name) > PARTLY]
        self._asked = self._in_words(questions[0]) if questions else [""] * len(rows)

    def _in_words(self, column: str) -> list[str]:
        if column not in self._texts:
            cells = [as_text(row.cells.get(column, "")) for row in self._rows]
            self._texts[column] = list(map(in_whole_words, cells))
        return self._texts[column]

    def said(self, reply: str, gold: str) -> Said:
        """How often a column has what another one says in the same row."""
        words = [[text] for text in self._in_words(gold)]
        return how_often_said(self._in_words(reply), words, self._asked)

    def are_answers(self, reply: str, gold: str) -> bool:
        """Whether a column says what another one says in the same row so often that it answers the same questions."""
        said = self.said(reply, gold)
        return said.is_sure or said.is_of_closed_set

    def are_of_one_set(self, reply: str, gold: str) -> bool:
        """Whether most of the replies that lack their right answers have those of other rows."""
        golds = self._in_words(gold)
        all_golds = {text for text in golds if text.strip()}
        replies = self._in_words(reply)
        wrong = [text for text, right in zip(replies, golds, strict=True) if right not in text]
        looked_at = wrong[:: max(1, len(wrong) // MOST_SEARCHED)]
        n_of_others = sum(any(gold in text for gold in all_golds) for text in looked_at)
        return len(wrong) >= FEWEST_WRONG and 2 * n_of_others > len(looked_at)


FEWEST_WRONG = 2
"""Replies that have to be wrong, for a pair of columns to be told by what these say."""


def _may_have_replies(name: str, profile: ColumnProfile) -> bool:
    """Whether a column may have replies, as far as its name and its cells alone tell."""
    if not profile.is_scalar or are_binary(profile) or is_verdict(name):
        return False
    words = split_name(name)
    is_described = not words.isdisjoint(FACT_WORDS | MADE_WORDS | CONDITION_IS_NONE)
    if is_described or NOT_REPLIES.search(name) or profile.questions > 0.5:
        return False
    if any(name_score(role, name) > PARTLY for role in OTHER_ROLES):
        return False
    n_words = sum(word_count(text) for text in profile.texts)
    return n_words <= MOST_WORDS * len(profile.texts)
