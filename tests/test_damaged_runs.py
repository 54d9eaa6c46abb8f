"""Runs whose files were cut off, emptied or lost, and runs that an earlier format holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import small
import snellen as sn
from slow_model import Slow
from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.errors import StoreError
from snellen.runs.mending import DAMAGED, mend_run
from snellen.runs.run_folder import MANIFEST_COPY, RUN_MANIFEST, read_manifest


def asked(benchmark: Benchmark, folder: Path) -> Path:
    sn.evaluate(Slow(), str(benchmark.folder), ("vanilla",), runs=folder, name="run")
    return folder / "run"


def accuracy(run: Path) -> float | None:
    return sn.score(run).value("accuracy", benchmark="mine", protocol="vanilla")


@pytest.mark.parametrize("kept", [0, 1, 50, 300, 900])
@pytest.mark.parametrize("has_copy", [True, False])
def test_mend_restores_a_manifest_that_was_cut_off(
    kept: int,
    has_copy: bool,
    questions: Benchmark,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = asked(questions, tmp_path)
    before, expected = read_manifest(run), accuracy(run)
    whole = (run / RUN_MANIFEST).read_bytes()
    (run / RUN_MANIFEST).write_bytes(whole[:kept])
    if not has_copy:
        (run / MANIFEST_COPY).unlink()

    code, _, error = small.command(capsys, "score", str(run))
    assert code == 2 and error.count("\n") == 1 and f"snellen mend {run}" in error
    code, printed, _ = small.command(capsys, "mend", str(run))
    assert (
        code == 0 and "restored from its copy" in printed
    ) or "recreated from the journals" in printed

    if has_copy:
        assert read_manifest(run) == before
    if has_copy or kept >= 300:  # what is left says where the benchmark is
        assert accuracy(run) == expected
    if kept:
        assert (run / DAMAGED / RUN_MANIFEST).read_bytes() == whole[:kept]

    # The run's own command asks nothing again, and its manifest is whole.
    model = Slow()
    sn.evaluate(model, str(questions.folder), ("vanilla",), runs=tmp_path, name="run")
    assert model.asked == []
    restored = read_manifest(run)
    assert (restored.fingerprint, restored.templates) == (before.fingerprint, before.templates)
    assert restored.authors_by_journal == {}


def test_a_manifest_made_from_journals_is_refused_for_another_model(
    questions: Benchmark, tmp_path: Path
) -> None:
    class Other(Slow):
        name = "other"

        def fingerprint(self) -> dict[str, str]:
            return {"model": "other"}

    run = asked(questions, tmp_path)
    (run / MANIFEST_COPY).unlink()
    (run / RUN_MANIFEST).write_bytes((run / RUN_MANIFEST).read_bytes()[:40])
    mend_run(run)
    with pytest.raises(StoreError, match=r"the reply is from .*, but this run belongs to"):
        sn.evaluate(Other(), str(questions.folder), ("vanilla",), runs=tmp_path, name="run")


@pytest.mark.parametrize("loss", ["emptied", "removed"])
def test_scoring_a_run_without_its_journal_leaves_the_results(
    loss: str, questions: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = asked(questions, tmp_path)
    files = {path.name: path.read_bytes() for path in run.glob("*.json*")}
    journal = run / "journal-0.jsonl"
    if loss == "emptied":
        journal.write_bytes(b"")
    else:
        journal.unlink()
    code, _, error = small.command(capsys, "score", str(run))
    assert code == 2 and "journal-0.jsonl is empty or missing" in error
    for name in ("results.json", "scores.jsonl", "scoring.json"):
        assert (run / name).read_bytes() == files[name]

    model = Slow()
    sn.evaluate(model, str(questions.folder), ("vanilla",), runs=tmp_path, name="run")
    assert model.asked and accuracy(run) is not None


def test_fewer_replies_than_at_the_last_scoring_are_announced(
    questions: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = asked(questions, tmp_path)
    journal = run / "journal-0.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    code, printed, error = small.command(capsys, "score", str(run))
    fewer = f"contain {len(lines) - 1} replies, but it was scored with {len(lines)}"
    assert code == 0 and fewer in printed + error


# --- older and unknown fields -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["own questions", "benchmark"])
def test_unknown_fields_of_an_older_build_are_left_out(
    kept: str, questions: Benchmark, tmp_path: Path
) -> None:
    run = asked(questions, tmp_path)
    expected = accuracy(run)
    folders = [run / "questions/mine"]
    if kept == "benchmark":
        folders.append(questions.folder)
    originals = {folder: (folder / MANIFEST).read_bytes() for folder in folders}
    try:
        for folder, raw in originals.items():
            content = json.loads(raw)
            content["spec"]["source"] |= {"hub": None, "nobody": {"knows": 1}}
            content["spec"]["unheard"] = "of"
            content["made"].pop("read", None)
            (folder / MANIFEST).write_text(json.dumps(content))
        assert Benchmark(folders[-1]).spec == questions.spec
        assert accuracy(run) == expected
    finally:
        for folder, raw in originals.items():
            (folder / MANIFEST).write_bytes(raw)


def test_a_build_of_a_format_that_is_not_read_says_which_are(
    questions: Benchmark, tmp_path: Path
) -> None:
    content = json.loads((questions.folder / MANIFEST).read_bytes())
    for number in (1, 6):
        (tmp_path / MANIFEST).write_text(json.dumps(content | {"format": number}))
        with pytest.raises(
            sn.SnellenError,
            match=rf"built in format {number}, but this version of Snellen reads 2 to 5",
        ):
            Benchmark(tmp_path)
