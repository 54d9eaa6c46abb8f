"""What authors of suites get wrong is said before a model is asked; what fails later is said by name, and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import small
import snellen as sn
from snellen import registry
from snellen.errors import HookError, SnellenError, SuiteWarning, UnknownNameError
from snellen.extraction import find_extractor
from snellen.metrics.declaration import declared_row
from snellen.plugin_api import ExtractedChoice, NamedExtractor


class Counted(sn.Scripted):
    """A model that knows how often it was asked."""

    asked = 0

    def generate(self, requests: Sequence[Any], images: Any) -> Any:
        self.asked += len(requests)
        return super().generate(requests, images)


@pytest.fixture
def model() -> Counted:
    return Counted(lambda request: "B", name="counted")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, Any], None]:
    """Registers until the test ends."""

    def register(group: Any, name: str, target: Any) -> None:
        monkeypatch.setitem(registry._NAMES[group], name, target)

    return register


@pytest.fixture(scope="module")
def choices(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A benchmark of questions with options, whose golds are A, B, C."""
    return str(small.built(small.rows(3, 3), tmp_path_factory.mktemp("choices")).folder)


@pytest.fixture(scope="module")
def open_questions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A benchmark of open questions, which is scored by the metric `own`."""
    rows = [
        {"id": f"q{i}", "question": f"Which letter is {i}?", "answer": "B", "image": small.cell(i)}
        for i in (0, 1)
    ]
    folder = tmp_path_factory.mktemp("open")
    yield str(small.built(rows, folder, formulation="text", metrics=("own",)).folder)


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_code.py").write_text("def shortness(reply, references):\n    return 1.0\n")
    return tmp_path


FILE = "own_code.py"


@pytest.mark.parametrize(
    ("target", "line"),
    [
        (None, r"mine: unknown metric 'own'"),
        (
            "own_cod:shortness",
            r"mine: the metric 'own' \(own_cod:shortness\) cannot be loaded: ModuleNotFoundError: No ",
        ),
        (
            f"{FILE}:shortnes",
            r"mine: the metric 'own' \(own_code.py:shortnes\) cannot be loaded: AttributeError: unknown attribute "
            r"'shortnes'; did you mean shortness\?",
        ),
        (3, "mine: the metric 'own' is 3; it must be a declared metric or a function"),
    ],
)
def test_a_metric_that_cannot_be_had_is_told_before_the_model_is_asked(
    target: Any, line: str, model: Counted, open_questions: str, registered: Any, in_a_folder: Path
) -> None:
    if target is not None:
        registered("metrics", "own", target)
    with pytest.raises(SnellenError, match=line):
        sn.evaluate(model, open_questions, name="x")
    assert model.asked == 0


def test_a_headline_that_is_no_row_of_any_metric_is_told_before_the_model_is_asked(
    model: Counted, tmp_path: Path
) -> None:
    benchmark = small.built(small.rows(3, 3), tmp_path / "made", headline="acuracy")
    with pytest.raises(
        UnknownNameError, match="mine: unknown headline 'acuracy'; did you mean accuracy"
    ):
        sn.evaluate(model, str(benchmark.folder), runs=tmp_path / "runs")
    assert model.asked == 0


def test_a_forecast_tells_it_too(
    capsys: pytest.CaptureFixture[str], open_questions: str, in_a_folder: Path
) -> None:
    code, _, error = small.command(capsys, "run", "snellen:uniform", open_questions, "--dry-run")
    assert (
        code == 2
        and error.startswith("snellen: mine: unknown metric 'own'")
        and error.count("\n") == 1
    )


def test_the_command_line_says_which_flag_shows_where_code_of_others_raised_and_python_does_not(
    capsys: pytest.CaptureFixture[str],
    model: Counted,
    open_questions: str,
    registered: Any,
    in_a_folder: Path,
) -> None:
    registered("metrics", "own", "own_cod:shortness")
    hint = " (--debug shows where)"
    assert small.command(capsys, "run", "snellen:uniform", open_questions)[2].endswith(
        f"'own_cod'{hint}\n"
    )
    assert hint not in small.command(capsys, "--debug", "run", "snellen:uniform", open_questions)[2]
    assert hint not in small.command(capsys, "run", "snellen:uniform", "nowhere")[2]
    with pytest.raises(HookError) as raised:
        sn.evaluate(model, open_questions)
    assert "--debug" not in str(raised.value)


def test_a_metric_that_fails_is_told_with_question_and_what_goes_on(
    model: Counted, open_questions: str, registered: Any, in_a_folder: Path
) -> None:
    def failing(reply: str, references: Sequence[str]) -> float:
        raise ValueError("no such\nword")

    registered("metrics", "own", failing)
    line = (
        r"the metric own, on mine q0: ValueError: no such word; the replies are stored: correct "
        r"the problem, then call sn\.score\('runs/x'\)"
    )
    with pytest.raises(HookError, match=line) as raised:
        sn.evaluate(model, open_questions, name="x")
    chain = raised.value.__cause__
    assert chain is not None and isinstance(
        chain.__cause__, ValueError
    )  # where it was raised stays to be seen
    assert model.asked == 2
    registered("metrics", "own", lambda reply, references: float(reply == references[0]))
    assert sn.score("runs/x").value("own", benchmark="mine") == 1.0
    assert sn.evaluate(model, open_questions, name="x").value("own", benchmark="mine") == 1.0
    assert model.asked == 2


def test_a_metric_that_returns_no_number_is_told(
    model: Counted, open_questions: str, registered: Any, in_a_folder: Path
) -> None:
    registered("metrics", "own", lambda reply, references: "much")
    with pytest.raises(
        HookError, match="the metric own, on mine q0: TypeError: 'much' is not a number"
    ):
        sn.evaluate(model, open_questions, name="x")


def test_a_run_is_none_the_worse_for_a_broken_metric_that_it_does_not_use(
    model: Counted, open_questions: str, registered: Any, in_a_folder: Path
) -> None:
    registered("metrics", "own", lambda reply, references: 1.0)
    registered("metrics", "of_others", "no_such_module:metric")
    assert sn.evaluate(model, open_questions, name="x").value("own", benchmark="mine") == 1.0
    assert declared_row("of_others").heading == "of others"
    with pytest.raises(
        HookError, match=r"the metric 'of_others' \(no_such_module:metric\) cannot be loaded"
    ):
        sn.score("runs/x", metrics=["of_others"])


@pytest.mark.parametrize("what", ["metrics", "protocols", "exporters"])
def test_commands_that_look_at_all_go_on_without_what_is_broken(
    what: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = registry.names(what)
    monkeypatch.setattr(
        registry,
        "_targets_of_others",
        lambda group, added=registry._targets_of_others: {**added(group), "aa": "no_such:x"},
    )
    with pytest.warns(
        SuiteWarning,
        match=rf"left out: the {what[:-1]} 'aa' \(no_such:x\) cannot be loaded: ModuleNotFound",
    ):
        code, out, _ = small.command(capsys, "list", what, "--json")
    assert code == 0 and sorted(json.loads(line)[what[:-1]] for line in out.splitlines()) == names


def test_a_run_of_a_suite_that_is_not_named_says_so_before_the_model_is_asked(
    model: Counted, tmp_path: Path, in_a_folder: Path
) -> None:
    rows = [{"id": "q0", "question": "Which?", "answer": "B", "image": small.cell()}]
    facts = {"formulation": "text", "metrics": ("word_shar",), "suite": "kitchen"}
    folder = small.built(rows, tmp_path / "built", name="kitchen/words", **facts).folder
    line = (
        r"kitchen/words: unknown metric 'word_shar'; its suite 'kitchen' is not available: give its folder with "
        r"sn.add_suites\(FOLDER\), or install its package"
    )
    with pytest.raises(UnknownNameError, match=line):
        sn.evaluate(model, str(folder), name="x")
    assert model.asked == 0


# --- extractors ---------------------------------------------------------------------------------------------------


def last_letter(reply: str, options: Sequence[str], labels: Sequence[str]) -> Any:
    return labels.index(reply[-1]) if reply[-1] in labels else None


def as_record(
    reply: str, options: Sequence[str], labels: Sequence[str], question: str
) -> ExtractedChoice:
    assert question.startswith("Which animal")
    return ExtractedChoice(1, "label", "certain")


@pytest.mark.parametrize(
    "extractor",
    [
        last_letter,
        NamedExtractor("last-1", last_letter),
        NamedExtractor("record-1", as_record),
        as_record,
    ],
)
def test_a_function_of_reply_options_and_labels_is_an_extractor(
    extractor: Any, model: Counted, choices: str, registered: Any, in_a_folder: Path
) -> None:
    registered("extractors", "own", extractor)
    results = sn.evaluate(model, choices, name="x", scoring=sn.ScoringSpec(extractor="own"))
    assert results.value("accuracy", benchmark="mine") == pytest.approx(1 / 3)


def test_the_version_of_a_function_is_its_name_with_a_digest_of_its_file(
    registered: Any, in_a_folder: Path
) -> None:
    versions = []
    for comment in ("", "# changed\n"):
        path = in_a_folder / f"rules{len(versions)}.py"
        path.write_text(f"{comment}def rule(reply, options, labels):\n    return 0\n")
        registered("extractors", "own", f"{path}:rule")
        versions.append(find_extractor("own").version)
    assert versions[0] != versions[1] and all(version.startswith("own-") for version in versions)


@pytest.mark.parametrize(
    ("extractor", "line"),
    [
        (
            "no_such_module:rule",
            r"mine: the extractor 'own' \(no_such_module:rule\) cannot be loaded: ModuleNotFound",
        ),
        (
            lambda reply, options: 0,
            r"the extractor 'own' takes \(reply, options\); it has to take \(reply, options, labels\)",
        ),
        (
            "own_code.py:shortness",
            r"the extractor 'own' takes \(reply, references\); it has to take",
        ),
        (
            NamedExtractor,
            "the extractor 'own' is <class .*>; it has to be a NamedExtractor, or a function of reply",
        ),
    ],
)
def test_what_cannot_be_an_extractor_is_told_before_the_model_is_asked(
    extractor: Any, line: str, model: Counted, choices: str, registered: Any, in_a_folder: Path
) -> None:
    registered("extractors", "own", extractor)
    with pytest.raises(HookError, match=line.removeprefix("mine: ")):
        sn.evaluate(model, choices, name="x", scoring=sn.ScoringSpec(extractor="own"))
    assert model.asked == 0


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (
            lambda reply, options, labels: "B",
            "the extractor own-[0-9a-f]{8} returned 'B' for mine q000; it has to be",
        ),
        (
            lambda reply, options, labels: 3,
            "returned 3 for mine q000; .* the index of one of the 3 options",
        ),
        (lambda reply, options, labels: True, "returned True for mine q000"),
        (
            lambda reply, options, labels: ExtractedChoice(-1, "label", "certain"),
            r"returned ExtractedChoice\(choice=-1.* for mine q000",
        ),
        (
            lambda reply, options, labels: {}[reply],
            "the extractor own-.{8}, on mine q000: KeyError: 'B'",
        ),
    ],
)
def test_an_extractor_that_fails_is_told_with_question_and_what_goes_on(
    rule: Any, line: str, model: Counted, choices: str, registered: Any, in_a_folder: Path
) -> None:
    registered("extractors", "own", rule)
    with pytest.raises(HookError, match=line) as raised:
        sn.evaluate(model, choices, name="x", scoring=sn.ScoringSpec(extractor="own"))
    assert "the replies are stored: correct the problem, then call sn.score('runs/x', ...)" in str(
        raised.value
    )
    assert model.asked == 3
    assert sn.score("runs/x").value("accuracy", benchmark="mine") == pytest.approx(1 / 3)


def test_a_metric_of_choices_that_fails_is_told_with_its_question(
    model: Counted, choices: str, registered: Any, in_a_folder: Path
) -> None:
    from snellen.metrics.declaration import ChoiceMetric, metric_row

    metric = ChoiceMetric(
        description="", rows=(metric_row("own"),), measure=lambda predictions, answer: 1 / 0
    )
    registered("metrics", "own", metric)
    with pytest.raises(
        HookError, match="the metric own, on mine q000: ZeroDivisionError: division by zero"
    ):
        sn.evaluate(model, choices, name="x", scoring=sn.ScoringSpec(metrics=("own",)))


def test_a_kind_of_metric_from_another_package_scores_questions(
    model: Counted, choices: str, registered: Any, in_a_folder: Path
) -> None:
    from snellen.plugin_api import Metric, MetricScores, Unscored, metric_row

    class OptionCount(Metric, frozen=True, kw_only=True):
        computed_over = "groups"

        def score(self, questions: Any, context: Any) -> MetricScores:
            first, *others = questions
            value = float(len(first.turn.options))
            scores = [first.score("own", value)]
            scores += [question.score("own", Unscored("metric undefined")) for question in others]
            return MetricScores(scores)

    registered("metrics", "own", OptionCount(description="options", rows=(metric_row("own"),)))
    results = sn.evaluate(model, choices, name="x", scoring=sn.ScoringSpec(metrics=("own",)))

    [row] = [row for row in results.rows if (row.metric, row.slice) == ("own", "")]
    assert (row.estimate.value, row.estimate.n, row.estimate.unscored) == (3.0, 1, 2)


def test_a_kind_of_metric_without_score_is_named(
    model: Counted, choices: str, registered: Any, in_a_folder: Path
) -> None:
    from snellen.plugin_api import Metric, metric_row

    class Incomplete(Metric, frozen=True, kw_only=True):
        computed_over = "reply"

    registered("metrics", "own", Incomplete(description="", rows=(metric_row("own"),)))
    with pytest.raises(HookError, match="own has the kind Incomplete, which has no method `score`"):
        sn.evaluate(model, choices, name="x", scoring=sn.ScoringSpec(metrics=("own",)))


METRICS = """
def names_b(reply, references):
    return float("B" in reply)


