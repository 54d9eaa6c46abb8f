"""A server on loopback with the batch endpoints of OpenAI and of Anthropic, as their references publish them.

OpenAI: POST /files, POST /batches, GET /batches[/ID], POST /batches/ID/cancel, GET /files/ID/content.
Anthropic: POST /messages/batches, GET /messages/batches[/ID][/results], POST /messages/batches/ID/cancel.
Both also answer the same requests alone. A test says what becomes of a request (`fate`), and when batches end (`held`).
"""

from __future__ import annotations

import email.parser
import email.policy
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
KEY = "sk-batch-test-4821"
ANSWERED = "answered"
BUSY = "busy"
"""The request fails for a reason that may pass."""
BAD = "bad"
"""The request is refused, whatever is done."""
EXPIRED = "expired"
NO_TEMPERATURE = "no temperature"
"""The request is refused if it has a temperature."""


class Batch:
    """A batch that the service has accepted."""

    def __init__(self, name: str, requests: list[tuple[str, Json]], metadata: Json) -> None:
        self.id = name
        self.requests = requests
        self.metadata = metadata
        self.created = time.time()
        self.is_cancelled = False
        self.results: list[tuple[str, str, Json]] | None = None
        """Id, fate and body of each request, once the batch has ended."""


class BatchService:
    """What the services hold, and what a test says about them."""

    def __init__(self) -> None:
        self.url = ""
        self.held = False
        """Whether batches stay in progress."""
        self.fate: Callable[[Json, int], str] = lambda body, times: ANSWERED
        """What becomes of a request, from its body and how often it came in a batch before."""
        self.refusal: Json | None = None
        """The error with which the next batch of OpenAI fails as a whole."""
        self.most_requests = 50_000
        self.hangs_after_accepting = False
        """Whether an accepted batch is not answered, as when the client is killed or the line breaks."""
        self.faults_of_creation = 0
        """How many creations of batches fail before anything is accepted."""
        self.faults_of_results = 0
        """How many times results cannot be fetched."""
        self.accepted = threading.Event()
        self.lists_batches = True
        self.batches: dict[str, Batch] = {}
        self.files: dict[str, str] = {}
        self.paid = Counter[str]()
        """How often each body was answered, alone or in a batch."""
        self.alone: list[Json] = []
        """Bodies that were sent alone."""
        self.tries = Counter[str]()
        self.lock = threading.Lock()

    # --- what both services do ---

    def accept(self, requests: list[tuple[str, Json]], metadata: Json, prefix: str) -> Batch:
        ids = [custom_id for custom_id, _ in requests]
        assert len(set(ids)) == len(ids), "custom_id must be unique"
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in ids)
        batch = Batch(f"{prefix}{len(self.batches) + 1}", requests, metadata)
        self.batches[batch.id] = batch
        self.accepted.set()
        return batch

    def carry_out(self, batch: Batch) -> None:
        """End a batch, unless it is held."""
        if batch.results is not None or (self.held and not batch.is_cancelled):
            return
        if self.is_refused(batch):
            return
        batch.results = []
        for custom_id, body in batch.requests:
            name = digest(body)
            fate = "cancelled" if batch.is_cancelled else self.fate(body, self.tries[name])
            self.tries[name] += 1
            if fate == NO_TEMPERATURE:
                fate = NO_TEMPERATURE if "temperature" in body else ANSWERED
            if fate == ANSWERED:
                self.paid[name] += 1
            batch.results.append((custom_id, fate, body))

    def is_refused(self, batch: Batch) -> bool:
        return self.refusal is not None and len(batch.requests) > self.most_requests

    def answer_alone(self, body: Json, reply: Callable[[], Json]) -> tuple[int, Json]:
        self.alone.append(body)
        fate = self.fate(body, 0)
        if fate == NO_TEMPERATURE and "temperature" in body:
            return 400, {"error": unsupported_temperature()}
        self.paid[digest(body)] += 1
        return 200, reply()

    def is_failing_with_results(self) -> bool:
        fails = self.faults_of_results > 0
        self.faults_of_results -= fails
        return fails

    # --- OpenAI ---

    def openai(self, method: str, path: str, body: bytes, headers: Json) -> tuple[int, Any]:
        if headers.get("authorization") != f"Bearer {KEY}":
            return 401, {"error": {"message": f"Incorrect API key {headers.get('authorization')}"}}
        if (method, path) == ("GET", "/models"):
            return 200, {"object": "list", "data": []}
        if (method, path) == ("POST", "/chat/completions"):
            return self.answer_alone(json.loads(body), chat_completion)
        if (method, path) == ("POST", "/files"):
            name = f"file-{len(self.files) + 1}"
            self.files[name] = read_upload(headers["content-type"], body)
            return 200, {"id": name, "object": "file", "purpose": "batch"}
        if (method, path) == ("POST", "/batches"):
            return self.create_openai(json.loads(body))
        if path.endswith("/content") and self.is_failing_with_results():
            return 500, {"error": {"message": "Try again."}}
        if method == "GET" and path.startswith("/files/"):
            return 200, self.files[path.split("/")[2]]
        if method == "GET" and path.partition("?")[0] == "/batches":
            if not self.lists_batches:
                return 404, {"error": {"message": "Not Found"}}
            shown = [self.openai_batch(batch) for batch in reversed(self.batches.values())]
            return 200, {"object": "list", "data": shown, "has_more": False}
        batch = self.batches[path.split("/")[2]]
        if path.endswith("/cancel"):
            if batch.results is not None:
                return 409, {"error": {"message": "Cannot cancel a completed batch."}}
            batch.is_cancelled = True
        else:
            self.carry_out(batch)
        return 200, self.openai_batch(batch)

    def create_openai(self, asked: Json) -> tuple[int, Json]:
        assert asked["endpoint"] == "/v1/chat/completions"
        assert asked["completion_window"] == "24h"
        requests = []
        for line in self.files[asked["input_file_id"]].splitlines():
            request = json.loads(line)
            assert set(request) == {"custom_id", "method", "url", "body"}
            assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
            requests.append((request["custom_id"], request["body"]))
        batch = self.accept(requests, asked["metadata"], "batch_")
        return 200, self.openai_batch(batch)

    def openai_batch(self, batch: Batch) -> Json:
        shown: Json = {
            "id": batch.id,
            "object": "batch",
            "metadata": batch.metadata,
            "created_at": int(batch.created),
            "status": "cancelling" if batch.is_cancelled else "in_progress",
            "request_counts": {"total": len(batch.requests), "completed": 0, "failed": 0},
        }
        if self.is_refused(batch):
            return {
                **shown,
                "status": "failed",
                "errors": {"object": "list", "data": [self.refusal]},
            }
        if batch.results is None:
            return shown
        fates = {fate for _, fate, _ in batch.results}
        status = (
            "expired" if EXPIRED in fates else "cancelled" if batch.is_cancelled else "completed"
        )
        output = [openai_line(each) for each in batch.results if is_answered(each)]
        errors = [openai_line(each) for each in batch.results if not is_answered(each)]
        shown["status"] = status
        for field, lines in (("output_file_id", output), ("error_file_id", errors)):
            shown[field] = None
            if lines:
                name = f"{field}-{batch.id}"
                self.files[name] = "".join(f"{json.dumps(line)}\n" for line in reversed(lines))
                shown[field] = name
        return shown

    # --- Anthropic ---

    def anthropic(self, method: str, path: str, body: bytes, headers: Json) -> tuple[int, Any]:
        if headers.get("x-api-key") != KEY or headers.get("anthropic-version") != "2023-06-01":
            error = {"type": "authentication_error", "message": "invalid x-api-key"}
            return 401, {"type": "error", "error": error}
        if (method, path) == ("POST", "/messages"):
            return self.answer_alone(json.loads(body), anthropic_message)
        if (method, path) == ("POST", "/messages/batches"):
            if self.faults_of_creation:
                self.faults_of_creation -= 1
                return 500, {"error": {"type": "api_error", "message": "Internal server error"}}
            asked = json.loads(body)
            requests = [(each["custom_id"], each["params"]) for each in asked["requests"]]
            return 200, self.anthropic_batch(self.accept(requests, {}, "msgbatch_"))
        if method == "GET" and path.partition("?")[0] == "/messages/batches":
            shown = [self.anthropic_batch(batch) for batch in reversed(self.batches.values())]
            return 200, {"data": shown, "has_more": False, "first_id": None, "last_id": None}
        batch = self.batches[path.split("/")[3]]
        if path.endswith("/results"):
            assert batch.results is not None
            lines = [anthropic_line(each) for each in reversed(batch.results)]
            return 200, "".join(f"{json.dumps(line)}\n" for line in lines)
        if path.endswith("/cancel"):
            batch.is_cancelled = True
        else:
            self.carry_out(batch)
        return 200, self.anthropic_batch(batch)

    def anthropic_batch(self, batch: Batch) -> Json:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if batch.results is None:
            counts["processing"] = len(batch.requests)
        for _, fate, _ in batch.results or ():
            kind = {ANSWERED: "succeeded", EXPIRED: "expired", "cancelled": "canceled"}
            counts[kind.get(fate, "errored")] += 1
        created = datetime.fromtimestamp(batch.created, UTC).isoformat()
        status = "canceling" if batch.is_cancelled else "in_progress"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": status if batch.results is None else "ended",
            "request_counts": counts,
            "created_at": created,
            "results_url": None if batch.results is None else f"{self.url}/elsewhere",
        }


