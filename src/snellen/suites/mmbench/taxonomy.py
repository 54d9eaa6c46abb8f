"""MMBench's abilities in three levels: L-2 and leaf stand in the files, L-1 is derived (paper, Fig. 2)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.formats.json_files import packaged_toml, read_toml

TAXONOMY_FILE = "taxonomy.toml"
"""A file of this name beside a benchmark's own file adds its abilities to the published ones."""

PublishedSplit = Literal["", "dev", "test"]
Leaf = tuple[str, str]
"""L-2 and name: names of leaves recur in other data sets."""


class SecondLevel(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An L-2 ability."""

    name: str
    l1: str = ""
    title: str = ""
    short: str = ""


class LeafAbility(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A leaf ability, with its counts where they are published."""

    name: str
    l2: str = ""
    title: str = ""
    definition: str = ""
    paper_dev: int | None = None
    paper_test: int | None = None
    dev: int | None = None

    @property
    def key(self) -> Leaf:
        return self.l2, self.name


class Taxonomy(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    l1: dict[str, str] = {}
    """Titles of the L-1 abilities."""
    l2: tuple[SecondLevel, ...] = ()
    leaf: tuple[LeafAbility, ...] = ()

    def l1_of(self, l2: str) -> str:
        """Return the L-1 ability that an L-2 ability belongs to; empty if the L-2 ability is not described."""
        return next((second.l1 for second in self.l2 if second.name == l2), "")

    def title(self, name: str, l2: str = "") -> str:
        """Return the title of an ability of any level; its name in the files if it is not described."""
        abilities: list[SecondLevel | LeafAbility] = [
            third for third in self.leaf if third.key == (l2, name)
        ]
        abilities += [second for second in self.l2 if second.name == name]
        return next(
            (ability.title for ability in abilities if ability.title), self.l1.get(name, name)
        )

    def with_own(self, path: Path) -> Taxonomy:
        """Return these abilities with those of a user's file, which take precedence. Raises DataError naming the
        file."""
        added = read_toml(path, Taxonomy)
        return replace(
            self,
            l1={**self.l1, **added.l1},
            l2=tuple({second.name: second for second in (*self.l2, *added.l2)}.values()),
            leaf=tuple({third.key: third for third in (*self.leaf, *added.leaf)}.values()),
        )

    def differences(self, counts: Mapping[Leaf, int], published: PublishedSplit) -> list[str]:
        """Return where a file has another number of questions than its published split: `ocr 40 (39)`.

        The counts of the distributed dev file are known exactly. The test file has lost 14 of the paper's
        questions, so there only an ability with more questions differs.
        """
        differing = []
        for leaf in self.leaf:
            count = counts.get(leaf.key, 0)
            expected = leaf.dev if published == "dev" else leaf.paper_test
            if (
                published
                and expected is not None
                and (count > expected or (count < expected and published == "dev"))
            ):
                differing.append(f"{leaf.name} {count} ({expected})")
        return differing


@cache
def packaged_taxonomy() -> Taxonomy:
    """Return the abilities of MMBench and CCBench."""
    return packaged_toml("snellen.suites.mmbench", TAXONOMY_FILE, Taxonomy)
