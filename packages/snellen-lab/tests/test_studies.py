"""Studies: declared in a file, asked once, resumed after a kill, and summed up as by hand."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slow_model
import small
import snellen as sn
from servers import start_server
from slow_model import Slow, SlowAsync
from snellen.building.benchmark import Benchmark
from snellen.errors import DataError, ErrorBudgetError, StoreError, UnknownNameError
from snellen.records import Estimate, Request
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import journals
from snellen_lab import run_study
from snellen_lab.studies.cell_table import STUDY_FILES
from snellen_lab.studies.cell_variance import components_of
from snellen_lab.studies.cells import CellGrid, CellSpec, grid_of
from snellen_lab.studies.declaration import StudySpec, find_study, parse_study
from snellen_lab.studies.series import CellScores, StudyCell, StudySeries
from snellen_lab.studies.spread import mean_beyond_cells

PROMPTS = """
title = "Prompts"
metrics = ["accuracy"]

[fixed]
benchmarks = ["{benchmark}"]

[[vary]]
name = "prompt"
values = ["{{question}}", "Please: {{question}}", "Now! {{question}}"]
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def declared(benchmark: Benchmark, text: str = PROMPTS) -> str:
    Path("mine.toml").write_text(text.format(benchmark=benchmark.folder))
    return "mine.toml"


def right_when(rule: Callable[[Request, int], bool]) -> sn.Scripted:
    """Right about a question by a rule of the request and the question's number; else names the next option."""

    def reply(request: Request) -> str:
        number = int(request.sample_id[1:])
        chosen = number % 4 if rule(request, number) else (number + 1) % 4
        return f"({request.variant.labels[request.variant.order.index(chosen)]})"

    return sn.Scripted(reply, fingerprint="rule", answers_by_sample=True)


def by_prompt(request: Request, number: int) -> bool:
    """Of twelve questions: all right as they are, those of even numbers when asked politely, three when pressed."""
    text = request.messages[0].text
    return (
        number % 2 == 0
        if text.startswith("Please")
        else number < 3
        if text.startswith("Now")
        else True
    )


# --- numbers by hand ---------------------------------------------------------------------------------------------


def test_spread_and_differences_come_out_as_by_hand(questions: Benchmark) -> None:
    results = run_study(declared(questions), right_when(by_prompt))
    accuracies = [1.0, 0.5, 0.25]
    assert results.value("mean") == pytest.approx(statistics.mean(accuracies))
    assert results.value("standard deviation") == pytest.approx(statistics.stdev(accuracies))
    assert (results.value("least"), results.value("greatest")) == (0.25, 1.0)
    cells = {row.cell: row.estimate.value for row in results.rows if row.statistic == "cells"}
    assert cells == {"{question}": 1.0, "Please: {question}": 0.5, "Now! {question}": 0.25}
    pairs = {
        (row.cell, row.against): row.estimate for row in results.rows if row.statistic == "pairs"
    }
    assert [pair.value for pair in pairs.values()] == [0.5, 0.75, 0.25]
    first = pairs["{question}", "Please: {question}"]
    assert first.n == 12 and first.low is not None and -0.03 < first.low < 0
    [page] = Path("studies").glob("*/study.md")
    assert "| 75.0 points [" in page.read_text("utf-8"), "a difference of shares is no share"


def test_shares_of_variance_are_those_of_the_table_of_zeros_and_ones(questions: Benchmark) -> None:
    results = run_study(declared(questions), right_when(by_prompt))
    scores = np.array([[1] * 12, [1, 0] * 6, [1] * 3 + [0] * 9], dtype=float)
    deviations = scores - scores.mean()
    prompt = 12 * ((scores.mean(1) - scores.mean()) ** 2).sum() / 2
    item = 3 * ((scores.mean(0) - scores.mean()) ** 2).sum() / 11
    residual = ((deviations**2).sum() - 2 * prompt - 11 * item) / 22
    expected = {
        "prompt": (prompt - residual) / 12,
        "item": (item - residual) / 3,
        "residual": residual,
    }
    found = {row.cell: row.estimate.value for row in results.rows if row.quantity == "variance"}
    assert found == pytest.approx(expected)
    total = sum(max(0.0, variance) for variance in expected.values())
    shares = {
        row.cell: row.estimate.value for row in results.rows if row.quantity == "share of variance"
    }
    assert shares == pytest.approx(
        {source: max(0.0, variance) / total for source, variance in expected.items()}
    )


