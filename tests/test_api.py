"""The public API: what it exports, what it returns, what it accepts as a model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.catalogue import select
from snellen.runs.journal import read_exchanges

HEAVY = (
    "torch",
    "transformers",
    "polars",
    "pyarrow",
    "httpx",
    "numpy",
    "PIL",
    "rich",
    "click",
    "msgspec",
)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_public_name_of_the_list_is_there() -> None:
    """The list is `__init__.pyi`; tests/test_site.py compares it with the page of the reference."""
    assert (
        {"__version__", "evaluate", "decide", "score", "Results"} < set(sn.__all__) == set(dir(sn))
    )
    assert len(sn.__all__) == len(set(sn.__all__))
    assert all(getattr(sn, name) is not None for name in sn.__all__)
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = sn.evalute  # type: ignore[attr-defined]


def test_every_public_callable_says_what_it_does() -> None:
    assert [
        name
        for name in set(sn.__all__) - {"__version__"}
        if not (getattr(sn, name).__doc__ or "").strip()
    ] == []


def test_import_snellen_loads_nothing_heavy() -> None:
    code = f"import sys, snellen; print([m for m in {HEAVY} if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        == "[]\n"
    )


def test_an_evaluation_loads_no_torch_and_no_server_client() -> None:
    code = (
        "import sys, snellen; snellen.evaluate('snellen:oracle', 'eyechart/shape', limit=3)\n"
        "print([m for m in ('torch', 'transformers', 'polars', 'httpx', 'rich') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        == "[]\n"
    )


def test_results_are_a_frame_with_an_interval_and_n_beside_each_number() -> None:
    results = sn.evaluate("snellen:uniform", "eyechart/shape", ["circular", "likelihood"], limit=20)
    table = results.table()
    assert isinstance(table, pl.DataFrame)
    assert {
        "model",
        "benchmark",
        "protocol",
        "metric",
        "value",
        "low",
        "high",
        "n",
        "unscored",
        "errors",
    } <= set(table.columns)
    known = table.filter(pl.col("value").is_not_null())
    assert known.filter(
        (pl.col("low") > pl.col("value") + 1e-12) | (pl.col("high") < pl.col("value") - 1e-12)
    ).is_empty()
    assert table["n"].min() == 20
    assert set(results.table(slices=True)["slice"]) >= {"level=easy", "level=hard"}
    assert set(results.scores()["metric"]) == {
        "accuracy",
        "accuracy_of_parsed",
        "accuracy_lower",
        "accuracy_upper",
        "unparsed_rate",
        "unsure_rate",
        "circular_accuracy",
        "circular_accuracy_of_parsed",
        "circular_accuracy_lower",
        "circular_accuracy_upper",
        "circular_drop",
        "consistency",
        "hit_rate",
        "tie_rate",
    }


def test_a_number_that_is_not_one_number_is_refused() -> None:
    results = sn.evaluate("snellen:oracle", "eyechart/shape", ["vanilla", "circular"], limit=5)
    with pytest.raises(sn.DataError, match="2 values match accuracy"):
        results.value("accuracy", benchmark="eyechart/shape")
    assert results.value("accuracy", benchmark="eyechart/shape", protocol="vanilla") == 1.0
    with pytest.raises(
        sn.DataError, match=r"colour has no accuracy; the benchmarks are \*, eyechart/shape"
    ):
        results.value("accuracy", benchmark="colour")
    with pytest.raises(
        sn.DataError,
        match="eyechart/shape has no acuracy; the metrics of eyechart/shape are accuracy",
    ):
        results.value("acuracy", benchmark="eyechart/shape")
    with pytest.raises(sn.DataError, match=r"table\(\) shows the models"):
        results.value("accuracy", benchmark="eyechart/shape", protocol="likelihood")


def test_several_models_share_one_table() -> None:
    results = sn.evaluate(
        ["snellen:oracle", "snellen:always-a"], "eyechart/exists", "circular", limit=12
    )
    assert (
        results.value("circular_accuracy", benchmark="eyechart/exists", model="snellen:oracle")
        == 1.0
    )
    assert (
        results.value("circular_accuracy", benchmark="eyechart/exists", model="snellen:always-a")
        == 0.0
    )


def test_what_calls_return_says_in_one_line_what_it_is_how_many_and_where() -> None:
    results = sn.evaluate(
        ["snellen:oracle", "snellen:always-a"], ["eyechart/shape", "eyechart/exists"], limit=4
    )
    first, second = (run.folder for run in results.runs)
    counts = f"benchmarks: 2, numbers: {len(results.rows)}"
    assert (
        repr(results)
        == f"<Results: snellen:oracle in {first}, snellen:always-a in {second}; {counts}>"
    )
    assert repr(sn.Results(results.runs * 3)).startswith(
        f"<Results: snellen:oracle in {first}, snellen:always-a in {second}, snellen:oracle in {first}, 3 more runs; "
    )
    assert ", 1 more run; " in repr(sn.Results((*results.runs, *results.runs)))
    compared = results.compare(resamples=0)
    assert repr(compared) == (
        "<Comparison: snellen:oracle, snellen:always-a; "
        f"differences: {len(compared.differences)}, ranks: 0, flips: {len(compared.flips)}>"
    )
    assert repr(results.runs[0]) == f"<ScoredRun: snellen:oracle in {first}; benchmarks: 2>"
    exists, _ = sorted(results.runs[0].benchmarks, key=lambda scored: scored.spec.name)
    assert (
        repr(exists)
        == f"<ScoredBenchmark: eyechart/exists; samples: 4, scores: {len(list(exists.scores))}>"
    )
    assert (
        repr(sn.build("eyechart/shape", to="built"))
        == "<Benchmark: eyechart/shape in built; questions: 300, images: 300>"
    )
    assert repr(sn.load_model("snellen:oracle")) == "<Oracle: snellen:oracle>"
    assert repr(sn.load_model(Reader())) == "<ModelAdapter: reader>"
    assert repr(sn.Scripted({}, name="two\x1blines")) == "<Scripted: two\ufffdlines>"


class Reader:
    """A user's model: sees the stored bytes, answers in plain texts and numbers."""

    name = "reader"

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def generate(self, requests: list[sn.Request], images: Any) -> list[str]:
        self.seen += [images.read(image) for request in requests for image in request.images]
        return [f"({request.variant.labels[0]})" for request in requests]

    def loglikelihood(self, requests: list[sn.Request], images: Any) -> list[list[float]]:
        return [[-float(i) for i in range(len(request.continuations))] for request in requests]


