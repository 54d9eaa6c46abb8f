"""Runs that travel: their own questions, scorings beside each other, one table, packed files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import BuildInputs
from snellen.errors import DataError, StoreError
from snellen.records import ImagePart, Request
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import questions_folder
from snellen.scoring.kept_scoring import SCORING_FILES, STANDARD, find_scoring, is_scored_whole
from snellen.scoring.scored_run import ScoredBenchmark
from snellen.viewing.library import RunLibrary
from view_runs import serving, until


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(request: Request) -> str:
    """Right on every second question of `small.rows`, unreadable on every fourth."""
    number = int(request.sample_id[1:])
    return (
        "I would rather not guess."
        if number % 4 == 3
        else f"({'ABCD'[number % 4 if number % 2 == 0 else 0]})"
    )


def made(tmp_path: Path, count: int = 8, name: str = "run", limit: int | None = None) -> Benchmark:
    benchmark = small.built(small.rows(count), tmp_path / "made")
    sn.evaluate(sn.Scripted(told), str(benchmark.folder), "vanilla", name=name, limit=limit)
    return benchmark


# --- one table ---------------------------------------------------------------------------------------------------


def test_the_table_joins_question_gold_request_reply_reading_and_scores(tmp_path: Path) -> None:
    made(tmp_path)
    table = sn.load_run("runs/run").samples()
    assert len(table) == 8
    rows = {row["sample_id"]: row for row in table.to_dicts()}
    third = rows["q002"]
    assert third["question"] == "Which animal is number 2?"
    assert (third["options"], third["gold"], third["gold_options"]) == (
        list(small.ANIMALS[:4]),
        ["horse"],
        [2],
    )
    assert third["reply"] == "(C)" and third["chosen"] == 2 and third["chosen_text"] == "horse"
    assert (third["correct"], third["score_accuracy"], third["tag_level"]) == (True, 1.0, "easy")
    sent = {e.request.sample_id: e.request for e in read_exchanges(Path("runs/run"))}["q002"]
    assert [turn["role"] for turn in third["request"]] == [
        message.role for message in sent.messages
    ]
    said = "".join(turn["text"] for turn in third["request"])
    assert "Which animal is number 2?" in said and "[image]" in said
    assert third["images"] == [
        p.image.digest for m in sent.messages for p in m.content if isinstance(p, ImagePart)
    ]
    unread = rows["q003"]
    assert (unread["chosen"], unread["correct"]) == (None, False) and unread["reason"] is not None
    assert table["correct"].mean() == sn.load_run("runs/run").value("accuracy", benchmark="mine")


def test_the_table_is_the_same_as_parquet_and_its_columns_do_not_depend_on_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    code, out, _ = small.command(capsys, "export", "runs/run", "-o", "deep/samples.parquet")
    assert (code, out.strip()) == (0, "deep/samples.parquet")
    table = sn.load_run("runs/run").samples()
    assert pl.read_parquet("deep/samples.parquet").equals(table)
    sn.evaluate("snellen:uniform", "eyechart/caption", "vanilla", limit=2, name="captions")
    other = sn.load_run("runs/captions").samples()
    own = [name for name in table.columns if not name.startswith(("tag_", "score_"))]
    assert other.select(own).schema == table.select(own).schema
    assert pl.concat([table, other], how="diagonal").height == 10


def test_an_answer_to_which_steps_led_has_one_row_and_likelihoods_have_theirs(
    tmp_path: Path,
) -> None:
    benchmark = small.built(small.rows(4), tmp_path / "made")
    scripted = sn.Scripted(
        told, scores=lambda request: [-1.0 * i for i, _ in enumerate(request.continuations)]
    )
    sn.evaluate(scripted, str(benchmark.folder), ["likelihood", "circular"], name="run")
    table = sn.load_run("runs/run").samples()
    likely = table.filter(pl.col("method") == "likelihood")
    assert (
        likely["log_likelihoods"].to_list()[0] == [0.0, -1.0, -2.0, -3.0]
        and likely["reply"].null_count() == 4
    )
    rotated = table.filter((pl.col("protocol") == "circular") & (pl.col("sample_id") == "q000"))
    assert rotated["order"].to_list()[:2] == [[0, 1, 2, 3], [1, 2, 3, 0]]


def records(scored: ScoredBenchmark) -> list[object]:
    return [
        scored.spec,
        dict(scored.samples),
        list(scored.predictions),
        list(scored.scores),
        dict(scored.answers),
        list(scored.tallies),
    ]


def test_a_run_is_opened_as_it_was_scored_and_a_notebook_shows_its_summary(tmp_path: Path) -> None:
    made(tmp_path)
    sn.evaluate("snellen:uniform", "eyechart/word", "vanilla", limit=4, name="run-2")
    for name in ("run", "run-2"):
        scored = sn.score(f"runs/{name}", metrics=["pope"] if name == "run" else [])
        stored_in = scored.runs[0].stored_in
        assert stored_in is not None
        opened = sn.load_run(f"runs/{name}", stored_in.name if name == "run" else "")
        assert opened.rows == scored.rows
        assert opened.scores().equals(scored.scores())
        assert list(map(records, opened.runs[0].benchmarks)) == list(
            map(records, scored.runs[0].benchmarks)
        )
        assert (
            opened.only(where="benchmark != 'x'")
            .table()
            .equals(scored.only(where="benchmark != 'x'").table())
        )
    page = sn.load_run("runs/run", "")._repr_html_()
    assert "<table" in page and "<b>50.0%</b>" in page and "<script" not in page


def test_what_was_not_scored_or_was_asked_more_since_is_not_opened(tmp_path: Path) -> None:
    made(tmp_path, limit=4)
    with pytest.raises(
        StoreError, match="runs/run has no scoring strict; it has standard settings"
    ):
        sn.load_run("runs/run", "strict")
    with Path("runs/run/journal-0.jsonl").open("ab") as file:
        file.write(Path("runs/run/journal-0.jsonl").read_bytes().splitlines(keepends=True)[0])
    fault = "has new replies or ratings since it was scored; score it again: snellen score runs/run"
    with pytest.raises(StoreError, match=fault):
        sn.load_run("runs/run")
    sn.score("runs/run")
    assert sn.load_run("runs/run").runs
    Path("runs/run/scoring.json").unlink()
    with pytest.raises(
        StoreError, match="runs/run has not been scored yet; score it: snellen score runs/run"
    ):
        sn.load_run("runs/run")


# --- scorings ----------------------------------------------------------------------------------------------------


def test_no_scoring_overwrites_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    standard = {path.name: path.read_bytes() for path in Path("runs/run").glob("*.json*")}
    sn.score("runs/run", judge=sn.Scripted(lambda request: "A"))
    [judged] = Path("runs/run/scores").iterdir()
    before = {path.name: path.read_bytes() for path in judged.iterdir()}
    for words in (
        ("report", "runs/run"),
        ("score", "runs/run", "--extractor", "strict"),
        ("report", "runs/run"),
    ):
        assert small.command(capsys, *words)[0] == 0
    assert {name: (judged / name).read_bytes() for name in before} == before
    assert {path.name: path.read_bytes() for path in Path("runs/run").glob("*.json*")} == standard
    assert len(list(Path("runs/run/scores").iterdir())) == 2
    kept = json.loads(before["scoring.json"])
    assert kept["judge"]["models"] == ["snellen:scripted"] and kept["reading_stages"]
    # By other settings of a judge it is another scoring; how it is paid changes nothing.
    sn.score(
        "runs/run", judge=sn.JudgeSpec(models=(sn.Scripted(lambda request: "A"),), price=(1.0, 2.0))
    )
    assert len(list(Path("runs/run/scores").iterdir())) == 2


OWN_METRICS = """
from pathlib import Path

