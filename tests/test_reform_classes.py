"""Images of one class each: flowers, pets, CIFAR10, ImageNet-1K, disasters; and what is wrong with VizWiz's."""

from __future__ import annotations

import io
import pickle
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import reform
from snellen.building.benchmark import Benchmark
from snellen.building.recipe import Recipe
from snellen.common.images import ImageStore
from snellen.errors import DataError
from snellen.readers.classes import NEVER_OPTIONS
from snellen.reformulation.wordnet import open_wordnet
from snellen.suites.reform_eval.readers.perception import FLAW_NAMES
from snellen.suites.reform_eval.readers.perception import read_vizwiz_quality as vizwiz_quality

scipy_io = pytest.importorskip("scipy.io", reason="waits for scipy")

PETS = (("Abyssinian", 1), ("american_bulldog", 2), ("Bengal", 1), ("pug", 2), ("saint_bernard", 2))
CIFAR = "airplane automobile bird cat deer dog frog horse ship truck".split()
SYNSETS = {
    "n01440764": "tench", "n01443537": "goldfish", "n01484850": "great white shark", "n01491361": "tiger shark",
    "n02012849": "crane", "n03126707": "crane", "n02930766": "cab", "n04285008": "sports car",
}  # fmt: skip
DISASTERS = (
    "earthquake",
    "fire",
    "flood",
    "hurricane",
    "landslide",
    "other_disaster",
    "not_disaster",
)
FLAWS = ("FRM", "BLR", "DRK", "BRT", "OBS", "ROT", "OTH", "NON")


def flowers102(folder: Path) -> Path:
    """Six flowers, two images each, by folders."""
    for number in range(12):
        reform.write_picture(
            folder / f"flower_data/valid/{number // 2 * 20 + 1}/image_{number:05d}.jpg", number
        )
    return folder


def flowers102_lists(folder: Path) -> Path:
    """The authors' files: twenty images, every second one in `valid`."""
    for number in range(1, 21):
        reform.write_picture(folder / f"flowers-102/jpg/image_{number:05d}.jpg", number)
    labels = np.array([[(number - 1) % 5 * 20 + 1 for number in range(1, 21)]], dtype="u1")
    scipy_io.savemat(folder / "flowers-102/imagelabels.mat", {"labels": labels})
    lists = {
        "trnid": np.array([[1, 3]]),
        "valid": np.array([list(range(2, 21, 2))]),
        "tstid": np.array([[5]]),
    }
    scipy_io.savemat(folder / "flowers-102/setid.mat", lists)
    return folder


def pets37(folder: Path) -> Path:
    lines = ["#Image CLASS-ID SPECIES BREED ID"]
    for breed, (name, species) in enumerate(PETS, 1):
        for number in range(4):
            reform.write_picture(folder / f"images/{name}_{number}.jpg", breed * 4 + number)
            lines.append(f"{name}_{number} {breed} {species} 1")
    (folder / "annotations").mkdir()
    (folder / "annotations/test.txt").write_text("\n".join(lines) + "\n")
    return folder


