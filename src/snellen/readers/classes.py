"""Classification data sets, as questions with other classes as distractors (ReForm-Eval A.1).

Layouts as distributed, unpacked into one folder, at most two folders deep:
- Flowers102: the folders `valid/1/`, `valid/2/` ... of the widespread split by folders (818 images in `valid`),
  or else the authors' `jpg/`, `imagelabels.mat` and `setid.mat` (1,020);
- Pets37: `images/` and `annotations/test.txt`;
- CIFAR10's test images: `cifar-10-batches-py/` (pickles) or `cifar-10-batches-bin/`;
- ImageNet-1K's validation images, which give the same questions in the same order in each of three layouts:
  `val/n01440764/ILSVRC2012_val_00000293.JPEG`, one folder per class, as training scripts arrange them; Kaggle's
  `ILSVRC/Data/CLS-LOC/val/*.JPEG` with `LOC_val_solution.csv`; `val/*.JPEG` (or `ILSVRC2012_img_val/`) with the
  development kit's `data/ILSVRC2012_validation_ground_truth.txt` and `data/meta.mat`.

Distractors of CIFAR10 are words that WordNet relates to the class (see `WordNet.related`). Names of ImageNet's classes
are WordNet's, like its own; distractors are the most similar classes by WordNet.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from snellen.common.drafts import DistractorSpec, Draft, ImageFile, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.delimited import DelimitedLines, open_text, table_rows
from snellen.formats.hub_parquet import ImageColumn, ParquetRow, ParquetSplit
from snellen.formats.locate import locate_file, locate_or_none
from snellen.formats.pickles import Array, load_pickle, read_mat
from snellen.reformulation.wordnet import Tiers, WordNet, open_wordnet


class LabelClass(Struct, frozen=True):
    names: tuple[str, ...]
    """The class's name and its synonyms, the usual name first.

    The first one is shown as the correct option; none of the others may be a wrong option.
    """
    others: tuple[Sequence[str], ...]
    """Names of other classes, which may become wrong options, in groups: the names in the first
    group are the most similar to this class.
    """
    stratum: str


class LabelledImage(Struct, frozen=True):
    id: str
    file: ImageFile
    where: str
    label: LabelClass
    answer_tags: dict[str, str] = {}


Data = Literal["flowers102", "pets37", "cifar10", "imagenet-1k"]
Split = Literal["train", "val", "test"]

_FLOWERS: dict[Split, tuple[str, str]] = {
    "train": ("train", "trnid"),
    "val": ("valid", "valid"),
    "test": ("test", "tstid"),
}
"""For each split of Flowers102, two names: that of its folder, and that of its list of image
numbers in `setid.mat`.
"""
_QUESTIONS: dict[Data, str] = {
    "flowers102": "Which flower does the picture show?",
    "pets37": "Which breed of cat or dog does the picture show?",
    "cifar10": "What does the picture show?",
    "imagenet-1k": "What does the picture show?",
}
_PET = re.compile(r"(\w+)_\d+ (\d+) ([12]) \d+")


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    data: Data
    split: Split


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield one multiple-choice question for each image of a classification data set.

    The wrong options (distractors) are names of other classes. For Flowers102 and Pets37 any other
    class may be chosen; for CIFAR10 and ImageNet-1K the most similar ones are preferred.
    """
    chosen = read_params(params, Params)
    for picture in _labelled_images(chosen, folder):
        yield class_question(picture, chosen.data)


class HubParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A hub dataset with an image and its class number in each row."""

    files: tuple[str, ...]
    data: Data
    image: str = "image"
    label: str = "label"
    id: str = ""
    """The column with the image's name; the row number when empty."""
    species: str = ""
    """The column with the species number (Pets37)."""


