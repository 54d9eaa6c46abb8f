"""Ratings by people: agreement and intervals against second programs, sheets in and out, blinded forms."""

from __future__ import annotations

import json
import random
import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mini_ehub
import small
import snellen as sn
from snellen.analysis.quantiles import student_t
from snellen.cli import main
from snellen.errors import DataError, StoreError
from snellen.models.embedded import Scripted
from snellen.report.reported_runs import prepare_reported_runs
from snellen.scoring.kept_scoring import is_scored_whole, load_scoring
from snellen.scoring.rating_study import (
    RatingDimension,
    RatingStudy,
)
from snellen.scoring.run_ratings import RATINGS, RunRatings
from snellen_lab.analyses.run_measures import capabilities
from snellen_lab.ratings.form import CHECK, FORM_FILE, make_form, replies_of
from snellen_lab.ratings.gathering import gather, give_ratings, read_gathered
from snellen_lab.ratings.rater_statistics import alpha_estimate, crossed_mean
from snellen_lab.ratings.sheets import (
    KEY,
    KeyItem,
    RaterSheet,
    RatingKey,
    column_of,
    published_key,
    read_key,
    read_sheets,
    write_key,
    write_questionnaire,
)
from snellen_lab.ratings.summary import summarise_ratings

EHUB = "lvlm-ehub-embodied"
SCALE = (1.0, 5.0)
UNITS = st.lists(st.lists(st.integers(1, 5), max_size=5), min_size=1, max_size=20)
STUDY = """
name = "captions"
title = "Captions"
overall = [{ name = "both", dimensions = ["fit", "waste"] }]

[[dimensions]]
name = "fit"
title = "Fit"

[[dimensions]]
name = "waste"
title = "Waste of words"
better = "lower"
"""


@pytest.fixture
def study(tmp_path: Path) -> RatingStudy:
    file = tmp_path / "captions.toml"
    file.write_text(STUDY)
    return RatingStudy.find(str(file))


def key_of(study: RatingStudy, models: int = 2, scenes: int = 3, checks: int = 0) -> RatingKey:
    pairs = list(product(range(scenes), range(models)))
    items = [KeyItem(n, f"m{model}", f"s{scene}") for n, (scene, model) in enumerate(pairs, 1)]
    wanted = {dimension.name: 2 for dimension in study.dimensions}
    items += [KeyItem(len(items) + 1 + n, "", "s0", wanted) for n in range(checks)]
    return RatingKey(study, tuple(items))


def rated(rater: str, key: RatingKey, *values: int) -> RaterSheet:
    """One value an item on every dimension."""
    names = [dimension.name for dimension in key.study.dimensions]
    return RaterSheet(rater, {n: dict.fromkeys(names, value) for n, value in enumerate(values, 1)})


# --- agreement and intervals -------------------------------------------------------------------------------------


@given(UNITS)
def test_interval_alpha_is_that_of_evalica(units: list[list[int]]) -> None:
    evalica = pytest.importorskip("evalica", reason="waits for evalica")
    pandas = pytest.importorskip("pandas", reason="waits for pandas")
    ours = alpha_estimate(units, random.Random(0)).value
    if ours is None:
        assert len({value for unit in units if len(unit) > 1 for value in unit}) <= 1
        return
    # Each unit is a column, filled up with missing ratings.
    columns = [pandas.Series(unit, dtype=float) for unit in units]
    theirs = evalica.alpha(pandas.concat(columns, axis=1), distance="interval").alpha
    assert ours == pytest.approx(theirs, abs=1e-9)


def test_interval_alpha_is_that_of_krippendorff_s_own_example() -> None:
    """Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", example C, interval: 0.849."""
    rows = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    units = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    estimate = alpha_estimate(units, random.Random(0))
    assert estimate.value == pytest.approx(0.849, abs=5e-4)
    assert estimate.n == 40 and estimate.groups == 11
    assert estimate.low is not None and estimate.high is not None
    assert estimate.low < 0.849 < estimate.high <= 1


