"""One record behind a run: what Python, flags, exam.toml, workers and the manifest can say is the same."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import re
import runpy
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import asdict

import snellen as sn
from slow_model import PROTOCOLS, Slow, SlowAsync
from snellen.building.benchmark import Benchmark
from snellen.cli import cli
from snellen.errors import DataError, ErrorBudgetError, ModelError, UnknownNameError
from snellen.runs.plan import plan_run
from snellen.runs.run_folder import journals, read_manifest
from snellen.runs.run_progress import RunProgress
from snellen.runs.spec import (
    RUN_FIELDS,
    ExecutionSpec,
    JudgeSpec,
    QuestionSpec,
    RunSpec,
    ScoringSpec,
    overlaid,
    read_run_spec,
    run_spec,
)

REPOSITORY = Path(__file__).parent.parent
RUNS_PAGE = REPOSITORY / "docs" / "runs.md"
FIELDS_PAGE = REPOSITORY / "docs" / "reference" / "run-fields.md"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- the same everywhere -----------------------------------------------------------------------------------------


def flags(verb: str) -> set[str]:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    return {str(parameter.name) for parameter in command.params}


RUN, SCORING, JUDGE = (
    set(RUN_FIELDS),
    set(ScoringSpec.__struct_fields__),
    set(JudgeSpec.__struct_fields__),
)
JUDGE_FLAGS = {f"judge_{name}" for name in JUDGE}
IN_PYTHON = {"models": "model"}
"""A field of a run by another name on the command line: the model comes first, and is mostly one."""
TERMINAL_ONLY = {"as_json"}
DETAILS = {"with_details"}
RUN_ONLY = {"dry_run", "offline", "recipe", "share", "yes"}
"""What asks nothing, so that there are no results to give, and settings of the whole process."""


def test_evaluate_shows_the_fields_of_the_record_with_their_defaults() -> None:
    keywords = inspect.signature(sn.evaluate).parameters
    own = {"progress", "announce", "metrics", "extractor", "processor", "columns", "recipe"}
    assert keywords.keys() == {IN_PYTHON.get(name, name) for name in RUN} | own
    shown = {
        name: keywords[name].default
        for name in RUN
        if name in keywords and name not in ("benchmarks", "report")
    }
    unsaid = run_spec({})
    parts = [
        asdict(unsaid.question),
        asdict(unsaid.execution),
        {"scoring": ScoringSpec(), "judge": JudgeSpec()},
    ]
    assert not [
        name for part in parts for name in part if name in shown and shown[name] != part[name]
    ]
    assert inspect.signature(sn.score).parameters.keys() == SCORING | {
        "folder",
        "benchmark",
        "judge",
        "announce",
        "predictions",
        "references",
    }


def test_keywords_and_tables_of_the_page_are_those_of_the_records() -> None:
    """`make fields` writes them."""
    fields = runpy.run_path(str(REPOSITORY / "website" / "fields.py"))
    for stub, text in fields["STUBS"].items():
        assert stub.read_text("utf-8") == text()
    for page in fields["PAGES"]:
        assert page.read_text("utf-8") == fields["page"](page.read_text("utf-8"))


def test_a_field_that_is_not_there_is_refused_with_the_nearest_one_everywhere() -> None:
    asked: Any = ("snellen:uniform", "eyechart/shape")
    calls: dict[str, Callable[[], object]] = {
        "models": lambda: sn.evaluate(*asked, models="snellen:oracle"),
        "limt": lambda: sn.evaluate(*asked, limt=3),
        "wokers": lambda: sn.decide(*asked, "eyechart/shape", wokers=2),
        "extracter": lambda: sn.score("runs/r", extracter="strict"),
        "metrcs": lambda: sn.evaluate(*asked, scoring={"metrcs": "anls"}),
        "promt": lambda: sn.evaluate(*asked, judge={"promt": "paper"}),
    }  # type: ignore[call-arg, typeddict-item]
    for name, call in calls.items():
        with pytest.raises(
            UnknownNameError, match=f"unknown (field|keyword).* '{name}'; did you mean "
        ):
            call()
    done = CliRunner().invoke(cli, ["run", *asked, "--limt", "3"])
    assert (
        done.exit_code == 2
        and "No such option '--limt'. (Did you mean one of: '--limit', '--wait'?)" in done.output
    )


def test_the_command_run_takes_the_fields_of_the_record() -> None:
    tables = {"scoring", "judge"}
    fields = {IN_PYTHON.get(name, name) for name in RUN - tables}
    assert flags("run") == fields | SCORING | JUDGE_FLAGS | TERMINAL_ONLY | DETAILS | RUN_ONLY


def test_verbs_that_score_take_the_fields_of_its_record() -> None:
    of_runs = {"runs", "where", "common_answered"}
    assert flags("report") == SCORING | JUDGE_FLAGS | of_runs | TERMINAL_ONLY | {
        "stored_scoring",
        "outputs",
        "with_standard",
        "against",
        "price",
        "tables",
        "figures",
        "figure_format",
        "error_limit",
        "strict",
    }
    assert (
        flags("score")
        == SCORING
        | JUDGE_FLAGS
        | of_runs
        | {
            "benchmark",
            "to",
            "model",
            "form",
            "columns",
            "answer_is",
            "published",
            "fail_under",
            "signers",
        }
        | TERMINAL_ONLY
        | DETAILS
    )


def test_agree_takes_the_fields_of_a_judge() -> None:
    pytest.importorskip("snellen_lab", reason="waits for snellen-lab")


DIFFERENT_THINGS = {
    "--answers": "build takes a file, score a file or the name of a benchmark",
    "--benchmark": "study asks several, score and submit are about one",
    "--images": "build takes their folder, export and pack write them",
    "--metric": "sample studies one, the others compute several",
    "--output": "report writes several files, submit one",
    "--protocol": "run asks by several, submit writes the replies to one",
    "--to": "publish sends to a server, the others write to a folder",
}


def test_a_flag_has_the_same_form_in_every_verb() -> None:
    forms: dict[str, set[tuple[str, bool, bool]]] = defaultdict(set)
    for verb in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option):
                form = (option.type.name.removesuffix(" range"), option.multiple, option.is_flag)
                forms[option.opts[-1]].add(form)
    assert {
        name: form for name, form in forms.items() if len(form) > 1 and name not in DIFFERENT_THINGS
    } == {}


# --- exam.toml ---------------------------------------------------------------------------------------------------


def fields_on_the_page() -> set[str]:
    return set(
        re.findall(r"^\| `([a-z_.]+)` \|", FIELDS_PAGE.read_text("utf-8"), flags=re.MULTILINE)
    )


def test_the_page_has_every_field() -> None:
    in_tables = {f"scoring.{name}" for name in SCORING} | {f"judge.{name}" for name in JUDGE}
    assert fields_on_the_page() == RUN - {"scoring", "judge"} | in_tables


def test_the_example_of_the_page_runs() -> None:
    [example] = re.findall(
        r"^```toml\n(.*?)^```", RUNS_PAGE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    Path("exam.toml").write_text(example)
    done = CliRunner().invoke(
        cli, ["run", "exam.toml", "--limit", "2", "--json"], catch_exceptions=False
    )
    assert done.exit_code == 0
    spec = run_spec(read_run_spec(Path("exam.toml")))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["model"] for row in rows} == set(spec.question.models)
    assert len(
        list(Path(spec.execution.runs).glob(f"{spec.execution.name}-*/scores/*/report.html"))
    ) == len(spec.question.models)


def test_a_file_can_say_what_every_field_holds() -> None:
    spec = run_spec(
        {
            "models": ("snellen:oracle",),
            "benchmarks": ("eyechart/shape",),
            "protocols": ("vanilla",),
            "method": "both",
            "until": "accuracy ±2",
            "controls": ("blank", "text"),
            "where": "x",
            "roles": {"questioner": "snellen:uniform", "reasoner": "hf:org/name"},
            "held_out_for": ("llava-1.5-7b",),
            "cards": "cards.toml",
            "limit": 3,
            "name": "n",
            "label": "ours",
            "runs": "r",
            "templates": "data",
            "prompt": "Look: {question}",
            "prefix": False,
            "few_shot": 2,
            "few_shot_from": "train",
            "few_shot_same": True,
            "few_shot_seed": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 4,
            "stop": ("\n",),
            "max_new_tokens": 9,
            "workers": 2,
            "ray": "local",
            "ray_workers": 3,
            "gpus_per_worker": 0.5,
            "window": 5,
            "error_budget": 0.1,
            "allow_same_requests": True,
            "report": False,
            "price": (1.0, 2.0),
            "max_cost": 5.0,
            "max_requests": 6,
            "max_time": 7.0,
            "cache": "answers",
            "moved": True,
            "strict": True,
            "wait": False,
            "scoring": ScoringSpec(
                extractor="strict",
                likelihood_rule="mean",
                metrics=("anls",),
                unparsed="legacy-random",
                guess_seed=2,
            ),
            "judge": JudgeSpec(
                models=("snellen:oracle",),
                prompt="delimited",
                max_tokens=8,
                structured=True,
                price=(1.0, 2.0),
                failures=0.2,
                calibrate=True,
                moved=True,
            ),
        }
    )
    unsaid = run_spec({})
    for part, other in ((spec.question, unsaid.question), (spec.execution, unsaid.execution)):
        assert not [
            name for name in part.__struct_fields__ if getattr(part, name) == getattr(other, name)
        ]
    parts = json.loads(msgspec.json.encode(spec))
    content = {**parts["question"], **parts["execution"]}
    tables = [content, parts["scoring"], parts["judge"], dict(content.pop("roles"))]
    lines = [[f"{name} = {json.dumps(value)}" for name, value in table.items()] for table in tables]
    Path("exam.toml").write_text(
        "\n".join((*lines[0], "[scoring]", *lines[1], "[judge]", *lines[2], "[roles]", *lines[3]))
    )
    assert run_spec(read_run_spec(Path("exam.toml"))) == spec
    assert msgspec.json.decode(msgspec.json.encode(spec), type=RunSpec) == spec


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('modles = ["snellen:oracle"]', "unknown field 'modles'; did you mean models or roles?"),
        ("[judge]\npromt = 'paper'", "unknown field of [judge] 'promt'; did you mean prompt"),
        ("limit = 'ten'", "limit: expected a whole number, got a text"),
        ("limit = 0", "limit: expected a whole number >= 1"),
        ("top_p = 2.0", "top_p: expected a number <= 1"),
        ("benchmarks = 3", "benchmarks: expected a list, got a whole number"),
        ("prefix = 1", "prefix: expected true or false, got a whole number"),
        ("[scoring]\nmetrics = [3]", "scoring.metrics[0]: expected a text, got a whole number"),
        (
            "[scoring]\nlikelihood_rule = 'men'",
            "unknown value of scoring.likelihood_rule 'men'; did you mean mean?",
        ),
        ("scoring = 'strict'", "scoring: expected a table, got a text"),
        (
            "[roles]\nQuestioner = 'hf:org/name'",
            "'Questioner' is not a role; use lowercase letters, such as questioner",
        ),
        ("[roles]\nquestioner = 3", "roles.questioner: expected a text, got 3"),
        ("roles = 'hf:org/name'", "roles: expected a table, got 'hf:org/name'"),
        ("[judge]\nmodels = [3]", "judge.models: expected a text, got 3"),
        ("method = 'likelyhood'", "unknown value of method 'likelyhood'; did you mean likelihood?"),
        ("models = [", "Invalid value"),
    ],
)
def test_a_fault_of_a_file_is_one_line_that_names_it(content: str, fault: str) -> None:
    Path("exam.toml").write_text(content)
    with pytest.raises((DataError, UnknownNameError), match=f"^exam.toml: {re.escape(fault)}"):
        read_run_spec(Path("exam.toml"))


def test_a_file_may_name_one_thing_where_a_list_or_a_table_may_stand() -> None:
    Path("exam.toml").write_text(
        'models = "snellen:uniform"\nbenchmarks = "eyechart/shape"\njudge = "snellen:oracle"\n'
    )
    content = overlaid(read_run_spec(Path("exam.toml")), {"limit": 3, "judge": {"prompt": "paper"}})
    spec = run_spec(content)
    assert (spec.question.models, spec.question.benchmarks) == (
        ("snellen:uniform",),
        ("eyechart/shape",),
    )
    assert spec.judge == JudgeSpec(models=("snellen:oracle",), prompt="paper")


def test_scoring_of_a_file_is_done_and_flags_win_field_by_field() -> None:
    Path("exam.toml").write_text(
        'models = ["snellen:uniform"]\nbenchmarks = ["eyechart/shape"]\nlimit = 4\nreport = false\nname = "r"\n'
        '[scoring]\nextractor = "strict"\nmetrics = ["anls"]\n[judge]\nmodels = ["snellen:oracl"]\n'
    )
    with pytest.raises(UnknownNameError, match="did you mean oracle"):
        CliRunner().invoke(cli, ["run", "exam.toml"], catch_exceptions=False)
    words = ["run", "exam.toml", "--judge", "snellen:uniform", "--metric", "word_f1", "--json"]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0
    [kept] = Path("runs/r/scores").iterdir()
    predictions = [
        json.loads(line) for line in (kept / "predictions.jsonl").read_text().splitlines()
    ]
    assert len(predictions) == 4 and all(
        "strict" in prediction["extractor_version"] for prediction in predictions
    )


# --- from Python -------------------------------------------------------------------------------------------------


def test_workers_from_python_find_what_one_process_finds() -> None:
    states: list[RunProgress] = []
    asked = ("snellen:uniform", "eyechart/shape", "instability?m=3")
    one = sn.evaluate(*asked, limit=12, name="one")
    two = sn.evaluate(*asked, limit=12, name="two", workers=2, progress=states.append)
    assert [row.estimate for row in one.rows] == [row.estimate for row in two.rows]
    assert [path.name for path in journals(Path("runs/two"))] == [
        "journal-0.jsonl",
        "journal-1.jsonl",
    ]
    assert (states[0].done, states[-1].done, states[-1].total) == (0, 12, 12)
    assert all(before.done <= after.done for before, after in itertools.pairwise(states))
    assert {(state.model, state.folder) for state in states} == {("snellen:uniform", "runs/two")}


def test_an_object_cannot_be_shared_by_workers() -> None:
    with pytest.raises(
        ModelError,
        match=r"^slow is an object in this process, which 2 workers cannot share; use a model string",
    ):
        sn.evaluate(Slow(), "eyechart/shape", workers=2)
    assert not Path("runs").exists()


def test_a_report_is_written_where_it_is_asked_for() -> None:
    lines: list[str] = []
    sn.evaluate(
        "snellen:oracle", "eyechart/shape", limit=2, name="with", report=True, announce=lines.append
    )
    sn.evaluate("snellen:oracle", "eyechart/shape", limit=2, name="without")
    assert [str(path) for path in Path("runs").glob("*/report.html")] == ["runs/with/report.html"]
    assert lines[-1] == "report: runs/with/report.html"


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ({"scoring": ScoringSpec(metrics=("mrak",))}, "unknown metric 'mrak'"),
        ({"scoring": ScoringSpec(metrics=("mark",))}, "the metric mark needs a judge"),
        ({"scoring": ScoringSpec(extractor="stric")}, "unknown extractor 'stric'"),
        (
            {"scoring": ScoringSpec(likelihood_rule="men")},
            "unknown value of scoring.likelihood_rule 'men'",
        ),  # type: ignore[arg-type]
        ({"judge": "snelen:oracle"}, "unknown model 'snelen'"),
        ({"judge": JudgeSpec(models=("snellen:oracle",), prompt="papre")}, "did you mean paper"),
        ({"judge": JudgeSpec(max_tokens=0)}, "max_tokens: expected a whole number >= 1"),
        ({"protocols": "circlar"}, "unknown protocol 'circlar'"),
    ],
)
def test_what_scoring_would_refuse_is_refused_before_a_model_is_asked(
    how: dict[str, Any], fault: str
) -> None:
    model = Slow()
    with pytest.raises((DataError, UnknownNameError), match=re.escape(fault)):
        sn.evaluate(model, "eyechart/shape", **how)
    assert model.asked == [] and not Path("runs").exists()


def test_every_model_is_asked_before_failures_of_one_are_an_error(questions: Benchmark) -> None:
    failing, sound = Slow(failing=1.0), Slow()
    with pytest.raises(ErrorBudgetError, match="runs/pair-0"):
        sn.evaluate([failing, sound], str(questions.folder), name="pair")
    assert len(sound.asked) == 12
    assert Path("runs/pair-0/results.json").exists() and Path("runs/pair-1/results.json").exists()


def test_a_served_model_is_evaluated_where_an_event_loop_runs_already(questions: Benchmark) -> None:
    """As in a notebook."""

    async def cell() -> sn.Results:
        return sn.evaluate(SlowAsync(), str(questions.folder), PROTOCOLS, name="cell")

    inside = asyncio.run(cell())
    assert [row.estimate for row in inside.rows] == [
        row.estimate
        for row in sn.evaluate(SlowAsync(), str(questions.folder), PROTOCOLS, name="plain").rows
    ]


# --- what is kept of it ------------------------------------------------------------------------------------------


def test_the_manifest_keeps_what_each_call_asked_for_once() -> None:
    for limit in (3, 3, 5):
        sn.evaluate(
            "snellen:uniform",
            "eyechart/shape",
            limit=limit,
            name="r",
            scoring=ScoringSpec(extractor="strict"),
        )
    manifest = read_manifest(Path("runs/r"))
    asked = {"models": ("snellen:uniform",), "benchmarks": ("eyechart/shape",)}
    assert manifest.question_specs == (
        QuestionSpec(**asked, limit=3),
        QuestionSpec(**asked, limit=5),
    )
    assert manifest.executed == (ExecutionSpec(name="r", report=False),)


def test_a_manifest_of_the_time_when_what_was_asked_and_how_stood_together_is_read() -> None:
    sn.evaluate("snellen:uniform", "eyechart/shape", limit=3, name="r")
    file = Path("runs/r/manifest.json")
    now = json.loads(file.read_bytes())
    now["asked"] = [{**now["asked"][0], **now.pop("executed")[0], "scoring": {}, "judge": {}}]
    file.write_text(json.dumps(now))
    assert [spec.limit for spec in read_manifest(Path("runs/r")).question_specs] == [3]
    sn.evaluate("snellen:uniform", "eyechart/shape", limit=5, name="r")
    assert [spec.limit for spec in read_manifest(Path("runs/r")).question_specs] == [3, 5]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "snellen-uniform-86e40b96"),
        ({"limit": 3}, "snellen-uniform-7bb096d9"),
        (
            {"protocols": ("circular", "instability?m=3"), "temperature": 0.0},
            "snellen-uniform-b0d62f2b",
        ),
        ({"where": "level == 'easy'", "seed": 4, "temperature": 0.5}, "snellen-uniform-20c72462"),
        (
            {"workers": 3, "until": "accuracy ±2", "runs": "elsewhere", "report": False},
            "snellen-uniform-86e40b96",
        ),
    ],
)
def test_folders_of_runs_keep_their_names(fields: dict[str, Any], name: str) -> None:
    """As they were before question and execution were two records, so that such runs go on."""
    asked = {"models": ("snellen:uniform",), "benchmarks": ("eyechart/shape", "eyechart/colour")}
    assert plan_run(run_spec({**asked, **fields})).execution.name == name


def test_the_same_question_has_the_same_folder_however_the_work_is_done() -> None:
    def folder(**how: Any) -> Path:
        return (
            sn.evaluate("snellen:uniform", "eyechart/shape", **{"limit": 2, **how}).runs[0].folder
        )

    assert (
        CliRunner()
        .invoke(cli, ["run", "snellen:uniform", "eyechart/shape", "--limit", "2"])
        .exit_code
        == 0
    )
    assert [folder()] == list(Path("runs").iterdir())
    assert folder() == folder(window=3) == folder(workers=2) == folder(error_budget=0.5)
    others = [
        folder(limit=3),
        folder(seed=1),
        folder(where="level == 'easy'"),
        folder(stop="\n"),
        folder(prefix=False),
    ]
    assert len({folder(), *others}) == 6