Path("imported").touch()


def quarter(reply, references):
    return 0.25


def half(reply, references):
    return 0.5
"""


def snellen_process(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, which has not imported the code of a metric before."""
    return subprocess.run(
        [sys.executable, "-m", "snellen", *words], capture_output=True, text=True, check=True
    )


def scored_by_own_metrics() -> None:
    """Make the run `runs/own`, scored by own.py:quarter and then by own.py:half, whose code this process never imports."""
    Path("own.py").write_text(OWN_METRICS)
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(4)]
    Path("sums.jsonl").write_text("\n".join(map(json.dumps, rows)))
    snellen_process("build", "sums.jsonl", "--no-images", "--to", "sums")
    run = ("run", "snellen:oracle", "./sums", "--metric", "own.py:quarter", "--name", "own")
    snellen_process(*run, "--no-report")
    snellen_process("score", "runs/own", "--metric", "own.py:half")
    Path("imported").unlink()


def test_a_run_is_shown_as_it_was_scored_last_and_its_other_scorings_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scored_by_own_metrics()
    notes: list[str] = []
    opened = sn.load_run("runs/own", announce=notes.append)
    assert opened.value("half") == 0.5
    assert [headline.metric for headline in opened.headlines] == ["half"]
    [note] = notes
    assert note.startswith("runs/own: scored with own.py:half; other scorings: ")
    [earlier] = re.findall(r"([0-9a-f]{12}) \(own.py:quarter\)", note)
    assert sn.load_run("runs/own", earlier).value("quarter") == 0.25
    with pytest.raises(StoreError, match=rf"it has .*{earlier} \(own.py:quarter\)"):
        sn.load_run("runs/own", "")

    code, _, told = small.command(capsys, "export", "runs/own", "-o", "own.csv")
    assert code == 0 and note in told
    assert pl.read_csv("own.csv")["score_half"].to_list() == [0.5] * 4
    # The numbers are stored, so nothing of this has run the code.
    assert not Path("imported").exists()

    # Whoever scores by the first metric again sees it again.
    snellen_process("score", "runs/own", "--metric", "own.py:quarter")
    assert sn.load_run("runs/own").value("quarter") == 0.25


