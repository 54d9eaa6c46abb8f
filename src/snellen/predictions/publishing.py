"""The replies of a run as a file of predictions, without answers: what `snellen publish` uploads.

A line of JSON for each presentation: `benchmark`, `id`, `turn` of a dialogue, `options` in the order shown with their
`labels`, and `prediction`, the reply as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.predictions.rows import count_named
from snellen.protocols.base import labelled_declaration, parse_protocol
from snellen.records import Exchange, Sample
from snellen.runs.journal import RunManifest, read_exchanges, read_manifest
from snellen.runs.own_questions import reopen_benchmark

Key = tuple[str, str, int]
"""Benchmark, sample and round."""


class PackedPredictions(Struct, frozen=True):
    """What is uploaded, and of which questions it is."""

    content: bytes
    rows: int
    protocol: str
    manifest: RunManifest
    questions: dict[str, str]
    """The digest of its questions by benchmark."""


def pack_predictions(run: Path, protocol: str = "") -> PackedPredictions:
    """The replies of a run under one protocol. Answers are not opened.

    Raises StoreError for a folder that is no run, and DataError for a protocol that the run has not or whose answers
    are no replies, and for questions without a reply.
    """
    manifest = read_manifest(run)
    label = _chosen(manifest, protocol)
    samples = {
        use.name: {sample.id: sample for sample in reopen_benchmark(use, run).samples(use.selection)}
        for use in manifest.benchmarks
        if not use.protocols or label in use.protocols
    }
    replies = _replies(run, label)
    applies = parse_protocol(label).applies
    expected = [
        (name, sample.id, turn)
        for name, some in samples.items()
        for sample in some.values()
        if applies(sample)
        for turn in range(len(sample.rounds))
    ]
    if lost := [f"{name} {sample}" for name, sample, turn in expected if (name, sample, turn) not in replies]:
        raise DataError(
            f"{run} has no reply to some questions: {count_named(lost)}; the same `snellen run` asks them again"
        )
    lines = [
        msgspec.json.encode(_row(exchange, samples[key[0]][key[1]])) for key in expected for exchange in replies[key]
    ]
    content = b"".join(line + b"\n" for line in lines)
    questions = {use.name: use.questions for use in manifest.benchmarks if use.name in samples}
    return PackedPredictions(content, len(lines), label, manifest, questions)


def _chosen(manifest: RunManifest, protocol: str) -> str:
    label = parse_protocol(protocol).label if protocol else manifest.protocols[0]
    if label not in manifest.protocols or (not protocol and len(manifest.protocols) > 1):
        raise DataError(f"name one protocol of this run with --protocol: {', '.join(manifest.protocols)}")
    if parse_protocol(label).method != "generation" or labelled_declaration(label).conclude:
        raise DataError(f"the answers of {label} are no replies of one model; publish a protocol that asks for replies")
    return label


def _replies(run: Path, label: str) -> dict[Key, Sequence[Exchange]]:
    """The last answered exchange of each presentation, in order of their numbers."""
    found: dict[Key, dict[Any, Exchange]] = {}
    for exchange in read_exchanges(run):
        request = exchange.request
        variant = request.variant
        is_reply = exchange.response.error is None and exchange.response.text is not None
        if exchange.protocol == label and is_reply and not variant.baseline and variant.step is None:
            found.setdefault((request.benchmark, request.sample_id, variant.turn), {})[variant] = exchange
    return {key: sorted(some.values(), key=lambda one: one.request.variant.test) for key, some in found.items()}


def _row(exchange: Exchange, sample: Sample) -> dict[str, Any]:
    variant = exchange.request.variant
    options = sample.rounds[variant.turn].options
    shown = {"options": [options[place] for place in variant.order]} if variant.order else {}
    labels = {"labels": variant.labels} if variant.order and variant.labels else {}
    turn = {"turn": variant.turn} if sample.turns else {}
    place = {"benchmark": exchange.request.benchmark, "id": sample.id}
    return {**place, **turn, **shown, **labels, "prediction": exchange.response.text}
