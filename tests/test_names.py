"""A public name stands in one module, so that whoever reads it elsewhere knows which thing is meant.

A variable says what it holds.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import snellen
from source_trees import nodes

ROOT = Path(snellen.__file__).parent
ALLOWED = {"read", "Params", "command", "upgrade"}
"""What readers, verbs and migrations are called by the door that opens them: the module's name says which."""


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
    assert {name: where for name, where in public_names().items() if len(where) > 1 and name not in ALLOWED} == {}


VAGUE = frozenset(
    "one found asked left shown other known said made wanted kept seen given taken told named rest these those each "
    "both it them what".split()
)
"""Pronouns and participles: as names of variables they say nothing of what these hold."""
MOST_VAGUE = 0.006
"""Of all bindings."""
CLEAR_ROOMS = frozenset(
    "analysis building catalogue experiments extraction fetching formats interchange metrics models protocols "
    "psychometrics readers recognition reformulation report runs scoring suites verification viewing".split()
)
"""Rooms in which no more than a hundredth are vague."""


def bindings(path: Path) -> Iterator[str]:
    """Names that a module binds: variables, parameters, caught errors, what patterns capture."""
    for node in nodes(path):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name


def test_variables_say_what_they_hold() -> None:
    server = ROOT.parent.parent / "packages" / "snellen-server" / "src" / "snellen_server"
    everything, vague = Counter[str](), Counter[str]()
    for package in (ROOT, server):
        for path in sorted(package.rglob("*.py")):
            room = path.relative_to(package).parts[0] if package == ROOT else "server"
            names = [name for name in bindings(path) if name not in ("self", "cls")]
            everything[room] += len(names)
            vague[room] += sum(name in VAGUE for name in names)
    assert vague.total() <= MOST_VAGUE * everything.total(), vague.most_common(8)
    assert {room: vague[room] for room in CLEAR_ROOMS if vague[room] > 0.01 * everything[room]} == {}
