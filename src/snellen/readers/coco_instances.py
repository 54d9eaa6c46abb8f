"""Files in the form of COCO's instances: pictures, and objects of named categories in them."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.json_files import list_items, read_json
from snellen.records import Box


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


class _File(Struct, frozen=True):
    images: list[msgspec.Raw]
    annotations: list[msgspec.Raw]
    categories: list[msgspec.Raw]


class CocoObjects(Struct, frozen=True):
    """The objects of a split. `where` says which item of which file an annotation is."""

    images: dict[int, Path]
    categories: dict[int, CocoCategory]
    by_image: dict[int, list[tuple[str, CocoAnnotation]]]

    def name(self, category: int) -> str:
        return self.categories[category].name

    def names(self, *, of: str = "", without: frozenset[int] = frozenset()) -> tuple[str, ...]:
        """Names of all categories, or of those of one super-category."""
        return tuple(c.name for c in self.categories.values() if of in ("", c.supercategory) and c.id not in without)

    def present(self, image: int) -> frozenset[int]:
        return frozenset(annotation.category_id for _, annotation in self.by_image.get(image, ()))


def read_instances(path: Path, pictures: Path) -> CocoObjects:
    """The objects of a file in COCO's form, whose pictures lie in `pictures`. Raises DataError."""
    content = read_json(path, _File)
    images = {
        image.id: pictures / image.file_name for _, image in list_items(path, "images", content.images, CocoImage)
    }
    categories = {c.id: c for _, c in list_items(path, "categories", content.categories, CocoCategory)}
    by_image: dict[int, list[tuple[str, CocoAnnotation]]] = {}
    for where, annotation in list_items(path, "annotations", content.annotations, CocoAnnotation):
        if annotation.image_id not in images:
            raise DataError(f"{where}: there is no image {annotation.image_id}")
        if annotation.category_id not in categories:
            raise DataError(f"{where}: there is no category {annotation.category_id}")
        by_image.setdefault(annotation.image_id, []).append((where, annotation))
    return CocoObjects(images, categories, by_image)
