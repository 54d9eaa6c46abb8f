"""Whether a token is an option's label, or a letter or number of something else."""

from __future__ import annotations

import re

from snellen.common.late import late_pattern
from snellen.extraction import languages, phrases
from snellen.extraction.option_index import OptionIndex, Token
from snellen.extraction.option_texts import text_at
from snellen.extraction.phrases import BARE, STRONG
from snellen.extraction.word_boundaries import runs_on

OPENING = "([{<【〔〈《"
CLOSING = ")]}>】〕〉》"
GLUED = late_pattern(r"(?:option|choice|answer)([A-Z])", re.IGNORECASE)
# Signs that make a letter beside them part of something else: C++, 20 °C, x_a, @b.
_BINDS = ("+", "#", "@", "°", "^", "_", "%", "=")


_OPENS = frozenset('$\\{"')
_ANNOUNCES = frozenset(
    word.rpartition("_")[2] for word in languages.union(languages.ANSWER, languages.OPTION) if not word.isascii()
)
"""Nouns of other languages than English behind which A is no article: "đáp án A nhé"."""
_TURKISH = late_pattern(r"'(?:d[ıiuü]r|t[ıiuü]r|n[ıiuü]n|y[ıiuüea]|d[ae]n?(?![a-z])|[ıiuüea](?![a-z]))")
_LOOKALIKES = str.maketrans("АВСЕНΑΒΕΗавсе", "ABCEHABEHabce")


