"""A model that looks at what people send before anybody else does."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from hosting import hosted
from servers import start_server
from snellen import Response
from snellen.plugin_api import Failure
from snellen_server.hosting.model_moderator import read_verdict


def png(colour: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (20, 10), colour).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("reply", "is_allowed"),
    [
        ("safe", True),
        ("\n\nSafe.", True),
        ("**safe**", True),
        ("unsafe\nS12", False),
        ("Unsafe", False),
        ("I cannot help with that.", False),
        ("not safe", False),
        ("Safe or unsafe: unsafe", False),
        ("safe\nunsafe", False),
        ("Safe? No.", False),
        ("Safe is not what this is", False),
        ("SAFE!", True),
        ("", False),
    ],
)
def test_only_the_reply_safe_lets_a_contribution_pass(reply: str, is_allowed: bool) -> None:
    assert read_verdict(Response(text=reply), "image").is_allowed == is_allowed


def test_a_model_that_fails_refuses() -> None:
    failed = Response(text="safe", error=Failure("server", "gone"))
    assert not read_verdict(failed, "image").is_allowed


def test_a_model_behind_a_server_sees_every_image_and_text_before_anybody_else(
    tmp_path: Path,
) -> None:
    with start_server(reply="safe") as guard:
        model = f"openai:guard@{guard.url}"
        with hosted(tmp_path, moderation_model=model) as running:
            visitor = running.visitor()
            assert visitor.send("/api/v1/images", png("red")).status_code == 201
            [asked] = [seen.asked for seen in guard.seen() if seen.path.endswith("completions")]
            [message] = asked["messages"]
            image, question = message["content"]
            assert image["type"] == "image_url" and "safe or unsafe" in question["text"]


def test_an_image_that_the_model_calls_unsafe_is_not_kept(tmp_path: Path) -> None:
    with start_server(reply="unsafe\nS12") as guard:
        model = f"openai:guard@{guard.url}"
        with hosted(tmp_path, moderation_model=model) as running:
            refused = running.visitor().send("/api/v1/images", png("red"))
            assert refused.status_code == 403
            assert "does not accept such images" in refused.json()["error"]["message"]
            assert not list((tmp_path / "pictures").glob("*/*"))


def test_without_its_model_nothing_passes(tmp_path: Path) -> None:
    with hosted(
        tmp_path, moderation_model="openai:guard@http://127.0.0.1:9/v1", moderation_seconds=5
    ) as running:
        refused = running.visitor().send("/api/v1/images", png("red"))
        assert refused.status_code == 403
        assert "could not be checked" in refused.json()["error"]["message"]
