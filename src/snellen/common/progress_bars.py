"""The bars that packages of the hub draw with tqdm."""

from __future__ import annotations

import importlib
import sys
import warnings
from contextlib import suppress


def import_tqdm() -> None:
    """Import tqdm, before a package that draws bars does, without its advice to install ipywidgets: in a notebook that
    lacks them its bars are text, as tqdm decides when it is first imported. Does nothing where there is no tqdm."""
    if "tqdm.auto" in sys.modules:
        return
    with warnings.catch_warnings(), suppress(ModuleNotFoundError):
        warnings.filterwarnings("ignore", message="IProgress not found")
        importlib.import_module("tqdm.auto")
