"""Digests of the user's own metrics, judges and extractors, which are stored with a scoring.

A metric of the user is code that can change between two scorings: a function or class, a constant that it uses, or a
helper in another file. Numbers that were computed by different code are not compared with each other. The digest
is computed from the loaded object, as for models (`snellen.models.object_digest`), so that it does not depend on how
the user named it: as `FILE.py:NAME`, as `package.module:NAME`, by the name of a plugin, or as an object.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import fields

from snellen import registry
from snellen.common.foreign import TABLE_BYTES, read_file
from snellen.errors import SnellenError
from snellen.metrics.declaration import Metric, find_metric, judging_code

if TYPE_CHECKING:
    from snellen.models.object_digest import ObjectDigester

EXTRACTOR = "extractor "
"""Begins the key of an extractor, which may have the same name as a metric."""


class CodeDigest(Struct, frozen=True):
    """A digest of a metric, judge or extractor of the user, as it was when a run was scored."""

    name: str
    """As the user gave it, such as `mine.py:NAME`."""
    digest: str
    files: dict[str, str] = {}
    """Digests of its files, by path. A later command compares them without importing the code."""


class _Use(Struct, frozen=True):
    """A scoring by an object, which may have changed it: a cache that is filled is not a change of its code."""

    code: Any
    digest_before: str
    digest_after: str


_USES: dict[str, _Use] = {}
"""The latest scoring in this process by each metric and extractor of the user."""


def code_digests(metrics: Iterable[str], extractors: Iterable[str]) -> dict[str, CodeDigest]:
    """Return the digest of each of these metrics and extractors that is not part of Snellen.

    Only their own code is imported, which was imported for scoring anyway.

    Args:
        metrics: Names of metrics, with `judge:` before the name of a function that judges.
        extractors: Names of extractors.

    Returns:
        The digests by the short names that metrics have in results; `extractor NAME` for extractors.
    """
    digests: dict[str, CodeDigest] = {}
    for name in dict.fromkeys(metrics):
        if code := _own_object("metrics", name):
            key = registry.code_attribute(name)
            digests[key] = _digest_of(key, judging_code(name) or name, code)
    for extractor in dict.fromkeys(extractors):
        name = extractor.partition("?")[0]
        if code := _own_object("extractors", name):
            key = f"{EXTRACTOR}{registry.code_attribute(name)}"
            digests[key] = _digest_of(key, name, code)
    return digests


def note_use(digests: Mapping[str, CodeDigest]) -> None:
    """Note how the objects have changed while they scored a run, so that this is not taken for a change of code."""
    for key, digest in digests.items():
        use = _USES[key]
        after, _ = _digested(use.code)
        _USES[key] = _Use(use.code, digest.digest, after)


def changed_names(one: Mapping[str, CodeDigest], other: Mapping[str, CodeDigest]) -> list[str]:
    """Return the names of those metrics, judges and extractors that both have, but with different code."""
    return [other[key].name for key in one if key in other and one[key].digest != other[key].digest]


def changed_files(digests: Mapping[str, CodeDigest]) -> list[str]:
    """Return the files of own code that have changed since a run was scored. Files that do not exist are left out.

    A file may have changed in another place than the metric itself, which only scoring again shows.
    """
    changed: list[str] = []
    for code in digests.values():
        for path, digest in code.files.items():
            current = _digest_of_file(Path(path))
            if current not in ("", digest):
                changed.append(path)
    return list(dict.fromkeys(changed))


def _own_object(group: registry.Group, name: str) -> Any:
    """Return the metric or extractor of a name; None if it is part of Snellen, or if its code is not available."""
    short_name = registry.code_attribute(name)
    target = registry.own_targets(group).get(short_name)
    if target is None and short_name == name:
        target = registry.targets(group).get(short_name)
    if target is None or (isinstance(target, str) and target.startswith("snellen.")):
        return None
    try:
        if group == "metrics":
            return find_metric(name)
        return registry.find_registered(group, short_name)
    except SnellenError:  # scoring reports it
        return None


def _digest_of(key: str, name: str, code: Any) -> CodeDigest:
    digest, digester = _digested(code)
    use = _USES.get(key)
    is_same_object = use is not None and _parts_of(use.code)[-1] is _parts_of(code)[-1]
    if use is not None and is_same_object and use.digest_after == digest:
        digest = use.digest_before
    _USES[key] = _Use(code, digest, digest)
    files: dict[str, str] = {}
    for file in sorted(digester.files):
        if content_digest := _digest_of_file(file):
            files[_shown_path(file)] = content_digest
    return CodeDigest(name, digest, files)


def _digested(code: Any) -> tuple[str, ObjectDigester]:
    """Return the digest of a metric or extractor, and what computed it, which knows the files."""
    from snellen.models.object_digest import ObjectDigester, UndigestibleError

    parts = _parts_of(code)
    module = getattr(parts[-1], "__module__", None) or type(parts[-1]).__module__
    package = module.partition(".")[0]
    own_package = "" if package in sys.stdlib_module_names else package
    digester = ObjectDigester(own_package=own_package, skips_unknown=True)
    try:
        return digester.digest(parts).hex()[:16], digester
    except (UndigestibleError, RecursionError):
        # An object of which only the code can be digested, such as one that holds a connection.
        return digester.digest([type(part) for part in parts]).hex()[:16], digester


def _parts_of(code: Any) -> Sequence[Any]:
    """Return the parts of a metric or extractor on which its values depend, the user's function last.

    The wrapper that Snellen puts around a function is not one of them, nor are titles.
    """
    if not isinstance(code, Struct):
        return [inspect.unwrap(code)] if callable(code) else [code]
    parts: list[Any] = [type(code)]
    if isinstance(code, Metric):
        parts.append([row.better for row in code.rows])
    for field in fields(code):
        value = getattr(code, field.name)
        if callable(value):
            parts.append(inspect.unwrap(value))
    return parts


def _digest_of_file(path: Path) -> str:
    """Return a digest of a file; empty if it cannot be read."""
    try:
        content = read_file(path, TABLE_BYTES)
    except (OSError, SnellenError):
        return ""
    return hashlib.blake2b(content, digest_size=6).hexdigest()


def _shown_path(file: Path) -> str:
    """Return the path of a file, relative to the current folder if it is below that."""
    folder = Path.cwd()
    return str(file.relative_to(folder) if file.is_relative_to(folder) else file)
