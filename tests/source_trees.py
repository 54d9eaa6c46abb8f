"""The modules of a package as trees, parsed and walked once for all tests that look at them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's tree, the module first."""
    return tuple(ast.walk(ast.parse(path.read_text("utf-8"))))