def length(reply, references):
    return 3 * len(reply)
"""


@pytest.fixture
def plain_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A benchmark of open questions in a folder with metrics in `my_metrics.py`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_metrics.py").write_text(METRICS)
    rows = [
        {"id": f"q{i}", "question": f"Which letter is {i}?", "answer": "B", "image": small.cell(i)}
        for i in range(4)
    ]
    return str(small.built(rows, tmp_path / "open", formulation="text").folder)


def test_a_function_is_the_same_metric_by_its_file_and_in_python(
    plain_questions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._NAMES["metrics"], "names_b", None)
    model = Counted(lambda request: "B", name="counted")
    by_file = sn.evaluate(model, plain_questions, metrics="my_metrics.py:names_b", name="f")
    [by_file_row] = [row for row in by_file.rows if row.metric == "names_b" and not row.slice][:1]

    def names_b(reply: str, references: tuple[str, ...]) -> float:
        return float("B" in reply)

    monkeypatch.setitem(registry._NAMES["metrics"], "names_b", None)
    in_python = sn.evaluate(model, plain_questions, metrics=names_b, name="p")
    [python_row] = [row for row in in_python.rows if row.metric == "names_b" and not row.slice][:1]

    assert by_file_row.unit == python_row.unit == "share"
    assert by_file_row.estimate == python_row.estimate
    # Four of four: the interval of a share ends at 1, and Wilson's begins at 4 / (4 + 1.96^2).
    assert by_file_row.estimate.high == 1.0
    assert 0.3 < (by_file_row.estimate.low or 0.0) < 0.55


def test_a_function_whose_values_are_no_shares_is_told_how_to_say_so(
    plain_questions: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._NAMES["metrics"], "length", None)
    words = ("run", "snellen:always-a", plain_questions, "--metric", "my_metrics.py:length")
    code, _, err = small.command(capsys, *words)
    assert code != 0
    assert 'give it another unit than a share: @sn.metric(unit="points")' in err


@pytest.mark.parametrize("name", ["my_metrics.py", "./my_metrics.py"])
def test_a_metric_in_a_file_is_named_by_file_and_name(
    name: str, plain_questions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "snellen:always-a", plain_questions, "--metric", name)
    code, _, err = small.command(capsys, *words)
    assert code == 2
    assert f"unknown metric {name!r}; write my_metrics.py:names_b" in err


def test_compare_takes_a_metric_in_a_file_as_score_does(
    plain_questions: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._NAMES["metrics"], "names_b", None)
    registry._NAMES["metrics"].pop("names_b")
    for name, reply in (("b", "B"), ("c", "C")):
        model = Counted(lambda request, reply=reply: reply, name=name)
        sn.evaluate(model, plain_questions, name=name, report=False)
    words = ("compare", "runs/b", "runs/c", "--json", "--metric")
    code, _, err = small.command(capsys, *words, "names_b")
    assert code == 2 and "a function of your own is FILE.py:names_b" in err
    code, _, err = small.command(capsys, *words, "my_metrics.py")
    assert code == 2 and "write my_metrics.py:names_b" in err

    code, out, err = small.command(capsys, *words, "my_metrics.py:names_b")
    assert code == 0, err
    difference = json.loads(out.splitlines()[0])
    assert difference["metric"] == "names_b"
    assert (difference["first_value"], difference["second_value"]) == (1, 0)

    models = ("snellen:oracle", "snellen:always-a", plain_questions)
    own = ("--metric", "my_metrics.py:names_b")
    code, _, err = small.command(capsys, "compare", "--sequential", *models, *own)
    assert code == 2 and "`snellen compare RUN_A RUN_B --metric my_metrics.py:names_b`" in err


def test_an_unknown_metric_in_an_entry_names_the_hooks_of_its_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A TOML file takes no FILE.py:NAME, so this is no advice for one."""
    rows = [{"id": "q", "question": "Which letter?", "answer": "B", "image": small.cell(0)}]
    folder = small.built(rows, tmp_path, formulation="text", metrics=("colour_xyz",)).folder
    code, _, err = small.command(capsys, "run", "snellen:oracle", str(folder))
    assert code == 2
    assert (
        "unknown metric 'colour_xyz'; a function of your own is named in the suite.toml, under [hooks.metrics]: "
        'colour_xyz = "MODULE:colour_xyz"; or leave it out here and give `--metric FILE.py:colour_xyz` with the run'
    ) in " ".join(err.split())
