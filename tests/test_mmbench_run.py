"""MMBench's runs: one pass and all of them, files handed in and taken in, models on the same questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import small
import snellen as sn
from mmbench_rows import LETTERS, MILLION, Cells, built, options_of, rotated, rotation, row, write
from snellen.api import Results, evaluate, score
from snellen.common.seeds import rng_for
from snellen.errors import DataError, StoreError, UnknownNameError
from snellen.formats.text_table import TextTable, write_text_table
from snellen.interchange.predictions.taking import import_run
from snellen.models.embedded import Scripted
from snellen.records import Estimate, Failure, Request, Response
from snellen.report.reported_runs import prepare_reported_runs
from snellen.runs.run_folder import read_manifest
from snellen.suites.mmbench.ability_table import ability_tables
from snellen.suites.mmbench.writer import write_submission

FORMS = ("xlsx", "tsv", "csv", "json", "jsonl")
ALL = "circular?all_passes=true"
Reply = Callable[[Cells], str]
"""From a row to what a model says to it."""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def bases(count: int, options: int = 4) -> list[Cells]:
    names = ("cat", "dog", "cow", "hen", "owl")[:options]
    return [row(i, names, i % options) for i in range(1, count + 1)]


def hand_in(rows: list[Cells], reply: Reply, name: str = "p.tsv") -> Path:
    """A file of predictions to these rows, as a toolkit writes it: all columns but the images."""
    columns = [
        name for name in dict.fromkeys(name for cells in rows for name in cells) if name != "image"
    ]
    write_text_table(
        Path(name),
        [*columns, "prediction"],
        [{**cells, "prediction": reply(cells)} for cells in rows],
    )
    return Path(name)


def scored(rows: list[Cells], reply: Reply, **how: str) -> tuple[Results, tuple[str, ...]]:
    """Results of predictions to all rows of a file, and what was noted."""
    answers = write(rows, Path("answers.tsv"))
    folder = import_predictions(hand_in(rows, reply), str(answers), Path("taken"))
    return score(folder, **how), read_manifest(folder).notes


def value(results: Results, metric: str, part: str = "") -> Estimate:
    [found] = [
        r.estimate
        for r in results.rows
        if (r.metric, r.slice) == (metric, part) and r.benchmark != "*"
    ]
    return found


def import_predictions(path: Path, answers: str, to: Path | None = None, model: str = "") -> Path:
    return import_run(path, answers, "mmbench" if answers.endswith(".tsv") else "", to, model)


def correct(cells: Cells) -> str:
    return cells["answer"]


def verdicts(results: Results, metric: str) -> dict[str, float | None]:
    return {
        s.sample_id: s.value for s in results.runs[0].benchmarks[0].scores if s.metric == metric
    }


# --- one pass and all of them ------------------------------------------------------------------------------------


def base_of(cells: Cells) -> str:
    return str(int(cells["index"]) % MILLION)


def uniform(cells: Cells) -> str:
    return rng_for("uniform", cells["index"]).choice(LETTERS[: len(options_of(cells))])


def biased(cells: Cells) -> str:
    return "A" if rng_for("biased", cells["index"]).random() < 0.5 else uniform(cells)


def consistent(cells: Cells) -> str:
    return cells["answer"] if int(base_of(cells)) % 5 else "A"


@pytest.mark.parametrize(
    ("reply", "vanilla", "circular"),
    [
        (lambda cells: "A", 1 / 4, 0.0),
        (uniform, 1 / 4, (1 / 4) ** 4),
        (consistent, 0.8 + 0.2 / 4, 0.8),
        (biased, (5 / 8 + 3 * 1 / 8) / 4, 5 / 8 * (1 / 8) ** 3),
    ],
    ids=["always-A", "uniform", "80 % consistent", "position-biased"],
)
def test_models_of_known_behaviour_score_as_their_closed_forms_say(
    reply: Reply, vanilla: float, circular: float
) -> None:
    results, _ = scored(rotated(*bases(200)), reply)
    for metric, closed in (
        ("accuracy", vanilla),
        ("circular_accuracy", circular),
        ("circular_drop", vanilla - circular),
    ):
        one = value(results, metric)
        assert one.n == 200 and one.low is not None and one.high is not None
        assert one.low - 1e-9 <= closed <= one.high, (metric, one)
    drop = value(results, "accuracy").value - value(results, "circular_accuracy").value  # type: ignore[operator]
    assert value(results, "circular_drop").value == pytest.approx(drop)


def test_a_model_that_is_consistently_wrong_is_consistent_and_never_right() -> None:
    wrong, _ = scored(
        rotated(*bases(12)), lambda cells: "hen" if cells[cells["answer"]] != "hen" else "cat"
    )
    assert value(wrong, "circular_accuracy").value == 0.0
    assert value(wrong, "consistency").value == 1.0


replies = st.sampled_from(["A", "B", "(C)", "D", "cat", "I do not know.", "", "A or B"])


@settings(max_examples=15, deadline=None)
@given(said=st.lists(st.lists(replies, min_size=4, max_size=4), min_size=1, max_size=6))
def test_stopping_early_gives_the_verdicts_of_all_passes_for_fewer_calls(
    said: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stop")
    made = built(write(bases(len(said)), folder / "t.tsv"))

    def reply(request: Request) -> str:
        return said[int(request.sample_id) - 1][request.variant.order[0]]

    early, whole = (
        evaluate(Scripted(reply), str(made.folder), protocol, runs=folder, name=str(number))
        for number, protocol in enumerate(("circular", ALL))
    )
    metrics = ("circular_accuracy", "circular_drop", "consistency", "accuracy", "unparsed_rate")
    for metric in metrics:
        assert verdicts(early, metric) == verdicts(whole, metric), metric
    assert whole.runs[0].distinct_requests == 4 * len(said) >= early.runs[0].distinct_requests


def test_a_question_whose_options_must_not_be_turned_is_asked_once_and_has_no_circular_verdict(
    tmp_path: Path,
) -> None:
    turned, once = row(1, g_index="1"), row(2, g_index="2")
    rows = [turned, *(rotation(turned, turn) for turn in (1, 2, 3)), once]
    made = built(write(rows, tmp_path / "t.tsv"))
    results = evaluate("snellen:oracle", str(made.folder), ALL)
    assert results.runs[0].distinct_requests == 5
    assert value(results, "accuracy").n == 2
    circular = value(results, "circular_accuracy")
    assert (circular.value, circular.n, circular.unscored, circular.errors) == (1.0, 1, 1, 0)
    assert {
        s.reason
        for s in results.runs[0].benchmarks[0].scores
        if s.value is None and s.sample_id == "2"
    } == {"not rotated"}
    assert write_submission(results.runs[0].folder, Path("s.tsv")).rows == 5


def test_the_table_of_abilities_stands_in_the_papers_order_and_its_levels_add_up() -> None:
    results, _ = scored(rotated(*bases(60)), uniform)
    [table] = ability_tables(prepare_reported_runs(results.runs, results.rows))
    assert [str(cells[0]) for cells in table.rows] == [
        "Overall",
        "Perception",
        "· Coarse perception",
        "· · Image style",
        "· · Image scene",
        "Reasoning",
        "· Attribute reasoning",
        "· · Function reasoning",
    ]
    assert table.header == (
        "ability",
        "vanilla",
        "circular",
        "lost by turning",
        "consistent",
        "unscored / errors",
    )
    for column in range(1, 5):
        numbers = [cells[column].estimate for cells in table.rows]  # type: ignore[union-attr]
        right = [one.value * one.n for one in numbers]
        assert (
            right[0]
            == pytest.approx(right[1] + right[5])
            == pytest.approx(right[3] + right[4] + right[7])
        )
        assert numbers[0].n == 60 == numbers[1].n + numbers[5].n


# --- hidden answers ----------------------------------------------------------------------------------------------


def test_a_run_without_answers_is_scored_when_the_same_questions_are_built_with_them(
    tmp_path: Path,
) -> None:
    rows = rotated(*bases(8))
    hidden = write(rows, tmp_path / "t.tsv", without=("answer",))
    write(
        [{"index": cells["index"], "answer": cells["answer"]} for cells in rows],
        tmp_path / "answers.tsv",
    )
    made = sn.build(hidden, to=tmp_path / "made")
    first = evaluate("snellen:always-a", str(made.folder), "circular", name="r")
    assert value(first, "accuracy").unscored == 8
    again = sn.build(hidden, answers=tmp_path / "answers.tsv", to=tmp_path / "made")
    assert again.manifest.version != made.manifest.version
    assert value(score("runs/r"), "accuracy").value == 0.25
    assert (
        evaluate("snellen:always-a", str(made.folder), "circular", name="r")
        .runs[0]
        .distinct_requests
        == first.runs[0].distinct_requests
    )
    write(rotated(*bases(8)[:7], row(8, ("other", "dog", "cow", "hen"))), hidden)
    sn.build(hidden, to=tmp_path / "made")
    with pytest.raises(DataError, match="because the answers of t are not available"):
        score("runs/r")


# --- the server's file -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_submission_has_the_official_rows_with_the_replies_as_they_came(
    form: str, tmp_path: Path
) -> None:
    rows = rotated(
        row(1, ("None", "NA"), 1, comment="kept"),
        row(2, question="=1+1"),
        row(3, ("a", "b", "c")),
        left=True,
    )
    made = built(write(rows, tmp_path / "t.tsv"))
    said = {"1": "=B", "2": "http://a.b/c\x01", "3": "NA"}
    evaluate(Scripted(said), str(made.folder), ALL, name="r")
    done = write_submission(Path("runs/r"), Path(f"s.{form}"))
    assert (done.rows, done.never, done.failed, done.empty) == (9, (), (), 0)
    table = TextTable.read(Path(f"s.{form}"))
    kept = [name for name in rows[0] if name not in ("image", "answer")]
    assert [{name: cells.get(name, "") for name in kept} for _, cells in table.rows] == sorted(
        ({name: cells.get(name, "") for name in kept} for cells in rows),
        key=lambda cells: int(cells["index"]),
    )
    assert [cells["prediction"] for _, cells in table.rows] == [
        said[base_of(cells)] for _, cells in table.rows
    ]
    assert "answer" in table.columns and not any("answer" in cells for _, cells in table.rows)


def test_rows_that_were_never_asked_are_named_and_one_command_asks_for_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sn.build(write(rotated(*bases(6)), Path("mine.tsv")), to="mine")
    run = ("run", "snellen:uniform", "./mine", "--name", "r", "-p")
    small.command(capsys, *run, "circular")
    code, _, err = small.command(capsys, "submit", "runs/r", "-o", "s.xlsx")
    assert code == 2 and not Path("s.xlsx").exists()
    assert "rows were never asked, as CircularEval ends a question that has failed (" in err
    assert f"run the same model again with -p '{ALL}'" in err
    code, _, err = small.command(capsys, "submit", "runs/r", "-o", "part.xlsx", "--partial")
    assert code == 0 and "missing rows: 9 of 24 rows were never asked" in err
    asked = len(TextTable.read(Path("part.xlsx")).rows)
    _, _, err = small.command(capsys, *run, ALL)
    assert f"{24 - asked} requests" in err
    code, out, _ = small.command(capsys, "submit", "runs/r", "-o", "s.xlsx")
    assert (code, out) == (0, f"wrote s.xlsx: 24 rows of mine by {ALL}\n")
    assert openpyxl.load_workbook("s.xlsx").active.max_row == 25


def test_requests_that_failed_are_not_handed_in_as_replies(tmp_path: Path) -> None:
    made = built(write(rotated(*bases(2)), tmp_path / "t.tsv"))

    def reply(request: Request) -> str | Response:
        return Response(error=Failure("server", "down")) if request.sample_id == "2" else ""

    with pytest.raises(sn.ErrorBudgetError):
        evaluate(Scripted(reply), str(made.folder), ALL, name="r")
    with pytest.raises(
        DataError,
        match=r"4 requests failed \(2, 1000002, 2000002, \.\.\.\): the same run asks them",
    ):
        write_submission(Path("runs/r"), Path("s.tsv"))
    done = write_submission(Path("runs/r"), Path("s.tsv"), partial=True)
    assert (done.rows, len(done.failed), done.empty) == (4, 4, 4)


def test_a_likelihood_is_handed_in_as_the_letter_of_its_option_in_each_row(tmp_path: Path) -> None:
    rows = rotated(*bases(4))
    made = built(write(rows, tmp_path / "t.tsv"))
    evaluate("snellen:oracle", str(made.folder), "likelihood", name="r")
    write_submission(Path("runs/r"), Path("s.tsv"))
    said = {cells["index"]: cells["prediction"] for _, cells in TextTable.read(Path("s.tsv")).rows}
    assert said == {cells["index"]: cells["answer"] for cells in rows}


def test_a_submission_names_what_it_cannot_choose(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        built(write(rotated(*bases(2)), tmp_path / name / "t.tsv"), name=name)
    folders = [str(tmp_path / name / "made") for name in ("one", "two")]
    evaluate("snellen:uniform", folders, ["vanilla", "instability"], name="r")
    with pytest.raises(DataError, match=r"2 benchmarks; name one with benchmark=\.\.\.: one, two"):
        write_submission(Path("runs/r"), Path("s.tsv"))
    with pytest.raises(UnknownNameError, match="did you mean one"):
        write_submission(Path("runs/r"), Path("s.tsv"), benchmark="onee")
    with pytest.raises(UnknownNameError, match="protocol with one reply a row"):
        write_submission(Path("runs/r"), Path("s.tsv"), benchmark="one", protocol="instability")
    evaluate(
        "snellen:uniform", str(small.built(small.rows(3), tmp_path / "own").folder), ALL, name="own"
    )
    assert write_submission(Path("runs/own"), Path("s.tsv")).rows == 12


# --- files that others made --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_run_and_the_file_it_hands_in_have_the_same_scores(form: str, tmp_path: Path) -> None:
    made = built(write(rotated(*bases(40, 3)), tmp_path / "t.tsv"))
    own = evaluate("snellen:biased?p=0.6", str(made.folder), ALL, name="r")
    write_submission(Path("runs/r"), Path(f"s.{form}"))
    for answers in (str(made.folder), str(tmp_path / "t.tsv")):
        folder = import_predictions(Path(f"s.{form}"), answers)
        again = score(folder)
        for metric in ("accuracy", "circular_accuracy", "circular_drop", "consistency", "hit_rate"):
            assert verdicts(again, metric) == verdicts(own, metric)
        assert [r.estimate.value for r in again.rows if r.slice] == [
            r.estimate.value for r in own.rows if r.slice
        ]
        assert read_manifest(folder).notes[2:] == ("120 rows of 40 questions",)
        again.report("r.html")
        assert "imported" in Path("r.html").read_text()


def test_a_row_is_read_against_its_own_options_whichever_way_it_was_turned() -> None:
    write(rotated(*bases(8)), Path("answers.tsv"))
    folder = import_predictions(
        hand_in(rotated(*bases(8), left=True), correct), "answers.tsv", Path("taken")
    )
    assert value(score(folder), "circular_accuracy").value == 1.0
    # A benchmark of base rows knows no rotations: the options of the row tell its order.
    sn.build(write(bases(8), Path("plain.tsv")), to="plain")
    for left in (True, False):
        folder = import_predictions(
            hand_in(rotated(*bases(8), left=left), correct), "./plain", Path(f"plain-{left}")
        )
        assert value(score(folder), "circular_accuracy").value == 1.0


def test_base_rows_alone_give_vanilla_accuracy_and_say_that_there_is_no_circular_one() -> None:
    write(rotated(*bases(8)), Path("answers.tsv"))
    folder = import_predictions(hand_in(bases(8), correct), "answers.tsv", Path("taken"))
    results = score(folder)
    assert value(results, "accuracy").value == 1.0
    assert not [row for row in results.rows if "circular" in row.metric]
    assert (
        "base rows only: this is VanillaEval; circular accuracy needs a row for each rotation"
        in read_manifest(folder).notes
    )


def test_a_file_with_all_rotations_is_headed_by_circular_accuracy_with_accuracy_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # 8 questions of 4 options, turned 4 times. Of questions 1 and 2, one turned row is wrong: 6 of 8 questions are right
    # in every order, and all 8 in the first.
    wrong = {str(MILLION + 1), str(MILLION + 2)}

    def reply(cells: Cells) -> str:
        return (
            "ABCD".replace(cells["answer"], "")[0] if cells["index"] in wrong else cells["answer"]
        )

    hand_in(rotated(*bases(8)), reply)
    _, shown, _ = small.command(capsys, "score", "p.tsv")
    assert "p scores 75.0% in circular accuracy" in shown
    _, _, side = shown.partition("model")
    assert "accuracy" in side.splitlines()[0] and "circular" not in side.splitlines()[0]
    assert "100.0%" in side

    hand_in(bases(8), correct, name="base.tsv")
    _, shown, _ = small.command(capsys, "score", "base.tsv")
    assert "base answers 100.0% of the questions correctly" in shown


def notes_of(rows: list[Cells], reply: Reply = correct) -> tuple[Results, list[str]]:
    """Results and notes of predictions that do not fit eight questions of four options well."""
    write(rotated(*bases(8)), Path("answers.tsv"))
    folder = import_predictions(hand_in(rows, reply), "answers.tsv", Path("taken"))
    return score(folder), list(read_manifest(folder).notes[2:])


def test_every_row_that_does_not_fit_is_counted_by_name_and_never_scored() -> None:
    good = rotated(*bases(8))
    wrong = [
        {**row(99), "index": "99"},
        {**good[0], "index": ""},
        {**good[1], "A": "horse"},
        {**good[2], "E": "a fifth"},
        good[3],
    ]
    kept = [cells for cells in good if cells not in (good[1], good[2])]
    with pytest.raises(
        DataError, match=r"say different things: 5 \(line 4: 'B'\), .*keep the one that counts"
    ):
        notes_of([*kept, {**good[4], "answer": "other"}])
    with pytest.raises(DataError, match="only 2 of 32 rows fit answers"):
        notes_of([*good[:2], *[{**cells, "A": "horse"} for cells in good[2:]]])
    results, notes = notes_of([*kept, *wrong])
    assert notes == [
        "rows left out, with an id that is not among the questions: 1 (99)",
        "rows joined by the text of their question, as no id is theirs: 1 (line 33)",
        "rows left out, with other options than their question has: 2 (2, 3)",
        "rows that are there twice, counted once: 2 (line 33, 4)",
        "30 rows of 8 questions",
        "questions that lack rotations, and so are not right under CircularEval: 2 (2: 1 of 4, 3: 1 of 4)",
    ]
    circular = value(results, "circular_accuracy")
    assert (circular.value, circular.n, circular.absent) == (0.75, 8, 2)
    assert value(results, "circular_accuracy_of_answered").value == 1.0
    accuracy = value(results, "accuracy")
    assert (accuracy.value, accuracy.n) == (0.75, 8)


def test_a_request_that_failed_in_a_table_counts_as_it_was_answered_later() -> None:
    rows = rotated(*bases(8))
    again = [{**cells, "answer": "Failed to obtain answer via API."} for cells in rows[:5]]
    results, notes = notes_of([*again, *rows])
    assert (
        "rows whose request failed and was asked again, counted as it was answered: 5 (1, 2, 3, ...)"
        in notes
    )
    assert value(results, "circular_accuracy").value == 1.0


def test_half_a_group_and_missing_questions_are_errors_and_not_right() -> None:
    rows = [
        cells
        for cells in rotated(*bases(8))
        if cells["index"] not in ("3000001", "2000001") and base_of(cells) != "8"
    ]
    results, notes = notes_of(rows)
    assert notes[1] == "questions of 8 without any row: 1 (8)"
    assert notes[2].endswith("1 (1: 2 of 4)")
    circular = value(results, "circular_accuracy")
    assert (circular.value, circular.n, circular.absent) == (0.75, 8, 2)


def test_empty_predictions_and_the_toolkits_failures_are_counted_and_long_replies_are_read() -> (
    None
):
    def reply(cells: Cells) -> str:
        said = {
            "1": " ",
            "2": "Failed to obtain answer via API.",
            "3": "I think so. " * 3_500 + "The answer is C.",
        }
        return said.get(cells["index"], cells["answer"])

    results, notes = notes_of(rotated(*bases(8)), reply)
    assert notes[0] == "replies that never came, which count as not right: 2 (1, 2)"
    accuracy = value(results, "accuracy")
    assert (accuracy.value, accuracy.n, accuracy.absent, accuracy.errors) == (0.625, 8, 2, 0)
    [long] = [
        p
        for p in results.runs[0].benchmarks[0].predictions
        if p.sample_id == "3" and p.variant.test == 0
    ]
    assert long.choice == 2


def test_published_quirks_are_scored_by_the_labels_as_they_were_shown() -> None:
    """As in LLaVA-1.5-13B's upload of MMBench-dev: three rotations that leave D in its place, and an option twice."""

    def shown(index: int, options: str, answer: str, reply: str) -> Cells:
        texts = {"l": "left", "r": "right", "b": "both", "n": "none"}
        cells = {letter: texts[option] for letter, option in zip("ABCD", options, strict=True)}
        return {
            "index": str(index),
            "question": f"Q{index % 10**6}?",
            **cells,
            "prediction": reply,
            "answer": answer,
        }

    rows = [
        shown(1, "lrbn", "A", "A"),
        shown(1_000_001, "blrn", "B", "B"),
        shown(2_000_001, "rbln", "C", "C"),
        shown(2, "lrln", "B", "B"),
        shown(1_000_002, "llrn", "C", "C"),
        shown(2_000_002, "rlln", "A", "A"),
        # The other "left" than the right one: wrong by its label, in the first pass and in the last.
        shown(3, "lrlb", "C", "A"),
        shown(1_000_003, "blrl", "D", "D"),
        shown(2_000_003, "lblr", "A", "A"),
        shown(3_000_003, "rlbl", "B", "D"),
        # A pass is wrong, and one is missing.
        shown(4, "lrbn", "A", "A"),
        shown(1_000_004, "nlrb", "B", "A"),
        shown(2_000_004, "bnlr", "C", "C"),
        shown(3_000_004, "rbnl", "D", "D"),
        shown(5, "lrbn", "A", "A"),
        shown(1_000_005, "nlrb", "B", "B"),
        shown(2_000_005, "bnlr", "C", "C"),
    ]
    write_text_table(Path("upload.xlsx"), tuple(rows[0]), rows)
    folder = import_run("upload.xlsx")
    results = score(folder)
    assert {name: value(results, name).value for name in ("accuracy", "circular_accuracy")} == {
        "accuracy": 0.8,
        "circular_accuracy": 0.4,
    }
    assert value(results, "circular_accuracy").n == 5
    assert (
        "lack rotations, and so are not right under CircularEval: 1 (5: 1 of 4)"
        in read_manifest(folder).notes[-1]
    )


