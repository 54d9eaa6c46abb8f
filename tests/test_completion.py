"""What a shell is told when a word is to be completed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from snellen.cli import cli
from snellen.cli.completion import BashWords

VARIABLE = "_SNELLEN_COMPLETE"
Complete = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Complete:
    def completed(*words: str) -> list[str]:
        """What bash is given for the last of these words, as it divides them."""
        monkeypatch.setenv("COMP_WORDS", "\n".join(("snellen", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        lines = BashWords(cli, {}, "snellen", VARIABLE).complete().splitlines()
        return [line.partition(",")[2] for line in lines if not line.startswith("file")]

    return completed


def test_verbs_flags_and_names_are_completed(complete: Complete) -> None:
    assert complete("re") == ["report", "reform", "reconcile"] and "run" in complete("")
    assert complete("run", "any", "eyechart/co") == ["eyechart/colour", "eyechart/count"]
    assert complete("run", "--likelihood-r") == ["--likelihood-rule"]
    assert complete("run", "-p", "circ") == complete("run", "--protocol", "circ") == ["circular"]
    assert complete("run", "--method", "b") == ["both"] and complete("list", "prot") == [
        "protocols"
    ]
    assert complete("score", "--extractor", "st") == ["standard", "strict"]
    assert complete("rate", "fo") == ["form"] and complete("paper", "eye") == ["eyechart"]
    assert (
        complete("run", "a", "b", "--no-rep") == ["--no-report"]
        and complete("nosuchverb", "x") == []
    )


def test_bash_gets_what_follows_the_colon_at_which_it_divided_the_word(complete: Complete) -> None:
    assert complete("run", "snellen", ":", "ti") == ["tiny", "tiny-xs"]
    assert complete("run", "snellen", ":")[:2] == [
        "tiny",
        "tiny-xs",
    ] and "snellen:tiny" in complete("run", "sn")
    assert complete("run", "snellen", ":", "tiny", "easy") == ["easy-vqa", "easy-vqa"]


def test_runs_and_the_models_of_the_cache_are_looked_for_anew(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("runs/one", "runs/two", "other/three"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "manifest.json").write_text("{}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "hub/models--org--name").mkdir(parents=True)
    assert complete("score", "") == ["runs/one", "runs/two"] and complete("report", "runs/o") == [
        "runs/one"
    ]
    assert complete("report", "other/") == ["other/three"] and complete("lint", "runs/t") == [
        "runs/two"
    ]
    assert (
        complete("report", "eyechart/cou") == complete("lint", "eyechart/cou") == ["eyechart/count"]
    )
    assert complete("run", "hf", ":", "o") == ["org/name"] and complete(
        "run", "replay", ":", "r"
    ) == [
        "runs/one",
        "runs/two",
    ]


def test_a_new_suite_or_benchmark_is_completed_at_once(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete("run", "x", "quo") == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/quokkas.toml").write_text(
        'name = "quokkas"\ntitle = "Quokkas"\nformulation = "choice"\n'
        '[source]\nreader = "table"\nparams = { file = "z.csv" }\n'
    )
    monkeypatch.setenv("SNELLEN_SUITES", str(tmp_path / "mine"))
    assert complete("run", "x", "quo") == ["quokkas"]


def test_bash_itself_completes_and_loads_no_more_than_the_verb(tmp_path: Path) -> None:
    program = tmp_path / "snellen"
    program.write_text(
        f"#!{sys.executable}\nimport atexit, json, sys\n"
        f"atexit.register(lambda: open({str(tmp_path / 'loaded')!r}, 'w').write(json.dumps(sorted(sys.modules))))\n"
        "from snellen.cli import main\nmain()\n"
    )
    program.chmod(0o755)
    script = (
        f'eval "$({VARIABLE}=bash_source snellen)"\n'
        "COMP_WORDS=(snellen run snellen : ti) COMP_CWORD=4\n_snellen_completion snellen\necho ${COMPREPLY[@]}\n"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "tiny tiny-xs\n" and done.stderr == ""
    loaded = json.loads((tmp_path / "loaded").read_text())
    assert "snellen.cli.verbs.run" in loaded and not {
        "pyarrow",
        "numpy",
        "snellen.api",
        "snellen.cli.verbs.list",
    } & set(loaded)
