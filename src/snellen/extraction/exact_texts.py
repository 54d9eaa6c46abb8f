"""Options that a reply gives letter by letter: of those that differ in case or signs alone, the one that it has."""

from __future__ import annotations

import re

from snellen.common.late import late_pattern
from snellen.extraction.option_index import OptionIndex, index_options

_FENCED = late_pattern(r"```[\w+-]{0,20}\n(.{1,4000}?)\n?```", re.DOTALL)
_AROUND = " \n\t\r`\"'*$“”「」"
_LONGEST_REPLY = 8_000


def exact_option(reply: str, index: OptionIndex) -> int | None:
    """The option that the whole reply is, or the one code block in it, letter by letter; None for none or several."""
    if len(reply) > _LONGEST_REPLY:
        return None
    fences = _FENCED.findall(reply) if "```" in reply else []
    stripped = reply.strip()
    candidates = {stripped, stripped.strip(_AROUND), stripped.strip(_AROUND).removesuffix(".").rstrip(_AROUND)}
    if len(fences) == 1:
        candidates.add(fences[0].strip("\n"))
    named = {
        place
        for place, option in enumerate(index.options)
        if option.strip() and not candidates.isdisjoint((option.strip(), _without_dollars(option.strip())))
    }
    place = named.pop() if len(named) == 1 else None
    return None if place is None or index.label(stripped.strip(_AROUND).rstrip(".")) is not None else place


def _without_dollars(option: str) -> str:
    """ "x^2" of "$x^2$", but not "3.50" of "$3.50"."""
    return option[1:-1] if len(option) > 2 and option[0] == option[-1] == "$" else option


def without_twins(reply: str, index: OptionIndex) -> OptionIndex:
    """The options, but of those with the same words only the one whose text stands in the reply, if just one does."""
    if not index.twins:
        return index
    options = list(index.options)
    for twins in index.twins:
        spelt = [place for place in twins if _stands(options[place], reply, [options[p] for p in twins])]
        if len(spelt) == 1:
            for place in twins:
                if place != spelt[0]:
                    options[place] = ""
    return index_options(tuple(options), index.labels)


def _stands(option: str, reply: str, twins: list[str]) -> bool:
    """Whether a text stands in the reply, other than inside a longer one of its twins."""
    for longer in twins:
        if option in longer and option != longer:
            reply = reply.replace(longer, " ")
    at = reply.find(option)
    while at >= 0:
        before, behind = reply[max(0, at - 1) : at], reply[at + len(option) : at + len(option) + 2]
        runs_on = (before.isalnum() and option[:1].isalnum()) or (behind[:1].isalnum() and option[-1:].isalnum())
        if not runs_on and not re.match(r"[.,]\d", behind):
            return True
        at = reply.find(option, at + 1)
    return False