def test_options_that_a_spreadsheet_has_emptied_or_retyped_are_still_those_options(
    tmp_path: Path,
) -> None:
    rows = rotated(row(1, ("NA", "5.0", "cat", "None"), 0))
    write(rows, Path("answers.tsv"))
    book = openpyxl.Workbook()
    book.active.append(["index", "A", "B", "C", "D", "prediction"])
    spoilt = {"NA": None, "None": None, "5.0": 5.0}
    for cells in rows:
        shown = [spoilt.get(cells[letter], cells[letter]) for letter in "ABCD"]
        book.active.append([float(cells["index"]), *shown, cells["answer"]])
    book.save("p.xlsx")
    folder = import_predictions(Path("p.xlsx"), "answers.tsv")
    assert (
        "rows with an option that a spreadsheet has emptied (NA, None, ...): 4 (1, 1000001, 2000001, ...)"
        in (read_manifest(folder).notes)
    )
    assert value(score(folder), "circular_accuracy").value == 1.0


def test_a_formula_is_a_reply_like_any_other(tmp_path: Path) -> None:
    write(bases(1), Path("answers.tsv"))
    book = openpyxl.Workbook()
    for cells in (["index", "prediction"], [1, "=dog"]):
        book.active.append(cells)
    book.save("p.xlsx")
    folder = import_predictions(Path("p.xlsx"), "answers.tsv")
    assert "cells with formulas, read as text: 1" in read_manifest(folder).notes
    assert value(score(folder), "accuracy").value == 1.0


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (
            ("index", "answer"),
            "there is no column prediction",
        ),
        (("prediction", "A"), "there is no column index"),
    ],
)
def test_a_file_without_its_columns_is_refused(header: tuple[str, ...], fault: str) -> None:
    write(rotated(*bases(2)), Path("answers.tsv"))
    write_text_table(Path("p.tsv"), header, [dict.fromkeys(header, "1")])
    with pytest.raises(DataError, match=fault):
        import_predictions(Path("p.tsv"), "answers.tsv")


