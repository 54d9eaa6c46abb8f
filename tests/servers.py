"""A small OpenAI-compatible server on loopback for tests and benchmarks: real HTTP, scripted faults.

    with start_server(latency=0.1, script=[rate_limited("2", times=3)]) as server:
        model = load_model(f"openai:any@{server.url}")
        ...
        server.seen()  # what it was asked, as sent

It answers deterministically: the mark it picks depends on the prompt alone. In a thread it starts at
once; with `process=True` it does not share the interpreter with what is being measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

Flavour = Literal["plain", "vllm", "sglang", "openai"]


_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Fault(Struct, frozen=True, omit_defaults=True):
    """What happens to the next requests instead of the usual answer."""

    status: int = 200
    body: str | None = None
    """Sent as it is; None is the usual answer."""
    headers: dict[str, str] = {}
    seconds: float = 0.0
    """Waits this much longer than the latency."""
    cut: Literal["", "before", "within", "after"] = ""
    """Closes the connection before the reply, halfway through its body, or after it without a word."""
    chunked: bool = False
    times: int = 1
    matching: str = ""
    """Happens only to requests whose body has this text."""
    share: float = 1.0
    """Below 1: happens to this share of the distinct requests, the first time that each comes, for ever."""
    endless: bool = False
    """The body never ends: more of it is sent until the client closes the connection."""


class Seen(Struct, frozen=True):
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: msgspec.Raw
    arrived: float
    """Seconds since the server started."""

    @property
    def asked(self) -> Any:
        return msgspec.json.decode(self.body)


class Settings(Struct, frozen=True):
    flavour: Flavour = "plain"
    latency: float = 0.0
    reply: str = "label"
    """`mark` picks an option, `echo` repeats the last user text; anything else is the reply itself."""
    capacity: int = 0
    """Answers 429 when more requests than this are in hand; 0 is no limit."""
    retry_after: str = ""
    """Goes with the 429 of `capacity`."""
    key: str = ""
    """The API key it insists on; empty lets everybody in."""
    models: tuple[str, ...] = ()
    """The names it serves; empty serves any."""
    template: str = "plain"
    """Which of `TEMPLATES` the flavour vllm has."""
    token_ids: bool = True
    """The flavour vllm lists a prompt's token ids when asked, as it does since 0.10.2."""
    tokenizes: bool = False
    """The flavour vllm has an address that tokenises prompts."""
    detokenizes: bool = True
    """Such a flavour also gives the text of tokens."""
    tokenize_fault: Fault | None = None
    """What every request for tokens or their text gets instead."""
    next_tokens: bool = False
    """The flavour vllm tells the log-probabilities of chosen tokens after a prompt, as version 0.32 does."""
    candidates: int = 20
    """How many of a token's candidates it tells at most; 0 tells none, as a server without log-probabilities."""
    streams: bool = True
    """Whether it sends a reply in parts to whoever asks for that."""
    record: bool = True
    host: str = "127.0.0.1"
    """The address at which it listens."""
    port: int = 0
    """0: any that is free."""
    script: tuple[Fault, ...] = ()
    entry: dict[str, Any] = {}
    """More fields of each model in its list of models."""
    pages: dict[str, Any] = {}
    """What it answers to GET at other paths."""
    about: Fault | None = None
    """What every request for its list of models gets instead of the list."""


def rate_limited(retry_after: str = "", *, times: int = 1, status: int = 429) -> Fault:
    headers = {"retry-after": retry_after} if retry_after else {}
    return Fault(status, error_body("slow down"), headers, times=times)


def broken(
    status: int = 500, *, times: int = 1, message: str = "it broke", code: str = ""
) -> Fault:
    return Fault(status, error_body(message, code), times=times)


def malformed(body: str = '{"choices": [', *, times: int = 1) -> Fault:
    return Fault(body=body, times=times)


def slow(seconds: float, *, times: int = 1) -> Fault:
    return Fault(seconds=seconds, times=times)


def dropped(cut: Literal["before", "within", "after"] = "before", *, times: int = 1) -> Fault:
    return Fault(cut=cut, times=times)


def endless(*, times: int = 1) -> Fault:
    return Fault(endless=True, times=times)


def filtered(*, times: int = 1) -> Fault:
    return Fault(body=reply_body("", finish="content_filter"), times=times)


def error_body(message: str, code: str = "") -> str:
    return _dump({"error": {"message": message, "type": "error", "code": code or None}})


EVENTS = {"content-type": "text/event-stream"}


