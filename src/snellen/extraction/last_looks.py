"""What is tried on a reply that the rules leave open: each look knows one way to mean an option. All are `likely`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from snellen.extraction.alignment import listed_option
from snellen.extraction.intervals import interval_option, none_of_them
from snellen.extraction.joint_options import joint_option, of_two, ticked_option
from snellen.extraction.option_mentions import Skeleton, skeleton
from snellen.extraction.orderings import likeliest_option, ordered_option, ranked_first
from snellen.extraction.question_words import topic
from snellen.extraction.reading import ExtractedChoice
from snellen.extraction.relations import related_option
from snellen.extraction.second_looks import PlainReply
from snellen.extraction.undetermined import undetermined_option


class Look(NamedTuple):
    """One way to mean an option, and what a report says of it."""

    finds: Callable[[PlainReply, Skeleton], int | None]
    why: str


_LOOKS = (
    Look(lambda reply, whole: ticked_option(whole, reply.asked), "ticked in a list of all"),
    Look(lambda reply, whole: ranked_first(reply.text, reply.question, reply.asked), "the first of a ranking"),
    Look(lambda reply, whole: listed_option(whole, reply.question, reply.asked), "its line of a list alone answers"),
    Look(lambda reply, whole: likeliest_option(whole, reply.question), "given the largest share"),
    Look(lambda reply, whole: of_two(whole), "the former or the latter of two"),
    Look(lambda reply, whole: joint_option(whole, reply.asked), "stands for all that are named"),
    Look(lambda reply, whole: undetermined_option(whole, reply.text, reply.asked), "it says that it cannot be told"),
    Look(lambda reply, whole: ordered_option(reply.text, reply.asked.options), "the things in its order"),
    Look(lambda reply, whole: interval_option(reply.text, reply.question, reply.asked.options), "holds the number"),
    Look(
        lambda reply, whole: None if whole.at else none_of_them(reply.text, reply.question, reply.asked.options),
        "none of what is counted",
    ),
    Look(
        lambda reply, whole: related_option(reply.text, reply.question, reply.asked.options),
        "the same relation in other words",
    ),
)


def look_again(reply: PlainReply, reading: ExtractedChoice) -> ExtractedChoice:
    """The reading of a reply that the rules left open: that of the looks, where all that find one agree."""
    if reading.choice is not None or reply.strict or reply.cut or reading.detail == TAKEN_BACK:
        return reading
    whole = skeleton(reply.text, reply.asked, False, topic(reply.question))
    found = {place: look.why for look in _LOOKS if (place := look.finds(reply, whole)) is not None}
    if len(found) != 1:
        return reading
    [(place, why)] = found.items()
    return reply.likely(place, why)


TAKEN_BACK = "the answer is taken back"
