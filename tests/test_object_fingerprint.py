"""The fingerprint of a model object: what it declares, or all that it holds and runs."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small
import snellen
from snellen import DataError, ModelError, Scripted, StoreError, evaluate, score
from snellen.building.benchmark import Benchmark
from snellen.experiments.deciding import decide_between
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import score_folders
from snellen.models.object_digest import NOT_FINGERPRINTED, object_fingerprint
from snellen.records import Request
from snellen.runs.journal import read_exchanges
from snellen.runs.spec import JudgeSpec, ScoringSpec, run_spec

FACTOR = 2


def helper(request: Request) -> str:
    return "(A)" * FACTOR


class Own:
    """A model of the user's own, with something of every kind that such objects hold."""

    def __init__(self, weight: float = 1.0) -> None:
        self.weights = np.arange(6.0).reshape(2, 3)
        self.weight = weight
        self.lock = threading.Lock()
        self.rule: Callable[[Request], str] = lambda request: f"({weight})"
        self.call = functools.partial(helper)
        self.bound = self.generate

    def generate(self, requests: list[Request], images: Any) -> list[str]:
        return [helper(request) for request in requests]


def changed(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def test_equal_objects_have_equal_fingerprints() -> None:
    facts = object_fingerprint(Own())
    assert facts == object_fingerprint(Own())
    assert NOT_FINGERPRINTED not in facts
    assert facts["class"] == f"{__name__}.Own"
    assert facts["attribute weight"] == "1.0"


def test_changed_weights_closures_and_code_are_told_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, model = object_fingerprint(Own()), Own()
    model.weights[1, 2] += 1
    # A bound method is of the object, so it changes with it.
    assert changed(before, object_fingerprint(model)) == {"attribute weights", "attribute bound"}
    assert changed(before, object_fingerprint(Own(3.0))) == {
        "attribute weight",
        "attribute rule",
        "attribute bound",
    }
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert {"code", "attribute call"} <= changed(before, object_fingerprint(Own()))


def test_a_fingerprint_is_the_same_in_another_process(tmp_path: Path) -> None:
    program = "import test_object_fingerprint as t; print(t.object_fingerprint(t.Own()))"
    paths = os.pathsep.join([str(Path(snellen.__file__).parents[1]), str(Path(__file__).parent)])
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_the_weights_of_a_module_are_its_bytes() -> None:
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 2).to(torch.bfloat16)
            self.scale = 0.5

        def generate(self, requests: list[Request], images: Any) -> list[str]:
            return ["(A)"] * len(requests)

    def network(seed: int = 0) -> Network:
        torch.manual_seed(seed)
        return Network()

    before = object_fingerprint(network())
    assert before == object_fingerprint(network())
    assert before != object_fingerprint(network(1))
    scaled = network()
    scaled.scale = 0.25
    assert before != object_fingerprint(scaled)
    held = Own()
    held.weights = torch.arange(6.0)
    view = Own()
    view.weights = torch.arange(12.0)[:6]
    assert (
        object_fingerprint(held)["attribute weights"]
        == object_fingerprint(view)["attribute weights"]
    )


def test_what_an_object_declares_stands_for_it() -> None:
    class Declared(Own):
        fingerprint = "weights of Monday"

    assert (
        object_fingerprint(Declared())
        == object_fingerprint(Declared(3.0))
        == {"declared": "weights of Monday"}
    )
    model = Own()
    model.fingerprint = lambda: {"weights": "7"}  # type: ignore[attr-defined]
    assert object_fingerprint(model) == {"weights": "7"}
    model.fingerprint = lambda: 7  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match="its fingerprint is 7; give a text"):
        object_fingerprint(model)


@pytest.fixture
def questions(tmp_path: Path) -> Benchmark:
    return small.built(small.rows(4), tmp_path / "made", name="mine")


def run(model: Any, questions: Benchmark, folder: Path) -> None:
    evaluate(model, str(questions.folder), "vanilla", runs=folder, name="run")


def test_a_run_does_not_go_on_with_changed_weights(questions: Benchmark, tmp_path: Path) -> None:
    run(Own(), questions, tmp_path)
    run(Own(), questions, tmp_path)
    trained = Own()
    trained.weights += 1
    with pytest.raises(
        StoreError,
        match=r"another model \(attribute bound was .*give it an attribute `fingerprint`",
    ):
        run(trained, questions, tmp_path)