def planes(number: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The bytes of image `number`: red counts columns, green counts rows, blue is the number."""
    red = np.tile(np.arange(32), 32)
    return np.concatenate([red, red.reshape(32, 32).T.ravel(), np.full(1024, number)]).astype("u1")


def cifar10(folder: Path) -> Path:
    """Thirty images, three of each class."""
    target = folder / "cifar-10-batches-py"
    target.mkdir(parents=True)
    batch = {
        "batch_label": "testing batch 1 of 1",
        "labels": [number % 10 for number in range(30)],
        "data": np.stack([planes(number) for number in range(30)]),
        "filenames": [f"domestic_{number}.png" for number in range(30)],
    }
    (target / "test_batch").write_bytes(pickle.dumps(batch, 2))
    meta = {"num_cases_per_batch": 30, "label_names": CIFAR, "num_vis": 3072}
    (target / "batches.meta").write_bytes(pickle.dumps(meta, 2))
    return folder


def cifar10_bytes(folder: Path) -> Path:
    target = folder / "cifar-10-batches-bin"
    target.mkdir(parents=True)
    records = (bytes([number % 10]) + planes(number).tobytes() for number in range(30))
    (target / "test_batch.bin").write_bytes(b"".join(records))
    (target / "batches.meta.txt").write_text("\n".join(CIFAR) + "\n\n")
    return folder


def stem(number: int) -> str:
    return f"ILSVRC2012_val_{number:08d}"


def imagenet_1k(folder: Path) -> Path:
    """Sixteen images of eight classes, a folder for each class."""
    for number in range(1, 17):
        reform.write_picture(folder / "val" / class_of(number) / f"{stem(number)}.JPEG", number)
    return folder


def class_of(number: int) -> str:
    return tuple(SYNSETS)[number * 3 % 8]


def imagenet_1k_kaggle(folder: Path) -> Path:
    for number in range(1, 17):
        reform.write_picture(folder / "ILSVRC/Data/CLS-LOC/val" / f"{stem(number)}.JPEG", number)
    rows = [
        f"{stem(n)},{class_of(n)} 12 14 30 40 {class_of(n)} 1 2 3 4 \n" for n in range(16, 0, -1)
    ]
    (folder / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + "".join(rows))
    return folder


def imagenet_1k_kit(folder: Path) -> Path:
    for number in range(1, 17):
        reform.write_picture(folder / "ILSVRC2012_img_val" / f"{stem(number)}.JPEG", number)
    data = folder / "ILSVRC2012_devkit_t12/data"
    data.mkdir(parents=True)
    numbers = {synset: place for place, synset in enumerate(reversed(SYNSETS), 1)}
    labels = [str(numbers[class_of(n)]) for n in range(1, 17)]
    (data / "ILSVRC2012_validation_ground_truth.txt").write_text("\n".join(labels) + "\n")
    rows = [(number, synset, "words", 0) for synset, number in numbers.items()] + [
        (1001, "n00001740", "entity", 9)
    ]
    kinds = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "num_children")]
    scipy_io.savemat(data / "meta.mat", {"synsets": np.array(rows, dtype=kinds).reshape(-1, 1)})
    return folder


def medic_dts(folder: Path) -> Path:
    """Three images of each disaster, five without one."""
    rows = [
        "image_id\tevent_name\timage_path\tdamage_severity\tinformative\thumanitarian\tdisaster_types"
    ]
    for number, kind in enumerate([*DISASTERS * 3, "not_disaster", "not_disaster"]):
        path = f"data/aidr/images/{number}.jpg"
        reform.write_picture(folder / "MEDIC" / path, number)
        rows.append(
            f"id {number}\tevent_{number % 2}\t{path}\tsevere\tinformative\tnot_humanitarian\t{kind}"
        )
    (folder / "MEDIC/MEDIC_test.tsv").write_text("\n".join(rows) + "\n")
    return folder


def vizwiz(folder: Path) -> Path:
    """Images on which the workers agree, of each flaw and of none, and three on which they do not."""
    votes = [
        *(
            {flaw: 4, FLAWS[(place + 1) % 6]: 2, FLAWS[(place + 2) % 6]: 1}
            for place, flaw in enumerate(FLAWS[:6])
        ),
        *({flaw: 5, "FRM": 1} for flaw in FLAWS[1:6]),
        {"NON": 5},
        {"NON": 3, "FRM": 2},
        {"NON": 4, "BLR": 1},
        {"OTH": 4},
        {"FRM": 4, "BLR": 4},
        {"FRM": 2, "NON": 1},
        {"NON": 2, "ROT": 2},
    ]
    items = []
    for number, counted in enumerate(votes):
        name = f"VizWiz_val_{number:08d}.jpg"
        reform.write_picture(folder / "val" / name, number)
        items.append(
            {"image": name, "flaws": dict.fromkeys(FLAWS, 0) | counted, "unrecognizable": 1}
        )
    reform.write_json(folder / "annotations/val.json", items)
    return folder


SOURCES: dict[str, tuple[Callable[[Path], Path], int]] = {
    "flowers102": (flowers102, 12),
    "pets37": (pets37, 20),
    "cifar10": (cifar10, 30),
    "imagenet-1k": (imagenet_1k, 16),
    "medic-dts": (medic_dts, 23),
    "vizwiz-2": (vizwiz, 13),
    "vizwiz-4": (vizwiz, 11),
}


def source_of(name: str, tmp_path: Path) -> Path:
    if name in ("cifar10", "imagenet-1k"):
        needs_wordnet()
    return SOURCES[name][0](tmp_path / "official")


def needs_wordnet() -> None:
    try:
        open_wordnet()
    except DataError as error:
        pytest.skip(f"waits for wordnet-base: {error}")


def texts(benchmark: Benchmark) -> dict[str, str]:
    """The text of each question's gold."""
    return {sample: text for (sample, _), text in reform.golds(benchmark).items()}


@pytest.mark.parametrize("name", SOURCES)
def test_a_benchmark_goes_through_build_run_and_score(name: str, tmp_path: Path) -> None:
    benchmark = reform.made(name, source_of(name, tmp_path), tmp_path)
    assert benchmark.manifest.counts.samples == benchmark.manifest.counts.images == SOURCES[name][1]
    reform.holds_together(benchmark, tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("flowers102", 12),
        ("pets37", 2),
        ("cifar10", 3),
        ("imagenet-1k", 1),
        ("medic-dts", 23),
        ("vizwiz-2", 1),
        ("vizwiz-4", 1),
    ],
)
def test_the_papers_part_is_drawn_from_it(name: str, samples: int, tmp_path: Path) -> None:
    manifest = reform.made(name, source_of(name, tmp_path), tmp_path, Recipe()).manifest
    assert (manifest.build_info.read, manifest.build_info.complete) == (SOURCES[name][1],) * 2
    assert manifest.counts.samples == samples


