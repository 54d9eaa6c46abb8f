"""Running `snellen serve`: health, metrics, logs, jobs, stops, backups, its OpenAPI document, the command itself."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from PIL import Image
from starlette.applications import Starlette

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

from fastapi import APIRouter
from fastapi.openapi.models import OpenAPI
from fastapi.responses import StreamingResponse

from hosting import RunningServer, add_feature, hosted
from snellen.cli import main
from snellen.errors import DataError, StoreError
from snellen_server.hosting.about import FEATURE as ABOUT
from snellen_server.hosting.application import make_hosting
from snellen_server.hosting.callers import ServicesDep
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.database import back_up, restore
from snellen_server.hosting.features import Collector, Feature, Job
from snellen_server.hosting.features import HealthCheck as ReadinessCheck
from snellen_server.hosting.monitoring import LOGGER, JsonLines
from snellen_server.hosting.pictures import forget_images
from snellen_server.hosting.services import Services, open_services


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with hosted(tmp_path_factory.mktemp("operations") / "server", features=["accounts"]) as running:
        yield running


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "teal").save(file, "PNG")
    return file.getvalue()


# --- watching ----------------------------------------------------------------------------------------------------


def test_a_server_that_is_ready_says_so_and_counts_what_it_does(server: RunningServer) -> None:
    visitor = server.visitor()
    assert visitor.get("/healthz").text == "ok"
    assert visitor.get("/readyz").json() == {"ready": True, "missing": {}}
    visitor.get("/nothing-of-this-name")
    metrics = visitor.get("/metrics").text
    assert 'snellen_requests_total{method="GET",route="/healthz",status="200"}' in metrics
    assert "nothing-of-this-name" not in metrics


def test_a_request_is_logged_without_query_address_or_person(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    anna = server.signed_in("Anna")
    caplog.clear()
    anna.get("/invitation/a-secret-token?also=secret")
    anna.get("/healthz")  # by now the request before it is logged
    lines = [
        json.loads(JsonLines().format(record))
        for record in caplog.records
        if record.name == LOGGER.name
    ]
    assert {line["event"] for line in lines} == {"request"}
    assert ("/invitation/{token}", 404) in [(line["route"], line["status"]) for line in lines]
    assert not {"secret", "127.0.0.1", "Anna"} & set(json.dumps(lines).replace("/", " ").split())


# --- features ----------------------------------------------------------------------------------------------------

streams = APIRouter()


@streams.get("/stream", include_in_schema=False)
async def stream(services: ServicesDep) -> StreamingResponse:
    async def parts() -> AsyncIterator[bytes]:
        yield b"begun "
        await services.stopping.wait()
        yield b"and finished"

    return StreamingResponse(parts(), media_type="text/plain")


@streams.get("/broken", include_in_schema=False)
async def broken() -> None:
    raise ZeroDivisionError("the secret of this server")


def test_a_stop_lets_streams_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_feature(monkeypatch, Feature("streams", "Streams", streams, "snellen"))
    with hosted(tmp_path, features=["streams"]) as running:
        with httpx.stream("GET", f"{running.url}/stream", trust_env=False, verify=False) as answer:
            parts = answer.iter_raw()
            assert next(parts) == b"begun "
            running.loop_call(running.services.stopping.set)
            assert b"".join(parts) == b"and finished"
        assert running.visitor().get("/readyz").status_code == 503


def test_what_breaks_is_logged_and_told_without_its_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_feature(monkeypatch, Feature("streams", "Streams", streams, "snellen"))
    with hosted(tmp_path, features=["streams"]) as running:
        answer = running.visitor().get("/broken")
    assert answer.status_code == 500
    assert "secret" not in answer.text and "content-security-policy" in answer.headers
    assert any(
        record.exc_info and "the secret" in str(record.exc_info[1]) for record in caplog.records
    )


def test_an_address_that_nothing_would_guard_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = APIRouter()
    router.mount("/inner", Starlette())
    add_feature(monkeypatch, replace(ABOUT, name="unguarded", router=router, navigation=()))
    services = open_services(Configuration(folder=tmp_path, features=("unguarded",)))
    with pytest.raises(TypeError, match="/inner"):
        make_hosting(services)
    services.database.close()


def test_a_job_runs_goes_on_after_a_failure_and_is_done_by_one_server_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Services] = []
    is_done = threading.Semaphore(0)

    async def work(services: Services) -> None:
        ran.append(services)
        services.metrics["test_worked"].inc()
        is_done.release()
        if len(ran) == 1:
            raise ValueError("the first time")

    async def fault(services: Services) -> str | None:
        return "the model is still loading" if len(ran) < 2 else None

    feature = Feature(
        "working",
        "Working",
        APIRouter(),
        "snellen",
        jobs=(Job("work", 3600, work),),
        metrics=(Collector("test_worked", "Times"),),
        health_checks=(ReadinessCheck("model", fault),),
    )
    add_feature(monkeypatch, feature)
    with (
        hosted(tmp_path, features=["working"]) as first,
        hosted(tmp_path, features=["working"]) as second,
    ):
        assert is_done.acquire(timeout=30)
        assert first.visitor().get("/readyz").json()["missing"] == {
            "model": "the model is still loading"
        }
        until_waiting(first)
        first.loop_call(lambda: first.services.jobs.wake("work"))
        assert is_done.acquire(timeout=30)
        second.loop_call(lambda: second.services.jobs.wake("work"))
        until_waiting(first)
        metrics = first.visitor().get("/metrics").text
        assert 'snellen_job_runs_total{job="work",outcome="failed"} 1.0' in metrics
        assert "test_worked_total 2.0" in metrics
    assert set(map(id, ran)) == {id(first.services)}


def until_waiting(server: RunningServer) -> None:
    """Lets what the server's loop has begun go on for some rounds."""
    for _ in range(5):
        server.visitor().get("/readyz")


