"""Another benchmark's questions about one picture, asked as a dialogue: VQA-MT (ReForm-Eval A.8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen import registry
from snellen.catalogue import BenchmarkSpec, entries
from snellen.common.drafts import Draft, read_params
from snellen.reformulation.sampling import draw_sample


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    of: str
    """The catalogue benchmark whose complete form supplies the questions."""
    least: int = 3
    """Pictures with fewer questions give no dialogue."""
    most: int = 10
    """Maximum number of rounds; the first ones are used."""
    hub: bool = False
    """Whether the questions come from the benchmark's hub dataset."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """One dialogue per picture, in order of first appearance; rounds do not refer to one another.

    The questions are those drawn for the complete benchmark `of` with seed 0.
    """
    chosen = read_params(params, Params)
    about: dict[str, list[Draft]] = {}
    spec = entries()[chosen.of]
    for draft in _complete(spec.from_hub() if chosen.hub else spec, folder):
        about.setdefault(draft.group, []).append(draft)
    for group, drafts in about.items():
        if len(drafts) >= chosen.least:
            first = drafts[0]
            yield Draft(
                id=group,
                rounds=tuple(draft.rounds[0] for draft in drafts[: chosen.most]),
                images=first.images,
                where=first.where,
                dialogue=True,
                group=group,
                tags={"rounds": str(min(len(drafts), chosen.most))},
            )


def _complete(spec: BenchmarkSpec, folder: Path | None) -> Iterator[Draft]:
    """The drafts of the complete benchmark, as a build of `spec` draws them from its source."""
    reader = registry.find("readers", spec.source.reader)
    strata = [draft.stratum for draft in reader(spec.source.params, folder)]
    places = frozenset(draw_sample(strata, spec.source.select, spec.name, "select", 0))
    for place, draft in enumerate(reader(spec.source.params, folder)):
        if place in places:
            yield draft
