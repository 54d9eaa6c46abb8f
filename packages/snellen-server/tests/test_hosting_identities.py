"""People whom a proxy has signed in: they have an account by a header, which nobody else can send."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from hosting import RunningServer, hosted
from snellen import DataError
from snellen_server.hosting.configuration import load_configuration
from snellen_server.hosting.identities import shown_name

HEADER = "X-Auth-Request-Email"


def behind_proxy(folder: Path, proxy: str = "127.0.0.1") -> AbstractContextManager[RunningServer]:
    return hosted(
        folder / "server",
        features=["accounts", "arena"],
        trusted_proxies=[proxy],
        identity_header=HEADER,
        identity_admins=["Anna@example.org"],
        identity_sign_in="/oauth2/start",
    )


def account_name(server: RunningServer, **headers: str) -> str:
    """The name on the account page; empty for somebody who is asked to sign in."""
    answer = server.visitor(**headers).get("/account")
    if answer.status_code == 303:
        assert answer.headers["location"].startswith("/sign-in")
        return ""
    assert answer.status_code == 200
    return answer.text.split("<h1>")[1].split("</h1>")[0]


def test_a_person_has_one_account_and_the_operator_names_administrators(tmp_path: Path) -> None:
    with behind_proxy(tmp_path) as server:
        assert account_name(server) == ""
        assert "ben" in account_name(server, X_Auth_Request_Email="ben@example.org")
        assert "ben-2" not in account_name(server, X_Auth_Request_Email="BEN@example.org")
        assert "ben-2" in account_name(server, X_Auth_Request_Email="ben@other.example")

        ben = server.visitor(X_Auth_Request_Email="ben@example.org")
        assert ben.get("/admin/accounts").status_code == 403
        anna = server.visitor(X_Auth_Request_Email="anna@example.org")
        accounts = anna.get("/admin/accounts")
        assert accounts.status_code == 200 and "ben-2" in accounts.text
        assert "example.org" not in accounts.text
        assert "Sign in with your organisation" in server.visitor().get("/sign-in").text


def test_a_change_needs_the_token_of_a_page(tmp_path: Path) -> None:
    with behind_proxy(tmp_path) as server:
        ben = server.visitor(X_Auth_Request_Email="ben@example.org")
        assert ben.http.post("/account/keys", data={"title": "laptop"}).status_code == 403
        assert ben.post("/account/keys", {"title": "laptop"}).status_code in (200, 303)


def test_nobody_but_the_proxy_is_believed(tmp_path: Path) -> None:
    with behind_proxy(tmp_path, proxy="10.0.0.5") as server:
        assert account_name(server, X_Auth_Request_Email="anna@example.org") == ""


def test_a_header_that_comes_twice_names_nobody(tmp_path: Path) -> None:
    import httpx

    with behind_proxy(tmp_path) as server:
        headers = [(HEADER, "ben@example.org"), (HEADER, "anna@example.org")]
        answer = httpx.get(f"{server.url}/account", headers=headers)
        assert answer.status_code == 401


def test_an_account_that_is_shut_out_stays_out(tmp_path: Path) -> None:
    from snellen_server.hosting.accounts import find_actor, set_disabled

    with behind_proxy(tmp_path) as server:
        assert "ben" in account_name(server, X_Auth_Request_Email="ben@example.org")

        def shut_out(connection: Connection) -> None:
            name = find_actor(connection, "ben").removeprefix("account:")
            set_disabled(connection, "test", name, is_disabled=True)

        server.services.database.write_now(shut_out)
        assert account_name(server, X_Auth_Request_Email="ben@example.org") == ""


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"identity_header": HEADER}, "identity_header needs trusted_proxies"),
        ({"identity_header": "X Y", "trusted_proxies": ["::1"]}, "is not the name of a header"),
        ({"identity_admins": ["anna"]}, "identity_admins needs identity_header"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(
    tmp_path: Path, settings: dict[str, object], fault: str
) -> None:
    with pytest.raises(DataError, match=fault):
        load_configuration(tmp_path, None, **settings)


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        ("anna.muster+eyes@example.org", "anna.muster-eyes"),
        ("auth0|5f7c8ec7", "auth0-5f7c8ec7"),
        ("<>", "person"),
        ("李小龙@example.org", "李小龙"),
        ("x" * 80, "x" * 50),
    ],
)
def test_names_of_accounts_follow_from_identities(identity: str, name: str) -> None:
    assert shown_name(identity) == name