def test_an_object_that_changes_in_answering_goes_on_as_what_it_became(
    questions: Benchmark, tmp_path: Path
) -> None:
    class Counting:
        def __init__(self) -> None:
            self.calls = 0

        def generate(self, requests: list[Request], images: Any) -> list[str]:
            self.calls += 1
            return ["(A)"] * len(requests)

    model = Counting()
    run(model, questions, tmp_path)
    run(model, questions, tmp_path)
    run(Counting(), questions, tmp_path)
    assert model.calls == 1
    model.calls = 7
    with pytest.raises(StoreError, match=r"attribute calls was 0, is 7"):
        run(model, questions, tmp_path)


def test_an_object_with_a_connection_begins_a_run_and_goes_on_only_when_it_declares(
    questions: Benchmark, tmp_path: Path
) -> None:
    with (tmp_path / "socket").open("wb") as connection:
        model = Own()
        model.client = connection  # type: ignore[attr-defined]
        assert "holds a _io.BufferedWriter" in object_fingerprint(model)[NOT_FINGERPRINTED]
        run(model, questions, tmp_path)
        with pytest.raises(
            StoreError,
            match=r"Snellen cannot tell whether the model is still the same \(attribute.*`fingerprint`",
        ) as refused:
            run(model, questions, tmp_path)
        assert "\n" not in str(refused.value)
        model.fingerprint = "gpt-of-may"  # type: ignore[attr-defined]
        run(model, questions, tmp_path / "declared")
        run(model, questions, tmp_path / "declared")


def test_a_script_is_fingerprinted_by_its_replies(questions: Benchmark, tmp_path: Path) -> None:
    run(Scripted({"q000": "(A)"}), questions, tmp_path)
    run(Scripted({"q000": "(A)"}), questions, tmp_path)
    with pytest.raises(StoreError, match="replies was"):
        run(Scripted({"q000": "(B)"}), questions, tmp_path)


def test_a_model_that_failed_before_it_answered_may_be_mended(
    questions: Benchmark, tmp_path: Path
) -> None:
    def broken(request: Request) -> str:
        raise DataError("a slip")

    with pytest.raises(DataError, match="a slip"):
        run(Scripted(broken), questions, tmp_path)
    run(Scripted(lambda request: "(A)"), questions, tmp_path)


def test_the_verdicts_of_a_judge_that_cannot_be_told_are_not_taken_for_its_own_later(
    questions: Benchmark, tmp_path: Path
) -> None:
    run(Scripted(lambda request: "I would say it depends."), questions, tmp_path)
    with (tmp_path / "log").open("w") as log:

        def judge() -> Scripted:
            return Scripted(lambda request: "A" if log.writable() else "X", name="judge")

        score(tmp_path / "run", judge=judge())
        with pytest.raises(
            StoreError, match="Snellen cannot tell whether the model is still the same"
        ):
            score(tmp_path / "run", judge=judge())


# --- automatic folders --------------------------------------------------------------------------------------------


class Trained:
    """A checkpoint that can be trained on in place."""

    name = "checkpoint"

    def __init__(self, step: int) -> None:
        self.step = step

    def fingerprint(self) -> dict[str, str]:
        return {"weights": f"step {self.step}"}

    def generate(self, requests: list[Request], images: Any) -> list[str]:
        return ["(A)" if self.step == 1 else "(B)" for _ in requests]


def test_a_changed_checkpoint_gets_a_folder_of_its_own(
    questions: Benchmark, tmp_path: Path
) -> None:
    lines: list[str] = []

    def folder_of(step: int) -> Path:
        results = evaluate(
            Trained(step), str(questions.folder), runs=tmp_path, announce=lines.append
        )
        return results.runs[0].folder

    first, second = folder_of(1), folder_of(2)
    assert second.name.startswith(f"{first.name}-")
    [line] = [line for line in lines if "from before it changed" in line]
    assert (
        f"{first} contains replies of checkpoint" in line and f"new replies go to {second}" in line
    )
    assert "weights was step 1, is step 2" in line

    # Both are found again, and both are told apart in one table.
    assert (folder_of(1), folder_of(2)) == (first, second)
    both = Results(score_folders([first, second], ScoringSpec(), JudgeSpec()))
    assert len({result.model for result in both.rows}) == 2
    for folder, reply in ((first, "(A)"), (second, "(B)")):
        assert {exchange.response.text for exchange in read_exchanges(folder)} == {reply}


def test_two_checkpoints_of_one_name_are_compared_until_one_is_better(
    questions: Benchmark, tmp_path: Path
) -> None:
    spec = run_spec({"benchmarks": [str(questions.folder)], "runs": str(tmp_path)})
    decided = decide_between(spec, [Trained(1), Trained(2)])
    assert len({run.folder for run in decided.runs}) == 2
