"""The servers are true: what `huggingface_hub` and a plain client get of them, and every fault as it is served."""

from __future__ import annotations

import hashlib
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import certifi
import httpx
import huggingface_hub
import pytest
from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile, RepoFolder
from huggingface_hub.utils._http import parse_ratelimit_headers
from huggingface_hub.utils.tqdm import disable_progress_bars
from hypothesis import given, settings
from hypothesis import strategies as st

from place_servers import (
    KINDS,
    LOGIN_PAGE,
    Asked,
    Blob,
    Faults,
    FileServer,
    HubServer,
    ModelScopeServer,
    PlaceServer,
    Repo,
    What,
    drawn,
    file_reply,
    folder,
    secure_file_server,
)

LARGE = bytes(range(256)) * 20
SMALL = b'{"answer": "B"}\n'
FILES = {"README.md": b"# A\n", "data/val.jsonl": SMALL, "data/pictures.zip": LARGE}
NAME = "owner/chart"
PATIENCE = 5.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first of the authorities that clients trust: reading all takes each client as long as ten requests."""
    first, end, _ = (
        Path(certifi.where()).read_text("utf-8").partition("-----END CERTIFICATE-----\n")
    )
    path = tmp_path_factory.mktemp("authority") / "first.pem"
    path.write_text(first + end)
    return path


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch, authority: Path) -> Iterator[list[float]]:
    """The client's waits: noted, not slept."""
    noted: list[float] = []
    monkeypatch.setattr(time, "sleep", noted.append)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    for name in (
        "HF_TOKEN",
        "HF_ENDPOINT",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "http_proxy",
        "https_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    disable_progress_bars()
    yield noted
    huggingface_hub.close_session()


def fetch(
    hub: HubServer, path: str, into: Path, *, token: str | bool = False, revision: str | None = None
) -> bytes:
    found = hf_hub_download(
        NAME,
        path,
        repo_type="dataset",
        endpoint=hub.url,
        cache_dir=into,
        token=token,
        revision=revision,
    )
    return Path(found).read_bytes()


def fetch_all(
    hub: HubServer, into: Path, name: str = NAME, *, token: str | bool = False
) -> dict[str, bytes]:
    root = snapshot_download(
        name, repo_type="dataset", endpoint=hub.url, cache_dir=into, token=token, max_workers=2
    )
    return {path: file.read_bytes() for path, file in folder(Path(root)).items()}


def api(hub: HubServer, token: str | bool = False) -> HfApi:
    return HfApi(endpoint=hub.url, token=token)


def test_a_public_dataset_arrives_whole_and_is_kept_by_its_digests(tmp_path: Path) -> None:
    with HubServer({NAME: Repo(FILES)}) as hub:
        assert fetch_all(hub, tmp_path) == FILES
        info = api(hub).dataset_info(NAME, files_metadata=True)
    kept = tmp_path / "datasets--owner--chart"
    assert (kept / "refs" / "main").read_text() == info.sha == hub.commit(NAME)
    digests = {path.name for path in (kept / "blobs").iterdir()}
    assert digests == {
        hashlib.sha256(LARGE).hexdigest(),
        *(
            hashlib.sha1(b"blob %d\0" % len(it) + it).hexdigest()
            for it in (SMALL, FILES["README.md"])
        ),
    }
    assert [it.rfilename for it in info.siblings or ()] == sorted(FILES)
    large = next(it for it in info.siblings or () if it.lfs)
    assert large.lfs is not None
    assert (large.size, large.lfs.sha256) == (len(LARGE), hashlib.sha256(LARGE).hexdigest())


def test_the_small_files_digest_is_what_git_says(tmp_path: Path) -> None:
    file = tmp_path / "it"
    file.write_bytes(SMALL)
    told = subprocess.run(
        ["git", "hash-object", str(file)], capture_output=True, text=True, check=True
    )
    assert Blob.of(SMALL).git_sha1 == Blob.of(file).git_sha1 == told.stdout.strip()


def test_a_snapshot_that_is_there_asks_for_no_file_again(tmp_path: Path) -> None:
    with HubServer({NAME: Repo(FILES)}) as hub:
        fetch_all(hub, tmp_path)
        before = hub.sent("^GET .*(resolve|repos)")
        fetch_all(hub, tmp_path)
        assert before > len(LARGE)
        assert hub.sent("^GET .*(resolve|repos)") == before


def test_the_endpoint_of_the_environment_is_enough(tmp_path: Path) -> None:
    program = f"import huggingface_hub as h; print(h.hf_hub_download('{NAME}', 'data/val.jsonl', repo_type='dataset'))"
    with HubServer({NAME: Repo(FILES)}) as hub:
        surroundings = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=surroundings, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == SMALL


@pytest.mark.parametrize("page", [1, 2, 1000])
@pytest.mark.parametrize("expand", [False, True])
def test_a_tree_is_listed_page_by_page(page: int, expand: bool) -> None:
    with HubServer({NAME: Repo(FILES)}, page=page) as hub:
        listed = list(
            api(hub).list_repo_tree(NAME, repo_type="dataset", recursive=True, expand=expand)
        )
        flat = [it.path for it in api(hub).list_repo_tree(NAME, repo_type="dataset")]
        under = [it.path for it in api(hub).list_repo_tree(NAME, "data", repo_type="dataset")]
        pages = sum("recursive=true" in line.path.lower() for line in hub.log)
    files = {it.path: it for it in listed if isinstance(it, RepoFile)}
    assert {path: it.size for path, it in files.items()} == {
        path: len(it) for path, it in FILES.items()
    }
    assert [it.path for it in listed if isinstance(it, RepoFolder)] == ["data"]
    assert (sorted(flat), sorted(under)) == (
        ["README.md", "data"],
        ["data/pictures.zip", "data/val.jsonl"],
    )
    assert pages == -(-4 // page)
    assert all((it.last_commit is not None) == expand for it in listed)


def test_paths_refs_and_commits_are_told() -> None:
    with HubServer({NAME: Repo(FILES, older={"v1": {"README.md": b"# Old\n"}})}) as hub:
        told = api(hub)
        paths = told.get_paths_info(
            NAME, ["data/val.jsonl", "data", "nowhere"], repo_type="dataset"
        )
        refs = told.list_repo_refs(NAME, repo_type="dataset")
        commits = told.list_repo_commits(NAME, repo_type="dataset", revision="v1")
    assert [it.path for it in paths] == ["data/val.jsonl", "data"]
    assert {it.name: it.target_commit for it in refs.branches} == {
        n: hub.commit(NAME, n) for n in ("main", "v1")
    }
    assert [it.commit_id for it in commits] == [hub.commit(NAME, "v1")] != [hub.commit(NAME)]


def test_each_revision_has_its_own_files(tmp_path: Path) -> None:
    with HubServer({NAME: Repo(FILES, older={"refs/pr/1": {"README.md": b"# Old\n"}})}) as hub:
        for revision in ("refs/pr/1", hub.commit(NAME, "refs/pr/1")):
            assert fetch(hub, "README.md", tmp_path, revision=revision) == b"# Old\n"
        with pytest.raises(RevisionNotFoundError):
            fetch(hub, "README.md", tmp_path, revision="v9")
        with pytest.raises(RevisionNotFoundError):
            api(hub).dataset_info(NAME, revision="0" * 40)


def test_a_file_that_is_not_there_is_told_from_a_dataset_that_is_not(tmp_path: Path) -> None:
    with HubServer({NAME: Repo(FILES), "owner/gone": Repo({}, state="gone")}) as hub:
        with pytest.raises(RemoteEntryNotFoundError) as missing:
            fetch(hub, "nowhere.json", tmp_path)
        assert missing.value.response.headers["X-Repo-Commit"] == hub.commit(NAME)
        for name in ("owner/gone", "nobody/nothing", "squad"):
            with pytest.raises(RepositoryNotFoundError) as gone:
                api(hub).dataset_info(name)
            assert gone.value.response.status_code == 404


def test_a_gate_opens_to_the_right_token_alone(tmp_path: Path) -> None:
    gated = Repo(FILES, state="gated", tokens=("hf_in",), pending=("hf_wait",))
    with HubServer({NAME: gated}, expired=("hf_old",)) as hub:
        assert api(hub).dataset_info(NAME).gated == "auto"
        told: dict[str | bool, tuple[int, str]] = {
            False: (401, "Please log in"),
            "hf_old": (401, "Please log in"),
            "hf_out": (403, "ask for access"),
            "hf_wait": (403, "awaiting a review"),
        }
        for token, (status, why) in told.items():
            for path in ("data/pictures.zip", "README.md"):
                with pytest.raises(GatedRepoError, match=why) as refused:
                    # What the server says of it is in the headers of a HEAD.
                    fetch(hub, path, tmp_path, token=token)
                assert refused.value.response.status_code == status
            with pytest.raises(GatedRepoError):
                fetch_all(hub, tmp_path, token=token)
        assert hub.sent("^GET .*(resolve|repos)/") < len(LARGE)
        assert fetch_all(hub, tmp_path, token="hf_in") == FILES


def test_a_gated_listing_may_be_open_to_all() -> None:
    with HubServer({NAME: Repo(FILES, state="gated")}, gated_tree=False) as hub:
        assert len(list(api(hub).list_repo_tree(NAME, repo_type="dataset", recursive=True))) == 4


def test_a_private_dataset_is_as_if_it_were_not(tmp_path: Path) -> None:
    with HubServer({NAME: Repo(FILES, state="private", tokens=("hf_in",))}) as hub:
        for token, status in ((False, 401), ("hf_out", 404)):
            with pytest.raises(RepositoryNotFoundError) as refused:
                fetch(hub, "README.md", tmp_path, token=token)
            assert refused.value.response.status_code == status
        assert fetch_all(hub, tmp_path, token="hf_in") == FILES


def test_without_codes_an_anonymous_user_is_told_what_the_hub_tells() -> None:
    repos = {NAME: Repo(FILES, state="private"), "owner/gone": Repo({}, state="gone")}
    with HubServer(repos, coded=False) as hub:
        for name in (NAME, "owner/gone", "nobody/nothing"):
            reply = httpx.get(f"{hub.url}/api/datasets/{name}")
            assert (reply.status_code, reply.json()) == (
                401,
                {"error": "Invalid username or password."},
            )
            assert "X-Error-Code" not in reply.headers


def test_expired_tokens_and_disabled_datasets_are_named() -> None:
    with HubServer(
        {NAME: Repo(FILES), "owner/bad": Repo({}, state="disabled")}, expired=("hf_old",)
    ) as hub:
        with pytest.raises(HfHubHTTPError, match="Invalid credentials"):
            api(hub, "hf_old").dataset_info(NAME)
        with pytest.raises(DisabledRepoError):
            api(hub).dataset_info("owner/bad")


def test_what_has_moved_is_found_at_its_new_name(tmp_path: Path) -> None:
    with HubServer({NAME: Repo({}, moved_to="new/home"), "new/home": Repo(FILES)}) as hub:
        assert api(hub).dataset_info(NAME).id == "new/home"
        assert fetch(hub, "data/pictures.zip", tmp_path) == LARGE
        assert fetch_all(hub, tmp_path / "all") == FILES
        paths = api(hub).get_paths_info(NAME, ["README.md"], repo_type="dataset")
        assert [it.path for it in paths] == ["README.md"]
        assert {line.status for line in hub.log if NAME in line.path} == {307}


def test_the_store_is_another_port_and_is_given_no_token(tmp_path: Path) -> None:
    with HubServer({NAME: Repo(FILES, state="gated", tokens=("hf_in",))}) as hub:
        fetch(hub, "data/pictures.zip", tmp_path, token="hf_in")
        front, store = (
            [line for line in hub.log if line.port == port] for port in ("front", "store")
        )
        assert hub.store != hub.url
    assert {line.authorization for line in front} == {"Bearer hf_in"}
    assert [(line.method, line.authorization, line.sent) for line in store] == [
        ("GET", None, len(LARGE))
    ]


def test_a_signed_address_ends() -> None:
    with HubServer({NAME: Repo(FILES)}, signed_for=1) as hub:
        signed = httpx.get(f"{hub.url}/datasets/{NAME}/resolve/main/data/pictures.zip").headers[
            "Location"
        ]
        first, second = httpx.get(signed), httpx.get(signed)
        unsigned = httpx.get(signed.partition("?")[0])
    assert (first.content, second.status_code, unsigned.status_code) == (LARGE, 403, 403)
    assert b"Request has expired" in second.content


def test_a_cut_is_resumed_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100)
    with HubServer({NAME: Repo(FILES)}, faults=Faults("cut", after=1000)) as hub:
        assert fetch(hub, "data/pictures.zip", tmp_path) == LARGE
        asked = [line for line in hub.log if line.port == "store"]
    assert [(line.status, line.range, line.sent) for line in asked] == [
        (200, None, 1000),
        (206, "bytes=1000-", len(LARGE) - 1000),
    ]
    assert [(line.fault, line.after) for line in asked] == [("cut", 1000), ("", None)]
    assert waits == [1]


def test_after_429_the_client_waits_as_it_was_told(tmp_path: Path, waits: list[float]) -> None:
    with HubServer({NAME: Repo(FILES, rate_limited=2, retry_after=7)}) as hub:
        listed = list(api(hub).list_repo_tree(NAME, repo_type="dataset"))
        told = [line.status for line in hub.log]
    assert (len(listed), told, waits) == (2, [429, 429, 200], [8, 8])
    with HubServer({NAME: Repo(FILES)}, faults=Faults("storm", times=3, retry_after="1")) as hub:
        assert fetch(hub, "data/pictures.zip", tmp_path) == LARGE
        assert [line.status for line in hub.log if line.port == "store"] == [429, 429, 429, 200]
    assert waits == [8, 8, 2, 2, 2]


def test_the_limits_are_in_every_reply_of_the_api() -> None:
    with HubServer({NAME: Repo(FILES, rate_limited=1, retry_after=30)}) as hub:
        refused, served = (httpx.get(f"{hub.url}/api/datasets/{NAME}") for _ in range(2))
    assert refused.headers["Retry-After"] == "30"
    info = parse_ratelimit_headers(refused.headers)
    assert info is not None
    assert (info.resource_type, info.remaining, info.reset_in_seconds, info.limit) == (
        "api",
        0,
        30,
        500,
    )
    assert served.headers["RateLimit"].startswith('"api";r=49')


def test_a_repository_can_change_while_it_is_served(tmp_path: Path) -> None:
    with HubServer({NAME: Repo(FILES)}) as hub:
        before = hub.commit(NAME)
        hub[NAME] = Repo({"README.md": b"# B\n"})
        assert fetch(hub, "README.md", tmp_path) == b"# B\n"
        assert hub.commit(NAME) != before
        hub[NAME] = Repo({}, state="gone")
        with pytest.raises(RepositoryNotFoundError):
            api(hub).dataset_info(NAME)


def test_a_vast_file_is_announced_and_refused_for_want_of_room(tmp_path: Path) -> None:
    with HubServer({NAME: Repo({"all.zip": Blob.vast(10**15)})}) as hub:
        entry = api(hub).get_paths_info(NAME, ["all.zip"], repo_type="dataset")[0]
        assert isinstance(entry, RepoFile)
        signed = httpx.get(f"{hub.url}/datasets/{NAME}/resolve/main/all.zip").headers["Location"]
        with httpx.stream("GET", signed) as reply:
            assert reply.headers["Content-Length"] == str(10**15)
            assert next(reply.iter_raw(100)) == bytes(100)
    assert entry.size == 10**15


def test_ranges_are_those_of_rfc_9110() -> None:
    body = bytes(range(100))
    with FileServer({"a/b c.bin": body}) as files, httpx.Client(base_url=files.url) as client:
        plain = client.get("/a/b%20c.bin")
        for asked, (status, got, told) in {
            "bytes=10-19": (206, body[10:20], "bytes 10-19/100"),
            "bytes=90-": (206, body[90:], "bytes 90-99/100"),
            "bytes=-5": (206, body[95:], "bytes 95-99/100"),
            "bytes=95-400": (206, body[95:], "bytes 95-99/100"),
            "bytes=100-": (416, b"", "bytes */100"),
            "bytes=1-2,5-6": (200, body, None),
            "lines=1-2": (200, body, None),
        }.items():
            reply = client.get("/a/b%20c.bin", headers={"Range": asked})
            assert (reply.status_code, reply.content, reply.headers.get("Content-Range")) == (
                status,
                got,
                told,
            )
        head = client.head("/a/b%20c.bin")
        log = files.log
    assert (plain.status_code, plain.content, plain.headers["Accept-Ranges"]) == (
        200,
        body,
        "bytes",
    )
    assert (head.headers["Content-Length"], head.content) == ("100", b"")
    assert [line.range for line in log][:2] == [None, "bytes=10-19"]
    assert [line.sent for line in log] == [100, 10, 10, 5, 5, 0, 100, 100, 0]


@given(
    body=st.binary(min_size=1, max_size=300), start=st.integers(0, 400), length=st.integers(1, 400)
)
@settings(max_examples=60, deadline=None)
def test_any_range_is_the_slice_of_the_file(body: bytes, start: int, length: int) -> None:
    asked = Asked("front", "GET", "/x", {"range": f"bytes={start}-{start + length - 1}"}, b"")
    reply = file_reply(asked, Blob.of(body), {})
    assert b"".join(reply.blob.pieces(reply.start, reply.stop)) == body[start : start + length]
    assert reply.status == (206 if start < len(body) else 416)


def test_if_range_gives_the_whole_of_a_file_that_has_changed() -> None:
    with FileServer({"x": b"old old old"}) as files, httpx.Client(base_url=files.url) as client:
        first = client.get("/x")
        for condition in (first.headers["ETag"], first.headers["Last-Modified"]):
            asked = {"Range": "bytes=4-", "If-Range": condition}
            assert (client.get("/x", headers=asked).content, files.log[-1].if_range) == (
                b"old old",
                condition,
            )
        files.files = {"x": Blob.of(b"new new new new")}
        for condition in (first.headers["ETag"], first.headers["Last-Modified"], 'W/"weak"'):
            reply = client.get("/x", headers={"Range": "bytes=4-", "If-Range": condition})
            assert (reply.status_code, reply.content) == (200, b"new new new new")


def test_a_server_may_know_neither_ranges_nor_etags_nor_dates() -> None:
    with FileServer({"x": b"0123"}, ranges=False, etags=False, dates=False) as files:
        reply = httpx.get(f"{files.url}/x", headers={"Range": "bytes=2-"})
    assert (reply.status_code, reply.content) == (200, b"0123")
    assert not {"etag", "last-modified", "accept-ranges"} & set(reply.headers)


def test_redirects_and_missing_files() -> None:
    ways = {"/old": (301, "/new"), "/round": (302, "/round")}
    with (
        FileServer({"new": b"here"}, redirects=ways) as files,
        httpx.Client(base_url=files.url) as client,
    ):
        assert client.get("/old", follow_redirects=True).content == b"here"
        assert client.get("/nowhere").status_code == 404
        with pytest.raises(httpx.TooManyRedirects):
            client.get("/round", follow_redirects=True)


def test_a_connection_serves_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    with FileServer({"x": b"0123"}) as files, httpx.Client(base_url=files.url) as client:
        sources = {
            client.get("/x").extensions["network_stream"].get_extra_info("client_addr")
            for _ in range(5)
        }
    assert len(sources) == 1


def test_a_folder_is_served_from_disk(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.bin").write_bytes(LARGE)
    with FileServer(folder(tmp_path)) as files:
        assert (
            httpx.get(f"{files.url}/sub/x.bin", headers={"Range": "bytes=5000-"}).content
            == LARGE[5000:]
        )


def test_a_certificate_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    server, certificate = secure_file_server({"x": b"secret"})
    with server as files:
        with pytest.raises(httpx.ConnectError, match=r"self.signed certificate"):
            httpx.get(f"{files.url}/x")
        trusting = ssl.create_default_context(cadata=certificate.decode())
        assert httpx.get(f"{files.url}/x", verify=trusting).content == b"secret"
        server.faults = Faults("cut", after=2)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{files.url}/x", verify=trusting)
    assert files.refused_handshakes == 1
    assert [line.sent for line in files.log] == [6, 2]


def modelscope_files(
    server: ModelScopeServer, size: int, token: str = "", revision: str = "master"
) -> list[Any]:
    """As `list_dataset_files_paginated` of modelscope_hub asks."""
    found: list[Any] = []
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for number in range(1, 100):
        asked = {
            "Revision": revision,
            "Recursive": "True",
            "PageNumber": str(number),
            "PageSize": str(size),
        }
        address = f"{server.url}/api/v1/datasets/{NAME}/repo/tree"
        reply = httpx.get(address, params=asked, headers=headers).raise_for_status().json()
        files = reply["Data"]["Files"] or []
        found += files
        if len(files) < size:
            return found
    raise AssertionError("the listing does not end")


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_modelscope_lists_and_serves_a_dataset(size: int) -> None:
    with ModelScopeServer({NAME: Repo(FILES)}) as server:
        listed = modelscope_files(server, size)
        blobs = {it["Path"]: it for it in listed if it["Type"] != "tree"}
        for path, it in blobs.items():
            where = {"Revision": "master", "FilePath": path, "Source": "SDK", "View": "False"}
            address = f"{server.url}/api/v1/datasets/{NAME}/repo"
            got = httpx.get(address, params=where, follow_redirects=True)
            rest = httpx.get(
                address, params=where, follow_redirects=True, headers={"Range": "bytes=2-"}
            )
            assert (got.content, rest.status_code, rest.content) == (
                FILES[path],
                206,
                FILES[path][2:],
            )
            assert hashlib.sha256(got.content).hexdigest() == it["Sha256"]
            assert bool(got.history) == it["IsLFS"] == path.endswith(".zip")
            assert httpx.head(address, params=where).status_code == (302 if it["IsLFS"] else 200)
    assert set(blobs) == set(FILES)
    assert [it["Path"] for it in listed if it["Type"] == "tree"] == ["data"]


def test_modelscope_knows_a_dataset_by_its_number_too() -> None:
    with (
        ModelScopeServer({NAME: Repo(FILES)}) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        told = client.get(f"/api/v1/datasets/{NAME}").json()
        asked = {"Revision": "master", "Root": "/", "Recursive": "False"}
        top = client.get(f"/api/v1/datasets/{told['Data']['Id']}/repo/tree", params=asked).json()
        under = client.get(
            f"/api/v1/datasets/{NAME}/repo/tree", params={**asked, "Root": "data"}
        ).json()
    assert (told["Code"], told["Success"]) == (200, True)
    assert {it["Path"] for it in top["Data"]["Files"]} == {"README.md", "data"}
    assert {it["Path"] for it in under["Data"]["Files"]} == {"data/val.jsonl", "data/pictures.zip"}


def test_modelscope_refuses_in_its_own_way() -> None:
    repos = {
        NAME: Repo(FILES, state="private", tokens=("ms-in",)),
        "owner/gone": Repo({}, state="gone"),
    }
    with (
        ModelScopeServer(repos) as server,
        httpx.Client(base_url=f"{server.url}/api/v1/datasets") as client,
    ):
        gone, private = client.get("/owner/gone"), client.get(f"/{NAME}")
        cookie = client.get(f"/{NAME}", headers={"Cookie": "m_session_id=ms-in"})
        assert modelscope_files(server, 100, "ms-in", revision="v9") == []
        assert len(modelscope_files(server, 100, "ms-in")) == 4
        server.strict_revisions = True
        with pytest.raises(httpx.HTTPStatusError):
            modelscope_files(server, 100, "ms-in", revision="v9")
    assert (gone.status_code, gone.json()["Success"], gone.json()["Code"]) == (
        404,
        False,
        10010205001,
    )
    assert (private.status_code, cookie.status_code) == (403, 200)


def test_modelscope_limits_and_moves() -> None:
    repos = {
        NAME: Repo({}, moved_to="new/home"),
        "new/home": Repo(FILES, rate_limited=1, retry_after=3),
    }
    with ModelScopeServer(repos) as server:
        first, second = (
            httpx.get(f"{server.url}/api/v1/datasets/{NAME}", follow_redirects=True)
            for _ in range(2)
        )
    assert (first.status_code, first.headers["Retry-After"]) == (429, "3")
    assert second.json()["Data"]["Namespace"] == "new"


def through_the_hub(faults: Faults) -> tuple[PlaceServer, Callable[[PlaceServer], str]]:
    where = f"/datasets/{NAME}/resolve/main/data/val.jsonl"
    return HubServer(
        {NAME: Repo({"data/val.jsonl": LARGE})}, faults=faults
    ), lambda it: it.url + where


def through_modelscope(faults: Faults) -> tuple[PlaceServer, Callable[[PlaceServer], str]]:
    where = f"/api/v1/datasets/{NAME}/repo?Revision=master&FilePath=data%2Fpictures.zip"
    return ModelScopeServer(
        {NAME: Repo({"data/pictures.zip": LARGE})}, faults=faults
    ), lambda it: it.url + where


def through_files(faults: Faults) -> tuple[PlaceServer, Callable[[PlaceServer], str]]:
    return FileServer({"x": LARGE}, faults=faults), lambda it: f"{it.url}/x"


PLACES = [through_files, through_the_hub, through_modelscope]
Place = Callable[[Faults], tuple[PlaceServer, Callable[[PlaceServer], str]]]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", KINDS)
def test_each_fault_is_served_once_as_it_is_named_and_logged(place: Place, what: What) -> None:
    server, address = place(
        Faults(what, after=None if what == "stall" else 1000, seconds=0.2, retry_after="1")
    )
    with server:
        where = address(server)
        with httpx.Client(
            follow_redirects=True, timeout=0.3 if what == "stall" else PATIENCE
        ) as client:
            match what:
                case "cut":
                    with pytest.raises(
                        httpx.RemoteProtocolError, match="received 1000 bytes, expected 5120"
                    ):
                        client.get(where)
                case "reset":
                    with pytest.raises(httpx.ReadError, match="reset by peer"):
                        client.get(where)
                case "stall":
                    with pytest.raises(httpx.ReadTimeout):
                        client.get(where)
                case "slow":
                    reply = client.get(where)
                    assert reply.content == LARGE
                    assert 0.15 < reply.elapsed.total_seconds() < PATIENCE
                case "flipped":
                    got = client.get(where).content
                    assert [
                        at for at, (a, b) in enumerate(zip(got, LARGE, strict=True)) if a != b
                    ] == [1000]
                case "short":
                    reply = client.get(where)
                    assert (reply.status_code, reply.headers["Content-Length"]) == (200, "1000")
                    assert reply.content == LARGE[:1000]
                case "html":
                    reply = client.get(where)
                    assert (reply.status_code, reply.content) == (200, LOGIN_PAGE)
                    assert reply.headers["Content-Type"].startswith("text/html")
                    assert "ETag" not in reply.headers
                case "vanish":
                    assert client.get(where).status_code == 404
                case "storm":
                    reply = client.get(where)
                    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "1")
                case "error":
                    assert client.get(where).status_code in (500, 502, 503)
        again = httpx.get(where, follow_redirects=True)
        assert again.status_code == (404 if what == "vanish" else 200)
        if what != "vanish":
            assert again.content == LARGE
        served = [line for line in server.log if line.fault]
    assert [line.fault for line in served] == [what] * (2 if what == "vanish" else 1)
    if what in ("cut", "reset", "short"):
        assert (served[0].sent, served[0].after) == (1000, 1000)
    if what == "stall":
        assert (served[0].sent, served[0].status) == (0, 0)


def test_a_short_file_keeps_the_digest_headers_of_the_whole(tmp_path: Path) -> None:
    with FileServer({"x": LARGE}) as files:
        sound = httpx.get(f"{files.url}/x")
        files.faults = Faults("short", after=30, times=None)
        short = httpx.get(f"{files.url}/x")
        rest = httpx.get(f"{files.url}/x", headers={"Range": "bytes=20-"})
    assert short.headers["ETag"] == sound.headers["ETag"]
    assert (rest.status_code, rest.content, rest.headers["Content-Range"]) == (
        206,
        LARGE[20:50],
        "bytes 20-49/50",
    )


def test_the_clients_own_check_of_length_sees_a_short_file_and_not_a_flipped_byte(
    tmp_path: Path,
) -> None:
    with HubServer({NAME: Repo(FILES)}, faults=Faults("short", times=None)) as hub:
        with pytest.raises(OSError, match="Consistency check failed"):
            fetch(hub, "data/pictures.zip", tmp_path)
        hub.faults = Faults("flipped", after=7)
        wrong = fetch(hub, "data/pictures.zip", tmp_path)
    assert (len(wrong), wrong[:7], wrong[8:]) == (len(LARGE), LARGE[:7], LARGE[8:])
    assert wrong[7] != LARGE[7]


def test_no_fault_but_its_own_reaches_a_request(tmp_path: Path) -> None:
    faults = [
        Faults("vanish", matching=r"/y$"),
        Faults("error", status=502, start=2, times=1, where="any"),
    ]
    with FileServer({"x": b"0", "y": b"1"}, faults=faults) as files:
        got = [httpx.request(method, f"{files.url}/{path}").status_code for method, path in ASKED]
        assert [line.fault for line in files.log] == ["", "vanish", "error", "", "vanish"]
        files.faults = ()
        assert httpx.get(f"{files.url}/y").content == b"1"
    assert got == [200, 404, 502, 200, 404]


ASKED = [("GET", "x"), ("GET", "y"), ("HEAD", "x"), ("HEAD", "y"), ("GET", "y")]


def test_api_faults_leave_files_alone(tmp_path: Path) -> None:
    with HubServer({NAME: Repo(FILES)}, faults=Faults("html", where="api", times=None)) as hub:
        listing = httpx.get(f"{hub.url}/api/datasets/{NAME}")
        file = httpx.get(
            f"{hub.url}/api/resolve-cache/datasets/{NAME}/{hub.commit(NAME)}/README.md"
        )
    assert (listing.content, file.content) == (LOGIN_PAGE, FILES["README.md"])


def test_a_login_page_at_the_front_door_is_no_hub_to_the_client(tmp_path: Path) -> None:
    login = Faults("html", where="any", times=None)
    with (
        HubServer({NAME: Repo(FILES)}, faults=login) as hub,
        pytest.raises(LocalEntryNotFoundError, match="X-Repo-C"),
    ):
        fetch(hub, "README.md", tmp_path)


def test_each_path_can_have_its_own_count() -> None:
    with FileServer(
        {"x": b"0", "y": b"1"}, faults=Faults("error", status=500, each=True, times=1)
    ) as files:
        got = [httpx.get(f"{files.url}/{path}").status_code for path in "xyxy"]
    assert got == [500, 500, 200, 200]


def wrong_bytes(seed: int) -> list[tuple[str, int | None]]:
    faults = Faults("flipped", seed=seed, times=None, share=0.5)
    with (
        FileServer({"x": LARGE}, faults=faults) as files,
        httpx.Client(base_url=files.url) as client,
    ):
        for _ in range(12):
            client.get("/x")
        return [(line.fault, line.after) for line in files.log]


def test_the_seed_decides_and_nothing_else() -> None:
    first = wrong_bytes(3)
    assert first == wrong_bytes(3) != wrong_bytes(4)
    faults = [fault for fault, _ in first]
    assert {"flipped", ""} == set(faults)
    assert len({after for _, after in first if after is not None}) > 1


def test_drawn_faults_are_the_same_for_a_seed_and_reach_every_kind() -> None:
    drawings = [drawn(seed) for seed in range(200)]
    assert drawings == [drawn(seed) for seed in range(200)]
    assert {fault.what for faults in drawings for fault in faults} == set(KINDS) - {"stall"}


def test_a_stall_within_the_body_gives_what_came_before() -> None:
    with FileServer({"x": LARGE}, faults=Faults("stall", after=50)) as files:
        got = b""
        with (
            pytest.raises(httpx.ReadTimeout),
            httpx.stream("GET", f"{files.url}/x", timeout=0.3) as reply,
        ):
            for piece in reply.iter_raw():
                got += piece
    assert (got, files.log[0].sent) == (LARGE[:50], 50)


def test_closing_ends_a_stall_and_a_dribble_at_once() -> None:
    began = time.monotonic()
    for faults in (Faults("stall"), Faults("slow", seconds=60)):
        with FileServer({"x": LARGE}, faults=faults) as files, pytest.raises(httpx.ReadTimeout):
            httpx.get(f"{files.url}/x", timeout=0.2)
    assert time.monotonic() - began < PATIENCE


def test_what_the_server_itself_gets_wrong_is_not_hidden() -> None:
    class Faulty(FileServer):
        def answer(self, asked: Any, number: int) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup), Faulty({}) as files:
        assert httpx.get(f"{files.url}/x").status_code == 500
