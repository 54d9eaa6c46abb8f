"""A unique key, planted wherever a key can be given, is sent and found in no file and in no output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from servers import Fault, Server, error_body, reply_body, start_server
from small import built, command, rows
from snellen.errors import ModelError
from snellen.models.loading import load_model

KEY = "Zq7planted0key4711unique8x"


@pytest.fixture
def server() -> Iterator[Server]:
    with start_server() as started:
        yield started


def snellen(folder: Path, *words: str, code: int = 0) -> str:
    """All that a command writes on both streams."""
    done = subprocess.run(
        [sys.executable, "-m", "snellen", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PLANTED": KEY},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def files_with_key(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if KEY in str(path) or (path.is_file() and KEY.encode() in path.read_bytes())
    ]


def check_planted_key(
    model: str, server: Server, folder: Path, snellen: Callable[..., str]
) -> None:
    """Use a run of that model by each verb that reads one; `snellen` returns all that a command writes."""
    built(rows(4), folder / "mine")
    named = model.format(url=server.url)
    echoing = reply_body(f"A, said {KEY}")
    server.script(
        Fault(body=echoing, times=1), Fault(400, error_body(f"no such key {KEY}"), times=1)
    )
    run = ("run", named, "./mine", "--name", "r", "--error-budget", "1")
    shown = [
        snellen(*run),
        snellen(*run),
        snellen("report", "runs/r"),
        snellen("score", "runs/r", "--json"),
        snellen("export", "runs/r"),
        snellen("list", "models"),
    ]
    assert KEY not in "".join(shown)
    assert files_with_key(folder) == []
    assert "runs/r" in {str(path.relative_to(folder)) for path in folder.glob("runs/*")}


def test_a_key_that_is_named_is_sent_and_written_nowhere(server: Server, tmp_path: Path) -> None:
    model = "openai:m@{url}?api_key_env=PLANTED"
    check_planted_key(model, server, tmp_path, partial(snellen, tmp_path))


@pytest.mark.parametrize(
    "model",
    [
        'openai:m@{url}?extra_body={{"auth":{{"token":"${{PLANTED}}"}}}}',
        'openai:m@{url}?extra_body={{"user":"Bearer ${{PLANTED}}"}}',
    ],
)
def test_a_key_that_a_body_names_is_sent_and_written_nowhere(
    model: str,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PLANTED", KEY)
    monkeypatch.chdir(tmp_path)

    def snellen(*words: str) -> str:
        code, out, err = command(capfd, *words)
        assert code == 0, out + err
        return out + err

    check_planted_key(model, server, tmp_path, snellen)


def test_a_key_in_a_path_is_sent_and_not_repeated(server: Server, tmp_path: Path) -> None:
    built(rows(4), tmp_path / "mine")
    base = server.url.removesuffix("/v1")
    shown = snellen(tmp_path, "run", f"openai:m@{base}/gate/${{PLANTED}}/v1", "./mine", code=2)
    assert "404" in shown and KEY not in shown
    assert f"/gate/{KEY}/v1/chat/completions" in {
        seen.path for seen in server.seen(f"/gate/{KEY}/v1/chat/completions")
    }
    assert files_with_key(tmp_path) == []


@pytest.mark.parametrize(
    "model",
    [
        f"openai:m@http://127.0.0.1:9/gate/{KEY}/v1",
        f"openai:m@http://me:{KEY}@127.0.0.1:9/v1",
        f"openai:m@http://127.0.0.1:9/v1?key={KEY}",
        f"openai:m@http://127.0.0.1:9/v1?api_key={KEY}",
        f'openai:m@http://127.0.0.1:9/v1?extra_body={{"api_key":"{KEY}"}}',
        f'openai:m@http://127.0.0.1:9/v1?extra_body={{"headers":[{{"X-Auth-Token":"{KEY}"}}]}}',
        'openai:m@http://127.0.0.1:9/v1?extra_body={"user":"sk-12345678"}',
        'openai:m@http://127.0.0.1:9/v1?extra_body={"user":"hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH"}',
        f"azure:m@https://{KEY}:x@host/",
        f"anthropic:m@http://127.0.0.1:9/{KEY}",
        'openai:m@http://127.0.0.1:9/v1?extra_body={"user":"eyJhbGciOi12345678.eyJzdWIi.c2ln"}',
        f'openai:m@http://127.0.0.1:9/v1?extra_body={{"signature":"{KEY}"}}',
        'openai:m@http://127.0.0.1:9/v1?extra_body={"sk-proj-12345678":true}',
        "openai:sk-proj-a12345678bcdefgh:m@http://127.0.0.1:9/v1",
    ],
)
def test_a_key_that_is_written_out_is_refused_and_not_repeated(model: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="do not put") as refused:
        load_model(model)
    assert KEY not in str(refused.value) and "12345678" not in str(refused.value)


def test_a_key_in_place_of_the_name_of_its_variable_is_not_repeated() -> None:
    with pytest.raises(ModelError, match="not the key itself") as refused:
        load_model(f"openai:m@http://127.0.0.1:9/v1?api_key_env={KEY}")
    assert KEY not in str(refused.value)


def test_a_key_that_is_written_out_leaves_nothing(tmp_path: Path) -> None:
    built(rows(4), tmp_path / "mine")
    shown = snellen(tmp_path, "run", f"openai:m@http://127.0.0.1:9/v1?key={KEY}", "./mine", code=2)
    assert KEY not in shown
    assert files_with_key(tmp_path) == []


@pytest.mark.parametrize(
    "model",
    [
        "openai:org/Qwen2.5-VL-7B-Instruct-AWQ@http://127.0.0.1:9/openai/deployments/gpt-4o-mini-2024-07-18",
        'openai:m@http://127.0.0.1:9/v1?extra_body={"max_tokens":5,"stop_token_ids":[1],"mm_processor_kwargs":{"k":"v"}}',
        "openai:hf-internal-testing/tiny-random-Llava2_for_2024_tests@http://127.0.0.1:9/v1",
        'openai:m@http://127.0.0.1:9/v1?extra_body={"keyframes":"all","signal":"x"}',
        'openai:m@http://127.0.0.1:9/v1?extra_body={"skip_special_tokens":false,"hf_overrides":{"a":1}}',
        'openai:m@http://127.0.0.1:9/v1?extra_body={"guided_choice":["skateboard","sk-learner"]}',
        "openai:m@http://127.0.0.1:9/projects/3f2504e0-4f89-11d3-9a0c-0305e82c3301/v1",
    ],
)
def test_what_is_no_key_is_taken(model: str) -> None:
    assert load_model(model)


def test_a_variable_that_is_not_set_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLANTED", raising=False)
    with pytest.raises(
        ModelError, match="names the environment variable PLANTED, which is not set"
    ):
        load_model("openai:m@http://127.0.0.1:9/${PLANTED}/v1")
