"""A class with a name and `generate` is a model by every door: an object, a file, a module, a hook."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import small
import snellen as sn
from snellen import registry
from snellen.common.images import ImageStore
from snellen.errors import HookError, ModelError, SnellenError, UnknownNameError
from snellen.models import worker
from snellen.models.base import Model
from snellen.models.loading import load_model, names_model
from snellen.own_code import code_hint, names_in_file
from snellen.records import Variant

CODE = """
import beside


class AlwaysB:
    name = "mine"

    def generate(self, requests, images):
        return [beside.REPLY for request in requests]


class Letter(AlwaysB):
    def __init__(self, letter="B"):
        assert letter == "B"


class Told(AlwaysB):
    def __init__(self, spec):
        self.target = spec.target


def opened(spec):
    return AlwaysB()


def without_spec():
    return AlwaysB()


def broken(spec):
    raise OSError("no weights")


WITH_WEIGHTS = AlwaysB()
NUMBER = 3


def sentence(image, question, more):
    return "It is red."

"""


@pytest.fixture(scope="module")
def choices(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A benchmark whose golds are A, B, C."""
    return str(small.built(small.rows(3, 3), tmp_path_factory.mktemp("choices")).folder)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code")
    (folder / "code_of_mine.py").write_text(CODE)
    (folder / "beside.py").write_text('REPLY = "B"\n')
    (folder / "mine_installed").mkdir()
    (folder / "mine_installed/models.py").write_text("from code_of_mine import AlwaysB\n")
    return folder


