"""Imports go one way, and answers stay out of reach of whatever asks a model."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import snellen
from slow_model import PROTOCOLS, Slow
from snellen.building.benchmark import Benchmark
from snellen.building.builder import ANSWERS
from snellen.records import Answer, Sample, Turn
from snellen.runs.plan import plan_run
from snellen.runs.runner import run_plan
from snellen.runs.spec import run_spec
from source_trees import nodes

ROOT = Path(snellen.__file__).parent
LAYERS = (
    (
        "absent_names",
        "records",
        "errors",
        "callers",
        "installation",
        "own_code",
        "reasons",
        "registry",
        "common",
        "formats",
        "__version__",
    ),
    ("catalogue", "reformulation", "readers", "recognition", "building", "fetching"),
    ("extraction", "protocols"),
    ("models",),
    ("runs",),
    ("scoring", "metrics"),
    (
        "analysis",
        "report",
        "experiments",
        "interchange",
        "verification",
        "viewing",
    ),
    ("suites",),
    (
        "api",
        "benchmark_building",
        "given_arguments",
        "keyword_names",
        "listing",
        "training",
        "trainer_callback",
        "cli",
        "plugin_api",
        "__init__",
        "__main__",
    ),
)
"""A module imports from its own layer or from earlier ones: the table of docs/architecture.md."""
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
ASKING = ("protocols", "extraction", "models", "runs")
"""The rooms that put questions to a model."""
FILES = {
    str(path.relative_to(ROOT).with_suffix("")).replace("/", "."): path
    for path in sorted(ROOT.rglob("*.py"))
}


def nodes_of(module: str) -> tuple[ast.AST, ...]:
    return nodes(FILES[module])


def room(module: str) -> str:
    return module.partition(".")[0]


@cache
def imports(module: str, *, for_types: bool = True) -> tuple[tuple[str, int], ...]:
    """What a module imports of Snellen, late imports too: dotted names below `snellen`, and the line."""
    return tuple(_imports(module, for_types))


def _imports(module: str, for_types: bool) -> Iterator[tuple[str, int]]:
    blocks = [
        n
        for n in nodes_of(module)
        if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    ]
    unused = set() if for_types else {id(node) for block in blocks for node in ast.walk(block)}
    for node in nodes_of(module):
        if id(node) in unused:
            continue
        match node:
            case ast.ImportFrom(module=str(name), names=names, level=0) if name == "snellen":
                yield from ((alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module=str(name), names=names, level=0) if name.startswith(
                "snellen."
            ):
                yield from ((f"{name[8:]}.{alias.name}", node.lineno) for alias in names)
            case ast.ImportFrom(level=level) if level:
                raise AssertionError(f"{module}:{node.lineno}: imports are absolute here")
            case ast.Import(names=names):
                yield from (
                    (alias.name[8:], node.lineno)
                    for alias in names
                    if alias.name.startswith("snellen.")
                )


def test_every_room_has_a_layer() -> None:
    assert {room(module) for module in FILES} <= set(RANK)


def test_a_module_imports_only_from_its_own_layer_or_earlier_ones() -> None:
    assert not [
        (module, name, line)
        for module in FILES
        for name, line in imports(module)
        if RANK[room(name)] > RANK[room(module)]
    ]


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    def target(name: str) -> str | None:
        while name and name not in FILES and f"{name}.__init__" not in FILES:
            name = name.rpartition(".")[0]
        return name if name in FILES else f"{name}.__init__" if name else None

    assert_no_circle(
        {
            module: {
                t
                for name, _ in imports(module, for_types=False)
                if (t := target(name)) and t != module
            }
            for module in FILES
        }
    )


def assert_no_circle(graph: Mapping[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for other in graph[module]:
                visit(other, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


# --- suites ------------------------------------------------------------------------------------------------------

SUITES = re.compile(r"mmbench|reform.?eval|e-?hub|visdial", re.IGNORECASE)
EMBEDDED = re.compile(r"eye-?chart|snellen:tiny|easy.?vqa", re.IGNORECASE)
NAMES_SUITES = ("registry", "suites")
"""Where suites may be named: in the registry's strings, and by themselves."""
SHOWS_EMBEDDED = ("registry", "suites", "cli", "models")
"""The embedded benchmarks and models also serve as examples of the command line; models name those that ship."""


