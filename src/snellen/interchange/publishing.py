"""The replies of a run as a file of predictions, without answers: what `snellen publish` sends to a leaderboard.

A line of JSON for each presentation: `benchmark`, `id`, `turn` of a dialogue, `options` in the order shown with their
`labels`, and `prediction`, the reply as it came.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter, defaultdict
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
from snellen.records import Exchange, Sample, Variant
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
    """Return the replies of a run under one protocol as lines of JSON. The answers of the benchmarks are not opened.

    Args:
        run: Folder of the run.
        protocol: The protocol; may be empty if the run has only one.
        benchmarks: Names of benchmarks; if empty, all of the run.

    Raises:
        StoreError: If the folder is not a run.
        DataError: If the run does not have the protocol, the answers under it are not replies, a benchmark was not
            evaluated under it, or a question has no reply.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> folder = results.runs[0].folder
        >>> pack_predictions(folder).protocol
        'vanilla'
    """
    manifest = read_manifest(run)
    label = _chosen(manifest, protocol)
    samples: dict[str, dict[str, Sample]] = {}
    for use in manifest.benchmarks:
        is_under_protocol = not use.protocols or label in use.protocols
        is_wanted = not benchmarks or use.name in benchmarks
        if is_under_protocol and is_wanted:
            evaluated = reopen_benchmark(use, run).samples(use.selection)
            samples[use.name] = {sample.id: sample for sample in evaluated}
    absent = [name for name in benchmarks if name not in samples]
    if absent:
        raise DataError(f"{run} has not asked {', '.join(absent)} by {label}")

    replies = _replies(run, label)
    applies = parse_protocol(label).applies
    lines: list[bytes] = []
    unanswered: list[str] = []
    n_questions: Counter[str] = Counter()
    numbers_of_replies: set[int] = set()
    for name, samples_of_benchmark in samples.items():
        for sample in samples_of_benchmark.values():
            if not applies(sample):
                continue
            for turn in range(len(sample.rounds)):
                exchanges = replies.get((name, sample.id, turn))
                if exchanges is None:
                    unanswered.append(f"{name} {sample.id}")
                    continue
                n_questions[name] += 1
                numbers_of_replies.add(len(exchanges))
                for exchange in exchanges:
                    lines.append(msgspec.json.encode(_row(exchange, sample)) + b"\n")
    if unanswered:
        raise DataError(
            f"{run} has no reply to some questions: {count_named(unanswered)}; the same `snellen run` asks them again"
        )
    return PackedPredictions(
        b"".join(lines),
        len(lines),
        label,
        manifest,
        dict(n_questions),
        tuple(sorted(numbers_of_replies)),
    )


def _chosen(manifest: RunManifest, protocol: str) -> str:
    """Return the label of the protocol to publish: the named one, or the only one of a run.

    Raises:
        DataError: If the run does not have it, has several and none is named, or its answers are not replies.
    """
    label = parse_protocol(protocol).label if protocol else manifest.protocols[0]
    is_ambiguous = not protocol and len(manifest.protocols) > 1
    if is_ambiguous or label not in manifest.protocols:
        raise DataError(
            f"name one protocol of this run with {setting('protocol')}: {', '.join(manifest.protocols)}"
        )
    is_concluded = labelled_declaration(label).conclude
    if is_concluded or parse_protocol(label).method != "generation":
        raise DataError(
            f"the answers of {label} are not replies of one model; publish a protocol that asks for replies"
        )
    return label


def _replies(run: Path, label: str) -> dict[Key, Sequence[Exchange]]:
    """Return the last answered exchange of each presentation (one way of showing a question), by question.

    Args:
        run: Folder of the run.
        label: Label of the protocol.

    Returns:
        For each question, its exchanges in the order of their presentation numbers.
    """
    exchanges: dict[Key, dict[Variant, Exchange]] = defaultdict(dict)
    for exchange in read_exchanges(run):
        variant = exchange.request.variant
        if exchange.protocol != label or variant.baseline or variant.step is not None:
            continue
        if exchange.response.error is not None or exchange.response.text is None:
            continue
        question = (exchange.request.benchmark, exchange.request.sample_id, variant.turn)
        exchanges[question][variant] = exchange

    def presentation_number(exchange: Exchange) -> int:
        return exchange.request.variant.test

    replies: dict[Key, Sequence[Exchange]] = {}
    for question, by_variant in exchanges.items():
        replies[question] = sorted(by_variant.values(), key=presentation_number)
    return replies


def _row(exchange: Exchange, sample: Sample) -> dict[str, Any]:
    """Return the line of a reply: benchmark, sample, round of a dialogue, options as shown, and the reply."""
    variant = exchange.request.variant
    row: dict[str, Any] = {"benchmark": exchange.request.benchmark, "id": sample.id}
    if sample.turns:
        row["turn"] = variant.turn
    if variant.order:
        options = sample.rounds[variant.turn].options
        row["options"] = [options[index] for index in variant.order]
        if variant.labels:
            row["labels"] = variant.labels
    row["prediction"] = exchange.response.text
    return row


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
        is_encrypted = address.scheme == "https"
        is_local = address.scheme == "http" and _is_this_machine(address.hostname or "")
        if not (is_encrypted or is_local):
            raise DataError(
                f"{for_caller('--to ', '')}{url} would send your key unencrypted; write https://HOST"
            )
        self.url = f"{address.scheme}://{address.netloc}{address.path.rstrip('/')}"
        self._token = token

    def boards(self) -> list[BoardHere]:
        """Return the boards that take submissions. Raises StoreError if the server cannot be reached or refuses."""
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
    """Return the body of a form with text fields and a file of predictions (multipart/form-data, RFC 7578).

    Args:
        boundary: Text that separates the parts and does not occur in them.
        content: The file.
        fields: The other fields by name. Empty ones are left out.
    """
    body = bytearray()
    for name, value in fields.items():
        if value:
            head = f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n'
            body += f"{head}{value}\r\n".encode()
    head_of_file = (
        f"--{boundary}\r\n"
        'content-disposition: form-data; name="file"; filename="predictions.jsonl"\r\n'
        "content-type: application/octet-stream\r\n\r\n"
    )
    body += head_of_file.encode()
    body += content
    body += f"\r\n--{boundary}--\r\n".encode()
    return bytes(body)


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
