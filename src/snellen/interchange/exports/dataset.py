"""Runs and benchmarks as datasets of the Hugging Face hub: Parquet, and a card that describes it.

Golds stay out unless asked for, as what lies on the hub may become training data.

The layout is that of the hub's documentation (Datasets, "Manual configuration" and "Dataset cards"), the features that
of the metadata which `datasets` 4 and later writes into Parquet's schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import asdict

from snellen import __version__
from snellen.building.benchmark import HISTORY, Benchmark
from snellen.callers import for_caller, setting
from snellen.common.foreign import read_text
from snellen.common.images import Images, JoinedImages
from snellen.common.paths import shell_word
from snellen.errors import DataError, StoreError
from snellen.formats.whole_files import write_atomically
from snellen.interchange.exports.base import BenchmarkJob, Exporter, ExportJob, sample_table
from snellen.recognition.exported_benchmarks import ENTRY_KEY, exported_facts
from snellen.records import Answer, ImageRef, Result, Sample
from snellen.report.number_text import figure_text
from snellen.runs.own_questions import RunImages
from snellen.scoring.answers import has_answers, sample_answers

CARD = "README.md"
WRITTEN_BY = "by Snellen "
"""Words of a card by which an earlier export is recognised."""
SPLIT = "test"
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""What the feature `Image` is stored as."""
SHARD_BYTES = 400 << 20
"""Images in one file, about; the hub asks for files well below 5 GB."""
ROWS = 32
"""Rows in memory at once, with their images."""
_LICENCES = frozenset(
    "afl-3.0 apache-2.0 bsd-2-clause bsd-3-clause cc cc-by-2.0 cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 "
    "cc-by-nc-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 "
    "gpl-3.0 mit odc-by odbl".split()
)
"""Licences by the hub's own names, which are those of SPDX in small letters."""
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def image_cell(image: ImageRef, images: Images) -> dict[str, Any]:
    """Return an image in the form of the type `Image` of Hugging Face datasets: its bytes, and a name.

    Raises:
        DataError: The image is not on this machine.
    """
    return {
        "bytes": images.read(image),
        "path": f"{image.digest}.{image.media_type.partition('/')[2]}",
    }


def check_folder(folder: Path) -> None:
    """Raise DataError if the folder of a dataset has a card or data that Snellen did not write.

    An earlier export is replaced. The card tells which program wrote it.
    """
    card_file = folder / CARD
    try:
        is_own = WRITTEN_BY in read_text(card_file)
    except (OSError, ValueError):
        is_own = False
    if is_own:
        return
    data_files = sorted((folder / "data").glob(f"{SPLIT}-*-of-*.parquet"))
    for file in (card_file, *data_files):
        if file.exists():
            other = folder / "dataset"
            again = for_caller(f"-o {shell_word(other)}", f"such as {str(other)!r}")
            raise DataError(
                f"{file} exists and was not written by Snellen; export to a new folder: {again}"
            )


