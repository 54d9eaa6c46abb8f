"""The messages on the page about troubleshooting are those of the source."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from snellen.callers import called_from_command_line, setting

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "troubleshooting.md"
SOURCES = ROOT / "src" / "snellen"
MESSAGES = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text("utf-8"), re.MULTILINE)
CAPITALS = re.compile(r"(\b[A-Z]{2,}\b)")
"""A word in capitals: it stands for a name of the user, unless it is one of `KEPT`."""
FLAG = re.compile(r"--[a-z-]+(?: image=NAME| IN,OUT)?|\([^()]*(?:--[^()]*|judge=)\)")
"""A flag, which messages write in the way of the caller: the command line or Python."""
KEPT = {"IN", "OUT", "HF", "API"}
"""Words in capitals that are part of messages."""
VALUE = "\0"
"""What stands in the text of an f-string for a value."""


@cache
def texts_of_source() -> list[str]:
    """The texts in the modules of the harness, as the command line shows them, with a mark for each value."""
    texts = []
    for module in SOURCES.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(module.read_text("utf-8"))))
        chosen = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and is_call_of("for_caller", node.value):
                chosen[ast.unparse(node.targets[0])] = node.value
        for node in nodes:
            if isinstance(node, (ast.JoinedStr, ast.Constant)):
                texts.append(words_of(node, chosen))
    return texts


def is_call_of(name: str, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == name


def words_of(node: ast.AST, chosen: dict[str, ast.expr]) -> str:
    """The words of an expression on the command line; `chosen` are variables that a module sets by `for_caller`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else VALUE
    if isinstance(node, ast.JoinedStr):
        return "".join(words_of(part, chosen) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return words_of(chosen.get(ast.unparse(node.value), node.value), chosen)
    if isinstance(node, ast.Call) and is_call_of("for_caller", node):
        return words_of(node.args[0], chosen)
    if isinstance(node, ast.Call) and is_call_of("setting", node):
        try:
            given = [ast.literal_eval(argument) for argument in node.args]
        except ValueError:
            return VALUE
        with called_from_command_line():
            return setting(*given)
    return VALUE


def fixed_parts(message: str) -> list[str]:
    """The parts of a message between its placeholders."""
    parts = [""]
    for part in CAPITALS.split(FLAG.sub("NAME", message)):
        if CAPITALS.fullmatch(part) and part not in KEPT:
            parts.append("")
        else:
            parts[-1] += part
    return [part.strip() for part in parts if len(part.strip()) > 3]


def is_in_source(message: str) -> bool:
    """Whether each fixed part of a message stands in some text of the source."""
    return all(any(part in text for text in texts_of_source()) for part in fixed_parts(message))


def test_the_page_has_the_messages_that_users_meet() -> None:
    assert len(MESSAGES) >= 25
    assert len(MESSAGES) == len(set(MESSAGES))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_page_is_one_of_the_source(message: str) -> None:
    assert fixed_parts(message)
    assert is_in_source(message), (
        f"{message!r} is no longer a message: change docs/troubleshooting.md"
    )


def test_a_message_that_is_gone_is_found() -> None:
    assert not is_in_source("FOLDER is occupied by another evaluation; choose another --name")