def test_alpha_has_no_value_where_all_say_the_same_and_no_interval_for_one_item() -> None:
    assert alpha_estimate([[3, 3], [3, 3]], random.Random(0)).value is None
    one = alpha_estimate([[1, 2, 4]], random.Random(0))
    assert one.value is not None and (one.low, one.high) == (None, None)


def test_the_variance_of_a_crossed_mean_is_that_of_the_three_clusterings() -> None:
    values = np.array([[1, 4, 3, 2], [2, 5, 3, 3], [1, 3, 4, 2]], float)
    parts = (values - values.mean()) / values.size
    raters, items = values.shape
    by_rater = raters / (raters - 1) * (parts.sum(1) ** 2).sum()
    by_item = items / (items - 1) * (parts.sum(0) ** 2).sum()
    cells = values.size / (values.size - 1) * (parts**2).sum()
    assert by_rater + by_item - cells > max(by_rater, by_item) * 0.5
    expected = max(by_rater + by_item - cells, by_rater, by_item)
    places = list(product(range(raters), range(items)))
    estimate = crossed_mean(
        values.ravel(), [r for r, _ in places], [i for _, i in places], (-np.inf, np.inf), 2
    )
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.stderr == pytest.approx(np.sqrt(expected))
    assert estimate.high == pytest.approx(values.mean() + student_t(2) * np.sqrt(expected))
    assert (estimate.n, estimate.unscored, estimate.groups) == (12, 2, 3)


def test_intervals_of_crossed_means_hold_the_true_mean_as_often_as_they_say() -> None:
    """15 raters with habits of their own and 6 items of their own difficulty, as in the published study."""
    rng = np.random.default_rng(7)
    places = list(product(range(15), range(6)))
    raters, items = [r for r, _ in places], [i for _, i in places]
    held = 0
    for _ in range(300):
        values = (
            3
            + rng.normal(0, 0.4, (15, 1))
            + rng.normal(0, 0.5, (1, 6))
            + rng.normal(0, 0.7, (15, 6))
        )
        estimate = crossed_mean(values.ravel().tolist(), raters, items, (-np.inf, np.inf))
        held += estimate.low <= 3 <= estimate.high  # type: ignore[operator]
    assert 0.92 <= held / 300 <= 0.995


def test_a_single_rater_or_item_has_no_interval() -> None:
    assert crossed_mean([1, 2], ["a", "a"], [1, 2], SCALE).low is None
    assert crossed_mean([1, 2], ["a", "b"], [1, 1], SCALE).low is None
    assert crossed_mean([], [], [], SCALE).value is None
    same = crossed_mean([5, 5, 5, 5], ["a", "a", "b", "b"], [1, 2, 1, 2], SCALE)
    assert same.value == same.high == 5 and same.low is not None and 1 < same.low < 5


# --- what ratings come to ----------------------------------------------------------------------------------------


def test_where_low_is_good_a_value_counts_turned_and_the_overall_is_over_turned_values(
    study: RatingStudy,
) -> None:
    key = key_of(study)
    sheets = [
        RaterSheet(name, {n: {"fit": 4, "waste": 1} for n in range(1, 7)}) for name in ("a", "b")
    ]
    for row in summarise_ratings(key, sheets).models:
        assert {name: mean.value for name, mean in row.means.items()} == {
            "fit": 4,
            "waste": 5,
            "both": 4.5,
        }


def test_a_missing_rating_is_counted_and_leaves_the_cell_out_of_the_overall_alone(
    study: RatingStudy,
) -> None:
    key = key_of(study)
    one = rated("a", key, 1, 1, 1, 1, 1, 1)
    other = RaterSheet("b", {**rated("b", key, 5, 5, 5, 5, 5, 5).ratings, 1: {"fit": 3}})
    summary = summarise_ratings(key, [one, other])
    means = summary.models[0].means
    assert (means["fit"].value, means["fit"].n, means["fit"].unscored) == ((3 + 3 + 10) / 6, 6, 0)
    assert (means["both"].n, means["both"].unscored) == (5, 1)
    assert [row.missing for row in summary.dimensions] == [0, 1]
    assert [check.missing for check in summary.raters] == [0, 1]


