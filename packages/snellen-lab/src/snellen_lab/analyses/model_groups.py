"""Put models into groups by what their model cards say, such as their size."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import pairwise

from snellen.plugin_api import ModelCard
from snellen_lab.analyses.declaration import MODEL, Grouping
from snellen_lab.analyses.observations import Observation

WITH = "with"
WITHOUT = "without"


def group_of(
    observation: Observation, grouping: Grouping, cards: Mapping[str, ModelCard]
) -> str | None:
    """Return the group of a model, such as "> 7B to 13B"; None if it is in no group.

    The grouping decides by what models are grouped: each model alone; the declared lists of models; whether a model was
    trained on a dataset ("with" or "without"); or a field of the model's card, such as its number of parameters.

    A model is in no group if it has no card, the card does not have that field, or none of the declared lists names the
    model. A run that none of the lists names is a group of its own.

    Args:
        observation: A value of the model, from a paper or a run.
        grouping: By what models are grouped.
        cards: The model cards by name.
    """
    if grouping.by == MODEL:
        return observation.model
    if grouping.members:
        for group, names in grouping.members.items():
            if observation.card in names:
                return group
        # The lists name models of the paper. A run that they do not name is a group of its own.
        return observation.model if observation.is_run else None

    card = cards.get(observation.card)
    if card is None:
        return None
    if grouping.trained_on:
        if card.trained_on is None:
            return None
        return WITH if grouping.trained_on in card.trained_on else WITHOUT
    fact = getattr(card, grouping.by)
    if fact in (None, ""):
        return None
    if isinstance(fact, int):
        return number_class(fact, grouping.edges)
    return text_class(str(fact), grouping.names)


def text_class(text: str, names: Mapping[str, tuple[str, ...]]) -> str:
    """Return the group whose patterns match a text; the text itself if none does.

    If several groups match, the first one counts. `*` in a pattern matches any text.
    """
    for group, patterns in names.items():
        if any(fnmatchcase(text, pattern) for pattern in patterns):
            return group
    return text


def number_class(number: float, edges: tuple[float, ...]) -> str:
    """Return the class of a number, such as `> 10M to 100M` for 50M with the edges 10M and 100M.

    A number equal to an edge is in the class below it. Without edges the class is the number
    itself.
    """
    if not edges:
        return short_number(number)
    if number <= edges[0]:
        return f"up to {short_number(edges[0])}"
    for low, high in pairwise(edges):
        if number <= high:
            return f"> {short_number(low)} to {short_number(high)}"
    return f"> {short_number(edges[-1])}"


def short_number(number: float) -> str:
    """Return a number with its unit, as in `6.74B`, `187.2M` or `32`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{number / size:.4g}{letter}"
    return f"{number:.4g}"


def why_no_group(
    observation: Observation, grouping: Grouping, cards: Mapping[str, ModelCard]
) -> str:
    """Return why a model is in no group, and what the user can do about it."""
    fact_name = "trained_on" if grouping.trained_on else grouping.by
    if observation.card in cards:
        return f"the card {observation.card} does not state {fact_name}"
    return (
        f"{observation.model} has no model card, so its {fact_name} is unknown; write one "
        "(docs/analyses.md)"
    )
