"""Read annotations in the format of COCO (objects, captions or both), and of LVIS, which also lists
what is not in an image.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.callers import setting
from snellen.common.drafts import AnnotatedImage, AnnotatedObject, Polygon
from snellen.errors import DataError, WrongRowsError
from snellen.formats.json_files import list_items, read_json
from snellen.records import Box

Id = int | str
FOLDERS = ("images", "val2017", "train2017", "val2014", "train2014", "val", "train", "test")
"""Names of folders near the file in which images are searched for, if the user names none."""


class _Category(Struct, frozen=True):
    id: Id
    name: str
    supercategory: str | None = ""


class _Image(Struct, frozen=True):
    id: Id
    file_name: str = ""
    coco_url: str = ""
    neg_category_ids: tuple[Id, ...] | None = None
    not_exhaustive_category_ids: tuple[Id, ...] = ()


class _Annotation(Struct, frozen=True):
    image_id: Id
    category_id: Id | None = None
    bbox: tuple[float, ...] = ()
    segmentation: Any = None
    iscrowd: int | None = 0
    caption: str = ""


class _File(Struct, frozen=True):
    images: list[msgspec.Raw]
    annotations: list[msgspec.Raw]
    categories: list[msgspec.Raw] = []


def read_coco(path: Path, pictures: Path | None = None) -> Iterator[AnnotatedImage]:
    """Yield the images of a COCO or LVIS file with their objects and captions.

    For each image, LVIS also lists categories that are known to be absent, and categories of which
    not all objects are annotated.

    Args:
        path: The file.
        pictures: Folder of the images; if None, it is searched for near the file.

    Raises:
        DataError: An annotation refers to an unknown image or category.
        WrongRowsError: After the last image, if image files do not exist.
    """
    content = read_json(path, _File)
    categories: dict[Id, _Category] = {}
    names: dict[Id, str] = {}
    for _, category in list_items(path, "categories", content.categories, _Category):
        categories[category.id] = category
        names[category.id] = _name_in_words(category.name)
    images = [image for _, image in list_items(path, "images", content.images, _Image)]
    image_ids = {image.id for image in images}

    objects: dict[Id, list[AnnotatedObject]] = defaultdict(list)
    captions: dict[Id, list[str]] = defaultdict(list)
    for where, annotation in list_items(path, "annotations", content.annotations, _Annotation):
        image_id = annotation.image_id
        if image_id not in image_ids:
            raise DataError(f"{where}: there is no image {image_id}")
        if annotation.caption:
            captions[image_id].append(" ".join(annotation.caption.split()))
        if annotation.category_id is not None:
            annotated_category = categories.get(annotation.category_id)
            if annotated_category is None:
                raise DataError(f"{where}: there is no category {annotation.category_id}")
            objects[image_id].append(_annotated_object(annotation, annotated_category, where))

    def known_names(category_ids: Iterable[Id]) -> tuple[str, ...]:
        return tuple(names[category_id] for category_id in category_ids if category_id in names)

    folder = _Folder(path, pictures)
    faults = []
    for image in images:
        try:
            file = folder.file(image)
        except DataError as error:
            faults.append(str(error))
            continue
        yield AnnotatedImage(
            id=str(image.id),
            file=file,
            where=f"{path}: image {image.id}",
            objects=tuple(objects[image.id]),
            absent=known_names(image.neg_category_ids or ()),
            is_exhaustive=image.neg_category_ids is None,
            incomplete=known_names(image.not_exhaustive_category_ids),
            captions=tuple(captions[image.id]),
        )
    if faults:
        raise WrongRowsError(faults)


def _annotated_object(annotation: _Annotation, category: _Category, where: str) -> AnnotatedObject:
    """Return the object that an annotation describes. A box without area is left out.

    Raises DataError if the box does not have four numbers, or an outline is not a list of
    coordinates.
    """
    polygons = annotation.segmentation if isinstance(annotation.segmentation, list) else []
    if annotation.bbox and len(annotation.bbox) != 4:
        raise DataError(
            f"{where}: a box has left, top, width and height; this one has {len(annotation.bbox)} numbers"
        )
    left, top, width, height = annotation.bbox or (0, 0, 0, 0)
    box: Box | None = (left, top, width, height) if width > 0 and height > 0 else None
    return AnnotatedObject(
        name=_name_in_words(category.name),
        box=box,
        mask=tuple(_checked_polygon(polygon, where) for polygon in polygons),
        kind=category.supercategory or "",
        is_crowd=bool(annotation.iscrowd),
    )


def _checked_polygon(numbers: Any, where: str) -> Polygon:
    """Return a polygon, which is a list of x and y in turns, after checking it.

    Raises DataError if it is not a list of numbers, or their number is odd.
    """
    if (
        not isinstance(numbers, list)
        or len(numbers) % 2
        or not all(isinstance(n, int | float) for n in numbers)
    ):
        raise DataError(f"{where}: a polygon is a list of x, y, x, y ...")
    return tuple(numbers)


def _name_in_words(name: str) -> str:
    """Return the name of a category with spaces for underscores: "stop sign" for `stop_sign`."""
    return name.replace("_", " ").strip()


class _Folder:
    """Finds the image files of a COCO file: in the folder that the user names, or else in the usual
    folders near the file.
    """

    def __init__(self, path: Path, pictures: Path | None) -> None:
        """Find the folders that may have the images: the given one, or the folder of the file, the one above it, and usual ones in both."""
        if pictures is not None and not pictures.is_dir():
            raise DataError(
                f"{pictures}: no such folder; name the one with the images of {path.name}"
            )
        if pictures:
            self._bases = [pictures]
        else:
            parents = (path.parent, path.parent.parent)
            usual_folders = [parent / name for parent in parents for name in FOLDERS]
            self._bases = [*parents, *usual_folders]
        self._path = path
        self._base = self._bases[0]

    def file(self, image: _Image) -> Path:
        """Return the file of an image. Raises DataError if it is in none of the folders."""
        # LVIS has no file names, but URLs that end with folder and name: train2017/0001.jpg.
        url_end = image.coco_url.split("/")[-2:]
        url_name = url_end[-1] if url_end else ""
        names = [name for name in (image.file_name, "/".join(url_end), url_name) if name]
        # Most images are in the same folder as the image before.
        for base in (self._base, *self._bases):
            for name in names:
                if (base / name).is_file():
                    self._base = base
                    return base / name
        first_name = names[0] if names else "without a name"
        raise DataError(
            f"{self._path}: image {image.id}: the image {first_name} is not in "
            f"{self._bases[0]}; name the folder that holds it ({setting('images')})"
        )


class CocoCategory(Struct, frozen=True):
    id: int
    name: str
    supercategory: str = ""


class CocoImage(Struct, frozen=True):
    id: int
    file_name: str


class CocoAnnotation(Struct, frozen=True):
    id: int
    image_id: int
    category_id: int
    bbox: Box
    iscrowd: int = 0


class _InstancesFile(Struct, frozen=True):
    images: list[msgspec.Raw]
    annotations: list[msgspec.Raw]
    categories: list[msgspec.Raw]


class CocoObjects(Struct, frozen=True):
    """The annotated objects of a COCO file.

    In `by_image`, each annotation comes with its location, for error messages.
    """

    images: dict[int, Path]
    categories: dict[int, CocoCategory]
    by_image: dict[int, list[tuple[str, CocoAnnotation]]]

    def name(self, category: int) -> str:
        return self.categories[category].name

    def names(self, *, of: str = "", without: frozenset[int] = frozenset()) -> tuple[str, ...]:
        """Return the names of the categories.

        Args:
            of: If given, only categories in this super-category, such as `animal`, are returned.
            without: Ids of categories to leave out.
        """
        return tuple(
            c.name
            for c in self.categories.values()
            if of in ("", c.supercategory) and c.id not in without
        )

    def present(self, image: int) -> frozenset[int]:
        """Return the ids of the categories of which an image shows an object; an empty set if
        nothing is annotated in it.
        """
        return frozenset(annotation.category_id for _, annotation in self.by_image.get(image, ()))


def read_instances(path: Path, pictures: Path) -> CocoObjects:
    """Read the annotated objects of a JSON file in the form of COCO's `instances_*.json`.

    Args:
        path: The file.
        pictures: The folder with the images.

    Raises:
        DataError: An annotation names an image or a category that the file does not list.
    """
    content = read_json(path, _InstancesFile)
    image_files: dict[int, Path] = {}
    for _, image in list_items(path, "images", content.images, CocoImage):
        image_files[image.id] = pictures / image.file_name
    categories: dict[int, CocoCategory] = {}
    for _, category in list_items(path, "categories", content.categories, CocoCategory):
        categories[category.id] = category
    by_image: dict[int, list[tuple[str, CocoAnnotation]]] = {}
    for where, annotation in list_items(path, "annotations", content.annotations, CocoAnnotation):
        if annotation.image_id not in image_files:
            raise DataError(f"{where}: there is no image {annotation.image_id}")
        if annotation.category_id not in categories:
            raise DataError(f"{where}: there is no category {annotation.category_id}")
        by_image.setdefault(annotation.image_id, []).append((where, annotation))
    return CocoObjects(image_files, categories, by_image)
