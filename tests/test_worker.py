"""The worker: one file for any environment; a class served over loopback answers as it does in this process."""

from __future__ import annotations

import ast
import asyncio
import base64
import io
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import snellen
from small import picture
from snellen.building.benchmark import Benchmark
from snellen.common.decoding import decode_image, inspect_image
from snellen.errors import ModelError
from snellen.models import worker
from snellen.models.base import AsyncModel
from snellen.models.loading import load_model
from snellen.records import IMPOSSIBLE, ImagePart, Message, Request, Response, TextPart, Variant

FILE = Path(worker.__file__)
MODEL = '''
import beside


class MyModel:
    """Likes long options and pictures with much green."""

    def generate(self, messages, images, **decoding):
        question = messages[-1]["content"][-1]["text"]
        return "(B)" if "(B)" in question else f"{len(images)} {sorted(decoding)}"

    def loglikelihood(self, messages, images, continuations):
        green = images[0].getpixel((0, 0))[1]
        return [(-1.0 / (len(text) + green + beside.ONE), len(text)) for text in continuations]
'''


class Talker:
    """Generation only; what it says is set by the test."""

    def __init__(self, says: Any = "(A)") -> None:
        self.says = says
        self.asked: list[Any] = []

    def generate(self, messages: list[Any], images: list[Any], **decoding: Any) -> Any:
        self.asked.append((messages, images, decoding))
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Scorer(Talker):
    continues = True

    def loglikelihood(
        self, messages: list[Any], images: list[Any], continuations: list[str]
    ) -> Any:
        self.asked.append((messages, images, continuations))
        return self.says


def saved(image: Image.Image, form: str = "PNG", **settings: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **settings)
    return file.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(Image.open(io.BytesIO(picture(2))), "JPEG", quality=100, exif=exif)


def clear_palette() -> bytes:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([255, 0, 0, 0, 0, 0])
    return saved(image, transparency=1)


BLUE = Image.new("RGB", (4, 4), "blue")
ODD = {
    "grey of 16 bits": (
        saved(Image.fromarray(np.full((4, 4), 25_700, np.uint16))),
        "has the mode I;16",
    ),
    "floats": (saved(Image.fromarray(np.full((4, 4), 0.5, np.float32)), "TIFF"), "has the mode F"),
    "turned by EXIF": (turned(), "has an EXIF rotation"),
    "CMYK": (saved(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "JPEG"), "has the mode CMYK"),
    "half clear": (saved(Image.new("RGBA", (4, 4), (255, 0, 0, 51))), "has the mode RGBA"),
    "a palette with a clear colour": (clear_palette(), "is transparent"),
    "frames": (
        saved(BLUE, "GIF", save_all=True, append_images=[BLUE.copy().point(lambda v: 9)]),
        "has several frames",
    ),
}
"""Images that programs decode in different ways, and what the worker says of them."""


@contextmanager
def served(model: Any, name: str = "mine") -> Iterator[str]:
    """The URL of a worker in a thread of this process."""
    with worker.Server(worker.Service(model, name)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def post(url: str, path: str, body: Any) -> tuple[int, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = urllib.request.Request(f"{url}{path}", content, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def chat(text: Any = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "mine", "messages": [{"role": "user", "content": text}], **more}


def image_part(content: bytes = picture(2)) -> dict[str, Any]:
    url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


# --- one file for any environment --------------------------------------------------------------------------------


def test_the_file_is_python_3_8_and_imports_the_standard_library_and_pillow_alone() -> None:
    tree = ast.parse(FILE.read_text("utf-8"), feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"PIL"}


def test_the_file_uses_nothing_that_python_3_8_lacks() -> None:
    tree = ast.parse(FILE.read_text("utf-8"))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not names & {
        "removeprefix",
        "removesuffix",
        "is_relative_to",
        "batched",
        "pairwise",
        "to_thread",
        "cache",
    }
    lazy = next(node for node in tree.body if isinstance(node, ast.ImportFrom))
    assert lazy.module == "__future__"
    evaluated = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
    ]
    assert not evaluated
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.With) and len(node.items) > 1
    ]


