"""Runs and benchmarks as datasets of the Hugging Face hub: Parquet, and a card that describes it.

Golds stay out unless asked for, as what lies on the hub may become training data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import asdict

from snellen import __version__
from snellen.building.benchmark import Benchmark
from snellen.common.images import Images, JoinedImages
from snellen.errors import DataError
from snellen.interchange.exports.declaration import BenchmarkJob, Exporter, ExportJob
from snellen.interchange.exports.hub_dataset import CARD, IMAGE, card, columns_table, picture_cell, write_shards
from snellen.interchange.exports.sample_table import sample_table
from snellen.records import Answer, ImageRef, Result, Sample
from snellen.report.table import figure_text
from snellen.runs.own_questions import RunPictures
from snellen.runs.run_folder import write_atomically
from snellen.scoring.answers import has_answers, open_answers

SPLIT = "test"


# --- benchmarks ------------------------------------------------------------------------------------------------------


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
_BENCHMARK_COLUMNS = {
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
    """The files of the dataset. Raises DataError when golds are asked for but missing, StoreError."""
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
    write_atomically(job.path / CARD, _benchmark_card(job, schema).encode("utf-8", "replace"))
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
    golds = [{"turn": answer.turn, "options": answer.options, "texts": answer.texts} for answer in answers]
    return {"gold": golds, **{f"gold_tag_{name}": value for answer in answers for name, value in answer.tags.items()}}


def _benchmark_card(job: BenchmarkJob, schema: pa.Schema) -> str:
    manifest = job.benchmark.manifest
    spec, counts = manifest.spec, manifest.counts
    golds = "Golds are included." if job.answers else "Golds are left out."
    origin = f"Built by Snellen {__version__} from the entry `{spec.name}`, version `{manifest.version}`"
    settings = ", ".join(f"{name} = {value}" for name, value in manifest.made.recipe.items())
    return card(
        spec.title,
        data=f"data/{SPLIT}-*.parquet",
        split=SPLIT,
        rows=counts.samples,
        licences=[spec.licence],
        text=[
            f"{counts.samples:,} samples with {counts.questions:,} questions about {counts.images:,} pictures. {golds}",
            f"{origin}{f', with {settings}' if settings else ''}. "
            f"Licence of the source: {spec.licence or 'not stated'}.",
            "",
            *columns_table(schema, _BENCHMARK_COLUMNS),
        ],
    )


# --- the one table of runs -------------------------------------------------------------------------------------------


GOLD_COLUMNS = ("gold", "gold_options", "right")
_WHAT = {
    "model": "the model that was asked",
    "presentation": "which way of showing the question, from 0",
    "images": "its pictures, in order, or their SHA-256",
    "gold": "texts of right options, or reference texts",
    "gold_options": "right options by index",
    "order": "which option stood in which place",
    "request": "the messages as sent, [picture] for a picture",
    "reply": "what came back",
    "chosen": "the option that was read in it, by index",
    "reason": "why nothing was read, where nothing was",
    "tag_": "a tag of the question",
    "score_": "a metric of the question, over all of its presentations",
}


def _write(job: ExportJob) -> list[Path]:
    table = sample_table(job.runs)
    if not job.answers:
        table = table.drop(GOLD_COLUMNS)
    schema = pa.schema([(field.name, _plain(field.type)) for field in table.to_arrow().schema])
    rows: Iterator[Mapping[str, Any]] = table.iter_rows(named=True)
    if job.pictures:
        schema = schema.set(schema.get_field_index("images"), pa.field("images", pa.list_(IMAGE)))
        rows = _with_pictures(rows, job)
    files = write_shards(rows, schema, job.path, SPLIT)
    write_atomically(job.path / CARD, _card(job, table.height, schema).encode("utf-8", "replace"))
    return [*files, job.path / CARD]


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with 32-bit offsets, which every reader of the hub's datasets knows."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind


def _with_pictures(rows: Iterator[Mapping[str, Any]], job: ExportJob) -> Iterator[Mapping[str, Any]]:
    """The rows with their pictures in the place of digests. Raises DataError for pictures that are not at hand."""
    stores: dict[str, Images] = {}
    refs: dict[str, ImageRef] = {}
    for run in job.runs:
        for use in run.manifest.benchmarks:
            earlier_stores = [stores[use.name]] if use.name in stores else []
            stores[use.name] = JoinedImages([*earlier_stores, RunPictures(use, run.folder)])
        refs |= {
            image.digest: image
            for scored in run.benchmarks
            for sample in scored.samples.values()
            for image in sample.images
        }
    for row in rows:
        try:
            pictures = [picture_cell(refs[digest], stores[row["benchmark"]]) for digest in row["images"]]
        except DataError as error:
            raise DataError(f"{row['benchmark']} {row['sample_id']}: {error}, or leave --pictures out") from None
        yield {**row, "images": pictures}


def _card(job: ExportJob, rows: int, schema: pa.Schema) -> str:
    models = ", ".join(dict.fromkeys(run.manifest.model for run in job.runs))
    uses = {use.name: use for run in job.runs for use in run.manifest.benchmarks}
    licences = {scored.spec.name: scored.spec.licence for run in job.runs for scored in run.benchmarks}
    return card(
        f"Replies of {models}",
        data=f"data/{SPLIT}-*.parquet",
        split=SPLIT,
        rows=rows,
        licences=list(licences.values()),
        text=[
            f"{rows:,} presentations of questions with the replies to them, how each was read, and the scores; written "
            f"by Snellen {__version__}. {'Golds are included.' if job.answers else 'Golds are left out.'}",
            "",
            "| benchmark | version | licence of the source |",
            "|---|---|---|",
            *(f"| {name} | `{use.version}` | {licences.get(name) or 'not stated'} |" for name, use in uses.items()),
            "",
            "| model | benchmark | protocol | metric | value |",
            "|---|---|---|---|---|",
            *_numbers(job.rows),
            "",
            *columns_table(schema, _WHAT),
        ],
    )


def _numbers(rows: tuple[Result, ...]) -> Iterator[str]:
    """The numbers of whole benchmarks."""
    for row in rows:
        if not row.slice and row.benchmark != "*" and row.estimate.value is not None:
            value = figure_text(row.estimate, row.unit)
            yield f"| {row.model} | {row.benchmark} | {row.protocol} | {row.metric} | {value} |"


EXPORTER = Exporter(
    title="a dataset for the Hugging Face hub, with its card",
    write=_write,
    write_benchmark=write_benchmark,
    for_hub=True,
)
