"""Pictures with their classes, as readers of classification data sets exchange them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.common.drafts import ImageFile


class LabelClass(Struct, frozen=True):
    names: tuple[str, ...]
    """Its names, the usual one first; the others would also be right."""
    others: tuple[Sequence[str], ...]
    """Names of other classes, the most similar first."""
    stratum: str


class LabelledPicture(Struct, frozen=True):
    id: str
    file: ImageFile
    where: str
    names: tuple[str, ...]
    """The names of its class, the usual one first; the others would also be right."""
    others: tuple[Sequence[str], ...]
    """Names of other classes, the most similar first."""
    stratum: str
    answer_tags: dict[str, str] = {}