def read_hub_classes(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the same kind of questions as `read`, but from Parquet files of a dataset on the Hugging Face hub.

    There, each row has an image and a class number. The names of the classes are in the files' metadata. An image gets a
    tag with its species, if the dataset has a column for it, or for CIFAR-10 with its class.
    """
    chosen = read_params(params, HubParams)
    table = ParquetSplit(folder, chosen.files)
    pictures = ImageColumn(chosen.image)
    names = table.names(chosen.label)
    labels = _label_classes_of(chosen.data, names)
    species = table.names(chosen.species) if chosen.species else ()
    columns = [name for name in (chosen.label, chosen.id, chosen.species) if name]
    for place, row in table.rows(columns, (), dict[str, str | int]):
        class_number = _checked_class_number(row[chosen.label], names, place, "label")
        label = labels[class_number]
        tags = {}
        if species:
            number = _checked_class_number(row[chosen.species], species, place, "species")
            tags["species"] = species[number]
        elif chosen.data == "cifar10":
            tags["class"] = label.stratum
        name = str(row[chosen.id] if chosen.id else place.number)
        picture = LabelledImage(
            id=name,
            file=pictures.at(place),
            where=place.where,
            label=label,
            answer_tags=tags,
        )
        yield class_question(picture, chosen.data)


def _label_classes_of(dataset: Data, names: Sequence[str]) -> list[LabelClass]:
    """Return the classes of a data set, each with the names that may become wrong options.

    The result is in the order of `names`, so class number 3 is item 3. For Flowers102 and Pets37,
    every other class may be a wrong option.

    Args:
        dataset: The data set.
        names: The names of its classes, as its files list them.
    """
    if dataset == "cifar10":
        return cifar_label_classes(names)
    if dataset == "imagenet-1k":
        return imagenet_classes(names)
    plain = tuple(name.replace("_", " ") for name in names)
    return [LabelClass(names=(name,), others=(plain,), stratum=name) for name in plain]


def _checked_class_number(
    number: str | int, names: Sequence[str], place: ParquetRow, column: str
) -> int:
    """Return the class number of a row after checking that there is such a class.

    Raises DataError otherwise. The usual cause is a split without labels, in which every class
    number is -1.
    """
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise DataError(
            f"{place.where}: the {column} is {number}, but classes are 0-{len(names) - 1}; has the split labels?"
        )
    return number


def class_question(picture: LabelledImage, dataset: Data) -> Draft:
    """Return a multiple-choice question that asks which class an image shows, with names of other
    classes as wrong options.
    """
    label = picture.label
    return Draft(
        id=picture.id,
        rounds=(
            QuestionDraft(
                _QUESTIONS[dataset], texts=label.names, distractors=DistractorSpec(label.others)
            ),
        ),
        images=(picture.file,),
        where=picture.where,
        group=picture.id,
        answer_tags=picture.answer_tags,
        stratum=label.stratum,
    )


def _labelled_images(chosen: Params, folder: Path | None) -> Iterator[LabelledImage]:
    """Return the images of a split with their classes.

    Raises DataError for a split that this reader does not support.
    """
    match chosen.data, chosen.split:
        case "flowers102", split:
            return _flower_images(folder, *_FLOWERS[split])
        case "pets37", "train":
            return _pet_images(folder, "trainval.txt")
        case "pets37", "test":
            return _pet_images(folder, "test.txt")
        case "cifar10", "test":
            return cifar_images(folder)
        case "imagenet-1k", "val":
            return imagenet_images(folder)
    raise DataError(
        f"{chosen.data}: its {chosen.split} images are not read; the entry's split is wrong"
    )


def _flower_images(folder: Path | None, by_folder: str, listed: str) -> Iterator[LabelledImage]:
    """Yield the images of Flowers102 with their classes.

    Args:
        folder: Folder with the dataset.
        by_folder: Name of the folder of the split, with a folder for each class. It is used if it exists.
        listed: Name of the split's list of images in `setid.mat`.
    """
    names = files("snellen.readers").joinpath("flowers102.txt").read_text("utf-8").splitlines()
    split_folder = locate_or_none(folder, by_folder)
    if split_folder:
        numbered_images = _class_folder_images(split_folder)
    else:
        numbered_images = _listed_images(folder, listed)
    for where, file, number in numbered_images:
        if not 1 <= number <= len(names):
            raise DataError(f"{where}: there is no class {number}; Flowers102 has {len(names)}")
        name = names[number - 1]
        label = LabelClass(names=(name,), others=(names,), stratum=name)
        yield LabelledImage(id=file.stem, file=file, where=where, label=label)


def _class_folder_images(split: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the images of a folder that has one subfolder per class, named by the class number:
    `valid/7/image_1.jpg` is of class 7.

    Classes are in the order of their numbers.

    Yields:
        For each image its location for error messages, its file and its class number.
    """
    in_order_of_numbers = sorted(split.iterdir(), key=lambda path: (len(path.name), path.name))
    for folder in in_order_of_numbers:
        if not folder.name.isdecimal():
            raise DataError(
                f"{folder}: not the number of a class; is this the split of Flowers102 by folders?"
            )
        for file in sorted(folder.glob("*.jpg")):
            yield str(file), file, int(folder.name)


def _listed_images(folder: Path | None, listed: str) -> Iterator[tuple[str, Path, int]]:
    """Yield the images of a Flowers102 split in the authors' own layout.

    There, `setid.mat` has a list of image numbers for each split, `imagelabels.mat` has the class
    number of every image, and image 7 is the file `jpg/image_00007.jpg`.

    Args:
        folder: Folder with the data set.
        listed: Name of the split's list in `setid.mat`, such as `tstid`.

    Yields:
        For each image its location for error messages, its file and its class number.
    """
    path = locate_file(folder, "imagelabels.mat")
    pictures = locate_file(folder, "jpg")
    labels = read_mat(path, "labels")
    for number in map(int, read_mat(locate_file(folder, "setid.mat"), listed)):
        where = f"{path}: labels[{number}]"
        if not 1 <= number <= len(labels):
            raise DataError(
                f"{where}: there are {len(labels)} labels; do the files belong together?"
            )
        yield where, pictures / f"image_{number:05d}.jpg", int(labels[number - 1])


def _pet_images(folder: Path | None, listed: str) -> Iterator[LabelledImage]:
    """Yield the images of a Pets37 split, each labelled with its breed.

    The list of the split has one line per image: file name, class number (one for each breed),
    species (1 for cat, 2 for dog) and the number of the breed within the species. For example,
    `Abyssinian_201 1 1 1` is the image `Abyssinian_201.jpg` of a cat. The name of the breed is the
    file name without its number, so it is checked that each class number always goes with the same
    name. All breeds of the list are possible wrong options, whatever the species.

    Args:
        folder: Folder with the data set, which contains `images/` and `annotations/`.
        listed: Name of the list in `annotations/`, such as `test.txt`.

    Raises:
        DataError: A line has another form, or a class number has two breeds.
    """
    path = locate_file(folder, f"annotations/{listed}")
    pictures = locate_file(folder, "images")
    entries: list[tuple[str, str, str, str]] = []
    breed_by_number: dict[str, str] = {}
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            where = f"{path}:{number}"
            text = line.strip()
            if text.startswith("#") or not text:
                continue
            parts = _PET.fullmatch(text)
            if parts is None:
                raise DataError(
                    f"{where}: {text!r} is not a file's name, class, species (1 or 2) and breed"
                )
            breed, class_number, species_number = parts.groups()
            first_breed = breed_by_number.setdefault(class_number, breed)
            if first_breed != breed:
                raise DataError(
                    f"{where}: class {class_number} is {breed} here and {first_breed} above"
                )
            file_name = text.split()[0]
            species = ("cat", "dog")[int(species_number) - 1]
            entries.append((where, file_name, breed.replace("_", " "), species))
    breeds = tuple(dict.fromkeys(breed for _, _, breed, _ in entries))
    for where, name, breed, species in entries:
        yield LabelledImage(
            id=name,
            file=pictures / f"{name}.jpg",
            where=where,
            label=LabelClass(names=(breed,), others=(breeds,), stratum=breed),
            answer_tags={"species": species},
        )


SIDE = 32
SIZE = SIDE * SIDE
RELATED_WORD_COUNT = 24
"""Related words per class, before unfit ones are removed."""
NEVER_OPTIONS = frozenset(
    "adult alley_cat bogy captive carrier domestic_animal engine feeder female game giant head larva livestock male "
    "mate military_vehicle pet prey stray survivor vessel weapons_carrier young".split()
)
"""Words of WordNet that are never wrong options, because they could be true of an image of any
class or are unusual as names.

The paper's authors also removed such candidates by hand.
"""
ALSO_RIGHT = {
    "ship": frozenset(
        "barge bark boat brig fishing_boat gig ketch pirogue skiff sloop steamboat towboat yacht".split()
    ),
}
"""For each class, words that cannot be its wrong options because they are true of some of its
images: a ship of CIFAR10 may be a boat or a yacht.

They may be wrong options of other classes.
"""


class Batch(Struct, frozen=True):
    data: Array
    labels: list[int]


class Meta(Struct, frozen=True):
    label_names: list[str]


def cifar_images(folder: Path | None) -> Iterator[LabelledImage]:
    """Yield the 32 x 32 test images of CIFAR10 with their classes, in the order of the file.

    Both published formats are read: the pickled batch `cifar-10-batches-py/test_batch` and the
    binary batch `cifar-10-batches-bin/test_batch.bin`.
    """
    path = locate_file(
        folder, "cifar-10-batches-py/test_batch", "cifar-10-batches-bin/test_batch.bin"
    )
    read_batch = _read_binary_batch if path.suffix == ".bin" else _read_pickled_batch
    records, names = read_batch(path)
    classes = cifar_label_classes(names)
    for number, (label, planes) in enumerate(records):
        where = f"{path}: image {number}"
        if not 0 <= label < len(names):
            raise DataError(f"{where}: there is no class {label}; there are {len(names)}")
        label_class = classes[label]
        yield LabelledImage(
            id=str(number),
            file=_encode_png(planes),
            where=where,
            label=label_class,
            answer_tags={"class": label_class.stratum},
        )


def cifar_label_classes(names: Sequence[str]) -> list[LabelClass]:
    """Return each class with its synonyms in WordNet, and with related words as possible wrong
    options.

    The related words are in groups, with the most similar words in the first group.
    """
    wordnet = open_wordnet()
    synsets = {name: wordnet.noun_synset(name) for name in names}
    classes = []
    for name, synset in synsets.items():
        synonyms = [synonym for synonym in wordnet.names(synset) if synonym != name]
        unfit = NEVER_OPTIONS | ALSO_RIGHT.get(name, frozenset())
        related_words = wordnet.related_words(synset, RELATED_WORD_COUNT)
        classes.append(
            LabelClass(
                names=(name, *synonyms),
                others=_without_unfit_words(related_words, unfit),
                stratum=name,
            )
        )
    return classes


def _read_pickled_batch(path: Path) -> tuple[Iterator[tuple[int, bytes]], list[str]]:
    """Read a batch of CIFAR images that Python pickled.

    Returns:
        Two values. The first is an iterator with a pair for each image: the number of its class,
        and its 3,072 bytes of pixels (1,024 red values, then 1,024 green, then 1,024 blue, each
        plane row by row). The second is the list of class names, which is read from `batches.meta`
        in the same folder.
    """
    batch = _load_pickle_as(path, Batch)
    names = _load_pickle_as(path.with_name("batches.meta"), Meta).label_names
    image_size = 3 * SIZE  # bytes
    if batch.data.shape != (len(batch.labels), image_size) or batch.data.kind != "u1":
        raise DataError(
            f"{path}: data of {batch.data.kind} and shape {batch.data.shape} for {len(batch.labels)} labels"
        )
    content = batch.data.content
    starts = range(0, len(content), image_size)
    images = (content[start : start + image_size] for start in starts)
    return zip(batch.labels, images, strict=True), names


def _load_pickle_as(path: Path, form: Any) -> Any:
    """Return the content of a pickle, converted to the type `form`.

    Raises DataError if the content does not fit the type.
    """
    content = load_pickle(path)
    try:
        return msgspec.convert(content, form)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: {error}; is it the right file?") from None


def _read_binary_batch(path: Path) -> tuple[Iterator[tuple[int, bytes]], list[str]]:
    """Read a batch of CIFAR images in the binary format, which has 3,073 bytes for each image: the
    class number, then the pixels.

    Returns:
        The same two values as `_read_pickled_batch`. Here the class names come from
        `batches.meta.txt`.
    """
    with open_text(path) as file:
        content = file.read()
    if not content or len(content) % (1 + 3 * SIZE):
        raise DataError(
            f"{path}: {len(content)} bytes are not a whole number of images; is the download complete?"
        )
    with open_text(path.with_name("batches.meta.txt")) as file:
        names = file.read().decode("ascii", "replace").split()
    record_length = 1 + 3 * SIZE
    starts = range(0, len(content), record_length)
    rows = (content[start : start + record_length] for start in starts)
    return ((row[0], row[1:]) for row in rows), names


def _without_unfit_words(
    tiers: Sequence[Sequence[str]], unfit: frozenset[str]
) -> tuple[tuple[str, ...], ...]:
    """Return groups of possible wrong options (`tiers`, the most similar words first) without the
    words in `unfit`.

    Groups that become empty are left out.
    """
    fitting_tiers = []
    for tier in tiers:
        fitting = tuple(word for word in tier if word.replace(" ", "_") not in unfit)
        if fitting:
            fitting_tiers.append(fitting)
    return tuple(fitting_tiers)


def _encode_png(planes: bytes) -> bytes:
    """Return the content of a PNG file with an image of 32 x 32 pixels.

    The PNG is not compressed, so that its bytes depend only on the pixels and not on the version of
    a library.

    Args:
        planes: 3,072 bytes: all red values of the image, then all green, then all blue, each plane
            row by row.
    """
    pixels = bytearray(3 * SIZE)
    for channel in range(3):
        pixels[channel::3] = planes[channel * SIZE : (channel + 1) * SIZE]

    # Each line begins with the number of its filter; 0 is none.
    line_starts = range(0, 3 * SIZE, 3 * SIDE)
    lines = b"".join(b"\0" + pixels[start : start + 3 * SIDE] for start in line_starts)

    # A zlib stream with a single block, which is stored as it is.
    zlib_and_block_header = b"\x78\x01\x01"
    block_length = struct.pack("<HH", len(lines), 0xFFFF ^ len(lines))
    stored = zlib_and_block_header + block_length + lines

    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)),
        (b"IDAT", stored + struct.pack(">I", zlib.adler32(lines))),
        (b"IEND", b""),
    )
    png = b"\x89PNG\r\n\x1a\n"
    for name, content in chunks:
        length = struct.pack(">I", len(content))
        checksum = struct.pack(">I", zlib.crc32(name + content))
        png += length + name + content + checksum
    return png


