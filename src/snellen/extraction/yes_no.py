"""Replies to yes-no questions that say yes or no in other words, or do not come to a verdict."""

from __future__ import annotations

import re
from typing import Literal

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import words_of

YesNo = Literal["yes", "no"]
YES_NO: tuple[YesNo, YesNo] = ("yes", "no")


_SURELY = (
    r"(?:sure|surely|certainly|definitely|absolutely|indeed|clearly|of course|naturally"
    r"|i(?:['’]m| am) (?:sure|certain)|i (?:think|believe|guess|suppose)|it (?:seems|appears))"
)
_SHORT_YES = late_pattern(
    rf"(?:{_SURELY}(?: so)?"
    rf"|(?:(?:{_SURELY}|right|correct|true),? (?:that )?)?(?:it|there|this|that|he|she|they|these|those|we|one)"
    r" (?:(?:certainly|definitely|surely|indeed|clearly|really) )?"
    r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would)(?: (?:indeed|so|one|some))?)"
)
_SHORT_NO = late_pattern(
    r"(?:(?:of course|certainly|definitely|absolutely|probably|i think|i believe) not|not (?:really|at all)|i doubt it"
    r"|i do(?:n['’]t| not) (?:think|believe) so"
    rf"|(?:{_SURELY},? (?:that )?)?(?:it|there|this|that|he|she|they|these|those|we|one)"
    r" (?:(?:certainly|definitely|surely|really) )?"
    r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would)(?:n['’]t| not))"
)


def short_yes_or_no(reply: str) -> YesNo | None:
    """Return what a short answer without yes or no says, such as "It is" or "I don't think so"; None for any other.

    The whole reply has to be such a phrase: "It is a dog" names a thing and is not one of them.

    Examples:
        >>> short_yes_or_no("Sure, there is."), short_yes_or_no("It isn't."), short_yes_or_no("It is a dog.")
        ('yes', 'no', None)
    """
    phrase = " ".join(reply.strip().casefold().rstrip(".!").split())
    if _SHORT_NO.fullmatch(phrase):
        return "no"
    return "yes" if _SHORT_YES.fullmatch(phrase) else None


_SAYS_EITHER = late_pattern(r"\b(?:yes|yeah|yep|no|nope|not|none|never|cannot)\b|n['’]t\b")
_FIRST_WORD = late_pattern(r"([^\s,.:;!?，。、！]+)(?:[,.:;!，。、！]|\s*\n|\Z)")
"""The first word of a reply, if punctuation or the end of the line follows: "Ja, ..." and not "Right lung ..."."""
_UNFINISHED = late_pattern(
    r"(?:,|(?:,|\bthat) there|\b(?:is|are|was|were|be|been|appears?|seems?|has|have|does|do|shows?|contains?)"
    r"(?: (?:a|an|the|some|any|to|be|in|of|on|at|with))*)\s*\Z"
)
"""The end of a reply that was cut before it said anything: a comma, or a verb without what it is about."""
_FEWEST_CUT_WORDS = 3
"""Words of the shortest reply that may have been cut. "It is" has fewer, and may be an answer."""


def breaks_off(reply: str) -> bool:
    """Return whether a reply was cut before it said yes or no, as one with too few tokens is.

    A yes or no at its beginning may be of any language that the word lists know: "Ja, es gibt einen Hund,".

    Examples:
        >>> breaks_off("The heart appears to be"), breaks_off("There is no evidence of an aort"), breaks_off("It is")
        (True, False, False)
    """
    text = reply.strip().casefold()
    if len(text.split()) < _FEWEST_CUT_WORDS or _SAYS_EITHER.search(text):
        return False
    if _begins_with_verdict(text):
        return False
    return _UNFINISHED.search(text) is not None


# --- plans ------------------------------------------------------------------------------------------------------------

_FINDING_OUT = "determine|assess|evaluate|identify|find out|decide|establish|ascertain|judge|verify|check|analy[sz]e|tell|see|answer"
_INTENTION = (
    r"(?:needs?|should|must|have|has|requires?|required) (?:to )?|let(?:'s| us| me) |(?:we|i)(?:'ll| will) "
    r"|it is (?:necessary|important|essential|crucial|helpful) to "
)
_PLAN = late_pattern(
    rf"(?:\A|(?<=[.!?:\n]))\W*(?:in order )?to (?:{_FINDING_OUT})\b(?P<aim> (?:if|whether|which|what|how)\b)?"
    rf"[^.!?\n]*?\b(?:{_INTENTION})[^.!?:\n]*(?:[.!?:\n]+|\Z)",
    re.IGNORECASE,
)
"""A sentence that says how the answer will be found: "To determine if the lung is healthy, let's look at it."."""
_SENTENCE_END = late_pattern(r"[.!?]\s|[.!?]?(?:\n\s*)+|[.!?]\Z")
_STEP = late_pattern(r"^[ \t]*(?:\d{1,2}[.)]|[-*\u2022#]).*$", re.MULTILINE)
"""A line of a list, or a heading."""
_CONCLUSION = late_pattern(
    r"(?:^|(?<=\D[.!?:]))[\s*#]*(?:therefore|thus|hence|so|consequently|overall|conclusion|in (?:conclusion|summary|short)"
    r"|to (?:conclude|summari[sz]e|sum up)|as a result|based on (?:this|these|the|my)|given (?:this|these|the)"
    r"|(?:final |my |the )?answer)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a sentence that concludes."""


def verdict_part(reply: str) -> str:
    """Return a reply with blanks in place of a plan to find the answer and of its steps.

    A plan repeats the question ("To determine if the lung is healthy, we need to look at it.") and is not an answer. If
    steps in a list follow it, only what concludes them has the verdict, and a reply that was cut among its steps has none.

    Args:
        reply: The answer in a reply, without markup.

    Returns:
        A text of the same length. It is the reply itself if it begins with yes or no or plans nothing.

    Examples:
        >>> verdict_part("To determine if it is ripe, we need to look at its colour. It is green.").strip()
        'It is green.'
        >>> verdict_part("To determine if it is ripe, let's see:\\n1. Colour: green.\\nThus, it is not ripe.").strip()
        'Thus, it is not ripe.'
        >>> verdict_part("To determine if it is ripe, let's see:\\n1. Colour: it is").strip()
        ''
    """
    plan = _PLAN.search(reply)
    if plan is None or _begins_with_verdict(reply):
        return reply
    preface = reply[: plan.start()].strip()
    has_verdict = plan["aim"] is None or len(_SENTENCE_END.findall(preface)) > 1
    if preface and has_verdict:
        return reply  # "The lung is abnormal. To find the cause, we need more images."

    start = plan.end()
    last_step = None
    for step in _STEP.finditer(reply, start):
        last_step = step
    if last_step is not None:
        conclusions = [match.start() for match in _CONCLUSION.finditer(reply, start)]
        behind_steps = [index for index in conclusions if index >= last_step.end()]
        if behind_steps:
            start = behind_steps[0]
        elif conclusions:
            start = conclusions[-1]
        else:
            start = last_step.end()
    return " " * start + reply[start:]


def _begins_with_verdict(reply: str) -> bool:
    """Return whether the first word of a reply says yes or no in any language that the word lists know."""
    first_word = _FIRST_WORD.match(reply.strip().casefold())
    return first_word is not None and first_word[1] in words_of("yes") | words_of("no")
