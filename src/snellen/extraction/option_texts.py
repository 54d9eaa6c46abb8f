"""Where a text names an option by the option's own words."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from snellen.extraction import languages, phrases
from snellen.extraction.inflections import english_stem
from snellen.extraction.option_index import (
    OptionIndex,
    OptionPhrase,
    Token,
    digits,
    free_left,
    free_right,
    means,
)


class TextMatch(NamedTuple):
    phrase: OptionPhrase
    after: int
    """Index of the token behind it."""
    doubtful: bool = False
    """It may be part of a longer name: "dog" in "dog house"."""


def text_at(
    text: str,
    stream: list[Token],
    at: int,
    question: OptionIndex,
    *,
    foreign: bool = False,
    topic: frozenset[str] = frozenset(),
) -> TextMatch | None:
    """The longest option text that begins at this token and stands as words of its own.

    `topic` are stems of what is asked about, which make no longer name: "cirrus cloud" where clouds are asked about.
    """
    for phrase in question.phrases.get(stream[at].text, ()):
        after = _match(stream, at, phrase.words)
        if not after or not _touches_nothing(text, stream, at, after):
            continue
        before = stream[at - 1] if at else None
        follower = stream[after] if after < len(stream) else None
        if follower is not None and follower.text in phrases.ANSWER_NOUNS:
            continue  # "the right answer" is not the option "right"
        if len(phrase.words) == 1 and phrase.words[0] in phrases.FUNCTION_WORDS:
            if _closed_off(before, follower) or _answers(phrase.words[0], before, follower):
                return TextMatch(phrase, after)
            continue
        match = TextMatch(phrase, after)
        if any(token.inflected for token in stream[at:after]):
            match = match._replace(phrase=replace(phrase, alias=True))
        return match._replace(
            doubtful=_doubtful(text, stream, at, match, question, foreign=foreign, topic=topic)
            or _reckoned(stream, at, after)
        )
    return None


def _match(stream: list[Token], at: int, words: tuple[str, ...]) -> int:
    """Index after the last word, or 0. Punctuation between is passed over, a new line is not."""
    for number, word in enumerate(words):
        skipped = 0
        while number and at < len(stream) and skipped < 3 and _passes(stream[at]):
            at += 1
            skipped += 1
        if at >= len(stream) or stream[at].text != word:
            return 0
        at += 1
    return at


def _passes(token: Token) -> bool:
    return token.kind == "sign" and not means(token)


def _touches_nothing(text: str, stream: list[Token], at: int, after: int) -> bool:
    first, last = stream[at], stream[after - 1]
    free_behind = last.kind in ("cjk", "sign") or free_right(text, last.end)
    free_before = first.kind in ("cjk", "sign") or free_left(text, first.start)
    return free_behind and free_before


_NEITHER = frozenset("isn't aren't wasn't weren't not".split())


def _closed_off(before: Token | None, follower: Token | None) -> bool:
    begins = (
        before is None
        or before.kind in ("sign", "newline")
        or before.text in phrases.OPENERS
        or before.text in _NEITHER
        or (before.kind == "number" or len(before.text) == 1)
    )
    ends = (
        follower is None
        or follower.kind in ("sign", "newline")
        or follower.text in ("because", "since", "as", "or", "and", "either")
    )
    return begins and ends


def _answers(word: str, before: Token | None, follower: Token | None) -> bool:
    """ "Yes it is", without the comma."""
    begins = before is None or before.kind in ("sign", "newline")
    return (
        word in ("yes", "no")
        and begins
        and follower is not None
        and follower.text in phrases.SUBJECTS
    )


def _doubtful(
    text: str,
    stream: list[Token],
    at: int,
    match: TextMatch,
    question: OptionIndex,
    *,
    foreign: bool,
    topic: frozenset[str],
) -> bool:
    """Whether the words around a one-word text may make another thing of it."""
    before = stream[at - 1] if at else None
    follower = stream[match.after] if match.after < len(stream) else None
    if stream[at].kind == "cjk":
        return not _cjk_alone(stream, at, match)
    if len(match.phrase.words) > 1:
        return False
    word = match.phrase.words[0]
    after_word = before is not None and before.kind == "word"
    if before is not None and after_word and _misleads(before.text, word, question):
        return True
    if word == "right" and follower is not None and follower.text in phrases.AFTER_RIGHT:
        return before is None or before.text != "the"  # "right behind it"
    if foreign:
        return False  # what an adjective or a verb looks like is known of English alone
    if (
        stream[at].kind == "number"
        or follower is None
        or follower.kind != "word"
        or len(follower.text) == 1
    ):
        return False
    if english_stem(follower.text) in topic or follower.text in phrases.KIND_NOUNS:
        return False
    if follower.text in phrases.FOLLOWERS or follower.text.endswith(phrases.FREE_FOLLOWER_ENDINGS):
        return False
    if word in question.beginnings:
        return True
    named_thing = (
        after_word and text[stream[at].start].isupper() and text[follower.start].islower()
    )  # "a BMW car"
    adjective = question.adjectival and (
        word in phrases.ADJECTIVES or word.endswith(phrases.ADJECTIVE_ENDINGS)
    )
    return not named_thing and not adjective and word not in phrases.NUMBER_WORDS


def _reckoned(stream: list[Token], at: int, after: int) -> bool:
    """Whether it is a number that stands in a sum: the 2 of "2 x 2", of "two plus two"."""
    return _is_number(stream, at) and (
        (_operates(stream, after) and _is_number(stream, after + 1))
        or (_operates(stream, at - 1) and _is_number(stream, at - 2))
    )


def _operates(stream: list[Token], at: int) -> bool:
    return 0 <= at < len(stream) and stream[at].text in phrases.OPERATORS


def _is_number(stream: list[Token], at: int) -> bool:
    return 0 <= at < len(stream) and (
        stream[at].kind == "number" or stream[at].text in phrases.NUMBER_WORDS
    )


def _misleads(before: str, word: str, question: OptionIndex) -> bool:
    """ "hot dog"; "upper left" where "top left" is an option too; "you are right"."""
    pairs = {(before, word), (before, word.removesuffix("s"))}
    if before in ("negative", "minus") and word in phrases.NUMBER_WORDS:
        return True
    if before in phrases.FALSE_MODIFIERS or not pairs.isdisjoint(phrases.FALSE_HEADS):
        return True
    if word in ("right", "correct") and before in phrases.AGREES:
        return True
    return word in question.endings and before not in phrases.FOLLOWERS and len(before) > 1


def _cjk_alone(stream: list[Token], at: int, match: TextMatch) -> bool:
    """Whether no character beside it makes a longer word of it: a particle or a verb does not."""
    before = stream[at - 1] if at else None
    follower = stream[match.after] if match.after < len(stream) else None
    ideograph = "\u3400" <= stream[at].text <= "\u9fff"
    before_allows = (
        before is None
        or before.kind != "cjk"
        or before.text in phrases.CJK_BEFORE
        or (
            ideograph
            and "\u3041" <= before.text <= "\u309f"
            and before.text not in phrases.CJK_PREFIXES
        )
    )
    counted = stream[match.after - 1].text in languages.MEASURES and digits(stream[at].text) != ""
    behind_allows = (
        follower is None or follower.kind != "cjk" or follower.text in phrases.CJK_AFTER or counted
    )
    return before_allows and behind_allows