CLASS = re.compile(r"n\d{8}")
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
CLASSES = 1000
"""Number of ImageNet's classes.

The development kit has further entries with higher numbers, which are broader terms such as
"animal".
"""

PREFERRED_SYNSETS = frozenset(
    "n02815834 n02834397 n02879718 n02950826 n03045698 n03291819 n03478589 n03661043 n03782006 n03956157 n04111531 "
    "n04270147 n04275548 n10148035 n12144580".split()
)
"""Classes that `imagenet_classes` must prefer over another WordNet entry with the same names (as
for "beaker" and "library"), because the order of ids does not decide between the two.
"""


class Solution(Struct, frozen=True):
    image: str = msgspec.field(name="ImageId")
    boxes: str = msgspec.field(name="PredictionString")
    """The class and the corners of each box, separated by spaces."""


class ImageNetImage(Struct, frozen=True):
    where: str
    file: Path
    synset: str


def imagenet_images(folder: Path | None) -> Iterator[LabelledImage]:
    """Yield the validation images of ImageNet with their classes, in the order of their file names,
    which are numbered.
    """
    wordnet = open_wordnet()
    pictures = _imagenet_validation_images(folder)
    classes = _label_classes(wordnet, {picture.synset for picture in pictures})
    for picture in pictures:
        yield LabelledImage(
            id=picture.file.stem,
            file=picture.file,
            where=picture.where,
            label=classes[picture.synset],
        )


