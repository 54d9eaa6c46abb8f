"""Agreement with people: the statistics against other programs, labels that only grow, the form, the two cases."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from snellen.api import evaluate, score
from snellen.building.benchmark import Benchmark
from snellen.cli import main
from snellen.errors import DataError, StoreError
from snellen.extraction.grader_address import grader_address
from snellen.formats.json_files import add_lines
from snellen.models.embedded import Scripted
from snellen.runs.spec import JudgeSpec
from snellen.scoring.reply_labels import (
    LABELS_FILE,
    HumanLabel,
    read_labels,
)
from snellen.scoring.unparsed import needs_judge
from snellen_lab.agreement.hard_replies import hard_replies
from snellen_lab.agreement.krippendorff import nominal_alpha
from snellen_lab.agreement.labelled_replies import hard_items, hard_sample, import_labels
from snellen_lab.agreement.readers import agreement_study, calibrate
from snellen_lab.agreement.statistics import (
    agreement,
    bootstrap_agreement,
    cohen_kappa,
    observed_agreement,
)
from snellen_lab.cli.labels import agree_command, ask_for_labels

READING = st.one_of(st.none(), st.integers(0, 3))
PAIRS = st.lists(st.tuples(READING, READING), min_size=1, max_size=40)

# --- the statistics ----------------------------------------------------------------------------------------------


@given(PAIRS)
def test_kappa_is_scikit_learn_s(pairs: list[tuple[Any, Any]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="waits for scikit-learn")
    ours = cohen_kappa(pairs)
    if ours is None:
        assert len({value for pair in pairs for value in pair}) == 1
        return
    # It takes no None; 9 stands for it.
    first, second = ([9 if pair[side] is None else pair[side] for pair in pairs] for side in (0, 1))
    assert ours == pytest.approx(metrics.cohen_kappa_score(first, second), abs=1e-12)


@given(st.lists(st.lists(READING, min_size=0, max_size=4), min_size=1, max_size=30))
def test_alpha_is_that_of_evalica(units: list[list[Any]]) -> None:
    evalica = pytest.importorskip("evalica", reason="waits for evalica")
    pandas = pytest.importorskip("pandas", reason="waits for pandas")
    ours = nominal_alpha(units)
    if ours is None:
        assert len({value for unit in units if len(unit) > 1 for value in unit}) <= 1
        return
    # It takes no None as a value; 9 stands for it. Each unit is a column, filled up with missing ratings.
    columns = [
        pandas.Series([9 if value is None else value for value in unit], dtype=float)
        for unit in units
    ]
    theirs = evalica.alpha(pandas.concat(columns, axis=1), distance="nominal").alpha
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_alpha_is_that_of_krippendorff_s_own_example() -> None:
    """Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", example C, nominal: 0.743."""
    rows = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    units = [[row[i] for row in rows if row[i] is not None] for i in range(12)]
    assert nominal_alpha(units) == pytest.approx(0.743, abs=5e-4)


@given(PAIRS)
def test_perfect_agreement_is_one_and_none_exceeds_it(pairs: list[tuple[Any, Any]]) -> None:
    for statistic in (observed_agreement, cohen_kappa, nominal_alpha):
        value = statistic(pairs)
        assert value is None or value <= 1 + 1e-12
        same = statistic([(one, one) for one, _ in pairs])
        assert same is None or same == pytest.approx(1.0)


@given(PAIRS, st.integers(0, 3))
def test_both_sides_may_change_places(pairs: list[tuple[Any, Any]], seed: int) -> None:
    turned = [(other, one) for one, other in pairs]
    for statistic in (observed_agreement, cohen_kappa, nominal_alpha):
        assert statistic(turned) == pytest.approx(statistic(pairs))


def test_intervals_repeat_and_hold_the_share_of_known_data() -> None:
    pairs = [(0, 0)] * 70 + [(0, 1)] * 30
    groups = [str(i) for i in range(100)]
    [first] = bootstrap_agreement(pairs, groups, [observed_agreement], random.Random(1))
    assert [first] == bootstrap_agreement(pairs, groups, [observed_agreement], random.Random(1))
    assert first.value == 0.7
    # The normal interval of a share of 0.7 with n = 100 is 0.7 +- 0.09.
    assert first.low == pytest.approx(0.61, abs=0.025)
    assert first.high == pytest.approx(0.79, abs=0.025)


