"""What a Python file of the user defines, found without running it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Literal

MAX_NAMES = 6
"""Names that a message lists."""
MODEL_METHODS = frozenset({"generate", "ask", "loglikelihood"})
CodeKind = Literal["", "model", "metric"]
"""What a function or class is wanted for; empty for anything."""
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def names_in_file(path: Path, kind: CodeKind = "") -> list[str]:
    """Return the names of the public functions and classes at the top level of a Python file, without running the
    file.

    Args:
        path: The file.
        kind: `model` or `metric` to return only names that could be one, judged by parameters and methods. A model
            is a function `f(question, images)` or a class with `generate`; a metric is a function `f(reply,
            references)`. If nothing in the file could be one, all names are returned.

    Returns:
        The names in the order of the file; an empty list if the file cannot be read or parsed.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    definitions: list[_Definition] = []
    for node in tree.body:
        if isinstance(node, _Definition) and not node.name.startswith("_"):
            definitions.append(node)
    suitable = [node for node in definitions if _could_be(node, kind)]
    return [node.name for node in suitable or definitions]


def _could_be(node: _Definition, kind: CodeKind) -> bool:
    """Return whether a function or class could be a model or a metric, judged by its parameters or methods.

    A function could be either if it can be called with two arguments. A metric may also take three: the question, the
    reply and the reference. A class could be a model if it has a method such as `generate`, or a base class, which may
    have that method. Everything could be of the kind "".
    """
    if not kind:
        return True
    if isinstance(node, ast.ClassDef):
        methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        return kind == "model" and (bool(node.bases) or bool(methods & MODEL_METHODS))
    n_parameters = len(node.args.posonlyargs) + len(node.args.args)
    n_required = n_parameters - len(node.args.defaults)
    takes_two = n_required <= 2 <= n_parameters
    takes_three = n_required <= 3 <= n_parameters
    return takes_two or (kind == "metric" and takes_three)


def code_hint(text: str, kind: CodeKind = "") -> str:
    """Return a hint at how to write the name of code in a file, for a text such as `my_file.py` without `:NAME`.

    For example `write my_file.py:brevity`, or `there is no file my_file.py; check the path`.

    Args:
        text: What the user wrote: `my_file.py`, `my_file.py:`, `my_file` or `my_file:NAME`.
        kind: What the code is meant to be, so that helper functions in the same file are not suggested.

    Returns:
        The hint; empty if the text is not the name of a Python file.
    """
    module, _, name = text.partition(":")
    is_file_name = module.endswith(".py")
    path = Path(module if is_file_name else f"{module}.py")
    if not path.is_file():
        return f"there is no file {module}; check the path" if is_file_name else ""
    if name in names_in_file(path):
        return f"write {path}:{name}"
    defined = names_in_file(path, kind)
    if not defined:
        return f"write {path}:NAME with the name of a function or class in that file"
    hint = "write " + " or ".join(f"{path}:{each}" for each in defined[:MAX_NAMES])
    n_hidden = len(defined) - MAX_NAMES
    if n_hidden > 0:
        hint += f" (or another of {n_hidden} more)"
    return hint
