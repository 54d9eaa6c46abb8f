"""Files for evaluation servers, written from runs of the miniatures and compared with what the servers take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import modern_tables
import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.suites.modern.submissions import write_answers

FORMATS: dict[str, tuple[Any, ...]] = {
    # Fields and values of the first question, of an answer "net".
    "vqav2-test": ("question_id", 262144000),
    "textvqa-test": ("question_id", 39602),
    "vizwiz-test": ("image", "VizWiz_test_00000000.jpg"),
    "docvqa-test": ("questionId", 0),
    "infovqa-test": ("questionId", 0),
    "st-vqa": ("question_id", 0),
}


def run(name: str, folder: Path, reply: str = "net", **fields: Any) -> Path:
    """Run a model that always gives one reply on a miniature, and return the folder of the run."""
    spec = entries()[f"modern/{name}"]
    built = build_benchmark(
        spec.from_hub(), source=modern_tables.write(name, folder / "hub"), to=folder / name
    )
    sn.evaluate(
        sn.Scripted(lambda request: reply),
        str(built.folder),
        "vanilla",
        runs=folder / "runs",
        name="r",
        **fields,
    )
    return folder / "runs" / "r"


@pytest.mark.parametrize("name", FORMATS)
def test_each_server_gets_its_fields(name: str, tmp_path: Path) -> None:
    field, value = FORMATS[name]
    summary = write_answers(run(name, tmp_path), tmp_path / "s.json")
    content = json.loads((tmp_path / "s.json").read_text())
    assert content[0] == {field: value, "answer": "net"}
    assert len(content) == summary.rows == modern_tables.ROWS
    assert all(row.keys() == {field, "answer"} for row in content)


def test_mmmu_takes_letters_and_open_answers_by_id(tmp_path: Path) -> None:
    folder = run("mmmu-test", tmp_path, reply="The answer is B.")
    write_answers(folder, tmp_path / "s.json")
    content = json.loads((tmp_path / "s.json").read_text())
    *choices, last = content.items()
    assert dict(choices) == {f"test_Art_{n}": "B" for n in range(modern_tables.ROWS - 1)}
    assert last == (f"test_Art_{modern_tables.ROWS - 1}", "The answer is B.")


def test_thoughts_stay_out(tmp_path: Path) -> None:
    folder = run("docvqa-test", tmp_path, reply="<think>It says 7.</think>\n\n7 ")
    write_answers(folder, tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text())[0]["answer"] == "7"


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run("docvqa-test", tmp_path, reply="", limit=2)
    total = modern_tables.ROWS
    with pytest.raises(
        DataError, match=rf"not written: {total - 2} of {total} questions were never asked \("
    ):
        write_answers(folder, tmp_path / "s.json")
    assert not (tmp_path / "s.json").exists()
    with pytest.raises(DataError, match=r"the server takes JSON; name the file s\.json"):
        write_answers(folder, tmp_path / "s.xlsx")
    code, out, err = small.command(
        capsys, "submit", str(folder), "-o", str(tmp_path / "s.json"), "--partial"
    )
    assert code == 0, err
    assert "2 rows of modern/docvqa-test by vanilla" in out
    assert "empty replies: 2" in err


def test_a_benchmark_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="modern/mmstar has no evaluation server that Snellen knows"
    ):
        write_answers(run("mmstar", tmp_path), tmp_path / "s.json")