def test_replies_to_one_question_are_drawn_together() -> None:
    pairs = [(0, 0)] * 50 + [(0, 1)] * 50
    [alone] = bootstrap_agreement(
        pairs, [str(i) for i in range(100)], [observed_agreement], random.Random(1)
    )
    [clustered] = bootstrap_agreement(
        pairs, [str(i // 10) for i in range(100)], [observed_agreement], random.Random(1)
    )
    assert clustered.high is not None
    assert alone.high is not None
    assert clustered.high - (clustered.low or 0) > 2 * (alone.high - (alone.low or 0))


def test_the_two_cases_of_disagreement() -> None:
    pairs = [(0, 0), (None, None), (None, 1), (2, None), (0, 1), (1, 0), (2, 0)]
    found = agreement("reader", pairs, list("abcdefg"), random.Random(0))
    assert (found.case_one, found.case_two, found.n) == (2, 3, 7)
    assert found.share.value == pytest.approx(2 / 7)


# --- labels of a run ---------------------------------------------------------------------------------------------

SAYS = {0: "(A)", 1: "It says moo", 2: "maybe a purring one", 3: "", 4: "A or B", 5: "not a dog"}


@pytest.fixture
def run(questions: Benchmark, tmp_path: Path) -> Path:
    """Twelve questions over cat, dog, horse, cow; six replies twice, one of them easy, one empty."""
    model = Scripted(lambda request: SAYS[int(request.sample_id[1:]) % 6])
    evaluate(model, str(questions.folder), "vanilla", runs=tmp_path, name="run")
    return tmp_path / "run"


def test_hard_replies_are_those_that_extractors_leave_or_dispute(run: Path) -> None:
    hard = hard_sample(run, 100)
    assert {item.unparsed.reply for item in hard} == set(SAYS.values()) - {"", "(A)"}
    assert all(item.hard for item in hard)
    assert [item.id for item in hard_sample(run, 3)] == [item.id for item in hard[:3]]
    assert [item.id for item in hard_sample(run, 100, seed=1)] != [item.id for item in hard]


def keys(pressed: str) -> Any:
    waiting: Iterator[str] = iter(pressed)
    return lambda: next(waiting)


def test_one_key_labels_a_reply_and_every_label_is_a_line(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hard, path = hard_sample(run, 4), run / LABELS_FILE
    ask_for_labels(hard, path, "ann", keys("4x?u2q"))
    shown = capsys.readouterr().out
    assert hard[0].unparsed.turn.question in shown
    assert "(D) cow" in shown
    # The third press is not a key of the form; u takes the second label back; it is given anew.
    assert [json.loads(line)["label"] for line in path.read_text().splitlines()] == [
        "D",
        "X",
        None,
        "B",
    ]
    counted = {label.item: label.label for label in read_labels(path).values()}
    assert counted == {hard[0].id: "D", hard[1].id: "B"}


def test_labelling_goes_on_where_it_stopped_and_each_person_has_labels_of_their_own(
    run: Path,
) -> None:
    hard, path = hard_sample(run, 3), run / LABELS_FILE
    ask_for_labels(hard, path, "ann", keys("1q"))
    ask_for_labels(hard, path, "ann", keys("s2"))
    ask_for_labels(hard, path, "bob", keys("000"))
    labels = {(item, by): label.label for (item, by), label in read_labels(path).items()}
    assert labels == {
        (hard[0].id, "ann"): "A",
        (hard[2].id, "ann"): "B",
        (hard[0].id, "bob"): "X",
        (hard[1].id, "bob"): "X",
        (hard[2].id, "bob"): "X",
    }


def imported(run: Path, tmp_path: Path, rows: list[dict[str, Any]]) -> tuple[int, int]:
    path = tmp_path / "people.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return import_labels(path, run)


def test_labels_can_be_brought_from_a_file(run: Path, tmp_path: Path) -> None:
    [item] = [item for item in hard_items(run) if item.unparsed.prediction.sample_id == "q001"]
    rows = [
        {"sample_id": "q002", "label": "A", "by": "ann"},
        {"item": item.id, "label": "D"},
        {"sample_id": "elsewhere", "label": "A"},
    ]
    assert imported(run, tmp_path, rows) == (2, 3)
    assert {label.label for label in read_labels(run / LABELS_FILE).values()} == {"A", "D"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"sample_id": "q002", "label": "E"},
            r"people\.jsonl:1: label 'E' is not one of A, B, C, D or X",
        ),
        ({"label": "A"}, "does not name a reply"),
        ({"sample_id": "q002"}, "not a label"),
    ],
)
def test_a_wrong_label_is_refused_with_its_line(
    row: dict[str, Any], message: str, run: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        imported(run, tmp_path, [row])
    assert not (run / LABELS_FILE).exists()


def test_a_torn_line_among_the_labels_is_told(run: Path) -> None:
    (run / LABELS_FILE).write_text('{"item": "a", "label": "A"}\n{"item"')
    with pytest.raises(StoreError, match=r"labels\.jsonl:2: not a label"):
        read_labels(run / LABELS_FILE)


def test_a_label_in_the_run_that_is_no_option_is_told(run: Path) -> None:
    [item, *_] = hard_items(run)
    add_lines(run / LABELS_FILE, HumanLabel(item.id, "b"))
    with pytest.raises(
        DataError,
        match=rf"labels\.jsonl: the label 'b' of the reply {item.id} is not one of A, B, C, D",
    ):
        agreement_study(run)


def test_extractors_and_judges_are_compared_with_people(run: Path) -> None:
    truth = {
        "(A)": "A",
        "It says moo": "D",
        "maybe a purring one": "A",
        "A or B": "X",
        "not a dog": "X",
    }
    for item in hard_items(run):
        add_lines(run / LABELS_FILE, HumanLabel(item.id, truth[item.unparsed.reply]))
    right = {"It says moo": "D", "maybe a purring one": "A"}
    judge = Scripted(
        lambda request: next(
            (v for k, v in right.items() if f'<words>"{k}"</words>' in request.messages[0].text),
            "X",
        ),
        name="judge",
    )
    score(run, judge=judge)
    rows, people = agreement_study(run)
    by = {row.reader: row for row in rows}
    assert people is None
    standard, judged = by["standard"], by["judge (snellen-match-1)"]
    # Ten replies with words: (A), "A or B" and "not a dog" are read as people read them, the other two are left open.
    assert (standard.n, standard.case_one, standard.case_two) == (10, 4, 0)
    assert standard.share.value == 0.6
    unsure = [item for item in hard_items(run) if needs_judge(item.unparsed.prediction)]
    assert (judged.n, judged.share.value, judged.kappa.value) == (len(unsure), 1.0, 1.0)
    assert len(unsure) >= 6
    assert standard.share.low is not None
    assert agreement_study(run)[0] == rows
    [file] = run.glob("judge-*/judge.json")
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(StoreError, match=rf"^cannot read {file} .*; move {file.parent} away"):
        agreement_study(run)


def test_people_who_differ_are_told_and_a_tie_leaves_the_reply_out(run: Path) -> None:
    first, second = list(hard_items(run))[:2]
    for item, said in ((first, "AAB"), (second, "AB")):
        for by, label in zip("abc", said, strict=False):
            add_lines(run / LABELS_FILE, HumanLabel(item.id, label, by))
    rows, people = agreement_study(run)
    assert {row.n for row in rows} == {1}
    assert people == pytest.approx(nominal_alpha([[0, 0, 1], [0, 1]]))


def test_without_labels_it_says_what_to_do(run: Path) -> None:
    with pytest.raises(DataError, match="no reply has a label yet; run `snellen agree"):
        agreement_study(run)


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command_asks_and_then_reports(run: Path) -> None:
    done = CliRunner().invoke(
        agree_command, [str(run), "--form", "--limit", "3", "--by", "ann"], input="12x"
    )
    assert done.exit_code == 0, done.output
    assert len(read_labels(run / LABELS_FILE)) == 3


def test_the_command_reports_imported_labels(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text('{"sample_id": "q001", "label": "D"}\n{"sample_id": "q002", "label": "A"}\n')
    with pytest.raises(SystemExit, match="0"):
        main(["agree", str(run), "--labels", str(path), "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [standard] = [row for row in rows if row["reader"] == "standard"]
    assert (standard["n"], standard["case I"], standard["agreement"]) == (
        "2",
        "2",
        "0.00 [0.00, 0.00]",
    )


# --- the labelled replies that ship with the package ---------------------------------------------------------------


def knowing(wrong_about: str = "") -> Scripted:
    """A judge that gives the label of every hard reply, but for those that contain some words."""
    labels = {}
    for one in hard_replies(held_out=True):
        place = (
            one.expected
            if not wrong_about or wrong_about not in one.reply
            else 0
            if one.expected is None
            else None
        )
        labels[one.id] = "X" if place is None else "ABCDEF"[place]
    return Scripted(
        lambda request: labels.get(request.sample_id, "A"), name=f"knowing{wrong_about}"
    )


def test_a_judge_that_knows_the_labels_agrees_with_people(home: Path) -> None:
    [one] = calibrate([knowing()])
    count = len(hard_replies(held_out=True))
    assert count >= 120
    assert (one.reader, one.n, one.share.value) == ("knowing (snellen-match-1)", count, 1.0)
    assert (one.kappa.value, one.case_one, one.case_two) == (1.0, 0, 0)


def test_a_calibrated_judge_is_not_asked_twice_and_its_faults_are_told_apart(home: Path) -> None:
    lines: list[str] = []
    judge = knowing(wrong_about="glass")
    [first] = calibrate([judge], JudgeSpec(price=(1.0, 2.0)), lines.append)
    wrong = sum("glass" in one.reply for one in hard_replies(held_out=True))
    assert wrong
    assert (first.case_one, first.case_two) == (wrong, 0)
    assert first.share.low is not None and first.share.low < first.share.value < 1
    assert "about 264 calls with" in lines[0] and "at the price given" in lines[0]
    again: list[str] = []
    assert calibrate([judge], announce=again.append) == [first]
    assert again == []


def test_a_judge_without_verdicts_has_no_agreement(home: Path) -> None:
    [one] = calibrate([Scripted(lambda request: "I would say it depends.", name="talker")])
    assert (one.n, one.share.value) == (0, None)


def test_the_command_shows_a_judges_agreement(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "replies.json"
    file.write_text(json.dumps({one.id: "X" for one in hard_replies()}))
    judge = f"snellen:scripted?file={file}"
    row = json.loads(said_by(capsys, "agree", "--judge", judge, "--json")[0])
    held_out = hard_replies(held_out=True)
    none = sum(one.expected is None for one in held_out)
    assert row["n"] == str(len(held_out))
    assert row["agreement"].startswith(f"{none / len(held_out):.2f} [")
    assert row["case I"] == str(len(held_out) - none)
    assert "give a RUN to label" in said_by(capsys, "agree")[1]
    assert "does not take a RUN" in said_by(capsys, "agree", "x", "--judge", judge)[1]


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """What a command printed, and what it said beside it on one line."""
    with pytest.raises(SystemExit):
        main(list(arguments))
    said = capsys.readouterr()
    return said.out, " ".join(said.err.split())


def test_scoring_with_a_judge_says_on_request_how_far_it_agrees_with_people(
    questions: Benchmark, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(
        Scripted(lambda request: "a purring animal"),
        str(questions.folder),
        runs=tmp_path,
        name="run",
    )
    file = tmp_path / "replies.json"
    file.write_text(
        json.dumps({one.id: "X" for one in hard_replies()} | {f"q{i:03d}": "A" for i in range(20)})
    )
    flags = [
        "--judge",
        f"snellen:scripted?file={file}",
        "--judge-calibrate",
        "--judge-price",
        "0.5,1",
    ]
    _, said = said_by(capsys, "score", str(tmp_path / "run"), *flags)
    assert "agrees with people on 0." in said
    assert "of 264 labelled hard replies, kappa" in said
    assert "at the price given" in said
    assert (
        "is not IN,OUT"
        in said_by(capsys, "score", str(tmp_path / "run"), "--judge-price", "cheap")[1]
    )


def test_a_mark_is_a_key_too_and_a_wrong_key_is_said(run: Path) -> None:
    done = CliRunner().invoke(agree_command, [str(run), "--form", "--limit", "3"], input="9bxq")
    assert done.exit_code == 0, done.output
    assert "1 of 3 ('9' is not one of the keys)" in done.output
    assert "2 of 3 (previous reply: B)" in done.output
    assert "3 of 3 (previous reply: no option)" in done.output
    assert sorted(label.label or "" for label in read_labels(run / LABELS_FILE).values()) == [
        "B",
        "X",
    ]


def test_of_the_labelled_hard_replies_only_those_that_do_are_flagged() -> None:
    flagged = [one.reply for one in hard_replies() if grader_address(one.reply, one.question)]
    assert flagged == []
