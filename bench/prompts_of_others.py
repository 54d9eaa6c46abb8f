"""What lmms-eval, VLMEvalKit and MMMU's own code send for the miniatures of the tests, as JSON that tests compare with.

    python bench/prompts_of_others.py LMMS_EVAL VLMEVALKIT MMMU > tests/prompts_of_others.json

Each argument is a checkout (recorded: 75571cf, e8e78f0, bb0b95a). Their own `doc_to_text`, `doc_to_messages`,
`build_prompt` and `construct_prompt` are run, in an environment that has what these modules import (pandas, loguru,
datasets, matplotlib, validators, sty, tabulate, reka-api and others). Images are numbered from 1 within a question;
empty texts are left out, as they say nothing. VLMEvalKit's rows are made of Snellen's samples, in the columns of its
tables. Some modules of lmms-eval want OPENAI_API_KEY to be set when they are imported, to anything; nothing is asked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import mmbench_rows
import modern_metric_tables
import modern_tables
import test_modern
import test_modern_metrics
from snellen.records import Sample

Part = str | int
Row = dict[str, Any]
LMMS_EVAL = {
    "mmstar": "mmstar/mmstar", "mmmu": "mmmu/mmmu_val", "mmmu-pro": "mmmu_pro/mmmu_pro_standard",
    "ai2d": "ai2d/ai2d", "ai2d-no-mask": "ai2d/ai2d_no_mask", "realworldqa": "realworldqa/realworldqa",
    "docvqa": "docvqa/docvqa_val", "infovqa": "infovqa/infovqa_val", "mp-docvqa": "multidocvqa/multidocvqa_val",
    "st-vqa": "stvqa/stvqa", "slidevqa": "slidevqa/slidevqa_val", "textvqa": "textvqa/textvqa_val",
    "vizwiz": "vizwiz_vqa/vizwiz_vqa_val", "vqav2": "vqav2/vqav2_val", "ok-vqa": "ok_vqa/ok_vqa_val2014",
    "gqa": "gqa/gqa", "pope": "pope/pope", "scienceqa": "scienceqa/scienceqa_img", "seed-bench": "seedbench/seedbench",
    "seed-bench-2-plus": "seedbench_2_plus/seedbench_2_plus", "blink": "blink/blink_counting",
    "cv-bench-2d": "cv_bench/cv_bench_2d", "cv-bench-3d": "cv_bench/cv_bench_3d", "vstar": "vstar_bench/vstar_bench",
    "embspatial": "embspatial/embspatial", "nocaps": "nocaps/nocaps_val", "textcaps": "textcaps/textcaps_val",
    "flickr30k": "flickr30k/flickr30k_test", "coco-caption": "coco_cap/coco2017_cap_val",
    "simplevqa": "simplevqa/simplevqa", "worldvqa": "worldvqa/worldvqa", "zerobench": "zerobench/zerobench",
    "mm-vet": "mmvet/mmvet", "llava-bench": "llava-in-the-wild/llava-in-the-wild", "mia-bench": "mia_bench/mia_bench",
    "vibe-eval": "vibe_eval/vibe_eval", "websrc": "websrc/websrc_val", "chartqa": "chartqa/chartqa",
    "hallusionbench": "hallusion_bench/hallusion_bench_image", "ocrbench": "ocrbench/ocrbench",
}  # fmt: skip
"""By entry: the task's file without its suffix."""
VLMEVALKIT = {
    **dict.fromkeys(
        (
            "mmstar",
            "ai2d",
            "ai2d-no-mask",
            "realworldqa",
            "scienceqa",
            "seed-bench",
            "seed-bench-2-plus",
            "blink",
            "vstar",
            "mmt-bench",
        ),
        ("image_mcq", "ImageMCQDataset", ""),
    ),
    **dict.fromkeys(("docvqa", "infovqa", "textvqa", "gqa"), ("image_vqa", "ImageVQADataset", "")),
    "mmmu": ("image_mcq", "MMMUDataset", "MMMU_DEV_VAL"),
    "mmmu-pro": ("image_mcq", "MMMUProDataset", "MMMU_Pro_10c"),
    "pope": ("image_yorn", "ImageYORNDataset", "POPE"),
    "cv-bench-2d": ("image_mcq", "CVBench", ""),
    "cv-bench-3d": ("image_mcq", "CVBench", ""),
    "mm-vet": ("image_vqa", "MMVet", ""),
    "llava-bench": ("image_vqa", "LLaVABench", ""),
}
"""By entry: module, class and name of the data set."""
DROPPED = {"seed-bench": (3,)}
"""Rows that are no questions of Snellen's."""
MARK = [254, 253]
"""The colour of images, after their number."""
IN_BASE64 = {"simplevqa", "worldvqa", "websrc"}
"""Whose images lmms-eval decodes from base64."""
UNLIKE = {"seed-bench": (0, 1), "seed-bench-2-plus": (0, 1)}
"""Rows with three options, where lmms-eval writes an empty fourth one; the published files have four everywhere."""
MMBENCH = [
    mmbench_rows.row(1, hint="Seen on a farm."),
    mmbench_rows.row(2, options=("yes", "no")),
    mmbench_rows.row(3, options=("a cat", "a dog", "a cow")),
]