def test_as_many_pictures_of_each_disaster_take_part(tmp_path: Path) -> None:
    source = tmp_path / "many"
    rows = ["image_path\tdisaster_types"]
    for number in range(7 * 40):
        reform.write_picture(source / f"{number}.png", number, (8, 8))
        rows.append(f"{number}.png\t{DISASTERS[number // 40]}")
    (source / "MEDIC_test.tsv").write_text("\n".join(rows) + "\n")
    benchmark = reform.made("medic-dts", source, tmp_path, Recipe())
    assert (
        set(Counter(texts(benchmark).values()).values()) == {30}
        and benchmark.manifest.warnings == ()
    )


def test_a_flower_is_named_by_the_number_of_its_folder(tmp_path: Path) -> None:
    found = texts(reform.made("flowers102", flowers102(tmp_path / "official"), tmp_path))
    assert [found[f"image_{number:05d}"] for number in (0, 2, 10)] == [
        "pink primrose",
        "fire lily",
        "trumpet creeper",
    ]


def test_the_authors_list_of_flowers_is_read_where_there_are_no_folders(tmp_path: Path) -> None:
    found = texts(reform.made("flowers102", flowers102_lists(tmp_path / "official"), tmp_path))
    # Every second of twenty; label (n - 1) % 5 * 20 + 1.
    assert len(found) == 10
    assert [found[f"image_{n:05d}"] for n in (2, 4, 6)] == [
        "fire lily",
        "cautleya spicata",
        "pink primrose",
    ]


def test_a_pet_is_named_by_its_file(tmp_path: Path) -> None:
    benchmark = reform.made("pets37", pets37(tmp_path / "official"), tmp_path)
    found = texts(benchmark)
    assert (
        found["american_bulldog_3"] == "american bulldog" and found["Abyssinian_0"] == "Abyssinian"
    )
    assert reform.scored_tags(benchmark, "species") == {"cat": 8, "dog": 12}
    assert all(
        set(s.options) < {name.replace("_", " ") for name, _ in PETS} for s in benchmark.samples()
    )


def test_cifars_pictures_have_their_pixels(tmp_path: Path) -> None:
    benchmark = reform.made("cifar10", source_of("cifar10", tmp_path), tmp_path)
    store = ImageStore(benchmark.folder / "images")
    for sample in list(benchmark.samples())[:3]:
        content = store.read(sample.images[0])
        picture = Image.open(io.BytesIO(content))
        assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (32, 32))
        assert {picture.getpixel((x, y)) for x in (0, 9, 31) for y in (0, 5, 31)} == {
            (x, y, int(sample.id)) for x in (0, 9, 31) for y in (0, 5, 31)
        }
        assert len(content) == 3172  # 32 lines of 97 bytes, and what a PNG needs around them


def test_cifars_pickles_and_bytes_make_the_same_benchmark(tmp_path: Path) -> None:
    pickles = reform.made("cifar10", source_of("cifar10", tmp_path), tmp_path)
    others = reform.made("cifar10", cifar10_bytes(tmp_path / "bytes"), tmp_path / "other")
    assert pickles.manifest.version == others.manifest.version


