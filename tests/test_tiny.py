"""The embedded models: small, offline, through the same code as any model of the hub."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest

import snellen as sn

WEIGHTS = Path(str(files("snellen.models"))) / "weights"
CHOICES = [
    "shape",
    "place",
    "colour",
    "count",
    "size",
    "exists",
    "odd",
    "position",
    "relation",
    "match",
    "caption-choice",
]
BENCHMARKS = [f"eyechart/{task}" for task in CHOICES]
PINNED = {
    "tiny": "94a2fa42319d6b5bdb59fc89e6e56b51f897ad952a87ec8ab9f30bc9fbbbc8ed",
    "tiny-xs": "ebbda59716114a62bec944cac4cbd4622a6dcd2dcbe4d1a6ab143182f1971211",
}
"""sha256 of model.safetensors, as training/tiny/README.md states it."""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", PINNED)
def test_the_shipped_weights_are_the_ones_that_were_measured(name: str) -> None:
    assert sha256((WEIGHTS / name / "model.safetensors").read_bytes()).hexdigest() == PINNED[name]


def test_both_models_together_stay_small() -> None:
    sizes = {name: sum(f.stat().st_size for f in (WEIGHTS / name).iterdir()) for name in PINNED}
    assert sizes["tiny"] <= 11e6 and sizes["tiny-xs"] <= 1.2e6


@pytest.mark.slow
def test_they_load_through_the_auto_classes_without_a_network() -> None:
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "import socket; socket.socket.connect = None\n"
        "from transformers import AutoModelForImageTextToText, AutoProcessor\n"
        "processor = AutoProcessor.from_pretrained(sys.argv[1])\n"
        "model = AutoModelForImageTextToText.from_pretrained(sys.argv[1])\n"
        "print(type(processor).__name__, type(model).__name__)"
    )
    words = [sys.executable, "-c", code, str(WEIGHTS / "tiny")]
    shown = subprocess.run(
        words, check=True, capture_output=True, text=True, env={"HF_HUB_OFFLINE": "1"}
    ).stdout
    assert shown.split() == ["LlavaProcessor", "LlavaForConditionalGeneration"]


@pytest.fixture(scope="module")
def easy(tmp_path_factory: pytest.TempPathFactory) -> sn.Results:
    """Both models on the easy level of the choice benchmarks, by generation and by likelihood."""
    return sn.evaluate(
        ["snellen:tiny", "snellen:tiny-xs"],
        BENCHMARKS,
        ["instability?m=1", "likelihood"],
        where="level == 'easy'",
        limit=16,
        runs=tmp_path_factory.mktemp("runs"),
    )


def mean(results: sn.Results, model: str, protocol: str) -> float:
    value = results.value("accuracy", model=model, protocol=protocol)
    assert value is not None
    return value


@pytest.mark.slow
def test_tiny_sees_and_answers_by_mark(easy: sn.Results) -> None:
    assert mean(easy, "snellen:tiny", "instability?m=1") >= 0.75
    assert mean(easy, "snellen:tiny", "likelihood") >= 0.80


@pytest.mark.slow
def test_tiny_xs_sees_more_than_it_can_say_by_mark(easy: sn.Results) -> None:
    by_mark, by_likelihood = (
        mean(easy, "snellen:tiny-xs", name) for name in ("instability?m=1", "likelihood")
    )
    assert by_likelihood >= 0.7
    assert by_likelihood - by_mark >= 0.3


@pytest.mark.slow
def test_the_hard_level_stays_hard(easy: sn.Results) -> None:
    hard = sn.evaluate("snellen:tiny", BENCHMARKS, "likelihood", where="level == 'hard'", limit=24)
    assert (
        mean(hard, "snellen:tiny", "likelihood") <= mean(easy, "snellen:tiny", "likelihood") - 0.15
    )
