"""MMBench's abilities in three levels (paper, Fig. 2).

A question has a leaf ability (`category`) and its L-2 ability in the file; the L-1 ability follows from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.formats.json_files import packaged_toml, read_toml

TAXONOMY_FILE = "taxonomy.toml"
"""A file with this name next to a benchmark's own file adds its abilities to the published ones."""

PublishedSplit = Literal["", "dev", "test"]
Leaf = tuple[str, str]
"""The L-2 ability and the name of a leaf ability. Names alone recur in other data sets."""


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
        """Return the L-1 ability that an L-2 ability belongs to; "" if the L-2 ability is not described."""
        for second in self.l2:
            if second.name == l2:
                return second.l1
        return ""

    def title(self, name: str, l2: str = "") -> str:
        """Return the title of an ability of any level.

        Args:
            name: Name of the ability in the files. It is returned if the ability has no title.
            l2: The L-2 ability that it belongs to, if it is a leaf.
        """
        for leaf in self.leaf:
            if leaf.key == (l2, name) and leaf.title:
                return leaf.title
        for second in self.l2:
            if second.name == name and second.title:
                return second.title
        return self.l1.get(name, name)

    def with_own(self, path: Path) -> Taxonomy:
        """Return these abilities with those of a user's file; the user's description of an ability replaces this one.

        Raises:
            DataError: If the file cannot be read; the message names it.
        """
        users = read_toml(path, Taxonomy)
        l1 = {**self.l1, **users.l1}
        l2 = {ability.name: ability for ability in self.l2}
        for ability in users.l2:
            l2[ability.name] = ability
        leaves = {ability.key: ability for ability in self.leaf}
        for leaf in users.leaf:
            leaves[leaf.key] = leaf
        return replace(self, l1=l1, l2=tuple(l2.values()), leaf=tuple(leaves.values()))

    def differences(self, counts: Mapping[Leaf, int], published: PublishedSplit) -> list[str]:
        """Return the abilities whose number of questions in a file is not the published one.

        For example, `ocr 40 (39)` means that the file has 40 questions about `ocr`, but 39 were published. The
        counts of the published dev file are known exactly. The published test file has 14 questions fewer than the
        paper counts, so for test only abilities with more questions than in the paper are returned.

        Args:
            counts: Number of questions of each ability in the file.
            published: The published split that the file should be, `dev` or a test split; empty if it is none.

        Returns:
            The texts; an empty list if nothing differs, or if the file is not a published split.
        """
        if not published:
            return []
        differing = []
        for leaf in self.leaf:
            count = counts.get(leaf.key, 0)
            expected = leaf.dev if published == "dev" else leaf.paper_test
            if expected is None:
                continue
            has_more = count > expected
            has_fewer_in_dev = published == "dev" and count < expected
            if has_more or has_fewer_in_dev:
                differing.append(f"{leaf.name} {count} ({expected})")
        return differing


@cache
def packaged_taxonomy() -> Taxonomy:
    """Return the abilities of MMBench and CCBench."""
    return packaged_toml("snellen.suites.mmbench", TAXONOMY_FILE, Taxonomy)