def imagenet_classes(labels: Sequence[str]) -> list[LabelClass]:
    """Return the class for each of ImageNet's labels, such as `tench, Tinca tinca`, in the order of
    the list.

    Several entries of WordNet can have the same names; a crane is a bird and a machine. ImageNet's
    list is sorted by WordNet id, so an entry fits only if its id is greater than that of the label
    before. Of several that fit, the first one is taken, unless `PREFERRED_SYNSETS` contains another.

    Raises:
        DataError: No entry of WordNet fits a label.
    """
    wordnet = open_wordnet()
    synsets: list[str] = []
    for label in labels:
        # Where all names must differ, one of the two cranes has a further word or number.
        names = ("crane",) if label.startswith("crane") else tuple(label.split(", "))
        previous_id = max(synsets, default="")
        fitting = [synset for synset in wordnet.with_names(names) if synset > previous_id]
        if not fitting:
            raise DataError(
                f"no class of WordNet is called {label!r}; is it ImageNet's list, in its order?"
            )
        synsets.append(min(fitting, key=lambda synset: (synset not in PREFERRED_SYNSETS, synset)))
    classes = _label_classes(wordnet, synsets)
    return [classes[synset] for synset in synsets]


def _label_classes(wordnet: WordNet, synsets: Iterable[str]) -> dict[str, LabelClass]:
    """Return a class for each WordNet id in `synsets`, by id.

    The names of the other classes are its possible wrong options.
    """
    names = {synset: wordnet.names(synset) for synset in sorted(synsets)}
    return {
        synset: LabelClass(
            names=names[synset],
            others=_similar_class_names(wordnet, synset, names),
            stratum=synset,
        )
        for synset in names
    }


