"""What stands beside the benches names files that exist."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_rooms_of_the_mutation_bench_name_modules_and_test_files_that_exist() -> None:
    tree = ast.parse((ROOT / "bench" / "mutation.py").read_text("utf-8"))
    [rooms] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and node.value and getattr(node.target, "id", "") == "ROOMS"
    ]
    modules = [(module, tests.split()) for room in rooms.values() for module, tests in room.items()]
    assert [module for module, _ in modules if not (ROOT / "src" / "snellen" / module).is_file()] == []
    assert {
        name for _, tests in modules for name in tests if not (ROOT / "tests" / f"test_{name}.py").is_file()
    } == set()
