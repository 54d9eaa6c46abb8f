"""Where a benchmark comes from, for people: its places in their order, with what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from snellen.catalogue import BenchmarkSpec
from snellen.catalogue.lock import known_dataset, known_file
from snellen.catalogue.places import ByHandPlace, FoundPlace, HubPlace, UrlPlace, fits
from snellen.fetching.download import in_bytes
from snellen.fetching.sources import source_places


class Origin(Struct, frozen=True):
    """One place of a benchmark's files, or the fact that it needs none."""

    name: str
    """The benchmark."""
    kind: Literal["built in", "urls", "hub", "by hand", "own files"]
    place: str = ""
    """Hosts, the dataset's name, or what to do by hand."""
    url: str = ""
    """The page where a user gets it by hand."""
    size: int | None = None
    """Bytes of all files together; None where one is not known."""
    licence: str = ""
    gated: bool = False

    @property
    def shown(self) -> str:
        """Where it comes from, in words."""
        if self.kind == "urls":
            return self.place
        text = ": ".join(filter(None, (self.kind, self.place)))
        return f"{text} ({self.url})" if self.url else text

    @property
    def shown_size(self) -> str:
        return in_bytes(self.size) if self.size else ""


def origins_of(spec: BenchmarkSpec) -> tuple[Origin, ...]:
    """Where a benchmark's files come from, in the order in which places are tried; at least one."""
    if spec.source.embedded:
        return (Origin(spec.name, "built in", licence=spec.licence),)
    origins = tuple(_origin(spec, place) for place in source_places(spec))
    return origins or (Origin(spec.name, "own files", licence=spec.licence),)


def _origin(spec: BenchmarkSpec, place: FoundPlace) -> Origin:
    match place:
        case UrlPlace():
            facts = [known_file(file) for file in place.files]
            hosts = dict.fromkeys(urlsplit(file.url).netloc for file in place.files)
            licences = dict.fromkeys(file.licence for file in facts if file.licence)
            count = f" ({len(facts)} files)" if len(facts) > 1 else ""
            return Origin(
                spec.name, "urls", ", ".join(hosts) + count, size=_sum([file.size for file in facts]),
                licence="; ".join(licences) or spec.licence,
            )  # fmt: skip
        case HubPlace():
            dataset = known_dataset(place)
            sizes = [file.size for name, file in dataset.files.items() if fits(name, place.patterns)]
            return Origin(
                spec.name, "hub", place.repo, size=_sum(sizes),
                licence=dataset.licence or spec.licence, gated=dataset.gated,
            )  # fmt: skip
        case ByHandPlace():
            return Origin(spec.name, "by hand", place.what, place.url, licence=spec.licence)


def _sum(sizes: Sequence[int]) -> int | None:
    return sum(sizes) if sizes and all(sizes) else None
