"""Recipes of models: read, applied to a run, and their printed numbers compared with a real run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.catalogue import entries
from snellen.catalogue.recipes import VendorRecipe, find_recipe, packaged_recipes, parse_recipe
from snellen.errors import DataError, UnknownNameError
from snellen.experiments.vendor_recipes import apply_recipe
from snellen.metrics.declaration import find_metric
from snellen.models.model_strings import parse_spec
from snellen.runs.spec import run_spec

QWEN = "hf:Qwen/Qwen2.5-VL-7B-Instruct"
MINE = """
name = "mine"
title = "Mine"
source = "a paper, table 1"
unstated = ["top_p"]
sizes = { S = ["tiny"] }
settings = { temperature = 0.0, max_pixels = 1000 }
setting_sources = { temperature = "table 1", max_pixels = "table 1" }

[[numbers]]
benchmark = "eyechart/position"
printed = "Positions"
values = { S = 50.0 }

[[numbers]]
benchmark = "eyechart/colour"
printed = "Colours"
values = { S = 99.9 }
differs = "another chart"
"""


@pytest.mark.parametrize("recipe", packaged_recipes().values(), ids=packaged_recipes())
def test_a_recipe_prints_numbers_of_benchmarks_that_exist(recipe: VendorRecipe) -> None:
    assert recipe.numbers and recipe.source
    for number in recipe.numbers:
        spec = entries()[number.benchmark]
        assert all(
            0 <= value <= (1000 if number.scale == 1 else 100) for value in number.values.values()
        )
        rows = [row for name in spec.metrics for row in find_metric(name).names]
        assert not number.metric or number.metric in rows
    stated = set(recipe.setting_sources)
    assert not stated & set(recipe.unstated)


def test_a_family_is_found_by_the_name_of_a_model() -> None:
    assert (
        find_recipe("vendor", "Qwen/Qwen2.5-VL-72B-Instruct-AWQ").size_of(
            "Qwen/Qwen2.5-VL-72B-Instruct-AWQ"
        )
        == "72B"
    )
    with pytest.raises(DataError, match="no recipe is of the model me/mine; there are recipes of"):
        find_recipe("vendor", "me/mine")
    with pytest.raises(
        UnknownNameError, match=r"unknown recipe 'qwen2\.5'; did you mean qwen2\.5-vl"
    ):
        find_recipe("qwen2.5", "me/mine")


def test_settings_go_where_they_belong_and_what_is_given_stays() -> None:
    said: list[str] = []
    spec = run_spec({"models": [f"{QWEN}?max_pixels=50176"], "benchmarks": ["modern/refcoco"]})
    applied = apply_recipe(spec, announce=said.append)
    assert applied.size == "7B"
    assert applied.spec.question.models == (f"{QWEN}?max_pixels=50176&min_pixels=1003520",)
    [places] = applied.not_applied
    assert (
        "modern/refcoco ask for others: build them with params={'coordinates': 'pixels'}" in places
    )
    assert said[0] == "recipe qwen2.5-vl, 7B: min_pixels=1003520"


def test_a_server_is_not_told_of_pixels_and_prompts_are_all_or_none() -> None:
    spec = run_spec(
        {
            "models": ["openai:Qwen/Qwen2.5-VL-7B-Instruct@http://localhost:1/v1"],
            "benchmarks": ["modern/mmmu"],
        }
    )
    said: list[str] = []
    not_applied = apply_recipe(spec, announce=said.append).not_applied
    assert "max_pixels=12845056 is not applied: a model openai: cannot be told" in not_applied
    assert said[0] == "recipe qwen2.5-vl, 7B: none of its settings is applied"
    model = "hf:openbmb/MiniCPM-V-4"
    both = run_spec({"models": [model], "benchmarks": ["modern/mmmu", "modern/mmsi-bench"]})
    [sentence] = apply_recipe(both).not_applied
    assert (
        sentence
        == "the prompts vlmevalkit are not applied: modern/mmsi-bench declare none of that name"
    )
    one = run_spec({"models": [model], "benchmarks": ["modern/mmmu"]})
    assert apply_recipe(one).spec.question.templates == "vlmevalkit"


def test_recipes_are_listed_with_the_source_of_their_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = small.command(capsys, "list", "recipes", "--json")
    assert code == 0, err
    rows = {row["recipe"]: row for row in map(json.loads, out.splitlines())}
    assert rows.keys() == packaged_recipes().keys() and len(rows) >= 12
    qwen = rows["qwen2.5-vl"]
    assert qwen["sizes"] == "3B, 7B, 72B"
    assert qwen["sets"] == "min_pixels, max_pixels, coordinates"
    assert qwen["not stated"] == "temperature, max_new_tokens, templates, system"
    assert qwen["printed in"].startswith("QwenLM/Qwen2.5-VL (f0af299), README.md")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (('max_pixels = "table 1"', 'top_p = "x"'), "setting_sources has no source of max_pixels"),
        (
            ("{ S = 50.0 }", "{ XL = 50.0 }"),
            "Positions has a value of XL, which is none of the sizes S",
        ),
        (
            ('source = "a paper, table 1"', ""),
            "source is missing; write where the numbers are printed",
        ),
        (('title = "Mine"', ""), "not a recipe of models .*title"),
        (("{ S = 50.0 }", "{ S = nan }"), "Positions has a value that is no finite number"),
        (("max_pixels", "max_pixel"), "not a recipe of models .*max_pixel"),
        (("values", 'template = "official"\nvalues'), "not a recipe of models .*template"),
    ],
)
def test_a_wrong_recipe_is_refused(wrong: tuple[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_recipe(MINE.replace(*wrong), "mine.toml")


def test_printed_and_measured_numbers_stand_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(MINE)
    arguments = ["reproduce", "snellen:tiny", "--recipe", str(recipe), "--limit", "30"]
    code, out, err = small.command(capsys, *arguments, "--runs", str(tmp_path / "runs"), "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    # tiny is right on 20 of 30 colours and on 19 of 30 positions; what disagrees stands first.
    assert [(row["benchmark"], row["printed"], row["measured"], row["agrees"]) for row in rows] == [
        ("eyechart/colour", "99.9", "66.7", "no"),
        ("eyechart/position", "50", "63.3", "yes"),
    ]
    assert rows[0]["what differs"] == (
        "another chart; max_pixels=1000 is not applied: a model snellen: cannot be told; 30 questions at most; "
        "not stated by the vendor: top_p"
    )


ABSENT = """
[[numbers]]
benchmark = "reform-eval/vqav2"
printed = "VQAv2"
values = { S = 80.0 }
"""
ABSENT_WITH_PROMPTS = """
[[numbers]]
benchmark = "modern/mmstar"
printed = "MMStar, in a run of its own"
templates = "lmms-eval"
values = { S = 60.0 }
"""


def test_numbers_are_compared_without_the_benchmarks_that_cannot_be_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    recipe = tmp_path / "mine.toml"
    recipe.write_text(MINE + ABSENT + ABSENT_WITH_PROMPTS)
    arguments = ["reproduce", "snellen:tiny", "--recipe", str(recipe), "--limit", "30"]
    code, out, err = small.command(capsys, *arguments, "--runs", str(tmp_path / "runs"), "--json")
    rows = {row["benchmark"]: row for row in map(json.loads, out.splitlines())}
    assert rows["eyechart/colour"]["measured"] == "66.7"
    for absent in ("reform-eval/vqav2", "modern/mmstar"):
        assert rows[absent]["measured"] == rows[absent]["agrees"] == ""
        assert rows[absent]["what differs"].startswith("not run: ")
    assert code == 3 and "skipped: reform-eval/vqav2, modern/mmstar; " in err.splitlines()[-1]

    numbers = sn.reproduce(
        "snellen:tiny", recipe=str(recipe), limit=30, runs=str(tmp_path / "runs"), name="again"
    )
    absent_numbers = [number for number in numbers if number.measured is None]
    assert len(absent_numbers) == 2
    assert all(number.differs[0].startswith("not run: ") for number in absent_numbers)


def test_a_card_of_which_nothing_can_be_fetched_is_a_table_of_the_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    recipe = tmp_path / "mine.toml"
    recipe.write_text(MINE.partition("[[numbers]]")[0] + ABSENT + ABSENT_WITH_PROMPTS)
    arguments = ["reproduce", "snellen:tiny", "--recipe", str(recipe), "--json"]
    code, out, err = small.command(capsys, *arguments, "--runs", str(tmp_path / "runs"))
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["benchmark"] for row in rows] == ["reform-eval/vqav2", "modern/mmstar"]
    for row in rows:
        assert (
            row["what differs"].startswith("not run: ") and row["benchmark"] in row["what differs"]
        )
    assert code == 3 and "skipped: reform-eval/vqav2, modern/mmstar; " in err.splitlines()[-1]


def test_a_metric_of_a_card_that_the_run_does_not_have_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(MINE + 'metric = "relaxed_accuracy"\n')
    arguments = ["reproduce", "snellen:tiny", "eyechart/colour", "--recipe", str(recipe)]
    code, out, err = small.command(
        capsys, *arguments, "--limit", "3", "--runs", str(tmp_path / "runs"), "--json"
    )
    assert code == 0, err
    [row] = [json.loads(line) for line in out.splitlines()]
    assert (row["measured"], row["agrees"]) == ("", "")
    assert "the run has no row relaxed_accuracy" in row["what differs"]


def test_sizes_have_settings_of_their_own_and_the_rest_of_the_recipe() -> None:
    recipe = packaged_recipes()["qwen3-vl"]
    thinking = recipe.settings_of("235B-A22B-Thinking")
    instruct = recipe.settings_of("235B-A22B-Instruct")
    assert (thinking.temperature, instruct.temperature) == (0.6, 0.7)
    assert thinking.coordinates == instruct.coordinates == "1000"

    text = MINE + "\n[size_settings.XL]\ntemperature = 1.0\n"
    with pytest.raises(DataError, match="size_settings has XL, which is none of the sizes S"):
        parse_recipe(text, "mine.toml")
    text = MINE + "\n[size_settings.S]\ntop_p = 0.5\n"
    with pytest.raises(DataError, match="setting_sources has no source of top_p"):
        parse_recipe(text, "mine.toml")


def test_sampling_and_thinking_reach_servers_that_take_them() -> None:
    def options_of(model: str) -> tuple[dict[str, str], tuple[str, ...]]:
        spec = run_spec({"models": [model], "benchmarks": ["modern/mmstar"]})
        applied = apply_recipe(spec)
        return parse_spec(applied.spec.question.models[0]).options, applied.not_applied

    own_server, _ = options_of("openai:Qwen/Qwen3-VL-235B-A22B-Instruct@http://localhost:1/v1")
    assert json.loads(own_server["extra_body"]) == {
        "top_k": 20,
        "repetition_penalty": 1.0,
        "presence_penalty": 1.5,
    }
    here, sentences = options_of("hf:Qwen/Qwen3-VL-235B-A22B-Instruct")
    assert "extra_body" not in here
    assert (
        "top_k=20, repetition_penalty=1.0, presence_penalty=1.5 is not applied: a model hf: cannot be told"
        in sentences
    )
    glm, sentences = options_of("vllm:zai-org/GLM-4.5V")
    assert json.loads(glm["chat_template_kwargs"]) == {"enable_thinking": True}
    assert any(sentence.endswith("stated by the vendor, not applied") for sentence in sentences)


def test_a_recipe_is_a_keyword(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(MINE)
    said: list[str] = []
    sn.evaluate(
        "snellen:tiny", "eyechart/colour", recipe=str(recipe), limit=3, announce=said.append
    )
    assert said[0].startswith("recipe mine, S: temperature=0.0")
    with pytest.raises(DataError, match="a recipe is applied to a model string"):
        sn.evaluate(lambda question, images: "A", "eyechart/colour", recipe="vendor", limit=3)

    numbers = sn.reproduce("snellen:tiny", "eyechart/colour", recipe=str(recipe), limit=30)
    assert [(number.printed, number.agrees) for number in numbers] == [(99.9, False)]


def test_the_page_counts_the_numbers_of_each_recipe() -> None:
    page = Path("docs/recipes.md").read_text(encoding="utf-8")
    for name, recipe in packaged_recipes().items():
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert row.split("|")[3].strip() == str(len(recipe.numbers)), name
