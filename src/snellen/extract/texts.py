"""Where a text names an option by the option's own words."""

from __future__ import annotations

from typing import NamedTuple

from snellen.extract import phrases
from snellen.extract.question import Phrase, Question, Token, means
from snellen.extract.shapes import free_left, free_right


class Found(NamedTuple):
    phrase: Phrase
    after: int
    """Index of the token behind it."""
    doubtful: bool = False
    """It may be part of a longer name: "dog" in "dog house"."""


def text_at(text: str, found: list[Token], at: int, question: Question) -> Found | None:
    """The longest option text that begins at this token and stands as words of its own."""
    for phrase in question.phrases.get(found[at].text, ()):
        after = _match(found, at, phrase.words)
        if not after or not _touches_nothing(text, found, at, after, question):
            continue
        before = found[at - 1] if at else None
        follower = found[after] if after < len(found) else None
        if follower is not None and follower.text in phrases.ANSWER_NOUNS:
            continue  # "the right answer" is not the option "right"
        if len(phrase.words) == 1 and phrase.words[0] in phrases.FUNCTION_WORDS:
            if _closed_off(before, follower):
                return Found(phrase, after)
            continue
        return Found(phrase, after, _doubtful(phrase, found[at].kind, before, follower, question))
    return None


def _match(found: list[Token], at: int, words: tuple[str, ...]) -> int:
    """Index after the last word, or 0. Punctuation between the words is passed over, a new line is not."""
    for number, word in enumerate(words):
        skipped = 0
        while number and at < len(found) and found[at].kind == "sign" and not means(found[at]) and skipped < 3:
            at += 1
            skipped += 1
        if at >= len(found) or found[at].text != word:
            return 0
        at += 1
    return at


def _touches_nothing(text: str, found: list[Token], at: int, after: int, question: Question) -> bool:
    first, last = found[at], found[after - 1]
    right = last.kind in ("cjk", "sign") or free_right(text, last.end)
    left = first.kind in ("cjk", "sign") or free_left(text, first.start)
    return right and (left or _hyphened(text, found, at, question))


def _hyphened(text: str, found: list[Token], at: int, question: Question) -> bool:
    """ "B-dog": a hyphen between a mark and a text."""
    if at < 2 or found[at - 1].text != "-":
        return False
    mark = found[at - 2]
    return question.mark(text[mark.start : mark.end]) is not None and free_left(text, mark.start)


def _closed_off(before: Token | None, follower: Token | None) -> bool:
    begins = (
        before is None
        or before.kind in ("sign", "newline")
        or before.text in phrases.OPENERS
        or (before.kind == "number" or len(before.text) == 1)
    )
    ends = (
        follower is None
        or follower.kind in ("sign", "newline")
        or follower.text in ("because", "since", "as", "or", "and")
    )
    return begins and ends


def _doubtful(phrase: Phrase, kind: str, before: Token | None, follower: Token | None, question: Question) -> bool:
    if kind == "cjk":
        return not _cjk_alone(before, follower)
    if len(phrase.words) > 1:
        return False
    word = phrase.words[0]
    if before is not None and before.kind == "word":
        if _misleads(before.text, word):
            return True
        if word in question.endings and before.text not in phrases.FOLLOWERS and len(before.text) > 1:
            return True  # "upper left", where "top left" is an option too
    if kind == "number" or follower is None or follower.kind != "word" or len(follower.text) == 1:
        return False
    if follower.text in phrases.FOLLOWERS or follower.text.endswith(phrases.FREE_FOLLOWER_ENDINGS):
        return False
    if word in question.beginnings:
        return True
    adjective = word in phrases.ADJECTIVES or word.endswith(phrases.ADJECTIVE_ENDINGS)
    return not adjective and word not in phrases.NUMBER_WORDS


def _misleads(before: str, word: str) -> bool:
    single = word.removesuffix("s")
    pairs = {(before, word), (before, single)}
    return before in phrases.FALSE_MODIFIERS or not pairs.isdisjoint(phrases.FALSE_HEADS)


def _cjk_alone(before: Token | None, follower: Token | None) -> bool:
    left = before is None or before.kind != "cjk" or before.text in phrases.CJK_BEFORE
    return left and (follower is None or follower.kind != "cjk" or follower.text in phrases.CJK_AFTER)
