"""A run as the file that this suite's server takes: `snellen submit RUN -o FILE`."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import read_exchanges, read_manifest


class WrittenLines(Struct, frozen=True):
    """What was written: one line per question."""

    benchmark: str
    protocol: str
    rows: int
    empty: int
    missing: str = ""


def write_lines(
    folder: Path, path: Path, *, benchmark: str = "", protocol: str = "", partial: bool = False
) -> WrittenLines:
    """A line `id = reply` for each question, as first presented. Raises DataError when there is no reply to write."""
    manifest = read_manifest(folder)
    name, label = benchmark or manifest.benchmarks[0].name, protocol or manifest.protocols[0]
    replies: dict[str, str] = {}
    for exchange in read_exchanges(folder):
        if (exchange.request.benchmark, exchange.protocol) == (name, label):
            replies.setdefault(exchange.request.sample_id, exchange.response.text or "")
    if not replies:
        raise DataError(f"{folder} has no reply to {name} by {label}; run it first")
    path.write_text(
        "".join(f"{key} = {reply}\n" for key, reply in sorted(replies.items())), "utf-8"
    )
    return WrittenLines(name, label, len(replies), empty=list(replies.values()).count(""))