def is_answered(result: tuple[str, str, Json]) -> bool:
    return result[1] == ANSWERED


def digest(body: Json) -> str:
    """What a body asks, whatever settings it was sent with."""
    return json.dumps(body["messages"], sort_keys=True)


def unsupported_temperature() -> Json:
    return {
        "message": "Unsupported value: 'temperature' does not support 0 with this model.",
        "type": "invalid_request_error",
        "param": "temperature",
        "code": "unsupported_value",
    }


def chat_completion() -> Json:
    return {
        "id": "chatcmpl-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "A"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010},
    }


def anthropic_message() -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "A"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1000, "output_tokens": 10},
    }


def openai_line(result: tuple[str, str, Json]) -> Json:
    custom_id, fate, _ = result
    line: Json = {"id": "batch_req_1", "custom_id": custom_id, "response": None, "error": None}
    if fate in (EXPIRED, "cancelled"):
        line["error"] = {"code": f"batch_{fate}", "message": f"This request was {fate}."}
        return line
    status, body = 200, chat_completion()
    if fate == BUSY:
        status, body = 500, {"error": {"message": f"The server had an error, {KEY}"}}
    elif fate == BAD:
        status, body = 400, {"error": {"message": "Invalid image.", "code": "invalid_image"}}
    elif fate == NO_TEMPERATURE:
        status, body = 400, {"error": unsupported_temperature()}
    line["response"] = {"status_code": status, "request_id": "req_1", "body": body}
    return line