def stream_body(text: str, *, ends: bool = True) -> str:
    """A chat completion in parts, a word each; one that does not end has broken off."""
    parts: list[dict[str, Any]] = [{"delta": {"role": "assistant", "content": ""}}]
    parts += [{"delta": {"content": word}} for word in re.findall(r"\s*\S+", text)]
    parts += [{"delta": {}, "finish_reason": "stop"}] if ends else []
    events = [
        _dump({"object": "chat.completion.chunk", "choices": [{"index": 0, **part}]})
        for part in parts
    ]
    return "".join(f"data: {event}\n\n" for event in [*events, *(["[DONE]"] if ends else [])])


def reply_body(text: str | None, *, finish: str = "stop", **message: Any) -> str:
    """A chat completion; `message` adds fields such as refusal or reasoning_content."""
    return _dump(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "any",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, **message},
                    "finish_reason": finish,
                }
            ],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
    )


class Server:
    """The running server as its user sees it; all questions go over HTTP, thread or process alike."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/v1"

    def seen(self, path: str = "/v1/chat/completions") -> list[Seen]:
        """The requests to `path` so far, in order of arrival."""
        return [
            one
            for one in msgspec.json.decode(self._call("seen"), type=list[Seen])
            if one.path == path
        ]

    def stats(self) -> dict[str, int]:
        """`requests` to the chat endpoint, and the `peak` number that were in hand at once."""
        return msgspec.json.decode(self._call("stats"), type=dict[str, int])

    def script(self, *faults: Fault) -> None:
        """What happens to the next requests; replaces what was left of the script."""
        self._call("script", msgspec.json.encode(faults))

    def says_of_itself(self, fault: Fault | None) -> None:
        """What requests for its list of models get from now on; None: the list."""
        self._call("about", msgspec.json.encode(fault))

    def _call(self, what: str, body: bytes | None = None) -> bytes:
        with _DIRECTLY.open(f"http://127.0.0.1:{self.port}/_{what}", body, timeout=30) as reply:
            return reply.read()


@contextmanager
def start_server(
    *, process: bool = False, service: type[Service] | None = None, **settings: Any
) -> Iterator[Server]:
    """A server with these `Settings`, on a free port of 127.0.0.1, until the block ends.

    `service` is one that speaks another format than chat completions.
    """
    config = msgspec.convert(settings, Settings)
    with _in_process(config) if process else _in_thread((service or Service)(config)) as port:
        yield Server(port)


@contextmanager
def _in_thread(service: Service) -> Iterator[int]:
    started = threading.Event()
    known: dict[str, Any] = {}

    async def main() -> None:
        known["loop"], known["stop"] = asyncio.get_running_loop(), asyncio.Event()

        def ready(port: int) -> None:
            known["port"] = port
            started.set()

        await _serve(service, known["stop"], ready)

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield known["port"]
    finally:
        known["loop"].call_soon_threadsafe(known["stop"].set)
        thread.join(30)


@contextmanager
def _in_process(config: Settings) -> Iterator[int]:
    """The server ends when its standard input does, so it cannot outlive the process that started it."""
    child = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin and child.stdout
    try:
        child.stdin.write(msgspec.json.encode(config) + b"\n")
        child.stdin.flush()
        yield int(child.stdout.readline())
    finally:
        child.stdin.close()
        child.wait(30)
        child.stdout.close()


async def _serve(service: Service, stop: asyncio.Event, ready: Callable[[int], None]) -> None:
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: _Connection(service), service.config.host, service.config.port, backlog=512
    )
    ready(listener.sockets[0].getsockname()[1])
    await stop.wait()
    # A connection that is being accepted when its listener closes fails an assertion of asyncio, which leaves its
    # socket open: first no more are accepted, then those that were have some turns until they are known.
    loop.remove_reader(listener.sockets[0].fileno())
    for _ in range(4):
        await asyncio.sleep(0)
    listener.close()
    for connection in list(service.connections):
        connection.transport.abort()
    while service.connections:  # a socket is closed one turn of the loop after its abort
        await asyncio.sleep(0)
    await listener.wait_closed()


class _Url(Struct, frozen=True):
    url: str = ""


class _Part(Struct):
    type: str = ""
    text: str = ""
    image_url: _Url = _Url()


class _Said(Struct):
    role: str
    content: str | list[_Part] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""

    @property
    def shown(self) -> str:
        """Its text, each image as a token that tells images apart."""
        if isinstance(self.content, list):
            return "".join(
                part.text or f"<{_digest(part.image_url.url):08x}>" for part in self.content
            )
        return self.content or ""


class _Asked(Struct):
    messages: list[_Said]
    model: str = ""
    max_tokens: int | None = None
    continue_final_message: bool = False
    add_generation_prompt: bool = True
    prompt_logprobs: int | None = None
    return_token_ids: bool = False
    logprobs: bool = False
    top_logprobs: int = 0
    logprob_token_ids: list[int] = []
    stream: bool = False


class Service:
    """Decides what each request gets."""

    def __init__(self, config: Settings) -> None:
        self.config = config
        self.script = list(config.script)
        self.log: list[Seen] = []
        self.struck: set[bytes] = set()
        self.connections: set[_Connection] = set()
        self.started = time.monotonic()
        self.requests = self.in_hand = self.peak = 0

    def take(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Fault:
        """The fault (or plain answer) for a request; `body` is always filled in."""
        if path.startswith("/_"):
            return self._control(path, body)
        if self.config.record:
            self.log.append(
                Seen(path, headers, msgspec.Raw(body or b"null"), time.monotonic() - self.started)
            )
        if self.config.key and headers.get("authorization") != f"Bearer {self.config.key}":
            got = headers.get("authorization", "none")
            return Fault(401, error_body(f"Incorrect API key provided: {got}", "invalid_api_key"))
        if path == "/version" and self.config.flavour == "vllm":
            return Fault(body='{"version": "0.11.0"}')
        if path == "/v1/models":
            if self.config.about is not None:
                about = self.config.about
                return about if about.body is not None else replace(about, body=self._models())
            return Fault(body=self._models())
        if path in self.config.pages:
            return Fault(body=_dump(self.config.pages[path]))
        if self.config.tokenize_fault and path in ("/tokenize", "/detokenize"):
            return self.config.tokenize_fault
        is_served = path == "/tokenize" or self.config.detokenizes
        if self.config.tokenizes and path in ("/tokenize", "/detokenize") and is_served:
            return Fault(body=_dump(self._tokenised(path, body)))
        if path != "/v1/chat/completions" or method != "POST":
            return Fault(404, error_body("Not Found"))
        self.requests += 1
        fault = self._scripted(body)
        if fault is not None:
            return fault if fault.body is not None else replace(fault, body=self._answer(body).body)
        if self.config.capacity and self.in_hand > self.config.capacity:
            return rate_limited(self.config.retry_after)
        return replace(self._answer(body), seconds=self.config.latency)

    def _control(self, path: str, body: bytes) -> Fault:
        if path == "/_script":
            self.script = list(msgspec.json.decode(body, type=list[Fault]))
            return Fault(body="null")
        if path == "/_about":
            self.config = replace(self.config, about=msgspec.json.decode(body, type=Fault | None))
            return Fault(body="null")
        if path == "/_seen":
            return Fault(body=msgspec.json.encode(self.log).decode())
        return Fault(
            body=_dump({"requests": self.requests, "peak": self.peak, "struck": len(self.struck)})
        )

    def _scripted(self, body: bytes) -> Fault | None:
        for i, fault in enumerate(self.script):
            if fault.share < 1:
                digest = hashlib.blake2b(body, digest_size=8).digest()
                if digest not in self.struck and int.from_bytes(digest) < fault.share * 2**64:
                    self.struck.add(digest)
                    return replace(fault, seconds=fault.seconds + self.config.latency)
            elif fault.matching.encode() in body:
                if fault.times > 1:
                    self.script[i] = replace(fault, times=fault.times - 1)
                else:
                    del self.script[i]
                return replace(fault, seconds=fault.seconds + self.config.latency)
        return None

    def _models(self) -> str:
        owner = {"vllm": "vllm", "sglang": "sglang", "openai": "system"}.get(
            self.config.flavour, "library"
        )
        models = self.config.models or ("any",)
        return _dump(
            {
                "object": "list",
                "data": [{"id": name, "owned_by": owner, **self.config.entry} for name in models],
            }
        )

    def _answer(self, body: bytes) -> Fault:
        asked = msgspec.json.decode(body, type=_Asked)
        if self.config.models and asked.model not in self.config.models:
            return Fault(
                404, error_body(f"The model `{asked.model}` does not exist.", "model_not_found")
            )
        if self.config.flavour == "openai":
            if asked.max_tokens is not None:
                message = (
                    "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
                )
                return Fault(400, error_body(message, "unsupported_parameter"))
            if asked.continue_final_message:
                return Fault(
                    400,
                    error_body("Unknown parameter: 'continue_final_message'.", "unknown_parameter"),
                )
        if asked.logprob_token_ids and self.config.next_tokens:
            return Fault(body=_dump(self._next_tokens(asked)))
        if self.config.flavour == "vllm" and (
            asked.prompt_logprobs is not None or asked.return_token_ids
        ):
            return Fault(body=_dump(self._prompted(asked)))
        if asked.logprobs and self.config.candidates:
            return Fault(body=_dump(self._lettered(asked)))
        if asked.stream and self.config.streams:
            return Fault(body=stream_body(self._text(asked)), headers=EVENTS, chunked=True)
        return Fault(body=reply_body(self._text(asked)))

    def _prompted(self, asked: _Asked) -> dict[str, Any]:
        """A chat completion with the prompt's tokens; other tokens of a position stand after the prompt's own."""
        tokens = toy_tokens(toy_prompt(asked, self.config.template))
        reply = msgspec.json.decode(reply_body(" x", finish="length"))
        if asked.return_token_ids and self.config.token_ids:
            reply["prompt_token_ids"] = [toy_id(token) for token in tokens]
        if asked.prompt_logprobs is not None:
            reply["prompt_logprobs"] = [
                None
                if i == 0
                else {str(toy_id(token)): {"logprob": toy_logprob(tokens[:i], token), "rank": 1}}
                for i, token in enumerate(tokens)
            ]
        return reply

    def _tokenised(self, path: str, body: bytes) -> dict[str, Any]:
        """The ids of a prompt's tokens; or the text of tokens, which are among those that the server has seen."""
        if path == "/detokenize":
            return {"prompt": "".join(_TEXTS[i] for i in msgspec.json.decode(body)["tokens"])}
        asked = msgspec.json.decode(body, type=_Asked)
        return {"tokens": _ids(toy_tokens(toy_prompt(asked, self.config.template)))}

    def _next_tokens(self, asked: _Asked) -> dict[str, Any]:
        """A chat completion of one token, with the log-probabilities of the tokens that were asked for."""
        tokens = toy_tokens(toy_prompt(asked, self.config.template))
        reply = msgspec.json.decode(reply_body(" x", finish="length"))
        reply["prompt_token_ids"] = _ids(tokens)
        candidates = {
            f"token_id:{i}": toy_logprob(tokens, _TEXTS[i]) for i in asked.logprob_token_ids
        }
        reply["choices"][0]["logprobs"] = {"content": [_position("token_id:1", candidates)]}
        return reply

    def _lettered(self, asked: _Asked) -> dict[str, Any]:
        """A reply such as "(B)", a token for each character, with the candidates of each."""
        question = asked.messages[-1].text
        letters = toy_letters(question)
        best = max(letters, key=lambda letter: letters[letter])
        shown = dict(
            sorted(letters.items(), key=lambda item: -item[1])[
                : min(asked.top_logprobs, self.config.candidates)
            ]
        )
        content = [_position("(", {"(": -0.1}), _position(best, shown), _position(")", {")": -0.1})]
        reply = msgspec.json.decode(reply_body(f"({best})"))
        reply["choices"][0]["logprobs"] = {"content": content}
        return reply

    def _text(self, asked: _Asked) -> str:
        question = next((said.text for said in reversed(asked.messages) if said.role == "user"), "")
        if self.config.reply == "echo":
            return question
        if self.config.reply != "label":
            return self.config.reply
        labels = re.findall(r"\(([A-Za-z0-9]{1,2})\)", question) or ["A"]
        pick = int.from_bytes(hashlib.blake2b(question.encode(), digest_size=8).digest()) % len(
            labels
        )
        return (
            f" ({labels[pick]})"
            if asked.continue_final_message
            else f"The answer is ({labels[pick]})."
        )


