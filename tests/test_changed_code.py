"""A metric, judge or extractor of the user that was changed between two scorings is noticed, however it was named."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import small
import snellen as sn
from snellen import registry
from snellen.errors import DataError

Command = Callable[..., tuple[int, str, str]]
TABLE = "index\tquestion\tanswer\nq1\tWhich colour?\tred\nq2\tAnd here?\tblue\n"


class Case(NamedTuple):
    """Own code before a change, and what is changed in which file."""

    flags: tuple[str, str]
    files: dict[str, str]
    changed_file: str


def reads(source: str) -> str:
    """Return the code of a metric of the name `grade` that returns the value of an expression."""
    return f"def grade(reply, reference):\n    return {source}\n"


CASES = [
    Case(("--metric", "m1.py:grade"), {"m1.py": "W = 0.2\n" + reads("W")}, "m1.py"),
    Case(
        ("--metric", "m2.py:grade"),
        {
            "m2.py": "from h2 import weight\n" + reads("weight()"),
            "h2.py": "W = 0.2\ndef weight():\n    return W\n",
        },
        "h2.py",
    ),
    Case(
        ("--metric", "m3.py:grade"),
        {
            "m3.py": "import h3\n" + reads("h3.weight()"),
            "h3.py": "from h3b import weight\n",
            "h3b.py": "def weight():\n    return 0.2\n",
        },
        "h3b.py",
    ),
    Case(
        ("--metric", "m4.py:grade"),
        {
            "m4.py": "def grade(reply, reference):\n    import h4\n    return h4.W\n",
            "h4.py": "W = 0.2\n",
        },
        "h4.py",
    ),
    Case(
        ("--metric", "own_package.metrics:grade"),
        {
            "own_package/__init__.py": "",
            "own_package/metrics.py": "from own_package.weights import W\n" + reads("W"),
            "own_package/weights.py": "W = 0.2\n",
        },
        "own_package/weights.py",
    ),
    Case(
        ("--metric", "own_wheel.metrics:grade"),
        {
            "site-packages/own_wheel/__init__.py": "",
            "site-packages/own_wheel/metrics.py": "from own_wheel.weights import weight\n"
            + reads("weight()"),
            "site-packages/own_wheel/weights.py": "def weight():\n    return 0.2\n",
        },
        "site-packages/own_wheel/weights.py",
    ),
    Case(
        ("--judge", "j.py:kind"),
        {"j.py": "W = 0.2\ndef kind(question, reply, reference):\n    return W\n"},
        "j.py",
    ),
    Case(
        ("--extractor", "x.py:last"),
        {"x.py": "W = 0.2\ndef last(reply, options, labels):\n    return 0 if W else None\n"},
        "x.py",
    ),
]


@pytest.fixture
def snellen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command line in a folder with two runs of a table of open questions."""
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    (folder / "site-packages").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend(str(folder / "site-packages"))
    # A module that is edited within a second would otherwise be loaded from its compiled file.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    groups: tuple[registry.Group, ...] = ("metrics", "extractors")
    names_before = {group: dict(registry._NAMES[group]) for group in groups}
    for group in groups:
        monkeypatch.setitem(registry._NAMES, group, names_before[group])
    Path("open.tsv").write_text(TABLE)

    def command(*words: str) -> tuple[int, str, str]:
        """Run a command as a new process would: with the user's modules as they are now."""
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(folder)):
                del sys.modules[name]
        importlib.invalidate_caches()
        for group in groups:
            registry._NAMES[group] = dict(names_before[group])
        return small.command(capsys, *words)

    assert command("build", "open.tsv", "--no-images")[0] == 0
    for name, model in (("a", "snellen:oracle"), ("b", "snellen:always-a")):
        code, _, err = command("run", model, "open", "--name", name)
        assert code == 0, err
    return command


def test_code_that_was_changed_between_two_scorings_is_not_compared(snellen: Command) -> None:
    for case in CASES:
        for file, text in case.files.items():
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(text)
        assert snellen("score", "runs/a", *case.flags)[0] == 0, case
        assert "changed" not in snellen("report", "runs/a")[2], case
        edited = Path(case.changed_file).read_text().replace("0.2", "0.9")
        Path(case.changed_file).write_text(edited)

        # The stored number of one run says that its code has changed, without importing it.
        assert f"{case.changed_file} has changed since" in snellen("report", "runs/a")[2], case
        assert snellen("score", "runs/b", *case.flags)[0] == 0, case
        again = f"`snellen score runs/a runs/b {' '.join(case.flags)}`"
        for verb in ("compare", "card"):
            code, out, err = snellen(verb, "runs/a", "runs/b", "--scoring", case.flags[1])
            assert code == 2 and not out, case
            assert "has changed between the scorings" in err and again in err, (case, err)
        assert f"score all of them again: {again}" in snellen("compare", "runs/a", "runs/b")[2]

        # Scoring both again heals it, and says whose values it replaces.
        code, _, err = snellen("score", "runs/a", "runs/b", *case.flags)
        assert code == 0 and f"runs/a: {case.flags[1]} has changed since" in err, (case, err)
        assert "runs/b: " + case.flags[1] not in err, case
        assert snellen("compare", "runs/a", "runs/b", "--scoring", case.flags[1])[0] == 0, case


def test_a_comment_or_a_value_that_scoring_stores_is_not_a_change(snellen: Command) -> None:
    Path("m.py").write_text("SEEN = {}\n" + reads("SEEN.setdefault(reply, 0.5)"))
    assert snellen("score", "runs/a", "--metric", "m.py:grade")[0] == 0
    Path("m.py").write_text("# Of replies.\n" + Path("m.py").read_text())
    assert snellen("score", "runs/b", "--metric", "m.py:grade")[0] == 0
    assert snellen("compare", "runs/a", "runs/b", "--scoring", "grade")[0] == 0


def test_a_scoring_of_an_earlier_version_has_not_recorded_its_code(snellen: Command) -> None:
    Path("m.py").write_text(reads("0.5"))
    assert snellen("score", "runs/a", "runs/b", "--metric", "m.py:grade")[0] == 0
    [stored] = Path("runs/b/scores").glob("*/scoring.json")
    scoring = json.loads(stored.read_bytes())
    del scoring["code"]
    stored.write_text(json.dumps(scoring))
    code, _, err = snellen("compare", "runs/a", "runs/b")
    assert code == 0
    assert "scored by code of your own, which not all of them have recorded" in err
    assert "`snellen score runs/a runs/b --metric m.py:grade`" in err


def test_a_metric_as_an_object_is_digested_with_its_constants(
    snellen: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, float] = {}
    weight = 0.2

    def grade(reply: str, reference: str) -> float:
        return seen.setdefault(reply, weight)

    first = sn.score("runs/a", metrics=grade)
    second = sn.score("runs/b", metrics=grade)
    assert sn.compare(first, second).differences
    weight = 0.9
    changed = sn.score("runs/b", metrics=grade)
    with pytest.raises(DataError, match=r"different versions of .*:grade.*score both again"):
        sn.compare(first, changed)


def test_a_plugin_is_digested_although_no_flag_names_it(snellen: Command) -> None:
    def plugin(value: float) -> Any:
        return lambda reply, references: value

    registry.register("metrics", "plugged", plugin(0.2))
    first = sn.score("runs/a", metrics="plugged")
    registry.register("metrics", "plugged", plugin(0.9))
    second = sn.score("runs/b", metrics="plugged")
    with pytest.raises(DataError, match="different versions of plugged"):
        sn.compare(first, second)
