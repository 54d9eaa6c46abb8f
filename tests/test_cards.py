"""Model cards: what a model was trained on is left out of a comparison, and said."""

from __future__ import annotations

from pathlib import Path

import pytest

import small
from snellen.api import evaluate
from snellen.catalogue import select, suites
from snellen.catalogue.cards import benchmarks_seen, find_card, model_cards
from snellen.errors import DataError, UnknownNameError
from snellen.runs.finding import held_out_benchmarks
from snellen.runs.run_folder import read_manifest

D_2 = {
    "imagenet-1k", "tdiuc-sport", "tdiuc-scene", "tdiuc-color", "tdiuc-utility", "tdiuc-position", "tdiuc-detection",
    "tdiuc-counting", "textvqa", "snli-ve", "gqa", "vizwiz", "vizwiz-2", "vizwiz-4", "flickr30k", "refcoco-res",
    "ok-vqa", "vqav2", "a-okvqa", "a-okvqra", "a-okvqar", "vqa-mt", "textcaps", "coco-caption", "mscoco-itm",
    "mscoco-its",
}  # fmt: skip
"""What the paper leaves out of its zero-shot comparison (appendix D.2, with the list of the specification)."""


def test_the_cards_leave_out_what_the_paper_does_and_ocr_vqa() -> None:
    """InstructBLIP, BLIVA and Multimodal-GPT were trained on OCR-VQA (Table 8), which D.2 forgets."""
    kept = {spec.short for spec in select("reform-eval:zero-shot")}
    everything = {spec.short for spec in suites()["reform-eval"]}
    assert everything - kept == D_2 | {"ocr-vqa"}


def test_every_dimension_keeps_a_benchmark_in_the_zero_shot_part() -> None:
    assert len({spec.dimension for spec in select("reform-eval:zero-shot")}) == 8


def test_what_is_left_out_says_which_model_saw_which_data() -> None:
    [one] = benchmarks_seen(select("reform-eval/vqav2"), ["llava-1.5-7b", "minigpt-4-7b"])
    assert str(one) == "reform-eval/vqav2: llava-1.5-7b was trained on vqa-v2"


def test_a_card_is_found_by_its_name_on_the_hub_and_near_names_are_told() -> None:
    assert find_card("llava-hf/llava-1.5-7b-hf", model_cards()).title == "LLaVA-1.5 7B"
    with pytest.raises(
        UnknownNameError, match=r"unknown model card 'llava-1.5-8b'; did you mean llava-1.5-7b"
    ):
        find_card("llava-1.5-8b", model_cards())


def test_a_run_leaves_out_what_own_cards_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = small.built(small.rows(4), tmp_path / "seen", name="seen", origins=("pets",))
    fresh = small.built(small.rows(4), tmp_path / "fresh", name="fresh", origins=("other",))
    file = tmp_path / "cards.toml"
    file.write_text('[mine]\ntitle = "Mine"\ntrained_on = ["pets"]\n')
    folders = [str(seen.folder), str(fresh.folder)]
    asked = [
        "--held-out-for",
        "mine, llava-1.5-7b",
        "--cards",
        str(file),
        "--runs",
        str(tmp_path),
        "--name",
        "run",
    ]
    code, _, said = small.command(capsys, "run", "snellen:oracle", *folders, *asked)
    assert code == 0 and "skipped: seen: mine was trained on pets" in said
    assert [use.name for use in read_manifest(tmp_path / "run").benchmarks] == ["fresh"]
    assert held_out_benchmarks(folders, ["mine"], str(file)) == ("seen",)


def test_when_nothing_is_held_out_the_run_says_so(tmp_path: Path) -> None:
    seen = small.built(small.rows(4), tmp_path / "seen", name="seen", origins=("vqa-v2",))
    with pytest.raises(
        DataError, match=r"nothing remains of .*: a model was trained on the data of each of them"
    ):
        evaluate("snellen:oracle", str(seen.folder), held_out_for=["llava-1.5-7b"], runs=tmp_path)


def test_a_wrong_file_of_cards_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cards.toml").write_text("[mine]\ntrained = []\n")
    with pytest.raises(DataError, match=r"cards.toml: not a file of model cards \(.*trained"):
        model_cards(tmp_path / "cards.toml")
