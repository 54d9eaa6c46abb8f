"""Text in images: words cut out and in boxes, fields of documents, questions answered by reading."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from PIL import Image

import mini_text
import reform
from mini_text import WORDS
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import Recipe
from snellen.catalogue import BenchmarkSpec, entries
from snellen.common.drafts import Draft, Exclusion, has_word, without_exclusions
from snellen.common.images import ImageStore
from snellen.errors import DataError
from snellen.metrics.normalise import standard_normalise
from snellen.readers.key_information import POIE
from snellen.records import Sample
from snellen.scoring.answers import open_answers

READ = ("cute80", "ic15", "iiit5k", "coco-text", "wordart", "textocr")
BOXED = ("gic15", "gcoco-text", "gtextocr")
DOCUMENTS = ("funsd", "poie", "sroie")
ASKED = ("textvqa", "docvqa", "ocr-vqa")
ALL = (*READ, *BOXED, *DOCUMENTS, *ASKED)


def _made(name: str, to: Path, recipe: Recipe = reform.COMPLETE) -> Benchmark:
    return reform.made(name, mini_text.MINIATURES[name](to / "official"), to / "built", recipe)


def _by_tokens(spec: BenchmarkSpec, tokens: str) -> BenchmarkSpec:
    params = {"tokens": tokens, "mapping": spec.source.params}
    return replace(spec, source=replace(spec.source, reader="ocr-tokens", params=params))


def _golds(benchmark: Benchmark) -> dict[str, tuple[str, ...]]:
    return {sample: answer.texts for (sample, _), answer in open_answers(benchmark.folder).items()}


@pytest.mark.parametrize("name", ALL)
def test_a_benchmark_goes_through_build_run_and_score(name: str, tmp_path: Path) -> None:
    reform.holds_together(_made(name, tmp_path), tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "samples", "images", "golds"),
    [
        ("cute80", 12, 12, {"timage/002.jpg": ("7",), "timage/012.jpg": ("exit",)}),
        ("ic15", 12, 12, {"word_7.png": ("62-03",), "word_8.png": ("Café",)}),
        ("iiit5k", 12, 12, {"test/1_1.png": ("7",), "test/11_1.png": ("exit",)}),
        (
            "coco-text",
            14,
            14,
            {"1012.jpg": ("New, and",), "1013.jpg": ("two lines",), "1000.jpg": ("RONALDO",)},
        ),
        ("wordart", 12, 12, {"test_image/1.png": ("7 it",)}),
        ("textocr", 10, 10, {"img1_5": ("kills",), "img3_7": ("Café",)}),
        ("gtextocr", 9, 9, {"img2_2": ("SEACREST",)}),
        ("gcoco-text", 9, 9, {"0": ("RONALDO",), "11": ("exit",)}),
        ("gic15", 6, 6, {"img_1_1": ("7, 1",), "img_10_4": ("SEACREST",)}),
        ("funsd", 6, 2, {"80_0": ("June 5, 1988",), "81_3": ("Dr. Lee",), "80_6": ("-",)}),
        (
            "poie",
            16,
            4,
            {
                "nf0002_TF-D": ("—",),
                "nf0002_SS": ("20 g",),
                "nf0002_CE-PS": ("250kJ (12kcal)", "250kJ", "12kcal"),
            },
        ),
        ("sroie", 12, 3, {"X2_company": ("SHOP 2 SDN BHD",), "X0_total": ("0.50",)}),
        ("textvqa", 10, 5, {"34602": ("RONALDO", "x", "maybe RONALDO")}),
        ("docvqa", 11, 3, {"49153": ("line RONALDO", "RONALDO line")}),
        ("ocr-vqa", 10, 5, {"060_0": ("Ann Author 0",), "063_1": ("BEACH & Co",)}),
    ],
)
def test_golds_are_what_the_official_files_say(
    name: str, samples: int, images: int, golds: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    benchmark = _made(name, tmp_path)
    counts = benchmark.manifest.counts
    assert (counts.samples, counts.answers, counts.images) == (samples, samples, images)
    found = _golds(benchmark)
    assert {id_: found[id_] for id_ in golds} == golds


@pytest.mark.parametrize("name", ALL)
def test_the_paper_takes_a_tenth_of_what_it_selects(name: str, tmp_path: Path) -> None:
    complete = _made(name, tmp_path).manifest
    made = reform.made(name, tmp_path / "official", tmp_path / "default", Recipe()).manifest
    assert made.build_info.complete == complete.counts.samples
    assert made.counts.samples == (
        12 if name == "cute80" else max(complete.counts.samples // 10, 1)
    )
    # What was left out is said of the sampled benchmark too.
    assert made.warnings[1:] == complete.warnings[1:]


@pytest.mark.parametrize("name", (*READ, *BOXED))
def test_the_question_carries_the_task_and_is_asked_in_several_ways(
    name: str, tmp_path: Path
) -> None:
    for sample in _made(name, tmp_path).samples():
        ways = {sample.question, *sample.rewordings}
        assert len(ways) == 1 + len(sample.rewordings) >= 5
        assert all(("red" in way) == (name in BOXED) == bool(sample.regions) for way in ways)


def test_a_field_is_named_in_its_question(tmp_path: Path) -> None:
    funsd = {sample.id: sample.question for sample in _made("funsd", tmp_path).samples()}
    assert funsd["80_0"] == 'What is filled in under "DATE:"?'
    assert len(POIE) == len(set(POIE.values())) == 21
    assert POIE["TF-D"] == "What is the total fat as a percentage of the daily value on the label?"


def test_pictures_come_by_their_numbers(tmp_path: Path) -> None:
    source = entries()["reform-eval/gic15"].source
    read = registry.find_registered("readers", source.reader)
    drafts = read(source.params, mini_text.gic15(tmp_path))
    assert [draft.id for draft in drafts] == [
        "img_1_1",
        "img_1_4",
        "img_2_1",
        "img_2_4",
        "img_10_1",
        "img_10_4",
    ]


def test_what_is_left_out_is_counted_with_its_reason(tmp_path: Path) -> None:
    wordless = "no letter or digit in the answer, so any reply would match"
    unread = "the annotators could not read it"
    said = {
        "ic15": ("Challenge4_Test_Task3_GT.txt: 1 skipped: " + wordless,),
        "textocr": (
            "TextOCR_0.1_val.json: 1 skipped: " + wordless,
            "TextOCR_0.1_val.json: 1 skipped: " + unread,
        ),
        "gic15": (
            "Challenge4_Test_Task4_GT: 3 skipped: " + unread,
            "Challenge4_Test_Task4_GT: 3 skipped: the box is not larger than 1,600 square pixels",
        ),
        "gcoco-text": (
            "COCO_Text.json: 1 skipped: not English",
            "COCO_Text.json: 1 skipped: " + unread,
        ),
        "funsd": ("annotations: 4 skipped: a field that is not filled in",),
        "poie": (),
        "sroie": ("entities: 1 skipped: a second copy of a receipt",),
        "ocr-vqa": (
            "dataset.json: 5 skipped: the answer is a genre, which is judged and not read",
            "dataset.json: 5 skipped: the answer is not read in the image (yes, no, unanswerable)",
        ),
    }
    for name, notes in said.items():
        warnings = _made(name, tmp_path / name).manifest.warnings
        # One more speaks of the size of the miniature.
        assert warnings[0].startswith("samples: built")
        assert warnings[1:] == notes, name


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"area_above": 1600}, ["img_1_1", "img_1_2", "img_1_3"]),
        ({"larger_than": 40}, ["img_1_1", "img_1_3"]),
        ({"area_above": 1600, "corners": "opposite"}, ["img_1_1", "img_1_2"]),
        ({"larger_than": 40, "corners": "opposite"}, ["img_1_1"]),
    ],
)
def test_how_large_a_box_must_be_is_an_area_or_two_sides_of_one_of_two_boxes(
    settings: dict[str, object], kept: list[str], tmp_path: Path
) -> None:
    boxes = [
        "0,0,50,0,50,50,0,50,square",
        "0,0,90,0,90,20,0,20,flat",
        "60,0,90,60,60,90,30,30,tilted",
        "0,0,30,0,30,30,0,30,small",
    ]
    mini_text.gic15(tmp_path)
    folder = tmp_path / "Challenge4_Test_Task4_GT"
    for path in folder.iterdir():
        path.unlink()
    (folder / "gt_img_1.txt").write_text("\n".join(boxes))
    params = {
        "layout": "icdar",
        "annotations": [folder.name],
        "images": ["ch4_test_images"],
        "show": "box",
    }
    drafts = registry.find_registered("readers", "text-boxes")({**params, **settings}, tmp_path)
    assert [draft.id for draft in drafts] == kept


def _picture(benchmark: Benchmark, id_: str) -> tuple[Sample, Image.Image]:
    sample = next(sample for sample in benchmark.samples() if sample.id == id_)
    content = ImageStore(benchmark.folder / "images").read(sample.images[0])
    return sample, Image.open(io.BytesIO(content)).convert("RGB")


@pytest.mark.parametrize(
    ("name", "id_", "corners", "line", "size"),
    [
        # [10.5, 20.25, 50, 45] from (10, 20) to (60, 65).
        ("gtextocr", "img0_0", (10, 20, 60, 65), 2, (200, 120)),
        # [12, 9.5, 50, 41.5] from (12, 9) to (62, 51).
        ("gcoco-text", "0", (12, 9, 62, 51), 5, (200, 120)),
        # Corners (10, 12), (70, 10), (72, 60), (9, 61): from the first to the third.
        ("gic15", "img_2_1", (10, 12, 72, 60), 2, (120, 100)),
    ],
)
def test_the_box_is_red_where_the_text_is_and_as_wide_as_the_paper_says(
    name: str,
    id_: str,
    corners: tuple[int, int, int, int],
    line: int,
    size: tuple[int, int],
    tmp_path: Path,
) -> None:
    sample, picture = _picture(_made(name, tmp_path), id_)
    assert picture.size == size
    left, top, right, bottom = corners
    red = {
        (x, y)
        for x in range(size[0])
        for y in range(size[1])
        if picture.getpixel((x, y)) == (255, 0, 0)
    }
    frame = {(x, y) for x in range(left, right + 1) for y in range(top, bottom + 1)}
    inner = {
        (x, y)
        for x in range(left + line, right + 1 - line)
        for y in range(top + line, bottom + 1 - line)
    }
    assert red == frame - inner
    assert sample.regions[0].box[2:] == pytest.approx((right - left, bottom - top), abs=0.6)


def test_a_word_is_cut_out_of_its_picture(tmp_path: Path) -> None:
    official = mini_text.textocr(tmp_path / "official")
    whole = Image.new("RGB", (200, 120))
    whole.putdata([(x, y, 0) for y in range(120) for x in range(200)])
    whole.save(official / "train_images" / "img0.jpg", "PNG")
    sample, picture = _picture(reform.made("textocr", official, tmp_path), "img0_0")
    # [10.5, 20.25, 50, 45]: from the pixel (10, 20) on, up to (60, 65) and without it.
    assert picture.size == (50, 45)
    assert (picture.getpixel((0, 0)), picture.getpixel((49, 44))) == ((10, 20, 0), (59, 64, 0))
    assert sample.group == "img0"
    assert not sample.regions


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("label.txt", "".join(f"words/{n}.png\t{word} it\n" for n, word in enumerate(WORDS))),
        ("test_label.txt", "".join(f"words/{n}.png {word} it\n" for n, word in enumerate(WORDS))),
        (
            "test_label.txt",
            "".join(f'words/{n}.png, "{word} it"\n' for n, word in enumerate(WORDS)),
        ),
        (
            "test_label.jsonl",
            "".join(
                json.dumps({"filename": f"words/{n}.png", "text": f"{word} it"}) + "\n"
                for n, word in enumerate(WORDS)
            ),
        ),
        (
            "textrecog_test.json",
            json.dumps(
                {
                    "metainfo": {},
                    "data_list": [
                        {"img_path": f"words/{n}.png", "instances": [{"text": f"{word} it"}]}
                        for n, word in enumerate(WORDS)
                    ],
                }
            ),
        ),
    ],
    ids=["tab", "blank", "quoted", "jsonl", "mmocr"],
)
def test_labels_are_read_in_the_forms_that_toolkits_write(
    file: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(content, "utf-8")
    for number in range(len(WORDS)):
        reform.write_picture(tmp_path / "words" / f"{number}.png", number, (40, 24))
    golds = _golds(reform.made("wordart", tmp_path, tmp_path / "built"))
    assert golds == {f"words/{n}.png": (f"{word} it",) for n, word in enumerate(WORDS)}


def test_quotes_within_a_quoted_label_are_its_own(tmp_path: Path) -> None:
    mini_text.ic15(tmp_path)
    reform.broken(tmp_path / "Challenge4_Test_Task3_GT.txt", '"Tiredness"', r'"\"Tired\" \\ 5"')
    assert _golds(reform.made("ic15", tmp_path, tmp_path / "built"))["word_5.png"] == (
        '"Tired" \\ 5',
    )


def test_words_of_coco_text_are_cut_out_where_there_are_no_crops(tmp_path: Path) -> None:
    benchmark = reform.made(
        "coco-text", mini_text.coco_text_scenes(tmp_path / "official"), tmp_path
    )
    golds = _golds(benchmark)
    # One is illegible, one of another language, one of an image to train on.
    assert golds == {str(n): (word,) for n, word in enumerate(WORDS) if n not in (2, 3, 4)}
    assert _picture(benchmark, "0")[1].size == (50, 42)


def test_two_files_of_labels_are_not_chosen_between_in_silence(tmp_path: Path) -> None:
    mini_text.wordart(tmp_path)
    mini_text.cute80(tmp_path)
    reform.refused(
        "wordart",
        tmp_path,
        tmp_path / "built",
        "CUTE80/test_label.txt and .*WordArt.* both exist; name",
    )


def test_only_what_ocr_has_found_counts_as_read_where_that_is_asked_for(tmp_path: Path) -> None:
    for name, tokens, expected in (("textvqa", "rosetta", 8), ("docvqa", "scans", 5)):
        official = mini_text.MINIATURES[name](tmp_path / name)
        spec = entries()[f"reform-eval/{name}"]
        benchmark = build_benchmark(
            _by_tokens(spec, tokens),
            source=official,
            to=tmp_path / f"{name}-tokens",
            recipe=reform.COMPLETE,
        )
        assert benchmark.manifest.counts.samples == expected
        assert any(
            "no accepted answer among the OCR tokens" in warning
            for warning in benchmark.manifest.warnings
        )


def test_docvqa_is_found_under_its_later_names(tmp_path: Path) -> None:
    official = mini_text.docvqa(tmp_path / "first")
    later = tmp_path / "later"
    (later / "spdocvqa_qas").mkdir(parents=True)
    (official / "val" / "val_v1.0.json").rename(later / "spdocvqa_qas" / "val_v1.0_withQT.json")
    (official / "val" / "documents").rename(later / "spdocvqa_images")
    assert reform.made("docvqa", later, tmp_path).manifest.counts.samples == 11


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "fault"),
    [
        (
            "cute80",
            "CUTE80/test_label.txt",
            " SEACREST 1 SEACREST",
            "",
            r"test_label.txt:3: timage/003.jpg has no label",
        ),
        (
            "cute80",
            "CUTE80/test_label.txt",
            "timage/001.jpg",
            "timage/991.jpg",
            r"txt:1: the image timage/991.jpg is in",
        ),
        (
            "ic15",
            "Challenge4_Test_Task3_GT.txt",
            "word_4.png",
            "word_3.png",
            r"txt:4: the id 'word_3.png' is already used by .*:3; ids must be unique",
        ),
        (
            "coco-text",
            "val_words_gt.txt",
            "1001,7",
            "1001",
            r"val_words_gt.txt:2: '1001' is not ID,LABEL",
        ),
        (
            "coco-text",
            "val_words_gt.txt",
            "lines|",
            "lines",
            r"txt:15: the label '\|two lines' opens with a bar",
        ),
        (
            "wordart",
            "WordArt/test_label.txt",
            "test_image/2.png",
            "test_image/99.png",
            r"txt:3: cannot read the image",
        ),
        (
            "textocr",
            "TextOCR_0.1_val.json",
            '"image_id": "img1"',
            '"image_id": "img7"',
            r"anns\['img1_1'\]: .* no image img7",
        ),
        (
            "textocr",
            "TextOCR_0.1_val.json",
            "[10.5, 20.25,",
            "[510.5, 20.25,",
            r"anns\['img0_0'\]: the box .* no area",
        ),
        (
            "gtextocr",
            "TextOCR_0.1_val.json",
            "[10.5, 20.25,",
            "[20.25,",
            r"anns\['img0_0'\]: .*bbox",
        ),
        (
            "gcoco-text",
            "COCO_Text.json",
            '"imgs"',
            '"images"',
            r"COCO_Text.json: .*missing required field `imgs`",
        ),
        (
            "gic15",
            "Challenge4_Test_Task4_GT/gt_img_2.txt",
            "10,12,70",
            "10,12",
            r"gt_img_2.txt:1: '10,12,10.* four corners",
        ),
        (
            "funsd",
            "dataset/testing_data/annotations/81.json",
            "[[3, 4]]",
            "[[3, 44]]",
            r"81.json: form id 3: linked with 44",
        ),
        (
            "funsd",
            "dataset/testing_data/annotations/81.json",
            '"label"',
            '"lable"',
            r"81.json: .*`label`",
        ),
        (
            "poie",
            "POIE/test.txt",
            "CE-PS",
            "CE-XX",
            r"test.txt:1: unknown key 'CE-XX'; known are SS",
        ),
        ("poie", "POIE/test.txt", '"0.3 g"}}', '"0.3 g"', r"test.txt:4: "),
        (
            "sroie",
            "SROIE2019/test/entities/X1.txt",
            '"total"',
            '"sum"',
            r"X1.txt: unknown key 'sum'; known are company",
        ),
        (
            "sroie",
            "SROIE2019/test/entities/X2.txt",
            '{"company',
            "{company",
            r"X2.txt: .*is the download complete",
        ),
        (
            "textvqa",
            "TextVQA_0.5.1_val.json",
            '"answers"',
            '"replies"',
            r"data\[0\]: .*missing required field `answers`",
        ),
        (
            "docvqa",
            "val/val_v1.0.json",
            '["No"]',
            "[]",
            r"data\[4\]: answers is empty; is this the file of a split with hidden",
        ),
        (
            "ocr-vqa",
            "dataset.json",
            '"Is it?"]',
            '"Is it?", "And?"]',
            r"dataset.json: 060: 5 questions and 4 answers",
        ),
        ("ocr-vqa", "dataset.json", '"split": 3', '"split": "3"', r"dataset.json: 060: .*split"),
    ],
)
def test_a_broken_file_is_refused_with_file_and_place(
    name: str, file: str, old: str, new: str, fault: str, tmp_path: Path
) -> None:
    official = mini_text.MINIATURES[name](tmp_path / "official")
    reform.broken(official / file, old, new)
    reform.refused(name, official, tmp_path, fault)


def test_a_folder_without_the_files_is_told_which_ones_are_missing(tmp_path: Path) -> None:
    for name in ALL:
        reform.refused(
            name,
            tmp_path,
            tmp_path / "built",
            "is missing; is this the folder with the official files?",
        )
    mini_text.iiit5k(tmp_path)
    (tmp_path / "IIIT5K" / "testdata.mat").write_bytes(b"no mat file at all" * 20)
    reform.refused(
        "iiit5k", tmp_path, tmp_path / "built", "testdata.mat: .*is the download complete"
    )


def test_a_source_of_which_nothing_is_kept_is_refused(tmp_path: Path) -> None:
    (tmp_path / "label.txt").write_text("a.png\t%\nb.png\t&\n")
    reform.write_picture(tmp_path / "a.png")
    reform.refused(
        "wordart",
        tmp_path,
        tmp_path / "built",
        "label.txt: no questions could be made from this file; .*: 2 skipped: no letter",
    )


@given(
    st.lists(
        st.one_of(st.integers(0, 2).map(lambda n: Exclusion("abc"[n])), st.just(Draft("d", ()))),
        min_size=1,
    )
)
def test_whatever_is_not_kept_is_counted(items: list[Draft | Exclusion]) -> None:
    left = [item.why for item in items if isinstance(item, Exclusion)]
    if len(left) == len(items):
        with pytest.raises(DataError, match="no question"):
            list(without_exclusions(items, Path("f")))
        return
    drafts = list(without_exclusions(items, Path("f")))
    assert len(drafts) == len(items) - len(left)
    assert [note for draft in drafts[:-1] for note in draft.notes] == []
    assert drafts[-1].notes == tuple(
        f"f: {left.count(why)} skipped: {why}" for why in "abc" if why in left
    )


@given(st.text())
def test_a_gold_with_a_word_is_one_that_the_metrics_can_score(text: str) -> None:
    assert not has_word(text) or standard_normalise(text)