def test_the_viewer_and_the_report_show_the_run_as_it_was_scored_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scored_by_own_metrics()
    with serving(Path("runs"), index=tmp_path / "index.sqlite") as client:
        until(lambda: "half under vanilla" in client.get("/").text)
        page = client.get("/run?run=own").text
        assert "Scored with own.py:half; other scorings: " in page and "50.0%" in page
        # Scored otherwise, the run is shown otherwise.
        snellen_process("score", "runs/own")
        until(lambda: "half under vanilla" not in client.get("/").text)
        snellen_process("score", "runs/own", "--metric", "own.py:half")
    Path("imported").unlink()

    for verb in ("report", "card"):
        code, _, told = small.command(capsys, verb, "runs/own", "-o", f"{verb}.md")
        assert code == 0 and "runs/own: scored with own.py:half; other scorings: " in told
        assert "half" in Path(f"{verb}.md").read_text()
    assert not Path("imported").exists()


def test_results_are_scored_again_and_export_says_where_a_metric_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = sn.evaluate(
        "snellen:oracle", "eyechart/shape", "vanilla", limit=4, name="a", report=False
    )
    again = sn.score(results, extractor="strict")
    assert [run.scoring.extractor for run in again.runs] == ["strict"]
    with pytest.raises(DataError, match="runs/a is not a file of predictions"):
        sn.score(results, "eyechart/shape")
    code, _, told = small.command(capsys, "export", "runs/a", "--metric", "own.py:half")
    assert code == 2 and "give the flag to `snellen score RUN`, then export" in told


def test_a_folder_of_runs_is_opened_whichever_way_each_was_scored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scored_by_own_metrics()
    sn.evaluate("snellen:uniform", "eyechart/shape", "vanilla", limit=4, name="plain", report=False)
    assert len(sn.load_run("runs").runs) == 2
    assert small.command(capsys, "export", "runs", "-o", "all.csv")[0] == 0
    assert len(pl.read_csv("all.csv")) == 8


def test_a_run_whose_metric_is_not_installed_does_not_hold_up_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(4)]
    built = sn.build(rows, name="sums", no_images=True, metrics=["exact_match"])
    for name in ("first", "second"):
        sn.evaluate("snellen:oracle", str(built.folder), name=name, report=False)
    # As of a run whose benchmark and metric came from a package that is no longer installed.
    shutil.rmtree(built.folder)
    [entry] = Path("runs/second/questions").rglob("benchmark.json")
    entry.write_text(entry.read_text().replace('"exact_match"', '"half_word"'))

    code, _, told = small.command(capsys, "export", "runs", "-o", "all.csv")
    assert code == 0 and len(pl.read_csv("all.csv")) == 4
    assert "left out: runs/second: " in told and "unknown metric 'half_word'" in told

    library = RunLibrary([Path("runs")], tmp_path / "index.sqlite")
    library.refresh()
    faults = {run.name: run.fault for run in library.runs() if run.id >= 0}
    assert faults["first"] == "" and "unknown metric 'half_word'" in faults["second"]


def test_a_run_that_was_not_scored_does_not_hold_up_the_export_of_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("first", "second"):
        sn.evaluate("snellen:oracle", "eyechart/shape", "vanilla", limit=4, name=name, report=False)
    # As of a run whose judge failed, or whose process was killed.
    Path("runs/second/scoring.json").unlink()
    code, _, told = small.command(capsys, "export", "runs", "-o", "all.csv")
    assert code == 0 and len(pl.read_csv("all.csv")) == 4
    assert (
        "left out: runs/second has not been scored yet; score it: snellen score runs/second" in told
    )
    assert small.command(capsys, "export", "runs/second", "-o", "second.csv")[0] != 0
    Path("runs/first/scoring.json").unlink()
    code, _, told = small.command(capsys, "export", "runs", "-o", "none.csv")
    assert code != 0 and "none of the 2 runs can be exported" in told


