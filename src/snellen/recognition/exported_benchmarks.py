"""Benchmarks that `snellen export --as dataset` wrote: known by their columns, with facts of their entry in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.callers import for_caller
from snellen.catalogue import BenchmarkSpec, dimension_titles
from snellen.common.foreign import regular_file
from snellen.errors import DataError
from snellen.registry import names

PARQUET = ".parquet"
COLUMNS = frozenset({"id", "images", "question", "options", "turns", "rewordings", "group"})
"""Columns that together occur in no other table."""
COLUMNS_OF_RUNS = frozenset({"sample_id", "presentation", "request", "reply", "extraction_method"})
"""The same of the dataset of a run."""
ENTRY_KEY = b"snellen.entry"
"""Key of the facts in the metadata of the Parquet files."""
FACTS = (
    "title", "formulation", "dimension", "task", "split", "metrics", "headline", "mean_over", "counted_together",
    "mean_of", "licence", "agreement", "citation", "url", "max_new_tokens", "likelihood_rule", "groups", "same_requests",
    "topics", "prompts", "templates", "generation", "likelihood",
)  # fmt: skip
"""Fields of an entry that a dataset keeps: what decides how it is asked and scored, and whose it is."""


class ExportedBenchmark(Struct, frozen=True):
    """A benchmark that was exported as a dataset: its size, and the facts about it that the dataset contains."""

    rows: int
    has_answers: bool
    facts: dict[str, Any]
    """Fields of its entry. One that names what is not installed here is left out."""


def exported_facts(spec: BenchmarkSpec) -> dict[str, Any]:
    """Return the fields of a benchmark's entry that an exported dataset contains, as plain data.

    An entry is the description of a benchmark.

    Examples:
        >>> from snellen.catalogue import entries
        >>> exported_facts(entries()["eyechart/shape"])["title"]
        'Which shape is it?'
    """
    facts = {name: msgspec.to_builtins(getattr(spec, name)) for name in FACTS}
    return {name: value for name, value in facts.items() if value}


def read_exported(path: Path) -> ExportedBenchmark | None:
    """Return what an exported dataset says about its benchmark; None if a file is no such dataset.

    Args:
        path: A Parquet file, or a pattern for several.

    Raises:
        DataError: The file has the replies of a run and not a benchmark, or its facts are damaged.
    """
    if path.suffix.lower() != PARQUET:
        return None
    import pyarrow as pa  # takes 0.1 s, which other files do not need
    import pyarrow.parquet as pq

    rows = 0
    schema: pa.Schema | None = None
    for file in sorted(path.parent.glob(path.name)):
        try:
            with pq.ParquetFile(regular_file(file)) as parquet:
                schema = parquet.schema_arrow
                rows += parquet.metadata.num_rows
        except (pa.ArrowException, OSError):
            return None
        if set(schema.names) >= COLUMNS_OF_RUNS:
            export = for_caller(
                "`snellen export NAME --as dataset --answers`",
                "sn.export_benchmark(NAME, answers=True)",
            )
            raise DataError(
                f"{path}: these are the replies of a run; export its benchmark with {export}"
            )
        if not set(schema.names) >= COLUMNS:
            return None
    if schema is None:
        return None
    content = (schema.metadata or {}).get(ENTRY_KEY, b"{}")
    return ExportedBenchmark(rows, "gold" in schema.names, _known_facts(content, path))


def _known_facts(content: bytes, path: Path) -> dict[str, Any]:
    """Return the facts in an exported dataset, as fields of an entry.

    Names of metrics, protocols, prompts and dimensions that this installation does not have are
    left out.
    """
    try:
        written = msgspec.json.decode(content, type=dict[str, Any])
        plain = {name: written[name] for name in FACTS if name in written}
        needed = {"name": "exported", "source": {"reader": "exported"}}
        defaults = {"title": "", "formulation": "choice"}
        spec = msgspec.convert(defaults | plain | needed, BenchmarkSpec)
    except msgspec.MsgspecError as error:
        raise DataError(
            f"{path}: its facts are damaged ({error}); export the benchmark again"
        ) from None
    if spec.max_new_tokens < 1:
        raise DataError(
            f"{path}: its facts are damaged (max_new_tokens is {spec.max_new_tokens}); export the benchmark again"
        )
    facts = {name: getattr(spec, name) for name in plain}
    # A metric that is code of the one who exported it is not run by who receives it.
    if not set(spec.metrics) <= set(names("metrics")):
        facts.pop("metrics", None)
        facts.pop("headline", None)
        facts.pop("mean_of", None)
    for method in ("generation", "likelihood"):
        protocols = {label.partition("?")[0] for label in getattr(spec, method)}
        if not protocols <= set(names("protocols")):
            facts.pop(method, None)
    if spec.templates not in spec.prompts:
        facts.pop("templates", None)
    if spec.dimension not in dimension_titles():
        facts.pop("dimension", None)
    return facts
