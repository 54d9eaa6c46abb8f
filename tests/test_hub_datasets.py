"""Datasets of the Hugging Face hub: read by its own library, and pushed by it to a stand-in on loopback."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import ANSWERS
from snellen.errors import DataError
from snellen.interchange.exports import dataset

TOKEN = "hf_not_a_real_token"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The library of datasets has looked at its environment when it is imported.
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def loaded(folder: str) -> list[dict[str, Any]]:
    """The rows as the hub's library reads them from the folder, card and all."""
    import datasets

    found = datasets.load_dataset(folder, cache_dir="cache")
    assert list(found) == ["test"]
    return [dict(row) for row in found["test"]]


def front_matter(card: Path) -> list[str]:
    return card.read_text("utf-8").split("---\n")[1].splitlines()


def benchmark(**facts: Any) -> Benchmark:
    """Six questions about three images; the second is open, the third has a tag that gives its answer away."""
    rows = small.rows(6)
    del rows[1]["options"]
    rows[1]["answer"] = "a dog"
    rows[2]["answer_tag_kind"] = "ruminant"
    return small.built(rows, Path("made"), **facts)


def test_a_benchmark_is_read_by_the_hubs_library_with_its_pictures_and_without_golds() -> None:
    made = benchmark(licence="CC-BY-4.0")
    [data, card] = sn.export_benchmark("made", path="out")
    assert data == Path("out/data/test-00000-of-00001.parquet")
    rows = loaded("out")
    samples = list(made.samples())
    assert [row["id"] for row in rows] == [sample.id for sample in samples]
    for row, sample in zip(rows, samples, strict=True):
        assert (row["question"], tuple(row["options"])) == (sample.question, sample.options)
        assert row["tag_level"] == sample.tags["level"]
        [shown], stored = row["images"], Image.open(io.BytesIO(made.images.read(sample.images[0])))
        assert isinstance(shown, Image.Image) and shown.tobytes() == stored.tobytes()
    assert not {"gold", "gold_tag_kind", "answer"} & rows[0].keys()
    assert b"ruminant" not in data.read_bytes() and "Golds are left out." in card.read_text("utf-8")
    assert {"license: cc-by-4.0", "size_categories: [n<1K]", "    path: data/test-*.parquet"} <= {
        *front_matter(card)
    }
    assert f"version `{made.manifest.version}`" in card.read_text("utf-8")


def test_golds_are_written_where_they_are_asked_for() -> None:
    made = benchmark()
    sn.export_benchmark("made", path="out", answers=True)
    rows = {row["id"]: row for row in loaded("out")}
    assert rows["q000"]["gold"] == [
        {"turn": 0, "options": [0], "texts": [], "relevance": [], "candidates": []}
    ]
    assert rows["q001"]["gold"] == [
        {"turn": 0, "options": [], "texts": ["a dog"], "relevance": [], "candidates": []}
    ]
    assert (rows["q002"]["gold_tag_kind"], rows["q000"]["gold_tag_kind"]) == ("ruminant", None)
    (made.folder / ANSWERS).unlink()
    with pytest.raises(
        DataError,
        match=r"the answers of mine are not here; build it again, or leave answers=... out",
    ):
        sn.export_benchmark("made", path="again", answers=True)


def test_a_benchmark_with_hidden_answers_is_written_without_any() -> None:
    rows = small.rows(4)
    for row in rows:
        del row["answer"]
    small.built(rows, Path("made"))
    with pytest.raises(sn.DataError, match="the answers of mine are hidden; leave answers="):
        sn.export_benchmark("made", path="out", answers=True)
    sn.export_benchmark("made", path="out")
    assert len(loaded("out")) == 4 and "gold" not in loaded("out")[0]


def test_pictures_are_spread_over_files_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "SHARD_BYTES", 1)
    monkeypatch.setattr(dataset, "ROWS", 2)
    benchmark()
    for _ in range(2):  # a second time in the same place
        files = sn.export_benchmark("made", path="out")
        assert [file.name for file in files[:-1]] == [
            f"test-0000{i}-of-00003.parquet" for i in range(3)
        ]
        assert sorted(Path("out/data").iterdir()) == files[:-1]
    assert len(loaded("out")) == 6


@pytest.mark.parametrize(
    ("licences", "lines"),
    [
        (["CC-BY-4.0", "CC-BY-4.0"], ["license: cc-by-4.0"]),
        (["MIT", "CC-BY-4.0"], ["license: other", 'license_name: "MIT, CC-BY-4.0"']),
        (["our own: see page"], ["license: other", 'license_name: "our own: see page"']),
        (["MIT", ""], []),
    ],
)
def test_a_card_states_a_licence_that_the_hub_knows_or_says_other(
    licences: list[str], lines: list[str]
) -> None:
    text = dataset.card("T", data="data/x", split="test", rows=1000, licences=licences, text=[])
    assert [line for line in text.splitlines() if line.startswith("license")] == lines
    assert "size_categories: [1K<n<10K]" in text


def test_replies_are_read_by_the_hubs_library_with_pictures_where_they_are_asked_for() -> None:
    benchmark()
    results = sn.evaluate("snellen:oracle", "made", name="run")
    for pictures in (False, True):
        results.export("dataset", f"out-{pictures}", images=pictures)
        rows = loaded(f"out-{pictures}")
        assert [row["reply"] for row in rows] == results.samples()["reply"].to_list()
        assert all(isinstance(row["images"][0], Image.Image if pictures else str) for row in rows)
        assert not {"gold", "gold_options", "right"} & rows[0].keys()


# --- pushing -----------------------------------------------------------------------------------------------------


