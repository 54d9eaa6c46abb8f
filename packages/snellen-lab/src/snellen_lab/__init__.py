"""Research instruments for Snellen: acuity, studies, agreement with people, audits, verification, data sheets."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_IMPORTS = __spec__.loader.get_data(f"{__file__}i").decode().splitlines()
_MODULES = {line.split()[3]: line.split()[1] for line in _IMPORTS if line.startswith("from ")}
"""The module of each public name, as `__init__.pyi` lists them."""

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import snellen_lab` costs nothing."""
    if name not in _MODULES:
        raise AttributeError(f"module 'snellen_lab' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
