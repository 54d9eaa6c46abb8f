"""Result files of LVLM-eHub's original code, in the layout in which it writes them, scored by its rules and ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mini_ehub
import snellen as sn
from snellen.errors import DataError
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(number: int, answer: str, golds: str | list[str], **fields: Any) -> dict[str, Any]:
    row = {"question": f"What is in picture {number}?", "answer": answer, "gt_answers": golds}
    return {**row, "image_path": f"/disk/sets/{number}.png", "model_name": "BLIP2", **fields}


def save(name: str, *records: dict[str, Any]) -> Path:
    path = Path("answers/BLIP2/20230615120000") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=4))
    return path


def values(path: Path, *, as_published: bool) -> dict[str, float | None]:
    results = sn.score(sn.import_run(path), as_published=as_published)
    [run] = results.runs
    assert run.manifest.model == "BLIP2"
    return {
        row.metric: row.estimate.value
        for row in results.rows
        if not row.slice and row.benchmark != "*"
    }


def right(path: Path, metric: str, *, as_published: bool) -> set[str]:
    """The questions on which a metric has its full value."""
    [one] = sn.score(sn.import_run(path), as_published=as_published).runs[0].benchmarks
    return {score.sample_id for score in one.scores if score.metric == metric and score.value == 1}


def test_questions_are_scored_by_word_matching_and_by_the_standard_rules() -> None:
    path = save(
        "GQA",
        record(1, "Yes, there is no doubt", "no"),  # the original: right
        record(2, "$5.00", "$5.00"),  # the original: wrong, since no word begins with a sign
        record(3, "a dog", "dog"),
        record(4, "a cat", "dog"),
    )
    assert right(path, "legacy_vqa_match", as_published=True) == {"row 1", "row 3"}
    assert right(path, "typed_match", as_published=False) == {"row 2", "row 3"}
    assert right(path, "exact_match", as_published=False) == {"row 2"}


def test_a_data_set_s_name_says_which_rule_it_was_scored_by() -> None:
    rows = (
        record(1, "it's a Retriever, golden", ["golden retriever", "retriever"]),
        record(2, "a cat", ["dog"]),
    )
    assert values(save("ImageNet", *rows), as_published=True)["legacy_class_match"] == 50.0
    words = record(1, "STOP here", "STOP"), record(2, "stopped", "STOP")
    assert values(save("IIIT5K", *words), as_published=True)["legacy_class_match"] == 50.0
    assert values(save("IIIT5K", *words), as_published=False)["word_accuracy"] == 0.5
    fields = record(1, "ACME SDN BHD", "ACME SDN BHD"), record(2, "x", "12.50")
    kie = values(save("SROIE", *fields), as_published=True)
    assert kie["legacy_kie_word_f1"] == pytest.approx(100 * 2 * (3 / 4) ** 2 / (2 * 3 / 4))
    assert "legacy_vqa_match" in values(save("SomethingNew", *words), as_published=True)


def test_an_answer_or_a_reply_that_elsewhere_means_nothing_is_read_as_it_is() -> None:
    path = save("DocVQA", record(1, "Unknown", "Unknown"), record(2, "None", "None"))
    assert right(path, "exact_match", as_published=False) == {"row 1", "row 2"}


def test_captions_and_visdial_have_the_original_s_own_figures_beside_and_are_computed_anew() -> (
    None
):
    captions = [
        record(
            n, f"a {thing} on a table", [f"a {thing} on a table", f"one {thing}"], cider_score=9.9
        )
        for n, thing in enumerate(("cup", "dog", "pear"))
    ]
    assert (values(save("NoCaps", *captions), as_published=True)["legacy_cider"] or 0) > 100
    rounds = (
        record(1, "it is red", ["blue", "red", ""], MRR=0.5),
        record(2, "no idea", ["yes", "blue"], MRR=0.0),
    )
    path = save("Visdial", *rounds)
    assert values(path, as_published=True)["legacy_visdial_reciprocal_rank"] == 0.25
    said = read_manifest(sn.import_run(path)).notes
    assert any("candidates of a round, not its right answer" in note for note in said)
    assert "candidates that the original wrote back as empty texts, left out: 1" in said


def test_the_tiny_study_s_records_have_ids_and_are_all_scored_as_vqa() -> None:
    rows = [
        record(
            n, answer, "dog", question="The photo of the", task_type="VQA", question_id=f"{n:06d}"
        )
        for n, answer in enumerate(("A small dog.", "a hotdog"))
    ]
    path = save("CIFAR10", *rows)
    assert values(path, as_published=True)["legacy_vqa_match"] == 50.0
    [one] = sn.score(sn.import_run(path)).runs[0].benchmarks
    assert set(one.samples) == {"000000", "000001"}


def test_rows_that_ask_the_same_are_joined_by_their_pictures_and_the_benchmark_s_gold_counts() -> (
    None
):
    mini_ehub.words(Path("files"))
    benchmark = sn.build("lvlm-ehub/svtp", source="files", to="svtp")
    asked = {"question": "what is written in the image?"}
    path = save(
        "SVTP",
        record(1, "ronaldo", "RONALDO", image_path="/nvme/OCR/SVTP/test/1.png", **asked),
        record(2, "New York", "New", image_path="/nvme/OCR/SVTP/test/word 3.jpg", **asked),
        record(3, "x", "x", image_path="/nvme/OCR/SVTP/test/9.png", **asked),
    )
    run = sn.import_run(path, str(benchmark.folder))
    said = "\n".join(read_manifest(run).notes)
    assert "rows joined by the name of their image, as no id is theirs: 2" in said
    assert (
        "rows whose file has another right answer; the benchmark's counts: 1" in said
    )  # cut at its blank
    assert "questions of 4 without any row: 2" in said and "record 3" in said
    results = sn.score(run)
    row = next(
        row
        for row in results.rows
        if (row.metric, row.benchmark) == ("word_accuracy", benchmark.name)
    )
    assert (row.estimate.value, row.estimate.n, row.estimate.absent) == (0.5, 4, 2)


def test_plans_have_no_gold_and_are_joined_to_their_tasks_to_be_rated() -> None:
    mini_ehub.official("minecraft", Path("files"))
    benchmark = sn.build("lvlm-ehub/minecraft", source="files", to="minecraft")
    rows = [
        record(n, f"1. Row {n}.", "BLANK", question=sample.question)
        for n, sample in enumerate(benchmark.samples())
    ]
    path = save("Minecraft", *rows)
    with pytest.raises(DataError, match="replies without right answers; it looks like Minecraft"):
        sn.import_run(path)
    run = sn.import_run(path, str(benchmark.folder))
    exchanges = list(read_exchanges(run))
    assert read_manifest(run).model == "BLIP2"
    assert [exchange.response.text for exchange in exchanges] == [f"1. Row {n}." for n in range(3)]
    assert len({image.digest for exchange in exchanges for image in exchange.request.images}) == 3


def test_a_file_of_two_models_makes_two_runs() -> None:
    path = save("GQA", record(1, "a", "b"), record(2, "a", "b", model_name="Otter"))
    with pytest.raises(DataError, match=r"replies of 2 models; they are the runs .*Otter"):
        sn.import_run(path)


def test_the_file_of_all_figures_beside_the_result_files_is_told_to_be_none() -> None:
    path = save("result")
    path.write_text(json.dumps({"GQA": 0.43}))
    with pytest.raises(DataError, match="not a list of questions"):
        sn.import_run(path)