class HubStandIn(BaseHTTPRequestHandler):
    """What the hub's API is asked when a folder is uploaded: repository, upload modes, a transfer of LFS, commit."""

    server: RecordingServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append(
            (self.command, self.path, body, self.headers.get("Authorization", ""))
        )
        path = self.path.partition("?")[0]
        if self.server.refused:
            return self._reply({"error": "You don't have the rights"}, 403)
        if path.startswith("/store/"):
            return self._reply({})
        if path == "/api/repos/create":
            return self._reply(
                {"url": f"{self.server.url}/datasets/me/eyes", "name": "me/eyes", "id": "1"}
            )
        if path == "/api/validate-yaml":
            return self._reply({"errors": [], "warnings": []})
        if path.startswith("/api/datasets/me/eyes/preupload/"):
            files = json.loads(body)["files"]
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".parquet") else "regular",
                    "shouldIgnore": False,
                    "oid": None,
                }
                for file in files
            ]
            return self._reply({"files": modes})
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = [
                {
                    **one,
                    "actions": {
                        "upload": {"href": f"{self.server.url}/store/{one['oid']}", "header": {}}
                    },
                }
                for one in json.loads(body)["objects"]
            ]
            return self._reply(
                {"transfer": "basic", "objects": objects}, form="application/vnd.git-lfs+json"
            )
        if path.startswith("/api/datasets/me/eyes/commit/"):
            commit = f"{self.server.url}/datasets/me/eyes/commit/{'0' * 40}"
            return self._reply({"commitUrl": commit, "commitOid": "0" * 40, "pullRequestUrl": None})
        return self._reply({"error": f"not known here: {path}"}, 404)

    do_PUT = do_GET = do_HEAD = do_POST  # noqa: N815

    def _reply(
        self, content: dict[str, Any], status: int = 200, form: str = "application/json"
    ) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", form)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


class RecordingServer(ThreadingHTTPServer):
    def __init__(self, refused: bool) -> None:
        super().__init__(("127.0.0.1", 0), HubStandIn)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[tuple[str, str, bytes, str]] = []
        self.refused = refused


@contextmanager
def hub(*, refused: bool = False) -> Iterator[RecordingServer]:
    server = RecordingServer(refused)
    with small.running(server):
        yield server


def push(server: RecordingServer, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "HF_ENDPOINT": server.url,
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "PYTHONPATH": str(Path(sn.__file__).parents[1]),
        "COLUMNS": "200",
    }
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "snellen",
            "export",
            "made",
            "--as",
            "dataset",
            "-o",
            "out",
            "--push",
            "me/eyes",
            *words,
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def test_a_dataset_is_pushed_in_one_commit() -> None:
    benchmark()
    with hub() as server:
        done = push(server, "--private")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(f"/datasets/me/eyes/commit/{'0' * 40}")
    asked = {
        path.partition("?")[0].rpartition("/")[0] or path: body for _, path, body, _ in server.asked
    }
    created = json.loads(
        next(body for _, path, body, _ in server.asked if path == "/api/repos/create")
    )
    assert (created["type"], "private" in (created.get("visibility"), *created)) == (
        "dataset",
        True,
    )
    data, card = (
        Path("out/data/test-00000-of-00001.parquet").read_bytes(),
        Path("out/README.md").read_bytes(),
    )
    assert asked["/store"] == data  # the file itself, by the address that LFS gave
    [commit] = [body for _, path, body, _ in server.asked if "/commit/" in path]
    lines = [json.loads(line) for line in commit.splitlines()]
    files = {
        line["value"]["path"]: line["value"] for line in lines if line["key"] in ("file", "lfsFile")
    }
    assert lines[0] == {
        "key": "header",
        "value": {"summary": "Written by Snellen", "description": ""},
    }
    assert base64.b64decode(files["README.md"]["content"]) == card
    assert files["data/test-00000-of-00001.parquet"]["oid"] == hashlib.sha256(data).hexdigest()
    assert files.keys() == {"README.md", "data/test-00000-of-00001.parquet"}
    writing = ("/api/repos/create", "/api/datasets/")
    assert {key for _, path, _, key in server.asked if path.startswith(writing)} == {
        f"Bearer {TOKEN}"
    }
    assert TOKEN not in done.stdout + done.stderr


def test_what_the_hub_refuses_is_one_line_and_the_files_stay() -> None:
    benchmark()
    with hub(refused=True) as server:
        done = push(server)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert (
        "out is written, but cannot be pushed to me/eyes" in done.stderr
        and TOKEN not in done.stderr
    )
    assert "hf upload me/eyes out --repo-type dataset" in done.stderr
    assert Path("out/README.md").exists()


def test_a_hub_that_cannot_be_reached_is_one_line() -> None:
    benchmark()
    with hub() as server:
        pass
    done = push(server)
    assert (
        done.returncode == 2
        and "Traceback" not in done.stderr
        and "cannot be pushed to me/eyes" in done.stderr
    )


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (
            ("runs/r", "--as", "samples", "--push", "me/eyes"),
            "--push uploads datasets to the hub, not samples",
        ),
        (
            ("runs/r", "--as", "dataset", "--private"),
            "--private applies to the repository that --push creates",
        ),
        (("runs/typo",), "there is no folder runs/typo"),
        (("eyechart/shap", "--as", "dataset"), "did you mean eyechart/shape"),
        (
            ("made", "--as", "inspect"),
            "made is a built benchmark, but --as inspect writes the replies of runs; `snellen export made --as dataset`",
        ),
    ],
)
def test_what_makes_no_sense_is_said(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], fault: str
) -> None:
    benchmark()
    code, _, err = small.command(capsys, "export", *words)
    assert code == 2 and fault in " ".join(err.split())
