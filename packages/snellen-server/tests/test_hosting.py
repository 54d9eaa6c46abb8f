"""The server of many from end to end: accounts, links, keys, errors as pages and as JSON, what features declare."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

from fastapi import APIRouter
from PIL import Image
from sqlalchemy import Connection, update

from hosting import RunningServer, add_feature, hosted
from http_browser import PASSWORD
from snellen.errors import SnellenError
from snellen_server.hosting import database
from snellen_server.hosting.accounts import MAX_KEYS, note
from snellen_server.hosting.callers import Caller, ServicesDep
from snellen_server.hosting.configuration import load_configuration
from snellen_server.hosting.features import Feature
from snellen_server.hosting.limits import RateLimit
from snellen_server.hosting.pictures import forget_images, keep_image, may_use
from snellen_server.hosting.services import Services, open_services
from snellen_server.hosting.tables import api_key, utc_now

HOUSE = ["about", "accounts", "pictures"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with hosted(tmp_path_factory.mktemp("house") / "server", features=HOUSE) as running:
        yield running


def picture(colour: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (9, 9), colour).save(file, "PNG")
    return file.getvalue()


def link_on(page: str) -> str:
    found = re.search(r"(/invitation/[\w-]+)", page)
    assert found, "the page has no link"
    return found[1]


# --- accounts ----------------------------------------------------------------------------------------------------


def test_a_link_makes_an_account_and_survives_what_cannot_be_one(server: RunningServer) -> None:
    link = link_on(server.admin().post("/admin/invitations").text)
    guest = server.visitor()
    assert "Your account" in guest.get(link).text
    for fields, words in [
        ({"name": "Guest", "password": "short"}, "10"),
        ({"name": "x", "password": PASSWORD}, "a name has"),
        ({"name": "administrator", "password": PASSWORD}, "taken"),
    ]:
        refused = guest.post(link, fields)
        assert refused.status_code == 422 and words in refused.text
    assert guest.post(link, {"name": "Guest", "password": PASSWORD}).status_code == 303
    assert "<bdi>Guest</bdi>" in guest.get("/account").text
    assert guest.get("/admin/accounts").status_code == 403


def test_a_link_for_a_new_password_ends_what_the_old_one_began(server: RunningServer) -> None:
    anna, admin = server.signed_in("Anna"), server.admin()
    found = re.search(
        r'name="account_id" value="(\w+)"', admin.get("/admin/accounts").text.partition("Anna")[2]
    )
    assert found
    link = link_on(admin.post("/admin/invitations", {"account_id": found[1]}).text)
    forgetful = server.visitor()
    assert "A new password" in forgetful.get(link).text
    assert forgetful.post(link, {"password": "another good one"}).status_code == 303
    assert anna.get("/account").status_code == 303
    assert server.visitor().sign_in("Anna").status_code == 403
    assert server.visitor().sign_in("anna", "another good one").status_code == 303
    assert forgetful.get(link).status_code == 404


def test_who_was_shut_out_is_let_in_again_and_nobody_shuts_out_themselves(
    server: RunningServer,
) -> None:
    server.signed_in("Carla")
    admin = server.admin()
    page = admin.get("/admin/accounts").text
    [name] = re.findall(
        r"/admin/accounts/(\w+)/disable",
        page.partition("<bdi>Carla</bdi>")[2].partition("</tr>")[0],
    )
    assert admin.post(f"/admin/accounts/{name}/disable").status_code == 303
    assert server.visitor().sign_in("Carla").status_code == 403
    assert admin.post(f"/admin/accounts/{name}/enable").status_code == 303
    assert server.visitor().sign_in("Carla").status_code == 303
    assert admin.post(f"/admin/accounts/{name}/rename").status_code == 404
    deeds = admin.get("/admin/audit").text
    assert "account disabled" in deeds and "account enabled" in deeds
    [own] = re.findall(r"<code>account:(\w+)</code></td><td[^>]*>account enabled", deeds)
    assert admin.post(f"/admin/accounts/{own}/disable").status_code == 422


def test_accounts_are_made_by_invitation_unless_registration_is_open(
    server: RunningServer, tmp_path: Path
) -> None:
    refused = server.visitor().post("/register", {"name": "Mallory", "password": PASSWORD})
    assert refused.status_code == 404 and "by invitation" in refused.text
    assert "/register" not in server.visitor().get("/sign-in").text
    with hosted(tmp_path, features=HOUSE, registration="open") as running:
        dora = running.visitor()
        assert '<a href="/register">' in dora.get("/sign-in").text
        assert '<a href="/register">' in dora.sign_in("Dora").text
        assert "Your account" in dora.get("/register").text
        assert dora.post("/register", {"name": "Dora", "password": "short"}).status_code == 422
        assert dora.post("/register", {"name": "Dora", "password": PASSWORD}).status_code == 303
        assert (
            running.visitor()
            .post("/register", {"name": "ｄｏｒａ", "password": PASSWORD})
            .status_code
            == 422
        )


def test_an_account_is_erased_by_its_password_only(server: RunningServer) -> None:
    emil = server.signed_in("Emil")
    assert "nothing was erased" in emil.post("/account/erase", {"password": "wrong password"}).text
    assert emil.post("/account/erase", {"password": PASSWORD}).status_code == 303
    assert emil.get("/account").status_code == 303
    assert server.visitor().sign_in("Emil").status_code == 403


def test_a_page_for_accounts_leads_to_signing_in_and_back(server: RunningServer) -> None:
    server.signed_in("Frida")
    frida = server.visitor()
    assert frida.get("/account").headers["location"] == "/sign-in?next=/account"
    fields = {"name": "Frida", "password": PASSWORD, "next": "/account"}
    assert frida.post("/sign-in", fields).headers["location"] == "/account"
    assert "already" not in frida.get("/sign-in").text
    frida.post("/sign-out")
    assert frida.get("/account").status_code == 303


# --- keys --------------------------------------------------------------------------------------------------------


def test_a_key_ends_with_its_time_and_when_it_is_deleted(server: RunningServer) -> None:
    program = server.with_key("Gina")
    assert program.get("/api/v1/me").json() == {"name": "Gina", "is_admin": False, "scopes": []}
    [facts] = program.get("/api/v1/keys").json()
    gina, thief = server.signed_in("Gina"), server.signed_in("Hans")
    assert thief.post(f"/account/keys/{facts['id']}/delete").status_code == 404
    past = utc_now() - timedelta(seconds=1)

    def end(connection: Connection) -> None:
        connection.execute(update(api_key).where(api_key.c.id == facts["id"]).values(expires=past))

    server.services.database.write_now(end)
    assert program.get("/api/v1/me").status_code == 401
    other = server.with_key("Gina")
    assert other.get("/api/v1/me").status_code == 200
    for key in other.get("/api/v1/keys").json():
        assert gina.post(f"/account/keys/{key['id']}/delete").status_code == 303
    refused = other.get("/api/v1/me")
    assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"


def test_an_account_has_so_many_keys_and_scopes_that_exist(server: RunningServer) -> None:
    ida = server.signed_in("Ida")
    assert ida.post("/account/keys", {"title": "x", "scopes": "admin"}).status_code == 422
    for number in range(MAX_KEYS):
        assert ida.post("/account/keys", {"title": f"key {number}"}).status_code == 200
    refused = ida.post("/account/keys", {"title": "one more"})
    assert refused.status_code == 422 and f"at most {MAX_KEYS}" in refused.text


# --- pages, files, errors ----------------------------------------------------------------------------------------


def test_an_error_is_a_page_for_people_and_json_for_programs(server: RunningServer) -> None:
    visitor = server.visitor()
    page = visitor.get("/nowhere")
    assert page.status_code == 404 and "<h1>Not Found</h1>" in page.text
    for answer in (
        visitor.get("/api/v1/nowhere"),
        visitor.get("/nowhere", headers={"accept": "application/json"}),
    ):
        assert answer.status_code == 404 and answer.json()["error"]["status"] == 404
    missing = server.with_key("Karl").http.post("/api/v1/images")
    assert missing.status_code == 422 and missing.json()["error"]["message"].startswith("file: ")


def test_files_of_pages_are_cached_by_their_content_and_nothing_else_is_a_file(
    server: RunningServer,
) -> None:
    visitor = server.visitor()
    [address] = set(re.findall(r'href="(/assets/house/house\.css\?v=\w+)"', visitor.get("/").text))
    answer = visitor.get(address)
    assert (
        answer.headers["content-type"].startswith("text/css")
        and "immutable" in answer.headers["cache-control"]
    )
    assert visitor.get("/assets/house/base.html").status_code == 404


def test_a_server_says_what_it_is(server: RunningServer) -> None:
    about = server.visitor().get("/api/v1/about").json()
    assert [feature["name"] for feature in about["features"]] == HOUSE


def test_a_flood_is_told_to_come_back(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    luis = server.signed_in("Luis")
    token = luis.token()
    monkeypatch.setattr(database, "MAX_WAITING_WRITES", 0)
    refused = luis.http.post("/account/keys", data={"csrf_token": token, "title": "x"})
    assert refused.status_code == 503 and refused.headers["retry-after"] == "1"


# --- images of the operator ------------------------------------------------------------------------------------


def test_a_picture_of_the_operator_is_everybodys_and_stays(server: RunningServer) -> None:
    anna, berta = Caller("a" * 24, "net"), Caller("b" * 24, "net")
    read = server.services.database.read_now
    for _ in range(2):
        kept = server.do(keep_image(server.services, picture("green")))
    server.do(forget_images(server.services))
    assert server.visitor().get(f"/images/{kept.digest}").status_code == 200
    assert (
        read(
            lambda connection: [
                may_use(connection, caller, kept.digest) for caller in (anna, berta)
            ]
        )
        == [True] * 2
    )
    sent = server.visitor().send("/api/v1/images", picture("blue"))
    assert sent.status_code == 201
    assert not read(lambda connection: may_use(connection, anna, sent.json()["digest"]))


# --- features ----------------------------------------------------------------------------------------------------


def test_what_a_feature_holds_is_there_for_every_request_and_let_go_before_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened = list[str]()
    router = APIRouter()

    async def look(services: Any) -> str:
        happened.append("asked")
        return str(services.held["holding"])

    look.__annotations__ = {"services": ServicesDep, "return": str}
    router.get("/held", include_in_schema=False)(look)

    @asynccontextmanager
    async def hold(services: Services) -> AsyncIterator[str]:
        happened.append("opened")
        yield "a model"
        await services.database.write(lambda connection: note(connection, "test", "closed"))
        happened.append("closed")

    add_feature(monkeypatch, Feature("holding", "Holding", router, "snellen", hold=hold))
    with hosted(tmp_path, features=["holding"]) as running:
        assert json.loads(running.visitor().get("/held").text) == "a model"
    assert happened == ["opened", "asked", "closed"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": ["leader"]}, "unknown feature 'leader'"),
        (
            {"features": ["about"], "feature": {"holding": {}}},
            r"\[feature.holding\]: there is no such feature",
        ),
        ({"features": ["twice"]}, "two features declare limits named pictures"),
        (
            {"features": ["about"], "limits": {"pictres": {"per_visitor": "1/minute"}}},
            "there is no limit named 'pictres'",
        ),
        (
            {"features": ["about"], "limits": {"pictures": {"per_visitor": "often"}}},
            "is not a rate",
        ),
    ],
)
def test_features_and_limits_that_do_not_fit_are_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], message: str
) -> None:
    limit = RateLimit("pictures", "1/minute", "1/minute")
    add_feature(monkeypatch, Feature("twice", "Twice", APIRouter(), "snellen", limits=(limit,)))
    with pytest.raises(SnellenError, match=message):
        open_services(load_configuration(tmp_path, **settings))


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SnellenError, match="cannot be created"):
        open_services(load_configuration(tmp_path / "file" / "lab"))
