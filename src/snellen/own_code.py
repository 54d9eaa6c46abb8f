"""What a Python file of the user defines, found without running it."""

from __future__ import annotations

import ast
from pathlib import Path

MAX_NAMES = 6
"""Names that a message lists."""


def names_in_file(path: Path) -> list[str]:
    """Return the public functions and classes at the top level of a Python file, which is parsed and not imported.

    Returns:
        The names in the order of the file; empty if it cannot be read or parsed.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = []
    for node in tree.body:
        is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if is_definition and not node.name.startswith("_"):
            names.append(node.name)
    return names


def code_hint(text: str) -> str:
    """Return how to name code in the file that a text means; empty if it means no Python file.

    Args:
        text: What was given instead of `my_file.py:NAME`: `my_file.py`, `my_file.py:`, `my_file` or `my_file:NAME`.
    """
    module, _, name = text.partition(":")
    is_file_name = module.endswith(".py")
    path = Path(module if is_file_name else f"{module}.py")
    if not path.is_file():
        return f"there is no file {module}; check the path" if is_file_name else ""
    defined = names_in_file(path)
    if name in defined:
        return f"write {path}:{name}"
    if not defined:
        return f"write {path}:NAME with the name of a function or class in that file"
    shown = " or ".join(f"{path}:{each}" for each in defined[:MAX_NAMES])
    further = len(defined) - MAX_NAMES
    return f"write {shown}" + (f" (or another of {further} more)" if further > 0 else "")
