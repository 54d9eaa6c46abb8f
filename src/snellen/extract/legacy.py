"""The extraction rules behind published numbers, faults included. Shares nothing with the standard rules.

Sources: MMBench section 4.2 (step 1); its toolkit by date, after the behaviour on record; ReForm-Eval
section 3.3.1; LVLM-eHub appendix A.3 with the normaliser of VQA. The judge that follows these rules in
MMBench, and its random choice, are not here: what the rules leave unresolved is None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from snellen.extract.reading import Reading

MMBENCH_VERSION = "mmbench-step1"
REFORM_EVAL_VERSION = "reform-eval-first-mark"
EHUB_VERSION = "lvlm-ehub-word-match"


def mmbench_step1(reply: str, options: Sequence[str], marks: Sequence[str]) -> Reading:
    """The first word of the reply that is a mark as "C", "C.", "(C)", "C,", or "(C).".

    A lone A inside a sentence is passed over, for it may be an article (MMBench 4.2, footnote 1).
    """
    words = reply.split()
    for word in words:
        for place, mark in enumerate(marks[: len(options)]):
            if word == "A" and len(words) > 1:
                continue
            if word in (mark, f"{mark}.", f"({mark})", f"{mark},", f"({mark})."):
                return _found(place)
    return _none("no-match" if words else "empty")


ToolkitDate = Literal["2024-01", "2025-08", "2026-06"]
_TOOLKIT_REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_TOOLKIT_PUNCTUATION = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_TOOLKIT_LAST_RESORT = re.compile(r"answer is\s*\**\s*([A-D])", re.IGNORECASE)


def toolkit(reply: str, options: Sequence[str], marks: Sequence[str], date: ToolkitDate = "2024-01") -> Reading:
    """MMBench's toolkit as of a date: a single whole-token letter, else a single option text as a substring.

    The guard "A is an article" is off, as it was unless verbose logging was on.
    """
    if any(refusal in reply for refusal in _TOOLKIT_REFUSALS):
        return _none("refusal")
    words = reply.translate(_TOOLKIT_PUNCTUATION).split()
    letters = [place for place, mark in enumerate(marks[: len(options)]) if mark in words]
    if len(letters) == 1:
        late = words.index(marks[letters[0]]) >= len(words) - 4
        if late or date == "2024-01":
            return _found(letters[0])
    elif not letters and "Z" in words:
        return _none("no-match")
    if date == "2026-06" and not letters:
        last_resort = _TOOLKIT_LAST_RESORT.search(reply)
        if last_resort and last_resort[1].upper() in marks[: len(options)]:
            return _found(list(marks).index(last_resort[1].upper()))
    if date != "2024-01" and len(reply) > 2 * sum(map(len, options)):
        return _none("no-match")
    lower = reply.lower()
    texts = [place for place, option in enumerate(options) if option.lower() in lower]
    if len(texts) == 1:
        return Reading(texts[0], "text", "likely")
    return _none("ambiguous" if texts or letters else "no-match" if words else "empty")


_FIRST_MARK = re.compile(r"\(([1-9A-Za-z])\)")


def reform_eval_first_mark(reply: str, options: Sequence[str], marks: Sequence[str]) -> Reading:
    """The first single character in parentheses, read in its own alphabet: (A), (a) and (1) are the first option.

    The marks and texts shown are not consulted; a mark beyond the options is a hit of the format, and wrong.
    """
    found = _FIRST_MARK.search(reply)
    if found is None:
        return _none("no-match" if reply.strip() else "empty")
    character = found[1]
    place = int(character) - 1 if character.isdigit() else ord(character.upper()) - ord("A")
    if place >= len(options):
        return Reading(None, "no-match", "none", "a mark beyond the options", found.span(1), hit=True)
    return Reading(place, "mark", "certain", "", found.span(1), hit=True)


def ehub_word_match(reply: str, options: Sequence[str], marks: Sequence[str]) -> Reading:
    """The first option in the order shown that occurs in the reply as word(s), after VQA's normaliser.

    This is the rule of the paper's ranking of options. Its accuracies ask only whether the gold occurs
    (`ehub_right`), so that a reply which names two options is right for both. Marks are not consulted.
    """
    del marks
    for place, option in enumerate(options):
        if ehub_right(reply, option):
            return Reading(place, "text", "likely")
    return _none("no-match" if reply.strip() else "empty")


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


def _found(place: int) -> Reading:
    return Reading(place, "mark", "certain", hit=True)


def _none(way: Literal["empty", "refusal", "ambiguous", "no-match"]) -> Reading:
    return Reading(None, way, "none")