def main() -> None:
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("lmms_eval", "vlmevalkit", "mmmu"):
        words.add_argument(name, type=Path)
    given = words.parse_args()
    for package, folder in (("vlmeval", "vlmeval"), ("vlmeval.dataset", "vlmeval/dataset")):
        # The package's own start imports every model and data set.
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(given.vlmevalkit / folder)]
    sys.path[:0] = [str(given.lmms_eval), str(given.vlmevalkit)]
    records = {
        "lmms-eval": dict(_of_lmms_eval(given.lmms_eval)),
        "vlmevalkit": dict(_of_vlmevalkit()),
        "official": {"modern/mmmu": _of_mmmu(given.mmmu)},
    }
    json.dump(records, sys.stdout, indent=1, ensure_ascii=False, sort_keys=True)
    print()


def _pairs(name: str) -> list[tuple[Sample, Row]]:
    """The samples of a miniature with their rows, which have their ids or are in their order."""
    with tempfile.TemporaryDirectory() as folder:
        build = test_modern.built if name in modern_tables.TABLES else test_modern_metrics.built
        samples = list(build(name, Path(folder)).samples())
    rows = _rows(name)
    by_id = {row.get("id"): row for row in rows}
    return [(sample, by_id.get(sample.id, row)) for sample, row in zip(samples, rows, strict=True)]


def _rows(name: str) -> list[Row]:
    """The rows of a miniature that are questions, their images drawn in their numbers."""
    listed = modern_tables.TABLES.get(name) or [modern_metric_tables.TABLES[name]]
    tables = [table for table in listed if "testdev_balanced_images" not in table.file]
    rows = [
        {column: cell for column, cell in table.row(number).items() if column in table.types}
        for table in tables
        for number in range(table.rows)
    ]
    kept = [row for number, row in enumerate(rows) if number not in DROPPED.get(name, ())]
    return [_numbered(row, drawn_texts=name not in IN_BASE64) for row in kept]


def _numbered(row: Row, *, drawn_texts: bool) -> Row:
    numbers = iter(range(1, 100))

    def drawn(cell: Any, name: str) -> Any:
        drawn_text = drawn_texts and name == "image" and isinstance(cell, str)
        if drawn_text or isinstance(cell, bytes) or (isinstance(cell, dict) and "bytes" in cell):
            return Image.new("RGB", (2, 2), (next(numbers), *MARK))
        return [drawn(part, name) for part in cell] if isinstance(cell, list) else cell

    return {name: drawn(cell, name) for name, cell in row.items()}


def _task(folder: Path, name: str) -> Row:
    """A task's settings with those that it includes; functions by their names."""
    yaml.SafeLoader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))
    own = yaml.safe_load((folder / name).read_text())
    return {**(_task(folder, own["include"]) if "include" in own else {}), **own}


def _of_lmms_eval(checkout: Path) -> Iterator[tuple[str, Row]]:
    tasks = checkout / "lmms_eval/tasks"
    for name, path in LMMS_EVAL.items():
        asks = _Task(tasks / path)
        requests = {
            sample.id: asks.parts(
                {"image": Image.new("RGB", (2, 2), (1, *MARK)), "choices": sample.options, **row}
            )
            for number, (sample, row) in enumerate(_pairs(name))
            if number not in UNLIKE.get(name, ())
        }
        yield f"modern/{name}", {"requests": requests, "decoding": asks.decoding}
    for name, path in (
        ("dev-en", "mmbench_en_dev"),
        ("dev-cn", "mmbench_cn_dev"),
        ("ccbench", "mmbench_cc"),
    ):
        asks = _Task(tasks / "mmbench" / path)
        requests = {cells["index"]: asks.parts(_hub_row(cells)) for cells in MMBENCH}
        yield f"mmbench/{name}", {"requests": requests, "decoding": asks.decoding}