def test_no_module_outside_suites_names_a_suite() -> None:
    assert not [
        (module, word, line)
        for module in FILES
        if room(module) not in NAMES_SUITES
        for word, line in words_of(module)
        if SUITES.search(word) or (room(module) not in SHOWS_EMBEDDED and EMBEDDED.search(word))
    ]


def test_nothing_imports_a_suite() -> None:
    assert not [
        (module, name, line)
        for module in FILES
        if room(module) != "suites"
        for name, line in imports(module)
        if room(name) == "suites"
    ]


def test_no_suite_imports_another() -> None:
    assert not [
        (module, name)
        for module in FILES
        if room(module) == "suites"
        for name, _ in imports(module)
        if room(name) == "suites" and name.split(".")[1] != module.split(".")[1]
    ]


# --- protocols and reasons ---------------------------------------------------------------------------------------

PROTOCOL_CLASSES = {
    node.name
    for module in FILES
    if room(module) == "protocols"
    for node in nodes_of(module)
    if isinstance(node, ast.ClassDef)
    and any(isinstance(n, ast.FunctionDef) and n.name == "ask" for n in node.body)
} - {"Protocol"}
KNOWS_NO_PROTOCOL = (
    "runs",
    "scoring",
    "metrics",
    "analysis",
    "report",
    "experiments",
    "api",
    "cli",
)
TEXT_TESTS = {
    "startswith",
    "endswith",
    "partition",
    "rpartition",
    "split",
    "removeprefix",
    "removesuffix",
    "find",
}


def test_the_classes_of_protocols_are_found() -> None:
    assert {
        "Vanilla",
        "Circular",
        "Instability",
        "Likelihood",
        "Dialogue",
        "Blind",
        "Control",
        "Perturb",
        "Reasoning",
        "Repeat",
    } == PROTOCOL_CLASSES


def test_nothing_outside_their_room_asks_for_a_protocol_by_its_class() -> None:
    """What they are is declared (`snellen.protocols.base`), so that another package's protocol is no less."""
    assert not [
        (module, name, line)
        for module in FILES
        if room(module) != "protocols"
        for name, line in imports(module)
        if name.rpartition(".")[2] in PROTOCOL_CLASSES
    ]


@pytest.mark.parametrize(
    "rooms, names",
    [
        (KNOWS_NO_PROTOCOL, ("label", "protocol")),
        ((*KNOWS_NO_PROTOCOL, "protocols"), ("detail", "why", "notes", "message")),
    ],
    ids=["the label of a protocol", "the texts beside a reason"],
)
def test_no_meaning_is_read_out_of_what_is_said_to_people(
    rooms: tuple[str, ...], names: tuple[str, ...]
) -> None:
    assert not [
        (module, text, line)
        for module in FILES
        if room(module) in rooms
        for text, line in texts_asked_about(module)
        if text.rpartition(".")[2] in names
    ]


def texts_asked_about(module: str) -> Iterator[tuple[str, int]]:
    """Expressions that are compared with a text that is not empty, or taken apart as a text; and the line."""
    for node in nodes_of(module):
        match node:
            case ast.Call(func=ast.Attribute(value=asked, attr=attr)) if attr in TEXT_TESTS:
                yield ast.unparse(asked), node.lineno
            case ast.Compare(left=left, comparators=[right]):
                for asked, text in ((left, right), (right, left)):
                    if any(
                        isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value
                        for n in ast.walk(text)
                    ):
                        yield ast.unparse(asked), node.lineno