def test_z_scores_take_a_rater_s_level_and_spread_away(study: RatingStudy) -> None:
    key = key_of(study)
    mild, strict = rated("mild", key, 5, 3, 5, 3, 5, 3), rated("strict", key, 2, 1, 2, 1, 2, 1)
    first, second = summarise_ratings(key, [mild, strict]).models
    z = 1 / np.std([1, 2] * 3, ddof=1) / 2
    assert first.standardised["fit"].value == pytest.approx(z)
    assert second.standardised["fit"].value == pytest.approx(-z)
    assert first.standardised["fit"].stderr == pytest.approx(0, abs=1e-9)
    same = (
        summarise_ratings(key, [rated("flat", key, 3, 3, 3, 3, 3, 3)]).models[0].standardised["fit"]
    )
    assert (same.value, same.unscored) == (None, 3)


def test_raters_are_flagged_for_one_value_in_more_than_half_of_the_cells_and_for_failed_checks(
    study: RatingStudy,
) -> None:
    key = key_of(study, checks=2)
    half = rated("half", key, 3, 3, 3, 1, 2, 4, 2, 2)
    most = rated("most", key, 3, 3, 3, 3, 2, 4, 2, 2)
    careless = RaterSheet(
        "careless",
        {**rated("careless", key, 1, 2, 3, 4, 5, 1, 2).ratings, 8: {"fit": 2, "waste": 3}},
    )
    summary = summarise_ratings(key, [half, most, careless])
    assert [check.flags for check in summary.raters] == [
        (),
        ("3 in more than half of the cells",),
        ("failed a check",),
    ]
    assert [(check.checks, check.failed) for check in summary.raters] == [(2, 0), (2, 0), (2, 1)]
    assert all(row.missing == 0 and row.alpha.n == 18 for row in summary.dimensions)
    without = summarise_ratings(key, [half, most, careless], without_flagged=True)
    assert without.left_out_raters == ("most", "careless") and len(without.raters) == 3
    assert without.models[0].means["fit"].value == pytest.approx((3 + 3 + 2) / 3)


@given(st.permutations(range(4)))
def test_the_order_of_raters_changes_nothing(order: list[int]) -> None:
    study = RatingStudy("s", "S", (RatingDimension("fit", "Fit"),))
    key = key_of(study)
    sheets = [rated(f"r{n}", key, *((n + i * i) % 5 + 1 for i in range(6))) for n in range(4)]
    reordered = summarise_ratings(key, [sheets[n] for n in order])
    assert reordered.models == summarise_ratings(key, sheets).models


# --- sheets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "place"),
    [
        (
            "1、look for food in the kitchen—Object recognition accuracy(higher, better)",
            (1, "object_recognition"),
        ),
        ("48、Level of redundancy in the answer(lower, better)", (48, "redundancy")),
        ("7. Redundancy", (7, "redundancy")),
        ("12: 3. Go to the bed. spatial understanding (1 to 5)", (12, "spatial_relation")),
        ("3) executability", (3, "executability")),
        ("No", None),
        ("4. Comments", None),
        ("Redundancy", None),
    ],
)
def test_a_column_is_known_by_its_number_and_its_dimension(
    title: str, place: tuple[int, str] | None
) -> None:
    assert column_of(title, RatingStudy.find(EHUB)) == place