def _hub_row(cells: Row) -> Row:
    return {
        **cells,
        "hint": cells["hint"] or None,
        "L2-category": "",
        "image": Image.new("RGB", (2, 2), (1, *MARK)),
    }


class _Task:
    """A task of lmms-eval, as `ConfigurableMessagesTask` asks it."""

    def __init__(self, path: Path) -> None:
        settings = _task(path.parent, f"{path.name}.yaml")
        self._words = settings.get("lmms_eval_specific_kwargs", {}).get("default")
        self._text, self._visual, self._messages = (
            _function(path.parent, settings[name]) if name in settings else None
            for name in ("doc_to_text", "doc_to_visual", "doc_to_messages")
        )
        decoding = settings.get("generation_kwargs", {})
        self.decoding = {
            "max_new_tokens": decoding.get("max_new_tokens", 0),
            "temperature": decoding.get("temperature", 0),
            "stop": decoding.get("until", []),
        }

    def parts(self, doc: Row) -> list[Part]:
        words = [] if self._words is None else [self._words]
        if self._messages:
            [message] = self._messages(doc, *words)
            return _shown(
                part.get("text") or _number(part["url"])
                for part in message["content"]
                if part != ""
            )
        return _shown([*map(_number, self._visual(doc)), self._text(doc, *words)])


def _function(folder: Path, name: str) -> Any:
    module, _, function = name.rpartition(".")
    spec = importlib.util.spec_from_file_location(
        f"{folder.name}_{module}", folder / f"{module}.py"
    )
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, function)


def _number(picture: Image.Image) -> int:
    """A drawn image's number; one that came in base64 is alone."""
    number, *mark = picture.getpixel((0, 0))
    return number if mark == MARK else 1


def _shown(parts: Any) -> list[Part]:
    return [part for part in parts if part != ""]


def _of_vlmevalkit() -> Iterator[tuple[str, Row]]:
    for name, kind in VLMEVALKIT.items():
        rows = {
            sample.id: {
                "question": sample.question,
                "prompt": row.get("prompt"),
                "hint": sample.context or None,
                **dict(zip("ABCDEFGHIJ", sample.options, strict=False)),
                "pictures": len(sample.images),
            }
            for sample, row in _pairs(name)
        }
        yield (
            f"modern/{name}",
            {"requests": {name: _built_prompt(row, *kind) for name, row in rows.items()}},
        )
    rows = {
        cells["index"]: {**cells, "hint": cells["hint"] or None, "pictures": 1} for cells in MMBENCH
    }
    requests = {
        name: _built_prompt(row, "image_mcq", "ImageMCQDataset", "MMBench")
        for name, row in rows.items()
    }
    yield "mmbench/dev-en", {"requests": requests}


def _built_prompt(row: Row, module: str, kind: str, dataset: str) -> list[Part]:
    import pandas as pd

    made: Any = importlib.import_module(f"vlmeval.dataset.{module}")
    asks = object.__new__(getattr(made, kind))
    asks.meta_only, asks.dataset_name = True, dataset
    paths = [str(number) for number in range(1, row["pictures"] + 1)]
    parts = asks.build_prompt(pd.Series({**row, "image_path": paths}))
    return _shown(part["value"] if part["type"] == "text" else int(part["value"]) for part in parts)


def _of_mmmu(checkout: Path) -> Row:
    """Its own code puts images where the model's code does; here at their marks, as the paper shows them."""
    construct = _function(checkout / "mmmu/utils", "data_utils.construct_prompt")
    settings = yaml.safe_load((checkout / "mmmu/configs/llava1.5.yaml").read_text())
    settings = {
        name: value[0] if isinstance(value, list) else value for name, value in settings.items()
    }
    requests = {}
    for row in _rows("mmmu"):
        first, *rest = construct(row, settings)["final_input_prompt"].split("<image ")
        requests[row["id"]] = _shown(part for text in rest for part in (int(text[0]), text[2:]))
        requests[row["id"]] = _shown([first, *requests[row["id"]]])
    return {"requests": requests}


if __name__ == "__main__":
    main()
