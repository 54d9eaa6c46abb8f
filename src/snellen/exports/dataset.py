"""Runs as a dataset of the Hugging Face hub: their one table as Parquet, and a card that describes it.

Golds stay out unless asked for, as what lies on the hub may become training data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from snellen import __version__
from snellen.errors import DataError
from snellen.exports.benchmark_dataset import write_benchmark
from snellen.exports.declaration import Exporter, ExportJob
from snellen.exports.hub_dataset import CARD, IMAGE, card, columns_table, picture_cell, write_shards
from snellen.exports.sample_table import sample_table
from snellen.images import Images, JoinedImages
from snellen.records import ImageRef, Result
from snellen.report.formatting import figure_text
from snellen.runs.journal import write_atomically
from snellen.runs.own_questions import RunPictures

SPLIT = "test"
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
            known = [stores[use.name]] if use.name in stores else []
            stores[use.name] = JoinedImages([*known, RunPictures(use, run.folder)])
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
