"""Serve a model of your own, in its own environment, to Snellen: one file, standard library and Pillow.

    python worker.py my_model.py:MyModel --port 9000

`MyModel` is any class with `generate(messages, images, **decoding) -> str`, and optionally
`loglikelihood(messages, images, continuations)`, which returns for each continuation one number (the
summed log-likelihood in nats) or one pair (sum, number of tokens). It is then evaluated from anywhere as
`openai:MyModel@http://127.0.0.1:9000/v1`, by every protocol. The file imports nothing of Snellen and
runs on Python 3.8, so it can be copied into the environment of any checkpoint.

Arguments of these methods: `messages` in the format of transformers' chat templates, each with a `role`
and a list `content` of `{"type": "text", "text": ...}` and `{"type": "image"}`; `images`, RGB Pillow images
in the order of those parts; `decoding`: max_new_tokens, temperature, top_p, seed, stop. Calls are made
one at a time.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import importlib.util
import inspect
import io
import json
import math
import struct
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from PIL import Image

DECODING = ("max_new_tokens", "temperature", "top_p", "seed", "stop")
"""What `generate` is told besides messages and images."""
VERSION = 1
"""Version of the extension announced by /v1/models and served by /v1/loglikelihood."""
IMPOSSIBLE = -1e30
"""Sent for a log-likelihood of minus infinity, which JSON cannot write; it ranks last."""
MOST_BYTES = 256 << 20
"""Largest request body accepted."""
PLAIN_MODES = frozenset({"1", "L", "P", "RGB"})
"""Pillow's modes of the images that every program decodes to the same pixels."""
ORIENTATION = 0x0112
"""The EXIF tag that says how an image is to be turned; 1 is upright."""


