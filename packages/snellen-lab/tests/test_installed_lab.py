"""The wheels of snellen and snellen-lab in a fresh environment: every verb of the lab works, or names what it needs.

Run by `make installed`, not by `make test`, as the environment is installed from a package index.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from environments import Environment, Line, build_wheels, check_lines, verbs_of, write_inputs
from test_installed import VERBS

pytestmark = pytest.mark.installed


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheels of snellen and snellen-lab, and with no extra."""
    wheels = build_wheels(tmp_path_factory.mktemp("wheels"), "snellen", "snellen-lab")
    return Environment(tmp_path_factory.mktemp("lab"), *map(str, wheels.values()))


@pytest.fixture(scope="session")
def work(lab: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newcomer's folder: files that verbs take, a benchmark and two runs."""
    folder = tmp_path_factory.mktemp("work")
    write_inputs(folder)
    for line in (
        "build questions.tsv --images pictures/",
        "run my_model.py:Sentences questions --name sentences",
        "run snellen:oracle questions -p circular --name oracle",
    ):
        finished = lab.snellen(shlex.split(line), folder)
        assert finished.code == 0, (line, finished.err)
    return folder


VERBS_OF_LAB: dict[str, tuple[Line, ...]] = {
    "agree": (("agree runs/sentences", "no reply has a label yet"),),
    "audit": (
        "audit questions --by ann --page form.html",
        ("audit runs/sentences", "none of the drawn replies has a label yet"),
    ),
    "lint": ("lint questions", "report questions"),
    "acuity": ("acuity snellen:oracle --test letter-size --budget 12",),
    "rate": (
        "rate form runs/sentences runs/oracle --study rating.toml --to plans",
        ("rate table plans", "no ratings yet"),
    ),
    "study": ("study study.toml snellen:oracle",),
    "analyse": ("analyse", "analyse backbones -o backbones.html -o backbones.svg"),
    "paper": ("paper", "paper reform-eval 9", "paper --check"),
    "sample": (
        "sample questions --count 6",
        "sample --study runs/sentences runs/oracle --ratios 0.5",
    ),
}
"""Small inputs of each verb, as in tests/test_installed.py."""


def test_every_verb_of_the_lab_is_tried_here(lab: Environment, tmp_path: Path) -> None:
    assert verbs_of(lab, tmp_path) == {*VERBS, *VERBS_OF_LAB}


@pytest.mark.parametrize("verb", VERBS_OF_LAB)
def test_a_verb_of_the_lab_works_or_names_what_it_needs(
    verb: str, lab: Environment, work: Path
) -> None:
    check_lines(lab, VERBS_OF_LAB[verb], work)