# A toy language model, as deterministic as the rest: tokens are words with the blank before them, and the
# log-probability of a token is drawn from its text and all that stands before it.


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())


TEMPLATES = {
    "plain": ("", ""),
    # As most: a reply begins after the end of a line, with which no token of it can join.
    "line": ("\n", "\n"),
    # As Qwen3's: a prompt opens a thought, which is empty in a finished talk.
    "thinks": ("<think>\n", "<think>\n\n</think>\n\n"),
    # As MiniCPM-V 4.5's: a finished talk alone has an empty thought.
    "adds": ("", "<think>\n\n</think>\n\n"),
    # As Gemma 4's: a prompt alone has an empty thought.
    "skips": ("<channel>thought\n</channel>", ""),
}
"""What chat templates write after the header of a reply: in a prompt, and in a finished talk."""


def toy_prompt(asked: _Asked, template: str = "plain") -> str:
    """`USER: ...` and `ASSISTANT: ...` lines; the header of a reply ends with the blank that its first token takes."""
    opened, finished = TEMPLATES[template]
    *earlier, last = asked.messages
    text = "".join(f"{said.role.upper()}: {said.shown}\n" for said in earlier)
    if asked.continue_final_message:
        return f"{text}{last.role.upper()}: {finished}{last.shown}"
    return f"{text}{last.role.upper()}: {last.shown}\n" + (
        f"ASSISTANT: {opened}" if asked.add_generation_prompt else ""
    )


