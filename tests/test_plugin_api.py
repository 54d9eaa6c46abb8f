"""What other packages build on: one module, whose names are listed here and described on one page."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import snellen
from snellen import plugin_api
from snellen.common.drafts import Draft, QuestionDraft
from snellen.records import Answer, Estimate

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/extending.md"
RECORDS_PAGE = ROOT / "docs/reference/plugin-records.md"
FILES = ROOT / "examples/snellen-birds"
NAMES = set(plugin_api.__all__)
HOMES = plugin_api._HOMES


def test_a_name_that_snellen_has_too_is_the_same_thing_and_no_other_name_is_there() -> None:
    assert set(dir(plugin_api)) == NAMES
    assert all(
        getattr(plugin_api, name) is getattr(snellen, name) for name in NAMES & set(snellen.__all__)
    )
    with pytest.raises(AttributeError, match="no attribute 'Drafts'"):
        _ = plugin_api.Drafts


def test_importing_the_names_loads_none_of_their_modules_before_they_are_used() -> None:
    code = "import sys, snellen.plugin_api; print([m for m in sorted(sys.modules) if m.startswith('snellen')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "['snellen', 'snellen.absent_names', 'snellen.plugin_api']\n"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_name_says_what_it_is_and_of_which_types(name: str) -> None:
    thing = inspect.unwrap(getattr(plugin_api, name))
    if not (inspect.isclass(thing) or inspect.isfunction(thing)) or thing.__module__ != HOMES[name]:
        assert described(name), f"{HOMES[name]}.{name} has no docstring below it"
        return
    assert (thing.__doc__ or "").strip() and thing.__doc__ != dict.__doc__
    for function in functions_of(thing):
        parameters = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.name not in ("self", "_")
        ]
        assert all(p.annotation is not p.empty for p in parameters), function.__qualname__
        assert "return" in function.__annotations__, function.__qualname__


def functions_of(thing: Any) -> list[Any]:
    """The function itself, or the public methods that the class defines."""
    if inspect.isfunction(thing):
        return [thing]
    return [
        value
        for name, value in vars(thing).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ]


def described(name: str) -> bool:
    """Whether a text follows the assignment to the name, as a docstring."""
    body = ast.parse(inspect.getsource(importlib.import_module(str(HOMES[name])))).body
    for node, following in pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
    return False


# --- the page ----------------------------------------------------------------------------------------------------

BLOCK = re.compile(
    r"^\[`[^`]+`\]\(\.\./examples/snellen-birds/([^)]+)\).*?:\n\n```\w+\n(.*?)^```",
    re.DOTALL | re.MULTILINE,
)


def test_the_page_has_all_names_and_no_other() -> None:
    table = RECORDS_PAGE.read_text("utf-8").partition("## The names")[2]
    table = table.partition("| for | names |")[2]
    assert set(re.findall(r"`(\w+)`", table)) == NAMES


def test_what_the_page_shows_stands_in_the_files_of_the_example() -> None:
    page = PAGE.read_text("utf-8")
    blocks = BLOCK.findall(page)
    assert len(blocks) == page.count("```") // 2 - 1 >= 5, (
        "but for the commands, each block is of a file"
    )
    assert [name for name, block in blocks if block not in (FILES / name).read_text("utf-8")] == []


@pytest.mark.parametrize("record", [Draft, QuestionDraft, Answer, Estimate])
def test_the_page_says_what_each_field_of_a_record_holds(record: type[msgspec.Struct]) -> None:
    page = RECORDS_PAGE.read_text("utf-8")
    table = (
        page.partition(f"\n`{record.__name__}`, ")[2]
        .partition("|---|---|\n")[2]
        .partition("\n\n")[0]
    )
    named = [
        name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])
    ]
    assert named == list(record.__struct_fields__)