def _similar_class_names(wordnet: WordNet, synset: str, names: dict[str, tuple[str, ...]]) -> Tiers:
    """Return the usual names of the other classes as possible wrong options, in groups of equal similarity.

    Args:
        wordnet: Measures how similar two classes are.
        synset: The class whose name is the correct option.
        names: The names of each class, the usual one first.

    Returns:
        The groups, the most similar classes first.
    """
    tiers = []
    for similar_synsets in wordnet.by_similarity(synset, names):
        tiers.append(tuple(names[similar_synset][0] for similar_synset in similar_synsets))
    return tuple(tiers)


def _imagenet_validation_images(folder: Path | None) -> list[ImageNetImage]:
    """Return the validation images with their classes, sorted by file name.

    Three layouts are recognised: a folder for each class (`val/n01440764/`), or all images in one
    folder together with either Kaggle's table (`LOC_val_solution.csv`) or the development kit's
    list of classes.
    """
    split = locate_file(
        folder, "ILSVRC/Data/CLS-LOC/val", "Data/CLS-LOC/val", "val", "ILSVRC2012_img_val"
    )
    entries = sorted(split.iterdir())
    if any(entry.is_dir() for entry in entries):
        pictures = []
        for entry in entries:
            pictures.extend(_images_of_class(entry))
    else:
        files = [entry for entry in entries if entry.suffix.upper() == ".JPEG"]
        labels = locate_file(
            folder,
            "LOC_val_solution.csv",
            f"ILSVRC2012_devkit_t12/data/{GROUND_TRUTH}",
            f"data/{GROUND_TRUTH}",
        )
        if labels.suffix == ".csv":
            pictures = _images_by_solution(files, labels)
        else:
            pictures = _images_by_ground_truth(files, labels)
    if not pictures:
        raise DataError(f"{split}: there are no images; unpack the validation archive there")
    return sorted(pictures, key=lambda picture: picture.file.name)


