"""Short answers to yes-no questions in other words than yes and no: "Sure, there is", "I don't think so"."""

from __future__ import annotations

from typing import Literal

from snellen.common.late import late_pattern

YesNo = Literal["yes", "no"]
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