def test_cifars_distractors_are_related_words_and_none_means_the_class(tmp_path: Path) -> None:
    benchmark = reform.made("cifar10", source_of("cifar10", tmp_path), tmp_path)
    found = texts(benchmark)
    assert Counter(found.values()) == dict.fromkeys(CIFAR, 3)
    options = {gold: set[str]() for gold in CIFAR}
    for sample in benchmark.samples():
        options[found[sample.id]] |= set(sample.options)
    assert options["cat"] == {"cat", "panther", "lion", "tiger"}
    assert options["dog"] == {"dog", "wolf", "wild dog", "fox"}
    assert {"automobile", "truck", "dump truck", "pickup"} == options["automobile"]
    # A ship may well be a boat or a yacht; of an airplane neither is true.
    assert not {"boat", "fishing boat", "yacht", "barge", "sloop"} & options["ship"]
    assert {"balloon", "airplane"} < options["airplane"] and {"boat", "yacht", "ship"} & options[
        "airplane"
    ]
    for gold, shown in options.items():
        synset = open_wordnet().noun_synset(gold)
        assert not {word.replace(" ", "_") for word in shown} & NEVER_OPTIONS
        assert not (shown - {gold}) & set(open_wordnet().names(synset))


def test_imagenets_three_layouts_make_the_same_benchmark(tmp_path: Path) -> None:
    versions = {
        reform.made("imagenet-1k", source_of("imagenet-1k", tmp_path), tmp_path).manifest.version
    }
    for write in (imagenet_1k_kaggle, imagenet_1k_kit):
        versions.add(
            reform.made(
                "imagenet-1k", write(tmp_path / write.__name__), tmp_path / "other"
            ).manifest.version
        )
    assert len(versions) == 1


def test_imagenets_distractors_are_the_most_similar_classes(tmp_path: Path) -> None:
    benchmark = reform.made("imagenet-1k", source_of("imagenet-1k", tmp_path), tmp_path)
    found = texts(benchmark)
    assert found == {stem(n): SYNSETS[class_of(n)] for n in range(1, 17)}
    for sample in benchmark.samples():
        if found[sample.id] in ("tench", "goldfish"):
            assert set(sample.options) == {"tench", "goldfish", "great white shark", "tiger shark"}
        if found[sample.id] in ("cab", "sports car"):
            assert {"cab", "sports car", "crane"} < set(sample.options)
        if found[sample.id] == "crane":
            # A bird and a machine: what is called the same is no distractor.
            assert len(set(sample.options)) == 4


def test_a_disaster_is_chosen_among_all_seven(tmp_path: Path) -> None:
    benchmark = reform.made("medic-dts", medic_dts(tmp_path / "official"), tmp_path)
    [options] = {sample.options for sample in benchmark.samples()}
    assert options == (
        "earthquake",
        "fire",
        "flood",
        "hurricane",
        "landslide",
        "another disaster",
        "no disaster",
    )
    found = texts(benchmark)
    assert [found[f"data/aidr/images/{number}.jpg"] for number in (0, 5, 6)] == [
        options[0],
        options[5],
        options[6],
    ]
    assert benchmark.manifest.tags == {"event": {"event_0": 12, "event_1": 11}}


def test_there_is_an_issue_where_a_flaw_with_a_name_leads_by_two_votes(tmp_path: Path) -> None:
    benchmark = reform.made("vizwiz-2", vizwiz(tmp_path / "official"), tmp_path)
    found = [texts(benchmark)[sample.id] for sample in benchmark.samples()]
    assert {sample.options for sample in benchmark.samples()} <= {("yes", "no"), ("no", "yes")}
    assert found == ["yes"] * 11 + ["no"] * 2
    assert benchmark.manifest.warnings[1:] == (
        "val.json: 1 skipped: a flaw that has no name",
        "val.json: 4 skipped: no verdict that leads the next one by 2 or more votes",
    )


def test_the_pictures_asked_for_an_issue_are_those_asked_for_the_worst_one_and_the_flawless(
    tmp_path: Path,
) -> None:
    files = vizwiz(tmp_path / "official")
    [flawed, every] = [
        reform.made(name, files, tmp_path / name) for name in ("vizwiz-4", "vizwiz-2")
    ]
    found = texts(every)
    assert {sample.id for sample in flawed.samples()} == {
        name for name, answer in found.items() if answer == "yes"
    }


def test_what_a_verdict_needs_is_declared(tmp_path: Path) -> None:
    files = vizwiz(tmp_path / "official")
    drafts = {
        lead: list(vizwiz_quality({"task": "any", "lead": lead, "most": most}, files))
        for lead, most in ((1, 3), (2, 1), (4, 1))
    }
    assert {lead: len(found) for lead, found in drafts.items()} == {1: 14, 2: 13, 4: 6}


