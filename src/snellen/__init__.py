"""Snellen: an eye chart for large vision-language models.

import snellen as sn
results = sn.evaluate("snellen:oracle", "eyechart/colour", ["circular"], limit=20)
results.table()
"""

from __future__ import annotations

import importlib
from typing import Any

from snellen.absent_names import hint_at_absent_names, suggest_name

__version__ = "0.1.0"

_IMPORTS = __spec__.loader.get_data(f"{__file__}i").decode().splitlines()
_WHERE = {line.split()[3]: line.split()[1] for line in _IMPORTS if line.startswith("from ")}
"""The module of each public name, as `__init__.pyi` lists them."""

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import snellen` costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'snellen' has no attribute {name!r}; {suggest_name(name)}")
    from snellen.errors import naming_missing_packages

    with naming_missing_packages(f"sn.{name}"):
        module = importlib.import_module(_WHERE[name])
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)


hint_at_absent_names(__path__)
