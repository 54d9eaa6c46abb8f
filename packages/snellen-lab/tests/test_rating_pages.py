"""Replies rated by people with accounts, over real HTTP, and read by `snellen rate` again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

import small
import snellen as sn
from hosting import RunningServer, hosted
from http_browser import Browser
from snellen.errors import DataError
from snellen.models.embedded import Scripted
from snellen.scoring.rating_study import RatingStudy
from snellen_lab.ratings.form import make_form
from snellen_lab.ratings.gathering import gather, read_gathered
from snellen_lab.ratings.sheets import KEY, RatingKey, read_key
from snellen_server.hosting.configuration import load_configuration
from snellen_server.hosting.services import open_services

STUDY = """
name = "plans"
title = "Plans of robots"
instructions = "Read the plan, then rate it."

[[dimensions]]
name = "fit"
title = "Fit"
question = "Does the plan fit the picture?"
low = "not at all"
high = "fully"

[[dimensions]]
name = "waste"
title = "Waste of words"
better = "lower"
"""
MODELS = ("alpaca", "bison")
ITEMS = 2 * 3 + 1
ROOT = "/ratings/plans"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("rating")
    (folder / "plans.toml").write_text(STUDY)
    questions = small.rows(3, pictures=3)
    for row in questions:
        row["options"], row["answer"] = [], "a plan"
    built = small.built(
        [{k: v for k, v in row.items() if k != "options"} for row in questions],
        folder / "b",
        name="b",
    )
    for model in MODELS:
        replies = Scripted(
            lambda request, model=model: f"<b>Plan</b> {request.sample_id[-1]}", name=model
        )
        sn.evaluate(replies, str(built.folder), runs=folder / "server/runs", name=model)
    study = {
        "name": "plans",
        "study": str(folder / "plans.toml"),
        "runs": list(MODELS),
        "checks": 1,
    }
    with hosted(folder / "server", feature={"ratings": {"studies": [study]}}) as running:
        yield running


def item_of(page: str) -> int:
    return int(re.findall(r'action="/ratings/plans/items/(\d+)"', page)[0])


def rate(browser: Browser, number: int, **values: int) -> Any:
    return browser.post(
        f"{ROOT}/items/{number}", {f"rating.{name}": value for name, value in values.items()}
    )


def test_raters_see_blinded_items_in_orders_of_their_own(server: RunningServer) -> None:
    orders = []
    for name in ("Anna", "Ben", "Cleo"):
        browser = server.signed_in(name)
        pages = [browser.get(f"{ROOT}?place={place}").text for place in range(1, ITEMS + 1)]
        orders.append([item_of(page) for page in pages])
        assert sorted(orders[-1]) == list(range(1, ITEMS + 1))
        for page in pages:
            assert not any(model in page for model in MODELS)
            assert "<b>Plan" not in page
        assert orders[-1] == [
            item_of(browser.get(f"{ROOT}?place={place}").text) for place in range(1, ITEMS + 1)
        ]
    assert len({tuple(order) for order in orders}) > 1
    picture = re.findall(r'src="(/ratings/plans/images/[0-9a-f]{64})"', pages[0])[0]
    assert browser.get(picture).headers["content-type"] == "image/png"


def test_what_is_rated_is_kept_at_every_step_and_read_by_the_command(
    server: RunningServer, tmp_path: Path
) -> None:
    dora = server.signed_in("Dora")
    first = item_of(dora.get(ROOT).text)
    assert rate(dora, first, fit=4).headers["location"] == f"{ROOT}?place=2"
    assert item_of(dora.get(ROOT).text) == first  # not finished: a dimension is missing
    rate(dora, first, waste=2)
    again = server.signed_in("Dora")
    assert item_of(again.get(ROOT).text) != first
    page = again.get(f"{ROOT}?place=1").text
    assert 'name="rating.fit" value="4" checked' in page and f"{ITEMS - 1} not finished" in page
    for place in range(2, ITEMS + 1):
        rate(again, item_of(again.get(f"{ROOT}?place={place}").text), fit=place % 5 + 1, waste=5)
    assert f"All {ITEMS} items are rated" in again.get(ROOT).text
    rate(again, first, fit=5)
    saved = again.get(f"{ROOT}/mine.json").json()
    assert saved["rater"] == "Dora" and saved["ratings"][str(first)] == {"fit": 5, "waste": 2}
    assert saved["order"][0] == first

    admin, folder = server.admin(), tmp_path / "study"
    folder.mkdir()
    (folder / KEY).write_bytes(admin.get(f"{ROOT}/key.json").content)
    (tmp_path / "mine.json").write_text(json.dumps(saved))
    gather(folder, [tmp_path / "mine.json"])
    [sheet] = read_gathered(folder)
    assert (sheet.rater, len(sheet.ratings), sheet.ratings[first]) == (
        "Dora",
        ITEMS,
        {"fit": 5, "waste": 2},
    )
    rate(server.signed_in("Eve"), 1, fit=1)
    (tmp_path / "all.csv").write_bytes(admin.get(f"{ROOT}/ratings.csv").content)
    gather(folder, [tmp_path / "all.csv"], replace=True)
    raters = {sheet.rater: sheet.ratings for sheet in read_gathered(folder)}
    assert raters["Eve"] == {1: {"fit": 1}} and raters["Dora"] == sheet.ratings


def test_the_items_are_those_of_the_offline_form(server: RunningServer, tmp_path: Path) -> None:
    configuration = server.services.configuration
    study = RatingStudy.find(str(configuration.folder.parent / "plans.toml"))
    made = make_form(
        [configuration.folder / "runs" / name for name in MODELS],
        study,
        tmp_path / "form",
        checks=1,
    )
    (tmp_path / KEY).write_bytes(server.admin().get(f"{ROOT}/key.json").content)
    key: RatingKey = read_key(tmp_path)
    assert key == made.key and [item.is_check for item in key.items].count(True) == 1


def test_a_rating_of_nothing_is_refused(server: RunningServer) -> None:
    finn = server.signed_in("Finn")
    assert rate(finn, ITEMS + 1, fit=1).status_code == 422
    assert rate(finn, 1, fit=6).status_code == 422
    assert rate(finn, 1, beauty=1).status_code == 422
    assert finn.post(f"{ROOT}/items/1", {"rating.fit": "five"}).status_code == 422
    assert finn.get("/ratings/nothing").status_code == 404
    assert finn.get(f"{ROOT}/mine.json").json()["ratings"] == {}


def test_only_accounts_rate_and_only_administrators_see_who_wrote_what(
    server: RunningServer,
) -> None:
    visitor, gina = server.visitor(), server.signed_in("Gina")
    digest = re.findall(r"/images/([0-9a-f]{64})", gina.get(ROOT).text)[0]
    for address in ("/ratings", ROOT, f"{ROOT}/mine.json", f"{ROOT}/images/{digest}"):
        assert visitor.get(address).status_code == 303, address
    assert visitor.post(f"{ROOT}/items/1", {"rating.fit": 1}).status_code == 401
    for browser in (gina, server.with_key("Gina"), server.with_key("Administrator")):
        for name in ("key.json", "ratings.csv"):
            assert browser.get(f"{ROOT}/{name}").status_code == 403
    assert gina.get(f"{ROOT}/images/" + "0" * 64).status_code == 404


def test_a_rater_is_erased_with_all_ratings(server: RunningServer) -> None:
    hana = server.signed_in("Hana")
    rate(hana, 1, fit=2)
    assert hana.get("/account/export").json()["item_rating"][0]["ratings"] == {"fit": 2}
    hana.post("/account/erase", {"password": "correct horse battery"})
    assert "Hana" not in server.admin().get(f"{ROOT}/ratings.csv").text


def test_a_study_that_cannot_be_read_says_so_to_the_operator(tmp_path: Path) -> None:
    study = {"name": "s", "study": str(tmp_path / "none.toml"), "runs": ["r"]}
    with hosted(tmp_path / "server", feature={"ratings": {"studies": [study]}}) as server:
        assert "ratings" in server.visitor().get("/readyz").json()["missing"]
        page = server.signed_in("Anna").get("/ratings/s")
        assert page.status_code == 503 and str(tmp_path) not in page.text
    with pytest.raises(DataError, match="ratings"):
        faulty = {"ratings": {"studies": [{**study, "runs": ["../x"]}]}}
        open_services(load_configuration(tmp_path / "server", None, feature=faulty))
