"""The modules of a package as trees, parsed and walked once for all tests that look at them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's tree, the module first."""
    return tuple(ast.walk(ast.parse(path.read_text("utf-8"))))


def imports(file: Path) -> Iterator[tuple[str, str]]:
    """Yield what a file imports, late and for types, too: the module, and the name in it or an empty text."""
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute here"
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def texts(file: Path) -> Iterator[str]:
    """Yield the texts of a file that are not docstrings."""
    docs = {id(node.value) for node in nodes(file) if isinstance(node, ast.Expr)}
    for node in nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def private_imports(
    folder: Path, package: ModuleType, public: Mapping[str, Collection[str]]
) -> list[str]:
    """List what the modules below a folder use of a package beside its public names.

    Args:
        package: The package that is imported.
        public: The names that each of its public modules offers.

    Returns:
        `FILE: MODULE NAME` for each such import, and for each text that names a private module.
    """
    name_of_package = package.__name__
    modules = [
        f"{name_of_package}.{path.stem}" for path in Path(str(package.__file__)).parent.iterdir()
    ]
    private = []
    for file in sorted(folder.rglob("*.py")):
        for module, name in imports(file):
            if module.partition(".")[0] == name_of_package and name not in public.get(module, ()):
                private.append(f"{file.name}: {module} {name}")
        # A module is also reached by a text: as the package of templates, of files, or of what is imported later.
        private += [
            f"{file.name}: {text}" for text in texts(file) if text.startswith(tuple(modules))
        ]
    return private


def assert_no_circles(folder: Path) -> None:
    """Fail if modules of the package in a folder import each other in a circle when they are loaded."""
    files = {
        ".".join(file.relative_to(folder.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): file
        for file in folder.rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for module, file in files.items():
        imported: set[str] = set()
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    imported |= {str(node.module), f"{node.module}.{alias.name}"} & files.keys()
        graph[module] = imported - {module}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
