"""The examples in docstrings of public names run, and each name of `snellen` has one."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import snellen as sn
from snellen import plugin_api

WITHOUT_EXAMPLE = {"AbsentBenchmarkError"}
"""It needs a network that fails."""


def has_example(value: Any) -> bool:
    """Whether the docstring of a name, or of a public member of a class, has an example."""
    return any(test.examples for test in doctests_of(value))


def doctests_of(value: Any) -> Iterator[doctest.DocTest]:
    """The docstrings of a function, or of a class and its own public members, as tests."""
    finder = doctest.DocTestFinder(recurse=False)
    members = [value]
    if inspect.isclass(value):
        members += [member for name, member in vars(value).items() if not name.startswith("_")]
    for member in members:
        if callable(member) or isinstance(member, property):
            module = vars(sys.modules[value.__module__])
            yield from finder.find(member, value.__name__, globs=module)


def public_names() -> dict[str, Any]:
    names = {}
    for module in (sn, plugin_api):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                names[name] = value
    return names


WITH_EXAMPLE = sorted(name for name, value in public_names().items() if has_example(value))


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_examples_of_public_names_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides the names of its module, an example may use `sn`, `json`, `Path` and `Image`."""
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    for test in doctests_of(public_names()[name]):
        test.globs.update(sn=sn, json=json, Path=Path, Image=Image)
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


def test_each_name_of_the_library_has_an_example() -> None:
    callables = {
        name
        for name in sn.__all__
        if inspect.isclass(getattr(sn, name)) or inspect.isfunction(getattr(sn, name))
    }
    assert callables - set(WITH_EXAMPLE) == WITHOUT_EXAMPLE


# --- the names that other packages build on --------------------------------------------------------------------------

SECTIONS_WITH_EXAMPLES = (
    "A model",
    "A service",
    "A protocol",
    "A metric",
    "A reader",
    "A type of question, a source of distractors",
    "A suite",
    "How replies are read",
    "Files of questions",
    "Tables of the report",
    "Errors",
)
"""Sections of plugin_api.pyi in which each function and class has an example."""
MADE_BY_SNELLEN = {
    "AnnotatedSource",
    "AskedModel",
    "AskedQuestion",
    "PromptRenderer",
    "PromptTemplates",
    "ReportedRun",
    "SourceContext",
}
"""Records that a plug-in receives and never makes."""
NEEDS_FILES = {"packaged_templates"}
"""It reads a file of a package."""
COUNTS_OVER_A_CORPUS = {"CorpusCountMetric"}
"""docs/metrics.md shows it at work."""


def names_by_section() -> dict[str, list[str]]:
    """Names of `snellen.plugin_api` by the comments that head them."""
    sections: dict[str, list[str]] = {}
    title = ""
    for line in Path(plugin_api.__file__).with_suffix(".pyi").read_text("utf-8").splitlines():
        if line.startswith("# "):
            title = line.removeprefix("# ")
            sections[title] = []
        elif match := re.match(r"from \S+ import (\w+) as", line):
            sections[title].append(match[1])
    return sections


@pytest.mark.parametrize("section", SECTIONS_WITH_EXAMPLES)
def test_what_plugins_are_written_with_has_examples(section: str) -> None:
    callables = public_names()
    names = {name for name in names_by_section()[section] if name in callables}
    exceptions = MADE_BY_SNELLEN | NEEDS_FILES | COUNTS_OVER_A_CORPUS
    assert names - set(WITH_EXAMPLE) - exceptions == set()
