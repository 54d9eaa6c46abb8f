"""A built benchmark as a dataset of the Hugging Face hub: a row for each sample, with its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import asdict

from snellen import __version__
from snellen.benchmark import Benchmark
from snellen.errors import DataError
from snellen.exports.declaration import BenchmarkJob
from snellen.exports.hub_dataset import CARD, IMAGE, card, columns_table, picture_cell, write_shards
from snellen.records import Answer, Sample
from snellen.runs.journal import write_atomically
from snellen.scoring.answers import has_answers, open_answers

SPLIT = "test"
_TEXTS = pa.list_(pa.string())
_REGION = pa.struct([("box", pa.list_(pa.float64())), ("label", pa.string())])
_TURN = pa.struct([("question", pa.string()), ("options", _TEXTS)])
_GOLD = pa.struct([("turn", pa.int32()), ("options", pa.list_(pa.int32())), ("texts", _TEXTS)])
_QUESTION = (
    ("id", pa.string()),
    ("images", pa.list_(IMAGE)),
    ("context", pa.string()),
    ("question", pa.string()),
    ("options", _TEXTS),
    ("turns", pa.list_(_TURN)),
    ("rewordings", _TEXTS),
    ("regions", pa.list_(_REGION)),
    ("group", pa.string()),
)
_WHAT = {
    "id": "name of the question",
    "images": "its pictures, in order",
    "context": "what stands before the question, if anything",
    "question": "the question; empty for a dialogue",
    "options": "its options, in their own order; empty for an open question",
    "turns": "the questions of a dialogue",
    "rewordings": "other wordings of the question",
    "regions": "parts of the picture that the question is about, boxes in pixels",
    "group": "what related questions share, by default the picture",
    "tag_": "a tag of the question",
    "gold": "for each turn: right options by index, or reference texts",
    "gold_tag_": "a tag that gives the answer away",
}


def write_benchmark(job: BenchmarkJob) -> list[Path]:
    """The files of the dataset. Raises DataError for golds that are asked for and not here, StoreError."""
    benchmark = job.benchmark
    answers = _answers(benchmark) if job.answers else {}
    tags = sorted(benchmark.manifest.tags)
    gold_tags = sorted(benchmark.manifest.answer_tags) if job.answers else []
    columns = [*_QUESTION, *((f"tag_{name}", pa.string()) for name in tags)]
    if job.answers:
        columns += [("gold", pa.list_(_GOLD)), *((f"gold_tag_{name}", pa.string()) for name in gold_tags)]
    schema = pa.schema(columns)
    rows = (
        {**_row(benchmark, sample), **(_golds(answers.get(sample.id, [])) if job.answers else {})}
        for sample in benchmark.samples()
    )
    files = write_shards(rows, schema, job.path, SPLIT)
    write_atomically(job.path / CARD, _card(job, schema).encode("utf-8", "replace"))
    return [*files, job.path / CARD]


def _answers(benchmark: Benchmark) -> dict[str, list[Answer]]:
    if not has_answers(benchmark.folder):
        raise DataError(f"the answers of {benchmark.name} are not here; build it again, or leave --answers out")
    answers: dict[str, list[Answer]] = {}
    for (sample_id, _), answer in open_answers(benchmark.folder).items():
        answers.setdefault(sample_id, []).append(answer)
    return answers


def _row(benchmark: Benchmark, sample: Sample) -> dict[str, Any]:
    return {
        **{name: getattr(sample, name) for name in ("id", "context", "question", "options", "rewordings", "group")},
        "images": [picture_cell(image, benchmark.images) for image in sample.images],
        "turns": [asdict(turn) for turn in sample.turns],
        "regions": [asdict(region) for region in sample.regions],
        **{f"tag_{name}": value for name, value in sample.tags.items()},
    }


def _golds(answers: list[Answer]) -> dict[str, Any]:
    golds = [{"turn": one.turn, "options": one.options, "texts": one.texts} for one in answers]
    return {"gold": golds, **{f"gold_tag_{name}": value for one in answers for name, value in one.tags.items()}}


def _card(job: BenchmarkJob, schema: pa.Schema) -> str:
    manifest = job.benchmark.manifest
    spec, counts = manifest.spec, manifest.counts
    golds = "Golds are included." if job.answers else "Golds are left out."
    made = f"Built by Snellen {__version__} from the entry `{spec.name}`, version `{manifest.version}`"
    settings = ", ".join(f"{name} = {value}" for name, value in manifest.made.recipe.items())
    return card(
        spec.title,
        data=f"data/{SPLIT}-*.parquet",
        split=SPLIT,
        rows=counts.samples,
        licences=[spec.licence],
        text=[
            f"{counts.samples:,} samples with {counts.questions:,} questions about {counts.images:,} pictures. {golds}",
            f"{made}{f', with {settings}' if settings else ''}. Licence of the source: {spec.licence or 'not stated'}.",
            "",
            *columns_table(schema, _WHAT),
        ],
    )