def start(arguments: list[str], folder: Path) -> tuple[subprocess.Popen[str], str]:
    """The process, and the model string that it prints."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    line = process.stdout.readline()
    assert " as openai:" in line, line + process.stdout.read()
    return process, line.partition(" as ")[2].partition(";")[0]


@pytest.mark.parametrize("door", ["file", "verb"])
def test_a_class_of_another_environment_is_evaluated_by_every_protocol(
    door: str, questions: Benchmark, tmp_path: Path
) -> None:
    (tmp_path / "my_model.py").write_text(MODEL)
    (tmp_path / "beside.py").write_text("ONE = 1\n")
    target = [str(tmp_path / "my_model.py") + ":MyModel", "--port", "0"]
    command = [str(FILE)] if door == "file" else ["-m", "snellen", "worker"]
    process, model = start([sys.executable, "-W", "error", *command, *target], tmp_path)
    try:
        results = snellen.evaluate(
            model, str(questions.folder), ["circular", "likelihood"], runs=tmp_path / "runs"
        )
    finally:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "worker: stopped\n")
    assert model.startswith("openai:MyModel@http://127.0.0.1:")
    # The longest of cat, dog, horse, cow is right in every fourth question; the mark (B) fails when rotated.
    assert results.value(
        "accuracy", benchmark=questions.name, protocol="likelihood"
    ) == pytest.approx(0.25)
    assert results.value("circular_accuracy", benchmark=questions.name) == 0.0


# --- what a class is given ---------------------------------------------------------------------------------------


def test_a_class_gets_parts_pictures_in_order_and_the_decoding() -> None:
    model = Talker()
    body = chat(
        [image_part(), {"type": "text", "text": "what?"}],
        max_tokens=7,
        temperature=0.5,
        seed=3,
        stop="\n",
    )
    body["messages"].append({"role": "assistant", "content": "It is"})
    with served(model) as url:
        status, reply = post(url, "/chat/completions", body)
    [(messages, images, decoding)] = model.asked
    assert status == 200
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": "(A)"}
    assert messages == [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is"}]},
    ]
    [image] = images
    assert isinstance(image, Image.Image)
    assert (image.mode, image.size, image.getpixel((0, 0))) == ("RGB", (8, 6), (74, 2, 90))
    assert decoding == {
        "max_new_tokens": 7,
        "temperature": 0.5,
        "top_p": 1.0,
        "seed": 3,
        "stop": ["\n"],
    }


def test_scores_are_numbers_or_pairs_of_sum_and_tokens() -> None:
    model = Scorer([-1, (-2.5, 3), (float("-inf"), 2)])
    with served(model) as url:
        status, reply = post(url, "/loglikelihood", chat(continuations=["a", "bb", "c"]))
    *scores, impossible = reply["scores"]
    assert (status, scores) == (200, [{"sum": -1.0, "tokens": 0}, {"sum": -2.5, "tokens": 3}])
    assert impossible == {"sum": IMPOSSIBLE, "tokens": 2}, "JSON has no infinity"
    assert model.asked[0][2] == ["a", "bb", "c"]


@pytest.mark.parametrize(
    ("model", "owner", "scores"),
    [(Talker(), "user", False), (Scorer(), "snellen", True)],
    ids=["talks", "scores"],
)
def test_the_list_of_models_says_what_the_class_can_do(
    model: Any, owner: str, scores: bool
) -> None:
    with served(model) as url, urllib.request.urlopen(f"{url}/models", timeout=30) as reply:
        [listed] = json.load(reply)["data"]
    assert listed["id"] == "mine"
    assert listed["owned_by"] == owner
    assert listed["snellen"] == {"version": 1, "loglikelihood": scores}


def test_a_class_that_cannot_score_ends_a_likelihood_run_with_one_line(
    questions: Benchmark, tmp_path: Path
) -> None:
    with served(Talker()) as url, pytest.raises(ModelError, match="has no method loglikelihood"):
        snellen.evaluate(f"openai:mine@{url}", str(questions.folder), "likelihood", runs=tmp_path)


@pytest.mark.parametrize(
    ("model", "sent"), [(Talker(), 1), (Scorer("(A)"), 2)], ids=["user", "continues"]
)
def test_the_opening_of_a_reply_goes_to_a_class_that_continues_it(
    model: Talker, sent: int, questions: Benchmark, tmp_path: Path
) -> None:
    with served(model) as url:
        snellen.evaluate(
            f"openai:mine@{url}", str(questions.folder), "vanilla", limit=1, runs=tmp_path
        )
    assert [len(messages) for messages, _, _ in model.asked] == [sent]


@pytest.mark.parametrize(
    "content", [*(content for content, _ in ODD.values()), picture(2)], ids=[*ODD, "plain"]
)
def test_a_class_sees_every_picture_as_a_local_model_does(content: bytes, tmp_path: Path) -> None:
    image, model = inspect_image(content, "test"), Scorer([-1.0])
    message = Message("user", (ImagePart(image), TextPart("what?")))
    request = Request(
        "made", "q", Variant(), (message,), kind="loglikelihood", continuations=("a",)
    )
    shelf = SimpleNamespace(read=lambda _: content)

    async def ask(url: str) -> Response:
        asked = load_model(f"openai:mine@{url}")
        assert isinstance(asked, AsyncModel)
        try:
            return await asked.ask(request, shelf)
        finally:
            await asked.close()

    with served(model) as url:
        assert asyncio.run(ask(url)).error is None
    [(_, [shown], _)] = model.asked
    assert np.array_equal(np.asarray(shown), np.asarray(decode_image(content, "test").upright))


@pytest.mark.parametrize(("content", "words"), ODD.values(), ids=ODD)
def test_a_picture_that_snellen_did_not_decode_is_refused_not_guessed(
    content: bytes, words: str
) -> None:
    with served(Talker()) as url:
        status, reply = post(url, "/chat/completions", chat([image_part(content)]))
    assert (status, reply["error"]["message"]) == (
        400,
        f"an image {words}; send upright 8-bit RGB images, as Snellen does",
    )


# --- what goes wrong ---------------------------------------------------------------------------------------------

NOT_AN_IMAGE = image_part(b"no image")
ELSEWHERE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}}


@pytest.mark.parametrize(
    ("says", "path", "body", "status", "words"),
    [
        (
            ValueError("out\nof memory"),
            "/chat/completions",
            chat(),
            500,
            "ValueError: out of memory",
        ),
        (None, "/chat/completions", chat(), 500, "generate returned NoneType, not a text"),
        (
            [-1],
            "/loglikelihood",
            chat(continuations=["a", "b"]),
            500,
            "1 scores for 2 continuations",
        ),
        ([float("nan")], "/loglikelihood", chat(continuations=["a"]), 500, "returned nan"),
        (["x"], "/loglikelihood", chat(continuations=["a"]), 500, "cannot be read"),
        ([(1, 2, 3)], "/loglikelihood", chat(continuations=["a"]), 500, "pair"),
        (7, "/loglikelihood", chat(continuations=["a"]), 500, "not iterable"),
        ("", "/loglikelihood", chat(), 400, "continuations must be a non-empty list"),
        ([], "/loglikelihood", chat(continuations=[]), 400, "a non-empty list of strings"),
        ("", "/chat/completions", {"model": "other", "messages": []}, 404, "no model 'other'"),
        ("", "/chat/completions", {"messages": []}, 400, "non-empty"),
        ("", "/chat/completions", {"messages": ["x"]}, 400, "role and content"),
        ("", "/chat/completions", b"[1]", 400, "JSON object"),
        ("", "/chat/completions", b"{", 400, "not JSON"),
        ("", "/completions", {}, 404, "there is no /v1/completions"),
        ("", "/chat/completions", chat([NOT_AN_IMAGE]), 400, "an image cannot be read"),
        ("", "/chat/completions", chat([ELSEWHERE]), 400, "base64 data URLs"),
        ("", "/chat/completions", chat([{"type": "video"}]), 400, "'video' is not supported"),
    ],
)
def test_every_fault_is_one_line(
    says: Any, path: str, body: Any, status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Scorer(says)) as url:
        got, reply = post(url, path, body)
    assert got == status
    assert words in reply["error"]["message"]
    assert "\n" not in reply["error"]["message"]
    assert ("Traceback" in capsys.readouterr().err) == (isinstance(says, Exception) or says == 7)


def test_a_model_that_fails_is_counted_and_the_run_goes_on(
    questions: Benchmark, tmp_path: Path
) -> None:
    with served(Talker(RuntimeError("no weights"))) as url:
        results = snellen.evaluate(
            f"openai:mine@{url}?retries=0",
            str(questions.folder),
            limit=2,
            runs=tmp_path,
            error_budget=1.0,
        )
    [row] = [
        row
        for row in results.rows
        if row.metric == "accuracy" and row.benchmark == questions.name and not row.slice
    ]
    assert (row.estimate.n, row.estimate.errors) == (0, 2)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("my_model.py", "write my_model.py:MyModel"),
        ("nowhere.py:MyModel", "there is no file nowhere.py"),
        ("no.such.module:MyModel", "there is no module no.such.module"),
        ("json:Nothing", "json has no Nothing"),
        ("json:JSONDecoder", "has no method generate"),
    ],
)
def test_a_target_that_is_no_model_says_what_to_write(
    target: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit, match=words):
        worker.load(target)


def test_a_port_in_use_says_so() -> None:
    with served(Talker()) as url, pytest.raises(SystemExit, match="choose another --port"):
        worker.serve("test_worker:Talker", port=int(url.split(":")[2].partition("/")[0]))
