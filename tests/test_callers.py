"""Messages name settings as the caller writes them: flags on the command line, keywords in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.building.spec import BuildSpec, EntrySpec, ReformSpec, TableSpec
from snellen.callers import called_from_command_line, flag_of, for_caller, setting
from snellen.common.record_fields import record_fields
from snellen.experiments.compare_spec import CompareSpec, SubsetSpec
from snellen.runs.spec import ExecutionSpec, QuestionSpec, ScoringSpec
from source_trees import nodes

ROOT = Path(sn.__file__).parent
FORMS = (
    EntrySpec,
    TableSpec,
    BuildSpec,
    ReformSpec,
    QuestionSpec,
    ExecutionSpec,
    ScoringSpec,
    CompareSpec,
    SubsetSpec,
)
FIELDS = {name: field for form in FORMS for name, field in record_fields(form).items()}
FLAG = re.compile(r"(?<![\w-])(?:--[a-z][a-z-]*|-[op](?=[ ']))")
"""A flag of a command: `--limit`, `-p circular`."""
PACKAGES = ("src/snellen", "packages/snellen-server/src", "packages/snellen-lab/src")
OF_COMMANDS = (
    "cli/",
    "viewing/",  # `snellen view`
    "models/worker.py",  # `snellen worker`
    "verification/datasheet_page.py",  # writes commands for readers of the page
)
"""What only commands reach."""
KEPT = (
    "score with --judge MODEL (judge=MODEL)",
    "it needs log-likelihoods, not shares (--likelihood-rule mean)",
)
"""Reasons that are stored with scores, which people read from either side."""
WHOLE_COMMAND = re.compile(r"`(?:snellen|inspect|ray|hf) [^`]*`|^(?:trackio: trackio|snellen) .*")
"""It stays whole where Python has no call for it."""


def python_files() -> list[Path]:
    """The modules of the harness and, in a clone, of the lab and the server."""
    roots = [ROOT]
    for package in PACKAGES[1:]:
        roots += (Path(__file__).parents[1] / package).glob("snellen_*")
    files = []
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            place = str(path.relative_to(root))
            if not place.startswith(OF_COMMANDS) and path != ROOT / "callers.py":
                files.append(path)
    return files


def name_of(call: ast.AST) -> str:
    return ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts of a module with their lines, without docstrings, helps of flags, and words for the command line.

    An f-string is one text, with a blank in the place of each value.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if name_of(node) == "Option":
            continue
        if isinstance(node, ast.Call) and name_of(node) == "for_caller":
            yield from messages(ast.Expression(ast.Tuple([node.args[1]])))
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else " " for each in node.values]
            yield node.lineno, "".join(map(str, parts))
            for each in node.values:
                if isinstance(each, ast.FormattedValue):
                    yield from messages(each)
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        yield from messages(node)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_field_is_its_flag_on_the_command_line_and_its_keyword_in_python(name: str) -> None:
    assert flag_of(name) == FIELDS[name].flag
    assert setting(name) == f"{name}=..."
    with called_from_command_line():
        assert setting(name) == FIELDS[name].flag


def test_no_message_that_python_shows_names_a_flag() -> None:
    found = []
    for path in python_files():
        for line, text in messages(ast.parse(path.read_text())):
            rest = WHOLE_COMMAND.sub("", text)
            is_flag_alone = FLAG.fullmatch(text.strip(" `"))  # of a command that is put together
            if FLAG.search(rest) and text not in KEPT and not is_flag_alone:
                found.append((str(path), line, text))
    assert not found


KEYWORD = re.compile(r"\bsn\.\w+\(|\b(?:protocols|benchmarks|metrics|columns|models)='")


def test_no_message_of_a_command_names_a_keyword_of_python() -> None:
    found = []
    for path in sorted((ROOT / "cli").rglob("*.py")):
        for line, text in messages(ast.parse(path.read_text())):
            if KEYWORD.search(text):
                found.append((str(path), line, text))
    assert not found


def test_words_for_callers_are_chosen_when_a_message_is_written() -> None:
    """At import nobody has called yet."""
    found = []
    for path in python_files():
        late: set[int] = set()
        for node in nodes(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                late.update(id(inner) for part in node.body for inner in ast.walk(part))
        for node in nodes(path):
            if (
                name_of(node) in ("setting", "for_caller", "source_setting")
                and id(node) not in late
            ):
                found.append((str(path.relative_to(ROOT)), ast.unparse(node)))
    assert not found


def test_values_are_written_as_either_side_writes_them() -> None:
    def written() -> list[str]:
        return [
            setting("limit", 5),
            setting("max_time", 0.5),
            setting("no_images", True),
            setting("runs", "FOLDER"),
            setting("columns", {"answer": "label"}),
            setting("columns", {"options": ["a", "b"]}),
            setting("where", "l2 == 'x'", is_quoted=True),
        ]

    assert written() == [
        "limit=5",
        "max_time=0.5",
        "no_images=True",
        "runs='FOLDER'",
        "columns={'answer': 'label'}",
        "columns={'options': ['a', 'b']}",
        "where=\"l2 == 'x'\"",
    ]
    with called_from_command_line():
        assert written() == [
            "--limit 5",
            "--max-time 0.5",
            "--no-images",
            "--runs FOLDER",
            "--column answer=label",
            "--column options=a --column options=b",
            "--where \"l2 == 'x'\"",
        ]
    assert for_caller("run", "call") == "call"


def test_one_mistake_is_told_to_both_in_their_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("question,A,B,answer\nIs it day?,yes,no,A\n")
    with pytest.raises(sn.DataError) as told:
        sn.build("mine.csv")
    assert str(told.value) == (
        "mine.csv: no column holds images; name it with columns={'image': 'NAME'}, or say no_images=True if it "
        "is meant"
    )
    _, _, shown = small.command(capsys, "build", "mine.csv")
    assert shown.strip() == (
        "snellen: mine.csv: no column holds images; name it with --column image=NAME, or say --no-images if it "
        "is meant"
    )
    # Python speaks Python again after a command has run in the same process.
    with pytest.raises(sn.DataError, match="no_images=True"):
        sn.build("mine.csv")