@pytest.fixture(autouse=True)
def in_the_folder(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(code)
    monkeypatch.syspath_prepend(str(code))


@pytest.mark.parametrize(
    "name", ["AlwaysB", "Letter", "Told", "opened", "without_spec", "WITH_WEIGHTS"]
)
@pytest.mark.parametrize("place", ["code_of_mine.py", "./code_of_mine.py", "code_of_mine", "hook"])
def test_a_class_a_function_or_an_object_is_a_model_by_file_module_and_hook(
    place: str, name: str, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "hook":
        target = f"{code / 'code_of_mine.py'}:{name}"
        monkeypatch.setattr(registry, "_targets_of_others", lambda group: {"mine": target})
        text = "mine:anything"
    else:
        text = f"{place}:{name}"
    model = load_model(text)
    assert (model.name, model.kinds) == (text, {"generate"})
    assert names_model(text)


def test_only_a_file_that_was_imported_leaves_its_folder_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apart.py").write_text(
        "import beside_apart\n"
        "class Late:\n"
        "    name = 'late'\n"
        "    def generate(self, requests, images):\n"
        "        import later_apart\n"
        "        return [later_apart.REPLY for request in requests]\n"
    )
    (tmp_path / "broken.py").write_text("import beside_apart\nraise OSError('no weights')\n")
    (tmp_path / "beside_apart.py").write_text("")
    (tmp_path / "later_apart.py").write_text("REPLY = 'B'\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    with pytest.raises(HookError, match="no weights"):
        load_model(f"{tmp_path}/broken.py:Late")
    assert sys.path == before
    model = load_model(f"{tmp_path}/apart.py:Late")
    load_model(f"{tmp_path}/apart.py:Late")
    assert sys.path == [*before, str(tmp_path)]
    assert isinstance(model, Model)
    asked = sn.Request("mine", "0", Variant("choice.generation.0"), ())
    assert model.generate([asked], ImageStore(tmp_path)) == [sn.Response(text="B")]


def test_a_module_of_a_package_is_found_by_its_dotted_name() -> None:
    assert load_model("mine_installed.models:AlwaysB").name == "mine_installed.models:AlwaysB"


def test_the_command_line_runs_a_file_and_goes_on_with_it(
    capsys: pytest.CaptureFixture[str], choices: str, tmp_path: Path
) -> None:
    words = (
        "run",
        "code_of_mine.py:AlwaysB",
        choices,
        "--runs",
        str(tmp_path),
        "--name",
        "x",
        "--json",
    )
    code, out, _ = small.command(capsys, *words)
    rows = [json.loads(line) for line in out.splitlines()]
    [accuracy] = [
        row["value"]
        for row in rows
        if (row["metric"], row["slice"], row["benchmark"]) == ("accuracy", "", "mine")
    ]
    assert (code, accuracy) == (0, pytest.approx(1 / 3))
    journal = (tmp_path / "x/journal-0.jsonl").read_text()
    assert small.command(capsys, *words)[0] == 0
    assert (tmp_path / "x/journal-0.jsonl").read_text() == journal


@pytest.mark.parametrize(
    ("text", "error", "line"),
    [
        (
            "code_of_mine.py:AlwaysC",
            HookError,
            "the model code_of_mine.py:AlwaysC cannot be loaded: .*did you mean AlwaysB",
        ),
        (
            "code_of_mine.py:NUMBER",
            HookError,
            "the model code_of_mine.py:NUMBER cannot be opened: TypeError",
        ),
        (
            "code_of_mine.py:sentence",
            ModelError,
            r"code_of_mine.py:sentence takes \(image, question, more\)",
        ),
        (
            "code_of_mine.py:broken",
            HookError,
            "code_of_mine.py:broken cannot be opened: OSError: no weights",
        ),
        (
            "code_of_min.py:AlwaysB",
            UnknownNameError,
            "^model 'code_of_min.py:AlwaysB': there is no file code_of_min.py; check the path$",
        ),
        (
            "code_of_min:AlwaysB",
            UnknownNameError,
            "unknown model 'code_of_min'; .*; for your own class, write my_model.py:My",
        ),
        ("opneai:gpt-4o", UnknownNameError, r"unknown model 'opneai'; did you mean openai\?$"),
    ],
)
def test_a_wrong_place_is_told_in_one_line(text: str, error: type[SnellenError], line: str) -> None:
    with pytest.raises(error, match=line) as raised:
        load_model(text)
    assert "\n" not in str(raised.value)


class Replying:
    name = "replying"

    def __init__(self, replies: Any) -> None:
        self.replies = replies

    def generate(self, requests: Any, images: Any) -> Any:
        return self.replies


@pytest.mark.parametrize(
    ("replies", "line"),
    [
        ([0, 1, 2], "replying replied 0; a reply has to be a text, or a Response"),
        ([None] * 3, "replying replied None; a reply has to be a text"),
        ("ABC", "replying: generate returned 'ABC', not a list with a text for each request"),
        (None, "replying: generate returned None, not a list"),
        (["A"], "replying gave 1 responses to 3 requests"),
    ],
)
def test_replies_that_are_not_texts_are_refused(
    replies: Any, line: str, choices: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=line):
        sn.evaluate(Replying(replies), choices, runs=str(tmp_path))


@pytest.mark.parametrize(
    "scores",
    [
        None,
        0.5,
        [0.5] * 3,
        [[-1.0]] * 3,
        [["B"] * 4] * 3,
        [[-1.0] * 4],
        [[sn.ContinuationScore(-1.0, 2)] * 4] * 3,
    ],
)
def test_likelihoods_that_are_not_numbers_for_each_option_are_refused_in_one_line(
    scores: Any, choices: str, tmp_path: Path
) -> None:
    class Scoring(Replying):
        def loglikelihood(self, requests: Any, images: Any) -> Any:
            return scores

    line = r"replying: loglikelihood returned .*, not a list with a number for each continuation of each request$"
    with pytest.raises(ModelError, match=line):
        sn.evaluate(Scoring([]), choices, "likelihood", runs=str(tmp_path))


def test_a_class_with_arguments_and_a_function_of_one_argument_are_refused(choices: str) -> None:
    with pytest.raises(ModelError, match=r"give an object of it: Replying\(\.\.\.\)"):
        sn.evaluate(Replying, choices)
    with pytest.raises(ModelError, match=r"takes the question and a list of PIL images"):
        sn.evaluate(lambda request: "A", choices)


def test_a_worker_checks_how_its_model_can_be_called_before_it_serves() -> None:
    line = (
        r"worker: the generate of code_of_mine.py:AlwaysB takes \(requests, images\), but the worker calls generate\("
        r"messages, images, max_new_tokens, temperature, top_p, seed, stop\); a class with \(requests, images\) does not need a "
        "worker: `snellen run code_of_mine.py:AlwaysB BENCHMARK`"
    )
    with pytest.raises(SystemExit, match=line):
        worker.load("code_of_mine.py:AlwaysB")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "code_of_mine.py",
            "model 'code_of_mine.py' names no function or class; write code_of_mine.py:",
        ),
        ("code_of_mine", "model 'code_of_mine' names no function or class; write code_of_mine.py:"),
        ("code_of_nobody.py", "there is no file code_of_nobody.py; check the path"),
        (
            "http://127.0.0.1:8801/v1",
            "model 'http://127.0.0.1:8801/v1' is the address of a server; name its model as well: "
            "openai:NAME@http://127.0.0.1:8801/v1",
        ),
    ],
)
def test_a_file_or_an_address_alone_is_answered_with_the_model_string(text: str, line: str) -> None:
    with pytest.raises(ModelError, match=re.escape(line)):
        load_model(text)


def test_a_checkpoint_beside_a_file_of_its_name_is_answered_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.py").write_text("def ask(question, images): ...\n")
    Path("tiny").mkdir()
    Path("tiny/config.json").write_text("{}")
    for text in ("tiny", "./tiny"):
        with pytest.raises(ModelError, match=r"has no scheme; did you mean hf:\./tiny\?"):
            load_model(text)


def test_the_names_in_a_file_are_found_without_running_it(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("class Mine: ...\ndef ask(q, i): ...\ndef _no(): ...\nraise SystemExit(3)\n")
    assert names_in_file(path) == ["Mine", "ask"]
    assert code_hint(str(path)) == f"write {path}:Mine or {path}:ask"
    assert code_hint(f"{tmp_path / 'm'}:ask") == f"write {path}:ask"