def published_table(path: Path, raters: int = 15) -> np.ndarray:
    """A sheet in the layout of the published one, with made-up values; all of them by rater, item and dimension."""
    study = RatingStudy.find(EHUB)
    values = np.random.default_rng(3).integers(1, 6, (raters, 48, 5))
    titles = ["No"]
    for item in range(1, 49):
        for place, dimension in enumerate(study.dimensions):
            words = f"{item}、" + ("a plan, (with) commas—" if place == 0 else "")
            titles.append(f"{words}{dimension.columns[0]}({dimension.better}, better)")
    rows = [[str(n + 1), *map(str, values[n].ravel())] for n in range(raters)]
    rows += [["Link: https://example.org/"]]
    if path.suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl", reason="waits for openpyxl")
        book = openpyxl.Workbook()
        book.active.append(titles)
        for row in rows:
            book.active.append([int(cell) if cell.isdigit() else cell for cell in row])
        book.save(path)
    else:
        quoted = [
            [f'"{cell}"' for cell in row + [""] * (241 - len(row))] for row in [titles, *rows]
        ]
        path.write_text("\n".join(",".join(row) for row in quoted), encoding="utf-8")
    return values


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
def test_a_sheet_in_the_published_layout_gives_the_means_and_alphas_of_a_second_program(
    tmp_path: Path, suffix: str
) -> None:
    package = pytest.importorskip("krippendorff", reason="waits for krippendorff")
    values = published_table(tmp_path / f"sheet{suffix}")
    gathered = gather(tmp_path / "plans", [tmp_path / f"sheet{suffix}"], RatingStudy.find(EHUB))
    assert gathered.new_raters == 15 and gathered.notes == (
        f"sheet{suffix}: rows without a rating, left out: 1",
    )
    summary = summarise_ratings(read_key(tmp_path / "plans"), gathered.sheets)
    turned = values.astype(float)
    turned[:, :, 2] = 6 - turned[:, :, 2]
    expected = turned.reshape(15, 6, 8, 5).mean((0, 1))
    found = [[row.means[d.dimension].value for d in summary.dimensions] for row in summary.models]
    assert np.allclose(np.array(found, float), expected)
    assert np.allclose(
        [row.means["overall"].value or 0 for row in summary.models], expected.mean(1)
    )
    assert np.allclose(
        [row.means["without redundancy"].value or 0 for row in summary.models],
        np.delete(expected, 2, 1).mean(1),
    )
    for place, row in enumerate(summary.dimensions):
        theirs = package.alpha(
            reliability_data=values[:, :, place], level_of_measurement="interval"
        )
        assert row.alpha.value == pytest.approx(theirs)
    assert [row.model for row in summary.models][:2] == ["BLIP2", "InstructBLIP"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".xlsx", ".jsonl"])
def test_a_sheet_that_is_written_is_read_again_as_it_was(
    tmp_path: Path, study: RatingStudy, suffix: str
) -> None:
    key = RatingKey(study, key_of(study).items, "abc")
    names = ("b", "=1+1", "'=1+1", "'b")
    sheets = [
        rated("Zoë, 2", key, 1, 2, 3, 4, 5, 1),
        *(RaterSheet(name, {2: {"waste": 3}}) for name in names),
    ]
    write_questionnaire(tmp_path / f"out{suffix}", key, sheets)
    if suffix in (".csv", ".tsv"):  # in the others it is a text, whatever it begins with
        assert not re.search(r'^"?[=+@-]', (tmp_path / f"out{suffix}").read_text(), re.MULTILINE)
    again = read_sheets(tmp_path / f"out{suffix}", key).sheets
    assert [(sheet.rater, sheet.ratings) for sheet in again] == [
        (sheet.rater, sheet.ratings) for sheet in sheets
    ]
    with pytest.raises(DataError, match="ratings for another form \\(abc, not xyz\\)"):
        read_sheets(tmp_path / f"out{suffix}", RatingKey(study, key.items, "xyz"))


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("rater,1. Fit\na,6", r"sheet.csv:2: item 1, fit: 6 is not on the scale from 1 to 5"),
        ("rater,1. Fit\na,good", "sheet.csv:2: item 1, fit: 'good' is not a whole number"),
        ("rater,1. Fit\na,3.5", "'3.5' is not a whole number"),
        ("rater,9. Fit\na,3", "there is a column for item 9, but the study has 6 items"),
        ("rater,1. Fit,1: fit\na,3,3", "the columns '1. Fit' and '1: fit' rate the same"),
        ("rater,Fit\na,3", "no column is a rating; its title begins with an item's number"),
        ("1. Fit\n3", "no column names the rater"),
        ("rater,1. Fit\n,3", "sheet.csv:2: the column 'rater' is empty"),
    ],
)
def test_a_sheet_that_cannot_be_read_says_where_and_why(
    tmp_path: Path, study: RatingStudy, table: str, fault: str
) -> None:
    (tmp_path / "sheet.csv").write_text(table)
    with pytest.raises(DataError, match=fault):
        read_sheets(tmp_path / "sheet.csv", key_of(study))


