"""What other packages build on, in one place: models, protocols, metrics, readers, suites, verbs, servers
(docs/extending.md).

`plugin_api.pyi` lists the names by subject, each with its module. A name is imported when it is first used.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

_STUB = __loader__.get_data(f"{__file__}i").decode()
_HOMES = {
    name: module for module, name in re.findall(r"^from (\S+) import (\w+) as", _STUB, re.MULTILINE)
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """A name is imported when first used. Raises AttributeError for one that is not here."""
    if name not in _HOMES:
        raise AttributeError(f"module 'snellen.plugin_api' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