def test_any_object_with_generate_is_a_model_and_gets_the_stored_bytes() -> None:
    model = Reader()
    results = sn.evaluate(model, "eyechart/shape", ["vanilla", "likelihood"], limit=6)
    assert len(model.seen) == 6 and all(content.startswith(b"\x89PNG") for content in model.seen)
    assert results.runs[0].manifest.model == "reader"
    first = results.value("accuracy", benchmark="eyechart/shape", protocol="likelihood")
    assert first == results.value("accuracy", benchmark="eyechart/shape", protocol="vanilla")


def test_an_object_that_is_no_model_is_refused_in_one_line() -> None:
    with pytest.raises(
        sn.ModelError, match=r"int is not a model: it needs generate\(requests, images\)"
    ):
        sn.evaluate(3, "eyechart/shape")


def test_a_model_without_likelihoods_is_refused_before_anything_is_asked() -> None:
    mute = sn.Scripted(lambda request: "(A)")
    with pytest.raises(
        sn.ModelError, match="does not provide log-likelihoods, which likelihood needs"
    ):
        sn.evaluate(mute, "eyechart/shape", "likelihood", limit=3)
    assert not Path("runs").exists()


def test_a_run_of_another_model_in_the_same_folder_is_refused() -> None:
    sn.evaluate("snellen:uniform", "eyechart/shape", limit=3, name="r")
    with pytest.raises(sn.StoreError, match="contains a run of another model"):
        sn.evaluate("snellen:oracle", "eyechart/shape", limit=3, name="r")


