"""The catalogue: entries are facts, found by name, glob, suite or part; slips are met with a suggestion."""

from __future__ import annotations

import pytest

from snellen import registry
from snellen.catalogue import entries, select, suite_facts, suites
from snellen.catalogue.entries import parse_entry
from snellen.errors import DataError, UnknownNameError
from snellen.formats.json_files import parse_toml
from snellen.metrics.declaration import Metric, find_metric
from snellen.protocols.prompts.templates import default_templates
from snellen.suites.eyechart.reader import TASKS

ENTRY = """
name = "b"
title = "B"
formulation = "choice"
[source]
reader = "table"
"""


def names(pattern: str) -> list[str]:
    return [spec.name for spec in select(pattern)]


def test_a_name_a_glob_a_suite_and_a_part_of_a_suite_find_entries() -> None:
    whole = [f"eyechart/{task}" for task in sorted(TASKS)]
    assert names("eyechart/colour") == ["eyechart/colour"]
    assert names("eyechart") == whole
    assert names("eyechart/*") == whole
    assert names("eyechart/c*") == [
        "eyechart/caption",
        "eyechart/caption-choice",
        "eyechart/colour",
        "eyechart/count",
    ]
    assert (
        names("eyechart:spatial")
        == names("eyechart:Spatial")
        == ["eyechart/position", "eyechart/relation"]
    )
    assert names("eyechart:ocr") == ["eyechart/word"]


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("eyechart/color", "did you mean eyechart/colour"),
        ("eyechrt", "did you mean eyechart"),
        ("eyechart:spacial", "unknown part of the suite eyechart 'spacial'; did you mean spatial"),
        ("zzz", "unknown benchmark 'zzz'; sn.list_benchmarks\\(\\) shows all"),
        ("", "unknown benchmark ''"),
    ],
)
def test_an_unknown_name_is_met_with_the_nearest_ones(pattern: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        select(pattern)


NAMES_ELSEWHERE = {
    "mmbench": "MMBench_DEV_EN MMBench_DEV_CN MMBench_TEST_EN MMBench_DEV_EN_V11 CCBench mmbench_en_dev mmbench_cn_dev",
    "modern": """
        MMMU MMMU_Pro_10c MMMU_Pro_V POPE MME MMStar MathVista_MINI MathVision MathVerse_MINI OCRBench OCRBench_v2
        AI2D_TEST AI2D_TEST_NO_MASK ChartQA_TEST DocVQA_VAL InfoVQA_VAL TextVQA_VAL SEEDBench_IMG SEEDBench2_Plus
        HallusionBench RealWorldQA ScienceQA_TEST MMVet MMT-Bench_VAL BLINK MUIRBench LLaVABench GQA_TestDev_Balanced
        VStarBench CV-Bench-2D CV-Bench-3D HRBench4K HRBench8K MMVP VisuLogic LogicVista WeMath DynaMath A-OKVQA
        SimpleVQA ZEROBench CountBenchQA Video-MME MVBench MLVU_MCQ TempCompass VSI-Bench ScreenSpot_Pro EmbSpatialBench
        mmmu_val mmmu_pro_standard mmmu_pro_vision pope mme mmstar mathvista_testmini mathvision_test mathverse_testmini
        ocrbench ocrbench_v2 ai2d ai2d_no_mask chartqa docvqa_val infovqa_val textvqa_val seedbench seedbench_2_plus
        hallusion_bench_image realworldqa scienceqa_img mmvet mmt_val blink muirbench llava_in_the_wild coco2017_cap_val
        nocaps_val flickr30k_test textcaps_val gqa vqav2_val ok_vqa_val2014 vizwiz_vqa_val refcoco_bbox_rec_val
        vstar_bench cv_bench_2d hrbench4k videomme mvbench mlvu_dev egoschema_subset perceptiontest_val_mc nextqa_mc_test
        tempcompass vsibench charxiv_val_reasoning charxiv_val_descriptive screenspot_rec_test iconqa_val_choose_txt
        multidocvqa_val mia_bench mirb OmniDocBench omnidocbench
    """,
}
"""Names of datasets in VLMEvalKit and of tasks in lmms-eval, by the suite that has them here."""


@pytest.mark.parametrize(
    ("suite", "name"),
    [(suite, name) for suite, names in NAMES_ELSEWHERE.items() for name in names.split()],
)
def test_a_name_of_another_harness_is_the_same_benchmark(suite: str, name: str) -> None:
    [spec] = select(name)
    assert spec.suite == suite


def test_an_alias_leads_to_the_benchmark_that_it_names() -> None:
    assert names("MathVista_MINI") == names("mathvista_testmini") == ["modern/mathvista"]
    assert names("pope") == ["modern/pope"]
    assert names("DocVQA_TEST") == ["modern/docvqa-test"]
    assert names("pope/*") == ["pope/adversarial", "pope/popular", "pope/random"]
    # The plus distinguishes two datasets.
    assert names("refcoco_bbox_rec_val") == ["modern/refcoco"]
    assert names("refcoco+_bbox_rec_val") == ["modern/refcoco-plus-val"]
    assert names("refcoco+_bbox_rec_testA") == ["modern/refcoco-plus-testa"]
    assert names("refcoco_bbox_rec_testA") == ["modern/refcoco-testa"]


@pytest.mark.parametrize(
    ("group", "members"),
    [
        ("hrbench", "hr-bench-4k hr-bench-8k"),
        ("cv_bench", "cv-bench-2d cv-bench-3d"),
        ("video_mmmu", "video-mmmu-adaptation video-mmmu-comprehension video-mmmu-perception"),
        ("VideoMMMU", "video-mmmu-adaptation video-mmmu-comprehension video-mmmu-perception"),
        ("RefSpatial_wo_unseen", "refspatial-location refspatial-placement"),
    ],
)
def test_a_group_of_another_harness_is_all_of_its_benchmarks(group: str, members: str) -> None:
    assert names(group) == [f"modern/{member}" for member in members.split()]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MMMU_DEV_VAL", "modern/mmmu"),  # dev and val together; here it is val alone
        ("mathvision_testmini", "modern/mathvision"),
        (
            "MMBench",
            r"the suite mmbench, or one of it \(mmbench/ccbench, mmbench/dev-cn, mmbench/dev-",
        ),
    ],
)
def test_another_split_is_suggested_and_not_taken(name: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown benchmark '{name}'; did you mean {meant}"):
        select(name)


@pytest.mark.parametrize("spec", entries().values(), ids=lambda spec: spec.name)
def test_every_entry_can_be_read_asked_and_measured(spec) -> None:  # type: ignore[no-untyped-def]
    assert callable(registry.find_registered("readers", spec.source.reader))
    assert (spec.family or spec.formulation) in default_templates().families
    # Without a reference, only a judge can say how good a reply is.
    is_judged = [find_metric(metric).computed_over == "judge" for metric in spec.metrics]
    assert not any(is_judged) or spec.short in ("mia-bench", "mm-mt-bench")
    assert spec.metrics or spec.formulation != "text"
    assert spec.licence
    assert spec.title
    # Nobody has published how many questions each split of MMBench v1.1 has; other entries say why they have no count.
    assert spec.expected.samples or spec.remark or spec.name.endswith("-v11")


def test_every_dimension_of_reform_eval_and_both_formulations_are_in_the_eye_chart() -> None:
    chart = suites()["eyechart"]
    assert {spec.dimension for spec in chart} == set(suite_facts()["reform-eval"].dimensions)
    assert {spec.formulation for spec in chart} == {"choice", "text", "dialogue"}
    assert all(spec.source.embedded for spec in chart)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            ENTRY + "\nembeded = true",
            r"b.toml: source: unknown field 'embeded'; did you mean embedded\?",
        ),
        ("nmae = 'b'\n" + ENTRY, r"b.toml: unknown field 'nmae'; did you mean name\?"),
        (ENTRY.replace("choice", "riddle"), r"b.toml: Invalid enum value 'riddle'"),
        (ENTRY.replace('title = "B"', ""), "b.toml: .*missing required field `title`"),
        ("name = ", "b.toml: "),
    ],
)
def test_a_wrong_entry_is_refused_with_its_file(text: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        parse_entry(parse_toml(text, "b.toml"), "b.toml")


def test_an_entry_has_the_defaults_of_a_short_reply() -> None:
    spec = parse_entry(parse_toml(ENTRY, "b.toml"), "b.toml")
    assert (spec.split, spec.max_new_tokens, spec.suite, spec.metrics) == ("test", 30, "", ())
    assert spec.facts()["formulation"] == "choice"


@pytest.mark.parametrize(
    ("group", "name", "hint"),
    [
        ("protocols", "circlar", "unknown protocol 'circlar'; did you mean circular"),
        ("models", "opnai", "unknown model 'opnai'; did you mean openai"),
        ("readers", "tabel", "unknown reader 'tabel'; did you mean table"),
        ("instruments", "xyz", "unknown instrument 'xyz'; known: oracle"),
        ("metrics", "cidre", "unknown metric 'cidre'; did you mean cider"),
    ],
)
def test_the_registry_suggests_names(group: registry.Group, name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        registry.find_registered(group, name)


def test_every_registered_name_leads_to_something() -> None:
    groups: tuple[registry.Group, ...] = ("readers", "transforms", "protocols", "instruments")
    assert all(
        isinstance(registry.find_registered("metrics", name), Metric)
        for name in registry.names("metrics")
    )
    for group in groups:
        for name in registry.names(group):
            assert callable(registry.find_registered(group, name)), (group, name)


def test_a_name_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._NAMES, "metrics", dict(registry._NAMES["metrics"]))
    registry.register("metrics", "length", "builtins:len")
    assert registry.find_registered("metrics", "length") is len


def test_a_short_name_is_the_one_benchmark_of_that_name_or_that_of_the_suite_that_claims_it() -> (
    None
):
    assert [spec.name for spec in select("MMStar")] == ["modern/mmstar"]
    assert [spec.name for spec in select("dev_en")] == ["mmbench/dev-en"]
    assert (
        [spec.name for spec in select("MMBench_DEV_EN")]
        == ["mmbench/dev-en"]
        == [spec.name for spec in select("mmbench_en_dev")]
    )
    with pytest.raises(
        DataError, match=r"sroie is lvlm-ehub/sroie and reform-eval/sroie and .*; name one"
    ):
        select("sroie")
