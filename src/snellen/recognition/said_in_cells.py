"""Recognise columns of replies and of right answers by how often the cells of one contain those of another."""

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
"""A word, or a single character in scripts such as Chinese (no spaces between words) and Korean
(endings are attached)."""
MOSTLY = 0.9
SURELY = 0.3
"""At least this share of the replies has to contain the right answers of their rows, if only cells
show what a column is."""


def in_whole_words(text: str) -> str:
    """Return the words of a text with a space before, between and after them, in small letters.

    In this form, whether one text contains another as whole words is a plain test for a substring.

    Examples:
        >>> in_whole_words("two dogs") in in_whole_words("I see two dogs."), in_whole_words("dog") in in_whole_words("dogs")
        (True, False)
        >>> in_whole_words("고양이") in in_whole_words("고양이입니다"), in_whole_words("3") in in_whole_words("정답은 3번")
        (True, True)
    """
    return f" {' '.join(_WORD.findall(text.casefold()))} "


class Said(Struct, frozen=True):
    """How often texts, such as replies, contain words, such as right answers. Each field is a share of all texts."""

    share: float
    """The share of texts that contain the words of their own row."""
    share_elsewhere: float
    """The share of texts that contain the words of another row, drawn at random."""
    share_in_words: float
    """The share of texts that are equal to the words of any row."""
    share_having: float
    """The share of texts that contain the words of any row. If there are many texts, only some are searched."""

    @property
    def is_sure(self) -> bool:
        """Whether the texts are almost certainly answers to the questions that the words answer.

        They contain the words of their own rows often, and those of other rows rarely. If every
        text contains its words, the texts were probably made from them, so the value is False. If
        there are only a few different words (classes), a text may contain those of another row by
        chance, so a smaller difference is enough.
        """
        are_classes = self.share_in_words >= MOSTLY and self._is_often
        is_rare_elsewhere = self.share >= SURELY and 5 * self.share_elsewhere <= self.share
        return self.share < 1 - SURELY / 10 and (are_classes or is_rare_elsewhere)

    @property
    def is_of_closed_set(self) -> bool:
        """Whether nearly all texts contain the words of some row, and those of their own row much more often.

        This is so for replies that name one of a few classes.
        """
        return self.share < 1 - SURELY / 10 and self.share_having >= MOSTLY and self._is_often

    @property
    def _is_often(self) -> bool:
        return self.share - self.share_elsewhere >= SURELY


def how_often_said(
    texts: Sequence[str], words: Sequence[Sequence[str]], asked: Sequence[str]
) -> Said:
    """Return how often texts contain the words of their own rows, and those of other rows for comparison.

    Args:
        texts: A text for each row, as `in_whole_words` returns it.
        words: For each row, alternatives of which the text has to contain one, as `in_whole_words`
            returns them.
        asked: The question of each row. Words that occur in it do not count, because a reply may
            repeat the question.
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
"""At most about this many texts are searched for the words of any row."""


MOST_WORDS = 12
"""The most words of replies, on average. Longer texts that contain right answers may be
explanations that people wrote."""
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

    The cells are compared with those of the column of right answers, so names may be in any
    language. A column holds replies if one of these is true:

    - it is named after a model;
    - its cells are mostly right answers of some row, or texts of the columns that are named after
      models;
    - its cells contain the right answer of their row far more often than those of other rows;
    - its name has the same last word as one of these columns, as in `base_model` and
      `finetuned_model`.

    Args:
        profiles: All columns of the table.
        rows: Its rows.

    Returns:
        The columns in the order of the table; empty if there are no such columns.
    """
    golds = [name for name in profiles if name_score("answer", name) > PARTLY or rest_of_gold(name)]
    if not golds:
        return _reply_of_pair(profiles, rows)
    named = [name for name in profiles if is_called_after_model(name, profiles[name])]
    compared = _Compared(profiles, rows)
    options, _ = option_columns(profiles, golds)
    # In a row, one option is right. If several of these columns are, they are replies of several models.
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
    """Return whether a word in the name of a column is usual for something else than replies, such as `image`."""
    return any(name_score(role, name) for role in (*OTHER_ROLES, "answer", "label"))


def _are_called_alike(name: str, other: str) -> bool:
    """Return whether two names have the same last word after other words: `base_model` and `finetuned_model`."""
    words = folded_name(name).split("_")
    words_of_other = folded_name(other).split("_")
    return min(len(words), len(words_of_other)) > 1 and words[-1] == words_of_other[-1]


def _reply_of_pair(
    profiles: Mapping[str, ColumnProfile], rows: Sequence[SourceRow]
) -> tuple[str, ...]:
    """Return the column of replies in a table in which no column is named like replies or like right answers.

    The cells of every two columns are compared. Two columns are right answers and replies if the
    replies contain the right answers of their own rows far more often than those of other rows, and
    if wrong replies contain right answers of other rows. If this is true both ways round, the
    replies are the column that more often contains the other; if both do so equally often, the
    second of the two.

    Returns:
        The name of the column alone. Empty unless exactly one pair is found, or if the table has
        neither questions nor images.
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
    """The cells of a table's columns as words, for comparing one column with another."""

    def __init__(self, profiles: Mapping[str, ColumnProfile], rows: Sequence[SourceRow]) -> None:
        self._rows = rows
        self._texts: dict[str, list[str]] = {}
        questions = [name for name in profiles if name_score("question", name) > PARTLY]
        self._asked = self._in_words(questions[0]) if questions else [""] * len(rows)

    def _in_words(self, column: str) -> list[str]:
        """Return the cells of a column as `in_whole_words` returns them, one text for each row."""
        if column not in self._texts:
            cells = [as_text(row.cells.get(column, "")) for row in self._rows]
            self._texts[column] = list(map(in_whole_words, cells))
        return self._texts[column]

    def said(self, reply: str, gold: str) -> Said:
        """Return how often a column of possible replies contains what another column says in the same row."""
        words = [[text] for text in self._in_words(gold)]
        return how_often_said(self._in_words(reply), words, self._asked)

    def are_answers(self, reply: str, gold: str) -> bool:
        """Return whether one column answers the questions to which another has the right answers.

        It has to contain what the other says in the same row often enough, and much more often than
        what it says in other rows.
        """
        said = self.said(reply, gold)
        return said.is_sure or said.is_of_closed_set

    def are_of_one_set(self, reply: str, gold: str) -> bool:
        """Return whether most replies that do not contain their own right answer contain that of another row."""
        golds = self._in_words(gold)
        all_golds = {text for text in golds if text.strip()}
        replies = self._in_words(reply)
        wrong = [text for text, right in zip(replies, golds, strict=True) if right not in text]
        looked_at = wrong[:: max(1, len(wrong) // MOST_SEARCHED)]
        n_of_others = sum(any(gold in text for gold in all_golds) for text in looked_at)
        return len(wrong) >= FEWEST_WRONG and 2 * n_of_others > len(looked_at)


FEWEST_WRONG = 2
"""The fewest wrong replies from which a pair of columns can be recognised by its cells."""


def _may_have_replies(name: str, profile: ColumnProfile) -> bool:
    """Return whether a column may have replies, judged only by its own name and cells."""
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
