"""The command line as a user types it: one line for each fault, exit codes, and nothing heavy loaded."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from rich.console import Console

import small
from servers import broken, start_server
from snellen.cli import cli, main, show
from snellen.runs.run_progress import RunProgress

SNELLEN = [sys.executable, "-m", "snellen"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out, captured.err


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_help_shows_every_verb_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from snellen.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'transformers', 'polars', 'pyarrow', 'httpx', 'numpy', 'PIL', 'msgspec', 'rich')"
        " if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert shown.splitlines()[-1] == "[]"
    for verb in ("demo", "list", "build", "run", "score", "report"):
        assert f"  {verb} " in shown


@pytest.mark.parametrize("verb", ["demo", "list", "build", "run", "score", "report"])
def test_each_verb_has_help_with_its_options(verb: str) -> None:
    shown = CliRunner().invoke(cli, [verb, "--help"])
    assert shown.exit_code == 0 and "Usage:" in shown.output and "--help" in shown.output


@pytest.mark.parametrize("what", ["benchmarks", "suites", "models", "protocols", "metrics"])
def test_list_prints_a_table_and_json_lines(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "list", what)[0] == 0
    code, out, _ = run(capsys, "list", what, "--json")
    assert code == 0 and len(rows(out)) >= 2


def test_list_says_of_each_model_string_that_ships_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "list", "models")
    for scheme in (
        "anthropic",
        "azure",
        "bedrock",
        "clip",
        "gemini",
        "hf",
        "ocr",
        "openai",
        "replay",
        "vertex",
        "vllm",
    ):
        assert f"\n{scheme}:" in out and f"\n{scheme}:..." not in out


def test_list_takes_globs_and_knows_the_list_that_was_nearly_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "list", "eyechart/co*", "--json")
    assert [row["name"] for row in rows(out)] == ["eyechart/colour", "eyechart/count"]
    assert (
        rows(run(capsys, "list", "MMBench_DEV_EN", "--json")[1])[0]["name"] == "mmbench/dev-en"
    )  # as `run` takes it
    part = rows(run(capsys, "list", "eyechart:spatial", "--json")[1])
    assert [row["name"] for row in part] == ["eyechart/position", "eyechart/relation"]
    code, _, err = run(capsys, "list", "protocol")
    assert code == 2 and "did you mean `snellen list protocols`?" in err


def test_list_narrows_by_a_condition(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys, "list", "--where", "dimension == 'Spatial' and suite == 'eyechart'", "--json"
    )
    assert [row["name"] for row in rows(out)] == ["eyechart/position", "eyechart/relation"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["run", "snellen:oracl", "eyechart/shape"],
            "unknown embedded model 'oracl'; did you mean oracle?",
        ),
        (["run", "snelen:tiny", "eyechart/shape"], "unknown model 'snelen'; did you mean snellen?"),
        (["run", "..:M", "eyechart/shape"], "unknown model '..'; known: "),
        (["run", "./..:M", "eyechart/shape"], "unknown model './..'; known: "),
        (["run", "tiny", "eyechart/shape"], "model 'tiny' has no scheme"),
        (
            ["run", "eyechart/shape", "snellen:tiny"],
            "give the model first, then the benchmarks: `snellen run snellen",
        ),
        (
            ["run", "eyechart/shape", "tiny"],
            "give the model first, then the benchmarks: `snellen run MODEL eyech",
        ),
        (["run", "snellen:oracle", "./shape"], "there is no folder ./shape"),
        (
            ["run", "snellen:oracle", "eyechart/shape", "--limit", "ten"],
            "'--limit': give a whole number of 1 or more, not ten (see `snellen",
        ),
        (
            ["run", "snellen:oracle", "eyechart/shape", "--limit", "0"],
            "give a whole number of 1 or more, not 0 (see `sn",
        ),
        (
            ["resume", "runs/x"],
            "unknown command 'resume'; to resume a run, repeat its `snellen run` command",
        ),
        (
            ["run", "snellen:oracle", "eyechart/shap"],
            "unknown benchmark 'eyechart/shap'; did you mean eyechart/shape",
        ),
        (
            ["run", "snellen:oracle", "MMMU_DEV_VAL"],
            "unknown benchmark 'MMMU_DEV_VAL'; did you mean modern/mmmu?",
        ),
        (["build", "MMBench"], "unknown benchmark 'MMBench'; did you mean the suite mmbench"),
        (["run", "snellen:oracle", "missing.csv"], "there is no file missing.csv; check the path"),
        (
            ["run", "snellen:oracle", "eyechart/shape", "-p", "circlar"],
            "unknown protocol 'circlar'; did you mean circular?",
        ),
        (
            ["run", "snellen:oracle", "eyechart/shape", "-p", "circular?al=1"],
            "unknown option of circular 'al'",
        ),
        (
            ["run", "snellen:oracle", "eyechart/shape", "-p", "instability?m=0"],
            "instability needs m >= 1",
        ),
        (
            ["run", "snellen:oracle", "eyechart/shape", "-p", "vanilla?by=guess"],
            "Invalid enum value 'guess'",
        ),
        (["run", "snellen:oracle", "eyechart/shape", "--where", "import os"], "is not a condition"),
        (
            ["run", "snellen:oracle", "eyechart/shape", "--where", "levl == 'easy'"],
            "did you mean level?",
        ),
        (["run", "snellen:oracle"], "name a benchmark to run"),
        (
            ["run", "snellen:oracle", "eyechart/shape", "-p", "vanilla", "--method", "likelihood"],
            "--method likelihood chooses the protocols if none is named, but --protocol vanilla is",
        ),
        (["run", "hf:./nowhere", "eyechart/shape"], "nowhere"),
        (["run", "exam.toml"], "there is no file exam.toml"),
        (["score", "nowhere"], "there is no folder nowhere"),
        (["report", "nowhere"], "is neither a run nor a benchmark"),
        (["build", "nowhere.tsv"], "no such file"),
        (
            ["build", "questions.xlsx"],
            "questions.xlsx: not a readable .xlsx file (File is not a zip file)",
        ),
        (
            ["build", "questions.tsv", "--name", "eyechart"],
            "eyechart is already a suite in the catalogue",
        ),
        (
            ["build", "questions.tsv", "--name", "eyechart/colour"],
            "eyechart/colour is already a benchmark in the catalogue",
        ),
        (["rnu"], "unknown command 'rnu'; did you mean run?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_fault_of_the_user_is_one_line_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("questions.xlsx").write_bytes(b"PK")
    Path("questions.tsv").write_text("question\tA\tB\tanswer\nWhich?\tcat\tdog\tA\n")
    code, out, err = run(capsys, *words)
    last = err.splitlines()[-1]
    assert (code, out) == (2, "")
    assert last.startswith("snellen: ") and said in last
    assert "Traceback" not in err


def test_debug_shows_where_an_error_came_from() -> None:
    done = subprocess.run(
        [*SNELLEN, "--debug", "score", "nowhere"], capture_output=True, text=True, check=False
    )
    assert "Traceback" in done.stderr and "there is no folder nowhere" in done.stderr


def test_a_run_goes_on_where_it_was_and_scores_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "run",
        "snellen:uniform",
        "eyechart/shape",
        "-p",
        "circular",
        "--limit",
        "20",
        "--name",
        "r",
        "--json",
        "--no-report",
    ]
    code, first, _ = run(capsys, *words)
    journal = Path("runs/r/journal-0.jsonl").read_bytes()
    again = run(capsys, *words)
    assert code == 0 and again[:2] == (0, first)
    assert Path("runs/r/journal-0.jsonl").read_bytes() == journal
    assert run(capsys, "score", "runs/r", "--json")[:2] == (0, first)


def test_several_workers_find_what_one_finds(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "run",
        "snellen:uniform",
        "eyechart/shape",
        "eyechart/dialogue",
        "-p",
        "instability?m=3",
        "--limit",
        "20",
        "--json",
        "--no-report",
    ]
    one = run(capsys, *words, "--name", "one")
    two = run(capsys, *words, "--name", "two", "--workers", "2")
    assert one[0] == two[0] == 0 and one[1] == two[1]
    assert sorted(path.name for path in Path("runs/two").glob("journal-*")) == [
        "journal-0.jsonl",
        "journal-1.jsonl",
    ]


def test_several_models_of_one_command_make_a_run_each(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("eyechart/shape", "-p", "vanilla", "--limit", "3", "--json", "--no-report")
    code, out, _ = run(capsys, "run", "snellen:oracle", "snellen:uniform", *words, "--name", "pair")
    assert code == 0 and {row["model"] for row in rows(out)} == {
        "snellen:oracle",
        "snellen:uniform",
    }
    assert sorted(path.name for path in Path("runs").iterdir()) == ["pair-0", "pair-1"]


def test_a_toml_file_says_what_flags_say_and_flags_win(capsys: pytest.CaptureFixture[str]) -> None:
    Path("exam.toml").write_text(
        'models = ["snellen:oracle", "snellen:uniform"]\nbenchmarks = ["eyechart/shape"]\n'
        'protocols = ["circular"]\nlimit = 50\nname = "exam"\nreport = false\n'
    )
    code, out, _ = run(capsys, "run", "exam.toml", "--limit", "10", "--json")
    found = [
        row
        for row in rows(out)
        if row["metric"] == "circular_accuracy" and row["benchmark"] == "eyechart/shape"
    ]
    assert code == 0
    assert {(row["model"], row["n"]) for row in found if row["slice"] == ""} == {
        ("snellen:oracle", 10),
        ("snellen:uniform", 10),
    }
    code, out, _ = run(
        capsys, "run", "exam.toml", "snellen:uniform", "--limit", "2", "--name", "again", "--json"
    )
    assert code == 0 and {row["model"] for row in rows(out)} == {"snellen:uniform"}
    Path("exam.toml").write_text('modles = ["snellen:oracle"]')
    assert (
        "exam.toml: unknown field 'modles'; did you mean models or roles?"
        in run(capsys, "run", "exam.toml")[2]
    )


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "/x",
        "a/../b",
        "..",
        ".x",
        "-x",
        "a//b",
        " ",
        "a ",
        "e\x1b[31mred",
        "a\nb",
        "\u202ea",
        "a\x00b",
    ],
)
def test_a_name_that_leads_elsewhere_or_cannot_be_printed_is_refused_at_every_door(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.tsv").write_text("question\tA\tB\tanswer\nWhich?\tcat\tdog\tA\n")
    before = sorted(tmp_path.parent.iterdir())
    code, _, err = run(capsys, "build", "mine.tsv", "--no-images", "--name", name)
    assert (
        code == 2
        and err.count("\n") == 1
        and "\x1b" not in err
        and "use letters, digits, dots and dashes" in err
    )
    assert run(capsys, "build", "mine.tsv", "--no-images", "--to", "mine")[0] == 0
    assert run(capsys, "sample", "./mine", "--count", "1", "--name", name)[0] == 2
    # A folder from elsewhere: its name is where a run would keep its questions.
    manifest = Path("mine/benchmark.json")
    manifest.write_text(
        manifest.read_text().replace('"name": "mine"', f'"name": {json.dumps(name)}')
    )
    code, _, err = run(capsys, "run", "snellen:oracle", "./mine")
    assert code == 2 and "\x1b" not in err and not Path("runs").exists()
    assert sorted(tmp_path.parent.iterdir()) == before


@pytest.mark.parametrize(
    "name", ["[/bold]x", "a[red]b", "x<script>", "größe", "suite/part", "a.b-c_d"]
)
def test_a_name_with_markup_is_a_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.tsv").write_text("question\tA\tB\tanswer\nWhich?\tcat\tdog\tA\n")
    code, out, _ = run(capsys, "build", "mine.tsv", "--no-images", "--name", name)
    assert code == 0 and f"built {name} version" in out
    assert run(capsys, "run", "snellen:oracle", name)[0] == 0
    assert name in run(capsys, "list")[1]


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["mine.tsv", "--ratio", "0.5"], "--ratio"),
        (["mine.tsv", "--source", "."], "--source"),
        (["mine.tsv", "--hub"], "--hub"),
        (["mine.tsv", "--param", "a=b"], "--param"),
        (["eyechart/colour", "--images", "."], "--images"),
        (["eyechart/colour", "--metric", "anls"], "--metric"),
        (["eyechart/colour", "--no-images"], "--no-images"),
    ],
)
def test_a_flag_of_build_without_an_effect_is_refused(
    words: list[str], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.tsv").write_text("question\tA\tB\tanswer\nWhich?\tcat\tdog\tA\n")
    code, _, err = run(capsys, "build", *words)
    assert (
        code == 2
        and err.count("\n") == 1
        and f"{flag} applies only to " in err
        and f"remove {flag}" in err
    )


def test_own_questions_become_a_benchmark_with_one_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("mine.tsv").write_text(
        "question\tA\tB\tanswer\nIs NA an option?\tNA\tNone\tA\nAnd 5.0?\t5.0\t5\tB\n"
    )
    code, out, _ = run(capsys, "build", "mine.tsv", "--to", "mine", "--no-images")
    assert code == 0 and "2 questions" in out
    code, out, _ = run(capsys, "run", "snellen:oracle", "./mine", "--json", "--no-report")
    assert code == 0
    assert [
        row["value"]
        for row in rows(out)
        if row["metric"] == "accuracy" and row["benchmark"] == "mine"
    ] == [1.0]


def test_a_wrong_row_is_refused_with_its_line_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("bad.tsv").write_text("question\tA\tB\tanswer\nfine\tx\ty\tA\nno such option\tx\ty\tC\n")
    code, _, err = run(capsys, "build", "bad.tsv", "--to", "bad", "--no-images")
    assert code == 2 and "bad.tsv:3: answer 'C'" in err
    assert sorted(path.name for path in Path().iterdir()) == ["bad.tsv"]


def test_an_api_model_runs_and_its_failures_make_the_exit_code_3(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["eyechart/shape", "--limit", "12", "--json", "--no-report", "--name", "api"]
    with start_server(script=(broken(400, times=3),)) as server:
        model = f"openai:any@{server.url}?concurrency=4"
        code, out, err = run(capsys, "run", model, *words)
        [row] = [
            r
            for r in rows(out)
            if r["metric"] == "accuracy" and r["benchmark"] == "eyechart/shape" and not r["slice"]
        ]
        assert code == 3 and "3 of 12 requests failed" in err
        assert (row["n"], row["errors"]) == (9, 3)
        asked = len(server.seen())
        code, out, _ = run(capsys, "run", model, *words)
        [row] = [
            r
            for r in rows(out)
            if r["metric"] == "accuracy" and r["benchmark"] == "eyechart/shape" and not r["slice"]
        ]
        assert code == 0 and (row["n"], row["errors"]) == (12, 0)
        assert (
            len([seen for seen in server.seen() if seen.path.endswith("chat/completions")]) == 15
            or asked
        )
    assert "Traceback" not in err


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(tmp_path: Path) -> None:
    with start_server(latency=0.05) as server:
        words = [
            "run",
            f"openai:any@{server.url}?concurrency=2",
            "eyechart/shape",
            "--name",
            "r",
            "--no-report",
        ]
        process = subprocess.Popen(
            [*SNELLEN, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        journal = tmp_path / "runs/r/journal-0.jsonl"
        while process.poll() is None and (
            not journal.exists() or journal.read_bytes().count(b"\n") < 5
        ):
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Run the same command to continue" in err and "Traceback" not in err
    assert journal.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    ("journal", "line"),
    [
        (
            None,
            "stopped before the first reply; nothing is stored yet. Run the same command to start again.\n",
        ),
        (
            "",
            "stopped before the first reply; nothing is stored yet. Run the same command to start again.\n",
        ),
        (
            "{}\n",
            "stopped; all replies so far are stored in {folder}. Run the same command to continue.\n",
        ),
    ],
)
def test_ctrl_c_says_what_is_kept_in_one_line(
    journal: str | None, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ("a-folder-with-a-long-name-" * 4)
    if journal is not None:
        folder.mkdir()
        (folder / "journal-0.jsonl").write_text(journal)
    with pytest.raises(SystemExit) as stop, show.run_progress() as listen:
        listen(RunProgress("snellen:tiny", str(folder), 0, 8))
        raise KeyboardInterrupt
    assert stop.value.code == 130
    assert capsys.readouterr().err.endswith(line.format(folder=folder))


def test_a_read_only_place_for_runs_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs").write_text("a file stands where the folder should be")
    code, _, err = run(capsys, "run", "snellen:oracle", "eyechart/shape", "--limit", "5")
    assert code == 2 and "cannot write" in err.splitlines()[-1]


@pytest.mark.parametrize(
    "name", ["openai:" + "long-name-" * 9 + "@http://host:8000/v1", "snellen:tiny"]
)
@pytest.mark.parametrize(
    ("width", "counts"), [(80, "66000/123456"), (140, "66000/123456 questions")]
)
def test_a_line_of_progress_keeps_bar_counts_rate_and_time(
    name: str, width: int, counts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    seconds = itertools.count()
    console = Console(
        file=written,
        force_terminal=True,
        width=width,
        color_system=None,
        get_time=lambda: float(next(seconds)),
    )
    monkeypatch.setattr(show, "error_console", console)
    with show.run_progress() as listen:
        for done in range(0, 72_000, 6000):
            listen(RunProgress(name, "runs/x", done, 123_456, done * 4, 17))
    plain = re.sub(r"\x1b\[[0-9?;]*[a-zA-Z]", "", written.getvalue())
    last = [line for line in re.split(r"[\r\n]", plain) if line.strip()][-1]
    assert len(last.rstrip()) <= width and "…" not in last.rstrip()[-40:]
    for shown in ("━", counts, "/s", "264,000 requests, 17 failed"):
        assert shown in last, last
    assert re.search(r"\d:\d\d:\d\d", last)


def test_benchmarks_are_found_by_words(capsys: pytest.CaptureFixture[str]) -> None:
    def names(*words: str) -> set[str]:
        code, out, _ = small.command(capsys, "list", "benchmarks", *words, "--json")
        assert code == 0
        return {json.loads(line)["name"] for line in out.splitlines()}

    assert {"reform-eval/docvqa", "lvlm-ehub/docvqa", "modern/docvqa"} < names("docvqa")
    assert names("MMBench", "english", "dev") == {"mmbench/dev-en", "mmbench/dev-en-v11"}
    assert names("eyechart", "word") == {"eyechart/word"}
    code, _, err = small.command(capsys, "list", "benchmarks", "zzz")
    assert code == 2 and "no benchmark matches zzz; `snellen list` shows all" in err
    code, _, err = small.command(capsys, "list", "suites", "chart")
    assert code == 2 and "search words apply to benchmarks, not to suites" in err


def test_on_a_terminal_benchmarks_stand_by_suite(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snellen.cli.show.console._force_terminal", True)
    code, out, _ = small.command(capsys, "list")
    assert code == 0 and "Benchmarks of today's model cards" in out and "mmmu-pro-vision" in out
    assert "modern/mmmu" not in out and len(out.splitlines()) < 120


def test_words_of_other_tools_lead_to_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for word, verb in {
        "eval": "run",
        "tasks": "list benchmarks",
        "runs": "list runs",
        "leaderboard": "report RUN RUN",
        "predict": "run",
        "init": "demo",
        "version": "--version",
        "download": "fetch",
        "eval-only": "score",
        "help": "--help",
    }.items():
        code, _, error = run(capsys, word, "anything")
        assert (code, error) == (2, f"snellen: unknown command {word!r}; use `snellen {verb}`\n")


def test_a_file_of_questions_is_built_and_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        f"q{number},What is {number} + 1?,{number + 1},{'odd' if number % 2 else 'even'}"
        for number in range(8)
    ]
    Path("sums.csv").write_text("\n".join(["id,question,answer,parity", *rows]) + "\n")
    code, _, error = run(capsys, "run", "snellen:oracle", "sums.csv", "--name", "sums")
    assert code == 2 and "`snellen build sums.csv --no-images`" in error
    pictures = [row + ",image.png" for row in rows]
    Image.new("RGB", (8, 8)).save("image.png")
    Path("sums.csv").write_text("\n".join(["id,question,answer,parity,image", *pictures]))
    code, out, _ = run(capsys, "run", "snellen:oracle", "sums.csv", "--name", "sums")
    assert code == 0 and "100.0%" in out
    code, _, error = run(capsys, "run", "sums.csv", "snellen:oracle")
    assert code == 2 and "give the model first" in error
    code, out, _ = run(capsys, "list", "runs")
    assert code == 0 and "runs/sums" in out and "snellen:oracle" in out
    code, _, error = run(capsys, "export", "sums")
    assert code == 2 and "did you mean runs/sums?" in error
    code, _, error = run(capsys, "export", "runs/sums", "--format", "csv")
    assert code == 2 and "`snellen report runs/sums -o report.csv`" in error


def test_flags_of_other_tools_lead_to_how_it_is_said_here(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flag, hint in {
        "--tasks": "`snellen run snellen:tiny x`",
        "--batch-size": "`snellen run 'snellen:tiny?batch_size=x' BENCHMARK`",
        "--model_args": "model settings are part of the model string: `snellen run ",
        "--num_fewshot": "--few-shot N",
        "--max-tokens": "--max-new-tokens N",
        "--suite": "`snellen run snellen:tiny x`",
        "--fail-under": "`snellen score RUN --fail-under 0.9` exits with 1",
        "-o": "`snellen report RUN -o FILE`",
        "--column": "`snellen build FILE --column x`",
    }.items():
        code, _, error = run(capsys, "run", "snellen:tiny", flag, "x")
        assert (
            code == 2
            and f"no option {flag}; " in error
            and hint in error
            and "Did you mean" not in error
        )


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("build q.tsv --open", "questions without options are open"),
        ("build photos --split test", "`snellen build photos:test`"),
        ("build --split=test photos", "`snellen build photos:test`"),
        ("build --to out photos --split test", "`snellen build photos:test`"),
        ("build test --split test", "`snellen build test:test`"),
        ("build coco.json --ask count", "`snellen reform coco.json --ask count`"),
        ("reform coco.json --limit 10", "use `--count N` for N questions in total, or `--per-type"),
        ("report RUN --details", "`snellen score RUN --details`"),
        ("export RUN --metric bleu", "give the flag to `snellen score RUN`, then export"),
        ("export RUN --as-published", "`snellen score RUN --as-published`, then"),
        ("pack mine --hide-answers", "answers are left out unless you write `--answers`"),
        ("score f.xlsx --output x", "use `--to FOLDER`"),
        ("score f.xlsx --name x", "use `--to FOLDER`"),
        ("run snellen:tiny q --repeat 3", "use `-p 'repeat?k=3'`"),
        ("run snellen:tiny q --n 3", "or `-p 'instability?m=3'`"),
        ("run snellen:tiny q --n 1", "use `-p 'repeat?k=5'`"),
    ],
)
def test_a_flag_that_a_verb_lacks_leads_to_the_line_that_does_it(
    line: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coco.json").write_text("{}")
    code, _, error = run(capsys, *line.split())
    assert code == 2 and hint in error and "Did you mean" not in error


def test_no_hint_names_a_flag_that_the_verb_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    # `--runs` is a flag of run, not of view: `use --runs FOLDER` would lead to a second refusal.
    _, _, error = run(capsys, "view", "runs/x", "--work-dir", "y")
    assert "no such option" in error and "use `--runs" not in error


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("openai/gpt-4o", "openai:gpt-4o"),
        ("claude-sonnet", "anthropic:claude-sonnet"),
        ("Qwen/Qwen2-VL-7B-Instruct", "hf:Qwen/Qwen2-VL-7B-Instruct"),
        ("tiny", "snellen:tiny"),
        ("always-a", "snellen:always-a"),
    ],
)
def test_a_model_as_other_tools_write_it_is_told_as_we_do(
    name: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = run(capsys, "run", name, "eyechart/count")
    assert (code, error) == (2, f"snellen: model {name!r} has no scheme; did you mean {meant}?\n")


def test_the_help_of_run_begins_with_the_options_that_most_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, shown, _ = run(capsys, "run", "--help")
    titles = re.findall(r"^(\S.*):$", shown, re.MULTILINE)
    assert titles == [
        "Options that most runs need",
        "What to evaluate, and how",
        "Execution",
        "How replies are read and scored",
        "Models as judges",
        "Other options",
    ]
    first = shown.partition("What to evaluate, and how:")[0]
    assert len(re.findall(r"^  (?:-\w, )?--", first, re.MULTILINE)) <= 13
    assert len(set(re.findall(r"--[a-z-]+", shown))) > 50


def test_list_takes_words_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(capsys, "list", "spatial", "--json")[1]
        == run(capsys, "list", "benchmarks", "spatial", "--json")[1]
    )


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("snellen:oracl", "unknown embedded model 'oracl'; did you mean oracle?"),
        ("hf:./nowhere", "hf:./nowhere: there is no folder nowhere; check the path"),
        ("hf:a/b/c", "'a/b/c' is not a repository name"),
    ],
)
def test_a_model_that_cannot_exist_is_refused_before_anything_is_built(
    model: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    with pytest.raises(SystemExit):
        main(["run", model, "eyechart/shape"])
    assert line in capsys.readouterr().err and not list(tmp_path.rglob("manifest.json"))


def test_build_with_other_settings_replaces_an_earlier_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    run(capsys, "build", "eyechart/colour")

    _, built_half, _ = run(capsys, "build", "eyechart/colour", "--ratio", "0.5")
    _, built_again, told = run(capsys, "build", "eyechart/colour", "--ratio", "0.5")
    assert "150 questions" in built_half
    assert built_again == ""
    assert told.splitlines() == [
        "eyechart/colour is already built; use --force to rebuild it",
        "next: `snellen run MODEL eyechart/colour`",
    ]

    _, _, told = run(capsys, "build", "eyechart/colour", "--ratio", "0.5", "--seed", "1")
    assert "it was built with another value of sample, seed" in told


def test_benchmarks_that_no_protocol_can_ask_are_said_and_a_run_of_these_alone_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("run", "snellen:always-a", "-p", "circular", "--limit", "2", "--name", "mine")
    line = "not run, because circular does not support their questions: eyechart/word"
    code, _, error = run(capsys, *words, "eyechart/word", "eyechart/shape")
    assert code == 0 and line in error
    code, _, error = run(capsys, *words, "eyechart/word")
    assert code == 2 and f"{line}; `-p vanilla` supports every question" in error


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["re"], ["report", "reform", "reproduce", "reconcile"]),
        (["run", "--likelihood-r"], ["--likelihood-rule"]),
        (["run", "--method", "b"], ["both"]),
        (["nosuchverb", "x"], []),
    ],
)
def test_a_shell_completes_verbs_flags_and_choices(words: list[str], completed: list[str]) -> None:
    environment = {
        "_SNELLEN_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["snellen", *words]),
        "COMP_CWORD": str(len(words)),
    }
    shown = subprocess.run(
        SNELLEN, env={**os.environ, **environment}, check=True, capture_output=True, text=True
    ).stdout
    assert shown.split() == [f"plain,{word}" for word in completed]


def test_snellen_alone_shows_how_to_begin_and_six_verbs_on_a_small_screen() -> None:
    shown = CliRunner().invoke(cli, [], env={"COLUMNS": "80"})
    verbs = re.findall(r"^  ([a-z]+)  +[A-Z]", shown.output, re.MULTILINE)
    assert verbs == ["run", "report", "view", "compare", "build", "list"]
    assert (
        shown.exit_code == 0
        and len(shown.output.splitlines()) <= 24
        and "snellen demo" in shown.output
    )


def test_on_a_narrow_terminal_no_word_of_a_table_is_broken_and_columns_that_do_not_fit_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(show, "console", Console(file=written, width=50))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = (
        "suite/a-long-name",
        "Describe what is in the picture",
        "understanding",
        "Apache-2.0",
        "somewhere",
    )
    show.show_table("", ("name", "title", "dimension", "licence", "from"), [row], as_json=False)
    lines = written.getvalue().splitlines()
    assert {"suite/a-long-name", "understanding", "Describe", "picture"} <= set(
        " ".join(lines).split()
    )
    assert "Apache-2.0" not in written.getvalue()
    assert lines[-1] == "not shown (narrow terminal): licence, from"


def test_names_between_commas_are_taken_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    models = "snellen:oracle,snellen:always-a"
    benchmarks = "eyechart/shape,eyechart/count"
    words = ("run", models, benchmarks, "-p", "vanilla,circular", "--limit", "2", "--json")
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert {row["model"] for row in rows(out)} == set(models.split(","))
    assert {row["benchmark"] for row in rows(out)} > set(benchmarks.split(","))
    assert {row["protocol"] for row in rows(out)} >= {"vanilla", "circular"}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("eyechart/shape,nope",), "'nope'; did you mean pope? (separate benchmarks by spaces)"),
        (("eyechart/shape", "-p", "vanilla,nope"), "(repeat -p for each protocol)"),
    ],
)
def test_a_part_between_commas_that_is_no_name_is_told(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = run(capsys, "run", "snellen:oracle", *words)
    assert code == 2 and hint in error


def test_a_score_below_a_bound_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "run", "snellen:oracle", "eyechart/shape", "--limit", "8", "--name", "right")
    run(capsys, "run", "snellen:uniform", "eyechart/shape", "--limit", "8", "--name", "guessed")
    [mean] = [
        row["value"]
        for row in rows(run(capsys, "score", "runs/guessed", "--json")[1])
        if row["benchmark"] == "*" and row["metric"] == "headline"
    ]
    assert isinstance(mean, float) and mean < 0.9

    code, _, error = run(capsys, "score", "runs/right", "--fail-under", "0.9")
    assert (code, error) == (0, "next: `snellen report runs/right` writes the report\n")
    code, _, error = run(capsys, "score", "runs/right", "runs/guessed", "--fail-under", "90%")
    assert code == 1
    assert f"--fail-under: the headline of snellen:uniform is {mean:.4f}, below 0.9\n" in error
    assert error.splitlines()[-1].startswith("next: ")
    # A bound that no score can reach is rejected before anything is scored or printed.
    code, printed, error = run(capsys, "score", "runs/right", "--fail-under", "90")
    assert (code, printed) == (2, "")
    assert error == "snellen: --fail-under 90: the headline is a share; write 90%\n"
    for bound in ("-1", "101%"):
        code, _, error = run(capsys, "score", "runs/right", "--fail-under", bound)
        assert code == 2 and f"{bound} is not a share; write 0.9 or 90%" in error
    code, _, error = run(capsys, "score", "runs/right", "--fail-under", "nan")
    assert code == 2 and "'nan' is not a number; write 0.9 or 90%" in error
    code, _, error = run(capsys, "run", "snellen:oracle", "eyechart", "--fail-under", "0.9")
    assert code == 2 and "`snellen score RUN --fail-under 0.9`" in error


def test_a_folder_of_runs_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("snellen:oracle", "snellen:always-a"):
        run(capsys, "run", model, "eyechart/shape", "--limit", "4")
    code, _, _ = run(capsys, "report", "runs/", "-o", "all.md")
    text = Path("all.md").read_text()
    assert code == 0 and "snellen:oracle" in text and "snellen:always-a" in text


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            "run --model snellen:tiny --tasks A,B --limit 8",
            "`snellen run snellen:tiny A B --limit 8`",
        ),
        (
            "run --model hf --model_args pretrained=./ckpt,dtype=float32 --tasks pope --batch_size 4",
            "`snellen run 'hf:./ckpt?batch_size=4&dtype=float32' pope`",
        ),
        (
            "run --model openai --model_args model=llava,base_url=http://h:1/v1 --tasks=pope",
            "`snellen run openai:llava@http://h:1/v1 pope`",
        ),
        (
            "run --model openai --model_args model=m,base_url=http://h:1/v1 --tasks pope --batch_size 16",
            "`snellen run openai:m@http://h:1/v1 pope` (left out: batch_size=16 (the server decides))",
        ),
        (
            "run --data MMBench_DEV_EN --model llava_v1.5_7b",
            "`snellen run hf:llava-hf/llava-1.5-7b-hf MMBench_DEV_EN`",
        ),
        (
            "run --data pope --model cambrian_8b",
            "cambrian_8b, is of another toolkit: write hf:ORG/NAME",
        ),
        ("run snellen:tiny pope --mode eval", "`snellen score RUN` scores again without the model"),
        (
            "run --data A B --model org/name gpt-4o --verbose --output_path out",
            "`snellen run hf:org/name openai:gpt-4o A B --runs out`",
        ),
        (
            "run snellen:tiny --data own.jsonl",
            "give the file as the benchmark: `snellen run snellen:tiny own.jsonl`",
        ),
        (
            "run llava pope --base-url http://h:1/v1",
            "`snellen run openai:llava@http://h:1/v1 pope`",
        ),
        (
            "run snellen:tiny own.jsonl --image-col img",
            "`snellen build own.jsonl --column image=img`",
        ),
        ("run snellen:tiny --answer_column", "`snellen build FILE --column answer=NAME`"),
        ("eval --model openai/gpt-4o --tasks pope", "use `snellen run openai:gpt-4o pope`"),
        (
            "run --model hf --model_args pretrained=a/b,peft=c --tasks pope --log_samples --num_fewshot 5 "
            "--gen_kwargs temperature=0.7,max_new_tokens=64,do_sample=True,num_beams=3 --apply_chat_template",
            "`snellen run 'hf:a/b?peft=c' pope --few-shot 5 --temperature 0.7 --max-new-tokens 64` "
            "(left out: --log_samples (every reply is stored), num_beams=3)",
        ),
        (
            "run --data MME POPE --model a/b --mode all --nproc 4 --dry-run --limit 8",
            "`snellen run hf:a/b MME POPE --dry-run --limit 8` (left out: --mode all (a run asks and "
            "scores; `snellen score RUN` scores again without the model), --nproc 4)",
        ),
        (
            "run hf:a/b pope --peft ckpt --fail-under 0.8",
            "model settings are part of the model string: `snellen run 'hf:a/b?peft=ckpt' pope` "
            "(left out: --fail-under 0.8 (`snellen score RUN --fail-under 0.8` after the run))",
        ),
        ("run hf:a/b --dry-run pope --adapter c", "`snellen run 'hf:a/b?peft=c' pope --dry-run`"),
        (
            "run --tasks pope --model a/b --limit 0.1 --seed 1,2",
            "`snellen run hf:a/b pope` (left out: --limit 0.1 (a limit is a number of samples), --seed 1,2)",
        ),
        (
            "run --gen_kwargs temperature=0 --model openai-chat-completions --model_args model=gpt-4o --tasks mme",
            "`snellen run openai:gpt-4o mme --temperature 0`",
        ),
        ("run hf:a/b pope --gen_kwargs temperature=0", "use `--temperature`, `--top-p`"),
    ],
)
def test_a_line_of_another_harness_is_answered_by_ours(
    line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.jsonl").touch()
    code, _, error = run(capsys, *line.split())
    assert code == 2 and hint in error and error.count("\n") == 1
