"""Find out whether a reply denies an option that it mentions: "not B", "B is wrong", in 17 languages."""

from __future__ import annotations

from functools import cache

from snellen.extraction.cue_words import dense_words, has_cue
from snellen.extraction.mentions import MarkedReply, Mention
from snellen.extraction.tokens import Token

DENYING_CLASSES = ("negation", "wrong")
"""Classes of words that deny what is next to them."""
_REACH_TOKENS = 6
"""Tokens before and behind a mention in which a denial of it is looked for."""
_AFTER_IDIOM = frozenset(["doubt", "only", "question", "necessarily", "sure", "just", "wonder"])
"""Words behind a negation that make it an idiom: "not only B", "no wonder"."""
_NEUTRAL = frozenset("no none without never nothing neither nor".split())
"""Negations that deny a mention before them only after a copula: "B is none", but not "B, no doubt"."""
_DENSE_DENIALS = (
    "不是 没有 不对 并非 並非 不像 不可能是 不会是 ではな じゃな はいな ではあり じゃあり ではござ 아니 아닙 아닌 아닐 않"
).split()


def is_denied(marked: MarkedReply, mention: Mention) -> bool:
    """Return whether words just before or behind a mention, in its sentence, deny it: "not B", "B is wrong"."""
    start, end = marked.sentences[marked.sentence_of(mention.first)]
    return (
        _is_denied_before(marked.tokens, mention, start)
        or _is_denied_behind(marked.tokens, mention, end)
        or _is_denied_densely(marked.tokens, mention, start, end)
    )


def _is_denied_before(tokens: list[Token], mention: Mention, start: int) -> bool:
    """Return whether a denial precedes a mention: "not B".

    Args:
        tokens: Tokens of the reply.
        mention: The mention.
        start: Index of the first token of its sentence.
    """
    first_index = max(start, mention.first - _REACH_TOKENS)
    for index in range(mention.first - 1, first_index - 1, -1):
        word = tokens[index].normalised
        if word == "," or has_cue(word, "contrast", "conclusion"):
            return False
        if not has_cue(word, *DENYING_CLASSES):
            continue
        is_idiom = tokens[index + 1].normalised in _AFTER_IDIOM
        if word == "doubt" and index > start:
            preceding = tokens[index - 1].normalised
            is_idiom = has_cue(preceding, "negation")  # "no doubt", "without doubt"
        if not is_idiom:
            return True
    return False


def _is_denied_behind(tokens: list[Token], mention: Mention, end: int) -> bool:
    """Return whether a denial follows a mention: "B is wrong". `end` is the index behind its sentence."""
    follows_copula = False
    for index in range(mention.last + 1, min(end, mention.last + _REACH_TOKENS)):
        word = tokens[index].normalised
        if word == "," or has_cue(word, "contrast"):
            return False
        if has_cue(word, *DENYING_CLASSES) and (follows_copula or word not in _NEUTRAL):
            return True
        if has_cue(word, "copula"):
            follows_copula = True
    return False


def _is_denied_densely(tokens: list[Token], mention: Mention, start: int, end: int) -> bool:
    """Return whether a Chinese, Japanese or Korean word next to a mention of an option denies it.

    These scripts have no blanks between words, so each character is a token. Only five tokens before the mention and six
    characters behind it count.

    Args:
        tokens: Tokens of the reply.
        mention: The mention.
        start: Index of the first token of its sentence.
        end: Index behind the last token of its sentence.
    """
    tokens_before = tokens[max(start, mention.first - 5) : mention.first]
    tokens_behind = tokens[mention.last + 1 : min(end, mention.last + 9)]
    text_before = "".join(token.raw for token in tokens_before)
    text_behind = "".join(token.raw for token in tokens_behind)[:6]
    is_denied_before = any(text_before.endswith(denial) for denial in _dense_denials())
    is_denied_behind = any(denial in text_behind for denial in _dense_denials())
    return is_denied_before or is_denied_behind


@cache
def _dense_denials() -> tuple[str, ...]:
    """Return the denials of at least two Chinese, Japanese or Korean characters."""
    negations = [word for word in dense_words("negation") if len(word) > 1]
    return (*negations, *_DENSE_DENIALS)
