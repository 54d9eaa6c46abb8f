"""The replies of a run as a file of predictions, without answers: what `snellen publish` sends to a leaderboard.

A line of JSON for each presentation: `benchmark`, `id`, `turn` of a dialogue, `options` in the order shown with their
`labels`, and `prediction`, the reply as it came.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from email.message import Message
from http.client import HTTPResponse
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request

import msgspec
from msgspec import Struct

from snellen.callers import for_caller, setting
from snellen.common.addresses import open_address
from snellen.common.foreign import Allowance
from snellen.errors import DataError, StoreError
from snellen.interchange.predictions.rows import count_named
from snellen.protocols.base import labelled_declaration, parse_protocol
from snellen.records import Exchange, Sample
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import RunManifest, read_manifest

Key = tuple[str, str, int]
"""Benchmark, sample and round."""


class PackedPredictions(Struct, frozen=True):
    """What is uploaded, and of how many questions it is."""

    content: bytes
    rows: int
    protocol: str
    manifest: RunManifest
    questions_by_benchmark: dict[str, int]
    """How many questions of each benchmark it has replies to; a round of a dialogue is one."""
    replies_each: tuple[int, ...]
    """How many replies one question has: all different numbers of them, from the least."""


def pack_predictions(
    run: Path, protocol: str = "", benchmarks: Collection[str] = ()
) -> PackedPredictions:
    """The replies of a run under one protocol, to all of its benchmarks or only to these. Answers are not opened.

    Raises StoreError for a folder that is not a run, and DataError for a protocol that the run does not have or whose
    answers are not replies, for benchmarks that were not asked by it, and for questions without a reply.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> folder = results.runs[0].folder
        >>> pack_predictions(folder).protocol
        'vanilla'
    """
    manifest = read_manifest(run)
    label = _chosen(manifest, protocol)
    samples = {
        use.name: {
            sample.id: sample for sample in reopen_benchmark(use, run).samples(use.selection)
        }
        for use in manifest.benchmarks
        if (not use.protocols or label in use.protocols)
        and (not benchmarks or use.name in benchmarks)
    }
    if absent := [name for name in benchmarks if name not in samples]:
        raise DataError(f"{run} has not asked {', '.join(absent)} by {label}")
    replies = _replies(run, label)
    applies = parse_protocol(label).applies
    expected = [
        (name, sample.id, turn)
        for name, benchmark_samples in samples.items()
        for sample in benchmark_samples.values()
        if applies(sample)
        for turn in range(len(sample.rounds))
    ]
    if unanswered := [
        f"{name} {sample}" for name, sample, turn in expected if (name, sample, turn) not in replies
    ]:
        raise DataError(
            f"{run} has no reply to some questions: {count_named(unanswered)}; the same `snellen run` asks them again"
        )
    lines = [
        msgspec.json.encode(_row(exchange, samples[key[0]][key[1]]))
        for key in expected
        for exchange in replies[key]
    ]
    content = b"".join(line + b"\n" for line in lines)
    replies_each = sorted({len(replies[key]) for key in expected})
    asked = Counter(name for name, _, _ in expected)
    return PackedPredictions(content, len(lines), label, manifest, dict(asked), tuple(replies_each))


def _chosen(manifest: RunManifest, protocol: str) -> str:
    label = parse_protocol(protocol).label if protocol else manifest.protocols[0]
    if label not in manifest.protocols or (not protocol and len(manifest.protocols) > 1):
        raise DataError(
            f"name one protocol of this run with {setting('protocol')}: {', '.join(manifest.protocols)}"
        )
    if parse_protocol(label).method != "generation" or labelled_declaration(label).conclude:
        raise DataError(
            f"the answers of {label} are not replies of one model; publish a protocol that asks for replies"
        )
    return label


def _replies(run: Path, label: str) -> dict[Key, Sequence[Exchange]]:
    """The last answered exchange of each presentation, in order of their numbers."""
    exchanges: dict[Key, dict[Any, Exchange]] = {}
    for exchange in read_exchanges(run):
        request = exchange.request
        variant = request.variant
        is_reply = exchange.response.error is None and exchange.response.text is not None
        if (
            exchange.protocol == label
            and is_reply
            and not variant.baseline
            and variant.step is None
        ):
            exchanges.setdefault((request.benchmark, request.sample_id, variant.turn), {})[
                variant
            ] = exchange
    return {
        key: sorted(by_variant.values(), key=lambda exchange: exchange.request.variant.test)
        for key, by_variant in exchanges.items()
    }


def _row(exchange: Exchange, sample: Sample) -> dict[str, Any]:
    variant = exchange.request.variant
    options = sample.rounds[variant.turn].options
    shown_options = (
        {"options": [options[place] for place in variant.order]} if variant.order else {}
    )
    labels = {"labels": variant.labels} if variant.order and variant.labels else {}
    turn = {"turn": variant.turn} if sample.turns else {}
    place = {"benchmark": exchange.request.benchmark, "id": sample.id}
    return {**place, **turn, **shown_options, **labels, "prediction": exchange.response.text}


# --- sending to a leaderboard ----------------------------------------------------------------------------------------


SECONDS = 120.0
MOST_BYTES = 16 << 20
SLOWEST_UPLOAD = 20_000
"""Bytes a second of an upload that is waited for."""
T = TypeVar("T")


class BoardQuestions(Struct, frozen=True):
    """A benchmark of a board, how many questions it has, and the beginning of their digest."""

    name: str
    n_questions: int
    questions: str


class BoardHere(Struct, frozen=True):
    """A board of the server."""

    name: str
    title: str
    benchmarks: tuple[BoardQuestions, ...]
    presentations: int
    """How many replies to each question it takes."""


class SentSubmission(Struct, frozen=True):
    """What the server says of a submission that it has taken."""

    id: str
    address: str
    state: str


class _NoRedirects(HTTPRedirectHandler):
    """A key is sent to the server that was named, and to no other."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class LeaderboardClient:
    """One server's leaderboard. Raises DataError for an address over which a key would be readable on its way."""

    def __init__(self, url: str, token: str) -> None:
        address = urlsplit(url)
        if address.scheme != "https" and not (
            address.scheme == "http" and _is_this_machine(address.hostname or "")
        ):
            raise DataError(
                f"{for_caller('--to ', '')}{url} would send your key unencrypted; write https://HOST"
            )
        self.url = f"{address.scheme}://{address.netloc}{address.path.rstrip('/')}"
        self._token = token

    def boards(self) -> list[BoardHere]:
        """What may be submitted to. Raises StoreError when the server cannot be reached or refuses."""
        return self._ask("/api/v1/boards", list[BoardHere])

    def submit(self, board: str, content: bytes, fields: Mapping[str, str]) -> SentSubmission:
        """Upload predictions as JSONL with what is declared of the model. Raises StoreError, as above."""
        boundary = secrets.token_hex(16)
        body = _multipart(boundary, content, fields)
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
        return self._ask(
            f"/api/v1/boards/{quote(board)}/submissions", SentSubmission, body, headers
        )

    def _ask(
        self,
        path: str,
        kind: type[T],
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        request_headers = {
            "authorization": f"Bearer {self._token}",
            "accept": "application/json",
            **(headers or {}),
        }
        request = Request(f"{self.url}{path}", body, request_headers)  # noqa: S310  # the scheme was checked
        seconds = SECONDS + len(body or b"") / SLOWEST_UPLOAD
        try:
            answer: HTTPResponse
            with open_address(
                request, Allowance(MOST_BYTES, seconds, self.url), _NoRedirects()
            ) as answer:
                return msgspec.json.decode(answer.read(MOST_BYTES), type=kind)
        except HTTPError as error:
            with error:
                raise StoreError(
                    f"{self.url} refuses ({error.code}): {_reason(error.read(MOST_BYTES))}"
                ) from None
        except (URLError, OSError) as error:
            raise StoreError(
                f"{self.url} cannot be reached ({getattr(error, 'reason', error)}); check the address"
            ) from None
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{self.url}{path} is not a leaderboard of Snellen ({error}); check the address"
            ) from None


def _multipart(boundary: str, content: bytes, fields: Mapping[str, str]) -> bytes:
    parts = [
        f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
        if value
    ]
    file = f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="predictions.jsonl"\r\n'
    kind = "content-type: application/octet-stream\r\n\r\n"
    return b"".join([*parts, f"{file}{kind}".encode(), content, f"\r\n--{boundary}--\r\n".encode()])


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "it does not say why; is it a Snellen server?"


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
