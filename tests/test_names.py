"""A public name is defined in one module, so that a reader knows which thing is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import snellen

ROOT = Path(snellen.__file__).parent
ALLOWED = {"read", "Params", "command", "upgrade", "load_model"}
"""What readers, verbs and migrations are called by the door that opens them: the module's name says which. `api.load_model`
is the model of `models.loading.load_model` with a method for single questions."""


def public_names() -> dict[str, set[str]]:
    """Functions and classes without an underscore, by name: the modules that define them."""
    modules: dict[str, set[str]] = defaultdict(set)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            defines = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            if defines and not node.name.startswith("_"):
                modules[node.name].add(str(path.relative_to(ROOT)))
    return modules


def test_no_public_name_stands_in_two_modules() -> None:
    assert {
        name: where
        for name, where in public_names().items()
        if len(where) > 1 and name not in ALLOWED
    } == {}