def write_shards(
    rows: Iterable[Mapping[str, Any]], schema: pa.Schema, folder: Path, split: str
) -> list[Path]:
    """Write rows as `data/SPLIT-00000-of-00001.parquet` and so on; a new file begins when one has enough images.

    The files get their names when all are written.

    Args:
        rows: The rows.
        schema: Their columns.
        folder: Folder of the dataset.
        split: Name of the split, such as `test`.

    Returns:
        The paths of the files.

    Raises:
        StoreError: If a file cannot be written.
    """
    data = folder / "data"
    features = json.dumps({"info": {"features": _features(schema)}})
    schema = schema.with_metadata({**(schema.metadata or {}), "huggingface": features})
    parts: list[Path] = []
    try:
        data.mkdir(parents=True, exist_ok=True)
        for number, shard in enumerate(_shards(rows, schema)):
            part = data / f"{split}-{number:05}.part"
            parts.append(part)
            with pq.ParquetWriter(part, schema, compression="zstd") as writer:
                for table in shard:
                    writer.write_table(table)
        for earlier_file in data.glob(f"{split}-*-of-*.parquet"):
            earlier_file.unlink()
        files = []
        for number, part in enumerate(parts):
            file = data / f"{split}-{number:05}-of-{len(parts):05}.parquet"
            files.append(part.rename(file))
        return files
    except OSError as error:
        raise StoreError(f"{folder} cannot be written ({error.strerror or error})") from None
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _shards(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Iterator[Iterator[pa.Table]]:
    """Yield groups of tables, each group for one file of limited size. Without any rows, yield one empty table."""
    tables = _tables(rows, schema)
    first: pa.Table | None = next(tables, schema.empty_table())

    def shard() -> Iterator[pa.Table]:
        nonlocal first
        size = 0
        while first is not None and size < SHARD_BYTES:
            size += first.nbytes
            yield first
            first = next(tables, None)

    while first is not None:
        yield shard()


def _tables(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Iterator[pa.Table]:
    batch: list[Mapping[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS:
            yield pa.Table.from_pylist(batch, schema)
            batch = []
    if batch:
        yield pa.Table.from_pylist(batch, schema)


def _features(schema: pa.Schema) -> dict[str, Any]:
    return {field.name: _feature(field.type) for field in schema}


def _feature(kind: pa.DataType) -> Any:
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": {"double": "float64"}.get(str(kind), str(kind)), "_type": "Value"}


def card(
    title: str,
    *,
    data: str,
    split: str,
    rows: int,
    licences: Sequence[str | None],
    text: Iterable[str],
) -> str:
    """Return the text of a dataset card: a header with files, number of rows and licence, and then `text`.

    Args:
        title: The title of the dataset.
        data: The pattern of its files.
        split: The name of the split.
        rows: The number of rows.
        licences: The licences of the data. If there are several, or one that the hub has no name
            for, the header says `other`. If one is None, the header says nothing about licences.
        text: The lines of the text.
    """
    size = next((name for most, name in _SIZES if rows < most), "n>1M")
    return "\n".join(
        [
            "---",
            f"pretty_name: {json.dumps(title, ensure_ascii=False)}",
            *_licence(licences),
            "task_categories: [visual-question-answering]",
            "tags: [evaluation, vision-language]",
            f"size_categories: [{size}]",
            "configs:",
            "- config_name: default",
            "  data_files:",
            f"  - split: {split}",
            f"    path: {data}",
            "---",
            "",
            f"# {title}",
            "",
            *text,
            "",
        ]
    )


def _licence(licences: Sequence[str | None]) -> Iterator[str]:
    distinct = dict.fromkeys(licences)
    known_licences = [licence for licence in distinct if licence]
    if not known_licences or len(known_licences) < len(distinct):
        return
    if len(known_licences) == 1 and known_licences[0].lower() in _LICENCES:
        yield f"license: {known_licences[0].lower()}"
        return
    yield "license: other"
    yield f"license_name: {json.dumps(', '.join(known_licences), ensure_ascii=False)}"


def columns_table(schema: pa.Schema, descriptions: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a Markdown table that describes the columns.

    Args:
        schema: The columns.
        descriptions: Text by name of the column. A name that ends in `_` (such as `tag_`) describes all columns that
            begin with it.
    """
    families = [name for name in descriptions if name.endswith("_")]
    yield "| column | type | what |"
    yield "|---|---|---|"
    for field in schema:
        described_name = field.name
        for family in families:
            if field.name.startswith(family):
                described_name = family
                break
        description = descriptions.get(described_name, "")
        yield f"| `{field.name}` | {_type_name(field.type)} | {description} |"


def _type_name(kind: pa.DataType) -> str:
    if kind == IMAGE:
        return "Image"
    if pa.types.is_list(kind):
        return f"list of {_type_name(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"record of {', '.join(field.name for field in kind)}"
    return str(kind)


# --- benchmarks ------------------------------------------------------------------------------------------------------


_TEXTS = pa.list_(pa.string())
_REGION = pa.struct([("box", pa.list_(pa.float64())), ("label", pa.string())])
_TURN = pa.struct([("question", pa.string()), ("options", _TEXTS)])
_GOLD = pa.struct(
    [
        ("turn", pa.int32()),
        ("options", pa.list_(pa.int32())),
        ("texts", _TEXTS),
        ("relevance", pa.list_(pa.float64())),
        ("candidates", _TEXTS),
    ]
)
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
    "images": "its images, in order",
    "context": "what stands before the question, if anything",
    "question": "the question; empty for a dialogue",
    "options": "its options, in their own order; empty for an open question",
    "turns": "the questions of a dialogue",
    "rewordings": "other wordings of the question",
    "regions": "parts of the image that the question is about, boxes in pixels",
    "group": "what related questions share, by default the image",
    "tag_": "a tag of the question",
    "gold": "for each turn: right options by index, or reference texts; how right each option is, if people said so",
    "replies": "the published replies of a dialogue",
    "gold_tag_": "a tag that gives the answer away",
}


def write_benchmark(job: BenchmarkJob) -> list[Path]:
    """Write a benchmark as a dataset of the hub, and return the paths of its files.

    Raises:
        DataError: If ground truths are to be written but are missing.
        StoreError: If a file cannot be written.
    """
    check_folder(job.path)
    benchmark = job.benchmark
    columns: list[tuple[str, pa.DataType]] = list(_QUESTION)
    for name in sorted(benchmark.manifest.tags):
        columns.append((f"tag_{name}", pa.string()))
    answers: dict[str, list[Answer]] = {}
    histories: Mapping[str, Sequence[str]] = {}
    if job.answers:
        answers = _answers(benchmark)
        columns += [("gold", pa.list_(_GOLD)), ("replies", _TEXTS)]
        for name in sorted(benchmark.manifest.answer_tags):
            columns.append((f"gold_tag_{name}", pa.string()))
        if benchmark.part(HISTORY) is not None:
            histories = benchmark.histories()
    entry = json.dumps(exported_facts(benchmark.spec)).encode()
    schema = pa.schema(columns, {ENTRY_KEY: entry})

    def rows() -> Iterator[dict[str, Any]]:
        for sample in benchmark.samples():
            row = _row(benchmark, sample)
            if job.answers:
                row |= _golds(answers.get(sample.id, []))
            row["replies"] = histories.get(sample.id, ())
            yield row

    files = write_shards(rows(), schema, job.path, SPLIT)
    write_atomically(job.path / CARD, _benchmark_card(job, schema).encode("utf-8", "replace"))
    return [*files, job.path / CARD]


def _answers(benchmark: Benchmark) -> dict[str, list[Answer]]:
    if not has_answers(benchmark.folder):
        raise DataError(
            f"the answers of {benchmark.name} are not here; build it again, or leave {setting('answers')} out"
        )
    if not benchmark.manifest.counts.answers:
        raise DataError(
            f"the answers of {benchmark.name} are hidden; leave {setting('answers')} out"
        )
    return sample_answers(benchmark.folder)


def _row(benchmark: Benchmark, sample: Sample) -> dict[str, Any]:
    """Return a question as a row of the dataset, without its answers."""
    row: dict[str, Any] = {
        "id": sample.id,
        "context": sample.context,
        "question": sample.question,
        "options": sample.options,
        "rewordings": sample.rewordings,
        "group": sample.group,
        "images": [image_cell(image, benchmark.images) for image in sample.images],
        "turns": [asdict(turn) for turn in sample.turns],
        "regions": [asdict(region) for region in sample.regions],
    }
    for name, value in sample.tags.items():
        row[f"tag_{name}"] = value
    return row


def _golds(answers: list[Answer]) -> dict[str, Any]:
    """Return the columns of a question's ground truth: an entry for each turn, and the tags that give it away."""
    columns: dict[str, Any] = {"gold": []}
    for answer in answers:
        columns["gold"].append(
            {
                "turn": answer.turn,
                "options": answer.options,
                "texts": answer.texts,
                "relevance": answer.relevance,
                "candidates": answer.candidates,
            }
        )
        for name, value in answer.tags.items():
            columns[f"gold_tag_{name}"] = value
    return columns


def _benchmark_card(job: BenchmarkJob, schema: pa.Schema) -> str:
    """Return the dataset card of a benchmark: its size, origin and licence, and the columns."""
    manifest = job.benchmark.manifest
    spec = manifest.spec
    counts = manifest.counts
    golds = "Golds are included." if job.answers else "Golds are left out."
    size = f"{counts.samples:,} samples with {counts.questions:,} questions about {counts.images:,} images."
    origin = f"Built {WRITTEN_BY}{__version__} from the entry `{spec.name}`, version `{manifest.version}`"
    settings = [f"{name} = {value}" for name, value in manifest.build_info.recipe.items()]
    if settings:
        origin += f", with {', '.join(settings)}"
    licence = f"Licence of the source: {spec.licence or 'not stated'}."
    return card(
        spec.title,
        data=f"data/{SPLIT}-*.parquet",
        split=SPLIT,
        rows=counts.samples,
        licences=[spec.licence],
        text=[
            f"{size} {golds}",
            f"{origin}. {licence}",
            "",
            *columns_table(schema, _BENCHMARK_COLUMNS),
        ],
    )


# --- the one table of runs -------------------------------------------------------------------------------------------


GOLD_COLUMNS = ("gold", "gold_options", "correct")
_WHAT = {
    "model": "the model that was asked",
    "presentation": "which way of showing the question, from 0",
    "images": "its images, in order, or their SHA-256",
    "gold": "texts of right options, or reference texts",
    "gold_options": "right options by index",
    "order": "which option stood in which place",
    "request": "the messages as sent, [image] for an image",
    "reply": "what came back",
    "chosen": "the option that was read in it, by index",
    "reason": "why nothing was read, where nothing was",
    "tag_": "a tag of the question",
    "score_": "a metric of the question, over all of its presentations",
}


def _write(job: ExportJob) -> list[Path]:
    """Write runs as a dataset of the hub, and return the paths of its files."""
    check_folder(job.path)
    table = sample_table(job.runs).drop("image_paths")  # paths of this machine
    if not job.answers:
        table = table.drop(GOLD_COLUMNS)
    fields = [(field.name, _plain(field.type)) for field in table.to_arrow().schema]
    schema = pa.schema(fields)
    rows: Iterator[Mapping[str, Any]] = table.iter_rows(named=True)
    if job.images:
        image_field = pa.field("images", pa.list_(IMAGE))
        schema = schema.set(schema.get_field_index("images"), image_field)
        rows = _with_images(rows, job)
    files = write_shards(rows, schema, job.path, SPLIT)
    dataset_card = _card(job, table.height, schema)
    write_atomically(job.path / CARD, dataset_card.encode("utf-8", "replace"))
    return [*files, job.path / CARD]


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type of Arrow with 32-bit offsets in place of 64-bit ones, which not every reader supports."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind


def _with_images(rows: Iterator[Mapping[str, Any]], job: ExportJob) -> Iterator[Mapping[str, Any]]:
    """Yield the rows with their images in place of digests. Raises DataError for an image that is not available."""
    stores: dict[str, Images] = {}
    refs: dict[str, ImageRef] = {}
    for run in job.runs:
        for use in run.manifest.benchmarks:
            earlier_stores = [stores[use.name]] if use.name in stores else []
            stores[use.name] = JoinedImages([*earlier_stores, RunImages(use, run.folder)])
        for scored in run.benchmarks:
            for sample in scored.samples.values():
                for image in sample.images:
                    refs[image.digest] = image
    for row in rows:
        store = stores[row["benchmark"]]
        try:
            cells = [image_cell(refs[digest], store) for digest in row["images"]]
        except DataError as error:
            raise DataError(
                f"{row['benchmark']} {row['sample_id']}: {error}; or leave out {setting('images', True)}"
            ) from None
        yield {**row, "images": cells}


def _card(job: ExportJob, rows: int, schema: pa.Schema) -> str:
    """Return the dataset card of runs: what was evaluated, their numbers, and the columns.

    Args:
        job: The runs and their results.
        rows: Number of rows of the dataset.
        schema: Its columns.
    """
    models: dict[str, None] = {}  # in order, each once
    versions: dict[str, str] = {}
    licences: dict[str, str] = {}
    for run in job.runs:
        models[run.manifest.model] = None
        for use in run.manifest.benchmarks:
            versions[use.name] = use.version
        for scored in run.benchmarks:
            licences[scored.spec.name] = scored.spec.licence

    golds = "Golds are included." if job.answers else "Golds are left out."
    lines = [
        f"{rows:,} presentations of questions with the replies to them, how each was read, and the scores; written "
        f"{WRITTEN_BY}{__version__}. {golds}",
        "",
        "| benchmark | version | licence of the source |",
        "|---|---|---|",
    ]
    for name, version in versions.items():
        lines.append(f"| {name} | `{version}` | {licences.get(name) or 'not stated'} |")
    lines += ["", "| model | benchmark | protocol | metric | value |", "|---|---|---|---|---|"]
    lines += _numbers(job.rows)
    lines.append("")
    lines += columns_table(schema, _WHAT)
    return card(
        f"Replies of {', '.join(models)}",
        data=f"data/{SPLIT}-*.parquet",
        split=SPLIT,
        rows=rows,
        licences=list(licences.values()),
        text=lines,
    )


def _numbers(rows: tuple[Result, ...]) -> Iterator[str]:
    """Yield the lines of a Markdown table with the numbers of whole benchmarks."""
    for row in rows:
        is_of_benchmark = not row.slice and row.benchmark != "*"
        if is_of_benchmark and row.estimate.value is not None:
            value = figure_text(row.estimate, row.unit)
            yield f"| {row.model} | {row.benchmark} | {row.protocol} | {row.metric} | {value} |"


EXPORTER = Exporter(
    title="a dataset for the Hugging Face hub, with its card",
    write=_write,
    write_benchmark=write_benchmark,
    for_hub=True,
)