def test_the_baseline_stands_beside_the_cells_and_each_is_compared_with_it(
    questions: Benchmark,
) -> None:
    text = PROMPTS.replace('"{{question}}", ', "") + '\n[baseline]\nprompt = "{{question}}"\n'
    results = run_study(declared(questions, text), right_when(by_prompt))
    assert results.value("mean") == pytest.approx(0.375)
    assert results.value("baseline") == 1.0
    against = {
        (row.cell, row.against): row.estimate.value
        for row in results.rows
        if row.statistic == "pairs"
    }
    assert against["Please: {question}", "baseline"] == -0.5


def test_questions_without_a_value_in_some_cell_are_left_out_of_all_and_counted(
    questions: Benchmark,
) -> None:
    def reply(request: Request) -> sn.Response | str:
        if request.sample_id == "q003" and request.messages[0].text.startswith("Please"):
            from snellen.records import Failure

            return sn.Response(error=Failure("server", "500"))
        return "(A)"

    model = sn.Scripted(reply, fingerprint="failing", answers_by_sample=True)
    results = run_study(declared(questions), model, error_budget=1.0)
    [mean] = [row.estimate for row in results.rows if row.quantity == "mean"]
    assert (mean.n, mean.unscored, mean.value) == (11, 1, pytest.approx(3 / 11))
    with pytest.raises(ErrorBudgetError):
        run_study(declared(questions), model, output="again")
    assert all(Path("again", file).exists() for file in STUDY_FILES)
    assert (
        "1 questions without a value in some cell are left out"
        in Path("studies/mine/study.md").read_text()
    )


def test_a_number_of_the_whole_has_a_spread_and_neither_pairs_nor_shares(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"q{n}",
            "question": "Is there a dog?",
            "answer": ("yes", "no")[n % 2],
            "image": small.cell(n),
        }
        for n in range(12)
    ]
    benchmark = small.built(rows, tmp_path / "made", formulation="text", metrics=("pope",))
    text = PROMPTS.replace('["accuracy"]', '["pope_f1"]')
    model = sn.Scripted(
        lambda r: "Yes." if r.messages[0].text.count("Please") else "No.", fingerprint="yes"
    )
    results = run_study(
        declared(benchmark, text), model, templates="data", allow_same_requests=True
    )
    assert {row.statistic for row in results.rows} == {"cells", "spread"}


def test_the_wider_interval_covers_the_mean_of_all_prompts(questions: Benchmark) -> None:
    """300 simulated studies of 8 prompts and 40 images; other prompts and images as a sample of many."""
    rng, covered, narrower = np.random.default_rng(5), 0, 0
    grid = CellGrid({"prompt": tuple("abcdefgh")}, ())
    asked = [(f"q{i}", 0) for i in range(40)]
    for _ in range(300):
        effects = (
            rng.normal(0, 1.0, (8, 1)) + rng.normal(0, 1.0, (1, 40)) + rng.normal(0, 1.5, (8, 40))
        )
        cells = tuple(
            CellScores(
                StudyCell("m", CellSpec(label, {"prompt": label}, {})),
                "b",
                Estimate(float(row.mean()), None, None, None, 40),
                dict(zip(asked, row.tolist(), strict=True)),
            )
            for label, row in zip("abcdefgh", effects, strict=True)
        )
        series = StudySeries(
            "m", "b", "", None, "", "no bounds", "", cells, None, {q: q[0] for q in asked}
        )
        mean = series.mean_of_questions()
        wide = mean_beyond_cells(series, mean, components_of(series, grid))
        covered += (wide.low or 0) <= 0 <= (wide.high or 0)
        narrower += (mean.low or 0) <= 0 <= (mean.high or 0)
    assert 0.92 <= covered / 300 <= 0.98
    assert narrower / 300 < 0.85


# --- what is asked -----------------------------------------------------------------------------------------------


