"""LVLM-eHub's rule for reading a reply, faults included (appendix A.3, with the normaliser of VQA)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.extraction.reading import ExtractedChoice, NamedExtractor, no_choice, published_rule


def ehub_word_match(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """The first option in the order shown that occurs in the reply as word(s), after VQA's normaliser.

    This is the rule of the paper's ranking of options. Its accuracies ask only whether the gold is among those
    mentioned (`legacy_option_match`), so that a reply which names two options is right for both. Labels are not
    consulted.
    """
    del labels
    mentioned = tuple(place for place, option in enumerate(options) if ehub_right(reply, option))
    if mentioned:
        return ExtractedChoice(mentioned[0], "text", "likely", mentioned=mentioned)
    return no_choice("no match" if reply.strip() else "empty")


def ehub_right(reply: str, gold: str) -> bool:
    """Whether the normalised gold occurs between word boundaries in the normalised reply."""
    return re.search(rf"\b{re.escape(_normalised(gold))}\b", _normalised(reply)) is not None


_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!:'
_DIGIT_COMMA_DIGIT = re.compile(r"\d,\d")
_FULL_STOP = re.compile(r"\.(?!\d)")
_MOST_FULL_STOPS = 32
"""A flag was passed where a count belongs."""
_NUMBERS = {word: str(i) for i, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_NUMBERS["none"] = "0"
_CONTRACTIONS = {
    word.replace("'", ""): word
    for word in (
        "ain't aren't can't could've couldn't didn't doesn't don't hadn't hasn't haven't he'd he's how'd how'll how's "
        "i'm i've isn't it'd it'll let's ma'am mightn't might've mustn't must've needn't not've o'clock oughtn't "
        "shan't she'd've she's should've shouldn't somebody'd somebody'll somebody's someone'd someone'll someone's "
        "something'd something'll that's there'd there're there's they'd they'll they're they've 'twas wasn't we'd've "
        "we've weren't what'll what're what's what've when's where'd where's where've who'd who'll who's who've why'll "
        "why're why's won't would've wouldn't y'all you'd you'll you're you've"
    ).split()
}


def _normalised(text: str) -> str:
    text = text.replace("\n", " ").replace("\t", " ").strip()
    plain = text
    deletes_all = _DIGIT_COMMA_DIGIT.search(text) is not None
    for sign in _PUNCTUATION:
        touches_blank = f"{sign} " in text or f" {sign}" in text
        plain = plain.replace(sign, "" if deletes_all or touches_blank else " ")
    plain = _FULL_STOP.sub("", plain, count=_MOST_FULL_STOPS)
    words = [_NUMBERS.get(word, word) for word in plain.lower().split()]
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in ("a", "an", "the"))


WORD_MATCH = NamedExtractor("lvlm-ehub-word-match", published_rule(ehub_word_match), "lvlm-ehub")