def test_other_files_are_refused_in_a_line_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = rotated(*bases(2))
    write(rows, Path("answers.tsv"))
    foreign = [{**cells, "index": f"9{cells['index']}", "question": "Another?"} for cells in rows]
    hand_in(foreign, correct, "foreign.tsv")
    hand_in(rows, correct, "p.tsv")
    write([{"index": "1", "answer": "A"}], Path("letters.tsv"))
    write([{**cells, "answer": "F"} for cells in rows], Path("bad.tsv"))
    for words, fault in (
        (["foreign.tsv", "--benchmark", "answers.tsv"], "no row fits answers (rows left out"),
        (["letters.tsv"], "its answers may be replies or right answers"),
        (
            ["p.tsv", "--benchmark", "letters.tsv"],
            "no column has the ids of the table of right answers, such as '1'",
        ),
        (["p.tsv", "--benchmark", "bad.tsv"], "the answer 'F' is not one of the letters A-D"),
        (["p.tsv", "--benchmark", "gone.tsv"], "gone.tsv: no such file"),
        (
            ["p.tsv", "--benchmark", "mmbench"],
            "is not on this machine, and HF_HUB_OFFLINE is set",
        ),
        (
            ["runs", "--benchmark", "answers.tsv"],
            "--benchmark, --as, --column and --answer-is apply to files of predictions",
        ),
        (
            ["p.tsv", "p.tsv", "--to", "x", "--benchmark", "answers.tsv"],
            "for one file of predictions",
        ),
    ):
        code, _, err = small.command(capsys, "score", *words)
        assert (code, fault in err) == (2, True), (words, err)


