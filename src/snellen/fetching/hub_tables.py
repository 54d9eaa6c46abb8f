"""A dataset of the hub as a user names it: `hf://org/name`, `hf://org/name/config:split`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from snellen.catalogue.places import HubPlace
from snellen.errors import DataError
from snellen.fetching.hub import fetch_dataset, lacking_files

SCHEME = "hf://"
_TARGET = re.compile(
    r"hf://(?P<repo>[^/:@]+/[^/:@]+)(?:/(?P<config>[^:@]+))?(?::(?P<split>[^@]+))?(?:@(?P<revision>.+))?"
)
_FILE = re.compile(
    r"(?P<folder>.*/)?(?P<split>[^/]+?)(?:-\d{5}-of-\d{5}(?:-[0-9a-f]+)?)?\.(?P<form>parquet|jsonl|json|csv|tsv)"
)
_PICTURES = ("*.png", "*.jpg", "*.jpeg", "*.webp")
_ASIDE = frozenset({"dataset_infos.json", "dataset_info.json"})


class HubTable(Struct, frozen=True):
    """The files of one split, fetched."""

    place: HubPlace
    folder: Path
    file: str
    """The table relative to the folder, or the pattern of its parts."""


def fetch_hub_table(target: str) -> HubTable:
    """The table that a target names. Raises DataError where there are several, naming them, or none."""
    match = _TARGET.fullmatch(target)
    if match is None:
        raise DataError(f"{target}: write it as hf://ORG/NAME, hf://ORG/NAME/CONFIG:SPLIT")
    repo, config, split = match["repo"], match["config"] or "", match["split"] or ""
    files, _ = lacking_files((repo,), ("*",), match["revision"] or "")
    tables = _tables(files.names)
    chosen = {
        key: pattern
        for key, pattern in tables.items()
        if (not config or key[0] == config) and (not split or key[1] == split)
    }
    if len(chosen) != 1:
        names = [_name(repo, *key) for key in sorted(chosen or tables)]
        if not names:
            raise DataError(f"{target}: the dataset has no table that is known (.parquet, .jsonl, .json, .csv, .tsv)")
        raise DataError(f"{target}: which table? Name one of {', '.join(names[:8])}{' ...' * (len(names) > 8)}")
    [pattern] = chosen.values()
    pictures = () if pattern.endswith(".parquet") else tuple(
        sign for sign in _PICTURES if any(name.endswith(sign[1:]) for name in files.names)
    )  # fmt: skip
    folder, commit = fetch_dataset((repo,), (pattern, *pictures), match["revision"] or "")
    place = HubPlace(repo=repo, files=(pattern,), pictures=pictures, revision=commit, reader="table")
    return HubTable(place, folder, pattern)


def _name(repo: str, config: str, split: str) -> str:
    return f"{SCHEME}{repo}{'/' * bool(config)}{config}:{split}"


def _tables(names: Iterable[str]) -> dict[tuple[str, str], str]:
    """For each config and split the pattern of its files."""
    parts: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for name in names:
        match = _FILE.fullmatch(name)
        if match and name not in _ASIDE:
            folder = (match["folder"] or "").rstrip("/")
            config = "" if folder in ("", "data") else folder.removeprefix("data/")
            parts[config, match["split"], match["form"]].append((folder, name))
    return {
        (config, split): found[0][1] if len(found) == 1 else f"{found[0][0]}{'/' * bool(found[0][0])}{split}-*.{form}"
        for (config, split, form), found in parts.items()
    }