def test_runs_that_were_last_scored_in_different_ways_are_opened_by_standard_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, str]] = []
    animals = ("cat", "dog", "cow", "pig")
    for number in range(12):
        options = dict(zip("ABCD", animals, strict=True))
        reply = f"I would go with the {animals[number % 4]} here"
        rows.append(
            {
                "question": f"Which {number}?",
                **options,
                "answer": "ABCD"[number % 4],
                "reply": reply,
            }
        )
    Path("replies.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert small.command(capsys, "score", "replies.jsonl", "--to", "runs/a")[0] == 0
    shutil.copytree("runs/a", "runs/b")
    # No reply states its option in a way that the strict extractor reads.
    assert small.command(capsys, "score", "runs/a", "--extractor", "strict")[0] == 0
    assert sn.load_run("runs/a").value() == 0.0

    # The replies of both runs are equal, and so is their accuracy.
    notes: list[str] = []
    both = sn.load_run(["runs/a", "runs/b"], announce=notes.append)
    assert [headline.value for headline in both.headlines] == [1.0, 1.0]
    assert "last scored in different ways" in notes[0]
    code, _, told = small.command(capsys, "export", "runs/a", "runs/b", "-o", "both.csv")
    assert code == 0 and "last scored in different ways" in told
    assert pl.read_csv("both.csv")["score_accuracy"].to_list() == [1.0] * 24
    with serving(Path("runs"), index=tmp_path / "index.sqlite") as client:
        until(lambda: "100.0%" in client.get("/run?run=b").text)
        until(lambda: "Scored with" in client.get("/run?run=a").text)
        assert client.get("/").text.count("extractor strict") == 1  # beside the number of a
        page = client.get("/compare?run=a&run=b").text
    assert "gave the same reply to every common question" in page
    assert "last scored in different ways" in page and "only a correct" not in page


def test_scores_that_a_comparison_needed_do_not_become_the_ones_that_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scored_by_own_metrics()
    shutil.copytree("runs/own", "runs/copy")
    assert (
        small.command(capsys, "compare", "runs/own", "runs/copy", "--scoring", "standard")[0] == 0
    )
    assert Path("runs/own/scoring.json").exists()  # by standard settings
    assert sn.load_run("runs/own").value("half") == 0.5
    assert small.command(capsys, "score", "runs/own")[0] == 0
    standard = sn.load_run("runs/own")
    assert "half" not in {row.metric for row in standard.rows}
    assert standard.value() == 1.0


def test_runs_are_compared_as_they_were_scored_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scored_by_own_metrics()
    shutil.copytree("runs/own", "runs/copy")

    def compared(*words: str) -> tuple[set[str], str]:
        """The metrics that are compared, and what is said meanwhile."""
        code, out, told = small.command(
            capsys, "compare", "runs/own", "runs/copy", "--json", *words
        )
        assert code == 0, told
        return {json.loads(line)["metric"] for line in out.splitlines()}, told

    # The function is a share, from 0 to 1, also where its code is not imported.
    code, out, _ = small.command(capsys, "compare", "runs/own", "runs/copy", "--json")
    assert code == 0
    [difference] = map(json.loads, out.splitlines())
    assert difference["unit"] == "share" and difference["low_corrected"] is not None

    metrics, told = compared()
    assert metrics == {"half"} and "runs/own: scored with own.py:half; other scorings: " in told
    assert compared("--metric", "half")[0] == {"half"}
    assert sn.compare("runs/own", "runs/copy").differences[0].metric == "half"
    assert compared("--scoring", "quarter")[0] == {"quarter"}
    assert (
        sn.compare(["runs/own", "runs/copy"], scoring="quarter").differences[0].metric == "quarter"
    )
    # Stored values are compared: the code of a metric is not needed.
    assert not Path("imported").exists()

    # Scored in different ways, both count by standard settings, and it is said why.
    snellen_process("score", "runs/copy", "--metric", "own.py:quarter")
    metrics, told = compared()
    assert "half" not in metrics and "quarter" not in metrics
    assert (
        "these runs were last scored in different ways (runs/own with own.py:half, runs/copy with own.py:quarter)"
        in told
    )
    assert sn.compare("runs/own", "runs/copy").differences[0].metric not in ("half", "quarter")
    assert compared("--scoring", "half")[0] == {"half"}


def test_runs_that_were_scored_by_different_code_of_one_metric_are_not_compared_by_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scored_by_own_metrics()
    shutil.copytree("runs/own", "runs/copy")
    Path("own.py").write_text(OWN_METRICS.replace("0.5", "0.75"))
    snellen_process("score", "runs/copy", "--metric", "own.py:half")
    assert sn.load_run("runs/copy").value("half") == 0.75

    # The replies of both runs are equal: only the code of their metric differs.
    runs = ("runs/own", "runs/copy")
    code, out, told = small.command(capsys, "compare", *runs, "--json")
    assert code == 0 and "half" not in {json.loads(line)["metric"] for line in out.splitlines()}
    assert "last scored by different code, because own.py:half was changed in between" in told
    assert sn.compare(*runs).differences[0].metric != "half"
    told = small.command(capsys, "compare", *runs, "--scoring", "half")[2]
    assert "the code of own.py:half has changed between the scorings of these runs" in told

    snellen_process("score", "runs/own", "--metric", "own.py:half")
    code, out, told = small.command(capsys, "compare", *runs, "--json")
    [difference] = map(json.loads, out.splitlines())
    assert difference["metric"] == "half"
    assert difference["first_value"] == difference["second_value"] == 0.75
    assert "changed" not in told


def test_a_scoring_is_chosen_by_what_its_user_calls_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scored_by_own_metrics()
    quarter = find_scoring(Path("runs/own"), "quarter")
    half = find_scoring(Path("runs/own"), "half")
    assert len({quarter, half, STANDARD}) == 3
    assert find_scoring(Path("runs/own")) == find_scoring(Path("runs/own"), "latest") == half
    assert find_scoring(Path("runs/own"), "own.py:quarter") == quarter
    assert find_scoring(Path("runs/own"), quarter[:4]) == quarter
    with pytest.raises(StoreError, match="has not been scored with standard settings"):
        find_scoring(Path("runs/own"), "standard")
    with pytest.raises(StoreError, match=rf"no scoring thrice; it has .*{half} \(own.py:half\)"):
        find_scoring(Path("runs/own"), "thrice")

    snellen_process("score", "runs/own", "--metric", "own.py:half", "--extractor", "strict")
    with pytest.raises(StoreError, match=r"several scorings that half may mean: .*strict\)"):
        find_scoring(Path("runs/own"), "half")
    strict = find_scoring(Path("runs/own"), "strict")
    assert strict not in (half, quarter)

    for verb in ("report", "card", "export"):
        output = f"out.{'csv' if verb == 'export' else 'md'}"
        words = (verb, "runs/own", "-o", output, "--scoring", "quarter")
        assert small.command(capsys, *words)[0] == 0
        assert "quarter" in Path(output).read_text()
        if verb == "export":
            continue
        code, _, told = small.command(capsys, *words, "--metric", "anls")
        assert code == 2
        assert (
            "--scoring quarter shows scores that are stored, but --metric anls scores again" in told
        )


def test_a_run_is_reconciled_and_compared_in_the_viewer_by_its_last_scoring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scored_by_own_metrics()
    shutil.copytree("runs/own", "runs/copy")
    code, out, _ = small.command(capsys, "reconcile", "runs/own", "runs/copy", "--json")
    assert code == 0
    reconciliation = json.loads(out)
    assert (reconciliation["first_number"], reconciliation["second_number"]) == (0.5, 0.5)
    with serving(Path("runs"), index=tmp_path / "index.sqlite") as client:
        comparison = "/compare?run=own&run=copy"
        until(lambda: "differences of half under" in client.get(comparison).text)
        assert "number_accuracy" not in client.get(comparison).text


def test_a_report_lies_beside_the_scores_that_it_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    assert small.command(capsys, "report", "runs/run")[1].strip() == "runs/run/report.html"
    page = Path("runs/run/report.html").read_bytes()
    code, out, _ = small.command(capsys, "report", "runs/run", "--as-published")
    [folder] = (one for one in Path("runs/run/scores").iterdir())
    assert (code, out.strip()) == (0, str(folder / "report.html"))
    assert Path("runs/run/report.html").read_bytes() == page
    [opened] = sn.load_run("runs/run", folder.name).runs
    assert opened.convention == "as-published" and opened.counterpart is not None


def test_a_report_of_several_runs_bears_their_names_and_a_misspelt_run_is_not_taken_for_a_benchmark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    shutil.copytree("runs/run", "runs/other")
    assert (
        small.command(capsys, "report", "runs/run", "runs/other")[1].strip()
        == "report-of-run-and-other.html"
    )
    code, _, error = small.command(capsys, "report", "runs/rum")
    assert (code, error.splitlines()[-1]) == (
        2,
        "snellen: there is no folder runs/rum; did you mean runs/run?",
    )


@pytest.mark.parametrize(
    ("runs", "named", "advice"),
    [
        ("abcde", "runs/nope", "there are runs/e, runs/d, runs/c and 2 more"),
        ("", "runs/nope", "make a run with sn.evaluate(MODEL, BENCHMARK)"),
    ],
)
def test_whoever_names_no_run_is_told_which_there_are_or_how_to_make_one(
    runs: str, named: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(runs):
        manifest = Path("runs", name, "manifest.json")
        manifest.parent.mkdir(parents=True)
        manifest.touch()
        os.utime(manifest, (age, age))
    with pytest.raises(StoreError, match=f"{re.escape(advice)}$"):
        sn.load_run(named)


@contextmanager
def unprivileged(folder: Path) -> Iterator[None]:
    """As a user who may read a folder, but not write it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_run_that_cannot_be_written_is_reported_and_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not pytest's own folder, into which no other user may look.
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.chdir(name)
        Path(name).chmod(0o777)
        made(Path(name))
        sn.score("runs/run", extractor="strict").report(
            "first.html"
        )  # all that is needed is imported by now
        before = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
        lines: list[str] = []
        with unprivileged(Path("runs")):
            results = sn.score("runs/run", unparsed="legacy-random", announce=lines.append)
            assert results.report("report.html").exists()
        assert lines == ["runs/run is read-only; its scores are shown but not saved"]
        assert (
            results.value("accuracy", benchmark="mine") is not None
            and results.runs[0].stored_in is None
        )
        assert {
            path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()
        } == before
        monkeypatch.undo()


# --- on its own --------------------------------------------------------------------------------------------------


def elsewhere(zipped: Path, folder: Path, benchmark: Benchmark) -> Path:
    """The run of a packed file on a machine that does not have the benchmark."""
    shutil.rmtree(benchmark.folder, ignore_errors=True)
    with zipfile.ZipFile(zipped) as archive:
        archive.extractall(folder)
    return folder / "run"


def test_a_run_has_the_questions_that_it_asked_and_no_answers(tmp_path: Path) -> None:
    benchmark = made(tmp_path, limit=3)
    own = Benchmark(questions_folder(Path("runs/run"), "mine"))
    asked = {exchange.request.sample_id for exchange in read_exchanges(Path("runs/run"))}
    assert {sample.id for sample in own.samples()} == asked and own.count() == 3
    assert sorted(path.name for path in own.folder.iterdir()) == [
        "benchmark.json",
        "samples.jsonl.gz",
    ]
    assert own.manifest.version == benchmark.manifest.version
    assert own.manifest.files["answers.jsonl.gz"] == benchmark.manifest.files["answers.jsonl.gz"]
    # The same run goes on, and has what it asks now.
    sn.evaluate(sn.Scripted(told), str(benchmark.folder), "vanilla", name="run", limit=6)
    assert Benchmark(own.folder).count() == 6


def test_a_run_is_reported_after_its_benchmark_was_rebuilt_and_not_scored_by_other_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before_version = made(tmp_path).manifest.version
    before = sn.load_run("runs/run").rows
    small.built(small.rows(9), tmp_path / "made")
    code, _, err = small.command(
        capsys, "report", "runs/run", "-o", "again.html", "-o", "again.json"
    )
    now = Benchmark(tmp_path / "made").manifest.version
    rebuilt = f"(mine was rebuilt since: the run used version {before_version}, now it is {now})"
    assert code == 0
    assert f"the answers of mine are not available {rebuilt}; these are the scores saved" in err
    assert sn.load_run("runs/run").rows == before
    assert json.loads(Path("again.json").read_text())[0]["value"] == before[0].estimate.value
    assert "Which animal is number 2?" in Path("again.html").read_text("utf-8")
    with pytest.raises(DataError) as refused:
        sn.score("runs/run")
    assert str(refused.value) == (
        "cannot score runs/run, because the answers of mine are not available in the version that was run (mine was "
        f"rebuilt since: the run used version {before_version}, now it is {now}): use sn.load_run('runs/run') to show "
        "the saved scores, or rebuild that version (for your own table, from the table as it was then), or pack the run "
        "with its answers (on the command line: `snellen pack --answers`)"
    )
    with pytest.raises(
        DataError, match=r"because the answers of mine are not available .* --answers"
    ):
        sn.score("runs/run", extractor="strict")


def test_of_a_table_that_was_built_again_a_cache_has_what_did_not_change(tmp_path: Path) -> None:
    asked: list[str] = []

    def telling(request: Request) -> str:
        asked.append(request.sample_id)
        return "(A)"

    benchmark = small.built(small.rows(4), tmp_path / "made")
    sn.evaluate(sn.Scripted(telling), str(benchmark.folder), "vanilla", name="run", cache="cache")
    changed = small.rows(4)
    changed[2]["question"] = "Which animal is it?"
    small.built(changed, tmp_path / "made")
    with pytest.raises(
        StoreError,
        match=r"choose another name=... \(a shared cache=... avoids sending the same requests again\), or rebuild",
    ):
        sn.evaluate(sn.Scripted(telling), str(benchmark.folder), "vanilla", name="run")
    asked.clear()
    sn.evaluate(sn.Scripted(telling), str(benchmark.folder), "vanilla", name="again", cache="cache")
    assert asked == ["q002"]


def test_a_limit_that_leaves_nothing_out_is_not_partial_and_a_smaller_one_says_what_it_scores(
    tmp_path: Path,
) -> None:
    benchmark = small.built(small.rows(12), tmp_path / "made")
    lines: list[str] = []
    partial = {}
    for limit in (12, 5, 20, 5):
        results = sn.evaluate(
            sn.Scripted(told),
            str(benchmark.folder),
            "vanilla",
            name="run",
            limit=limit,
            announce=lines.append,
        )
        report = results.report("r.md").read_text("utf-8")
        partial[limit] = "Partial: only some of the questions of mine were run." in report
        assert results.runs[0].manifest.benchmarks[0].limit == (5 if limit == 5 else None)
    assert partial == {12: False, 5: True, 20: False}
    assert [line for line in lines if "an earlier call selected" in line] == 2 * [
        "runs/run: an earlier call selected 12 samples of mine, this one 5; only these are scored, and replies to the "
        "others stay stored for later calls"
    ]
    # What was built for a limit may lack others.
    table = small.write(small.rows(12), tmp_path / "t.jsonl")
    part = build_benchmark(
        small.spec_of(table, "mine"),
        source=tmp_path,
        to=tmp_path / "part",
        inputs=BuildInputs(limit=5),
    )
    results = sn.evaluate(sn.Scripted(told), str(part.folder), "vanilla", name="part", limit=5)
    assert "Partial: only some" in results.report("r.md").read_text("utf-8")


def test_changed_answers_are_told_before_they_change_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    corrected = [{**row, "answer": 0} for row in small.rows(8)]
    benchmark = small.built(corrected, tmp_path / "made")
    said = "the answers of mine have changed since the run; it is scored with the current ones"
    assert said in small.command(capsys, "score", "runs/run")[2]
    lines: list[str] = []
    for _ in range(2):
        sn.evaluate(
            sn.Scripted(told), str(benchmark.folder), "vanilla", name="run", announce=lines.append
        )
    assert [line for line in lines if "answers" in line] == [f"runs/run: {said}"]
    assert said not in small.command(capsys, "score", "runs/run")[2]


def test_stored_scores_by_other_answers_are_not_shown_as_those_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    assert small.command(capsys, "score", "runs/run", "--extractor", "strict")[0] == 0
    assert "scored with extractor strict" in small.command(capsys, "card", "runs/run")[2]

    # Nothing says B, so that no reply is right by the corrected answers.
    small.built([{**row, "answer": 1} for row in small.rows(8)], tmp_path / "made")
    assert not is_scored_whole(Path("runs/run"))  # nor is the standard scoring shown
    code, card, err = small.command(capsys, "card", "runs/run")
    assert code == 0 and "0.0% [0.0" in card
    assert "the answers of mine have changed since it was scored with extractor strict" in err
    notes: list[str] = []
    sn.load_run("runs/run", announce=notes.append)
    assert notes[0].endswith("the answers of mine have changed since: score it again")
    with serving(Path("runs"), index=tmp_path / "index.sqlite") as client:
        until(lambda: "0.0%" in client.get("/run?run=run").text)

    # Scored again, it is shown so again.
    assert small.command(capsys, "score", "runs/run", "--extractor", "strict")[0] == 0
    _, card, err = small.command(capsys, "card", "runs/run")
    assert "0.0% [0.0" in card and "scored with extractor strict" in err and "since" not in err


def test_runs_are_put_beside_each_other_by_one_scoring_although_answers_have_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, name="a")
    shutil.copytree("runs/a", "runs/b")
    assert small.command(capsys, "score", "runs/a", "--extractor", "strict")[0] == 0
    small.built([{**row, "answer": 1} for row in small.rows(8)], tmp_path / "made")
    pair = ("runs/a", "runs/b")

    # As they are stored, but both by standard settings, and nothing is silent about the answers.
    notes: list[str] = []
    both = sn.load_run(pair, announce=notes.append)
    assert [run.scoring.extractor for run in both.runs] == ["standard", "standard"]
    assert "so standard settings are used for all" in notes[0]
    since = "the answers of mine have changed since: score it again"
    assert [note.endswith(since) for note in notes[1:]] == [True, True]
    code, _, told = small.command(capsys, "export", "runs/b", "-o", "b.csv")
    assert code == 0 and since in told
    told = small.command(capsys, "card", "runs/a", "--scoring", "strict")[2]
    assert since in told

    # A run without scores does not change how the others are exported.
    shutil.copytree("runs/b", "runs/c")
    Path("runs/c/scoring.json").unlink()
    code, _, told = small.command(capsys, "export", *pair, "runs/c", "-o", "all.csv")
    assert code == 0 and "left out: runs/c has not been scored" in told
    assert "so standard settings are used for all" in told

    # Nothing says B, so that no reply is right by the corrected answers. Their comparison is by these, like
    # that of `snellen compare`.
    for runs in (pair, ("runs/b", "runs/a"), ("runs/b", sn.load_run("runs/a", "standard"))):
        [difference] = sn.compare(*runs).differences
        assert difference.first_value == 0.0


def test_runs_without_scores_by_the_same_settings_are_said_not_to_be_comparable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, name="a")
    shutil.copytree("runs/a", "runs/b")
    assert small.command(capsys, "score", "runs/a", "--extractor", "strict")[0] == 0
    for file in Path("runs/a").glob("*.json*"):
        if file.name in SCORING_FILES:
            file.unlink()
    code, _, told = small.command(capsys, "export", "runs/a", "runs/b", "-o", "all.csv")
    assert code == 0 and "not all have scores by standard settings" in told


def test_a_run_without_its_answers_goes_to_the_author_of_the_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = made(tmp_path)
    for file in benchmark.folder.glob("answers*"):
        file.unlink()
    code, _, err = small.command(capsys, "pack", "runs/run")
    assert code == 0 and "correct answers: answers" not in err
    assert "the answers are not on this machine" in err
    assert err.rstrip().endswith("then `snellen score received/run`")


def test_a_built_benchmark_is_exported_as_a_dataset_and_not_as_replies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(made(tmp_path).folder)
    code, _, err = small.command(capsys, "export", folder, "-o", "q.csv")
    assert code == 2 and f"{folder} is a built benchmark" in err
    assert f"`snellen export {folder} --as dataset` writes its questions" in err


def test_a_packed_run_is_reported_elsewhere_and_holds_no_gold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = made(tmp_path)
    rows = sn.load_run("runs/run").rows
    assert small.command(capsys, "report", "runs/run")[0] == 0
    code, out, err = small.command(capsys, "pack", "runs/run", "--images")
    assert (
        code == 0
        and "4 images" in out
        and "because they reveal the correct answers: answers, run/report.html" in err
    )
    assert (
        "to open it on another machine, run `python -m zipfile -e run.zip received`, then `snellen view received`"
        in err
    )
    for verb in ("report", "view"):
        code, _, err = small.command(capsys, verb, "run.zip")
        assert code and "unpack it with `python -m zipfile -e run.zip received`" in err
    with zipfile.ZipFile("run.zip") as archive:
        assert not [name for name in archive.namelist() if "answers" in name or "report" in name]
    run = elsewhere(Path("run.zip"), tmp_path / "other", benchmark)
    shutil.rmtree("runs")
    opened = sn.load_run(run)
    assert opened.rows == rows
    table = opened.samples()
    assert table["gold"].null_count() == 8 and table["score_accuracy"].null_count() == 0
    page = opened.report("r.html").read_text("utf-8")
    assert "data:image/png" in page and "the answers are not available" in page


def test_several_runs_are_packed_into_one_file_each_in_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    shutil.copytree("runs/run", "runs/second")
    assert small.command(capsys, "pack", "runs/run", "runs/second")[0] == 0
    shutil.unpack_archive("runs.zip", "unpacked")
    assert [sn.load_run(f"unpacked/{name}").rows for name in ("run", "second")] == [
        sn.load_run("runs/run").rows
    ] * 2
    shutil.copytree("runs/run", "other/run")
    code, _, err = small.command(capsys, "pack", "runs/run", "other/run", "-o", "no.zip")
    assert code and "two of these runs are called run" in err and not Path("no.zip").exists()
    code, _, err = small.command(capsys, "pack", "runs", "runs/run", "-o", "no.zip")
    assert code and "runs/run is given more than once" in err and not Path("no.zip").exists()


def test_a_run_packed_with_its_answers_is_scored_again_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = made(tmp_path)
    strict = sn.score("runs/run", extractor="strict").rows
    code, out, _ = small.command(capsys, "pack", "runs/run", "--answers", "-o", "whole.zip")
    assert code == 0 and "the answers of mine" in out
    run = elsewhere(Path("whole.zip"), tmp_path / "other", benchmark)
    shutil.rmtree("runs")
    assert sn.score(run, extractor="strict").rows == strict
    with pytest.raises(DataError, match=r"image .* is missing"):
        from snellen.interchange.exports.packing import pack_runs

        pack_runs([run], Path("no.zip"), images=True)
    assert not Path("no.zip").exists()
