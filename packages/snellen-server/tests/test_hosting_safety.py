"""What the open internet sends to `snellen serve`, over real HTTP on loopback."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

from hosting import RunningServer, hosted
from http_browser import PASSWORD, Browser
from snellen.errors import DataError
from snellen_server.hosting import accounts, features
from snellen_server.hosting.configuration import load_configuration
from snellen_server.hosting.contributions import Contribution, ModerationVerdict, clean_image
from snellen_server.hosting.credentials import Signer, redacted
from snellen_server.hosting.limits import (
    Limiter,
    Rate,
    client_address,
    network_of,
    parse_networks,
    parse_rate,
)

PIXELS = 250_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("hosting") / "server"
    settings = {
        "image_pixels": PIXELS,
        "request_bytes": 5000,
        "image_bytes": 100_000,
        "registration": "open",
    }
    with hosted(folder, **settings) as running:
        yield running


@pytest.fixture
def visitor(server: RunningServer) -> Browser:
    return server.visitor()


def png(width: int = 20, height: int = 10, colour: str = "red", **saved: Any) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, saved.pop("format", "PNG"), **saved)
    return file.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is huge."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


# --- forms and sessions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", "wrong", "ü"])
def test_a_form_without_a_good_token_does_nothing(visitor: Browser, token: str | None) -> None:
    visitor.get("/")
    fields = {"name": "Mallory", "password": PASSWORD} | (
        {} if token is None else {"csrf_token": token}
    )
    assert visitor.http.post("/register", data=fields).status_code == 403
    assert visitor.get("/account").headers["location"] == "/sign-in?next=/account"


def test_a_token_is_good_for_one_visitor_and_one_session_only(server: RunningServer) -> None:
    anna, other = server.signed_in("Anna"), server.visitor()
    before = other.token()
    assert (
        anna.http.post("/account/keys", data={"csrf_token": before, "title": "x"}).status_code
        == 403
    )
    stale = anna.token()
    anna.post("/sign-out")
    anna.sign_in("Anna")
    assert (
        anna.http.post("/account/keys", data={"csrf_token": stale, "title": "x"}).status_code == 403
    )
    assert anna.post("/account/keys", {"title": "x"}).status_code == 200


def test_another_sites_page_changes_nothing_even_with_a_token(server: RunningServer) -> None:
    anna = server.signed_in("Anna")
    for headers in (
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "null"},
    ):
        answer = anna.post("/account/keys", {"title": "stolen"}, headers=headers)
        assert answer.status_code == 403
    assert "stolen" not in anna.get("/account").text


def test_signing_in_gives_a_new_session_and_ends_the_one_before(server: RunningServer) -> None:
    anna = server.signed_in("Anna")
    earlier = anna.http.cookies["snellen_session"]
    answer = anna.sign_in("Anna")
    assert anna.http.cookies["snellen_session"] != earlier
    flags = answer.headers["set-cookie"]
    assert "HttpOnly" in flags and "SameSite=Lax" in flags
    for stolen in (earlier, "forged", earlier[:-1] + "A"):
        thief = server.visitor(cookie=f"snellen_session={stolen}")
        assert thief.get("/account").status_code == 303


def test_a_session_ends_with_signing_out_everywhere_and_with_the_account(
    server: RunningServer,
) -> None:
    first, second = server.signed_in("Bertha"), server.signed_in("Bertha")
    second.post("/account/sign-out-everywhere")
    assert first.get("/account").status_code == 303
    key = server.with_key("Bertha")
    assert key.get("/api/v1/me").json()["name"] == "Bertha"
    third, admin = server.signed_in("Bertha"), server.admin()
    found = server.services.database.read_now(
        lambda connection: accounts.find_account(connection, "Bertha")
    )
    assert found is not None
    assert admin.post(f"/admin/accounts/{found[0].id}/disable").status_code == 303
    assert third.get("/account").status_code == 303
    assert key.get("/api/v1/me").status_code == 401
    assert server.visitor().sign_in("Bertha").status_code == 403


def test_a_wrong_password_and_a_wrong_name_are_told_alike(
    server: RunningServer, visitor: Browser
) -> None:
    server.signed_in("Anna")
    answers = [
        visitor.sign_in("Anna", "wrong password"),
        visitor.sign_in("Nobody", "wrong password"),
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert {"The name or the password is wrong." in answer.text for answer in answers} == {True}


@pytest.mark.parametrize(
    "next_page", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nx: y", ""]
)
def test_signing_in_leads_to_no_other_site(server: RunningServer, next_page: str) -> None:
    server.signed_in("Anna")
    fields = {"name": "Anna", "password": PASSWORD, "next": next_page}
    assert server.visitor().post("/sign-in", fields).headers["location"] == "/"


def test_an_invitation_is_good_once(server: RunningServer, visitor: Browser) -> None:
    page = server.admin().post("/admin/invitations").text
    link = page.partition("/invitation/")[2].partition("<")[0]
    fields = {"name": "Clara", "password": PASSWORD}
    assert visitor.post(f"/invitation/{link}", {**fields, "password": "short"}).status_code == 422
    assert visitor.post(f"/invitation/{link}", fields).status_code == 303
    assert "Clara" in visitor.get("/account").text
    assert (
        server.visitor().post(f"/invitation/{link}", {**fields, "name": "Dora"}).status_code == 404
    )


@pytest.mark.parametrize("address", ["/admin/accounts", "/admin/audit"])
def test_what_is_for_administrators_is_for_nobody_else(server: RunningServer, address: str) -> None:
    server.signed_in("Administrator", is_admin=True)
    assert server.signed_in("Anna").get(address).status_code == 403
    assert (
        server.with_key("Administrator", "submit").get(address).status_code == 403
    )  # a key without the scope
    assert server.with_key("Administrator", "admin").get(address).status_code == 200
    assert server.visitor(accept="application/json").get(address).status_code == 401


def test_a_key_is_shown_once_kept_as_a_digest_and_makes_no_keys(server: RunningServer) -> None:
    anna = server.signed_in("Anna")
    page = anna.post("/account/keys", {"title": "laptop"}).text
    key = "snl_" + page.partition("snl_")[2].partition("<")[0]
    assert key not in anna.get("/account").text
    assert key.encode() not in b"".join(
        file.read_bytes() for file in server.services.configuration.folder.glob("*sqlite*")
    )
    program = server.visitor(authorization=f"Bearer {key}", accept="application/json")
    assert program.get("/api/v1/me").json() == {"name": "Anna", "is_admin": False, "scopes": []}
    assert program.http.post("/account/keys", data={"title": "more"}).status_code == 403
    assert server.visitor(authorization="Bearer snl_wrong").get("/").status_code == 401


def test_people_are_shown_as_text(server: RunningServer) -> None:
    anna = server.signed_in("Anna")
    anna.post("/account/keys", {"title": "<script>alert(1)</script>"})
    page = anna.get("/account")
    assert "<script>alert" not in page.text and "&lt;script&gt;" in page.text
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not [line for line in page.text.splitlines() if " style=" in line or " onclick=" in line]


def test_everybody_gets_all_that_is_known_of_them_and_can_be_erased(server: RunningServer) -> None:
    anna = server.signed_in("Erna")
    sent = anna.send("/api/v1/images", png(colour="purple")).json()
    found = anna.get("/account/export").json()
    assert [row["digest"] for row in found["picture_sending"]] == [sent["digest"]]
    assert anna.post("/account/erase", {"password": "not the password"}).status_code == 403
    assert anna.post("/account/erase", {"password": PASSWORD}).status_code == 303
    assert anna.sign_in("Erna").status_code == 403


# --- images ----------------------------------------------------------------------------------------------------


def test_a_picture_is_kept_without_what_its_file_said_besides(visitor: Browser) -> None:
    exif = Image.Exif()
    exif[0x8825] = {1: "N", 2: (52.0, 31.0, 12.0)}
    exif[0x010E] = "at home"
    text = PngInfo()
    text.add_text("Author", "at home")
    for content in (
        png(format="JPEG", exif=exif, comment=b"at home"),
        png(pnginfo=text, exif=exif),
        png(format="WEBP", exif=exif, xmp=b"at home"),
        png(format="GIF", comment=b"at home"),
    ):
        assert b"at home" in content
        sent = visitor.send("/api/v1/images", content, "me.html", "text/html")
        assert sent.status_code == 201, sent.text
        shown = visitor.get(sent.json()["address"])
        assert b"at home" not in shown.content
        assert not Image.open(io.BytesIO(shown.content)).getexif()
        assert (
            shown.headers["content-type"]
            == sent.json()["media_type"]
            in ("image/png", "image/jpeg")
        )
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert "immutable" in shown.headers["cache-control"]


def test_the_pixels_of_a_png_stay_as_they_are() -> None:
    picture = Image.effect_noise((40, 30), 90).convert("RGB")
    file = io.BytesIO()
    picture.save(file, "PNG")
    kept = clean_image(file.getvalue(), PIXELS)
    assert Image.open(io.BytesIO(kept.content)).tobytes() == picture.tobytes()
    assert clean_image(kept.content, PIXELS).digest == kept.digest


@pytest.mark.parametrize(
    "content",
    [
        bomb(60_000, 60_000),
        bomb(501, 500),
        b"",
        b"GIF89a",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"<script>alert(1)</script>",
        png()[:50],
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
        png(format="BMP"),
    ],
)
def test_what_is_no_picture_or_too_large_a_one_is_refused_whatever_it_is_called(
    visitor: Browser, content: bytes
) -> None:
    answer = visitor.send("/api/v1/images", content)
    assert answer.status_code == 422
    assert "the image" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "name",
    [
        "../key",
        "..%2fkey",
        "%2e%2e%2f%2e%2e%2fkey",
        "ab/../../key",
        "key",
        "snellen.sqlite",
        "0" * 64,
        "a%00",
        "..\\key",
    ],
)
def test_no_name_of_a_picture_or_file_leads_out_of_its_folder(visitor: Browser, name: str) -> None:
    for address in (f"/images/{name}", f"/assets/house/{name}", f"/assets/{name}/base.html"):
        assert visitor.get(address).status_code == 404


def test_a_body_that_is_too_large_is_refused_said_or_sent(visitor: Browser) -> None:
    token = visitor.token()
    headers = {"x-csrf-token": token, "content-type": "application/x-www-form-urlencoded"}
    assert visitor.http.post("/register", content=b"x" * 5001, headers=headers).status_code == 413
    assert (
        visitor.http.post("/register", content=iter([b"x" * 3000] * 2), headers=headers).status_code
        == 413
    )
    assert visitor.send("/api/v1/images", bytes(200_000)).status_code == 413


def test_a_moderator_that_fails_lets_nothing_pass(tmp_path: Path) -> None:
    asked = []

    def raising(contribution: Contribution) -> ModerationVerdict:
        asked.append(contribution)
        raise OSError("no connection")

    async def endless(contribution: Contribution) -> ModerationVerdict:
        import asyncio

        await asyncio.Event().wait()
        raise AssertionError

    def talkative(contribution: Contribution) -> Any:
        return True

    def refusing(contribution: Contribution) -> ModerationVerdict:
        return ModerationVerdict(False, "it shows a cat")

    expected = {
        raising: "could not be checked",
        endless: "could not be checked",
        talkative: "could not be checked",
    }
    for number, (moderator, words) in enumerate({**expected, refusing: "it shows a cat"}.items()):
        features.register("moderators", f"test-{number}", moderator)
        with hosted(
            tmp_path / str(number), moderators=[f"test-{number}"], moderation_seconds=0.2
        ) as running:
            answer = running.visitor().send("/api/v1/images", png())
            assert answer.status_code == 403
            assert words in answer.json()["error"]["message"]
            assert not list((tmp_path / str(number) / "pictures").glob("*"))
    assert asked[0].kind == "image"


# --- who asks ----------------------------------------------------------------------------------------------------


def test_an_address_is_believed_from_trusted_proxies_only() -> None:
    trusted = parse_networks(["10.0.0.0/8", "2001:db8::/32"], "here")

    def client(peer: str, forwarded: str) -> str:
        return str(client_address(peer, forwarded, trusted))

    assert client("203.0.113.9", "198.51.100.7") == "203.0.113.9"
    assert client("10.0.0.2", "198.51.100.7") == "198.51.100.7"
    assert (
        client("10.0.0.2", "1.2.3.4, 198.51.100.7") == "198.51.100.7"
    )  # the first was written by the client
    assert client("10.0.0.2", "198.51.100.7, 10.1.1.1") == "198.51.100.7"
    assert client("2001:db8::1", "127.0.0.1, 2001:4860::8") == "2001:4860::8"
    assert client("10.0.0.2", "127.0.0.1, nonsense") == "10.0.0.2"
    assert client("::ffff:203.0.113.9", "") == "203.0.113.9"
    assert client_address("", "", trusted) is None


@given(st.text(max_size=60), st.ip_addresses().map(str))
def test_whatever_stands_in_a_header_an_untrusted_peer_stays_who_it_is(
    header: str, peer: str
) -> None:
    address = client_address(peer, header, ())
    assert address is not None
    assert network_of(address).endswith("/24" if address.version == 4 else "/64")


def test_forged_headers_lead_neither_to_the_metrics_nor_around_a_limit(tmp_path: Path) -> None:
    limits = {"every request": {"per_visitor": "1000/second", "per_network": "5/hour"}}
    with hosted(tmp_path, limited=True, limits=limits) as running:
        assert running.visitor().get("/metrics").status_code == 200
        assert running.visitor(x_forwarded_for="127.0.0.1").get("/metrics").status_code == 403
        codes = [
            running.visitor(x_forwarded_for=f"198.51.100.{i}").get("/healthz").status_code
            for i in range(5)
        ]
        assert codes == [200, 200, 200, 429, 429]


def test_a_limit_counts_visitors_and_networks_behind_a_trusted_proxy(tmp_path: Path) -> None:
    limits = {"sign in": {"per_visitor": "2/hour", "per_network": "3/hour"}}
    with hosted(tmp_path, limited=True, limits=limits, trusted_proxies=["127.0.0.1"]) as running:
        running.with_key("Anna")
        one = running.visitor(x_forwarded_for="198.51.100.1")
        assert [one.sign_in("Anna", "wrong").status_code for _ in range(3)] == [403, 403, 429]
        neighbours = [running.visitor(x_forwarded_for=f"198.51.100.{i}") for i in (2, 3)]
        assert [other.sign_in("Anna", "wrong").status_code for other in neighbours] == [403, 429]
        answer = running.visitor(x_forwarded_for="203.0.113.1").sign_in("Anna", "wrong")
        assert answer.status_code == 403
        late = one.sign_in("Anna")
        assert (wait := int(late.headers["retry-after"])) > 1000
        assert f"try again in {-(-wait // 60)} minutes" in late.text


def test_attempts_at_one_name_are_limited_from_however_many_networks(tmp_path: Path) -> None:
    limits = {"sign in by name": {"per_visitor": "3/hour", "per_network": "3/hour"}}
    with hosted(tmp_path, limited=True, limits=limits, trusted_proxies=["127.0.0.1"]) as running:
        running.with_key("Anna")
        visitors = [running.visitor(x_forwarded_for=f"203.0.{i}.1") for i in range(5)]
        codes = [visitor.sign_in("ANNA", "wrong").status_code for visitor in visitors]
        assert codes == [403, 403, 403, 429, 429]
        # A name without an account is limited alike, so the limit does not tell which names exist.
        codes = [visitor.sign_in("Nobody", "wrong").status_code for visitor in visitors]
        assert codes == [403, 403, 403, 429, 429]


def test_a_limit_gives_back_what_time_brings() -> None:
    now = [0.0]
    limiter, rate = Limiter(lambda: now[0]), parse_rate("2/minute", "here")
    assert rate == Rate(2, 60)
    assert [limiter.wait("a", (("x", rate),)) for _ in range(3)] == [0.0, 0.0, 30.0]
    now[0] = 30
    assert [limiter.wait("a", (("x", rate),)) for _ in range(2)] == [0.0, 30.0]
    assert limiter.wait("a", (("y", rate),)) == 0.0


@pytest.mark.parametrize("text", ["0/minute", "5/0 seconds", "5/00 seconds", "00/day"])
def test_a_rate_without_requests_or_time_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="is not a rate"):
        parse_rate(text, "here")


def test_another_name_of_this_machine_is_turned_away(visitor: Browser) -> None:
    assert visitor.get("/", headers={"host": "evil.example"}).status_code == 400


def test_a_visitor_keeps_a_pseudonym_that_nobody_else_can_write(server: RunningServer) -> None:
    visitor = server.visitor()
    name = visitor.get("/").headers["set-cookie"].partition("=")[2].partition(".")[0]
    assert "set-cookie" not in visitor.get("/").headers
    forged = server.visitor(cookie=f"snellen_visitor={name}.forged")
    assert name not in forged.get("/").headers["set-cookie"]


def test_keys_and_links_do_not_stand_in_logs() -> None:
    line = redacted('Bearer abc.def "snl_abcdefghijkl" GET /invitation/abcdefghijkl?x=1')
    assert "abc" not in line and line.count("[redacted]") == 3


def test_a_signature_is_for_one_purpose() -> None:
    signer = Signer(b"k" * 32)
    assert signer.is_valid("csrf", "x", signer.signature("csrf", "x"))
    assert not signer.is_valid("visitor", "x", signer.signature("csrf", "x"))
    assert not Signer(b"l" * 32).is_valid("csrf", "x", signer.signature("csrf", "x"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('public_url = "http://lab.example"', "unencrypted"),
        ('public_url = "lab.example"', "not an http"),
        ('trusted_proxies = ["10.0.0.1/8"]', "not an address or network"),
        ('[limits]\n"sign in" = { per_visitor = "many" }', "not a rate"),
        ("port = 80", "unknown field `port`"),
        ('folder = "/"', "command line"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "server.toml"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        load_configuration(tmp_path, file)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    headers=st.dictionaries(
        st.sampled_from(["cookie", "origin", "x-csrf-token", "accept", "range"]),
        st.text(
            st.characters(min_codepoint=33, max_codepoint=255, exclude_categories=["Cc"]),
            max_size=40,
        ),
    )
)
def test_no_header_makes_the_server_fail(server: RunningServer, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    with httpx.Client(base_url=server.url, trust_env=False, verify=False) as client:
        assert client.get("/", headers=raw).status_code == 200
        assert client.post("/register", headers=raw, data={"name": "x"}).status_code == 403