def _images_of_class(folder: Path) -> list[ImageNetImage]:
    """Return the images in the folder of a class.

    Raises DataError if the folder's name is not a class id such as `n01440764`.
    """
    if not CLASS.fullmatch(folder.name):
        raise DataError(f"{folder}: not the folder of a class, such as n01440764; move it away")
    return [
        ImageNetImage(where=str(file), file=file, synset=folder.name)
        for file in folder.iterdir()
        if file.suffix.upper() == ".JPEG"
    ]


def _images_by_solution(files: list[Path], solution: Path) -> list[ImageNetImage]:
    """Return the images with the classes that Kaggle's table gives for them.

    Raises DataError if an image is not in the table, or if an image in the table is missing.
    """
    rows = {
        row.image: (where, row.boxes.partition(" ")[0])
        for where, row in table_rows(solution, Solution)
    }
    pictures: list[ImageNetImage] = []
    for file in files:
        if file.stem not in rows:
            raise DataError(f"{file}: {solution.name} has no row for it")
        where, synset = rows.pop(file.stem)
        if not CLASS.fullmatch(synset):
            raise DataError(f"{where}: {synset!r} is not a class such as n01440764")
        pictures.append(ImageNetImage(where=where, file=file, synset=synset))
    for image, (where, _) in rows.items():
        raise DataError(f"{where}: the image {image}.JPEG is missing; unpack the whole archive")
    return pictures