def saved(tmp_path: Path, **changes: Any) -> Path:
    content = {"form": "", "rater": "a", "order": [2, 1], "ratings": {"1": {"fit": 4}}, **changes}
    path = tmp_path / "ratings-a.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"rater": " "}, "the rater has no name"),
        ({"ratings": {"7": {"fit": 4}}}, "item 7, fit: there is no item 7; the study has 6"),
        ({"ratings": {"1": {"charm": 4}}}, "the study has no such dimension; it has fit, waste"),
        ({"ratings": {"1": {"fit": 0}}}, "0 is not on the scale"),
        ({"ratings": {"1": {"fit": "x"}}}, "not a file that a rating form saves"),
    ],
)
def test_what_no_form_saved_is_refused(
    tmp_path: Path, study: RatingStudy, changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(DataError, match=fault):
        read_sheets(saved(tmp_path, **changes), key_of(study))


def test_a_rater_counts_once_and_other_ratings_take_the_place_of_earlier_ones_only_when_told(
    tmp_path: Path, study: RatingStudy
) -> None:
    folder = tmp_path / "study"
    write_key(folder, key_of(study))
    assert gather(folder, [saved(tmp_path)]).new_raters == 1
    assert gather(folder, [saved(tmp_path)]).new_raters == 0
    changed = saved(tmp_path, ratings={"1": {"fit": 5}})
    with pytest.raises(DataError, match=r"'a' has rated already .* and differently"):
        gather(folder, [changed])
    assert read_gathered(folder)[0].ratings == {1: {"fit": 4}}
    gather(folder, [changed], replace=True)
    assert read_gathered(folder)[0].ratings == {1: {"fit": 5}}


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('name = "waste"', 'name = "fit"', "two dimensions have the same name"),
        (
            '["fit", "waste"]',
            '["fit", "charm"]',
            "the overall 'both' is a mean of charm; name some of fit, waste",
        ),
        ('title = "Captions"', 'title = "Captions"\nlowest = 5', "the scale goes from 5 to 5"),
        ('better = "lower"', 'better = "less"', "not a study of ratings"),
        ('title = "Fit"', 'titel = "Fit"', "not a study of ratings"),
    ],
)
def test_a_study_with_a_fault_says_which(tmp_path: Path, old: str, new: str, fault: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY.replace(old, new))
    with pytest.raises(DataError, match=fault):
        RatingStudy.read(file)


def test_a_study_without_a_published_sheet_has_no_key_for_one(study: RatingStudy) -> None:
    with pytest.raises(DataError, match=r"declares no \[sheet\]"):
        published_key(study)


# --- forms -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models that planned three tasks; their replies hold markup."""
    folder = tmp_path_factory.mktemp("plans")
    mini_ehub.official("minecraft", folder / "files")
    benchmark = sn.build("lvlm-ehub/minecraft", source=folder / "files", to=folder / "minecraft")
    for name in ("quokka-7b", "numbat-13b"):
        model = Scripted(
            lambda request, name=name: f"</script><b>1. Row {request.sample_id}</b> {len(name)}",
            name=name,
        )
        sn.evaluate(model, str(benchmark.folder), runs=folder, name=name)
    return [folder / "quokka-7b", folder / "numbat-13b"]