def asked_in(folder: str) -> Counter[str]:
    """How often each request was put to the model, over all cells."""
    return Counter(
        exchange.request.key
        for run in sorted(Path(folder, "runs").iterdir())
        for exchange in read_exchanges(run)
        if not exchange.reused
    )


ORDERS = """
title = "Orders"
[fixed]
benchmarks = ["{benchmark}"]
[[vary]]
name = "order"
field = "protocols"
values = ["vanilla", "instability?m=1&perturb=order&in_context=false&seed=1", "circular?all_passes=true"]
"""


@pytest.mark.parametrize("model", [Slow(), SlowAsync()])
def test_nothing_is_asked_twice_across_cells_that_ask_the_same(
    model: Any, questions: Benchmark
) -> None:
    run_study(declared(questions, ORDERS), model, metrics=["accuracy"])
    asked = asked_in("studies/mine")
    assert len(model.asked) == len(asked) and set(asked.values()) == {1}
    presented = sum(1 for run in Path("studies/mine/runs").iterdir() for _ in read_exchanges(run))
    assert (
        presented == 12 + 12 + 48 and 48 <= len(asked) <= 60
    )  # the first rotation is the options' own order
    before = len(model.asked)
    run_study(declared(questions, ORDERS), model, metrics=["accuracy"])
    assert len(model.asked) == before


def test_seeds_of_greedy_replies_are_one_observation_and_it_is_said(questions: Benchmark) -> None:
    text = PROMPTS.replace(
        'name = "prompt"\nvalues = ["{{question}}", "Please: {{question}}", "Now! {{question}}"]',
        'name = "round"\nfield = "seed"\nvalues = [0, 1, 2]',
    )
    said: list[str] = []
    model = Slow()
    results = run_study(declared(questions, text), model, announce=said.append)
    assert len(model.asked) == 12
    assert results.value("standard deviation") == 0
    assert (
        "slow: all requests of the cell round=2 were already answered in other cells, so it is not an independent observation"
        in (results.outcome.notes)
    )
    sampled = run_study(declared(questions, text), Slow(), temperature=0.7, output="sampled")
    assert sum(asked_in("sampled").values()) == 36 and not sampled.outcome.notes


def test_a_model_that_only_scores_options_is_left_out_of_cells_that_need_replies(
    questions: Benchmark,
) -> None:
    class Scorer:
        """Gives log-likelihoods alone."""

        name, kinds, batch_size = "scorer", frozenset({"loglikelihood"}), 4

        def fingerprint(self) -> dict[str, str]:
            return {"scorer": "1"}

        def generate(self, requests: Any, images: Any) -> Any:
            raise AssertionError("it gives no replies")

        def loglikelihood(self, requests: Any, images: Any) -> Any:
            return Slow().loglikelihood(requests, images)

    text = (
        ORDERS.partition("values")[0] + 'values = {{ reply = "vanilla", options = "likelihood" }}\n'
    )
    results = run_study(declared(questions, text), [Slow(), Scorer()], metrics=["accuracy"])
    cells = {(row.model, row.cell) for row in results.rows if row.statistic == "cells"}
    assert cells == {("slow", "reply"), ("slow", "options"), ("scorer", "options")}
    assert (
        "scorer gives no replies, which vanilla needs" in Path("studies/mine/study.md").read_text()
    )


def test_the_pictures_vary_with_the_seed_of_the_sample(questions: Benchmark) -> None:
    text = PROMPTS.partition("[[vary]]")[0] + (
        '[sample]\nrule = "equal"\neach = 1\n[[vary]]\nname = "pictures"\nfield = "sample.seed"\nvalues = [0, 1, 2]\n'
    )
    results = run_study(declared(questions, text), Slow())
    rows = [row for row in results.rows if row.statistic == "cells"]
    assert {row.benchmark for row in rows} == {"mine"} and {row.estimate.n for row in rows} == {4}
    assert results.value("mean") is not None
    assert not [
        row for row in results.rows if row.statistic == "variance"
    ]  # no question is in every cell
    before = sorted(Path("studies/mine/benchmarks").iterdir())
    run_study(declared(questions, text), Slow())
    assert sorted(Path("studies/mine/benchmarks").iterdir()) == before and len(before) == 3