class RequestError(Exception):
    """A request that cannot be answered: HTTP status and a one-line message."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


def _check_opener(opener: Any, target: str) -> None:
    """Raise SystemExit for a class or function that cannot be called without arguments."""
    try:
        inspect.signature(opener).bind()
    except TypeError:
        needed = inspect.signature(opener)
        raise SystemExit(
            f"worker: {target} takes {needed}, but is called with nothing; name a class without arguments. A function "
            f"f(question, images) needs no worker: `snellen run {target} BENCHMARK`"
        ) from None
    except ValueError:  # a class of C has no signature
        pass


def load(target: str) -> Any:
    """Return the object named by `file.py:Name` or `package.module:Name`; a class or function is called.

    Raises SystemExit with a one-line message for a target that does not exist or is not a model.
    """
    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise SystemExit(f"worker: {target!r} does not name a class; write my_model.py:MyModel")
    model = getattr(_module(module_name), name, None)
    if model is None:
        raise SystemExit(f"worker: {module_name} has no {name}; check the name")
    is_instance = not isinstance(model, type) and hasattr(model, "generate")
    if not is_instance and callable(model):
        _check_opener(model, target)
        model = model()
    if not callable(getattr(model, "generate", None)):
        raise SystemExit(f"worker: {target} has no method generate(messages, images, **decoding)")
    _check_call(
        model.generate,
        target,
        f"generate(messages, images, {', '.join(DECODING)})",
        **dict.fromkeys(DECODING),
    )
    if callable(getattr(model, "loglikelihood", None)):
        _check_call(
            model.loglikelihood, target, "loglikelihood(messages, images, continuations)", []
        )
    return model


def _check_call(
    method: Callable[..., Any], target: str, call: str, *more: Any, **decoding: Any
) -> None:
    """Raise SystemExit for a method that cannot be called as a worker calls it."""
    signature = inspect.signature(method)
    try:
        signature.bind([], [], *more, **decoding)
    except TypeError:
        name = call.partition("(")[0]
        raise SystemExit(
            f"worker: the {name} of {target} takes {signature}, but the worker calls {call}; a class with "
            f"(requests, images) does not need a worker: `snellen run {target} BENCHMARK`"
        ) from None


def _module(place: str) -> Any:
    """Return the module at a path or with a dotted name; it can import its neighbours."""
    path = Path(place)
    if path.suffix != ".py":
        sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise
            raise SystemExit(f"worker: there is no module {place}; check the name") from None
    if not path.is_file():
        raise SystemExit(f"worker: there is no file {place}; check the path")
    sys.path.insert(0, str(path.resolve().parent))
    # Not by name: the file may have the name of a package that it imports.
    spec = importlib.util.spec_from_file_location(f"worker_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"worker: {place} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Service:
    """Answers requests to one model. Knows nothing of HTTP except the status codes of errors."""

    def __init__(self, model: Any, name: str) -> None:
        self.model, self.name = model, name
        self.scores = callable(getattr(model, "loglikelihood", None))
        self._lock = threading.Lock()

    def models(self) -> dict[str, Any]:
        """Return the list of models: this one, with what it can do beyond the OpenAI interface."""
        extension = {"version": VERSION, "loglikelihood": self.scores}
        # Snellen sends a response prefix only to servers that are known to continue it.
        owner = "snellen" if getattr(self.model, "continues", False) else "user"
        entry = {"id": self.name, "object": "model", "owned_by": owner, "snellen": extension}
        return {"object": "list", "data": [entry]}

    def chat(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the chat completion for a request."""
        messages, images = self._conversation(request)
        stop = request.get("stop") or []
        limit = request.get("max_tokens") or request.get("max_completion_tokens") or 512
        decoding = {
            "max_new_tokens": int(limit),
            "temperature": float(request.get("temperature") or 0.0),
            "top_p": float(request.get("top_p") or 1.0),
            "seed": int(request.get("seed") or 0),
            "stop": [stop] if isinstance(stop, str) else list(stop),
        }
        with self._lock:
            text = _call(lambda: self.model.generate(messages, images, **decoding))
        if not isinstance(text, str):
            raise RequestError(500, f"generate returned {type(text).__name__}, not a text")
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }
        return {
            "id": "chatcmpl-worker",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": [choice],
        }

    def loglikelihood(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the scores of a request's continuations."""
        if not self.scores:
            raise RequestError(404, f"{type(self.model).__name__} has no method loglikelihood")
        messages, images = self._conversation(request)
        continuations = request.get("continuations")
        is_list_of_texts = isinstance(continuations, list) and all(
            isinstance(text, str) for text in continuations
        )
        if not is_list_of_texts or not continuations:
            raise RequestError(400, "continuations must be a non-empty list of strings")
        with self._lock:
            values = _call(lambda: list(self.model.loglikelihood(messages, images, continuations)))
        scores = [_score(value) for value in values]
        if len(scores) != len(continuations):
            message = f"loglikelihood returned {len(scores)} scores for {len(continuations)} continuations"
            raise RequestError(500, message)
        return {"object": "loglikelihood", "model": self.name, "scores": scores}

    def _conversation(self, request: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return the messages of a request, and its images in order. Raises RequestError."""
        requested_model = request.get("model")
        if requested_model not in (None, self.name):
            raise RequestError(
                404,
                f"there is no model {requested_model!r} here, only {self.name!r}",
                "model_not_found",
            )
        messages = request.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RequestError(400, "messages must be a non-empty list")
        images: list[Any] = []
        return [_message(message, images) for message in messages], images


def _message(message: Any, images: list[Any]) -> dict[str, Any]:
    """Return a message with its content in parts, and append its images to `images`. Raises RequestError."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise RequestError(400, "a message must be an object with role and content")
    content = message.get("content") or ""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    parts = []
    for part in content:
        part_type = part.get("type") if isinstance(part, dict) else None
        if part_type == "text" and isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
        elif part_type == "image_url":
            address = part.get("image_url")
            if isinstance(address, dict):
                address = address.get("url")
            images.append(_image(address))
            parts.append({"type": "image"})
        else:
            raise RequestError(
                400, f"a part of type {part_type!r} is not supported; send text and image_url"
            )
    return {"role": message["role"], "content": parts}


def _image(url: Any) -> Any:
    """Return the RGB image in a data URL; nothing is fetched from anywhere.

    Snellen decodes images on its own side and sends what the model should see. An image that can be decoded in more than
    one way did not come from it, and is rejected: this model would see it differently from other models, unnoticed.
    """
    if not isinstance(url, str):
        url = ""
    head, comma, encoded = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise RequestError(400, "send images as base64 data URLs: data:image/png;base64,...")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            content = base64.b64decode(encoded, validate=True)
            with Image.open(io.BytesIO(content)) as image:
                oddity = _oddity(image)
                rgb = None if oddity else image.convert("RGB")
    except (
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        raise RequestError(400, f"an image cannot be read: {_line(error)}") from None
    if oddity:
        raise RequestError(
            400, f"an image {oddity}; send upright 8-bit RGB images, as Snellen does"
        )
    return rgb


def _oddity(image: Any) -> str:
    """Return why an image could be decoded in more than one way, such as "is transparent"; empty if it could not."""
    if image.mode not in PLAIN_MODES:
        return f"has the mode {image.mode}"
    palette_mode = getattr(image.palette, "mode", "")
    if "transparency" in image.info or palette_mode.endswith("A"):
        return "is transparent"
    # The frames of an MPO, a kind of JPEG, are views of one scene, or a thumbnail.
    if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
        return "has several frames"
    try:
        is_turned = image.getexif().get(ORIENTATION, 1) in range(2, 9)
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, EOFError, struct.error):
        is_turned = False  # damaged EXIF turns nothing
    return "has an EXIF rotation" if is_turned else ""


def _score(value: Any) -> dict[str, Any]:
    """Return a model's score in the form that is sent: a number, or a pair of sum and token count. Raises RequestError."""
    is_pair = isinstance(value, (tuple, list))
    if is_pair and len(value) != 2:
        raise RequestError(500, "a score must be a number, or a pair of sum and number of tokens")
    try:
        total = float(value[0] if is_pair else value)
        tokens = int(value[1]) if is_pair else 0
    except (TypeError, ValueError) as error:
        raise RequestError(500, f"a score cannot be read: {_line(error)}") from None
    if total == -math.inf:
        total = IMPOSSIBLE
    if not math.isfinite(total):
        raise RequestError(500, f"loglikelihood returned {total}")
    return {"sum": total, "tokens": tokens}


def _call(query: Callable[[], Any]) -> Any:
    """Return what the model returns. An exception becomes one line for the client; its traceback goes to stderr."""
    try:
        return query()
    except Exception as error:
        traceback.print_exc()
        raise RequestError(500, _line(error)) from None


def _line(error: BaseException) -> str:
    """Return type and message of an error in one line of at most 500 characters."""
    text = f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are sent as separate packets; waiting for an acknowledgement costs 40 ms per reply.
    disable_nagle_algorithm = True

    @property
    def service(self) -> Service:
        return cast(Server, self.server).service

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            self._answer(200, self.service.models())
        else:
            self._refuse(RequestError(404, f"there is no {self.path}"))

    def do_POST(self) -> None:
        routes = {
            "/v1/chat/completions": self.service.chat,
            "/v1/loglikelihood": self.service.loglikelihood,
        }
        route = routes.get(self.path.rstrip("/"))
        try:
            request = self._body()
            if route is None:
                raise RequestError(404, f"there is no {self.path}")
            answer = route(request)
        except RequestError as error:
            self._refuse(error)
        else:
            self._answer(200, answer)

    def _body(self) -> dict[str, Any]:
        """Return the JSON object in the body of a request. Raises RequestError if it is too long or is not a JSON object."""
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            self.close_connection = True  # the body stays unread
            raise RequestError(
                413, f"the request needs a content-length of at most {MOST_BYTES} bytes"
            )
        try:
            request = json.loads(self.rfile.read(int(length)))
        except ValueError as error:
            raise RequestError(400, f"the request is not JSON: {_line(error)}") from None
        if not isinstance(request, dict):
            raise RequestError(400, "the request must be a JSON object")
        return request

    def _refuse(self, error: RequestError) -> None:
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        self._answer(
            error.status,
            {"error": {"message": str(error), "type": kind, "code": error.code or None}},
        )

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Do not log single requests."""


class Server(ThreadingHTTPServer):
    """An HTTP server for `service`; requests queue for the model."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, service: Service, host: str = "127.0.0.1", port: int = 0) -> None:
        """`port` 0 picks a free port; `url` says which."""
        super().__init__((host, port), _Handler)
        self.service = service
        self.url = f"http://{host}:{self.server_address[1]}/v1"


def serve(target: str, host: str = "127.0.0.1", port: int = 9000, name: str = "") -> None:
    """Load the model of `target` and serve it until Ctrl-C. Raises SystemExit with a one-line message."""
    service = Service(load(target), name or target.rpartition(":")[2])
    try:
        server = Server(service, host, port)
    except OSError as error:
        raise SystemExit(
            f"worker: cannot listen on {host}:{port} ({error}); choose another --port"
        ) from None
    with server:
        can = "generate and loglikelihood" if service.scores else "generate"
        sys.stdout.write(
            f"serving {target} ({can}) as openai:{service.name}@{server.url}; Ctrl-C stops\n"
        )
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.stdout.write("worker: stopped\n")


def serve_from_command_line() -> None:
    parser = argparse.ArgumentParser(
        prog="worker.py", description="Serve a model of your own to Snellen."
    )
    parser.add_argument("target", help="my_model.py:MyModel or package.module:MyModel")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on [127.0.0.1]")
    parser.add_argument(
        "--port", type=int, default=9000, help="port to listen on, 0 for a free one [9000]"
    )
    parser.add_argument("--name", default="", help="the model's name [the class's]")
    arguments = parser.parse_args()
    serve(arguments.target, arguments.host, arguments.port, arguments.name)


if __name__ == "__main__":
    # The model must not import from this file's folder, whose modules may have common names.
    sys.path[:] = sys.path[1:]
    serve_from_command_line()