def test_a_form_names_no_model_and_the_key_says_which_model_wrote_what(
    runs: list[Path], tmp_path: Path
) -> None:
    made = make_form(runs, RatingStudy.find(EHUB), tmp_path / "study", checks=2)
    page = made.path.read_text("utf-8")
    assert not any(word in page for word in ("quokka", "numbat", "minecraft", str(runs[0].parent)))
    content = json.loads(page.partition('id="study">')[2].partition("</script>")[0])
    assert [item["number"] for item in content["items"]] == list(range(1, 9))
    by_number = {item.number: item for item in made.key.items}
    for item in content["items"]:
        behind = by_number[item["number"]]
        if behind.is_check:
            [value] = set(behind.expected.values())
            assert item["reply"] == CHECK.format(value=value)
        else:
            assert item["reply"].endswith({"quokka-7b": " 9", "numbat-13b": " 10"}[behind.model])
        assert item["task"].endswith("Make a plan.") and len(item["pictures"]) == 1
    assert sum(item.is_check for item in made.key.items) == 2 and len(content["pictures"]) == 3
    assert "<b>" not in page and "\\u003c/script\\u003e\\u003cb\\u003e1. Row" in page


def test_the_same_seed_gives_the_same_form_and_another_one_another_order(
    runs: list[Path], tmp_path: Path
) -> None:
    pages = [
        make_form(order, RatingStudy.find(EHUB), tmp_path / str(n), seed=seed).path.read_text()
        for n, (order, seed) in enumerate([(runs, 0), (runs[::-1], 0), (runs, 1)])
    ]
    assert pages[0] == pages[1] != pages[2]
    with pytest.raises(StoreError, match="contains another study; choose another folder"):
        make_form(runs, RatingStudy.find(EHUB), tmp_path / "0", seed=2)


def test_what_cannot_be_rated_is_left_out_and_said(runs: list[Path], tmp_path: Path) -> None:
    folder = str(runs[0].parent / "minecraft")

    class Failing:
        name = "failing"

        def generate(self, requests: Any, images: Any) -> list[Any]:
            from snellen.records import Failure, Response

            return [
                Response(error=Failure("model", "no"))
                if request.sample_id.startswith("0")
                else Response(text=text)
                for request, text in zip(requests, ("", "", "I am failing"), strict=True)
            ]

    sn.evaluate(Failing(), folder, runs=tmp_path, name="failing", error_budget=1)
    replies = replies_of([tmp_path / "failing"])
    assert [reply.reply for reply in replies.replies] == ["(The reply is empty.)", "I am failing"]
    assert replies.notes == (
        "failing: 1 questions without a reply, left out",
        "replies that contain the name of a model, shown unchanged: 1",
    )
    with pytest.raises(DataError, match="are both of failing; each model is rated once"):
        sn.evaluate(Failing(), folder, runs=tmp_path, name="again", error_budget=1)
        replies_of([tmp_path / "failing", tmp_path / "again"])


def test_the_commands_lead_from_runs_to_a_table(
    runs: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "captions.toml").write_text(STUDY)

    def call(*words: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["rate", *words])
        assert stop.value.code == 0
        return capsys.readouterr().out

    assert "8 items (6 replies of 2 models, 2 checks)" in call(
        "form", *map(str, runs), "--study", "captions.toml", "--to", "study"
    )
    key = read_key(tmp_path / "study")
    assert (tmp_path / "study" / FORM_FILE).exists() and (tmp_path / "study" / KEY).exists()
    for rater in ("ann", "ben"):
        values = {
            item.number: item.expected or {"fit": 5 if item.model == "quokka-7b" else 2, "waste": 1}
            for item in key.items
        }
        Path(f"{rater}.json").write_text(
            json.dumps({"form": key.form, "rater": rater, "ratings": values})
        )
    assert "2 raters added; 2 in total, 32 ratings" in call("read", "study", "ann.json", "ben.json")
    assert "2 raters, 16 columns of ratings" in call("sheet", "study", "wide.csv")
    rows = [json.loads(line) for line in call("table", "study", "--json").splitlines()]
    by_model = {row["model"]: (row["Fit"][:4], row["both"][:4]) for row in rows[:2]}
    assert by_model == {"quokka-7b": ("5.00", "5.00"), "numbat-13b": ("2.00", "3.50")}
    shown = call("table", "study")
    assert "Waste of words (6 - r)" in shown and "0 of 2" in shown and "flagged" not in shown