def test_the_issue_with_the_most_votes_is_right_and_the_next_three_are_wrong(
    tmp_path: Path,
) -> None:
    benchmark = reform.made("vizwiz-4", vizwiz(tmp_path / "official"), tmp_path)
    found, codes = texts(benchmark), FLAWS[:6]
    for place, sample in enumerate(list(benchmark.samples())[:6]):
        assert found[sample.id] == FLAW_NAMES[codes[place]]
        assert {FLAW_NAMES[codes[(place + step) % 6]] for step in range(3)} < set(sample.options)
    for place, sample in enumerate(list(benchmark.samples())[6:], 1):
        assert found[sample.id] == FLAW_NAMES[codes[place]] and FLAW_NAMES["FRM"] in sample.options


def test_without_wordnet_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snellen.reformulation.wordnet.DEBIAN", tmp_path)
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    monkeypatch.setattr("nltk.data.path", [])
    open_wordnet.cache_clear()
    reform.refused(
        "cifar10", cifar10(tmp_path / "official"), tmp_path, r"apt-get install wordnet-base"
    )
    open_wordnet.cache_clear()


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "fault"),
    [
        (
            "pets37",
            "annotations/test.txt",
            "pug_2 4 2 1",
            "pug_2 4 2",
            r"txt:16: 'pug_2 4 2' is not a file's",
        ),
        (
            "pets37",
            "annotations/test.txt",
            "pug_2 4 2",
            "pug_2 3 2",
            r"txt:16: class 3 is pug here and Bengal",
        ),
        (
            "pets37",
            "annotations/test.txt",
            "pug_2 4",
            "pug_9 4",
            r"test.txt:16: cannot read the image .*pug_9.jpg",
        ),
        ("medic-dts", "MEDIC/MEDIC_test.tsv", "flood", "floods", r"tsv:4: .*'floods' is none of"),
        (
            "medic-dts",
            "MEDIC/MEDIC_test.tsv",
            "\tdisaster_types",
            "\tdisasters",
            r"tsv:1: the column 'disaster_types'",
        ),
        (
            "medic-dts",
            "MEDIC/MEDIC_test.tsv",
            "images/7.jpg",
            "images/77.jpg",
            r"tsv:9: cannot read .*77.jpg",
        ),
        (
            "vizwiz-4",
            "annotations/val.json",
            '"FRM": 4',
            '"FRM": 6',
            r"val.json: items\[0\]: .*<= 5.*flaws.FRM",
        ),
        (
            "vizwiz-4",
            "annotations/val.json",
            '"ROT": 0',
            '"RTO": 0',
            r"val.json: items\[0\]: flaws: .*`ROT`; .*RTO",
        ),
        (
            "vizwiz-2",
            "annotations/val.json",
            "val_00000002",
            "val_00000099",
            r"items\[2\]: cannot read .*val_00000099",
        ),
        (
            "imagenet-1k",
            "LOC_val_solution.csv",
            f"{stem(3)},n",
            f"{stem(3)},x",
            r"csv:15: 'x\d+' is not a class",
        ),
        (
            "imagenet-1k",
            "LOC_val_solution.csv",
            stem(3),
            stem(99),
            rf"{stem(3)}.JPEG: LOC_val_solution.csv has no row",
        ),
        ("imagenet-1k", "LOC_val_solution.csv", "ImageId", "Image", r"csv:2: .*ImageId"),
        (
            "imagenet-1k",
            "LOC_val_solution.csv",
            "n02012849",
            "n02012840",
            r"WordNet 3.0 has no noun n02012840",
        ),
    ],
)
def test_a_broken_file_is_refused_with_file_and_place(
    name: str, file: str, old: str, new: str, fault: str, tmp_path: Path
) -> None:
    if name == "imagenet-1k":
        needs_wordnet()
    write = imagenet_1k_kaggle if name == "imagenet-1k" else SOURCES[name][0]
    source = write(tmp_path / "official")
    reform.broken(source / file, old, new)
    reform.refused(name, source, tmp_path, fault)


