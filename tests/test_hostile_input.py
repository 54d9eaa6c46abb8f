"""Damaged benchmarks, names and files that mean harm: one line each, and no number that is quietly wrong."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import small
import snellen as sn
from small import built, rows, write
from snellen.building.benchmark import FORMAT, Benchmark
from snellen.cli import main
from snellen.formats.shown_text import csv_table
from snellen.runs.journal import JournalReader, read_exchange_at


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("part", ["samples.jsonl.gz", "answers.jsonl.gz"])
@pytest.mark.parametrize("place", [0.1, 0.35, 0.6, 0.9])
def test_a_flipped_bit_in_a_built_benchmark_is_refused(part: str, place: float) -> None:
    folder = built(rows(12), Path("mine")).folder
    sn.evaluate("snellen:always-a", "./mine", "vanilla", name="r")
    content = bytearray((folder / part).read_bytes())
    content[int(place * len(content))] ^= 4
    (folder / part).write_bytes(content)
    with pytest.raises(sn.DataError, match=f"{part} has changed since the build"):
        sn.score("runs/r")


@pytest.mark.parametrize("part", ["samples.jsonl.gz", "answers.jsonl.gz"])
def test_a_part_that_is_gone_is_not_taken_for_a_hidden_one(part: str) -> None:
    folder = built(rows(6), Path("mine")).folder
    sn.evaluate("snellen:always-a", "./mine", "vanilla", name="r")
    (folder / part).unlink()
    with pytest.raises(
        sn.DataError,
        match=r"cannot score runs/r, because the answers of mine are not available|cannot be read",
    ):
        sn.score("runs/r")


def test_a_changed_picture_fails_the_questions_about_it_and_no_others() -> None:
    folder = built(rows(12, pictures=6), Path("mine")).folder
    pictures = sorted(path for path in (folder / "images").rglob("*") if path.is_file())
    pictures[0].write_bytes(pictures[1].read_bytes())
    pictures[2].write_bytes(b"")
    results = sn.evaluate("snellen:tiny", "./mine", "vanilla", error_budget=1.0)
    [row] = [
        row
        for row in results.rows
        if row.metric == "accuracy" and row.benchmark == "mine" and not row.slice
    ]
    assert (row.estimate.n, row.estimate.errors) == (8, 4)
    errors = {one.error.detail for one in results.runs[0].benchmarks[0].predictions if one.error}
    assert len(errors) == 2 and all(
        "has changed since it was stored" in detail for detail in errors
    )


def test_a_build_of_an_earlier_format_says_to_build_again() -> None:
    folder = built(rows(4), Path("mine")).folder
    manifest = folder / "benchmark.json"
    manifest.write_text(manifest.read_text().replace(f'"format": {FORMAT}', '"format": 1'))
    with pytest.raises(
        sn.DataError,
        match=rf"built in format 1, but this version of Snellen reads \d to {FORMAT}; build it again",
    ):
        Benchmark(folder)


@pytest.mark.parametrize(
    "name", ["../../x", "/abs", "a/b", "a\\b", "..", "x" * 300, "a\x1b[31m", "a\0b", "a\u202eb"]
)
def test_a_run_is_named_by_one_folder_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    built(rows(4), Path("mine"))
    before = sorted(Path("..").rglob("*"))
    with pytest.raises(sn.DataError, match="name: "):
        sn.evaluate("snellen:always-a", "./mine", "vanilla", name=name)
    assert sorted(Path("..").rglob("*")) == before


def test_markup_in_a_name_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    built(rows(4), Path("mine"))
    code, printed, _ = small.command(
        capsys, "run", "snellen:always-a", "./mine", "--name", "[bold]b[x] :smile:"
    )
    assert code == 0 and Path("runs/[bold]b[x] :smile:/report.html").exists()
    code, printed, _ = small.command(capsys, "report", "runs/[bold]b[x] :smile:")
    assert printed.strip() == "runs/[bold]b[x] :smile:/report.html"


def test_control_signs_of_a_name_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, errors = small.command(capsys, "run", "snellen:\x1b]0;owned\x07", "eyechart/colour")
    assert code == 2 and "\x1b" not in errors and "\x07" not in errors


@pytest.mark.parametrize(
    "image", ["/etc/hostname", "../outside.png", "link.png", "/dev/zero", "sub/../../outside.png"]
)
def test_a_picture_outside_the_tables_folder_is_refused(image: str) -> None:
    Path("table").mkdir()
    Image.new("RGB", (4, 4)).save("outside.png")
    Path("table/link.png").symlink_to(Path("outside.png").absolute())
    write([{**row, "image": None, "image_path": image} for row in rows(1)], Path("table/t.jsonl"))
    with pytest.raises(
        sn.DataError,
        match=r"t.jsonl:1: the image .* is outside table; .* with images=|none of the",
    ):
        sn.build("table/t.jsonl", to="mine")


def test_the_refusal_names_the_folder_with_which_the_picture_is_found() -> None:
    Path("table").mkdir()
    Path("pictures").mkdir()
    Image.new("RGB", (4, 4)).save("pictures/p.png")
    write([{**rows(1)[0], "image": "../pictures/p.png"}], Path("table/t.jsonl"))
    with pytest.raises(sn.DataError, match=r"is outside table; .* with .*images='pictures'"):
        sn.build("table/t.jsonl", to="mine")
    assert sn.build("table/t.jsonl", to="mine", images="pictures").manifest.counts.images == 1

    # Two images, and others with the same names: only the folder in the cells tells them apart.
    cells = []
    Path("others").mkdir()
    for number, name in enumerate("pq"):
        Image.new("RGB", (4, 4 + number)).save(f"pictures/{name}.png")
        Image.new("RGB", (9, 4 + number)).save(f"others/{name}.png")
        cells.append({**rows(1)[0], "id": name, "image": f"../pictures/{name}.png"})
    write(cells, Path("table/two.jsonl"))
    assert sn.build("table/two.jsonl", to="above", images=".").manifest.counts.images == 2


def test_images_names_the_folder_that_pictures_may_lie_in() -> None:
    Path("table").mkdir()
    Path("pictures").mkdir()
    Image.new("RGB", (4, 4)).save("pictures/p.png")
    absolute = str(Path("pictures/p.png").absolute())
    write(
        [
            {**rows(1)[0], "image": None, "image_path": name, "id": name}
            for name in ("p.png", absolute)
        ],
        Path("table/t.jsonl"),
    )
    assert sn.build("table/t.jsonl", images="pictures", to="mine").manifest.counts.images == 1


def test_a_pipe_is_no_picture_and_is_not_waited_for() -> None:
    os.mkfifo("pipe.png")
    write([{**rows(1)[0], "image": None, "image_path": "pipe.png"}], Path("t.jsonl"))
    with pytest.raises(sn.DataError, match=r"pipe.png .it is a pipe, not a file"):
        sn.build("t.jsonl", to="mine")


def test_deep_nesting_is_one_line_naming_the_file() -> None:
    Path("t.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(sn.DataError, match=r"t.jsonl: not JSON"):
        sn.build("t.jsonl", to="mine")
    Path("t.jsonl").write_text('{"a":' * 100_000 + "\n")
    with pytest.raises(sn.DataError, match=r"t.jsonl:1: not JSON"):
        sn.build("t.jsonl", to="mine")
    Path("exam.toml").write_text("models = " + "[" * 5000)
    with pytest.raises(SystemExit) as stopped:
        main(["run", "exam.toml"])
    assert stopped.value.code == 2


def test_a_line_of_a_received_journal_is_not_read_without_end() -> None:
    """A line whose place is kept is read again by it; the file may have been replaced since."""
    journal = Path("journal-0.jsonl")
    with journal.open("wb") as file:
        file.write(b"{")
        file.truncate(1 << 40)
    with (
        JournalReader([journal]) as reader,
        pytest.raises(sn.StoreError, match=r"journal-0\.jsonl:1: .*a line of it has more than"),
    ):
        reader.read(0)
    with pytest.raises(sn.StoreError, match="a line of it has more than"):
        read_exchange_at(journal, 0)


@pytest.mark.parametrize(
    "address",
    ["http://ho st:80/v1", "http://localhost:abc/v1", "http://localhost:99999/v1", "http://:80/v1"],
)
def test_an_address_that_cannot_be_one_is_refused_before_anything_is_asked(address: str) -> None:
    built(rows(4), Path("mine"))
    with pytest.raises(sn.ModelError, match=r"is not a valid address|cannot be read"):
        sn.evaluate(f"openai:x@{address}", "./mine", "vanilla")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "snellen:oracle", "~nobody-here/benchmark"),
        ("run", "~nobody-here/model.py:Model", "eyechart/colour"),
        ("run", "hf:~nobody-here/model", "eyechart/colour"),
        ("run", "snellen:oracle", "eyechart/colour", "--metric", "~nobody-here/mine.py:metric"),
        ("report", "~nobody-here/run"),
        ("--suites", "~nobody-here/suites", "list", "suites"),
    ],
)
def test_the_home_of_nobody_is_a_place_where_nothing_is(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "~nobody-here" in capsys.readouterr().err.splitlines()[-1]


def test_debug_keeps_the_exit_code() -> None:
    words = [sys.executable, "-m", "snellen", "--debug", "run", "plug:x", "eyechart/colour"]
    plain, debug = (
        subprocess.run(
            [word for word in words if word != skipped], capture_output=True, text=True, check=False
        )
        for skipped in ("--debug", "")
    )
    assert plain.returncode == debug.returncode == 2
    assert "Traceback" in debug.stderr and "Traceback" not in plain.stderr
    assert debug.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]


def test_a_spreadsheet_runs_no_formula_of_a_name() -> None:
    text = csv_table(
        [
            {"model": "=HYPERLINK(1)", "value": -0.5, "note": "@x"},
            {"model": "m", "value": 1, "note": "a"},
        ]
    )
    cells = list(csv.DictReader(io.StringIO(text)))
    assert cells[0] == {"model": "'=HYPERLINK(1)", "value": "-0.5", "note": "'@x"}
    assert cells[1] == {"model": "m", "value": "1", "note": "a"}


def test_a_damaged_benchmark_does_not_hide_the_others_of_a_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", "home")
    write(rows(2), Path("t.jsonl"))
    for name in ("good", "bad"):
        assert small.command(capsys, "build", "t.jsonl", "--name", name)[0] == 0
    Path("home/benchmarks/bad/benchmark.json").write_text("{")
    code, listed, said = small.command(capsys, "list")
    assert code == 0 and "good" in listed and "bad/benchmark.json" in said


# --- what others sent: a link to a device, or a pipe, in place of a file ----------------------------------------------


def a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_huge_file(path: Path) -> None:
    """A file that is all hole: a terabyte, and no byte on the disk."""
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 40)


REPLACED = pytest.mark.parametrize("replaced", [a_device, a_pipe, a_huge_file])


@REPLACED
def test_an_image_of_a_received_benchmark_is_a_file_of_its_size(
    replaced: Callable[[Path], None],
) -> None:
    folder = built(rows(12, pictures=6), Path("mine")).folder
    image = sorted(path for path in (folder / "images").rglob("*") if path.is_file())[0]
    replaced(image)
    results = sn.evaluate("snellen:tiny", "./mine", "vanilla", error_budget=1.0)
    errors = {one.error.detail for one in results.runs[0].benchmarks[0].predictions if one.error}
    assert len(errors) == 1
    assert image.name in errors.pop()


@pytest.mark.parametrize(
    ("part", "replaced"),
    [
        ("benchmark.json", a_device),
        ("benchmark.json", a_pipe),
        ("benchmark.json", a_huge_file),
        ("samples.jsonl.gz", a_device),
        ("samples.jsonl.gz", a_pipe),
        ("answers.jsonl.gz", a_device),
        ("answers.jsonl.gz", a_pipe),
    ],
)
def test_the_records_of_a_received_benchmark_are_files(
    part: str, replaced: Callable[[Path], None]
) -> None:
    folder = built(rows(4), Path("mine")).folder
    replaced(folder / part)
    with pytest.raises(sn.DataError, match=f"{part} cannot be read .(it is a|it has more than)"):
        Benchmark(folder).part(part)


@pytest.mark.parametrize("replaced", [a_device, a_pipe])
@pytest.mark.parametrize("name", ["manifest.json", "journal-0.jsonl"])
def test_the_files_of_a_received_run_are_files(name: str, replaced: Callable[[Path], None]) -> None:
    built(rows(4), Path("mine"))
    sn.evaluate("snellen:always-a", "./mine", "vanilla", name="r")
    replaced(Path("runs/r") / name)
    with pytest.raises(sn.StoreError, match=f"{name}: cannot be read .it is a (device|pipe), not"):
        sn.score("runs/r")


@REPLACED
def test_what_was_kept_of_a_received_scoring_is_scored_again(
    replaced: Callable[[Path], None],
) -> None:
    built(rows(4), Path("mine"))
    sn.evaluate("snellen:always-a", "./mine", "vanilla", name="r")
    for name in ("scoring.json", "results.json"):
        for path in Path("runs/r").rglob(name):
            replaced(path)
    assert sn.score("runs/r").rows