def test_replay_answers_what_the_earlier_run_was_asked() -> None:
    first = sn.evaluate("snellen:uniform", "eyechart/shape", "circular", limit=10, name="first")
    again = sn.evaluate("replay:runs/first", "eyechart/shape", "circular", limit=10, name="again")
    assert [row.estimate for row in again.rows] == [row.estimate for row in first.rows]
    with pytest.raises(sn.ErrorBudgetError, match="requests failed"):
        sn.evaluate(
            "replay:runs/first", "eyechart/shape", "vanilla?labels=lower", limit=10, name="other"
        )


def test_a_model_and_a_metric_of_another_package_are_found_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "guest-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[snellen.models]\nguest = guest_models:open_guest\n")
    (tmp_path / "site" / "guest_models.py").write_text(
        "import snellen\n\n"
        "def open_guest(spec):\n"
        "    return snellen.Scripted(lambda request: spec.target, name=spec.text)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    results = sn.evaluate("guest:(B)", "eyechart/exists", limit=5)
    assert results.value("hit_rate", benchmark="eyechart/exists") == 1.0


def test_the_longest_reply_is_each_benchmarks_own_or_the_one_asked_for(
    questions: Benchmark, tmp_path: Path
) -> None:
    def asked(name: str, **how: Any) -> set[int]:
        sn.evaluate(
            "snellen:oracle", [str(questions.folder), "eyechart/caption"], limit=1, name=name, **how
        )
        return {
            exchange.request.decoding.max_new_tokens
            for exchange in read_exchanges(Path("runs") / name)
        }

    own = select("eyechart/caption")[0].max_new_tokens
    assert asked("plain") == {30, own} and own != 30
    assert asked("long", max_new_tokens=512) == {512}
    assert asked("warm", temperature=0.5) == {30, own}
    with pytest.raises(sn.DataError, match=r"^max_new_tokens: expected a whole number >= 1$"):
        asked("none", max_new_tokens=0)


def test_none_stands_for_the_default_of_a_keyword() -> None:
    built = sn.build(
        "eyechart/shape", source=None, params=None, images=None, seed=None, to="shapes"
    )
    assert built.manifest.counts.samples == 300
    with pytest.raises(sn.DataError, match=r"^metrics\[0\]: expected a text, got None$"):
        sn.build([{"question": "Is it day?"}], name="mine", metrics=[None])


def test_a_run_with_another_longest_reply_is_another_run(
    questions: Benchmark, tmp_path: Path
) -> None:
    sn.evaluate("snellen:oracle", str(questions.folder), name="one")
    with pytest.raises(
        sn.StoreError,
        match=r"a run with other settings .max_new_tokens the benchmark's, now 64.; choose another name=",
    ):
        sn.evaluate("snellen:oracle", str(questions.folder), max_new_tokens=64, name="one")


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        ("", "Look. {question}", r"prompt as usual, now 'Look\. \{question\}'"),
        ("Look. {question}", "See. {question}", r"prompt 'Look\. .*', now 'See\. .*'"),
        ("Look. {question}", "", r"prompt 'Look\. .*', now as usual"),
    ],
)
def test_a_run_with_another_prompt_is_another_run(
    first: str, second: str, change: str, questions: Benchmark
) -> None:
    sn.evaluate("snellen:oracle", str(questions.folder), prompt=first, name="one")
    journal = Path("runs/one/journal-0.jsonl")
    before = journal.read_bytes()
    with pytest.raises(
        sn.StoreError, match=rf"a run with other settings .{change}.; choose another name="
    ):
        sn.evaluate("snellen:oracle", str(questions.folder), prompt=second, name="one")
    assert journal.read_bytes() == before
    sn.evaluate("snellen:oracle", str(questions.folder), prompt=first, name="one")


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """Importing a submodule sets its name on the package, whatever that name meant before."""
    rooms = {path.stem for path in Path(sn.__file__).parent.iterdir()}
    assert not rooms & set(sn.__all__)