# --- ratings as numbers of a run -----------------------------------------------------------------------------------


def with_ratings(runs: list[Path], folder: Path, study: str = EHUB) -> RatingKey:
    """Anna and Ben rated the replies: Anna gives 4 to everything, Ben from 1 to 5."""
    key = make_form(runs, RatingStudy.find(study), folder, checks=1).key
    for rater, values in (("anna", (4, 4, 4, 4, 4)), ("ben", (5, 3, 2, 1, 2))):
        names = [dimension.name for dimension in key.study.dimensions]
        ratings = {
            item.number: item.expected or dict(zip(names, values, strict=True))
            for item in key.items
        }
        (folder / f"{rater}.json").write_text(
            json.dumps({"form": key.form, "rater": rater, "ratings": ratings})
        )
    gather(folder, [folder / "anna.json", folder / "ben.json"])
    return key


def test_ratings_given_to_a_run_are_its_numbers_and_its_capability(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sn.score(runs[0])
    assert before.value("rated_overall", benchmark="lvlm-ehub/minecraft") is None
    with_ratings(runs, tmp_path / "study")
    code, said, _ = small.command(capsys, "rate", "give", str(tmp_path / "study"), str(runs[0]))
    assert code == 0 and "3 replies, rated by 2" in said
    results = sn.score(runs[0])
    # Redundancy is low where good: 6 - 4 = 2 and 6 - 2 = 4. Anna 18 / 5, Ben 15 / 5; without it 16 / 4 and 11 / 4.
    means = {
        "rated_overall": 3.3, "rated_without_redundancy": 3.375, "rated_object_recognition": 4.5,
        "rated_spatial_relation": 3.5, "rated_redundancy": 3.0, "rated_reasonability": 2.5, "rated_executability": 3.0,
    }  # fmt: skip
    for metric, mean in means.items():
        assert results.value(metric, benchmark="lvlm-ehub/minecraft") == pytest.approx(mean)
    [capability] = [
        r for r in results.rows if (r.metric, r.dimension) == ("capability", "Embodied")
    ]
    assert capability.estimate.value == pytest.approx(3.3) and capability.unit == "from 1 to 5"
    published = sn.score(runs[0], as_published=True)
    measured = {
        m.quantity: m.value
        for m in capabilities(prepare_reported_runs(published.runs, published.rows)[0])
    }
    assert measured == {"embodied intelligence": pytest.approx(100 * (3.3 - 1) / 4)}
    # The other run was given none.
    assert sn.score(runs[1]).value("rated_overall", benchmark="lvlm-ehub/minecraft") is None


def test_ratings_that_come_after_a_scoring_are_counted_when_it_is_opened_again(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(runs[1], copy)
    sn.score(copy)
    assert is_scored_whole(copy)
    with_ratings(runs, tmp_path / "study")
    small.command(capsys, "rate", "give", str(tmp_path / "study"), str(copy))
    assert not is_scored_whole(copy)
    with pytest.raises(
        StoreError, match="has new replies or ratings since it was scored; score it again"
    ):
        load_scoring(copy)


def test_a_run_none_of_whose_replies_were_rated_is_refused_and_ratings_of_another_study_do_not_count(
    runs: list[Path], tmp_path: Path, study: RatingStudy
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(runs[0], copy)
    key = with_ratings(runs[1:], tmp_path / "study")
    with pytest.raises(
        DataError, match=r"no reply of quokka-7b was rated in .*, only those of numbat-13b"
    ):
        give_ratings(tmp_path / "study", [copy])
    of_another = RunRatings("captions", 2, {item.scene: {"overall": 5.0} for item in key.items})
    (copy / RATINGS).write_bytes(msgspec.json.encode(of_another))
    assert sn.score(copy).value("rated_overall", benchmark="lvlm-ehub/minecraft") is None
    (copy / RATINGS).write_text("{")
    with pytest.raises(StoreError, match=r"ratings.json: not the ratings of a run"):
        sn.score(copy)
