"""Lists of wrong ground truths: read, applied to the answers of a benchmark, and shown without and with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import modern_tables
import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.catalogue import errata as lists
from snellen.catalogue.errata import Correction, Errata, all_errata, parse_errata
from snellen.errors import DataError
from snellen.scoring.answers import open_answers
from snellen.scoring.corrected_answers import corrected_answers

LIST = Errata(
    "modern/mmmu-pro",
    "2026-11-29",
    (
        Correction("validation_Art_1", old="no. 1", new="No. 5", source="test"),
        Correction("validation_Art_2", old="No. 7", new="No. 2", source="test"),
        Correction("validation_Art_3", old="No. 8", new="No. 9", source="test"),
        Correction("validation_Art_4", old="No. 4", new="No such option", source="test"),
        Correction("validation_Art_5", old="12", new="13", source="test"),
        Correction("validation_Art_99", old="1", new="2", source="test"),
    ),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mmmu-pro")
    source = modern_tables.write("mmmu-pro", folder / "hub")
    return build_benchmark(
        entries()["modern/mmmu-pro"].from_hub(), source=source, to=folder / "built"
    ).folder


def test_a_correction_holds_where_the_old_answer_stands(built: Path) -> None:
    benchmark = Benchmark(built)
    answers = open_answers(built)
    corrected, applied = corrected_answers(LIST, benchmark.samples(), answers)
    assert {one.correction.question[-1]: one.outcome for one in applied} == {
        "1": "corrected",
        "2": "right already",
        "3": "another answer",
        "4": "another answer",
        "5": "another answer",  # the row has options here: its answer is a letter
    }
    assert corrected["validation_Art_1", 0].options == (5,)
    assert answers["validation_Art_1", 0].options == (1,)
    assert {key: value for key, value in corrected.items() if key[0][-1] != "1"} == {
        key: value for key, value in answers.items() if key[0][-1] != "1"
    }
    assert corrected_answers(None, benchmark.samples(), answers) == (answers, ())


def test_scores_stand_without_and_with_corrections(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "oracle"
    sn.evaluate("snellen:oracle", str(built), runs=tmp_path / "runs", name="oracle", report=False)
    monkeypatch.setattr(lists, "all_errata", lambda: {LIST.benchmark: LIST})
    code, out, err = small.command(capsys, "score", str(run), "--errata", "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    [row] = [row for row in rows if "without" in row]
    # The oracle says the published answers, of which one in six is corrected.
    assert (row["corrected"], row["right already"], row["another answer"]) == ("1", "1", "3")
    assert (row["without"], row["with"], row["change"]) == ("1.0000", "0.8333", "-0.1667")
    assert "saved in" in err
    assert sn.load_run(run, "").value("accuracy") == 1.0
    # Without a name, the run is shown as it was scored last.
    assert sn.load_run(run).value("accuracy") == pytest.approx(5 / 6)

    # Scores of a version that did not record the lists are shown with the corrected ground truths, too.
    [file] = run.glob("scores/*/scoring.json")
    stored = json.loads(file.read_text())
    del stored["errata"], stored["n_corrected"]
    file.write_text(json.dumps(stored))
    golds = {sample["sample_id"]: sample["gold"] for sample in sn.load_run(run).samples}
    assert golds["validation_Art_1"] == ["No. 5"]


MINE = """
benchmark = "modern/mmmu-pro"
version = "2026-11-30"

[[corrections]]
question = "validation_Art_0"
old = "No. 0"
new = "No. 1"
source = "mine"

[[corrections]]
question = "validation_Art_1"
old = "no. 1"
new = "No. 6"
source = "mine"

[[corrections]]
question = "validation_Art_77"
old = "no. 1"
new = "No. 6"
source = "mine"
"""


def test_a_list_of_ones_own_is_used_and_kept_with_the_scores(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "oracle"
    sn.evaluate("snellen:oracle", str(built), runs=tmp_path / "runs", name="oracle", report=False)
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    code, out, err = small.command(capsys, "score", str(run), "--errata-file", str(file))
    assert code == 0, err
    # Two of six answers of the oracle are no longer right.
    assert "Scored with errata, ground truths corrected: modern/mmmu-pro 2." in out
    assert "1 of 3 corrections are of questions that were not asked (validation_Art_77)" in err

    # Shown again, the scores do not need the file.
    file.unlink()
    shown = sn.load_run(run)
    assert shown.value("accuracy") == pytest.approx(4 / 6)
    golds = {sample["sample_id"]: sample["gold"] for sample in shown.samples}
    assert golds["validation_Art_0"] == ["No. 1"] and golds["validation_Art_2"] == ["No. 2"]
    assert "2 ground truths corrected" in shown.card().to_markdown()
    with pytest.raises(DataError, match=r"mine\.toml: cannot read the list of errata"):
        sn.score(run, errata_files=[str(file)])


def test_a_list_of_ones_own_counts_where_snellens_corrects_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "all_errata", lambda: {LIST.benchmark: LIST})
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    chosen = lists.chosen_errata(True, [str(file)])[LIST.benchmark]
    new = {correction.question[-2:]: correction.new for correction in chosen.corrections}
    assert new["_1"] == "No. 6"  # LIST has No. 5
    assert new["_0"] == "No. 1" and new["_5"] == "13"
    assert lists.chosen_errata(False, []) == {}
    again = tmp_path / "again.toml"
    again.write_text(MINE)
    with pytest.raises(DataError, match=r"again\.toml: validation_Art_0 .* in another file too"):
        lists.chosen_errata(False, [str(file), str(again)])


@pytest.mark.parametrize("errata", all_errata().values(), ids=all_errata())
def test_each_list_is_of_a_benchmark_and_has_sources(errata: Errata) -> None:
    assert errata.benchmark in entries()
    assert len(errata.version) == 10 and errata.corrections


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('source = ""', "the correction of q1 has no source"),
        (
            'source = "x"\n[[corrections]]\nquestion = "q1"\nold = "c"\nnew = "d"\nsource = "x"',
            "q1 is corrected twice",
        ),
        ("", "not a list of errata .*source"),
    ],
)
def test_a_wrong_list_is_refused(wrong: str, message: str) -> None:
    text = f'benchmark = "x"\nversion = "2026-01-01"\n[[corrections]]\nquestion = "q1"\nold = "a"\nnew = "b"\n{wrong}\n'
    with pytest.raises(DataError, match=message):
        parse_errata(text, "x.toml")