def test_benchmarks_of_a_study_have_a_mean_in_every_cell(make: Callable[..., Benchmark]) -> None:
    one, two = (make(small.rows(8), name=name) for name in ("one", "two"))
    text = PROMPTS.replace('"{benchmark}"', f'"{one.folder}", "{two.folder}"')
    Path("mine.toml").write_text(text.format())
    results = run_study("mine.toml", right_when(by_prompt))
    assert results.value("mean", benchmark="*") == pytest.approx(statistics.mean([1.0, 0.5, 3 / 8]))


def test_the_mean_over_models_of_a_mean_over_benchmarks_has_the_number_of_its_questions(
    make: Callable[..., Benchmark],
) -> None:
    one, two = (make(small.rows(8), name=name) for name in ("one", "two"))
    text = PROMPTS.replace('"{benchmark}"', f'"{one.folder}", "{two.folder}"')
    text = text.replace("[fixed]", 'statistics = ["models"]\n\n[fixed]')
    Path("mine.toml").write_text(text.format())
    results = run_study("mine.toml", right_when(by_prompt))
    counts = {
        (row.benchmark, row.estimate.n)
        for row in results.rows
        if row.quantity == "mean over models"
    }
    assert {n for benchmark, n in counts if benchmark == "*"} == {16}
    assert {n for benchmark, n in counts if benchmark != "*"} == {8}


def test_workers_carry_a_study_out_too(questions: Benchmark) -> None:
    levels = {"prompt": ["Please: {question}"]}
    in_process = run_study(declared(questions), "snellen:uniform", levels=levels)
    by_workers = run_study(
        "mine.toml", "snellen:uniform", levels=levels, workers=2, output="by-workers"
    )
    assert by_workers.rows == in_process.rows


# --- stopped and gone on -----------------------------------------------------------------------------------------

KILLED = """
import sys
sys.path.insert(0, {tests!r})
from slow_model import Slow
from snellen_lab import run_study
run_study("mine.toml", Slow(0.01, batch_size=1))
"""


def test_a_killed_study_goes_on_and_ends_like_one_that_was_not(questions: Benchmark) -> None:
    declared(questions)
    whole = run_study("mine.toml", Slow(), output="whole")
    script = KILLED.format(tests=str(Path(str(slow_model.__file__)).parent))
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ)
    deadline = time.monotonic() + 60
    while lines() < 20 and process.poll() is None:  # in the second of three cells
        assert time.monotonic() < deadline, "the process wrote nothing"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = sum(asked_in("studies/mine").values())
    model = Slow()
    again = run_study("mine.toml", model)
    assert 18 <= before < 36 and len(model.asked) == 36 - before
    assert again.rows == whole.rows
    assert Path("studies/mine/results.json").read_bytes() == Path("whole/results.json").read_bytes()


def lines() -> int:
    runs = Path("studies/mine/runs")
    folders = list(runs.iterdir()) if runs.exists() else []
    return sum(path.read_bytes().count(b"\n") for folder in folders for path in journals(folder))


def test_a_folder_of_another_study_is_refused(questions: Benchmark) -> None:
    run_study(declared(questions), Slow(), output="here")
    Path("other.toml").write_text(Path("mine.toml").read_text())
    with pytest.raises(
        StoreError, match="here holds the study mine; choose another folder for the output"
    ):
        run_study("other.toml", Slow(), output="here")


def test_two_models_of_one_name_are_refused(questions: Benchmark) -> None:
    with pytest.raises(DataError, match="two models are named slow"):
        run_study(declared(questions), [Slow(), Slow()])


def test_more_models_and_levels_join_a_study_and_only_they_are_asked(questions: Benchmark) -> None:
    run_study(declared(questions), Slow())
    model = Slow()
    results = run_study("mine.toml", model, levels={"prompt": ["{question}", "Hm. {question}"]})
    assert len(model.asked) == 12
    assert {row.cell for row in results.rows if row.statistic == "cells"} == {
        "{question}",
        "Hm. {question}",
    }


# --- what varies -------------------------------------------------------------------------------------------------


def study_of(vary: str) -> StudySpec:
    return parse_study(f'title = "t"\n[fixed]\nbenchmarks = ["b"]\n{vary}', "t", "t.toml", Path())


