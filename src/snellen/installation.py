"""How this Snellen was installed, and the line that adds an extra to it: from where it came, so that the line works."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, PackageNotFoundError
from typing import Any
from urllib.parse import unquote, urlsplit

PACKAGE = "snellen"


def distribution() -> Distribution | None:
    """What the package index of this environment knows of Snellen; None where its folder was only put on the path."""
    try:
        return Distribution.from_name(PACKAGE)
    except PackageNotFoundError:
        return None


def origin() -> dict[str, Any]:
    """Where Snellen was installed from, as PEP 610 records it (`direct_url.json`); empty when from a package index."""
    found = distribution()
    text = found.read_text("direct_url.json") if found else None
    recorded: dict[str, Any] = json.loads(text) if text else {}
    return recorded


def install_line(extra: str) -> str:
    """The command that installs an extra, from the folder, repository or index that Snellen itself came from; for an
    empty text, what Snellen always needs."""
    came_from, extras = origin(), f"[{extra}]" if extra else ""
    url = str(came_from.get("url", ""))
    if "dir_info" in came_from:
        editable = "-e " if came_from["dir_info"].get("editable") else ""
        return f"pip install {editable}'{unquote(urlsplit(url).path)}{extras}'"
    if version_control := came_from.get("vcs_info"):
        return f"pip install '{PACKAGE}{extras} @ {version_control['vcs']}+{url}@{version_control['commit_id']}'"
    return f"pip install '{PACKAGE}{extras}{f' @ {url}' if url else ''}'"