def test_flowers_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    lists = flowers102_lists(tmp_path / "lists")
    scipy_io.savemat(lists / "flowers-102/imagelabels.mat", {"labels": np.array([[1, 103, 3]])})
    reform.refused(
        "flowers102",
        lists,
        tmp_path,
        r"imagelabels.mat: labels\[2\]: there is no class 103.*has 102",
    )
    scipy_io.savemat(lists / "flowers-102/imagelabels.mat", {"labels": np.array([[1, 2, 3]])})
    reform.refused(
        "flowers102",
        lists,
        tmp_path,
        r"labels\[4\]: there are 3 labels; do the files belong together",
    )
    folders = flowers102(tmp_path / "folders")
    (folders / "flower_data/valid/1").rename(folders / "flower_data/valid/rose")
    reform.refused("flowers102", folders, tmp_path, r"valid/rose: not the number of a class")


def test_cifar_files_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    source = source_of("cifar10", tmp_path) / "cifar-10-batches-py"
    whole = (source / "test_batch").read_bytes()
    (source / "test_batch").write_bytes(whole[:5000])
    reform.refused(
        "cifar10",
        source.parent,
        tmp_path,
        r"test_batch: not a readable pickle .* download complete",
    )
    (source / "test_batch").write_bytes(
        pickle.dumps({"labels": [1, 2], "data": np.zeros((2, 9), "u1")}, 2)
    )
    reform.refused(
        "cifar10",
        source.parent,
        tmp_path,
        r"test_batch: data of u1 and shape \(2, 9\) for 2 labels",
    )
    (source / "test_batch").write_bytes(
        pickle.dumps({"labels": [10], "data": np.zeros((1, 3072), "u1")}, 2)
    )
    reform.refused(
        "cifar10",
        source.parent,
        tmp_path,
        r"test_batch: image 0: there is no class 10; there are 10",
    )
    shutil.copy(source / "batches.meta", source / "test_batch")
    reform.refused(
        "cifar10", source.parent, tmp_path, r"test_batch: .*required field `data`.*the right file"
    )
    packed = cifar10_bytes(tmp_path / "bytes")
    with (packed / "cifar-10-batches-bin/test_batch.bin").open("ab") as file:
        file.write(b"x")
    reform.refused(
        "cifar10",
        packed,
        tmp_path,
        r"test_batch.bin: 92191 bytes are not a whole number of images",
    )


def test_imagenet_files_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    needs_wordnet()
    kit = imagenet_1k_kit(tmp_path / "kit")
    pictures, truth = (
        kit / "ILSVRC2012_img_val",
        kit / "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt",
    )
    right = truth.read_text()
    truth.write_text(right + "1\n")
    reform.refused("imagenet-1k", kit, tmp_path, r"ground_truth.txt: 17 lines for 16 images")
    truth.write_text(right.replace("8", "1001", 1))
    reform.refused(
        "imagenet-1k", kit, tmp_path, r"ground_truth.txt:\d+: there is no class '1001' in meta.mat"
    )
    truth.write_text(right)
    (pictures / f"{stem(5)}.JPEG").rename(pictures / f"{stem(50)}.JPEG")
    reform.refused(
        "imagenet-1k", kit, tmp_path, r"_00000006.JPEG: image 5 is missing, whose class is line 5"
    )
    scipy_io.savemat(truth.with_name("meta.mat"), {"synsets": np.array([1, 2])})
    reform.refused(
        "imagenet-1k", kit, tmp_path, r"meta.mat: synsets without ILSVRC2012_ID and WNID"
    )
    kaggle = imagenet_1k_kaggle(tmp_path / "kaggle")
    (kaggle / "ILSVRC/Data/CLS-LOC/val" / f"{stem(16)}.JPEG").unlink()
    reform.refused(
        "imagenet-1k",
        kaggle,
        tmp_path,
        rf"LOC_val_solution.csv:2: the image {stem(16)}.JPEG is missing",
    )
    folders = imagenet_1k(tmp_path / "folders")
    (folders / "val/n01440764").rename(folders / "val/tench")
    reform.refused("imagenet-1k", folders, tmp_path, r"val/tench: not the folder of a class")


def test_an_empty_folder_is_refused_with_what_is_looked_for(tmp_path: Path) -> None:
    for name, missing in {
        "flowers102": "imagelabels.mat",
        "pets37": "annotations/test.txt",
        "medic-dts": "MEDIC_test.tsv",
        "vizwiz-2": "annotations/val.json or",
        "vizwiz-4": "annotations/val.json or",
        "cifar10": "cifar-10-batches-py/test_batch or cifar-10-batches-bin/test_batch.bin",
    }.items():
        empty = tmp_path / f"empty {name}"
        empty.mkdir()
        reform.refused(name, empty, tmp_path, f"{missing}.* is missing")