def test_a_picture_whose_sender_was_erased_is_forgotten(
    server: RunningServer, tmp_path: Path
) -> None:
    anna = server.signed_in("Leaving")
    address = anna.send("/api/v1/images", picture()).json()["address"]
    asyncio.run(forget_images(server.services))
    assert anna.get(address).status_code == 200
    found = server.services.configuration.folder
    main_code(["serve-data", "erase", str(found), "--account", "leaving"])
    asyncio.run(forget_images(server.services))
    assert anna.get(address).status_code == 404


# --- copies ------------------------------------------------------------------------------------------------------


def test_a_backup_of_a_serving_server_is_restored_whole(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anna = server.signed_in("Anna")
    address = anna.send("/api/v1/images", picture()).json()["address"]
    archive, folder = tmp_path / "backup.tar", tmp_path / "restored"
    served_folder = server.services.configuration.folder
    (served_folder / "runs").mkdir()
    main_code(["serve-data", "backup", str(served_folder), str(archive)])
    assert f"the runs in {served_folder / 'runs'} are not included" in capsys.readouterr().out
    assert archive.stat().st_mode & 0o077 == 0
    main_code(["serve-data", "restore", str(archive), str(folder)])
    with hosted(folder) as restored:
        again = restored.visitor(cookie=f"snellen_session={anna.http.cookies['snellen_session']}")
        assert "Anna" in again.get("/account").text
        assert again.get(address).content == anna.get(address).content
    with pytest.raises(StoreError, match="not empty"):
        restore(archive, folder)
    for made in (served_folder, folder):
        assert made.stat().st_mode & 0o077 == 0, "what the server knows of persons is its own"
    with pytest.raises(StoreError, match="cannot be written"):
        back_up(server.services.configuration, archive)


def test_what_is_no_backup_is_refused_and_writes_nothing_elsewhere(tmp_path: Path) -> None:
    cut, evil = tmp_path / "cut.tar", tmp_path / "evil.tar"
    cut.write_bytes(b"no tar")
    with tarfile.open(evil, "w") as tar:
        tar.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    for archive in (cut, evil):
        with pytest.raises(DataError, match=r"cannot be read as a backup|is not a backup"):
            restore(archive, tmp_path / archive.stem)
    assert not (tmp_path / "outside").exists()


def main_code(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def test_what_is_known_of_a_visitor_is_printed(
    server: RunningServer, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    visitor = server.visitor()
    visitor.send("/api/v1/images", picture())
    name = visitor.http.cookies["snellen_visitor"].partition(".")[0]
    capfdbinary.readouterr()
    main_code(
        ["serve-data", "export", str(server.services.configuration.folder), "--visitor", name]
    )
    assert len(json.loads(capfdbinary.readouterr().out)["picture_sending"]) == 1
    with pytest.raises(SystemExit) as ended:
        main(["serve-data", "export", str(server.services.configuration.folder)])
    assert ended.value.code == 2


@pytest.mark.parametrize("arguments", [["purge"], ["export", "--visitor", "nobody"]])
def test_a_command_on_personal_data_lets_go_of_the_database(
    arguments: list[str], tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    main_code(["serve-data", arguments[0], str(tmp_path), *arguments[1:]])
    assert set(threading.enumerate()) <= before  # a database that is open has a thread that writes


# --- the OpenAPI document ----------------------------------------------------------------------------------------


def test_the_openapi_document_is_valid_and_the_server_does_what_it_says(
    server: RunningServer,
) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="waits for schemathesis")
    document = server.visitor().get("/openapi.json").json()
    OpenAPI.model_validate(document)
    assert {path for path in document["paths"] if not path.startswith("/api/v1/")} == {
        "/healthz",
        "/readyz",
    }
    program = server.with_key("Program")
    headers = {"authorization": program.http.headers["authorization"]}
    operations = [
        found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()
    ]
    assert len(operations) >= 5
    # A key is taken everywhere but needed only in places, and not all bytes that a file may hold are an image.
    excluded = schemathesis.checks.CHECKS.get_by_names(["ignored_auth", "positive_data_acceptance"])
    for operation in operations:

        @settings(max_examples=2, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            answer = case.call(base_url=server.url, headers=headers)
            case.validate_response(answer, excluded_checks=excluded)

        check()


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command_serves_prints_a_link_and_stops_when_told(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "snellen", "serve", str(tmp_path / "lab"), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stdout is not None
    link = process.stdout.readline().rpartition(" ")[2].strip()
    address = process.stdout.readline().split()[0]
    assert link.startswith(f"{address}/invitation/")
    with httpx.Client(trust_env=False, verify=False, headers={"accept": "text/html"}) as client:
        page = client.get(link)
        token = page.text.partition('name="csrf-token" content="')[2].partition('"')[0]
        fields = {"csrf_token": token, "name": "Root", "password": "a long password"}
        assert client.post(link, data=fields).status_code == 303
        assert "Root" in client.get(f"{address}/admin/accounts").text
    process.send_signal(signal.SIGTERM)
    _, logged = process.communicate(timeout=60)
    lines = [json.loads(line) for line in logged.splitlines()]
    assert [lines[0]["event"], lines[-1]["event"]] == ["started", "stopped"]
    assert link.rpartition("/")[2] not in logged
    assert process.returncode in (0, -signal.SIGTERM)