def test_every_combination_of_levels_is_a_cell() -> None:
    grid = grid_of(
        study_of(
            '[[vary]]\nname = "prompt"\nvalues = ["a", "b"]\n'
            '[[vary]]\nname = "round"\nfield = "seed"\nvalues = [0, 1]\n[baseline]\nseed = 9'
        )
    )
    assert [cell.label for cell in grid.cells] == [
        "prompt=a, round=0",
        "prompt=a, round=1",
        "prompt=b, round=0",
        "prompt=b, round=1",
        "baseline",
    ]
    assert grid.cells[2].fields == {"prompt": "b", "seed": 0} and grid.cells[-1].is_baseline


@pytest.mark.parametrize(
    ("slot", "levels"),
    [
        ("cut", ("a photo of a", "the plastic", "in brackets")),
        ("blank", ("a photo of a ___.", "the plastic ___", "in brackets")),
    ],
)
def test_levels_are_the_lines_of_a_file_and_the_place_of_a_class_is_cut_off_or_left_blank(
    slot: str, levels: tuple[str, ...]
) -> None:
    Path("prompts.txt").write_text(
        "# mine\na photo of a {}.\n\nthe plastic {}\n  in brackets \nthe plastic {}\n"
    )
    grid = grid_of(study_of(f'[[vary]]\nname = "prompt"\nfile = "prompts.txt"\nslot = "{slot}"'))
    assert grid.factors["prompt"] == levels
    assert grid.notes == ("prompt: 1 of 4 levels repeat an earlier one and were left out",)


def test_nothing_before_the_place_of_the_class_is_refused_with_its_line() -> None:
    Path("prompts.txt").write_text("a {}\n{} here\n")
    with pytest.raises(DataError, match=r"prompts.txt:2: the line begins with the class name"):
        grid_of(study_of('[[vary]]\nname = "prompt"\nfile = "prompts.txt"'))


FIXED = "title = 'x'\n[fixed]\nbenchmarks = ['b']\n"
VARY = f"{FIXED}[[vary]]\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("title = 3", "t.toml: Expected `str`"),
        ("titel = 'x'", "t.toml: unknown field 'titel'; did you mean title"),
        ("title = 'x'\n[fixed]\nlimit = 3", "t.toml: the study names no benchmarks"),
        (f"{FIXED}limitt = 3", r"unknown field of \[fixed\] 'limitt'; did you mean limit"),
        (f"{FIXED}limit = 0", r"t.toml: fixed: limit: expected"),
        (f"{VARY}name = 'prmpt'\nvalues = [1]", "the factor prmpt: unknown field 'prmpt'"),
        (f"{VARY}name = 'seed'", "the factor seed needs levels"),
        (
            f"{VARY}name = 'seed'\nvalues = [1]\n[[vary]]\nname = 'seed'\nvalues = [2]",
            "two factors are named seed",
        ),
        (
            f"statistics = ['spred']\n{FIXED}",
            "statistics: unknown study statistic 'spred'; did you mean spread",
        ),
        (f"{FIXED}[sample]\nrule = 'equal'", "the sampling rule equal takes each or count"),
        ("title = ", "t.toml: "),
    ],
)
def test_a_wrong_declaration_is_refused_in_one_line(text: str, fault: str) -> None:
    with pytest.raises((DataError, UnknownNameError), match=fault) as refusal:
        parse_study(text, "t", "t.toml")
    assert "\n" not in str(refusal.value)


def test_an_unknown_study_factor_or_metric_is_named(questions: Benchmark) -> None:
    with pytest.raises(
        UnknownNameError, match="unknown study 'promt-sweep'; did you mean lvlm-ehub/prompt-sweep"
    ):
        find_study("promt-sweep")
    with pytest.raises(UnknownNameError, match="unknown factor 'promt'; did you mean prompt"):
        run_study(declared(questions), Slow(), levels={"promt": ["a"]})
    with pytest.raises(UnknownNameError, match=r"unknown field.* 'windw'; did you mean "):
        run_study(declared(questions), Slow(), windw=2)  # type: ignore[call-arg]
    with pytest.raises(UnknownNameError, match="unknown metric 'acuracy'"):
        run_study(declared(questions), Slow(), metrics="acuracy")
    with pytest.raises(DataError, match="mine varies prompt; give its levels"):
        run_study(declared(questions), Slow(), prompt="x")
    with pytest.raises(DataError, match=r"no.toml: cannot read the "):
        run_study("no.toml", Slow())