class LabelContext:
    """A token that may be a label, with what stands around it."""

    def __init__(self, text: str, found: list[Token], at: int, question: OptionIndex) -> None:
        self.text, self.found, self.at, self.question = text, found, at, question
        self.token = found[at]
        shown = text[self.token.start : self.token.end]
        place = self._label(shown) if self.token.kind in ("word", "number", "cjk") else None
        glued = GLUED.fullmatch(shown) if place is None else None
        self.shown = glued[1] if glued else shown
        """As it stands in the text."""
        self.place = question.exact.get(glued[1]) if glued else place
        """The place that it would be the label of, or None."""
        self.start = self.token.end - len(self.shown)
        self.kind = None if self.place is None else STRONG if glued else self._kind()
        """STRONG or BARE, or None where the token is part of something else."""
        self.soft = self.kind == BARE and (self.shown.islower() or self.token.kind != "word")
        """A bare digit or small letter."""

    def _label(self, shown: str) -> int | None:
        """The place of a mark; of a Cyrillic or Greek letter that looks like one, where nothing else was said."""
        place = self.question.label(shown)
        if place is None and len(shown) == 1 and not shown.isascii() and self.alone():
            return self.question.label(shown.translate(_LOOKALIKES))
        return place

    @property
    def before(self) -> Token | None:
        return self.found[self.at - 1] if self.at else None

    @property
    def previous(self) -> str:
        """The word before it; of "Mr. B" it is mr."""
        if self.before is None:
            return ""
        abbreviated = self.before.text == "." and self.at > 1 and self.found[self.at - 2].text in phrases.ABBREVIATIONS
        return self.found[self.at - 2].text if abbreviated else self.before.text

    def alone(self) -> bool:
        """Nothing but this token and punctuation was said."""
        return len(self.found) < 8 and all(t is self.token or t.kind in ("sign", "newline") for t in self.found)

    def names_another_thing(self) -> bool:
        """Whether a noun before it, of options that are letters or numbers themselves, says what it is: "type A"."""
        introduced = phrases.BEFORE_BARE | phrases.LABEL_NOUNS | phrases.ANSWER_NOUNS | phrases.OPENERS
        before = self.previous
        return self.question.labelled_like and len(before) > 2 and before.isalpha() and before not in introduced

    def _concludes(self) -> bool:
        """ "Hence, A." """
        said = [token for token in self.found[max(0, self.at - 3) : self.at] if token.text not in (",", ":")]
        ends = self.at + 1 >= len(self.found) or self.found[self.at + 1].text in (".", "!", "\n")
        return ends and bool(said) and said[-1].text in ("so", "hence", "thus", "therefore", "answer")

    def spelt_in_texts(self) -> bool:
        """Whether a letter stands in the options' own texts ("vitamin D") and nothing says that it is a mark."""
        if self.token.text not in self.question.letters_in_texts or self.alone() or self._concludes():
            return False
        return not any(token.text in phrases.ANSWER_NOUNS for token in self.found[max(0, self.at - 4) : self.at])

    def _kind(self) -> str | None:
        left, right = self._beside(-1), self._beside(1)
        if not self._bounded_left() or not self._bounded_right():
            return None
        last = self.at + 1 == len(self.found)
        bracketed = left != "" and left in OPENING and (last or (right != "" and right in CLOSING))
        quoted = left == right and left in ("'", '"')
        if bracketed or quoted or self._delimited(right):
            return STRONG
        word = self._is_word()
        if self.previous in phrases.LABEL_NOUNS and (self.shown == "A" or not word):
            return STRONG
        return None if word else BARE

    def _beside(self, step: int) -> str:
        """The nearest character but blanks, within three; empty at the text's ends."""
        at = self.token.start - 1 if step < 0 else self.token.end
        for _ in range(4):
            if not 0 <= at < len(self.text):
                return ""
            if self.text[at] != " ":
                return self.text[at]
            at += step
        return ""

    def _touching(self, at: int) -> str:
        return self.text[at] if 0 <= at < len(self.text) else ""

    def _bounded_left(self) -> bool:
        near, far = self._touching(self.token.start - 1), self._touching(self.token.start - 2)
        if runs_on(near) or near in _BINDS[:-1]:
            return False
        if not runs_on(far):
            return True
        if near in ("-", "/", "&"):
            noun = near == "-" and self.found[self.at - 2].text in phrases.LABEL_NOUNS | {"answer", "ans"}
            return noun or self._is_label(self.at - 2)
        if near == ".":
            return len(self.found[self.at - 2].text) > 1  # not the D of U.S.D.
        return not (near == "'" or (near != "" and near in OPENING))

    def _bounded_right(self) -> bool:
        near, far = self._touching(self.token.end), self._touching(self.token.end + 1)
        if runs_on(near) or near in _BINDS:
            return False
        if not runs_on(far) or near not in ("'", "-", "/", "&", "."):
            return True
        if near == "'":
            return _TURKISH.match(self.text, self.token.end) is not None
        if self.at + 2 >= len(self.found):
            return False
        if self._is_label(self.at + 2) and near != ".":
            return True
        own = text_at(self.text, self.found, self.at + 2, self.question)
        if near != "/" and own is not None and self.place in own.phrase.places:
            return True
        return near == "." and len(self.found[self.at + 2].text) > 1

    def _is_label(self, at: int) -> bool:
        if not 0 <= at < len(self.found):
            return False
        other = self.found[at]
        return self.question.label(self.text[other.start : other.end]) is not None

    def _delimited(self, right: str) -> bool:
        """ "B)", and "B." or "B:" with more behind it, where a sentence begins."""
        before = self.before
        begins = before is None or before.kind == "newline" or self.previous in (".", "!", "?", ":", ";", ",", "-")
        if not begins or not right:
            return False
        if before is None and right == "(" and self.shown not in ("A", "I", "a", "i"):
            return True
        return right in ")]" or (right in ".:" and self.at + 2 < len(self.found))

    def _is_word(self) -> bool:
        """The article a, the pronoun I."""
        behind = (token for token in self.found[self.at + 1 : self.at + 4] if token.text not in _OPENS)
        after = next(behind, None)
        if self.shown not in ("a", "A", "i", "I") or after is None:
            return False
        if after.kind == "number":
            return self.shown == "a"  # "il y a 4 chats"
        if after.kind != "word" or (self.shown == "A" and self.previous in _ANNOUNCES):
            return False
        if self._is_label(self.at + 1) and self.text[after.start].isupper():
            return self.shown.islower() and self.shown not in self.question.exact  # "é a C", where A is a mark
        return after.text not in (phrases.AFTER_A if self.shown in "aA" else phrases.AFTER_I)