def toy_tokens(text: str) -> list[str]:
    return re.findall(r" ?[^\W_]+|\s|[^\w\s]|_", text)


def toy_id(token: str) -> int:
    return _digest(token)


_TEXTS: dict[int, str] = {}
"""The text of each token that a prompt had."""


def _ids(tokens: list[str]) -> list[int]:
    """The ids of tokens, whose texts are kept."""
    ids = [toy_id(token) for token in tokens]
    _TEXTS.update(zip(ids, tokens, strict=True))
    return ids


def toy_logprob(before: list[str], token: str) -> float:
    """Between -5 and -0.01 nats."""
    return -0.01 - _digest("\0".join((*before, token))) % 499 / 100


def toy_letters(question: str) -> dict[str, float]:
    """Log-probabilities of the option letters that a question shows."""
    letters = re.findall(r"\(([A-Z])\)", question)
    weights = [1 + _digest(f"{question} {letter}") % 100 for letter in letters]
    return {
        letter: math.log(weight / (sum(weights) + 1))
        for letter, weight in zip(letters, weights, strict=True)
    }


def _position(token: str, candidates: dict[str, float]) -> dict[str, Any]:
    top = [
        {"token": name, "logprob": value, "bytes": list(name.encode())}
        for name, value in candidates.items()
    ]
    return {"token": token, "logprob": candidates.get(token, -9.0), "top_logprobs": top}


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with content-length both ways, which is all that a JSON API needs."""

    transport: asyncio.Transport

    def __init__(self, service: Service) -> None:
        self.service = service
        self.buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.service.connections.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self.service.connections.discard(self)

    def data_received(self, received: bytes) -> None:
        self.buffer += received
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        size = int(headers.get("content-length", "0"))
        if len(self.buffer) < end + 4 + size:
            return
        body = bytes(self.buffer[end + 4 : end + 4 + size])
        del self.buffer[: end + 4 + size]
        method, path, _ = first.split(" ", 2)
        counts = path == "/v1/chat/completions"
        self.service.in_hand += counts
        self.service.peak = max(self.service.peak, self.service.in_hand)
        fault = self.service.take(method, path, headers, body)
        asyncio.get_running_loop().call_later(fault.seconds, self._reply, fault, counts)

    def _reply(self, fault: Fault, counts: bool) -> None:
        self.service.in_hand -= counts
        body = (fault.body or "").encode()
        phrase = HTTPStatus(fault.status).phrase if fault.status in set(HTTPStatus) else "Other"
        headers = {"content-type": "application/json", **fault.headers}
        lines = [
            f"HTTP/1.1 {fault.status} {phrase}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        lines.append(
            "transfer-encoding: chunked" if fault.chunked else f"content-length: {len(body)}"
        )
        if fault.chunked:
            halves = body[: len(body) // 2], body[len(body) // 2 :], b""
            body = b"".join(b"%x\r\n%b\r\n" % (len(half), half) for half in halves)
        if fault.endless:
            self.transport.write(("\r\n".join(lines[:-1]) + "\r\n\r\n").encode())
            self._pour()
        elif fault.cut == "before":
            self.transport.abort()
        elif fault.cut == "within":
            self.transport.write(
                ("\r\n".join(lines) + "\r\n\r\n").encode() + body[: len(body) // 2]
            )
            self.transport.close()
        else:
            self.transport.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
            if fault.cut == "after":
                self.transport.close()
            if fault.cut == "after":
                self.transport.close()

    def _pour(self) -> None:
        """Send on, as fast as the client reads, until it closes the connection."""
        if not self.transport.is_closing():
            if self.transport.get_write_buffer_size() < 1 << 20:
                self.transport.write(b"x" * (1 << 16))
            asyncio.get_running_loop().call_later(0.001, self._pour)


def _dump(content: Any) -> str:
    return msgspec.json.encode(content).decode()


def _main() -> None:
    async def run() -> None:
        config = msgspec.json.decode(await asyncio.to_thread(sys.stdin.readline), type=Settings)
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def wait_for_end() -> None:
            sys.stdin.read()
            loop.call_soon_threadsafe(stop.set)

        threading.Thread(target=wait_for_end, daemon=True).start()
        await _serve(Service(config), stop, lambda port: print(port, flush=True))

    asyncio.run(run())


if __name__ == "__main__":
    _main()