def anthropic_line(result: tuple[str, str, Json]) -> Json:
    custom_id, fate, _ = result
    if fate == ANSWERED:
        return {
            "custom_id": custom_id,
            "result": {"type": "succeeded", "message": anthropic_message()},
        }
    if fate in (EXPIRED, "cancelled"):
        kind = "canceled" if fate == "cancelled" else fate
        return {"custom_id": custom_id, "result": {"type": kind}}
    error = {"type": "api_error", "message": "Internal server error"}
    if fate != BUSY:
        error = {"type": "invalid_request_error", "message": "messages.0: image is not valid"}
    body = {"type": "error", "error": error, "request_id": None}
    return {"custom_id": custom_id, "result": {"type": "errored", "error": body}}


def read_upload(content_type: str, body: bytes) -> str:
    """The file of a multipart form with the purpose batch, read by Python's own parser."""
    head = f"content-type: {content_type}\r\n\r\n".encode()
    form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    fields = {
        part.get_param("name", header="content-disposition"): part for part in form.iter_parts()
    }
    assert fields["purpose"].get_content().strip() == "batch"
    assert fields["file"].get_filename().endswith(".jsonl")
    return fields["file"].get_payload(decode=True).decode()


@contextmanager
def batch_service() -> Iterator[BatchService]:
    """A server for the block; its addresses are `url` (OpenAI, /v1) and `url` with /anthropic in place of /v1."""
    service = BatchService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            _, form, path = self.path.split("/", 2)
            speak = service.openai if form == "v1" else service.anthropic
            with service.lock:
                status, content = speak(self.command, f"/{path}", body, headers)
            created = self.command == "POST" and path.endswith("batches")
            if created and service.hangs_after_accepting:
                time.sleep(600)
            text = content if isinstance(content, str) else json.dumps(content)
            self.send_response(status)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = handle_request  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    service.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
