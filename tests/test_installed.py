"""The wheel of snellen alone in a fresh environment: every verb works, or names in one line the extra that it needs.

Run by `make installed`, not by `make test`, as the environment is installed from a package index.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from environments import Environment, Line, build_wheels, check_lines, verbs_of, write_inputs
from servers import start_server

pytestmark = pytest.mark.installed


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel of snellen, and with no extra."""
    wheels = build_wheels(tmp_path_factory.mktemp("wheels"), "snellen")
    return Environment(tmp_path_factory.mktemp("core"), str(wheels["snellen"]))


@pytest.fixture(scope="session")
def work(core: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newcomer's folder: a table with images, an own model, files that verbs take, a benchmark and two runs."""
    folder = tmp_path_factory.mktemp("work")
    write_inputs(folder)
    for line in (
        "build questions.tsv --images pictures/",
        "run my_model.py:Sentences questions --name sentences",
        "run snellen:oracle questions -p circular --name oracle",
    ):
        finished = core.snellen(shlex.split(line), folder)
        assert finished.code == 0, (line, finished.err)
    return folder


# --- every verb ------------------------------------------------------------------------------------------------------

VERBS: dict[str, tuple[Line, ...]] = {
    "run": (
        "run exam.toml",
        "run snellen:uniform questions --dry-run",
        (
            "run snellen:tiny questions",
            r"snellen:tiny needs the package torch: pip install '.*\[hf\] ",
        ),
        ("run ocr:rapidocr questions", r"pip install '.*\[ocr\] "),
        ("run nothing.py:Model questions", "nothing.py"),
        "run my_model.py:sentence questions",
    ),
    "report": (
        "report runs/sentences runs/oracle -o r.html -o r.md -o r.tex -o r.csv -o r.json -o r.parquet",
        "report runs/sentences --figures figures --tables tables",
        ("report runs/sentences --figures figures --figure-format png", r"\[figures\] "),
        ("report questions", "are part of another package: pip install "),
    ),
    "view": (("view --port 0", r"snellen view needs the package \w+: pip install '.*\[view\] "),),
    "compare": ("compare runs/sentences runs/exam -o c.md -o c.csv -o c.json",),
    "reproduce": (("reproduce snellen:tiny eyechart/shape", "no recipe is of the model tiny"),),
    "card": ("card runs/sentences runs/oracle -o card.md -o card.tex",),
    "reconcile": ("reconcile runs/sentences runs/oracle -o why.md",),
    "batches": ("batches runs/sentences", "batches runs/sentences --cancel"),
    "build": (
        "build eyechart/shape",
        ("build hf://nobody/nothing", r"pip install '.*\[hub\] "),
    ),
    "list": tuple(
        f"list {what}"
        for what in "benchmarks suites models protocols metrics exporters trackers cards data".split()
    ),
    "demo": (("demo", r"snellen demo needs the package torch: pip install '.*\[hf\] "),),
    "doctor": ("doctor", "doctor --json"),
    "fetch": (
        "fetch --remove mmbench",
        ("fetch mmbench --offline", r"pip install '.*\[hub\] "),
    ),
    "import": (("import reform-eval empty", "no file of ReForm-Eval-Data is there"),),
    "reform": ("reform photos",),
    "verify": (("verify reform-eval --source empty", r"pip install '.*\[data\] "),),
    "score": (
        "score runs/sentences --extractor strict",
        "score runs/sentences --as-published",
    ),
    "export": (
        ("export runs/sentences -o samples.parquet", r"pip install '.*\[frames\] "),
        "export runs/sentences --as inspect -o inspect",
        "export runs/sentences --as lm-eval -o lm-eval",
        "export runs/sentences --as lmms-eval -o lmms-eval",
        ("export runs/sentences --as dataset -o dataset", r"pip install '.*\[frames\] "),
        ("export runs/sentences --track mlflow:tracked", r"pip install '.*\[mlflow\] "),
    ),
    "pack": ("pack runs/sentences runs/oracle --images --answers -o packed.zip",),
    "submit": (
        "build abilities.tsv",
        "run snellen:always-a abilities -p circular?all_passes=true --name whole",
        "submit runs/whole -o whole.tsv",
        ("submit runs/whole -o whole.xlsx", r"pip install '.*\[xlsx\] "),
    ),
    "publish": (("publish runs/sentences --to http://127.0.0.1:9", "SNELLEN_TOKEN is not set"),),
    "mend": ("mend runs/sentences",),
    "worker": (("worker nothing.py:Model", "nothing.py"),),
}
"""Small inputs of each verb; a pair is a line that ends with the exit code 2 and one line that matches the pattern.

The lines of a verb run one after the other, after those of the verbs before it.
"""


def test_every_verb_of_the_wheel_alone_is_tried_here(core: Environment, tmp_path: Path) -> None:
    assert verbs_of(core, tmp_path) == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_of_the_wheel_alone_works_or_names_the_extra(
    verb: str, core: Environment, work: Path
) -> None:
    check_lines(core, VERBS[verb], work)


@pytest.mark.parametrize("verb", ["arena", "serve", "lint", "rate"])
def test_without_other_packages_their_verbs_name_them(
    verb: str, core: Environment, tmp_path: Path
) -> None:
    check_lines(core, ((verb, "is part of another package: pip install "),), tmp_path)


# --- a newcomer's walk -----------------------------------------------------------------------------------------------


def test_the_first_page_and_an_unknown_word_say_what_there_is(
    core: Environment, tmp_path: Path
) -> None:
    assert "snellen run MODEL BENCHMARK" in core.snellen([], tmp_path).out
    finished = core.snellen(["evaluate"], tmp_path)
    assert (finished.code, finished.err) == (
        2,
        "snellen: unknown command 'evaluate'; use `snellen run`\n",
    )


def test_sentences_are_read_and_scored_without_an_extra(core: Environment, work: Path) -> None:
    finished = core.snellen(["score", "runs/sentences", "--json"], work)
    rows = [json.loads(line) for line in finished.out.splitlines()]
    accuracy = next(row for row in rows if row["metric"] == "accuracy")
    assert accuracy["value"] == 4 / 12  # every third thing is red


def test_the_library_works_without_an_extra(core: Environment, tmp_path: Path) -> None:
    code = (
        "import snellen as sn\n"
        "model = sn.Scripted(lambda request: 'I think that it is red.', name='red')\n"
        "results = sn.evaluate([model, 'snellen:oracle'], 'eyechart/colour', 'circular', limit=8)\n"
        "print(len(results.compare(resamples=100).differences))\n"
    )
    finished = core.run([str(core.bin / "python"), "-c", code], tmp_path)
    assert (finished.code, finished.out.splitlines()[-1:]) == (0, ["2"]), finished.err


def test_a_data_frame_names_its_extra(core: Environment, tmp_path: Path) -> None:
    code = (
        "import snellen as sn\n"
        "try:\n"
        "    sn.evaluate('snellen:oracle', 'eyechart/colour', limit=2).table()\n"
        "except sn.SnellenError as error:\n"
        "    print(error)\n"
    )
    finished = core.run([str(core.bin / "python"), "-c", code], tmp_path)
    assert "needs the package polars: pip install 'snellen[frames] @ " in finished.out


def test_a_model_behind_an_api_is_asked(core: Environment, work: Path) -> None:
    with start_server() as api:
        words = ["run", f"openai:toy@{api.url}", "questions", "--name", "api"]
        finished = core.snellen(words, work)
        asked = api.seen()
    assert finished.code == 0, finished.err
    assert len(asked) == 12


def test_a_worker_serves_an_own_model(core: Environment, work: Path) -> None:
    with core.serving(
        ["worker", "my_model.py:Served", "--port", "0"], work, r"http://\S+/v1"
    ) as url:
        finished = core.snellen(
            ["run", f"openai:Served@{url}", "questions", "--name", "worker"], work
        )
    assert finished.code == 0, finished.err


def test_every_module_imports_or_belongs_to_an_extra(core: Environment, tmp_path: Path) -> None:
    """A module that only an extra can import lies behind a verb, or a model, that names this extra."""
    code = (
        "import importlib, pkgutil, snellen\n"
        "for module in pkgutil.walk_packages(snellen.__path__, 'snellen.'):\n"
        "    if module.name == 'snellen.__main__':\n"
        "        continue\n"
        "    try:\n"
        "        importlib.import_module(module.name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        print(module.name, error.name)\n"
    )
    finished = core.run([str(core.bin / "python"), "-c", code], tmp_path)
    assert finished.code == 0, finished.err
    failing = {tuple(line.split()) for line in finished.out.splitlines()}
    packages = {package for _, package in failing}
    assert packages <= {"pandas", "polars", "starlette", "transformers", "uvicorn"}
    assert {module for module, _ in failing} == {
        "snellen.experiments.answering_frames",
        "snellen.experiments.writable_frame",
        "snellen.trainer_callback",
        "snellen.viewing.local_pages",
        "snellen.viewing.pages",
        "snellen.viewing.patience",
        "snellen.viewing.serving",
    }

    code = (
        "import snellen as sn\n"
        "try:\n"
        "    sn.EvaluationCallback\n"
        "except sn.SnellenError as error:\n"
        "    print(error)\n"
    )
    finished = core.run([str(core.bin / "python"), "-c", code], tmp_path)
    line = r"sn\.EvaluationCallback needs the package transformers: pip install '.*\[hf\]"
    assert re.search(line, finished.out)
