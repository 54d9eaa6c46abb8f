"""ImageNet-1K's validation pictures, in the three usual layouts.

- `val/n01440764/ILSVRC2012_val_00000293.JPEG`: one folder per class, as training scripts arrange them;
- Kaggle's `ILSVRC/Data/CLS-LOC/val/*.JPEG` with `LOC_val_solution.csv`;
- `val/*.JPEG` (or `ILSVRC2012_img_val/`) with the development kit's `data/ILSVRC2012_validation_ground_truth.txt`
  and `data/meta.mat`.

All three give the same questions in the same order. Names are WordNet's, like ImageNet's own; distractors are
the most similar classes by WordNet (ReForm-Eval A.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.delimited import DelimitedLines, open_text, table_rows
from snellen.formats.locate import locate
from snellen.formats.pickles import read_mat
from snellen.readers.labelled import LabelClass, LabelledPicture
from snellen.reformulation.wordnet import Tiers, WordNet, open_wordnet

CLASS = re.compile(r"n\d{8}")
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
CLASSES = 1000
"""Higher numbers in the development kit are hypernyms of classes."""

MEANT = frozenset(
    "n02815834 n02834397 n02879718 n02950826 n03045698 n03291819 n03478589 n03661043 n03782006 n03956157 n04111531 "
    "n04270147 n04275548 n10148035 n12144580".split()
)
"""Classes with a namesake in WordNet (beaker, library) whose id lies between the previous class and the class."""


class Solution(Struct, frozen=True):
    image: str = msgspec.field(name="ImageId")
    boxes: str = msgspec.field(name="PredictionString")
    """The class and the corners of each box, separated by spaces."""


class ImageNetPicture(Struct, frozen=True):
    where: str
    file: Path
    synset: str


def imagenet_pictures(folder: Path | None) -> Iterator[LabelledPicture]:
    """The validation pictures, ordered by number."""
    wordnet = open_wordnet()
    pictures = _pictures_of(folder)
    classes = _label_classes(wordnet, {picture.synset for picture in pictures})
    for picture in pictures:
        label_class = classes[picture.synset]
        yield LabelledPicture(
            picture.file.stem, picture.file, picture.where, label_class.names, label_class.others, label_class.stratum
        )


def imagenet_classes(labels: Sequence[str]) -> list[LabelClass]:
    """The classes of the list `tench, Tinca tinca`, `goldfish, Carassius auratus`, ... in its order.

    The list is sorted by id, which distinguishes the two cranes and most nouns from their namesakes. Raises
    DataError for a class that is not in WordNet.
    """
    wordnet = open_wordnet()
    synsets: list[str] = []
    for label in labels:
        # Lists of unique names add a word or number to one of the two cranes.
        names = ("crane",) if label.startswith("crane") else tuple(label.split(", "))
        fitting = [synset for synset in wordnet.with_names(names) if synset > max(synsets, default="")]
        if not fitting:
            raise DataError(f"no class of WordNet is called {label!r}; is it ImageNet's list, in its order?")
        synsets.append(min(fitting, key=lambda synset: (synset not in MEANT, synset)))
    classes = _label_classes(wordnet, synsets)
    return [classes[synset] for synset in synsets]


def _label_classes(wordnet: WordNet, synsets: Iterable[str]) -> dict[str, LabelClass]:
    names = {synset: wordnet.names(synset) for synset in sorted(synsets)}
    return {synset: LabelClass(names[synset], _similar(wordnet, synset, names), synset) for synset in names}


def _similar(wordnet: WordNet, synset: str, names: dict[str, tuple[str, ...]]) -> Tiers:
    """The usual names of the other classes, the most similar ones first."""
    return tuple(tuple(names[neighbour][0] for neighbour in tier) for tier in wordnet.by_similarity(synset, names))


def _pictures_of(folder: Path | None) -> list[ImageNetPicture]:
    split = locate(folder, "ILSVRC/Data/CLS-LOC/val", "Data/CLS-LOC/val", "val", "ILSVRC2012_img_val")
    inside = sorted(split.iterdir())
    if any(path.is_dir() for path in inside):
        pictures = [picture for path in inside for picture in _of_class(path)]
    else:
        flat = [path for path in inside if path.suffix.upper() == ".JPEG"]
        labels = locate(
            folder, "LOC_val_solution.csv", f"ILSVRC2012_devkit_t12/data/{GROUND_TRUTH}", f"data/{GROUND_TRUTH}"
        )
        pictures = _of_kaggle(flat, labels) if labels.suffix == ".csv" else _of_kit(flat, labels)
    if not pictures:
        raise DataError(f"{split}: there are no pictures; unpack the validation archive there")
    return sorted(pictures, key=lambda picture: picture.file.name)


def _of_class(folder: Path) -> list[ImageNetPicture]:
    if not CLASS.fullmatch(folder.name):
        raise DataError(f"{folder}: not the folder of a class, such as n01440764; move it away")
    return [
        ImageNetPicture(str(file), file, folder.name) for file in folder.iterdir() if file.suffix.upper() == ".JPEG"
    ]


def _of_kaggle(flat: list[Path], solution: Path) -> list[ImageNetPicture]:
    rows = {row.image: (where, row.boxes.partition(" ")[0]) for where, row in table_rows(solution, Solution)}
    pictures: list[ImageNetPicture] = []
    for file in flat:
        if file.stem not in rows:
            raise DataError(f"{file}: {solution.name} has no row for it")
        where, synset = rows.pop(file.stem)
        if not CLASS.fullmatch(synset):
            raise DataError(f"{where}: {synset!r} is not a class such as n01440764")
        pictures.append(ImageNetPicture(where, file, synset))
    for image, (where, _) in rows.items():
        raise DataError(f"{where}: the picture {image}.JPEG is missing; unpack the whole archive")
    return pictures


def _of_kit(flat: list[Path], path: Path) -> list[ImageNetPicture]:
    """The n-th line of the ground truth is the class of `ILSVRC2012_val_0000000n.JPEG`."""
    synsets = _kit_classes(path.with_name("meta.mat"))
    with open_text(path) as file:
        labels = [line.strip() for line in DelimitedLines(file, path)]
    if len(labels) != len(flat):
        raise DataError(f"{path}: {len(labels)} lines for {len(flat)} pictures; unpack the whole archive")
    pictures: list[ImageNetPicture] = []
    for number, (picture, label) in enumerate(zip(flat, labels, strict=True), 1):
        if not picture.stem.endswith(f"_{number:08d}"):
            raise DataError(f"{picture}: picture {number} is missing, whose class is line {number} of {path.name}")
        if label not in synsets:
            raise DataError(f"{path}:{number}: there is no class {label!r} in meta.mat")
        pictures.append(ImageNetPicture(f"{path}:{number}", picture, synsets[label]))
    return pictures


def _kit_classes(path: Path) -> dict[str, str]:
    rows = read_mat(path, "synsets")
    try:
        return {str(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in rows if int(row["ILSVRC2012_ID"]) <= CLASSES}
    except (TypeError, KeyError, IndexError, ValueError):
        raise DataError(f"{path}: synsets without ILSVRC2012_ID and WNID; is it the kit's meta.mat?") from None