# --- doors -------------------------------------------------------------------------------------------------------


def test_a_suite_brings_studies_and_statistics_of_its_own(
    questions: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_SUITES", "")
    files = {
        "zoo/suite.toml": 'name = "zoo"\ntitle = "Zoo"\n[hooks.study_statistics]\nmedian = "zoo_statistics:MEDIAN"\n',
        "zoo/studies/politeness.toml": PROMPTS.format(benchmark=questions.folder).replace(
            "metrics =", 'statistics = ["median"]\nmetrics ='
        ),
        "zoo/zoo_statistics.py": """
from statistics import median
from snellen.plugin_api import Estimate
from snellen_lab import StudyPart, StudyStatistic, study_row

def compute(numbers):
    return StudyPart(tuple(
        study_row(series, "median", "median", Estimate(median(series.levels), None, None, None, len(series.common)))
        for series in numbers.series
    ))

MEDIAN = StudyStatistic("Median", compute)
""",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    sn.add_suites("zoo")
    assert find_study("politeness").name == find_study("zoo/politeness").name == "zoo/politeness"
    assert run_study("politeness", right_when(by_prompt)).value("median") == 0.5


def test_the_command_prints_the_tables_and_writes_four_files(
    questions: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("study", declared(questions), "snellen:uniform")
    code, shown, said = small.command(capsys, *words, "--levels", "prompt={question},Hm")
    assert code == 0, said
    assert (
        "Accuracy in each cell" in shown
        and "Shares of variance" in shown
        and "studies/mine" in shown
    )
    assert "cell 2 of 2: Hm" in said
    for file in STUDY_FILES:
        assert Path("studies/mine", file).stat().st_size
    page = Path("studies/mine/study.html").read_text()
    assert (
        "<svg" in page
        and "http" not in page.replace("http-equiv", "")
        and page.count("<script>") == 1
    )
    with Path("studies/mine/results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(json.loads(Path("studies/mine/results.json").read_text())) > 5
    code, shown, _ = small.command(capsys, *words, "--json", "--limit", "6")
    assert code == 0 and {json.loads(line)["statistic"] for line in shown.splitlines()} >= {
        "cells",
        "spread",
    }
    code, _, said = small.command(capsys, *words, "--levels", "prompt")
    assert code == 2 and "write FACTOR=FILE" in said


def test_studies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = small.command(capsys, "list", "studies", "--json")
    names = [json.loads(line)["study"] for line in shown.splitlines()]
    assert code == 0 and "lvlm-ehub/prompt-sweep" in names and names == sorted(names)


def test_a_study_is_a_frame_and_a_report(questions: Benchmark) -> None:
    results = run_study(declared(questions), right_when(by_prompt))
    assert (
        repr(results)
        == f"<StudyResults: mine in studies/mine; cells: 3, numbers: {len(results.rows)}>"
    )
    frame = results.table()
    assert frame.filter(frame["quantity"] == "mean")["value"].to_list() == [pytest.approx(7 / 12)]
    assert results.report("out.md").read_text().startswith("# Prompts")
    with pytest.raises(DataError, match="a study is written as one of"):
        results.report("out.pdf")
    with pytest.raises(DataError, match="3 numbers match"):
        results.value("value")
    assert math.isclose(results.value("value", cell="{question}") or 0, 1.0)


# --- models of every kind ----------------------------------------------------------------------------------------


def test_a_model_behind_a_server_carries_a_study_out_and_is_asked_each_thing_once(
    questions: Benchmark,
) -> None:
    with start_server() as server:
        model = f"openai:served@{server.url}"
        results = run_study(declared(questions), model)
        asked = len(server.seen())
        again = run_study("mine.toml", model)
        assert len(server.seen()) == asked == 36 and again.rows == results.rows
    assert sum(asked_in("studies/mine").values()) == 36