def test_the_same_file_is_the_same_run_and_another_one_does_not_take_its_place() -> None:
    rows = rotated(*bases(2))
    write(rows, Path("answers.tsv"))
    first = import_predictions(hand_in(rows, correct), "answers.tsv")
    journal = (first / "journal-0.jsonl").read_bytes()
    assert import_predictions(Path("p.tsv"), "answers.tsv") == first
    assert (first / "journal-0.jsonl").read_bytes() == journal
    hand_in(rows, lambda cells: "A")
    assert import_predictions(Path("p.tsv"), "answers.tsv") != first
    with pytest.raises(StoreError, match="contains another run"):
        import_predictions(Path("p.tsv"), "answers.tsv", first)


# --- the same questions ------------------------------------------------------------------------------------------


def refusing(every: int) -> Reply:
    refusal = "I'm sorry, but I cannot help with that."
    return lambda cells: refusal if int(base_of(cells)) % every == 0 else correct(cells)


def taken(name: str, reply: Reply, count: int = 12) -> Path:
    return import_predictions(
        hand_in(rotated(*bases(count)), reply, f"{name}.tsv"), "./mine", Path(f"runs/{name}"), name
    )


def test_models_are_compared_on_the_questions_that_all_of_them_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sn.build(write(rotated(*bases(12)), Path("mine.tsv")), to="mine")
    folders = [
        taken("shy", refusing(4)),
        taken("a", lambda cells: "A"),
        taken("shyer", refusing(6)),
    ]
    results = Results([run for one in folders for run in score(one).runs]).only(
        common_answered=True
    )
    ids = [set(run.benchmarks[0].samples) for run in results.runs]
    # 4, 8, 12 were refused by the first, 6 and 12 by the third.
    assert ids == [{"1", "2", "3", "5", "7", "9", "10", "11"}] * 3
    assert {(one.sample_id, one.reason) for one in results.runs[0].left_out_questions or ()} == {
        ("4", "refused"),
        ("8", "refused"),
        ("12", "refused"),
        ("6", None),
    }
    assert {
        row.estimate.n for row in results.rows if row.metric == "accuracy" and not row.slice
    } == {8}
    assert results.value("accuracy", benchmark="mine", model="shy") == 1.0
    assert results.value("accuracy", benchmark="mine", model="a") == 0.0
    results.report("c.md")
    text = Path("c.md").read_text()
    assert "| shyer | 12 | 10 | refused 2 | 8 |" in text
    assert "| mine | 12 | shy: refused; shyer: refused |" in text
    assert "| mine | shy - a | 100.0% | 0.0% | 100.0 points [20.8, 100.0] n=8" in text
    words = ("--common-answered", "--where", "l1 == 'reasoning'", "-o", "c.html")
    assert small.command(capsys, "report", *map(str, folders), *words)[0] == 0
    assert "Questions left out" in Path("c.html").read_text()


