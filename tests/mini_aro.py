"""Miniatures of ARO's official files: a maker by the folder that the entries name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reform

CAPTIONS = (
    "A brown dog chases a small ball, on the wet grass.",
    "Two men in red shirts are holding a long wooden ladder near the house.",
    "The old woman's cat sleeps under a green table beside the window.",
    "A child throws a stone into the still water of a lake.",
)
BOX = {"bbox_x": 10, "bbox_y": 20, "bbox_w": 40, "bbox_h": 30}


def visual_genome(to: Path) -> Path:
    """Two relations and two pairs of attributes about three images, with the fields of the official files."""
    relations = [
        {
            "image_id": "1",
            "image_path": "1.jpg",
            **BOX,
            "true_caption": "the horse is eating the grass",
            "false_caption": "the grass is eating the horse",
            "relation_name": "eating",
        },
        {
            "image_id": "1",
            "image_path": "1.jpg",
            **BOX,
            "true_caption": "the man is to the left of the horse",
            "false_caption": "the horse is to the left of the man",
            "relation_name": "to the left of",
        },
    ]
    attributes = [
        {
            "image_id": n,
            "image_path": f"{n}.jpg",
            **BOX,
            "obj1_name": "cat",
            "obj2_name": "door",
            "true_caption": "the crouched cat and the open door",
            "false_caption": "the open cat and the crouched door",
            "attributes": ["crouched", "open"],
        }
        for n in ("2", "3")
    ]
    reform.write_json(to / "visual_genome_relation.json", relations)
    reform.write_json(to / "visual_genome_attribution.json", attributes)
    for n in range(1, 4):
        reform.write_picture(to / "images" / f"{n}.jpg", n)
    return to


def _captioned(to: Path, file: str, name: str) -> Path:
    rows: list[dict[str, Any]] = [
        {"image": name.format(n), "caption": list(CAPTIONS[2 * n : 2 * n + 2])} for n in range(2)
    ]
    rows[1]["caption"].append("Cats cats.")
    reform.write_json(to / file, rows)
    for n in range(2):
        reform.write_picture(to / name.format(n), n)
    return to


def coco(to: Path) -> Path:
    return _captioned(to, "coco_karpathy_test.json", "val2014/COCO_val2014_00000000000{}.jpg")


def flickr30k(to: Path) -> Path:
    return _captioned(to, "flickr30k_test.json", "flickr30k-images/{}.jpg")


def official(to: Path) -> Path:
    """All of them, as `--source` takes them."""
    visual_genome(to / "vg")
    coco(to / "coco")
    flickr30k(to / "flickr30k")
    return to