def test_no_two_rooms_import_each_other() -> None:
    doors = {
        (room(module), room(name))
        for module in FILES
        for name, _ in imports(module, for_types=False)
    }
    rooms = {"formats", "common", "readers", "reformulation", "building", "catalogue", "suites"}
    assert rooms <= {importing for importing, _ in doors}
    mutual = {(one, other) for one, other in doors if one < other and (other, one) in doors}
    assert not mutual, sorted(mutual)


def test_what_draws_distractors_knows_neither_readers_nor_entries_and_a_format_knows_no_data_set() -> (
    None
):
    doors = {(room(module), room(name)) for module in FILES for name, _ in imports(module)}
    assert {other for one, other in doors if one == "reformulation"}.isdisjoint(
        {"readers", "catalogue", "suites"}
    )
    assert {other for one, other in doors if one == "formats"} <= {
        "formats",
        "callers",
        "common",
        "errors",
        "records",
    }
    assert {other for one, other in doors if one == "readers"}.isdisjoint({"suites", "building"})


# --- answers -----------------------------------------------------------------------------------------------------

FORBIDDEN_NAMES = {"Answer", "open_answers", "ANSWERS"}
FORBIDDEN_TEXTS = ("answers.jsonl.gz", "snellen.scoring", "snellen.metrics")


@cache
def words_of(module: str) -> tuple[tuple[str, int], ...]:
    """Every name, attribute, imported name and text of a module, but for docstrings; and the line."""
    return tuple(_words_of(module))


def _words_of(module: str) -> Iterator[tuple[str, int]]:
    docs = {
        id(n.value)
        for n in nodes_of(module)
        if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    }
    for node in nodes_of(module):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name, node.lineno
            case ast.ImportFrom(module=str(name)):
                yield name, node.lineno
            case ast.Constant(value=str(text)) if id(node) not in docs:
                yield text, node.lineno


def test_what_asks_a_model_can_neither_name_nor_import_an_answer() -> None:
    assert not [
        (module, word, line)
        for module in FILES
        if room(module) in ASKING
        for word, line in words_of(module)
        if word in FORBIDDEN_NAMES or any(text in word for text in FORBIDDEN_TEXTS)
    ]


def test_the_registry_names_judges_and_metrics_only_as_strings() -> None:
    assert not [name for name, _ in imports("registry") if room(name) in ("scoring", "metrics")]


def test_the_files_answers_are_opened_in_one_place() -> None:
    builder_and_scoring = {"building.builder", "scoring.answers"}
    assert {
        module for module in FILES for word, _ in words_of(module) if word == "ANSWERS"
    } == builder_and_scoring
    assert {
        module for module in FILES for word, _ in words_of(module) if "answers.jsonl.gz" in word
    } == {"building.builder"}


def test_a_sample_has_no_field_that_could_hold_an_answer() -> None:
    assert Sample.__struct_fields__ == (
        "id",
        "benchmark",
        "question",
        "images",
        "options",
        "context",
        "turns",
        "regions",
        "group",
        "tags",
        "rewordings",
    )
    assert Turn.__struct_fields__ == ("question", "options")
    assert set(Answer.__struct_fields__) & set(Sample.__struct_fields__) == {"options", "tags"}


def test_a_run_is_the_same_without_the_file_of_answers(
    questions: Benchmark, tmp_path: Path
) -> None:
    hidden = shutil.copytree(questions.folder, tmp_path / "hidden")
    (hidden / ANSWERS).unlink()
    journals = []
    for folder in (questions.folder, hidden):
        spec = run_spec(
            {
                "models": ("slow",),
                "benchmarks": (str(folder),),
                "protocols": PROTOCOLS,
                "runs": str(tmp_path),
                "name": f"run-{folder.name}",
            }
        )
        run_plan(Slow(), plan_run(spec))
        journals.append((tmp_path / f"run-{folder.name}" / "journal-0.jsonl").read_bytes())
    assert journals[0] == journals[1] != b""