def test_fewer_questions_are_chosen_by_tag_and_wrong_names_are_refused() -> None:
    sn.build(write(rotated(*bases(12)), Path("mine.tsv")), to="mine")
    results = score(taken("shy", refusing(4)))
    part = results.only(where="l1 == 'reasoning'")
    kept = [
        s.id for s in results.runs[0].benchmarks[0].samples.values() if s.tags["l1"] == "reasoning"
    ]
    assert set(part.runs[0].benchmarks[0].samples) == set(kept)
    assert value(part, "accuracy").n + value(part, "accuracy").unscored == len(kept) == 4
    assert part.runs[0].manifest.notes[-1].startswith("only questions where l1 == 'reasoning': ")
    with pytest.raises(DataError, match="unknown fact 'l7'"):
        results.only(where="l7 == 'x'")
    with pytest.raises(DataError, match="no question of"):
        results.only(where="l1 == 'nothing'")


def test_runs_on_other_questions_are_not_compared() -> None:
    sn.build(write(rotated(*bases(12)), Path("mine.tsv")), to="mine")
    one = score(taken("one", correct))
    sn.build(write(rotated(*bases(11)), Path("mine.tsv")), to="mine")
    other = score(
        import_predictions(hand_in(rotated(*bases(11)), correct), "./mine", Path("runs/other"))
    )
    with pytest.raises(DataError, match="used different builds of mine"):
        Results([*one.runs, *other.runs]).only(common_answered=True)
    nobody = [
        score(taken(name, lambda cells: "I cannot help with that, sorry.", 11))
        for name in ("x", "y")
    ]
    with pytest.raises(DataError, match="no question was answered by all of the runs"):
        Results([run for results in nobody for run in results.runs]).only(common_answered=True)
