"""Every bench runs at its smallest size, or stands here with the reason why tests do not run it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parent.parent / "bench"

SMALLEST = {
    "acuity": "--observers 1",
    "aggregate": "--samples 400 --presentations 2",
    "audit_coverage": "--audits 2",
    "blind_replies": str(BENCH / "held_out" / "natural-h.jsonl"),
    "build": "--pictures 4 --captions 8 --rows 40",
    "card_rows": "",
    "compare": "--questions 600 --benchmarks 2",
    "failures": "--runs 2 --questions 40",
    "fetching": "--seeds 1",
    "gate": "--releases 30 --only 4",
    "interval_coverage": "--scale 0.002 --family share",
    "lint": "200",
    "mmbench": "--questions 8 --kilobytes 4",
    "published_parts": "",
    "report_size": "2 2 report.html",
    "scoring": "--images 20 --references 2 --choices 24 --rounds 1",
    "sequential": "--runs 1",
    "unfinished": "--runs 2 --questions 30",
    "view": "--questions 50 --models 2 --small-runs 2 --rounds 1",
    "writing": "--questions 50",
}
"""Arguments that make a bench small: each takes three seconds of CPU at most, and all of them 20."""
SMALLEST_SLOW = {
    "arena": "--coverage 2",
    "arena_attacks": "--live --seconds 3",
    "circular": "--questions 20 --rounds 1",
    "extract": "",
    "imagenetvc": "--classes 2 --questions 1",
    "lookahead": "--pictures 2 --repetitions 1 --threads 1",
    "planted_faults": "--questions 20 --audits 2",
    "scale": "--sizes 40,80",
    "serve": "--seconds 2 --clients 4 --rate 20",
    "whitebox": "--size small --counts",
}
"""The same for those that take 4 to 15 seconds, most of them to load transformers: run by `make slow`."""
NOT_RUN = {
    "acuity_constant": "needs tesseract or the weights of a classifier, and minutes",
    "acuity_readers": "needs tesseract and the weights of a classifier, and half an hour",
    "api": "needs the pinned revision, and 22 seconds of CPU for its shortest scene",
    "commands": "needs the pinned revision; `make speed` runs it",
    "compared": "needs checkouts of other harnesses and of the makers",
    "equality": "asks each architecture several ways: minutes; tests/test_bench.py runs its parts",
    "harness_rules": "needs clones of other harnesses and of repositories with published replies",
    "mixed_windows": "asks 61 architectures, each against a witness: half an hour",
    "mutation": "copies the repository and runs its tests for each mutant: minutes",
    "pages": "opens every kind of page in a browser: minutes",
    "ocrbench_v2": "needs a clone of the makers' repository",
    "omnidocbench": "needs a clone of the makers' repository",
    "parity": "needs checkouts of other harnesses",
    "prompts_of_others": "needs checkouts of other harnesses",
    "reading_error": "needs clones of repositories with published replies",
    "reading_of_others": "needs checkouts of other harnesses",
    "real_prediction_files": "needs clones of repositories with files of predictions",
    "real_replies": "needs clones of repositories with published replies",
    "reliability": "kills and damages runs for three minutes",
    "reproductions": "needs clones of repositories with published replies",
    "run_speed": "loads and asks a model several ways: more than 25 seconds of CPU at its smallest",
}
"""Benches that tests do not run, with the reason."""
PARTS = {
    "equality_registered",
    "parity_groups",
    "parity_replies",
    "probe_cost",
    "published_replies",
    "real_sources",
    "unseen_replies",
}
"""Modules that other benches import."""


def run_bench(name: str, arguments: str, folder: Path) -> str:
    """Run a bench in a folder, and return what it prints."""
    if "snellen_lab" in (BENCH / f"{name}.py").read_text("utf-8"):
        pytest.importorskip("snellen_lab", reason="the bench is of the package snellen-lab")
    done = subprocess.run(
        [sys.executable, str(BENCH / f"{name}.py"), *shlex.split(arguments)],
        cwd=folder,
        env=os.environ | {"SNELLEN_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_every_bench_has_its_smallest_size_or_a_reason() -> None:
    named = [*SMALLEST, *SMALLEST_SLOW, *NOT_RUN, *PARTS]
    assert sorted(named) == sorted(path.stem for path in BENCH.glob("*.py"))


@pytest.mark.parametrize("name", SMALLEST)
def test_a_bench_runs_at_its_smallest_size(name: str, tmp_path: Path) -> None:
    assert run_bench(name, SMALLEST[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST_SLOW)
def test_a_bench_that_takes_longer_runs_at_its_smallest_size(name: str, tmp_path: Path) -> None:
    assert run_bench(name, SMALLEST_SLOW[name], tmp_path)