def _images_by_ground_truth(files: list[Path], path: Path) -> list[ImageNetImage]:
    """Return the images with the classes that the development kit gives for them.

    Line n of the kit's list is for image n: the class on line 7 is that of
    `ILSVRC2012_val_00000007.JPEG`. Raises DataError if the numbers of images and lines differ, or a
    class is unknown.
    """
    synsets = _kit_classes(path.with_name("meta.mat"))
    with open_text(path) as file:
        labels = [line.strip() for line in DelimitedLines(file, path)]
    if len(labels) != len(files):
        raise DataError(
            f"{path}: {len(labels)} lines for {len(files)} images; unpack the whole archive"
        )
    pictures: list[ImageNetImage] = []
    for number, (picture, label) in enumerate(zip(files, labels, strict=True), 1):
        if not picture.stem.endswith(f"_{number:08d}"):
            raise DataError(
                f"{picture}: image {number} is missing, whose class is line {number} of {path.name}"
            )
        if label not in synsets:
            raise DataError(f"{path}:{number}: there is no class {label!r} in meta.mat")
        where = f"{path}:{number}"
        pictures.append(ImageNetImage(where=where, file=picture, synset=synsets[label]))
    return pictures


def _kit_classes(path: Path) -> dict[str, str]:
    """Return the class ids of ImageNet, such as `n01440764`, by the numbers that the development
    kit uses for them.

    Numbers above 1,000, which are broader terms rather than classes, are left out.
    """
    rows = read_mat(path, "synsets")
    try:
        return {
            str(row["ILSVRC2012_ID"]): str(row["WNID"])
            for row in rows
            if int(row["ILSVRC2012_ID"]) <= CLASSES
        }
    except (TypeError, KeyError, IndexError, ValueError):
        raise DataError(
            f"{path}: synsets without ILSVRC2012_ID and WNID; is it the kit's meta.mat?"
        ) from None
