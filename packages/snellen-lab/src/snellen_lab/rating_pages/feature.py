"""The feature `ratings`: people with accounts rate the replies of models on pages of the server.

Each rater sees the items in an order of their own, without the names of the models. Each rating is
stored as soon as it is given.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from msgspec import Struct
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    ForeignKey,
    Integer,
    String,
    Table,
    and_,
    insert,
    select,
    update,
)

from snellen import DataError, SnellenError
from snellen.plugin_api import (
    RatingStudy,
    check_folder_name,
    opened_image,
    rng_for,
)
from snellen_lab.ratings.form import FormItem, PreparedForm, prepare_form
from snellen_lab.ratings.sheets import ItemRatings, RaterSheet, RatingKey, write_questionnaire
from snellen_server.hosting.accounts import Account
from snellen_server.hosting.callers import AdminDep, Limited, PersonDep, ServicesDep
from snellen_server.hosting.features import Feature, HealthCheck, NavigationEntry, PersonalData
from snellen_server.hosting.limits import RateLimit
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.services import Services
from snellen_server.hosting.tables import METADATA, UtcDateTime, account, utc_now

NAME, RUNS = "ratings", "runs"

item_rating = Table(
    "item_rating",
    METADATA,
    Column("form", String(12), primary_key=True),
    Column("account_id", ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("item", Integer, primary_key=True, autoincrement=False),
    Column("ratings", JSON, nullable=False),
    Column("at", UtcDateTime(), nullable=False),
)


class RatedStudy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A study in the server's configuration: `[[feature.ratings.studies]]`."""

    name: str
    """Part of its address."""
    study: str
    """TOML file of a study, or the name of a suite's study."""
    runs: tuple[str, ...]
    """Folders below DIR/runs whose replies are rated."""
    checks: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (self.name, *self.runs):
            try:
                check_folder_name(name)
            except SnellenError as error:
                raise ValueError(str(error)) from None


class RatingPageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings in `[feature.ratings]`."""

    studies: tuple[RatedStudy, ...] = ()


class OpenForm(Struct, frozen=True):
    """A study with its prepared items, ready to be rated."""

    declared: RatedStudy
    prepared: PreparedForm

    @property
    def form(self) -> str:
        return self.prepared.key.form

    def order(self, rater: str) -> list[int]:
        """Return the numbers of the items in the order in which one rater sees them."""
        numbers = [item.number for item in self.prepared.items]
        rng_for("ratings", self.form, "order", rater).shuffle(numbers)
        return numbers

    def item(self, number: int) -> FormItem:
        """Return the item with this number. Raises DataError if there is none."""
        if not 1 <= number <= len(self.prepared.items):
            raise DataError(f"there is no item {number}; the study has {len(self.prepared.items)}")
        return self.prepared.items[number - 1]

    def missing(self, ratings: Mapping[int, Mapping[str, int]], number: int) -> int:
        """Return how many dimensions of an item are not rated."""
        return len(self.prepared.key.study.dimensions) - len(ratings.get(number, {}))

    def check(self, number: int, values: Mapping[str, int]) -> None:
        """Raise DataError if a rating is not one that this study allows."""
        self.item(number)
        study = self.prepared.key.study
        if strangers := set(values) - {dimension.name for dimension in study.dimensions}:
            raise DataError(f"the study has no dimension {min(strangers)!r}")
        for name, value in values.items():
            if value not in study.values:
                raise DataError(
                    f"{name}: {value} is not on the scale from {study.lowest} to {study.highest}"
                )


@lru_cache(maxsize=16)
def open_form(folder: Path, declared: RatedStudy) -> OpenForm:
    """Return a study with its items. The runs are read at the first call only.

    Raises SnellenError if its runs or its declaration cannot be read.
    """
    runs = [folder / RUNS / name for name in declared.runs]
    study = RatingStudy.find(declared.study)
    return OpenForm(declared, prepare_form(runs, study, checks=declared.checks, seed=declared.seed))


async def ratings_fault(services: Services) -> str | None:
    """Return why a study cannot be used, for the health check `/readyz`; None if all can be used.

    Everybody can read this text, so it contains no path.
    """
    settings: RatingPageSettings = services.settings(NAME)
    for declared in settings.studies:
        try:
            await asyncio.to_thread(open_form, services.configuration.folder, declared)
        except SnellenError:
            return f"the study {declared.name} or its runs cannot be read"
    return None


# --- what was rated ----------------------------------------------------------------------------------------------


def save_ratings(
    connection: Connection, form: str, rater: Account, number: int, values: Mapping[str, int]
) -> None:
    """Store ratings of an item. Earlier ratings of the item in other dimensions are kept."""
    is_this_item = (
        item_rating.c.form == form,
        item_rating.c.account_id == rater.id,
        item_rating.c.item == number,
    )
    # The row is locked, so that two requests of one rater at the same time are handled one after the other.
    connection.execute(select(account.c.id).where(account.c.id == rater.id).with_for_update())
    earlier_ratings = connection.execute(
        select(item_rating.c.ratings).where(*is_this_item)
    ).scalar()
    if earlier_ratings is None:
        key = {"form": form, "account_id": rater.id, "item": number}
        connection.execute(insert(item_rating).values(**key, ratings=dict(values), at=utc_now()))
    else:
        connection.execute(
            update(item_rating)
            .where(*is_this_item)
            .values(ratings={**earlier_ratings, **values}, at=utc_now())
        )


def ratings_of(connection: Connection, form: str, rater: Account) -> ItemRatings:
    """Return all ratings that one rater gave on a form, by item."""
    is_own = and_(item_rating.c.form == form, item_rating.c.account_id == rater.id)
    query = select(item_rating).where(is_own).order_by(item_rating.c.item)
    return {row.item: row.ratings for row in connection.execute(query)}


def all_sheets(connection: Connection, opened: OpenForm) -> list[RaterSheet]:
    """Return all ratings of a form, as a sheet for each rater, sorted by name."""
    query = (
        select(item_rating, account.c.name)
        .join(account, account.c.id == item_rating.c.account_id)
        .where(item_rating.c.form == opened.form)
        .order_by(account.c.name, item_rating.c.item)
    )
    ratings_by_rater: dict[tuple[str, str], ItemRatings] = defaultdict(dict)
    for row in connection.execute(query):
        ratings_by_rater[row.name, row.account_id][row.item] = row.ratings
    sheets = []
    for (name, account_id), ratings in ratings_by_rater.items():
        order = tuple(opened.order(account_id))
        sheets.append(RaterSheet(name, ratings, order=order))
    return sheets


ROOT, LIMIT = "/ratings", "ratings"
FIELD = "rating."
"""The beginning of the names of a form's fields, before the name of a dimension."""
router = APIRouter()


@router.get(ROOT, include_in_schema=False)
async def studies_page(request: Request, rater: PersonDep, services: ServicesDep) -> HTMLResponse:
    settings: RatingPageSettings = services.settings(NAME)
    values = {"studies": [await _form(services, study.name) for study in settings.studies]}
    return services.pages.render(request, "ratings/studies.html", values)


@router.get(f"{ROOT}/{{study}}", include_in_schema=False)
async def rating_item_page(
    study: str,
    request: Request,
    rater: PersonDep,
    services: ServicesDep,
    place: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> HTMLResponse:
    """Show the item at a place in the rater's own order; by default the first unfinished one.

    If there is no such item, or all are finished, the end page is shown.
    """
    opened = await _form(services, study)
    ratings = await services.database.read(ratings_of, opened.form, rater)
    order = opened.order(rater.id)
    unfinished_places = [
        item_place for item_place, number in enumerate(order, 1) if opened.missing(ratings, number)
    ]
    first_unfinished = unfinished_places[0] if unfinished_places else 0
    values: dict[str, Any] = {
        "opened": opened,
        "study": opened.prepared.key.study,
        "total": len(order),
        "left": len(unfinished_places),
        "first_left": first_unfinished,
        "has_begun": bool(ratings),
    }

    shown_place = place or first_unfinished
    if not 1 <= shown_place <= len(order):  # the rater asked for the end, or has finished
        return services.pages.render(request, "ratings/end.html", values)

    item = opened.item(order[shown_place - 1])
    values["item"] = item
    values["given"] = ratings.get(item.number, {})
    values["place"] = shown_place
    sizes = {}
    for digest in item.pictures:
        _, content = opened.prepared.pictures[digest]
        sizes[digest] = _size(content)
    values["sizes"] = sizes
    return services.pages.render(request, "ratings/item.html", values)


def _size(content: bytes) -> tuple[int, int]:
    """Return width and height of an image, so that a page can reserve space while it is loaded."""
    with opened_image(content, "the image") as picture:
        width, height = picture.size
    return width, height


@router.post(
    f"{ROOT}/{{study}}/items/{{number}}",
    include_in_schema=False,
    dependencies=[Depends(Limited(LIMIT))],
)
async def rate_item(
    study: str, number: int, request: Request, rater: PersonDep, services: ServicesDep
) -> Response:
    """Save the ratings of an item, in all dimensions or some, and redirect to the rater's next item."""
    opened = await _form(services, study)
    form = await request.form()
    ratings = {}
    for name, value in form.items():
        if name.startswith(FIELD):
            ratings[name.removeprefix(FIELD)] = _parse_rating(value)
    opened.check(number, ratings)
    await services.database.write(save_ratings, opened.form, rater, number, ratings)
    position = opened.order(rater.id).index(number) + 1
    return RedirectResponse(f"{ROOT}/{study}?place={position + 1}", 303)


@router.get(f"{ROOT}/{{study}}/images/{{digest}}", include_in_schema=False)
async def rated_image(study: str, digest: str, rater: PersonDep, services: ServicesDep) -> Response:
    """Answer with an image of a study; 404 if the study does not show it."""
    opened = await _form(services, study)
    if digest not in opened.prepared.pictures:
        raise HTTPException(404, "there is no image with this name")
    media_type, content = opened.prepared.pictures[digest]
    return Response(
        content,
        media_type=media_type,
        headers={"cache-control": "private, max-age=31536000, immutable"},
    )


@router.get(f"{ROOT}/{{study}}/mine.json", include_in_schema=False)
async def own_ratings(study: str, rater: PersonDep, services: ServicesDep) -> Response:
    """Download one's own ratings, in the form that the offline form saves.

    `snellen rate read` can read this file.
    """
    opened = await _form(services, study)
    ratings = await services.database.read(ratings_of, opened.form, rater)
    saved = {
        "form": opened.form,
        "study": opened.prepared.key.study.name,
        "rater": rater.name,
        "order": opened.order(rater.id),
        "ratings": ratings,
    }
    return _download(f"ratings-{study}.json", msgspec.json.encode(saved), "application/json")


@router.get(f"{ROOT}/{{study}}/ratings.csv", include_in_schema=False)
async def all_ratings(study: str, admin: AdminDep, services: ServicesDep) -> Response:
    """Download the ratings of all raters as CSV with a row for each rater, as an administrator.

    `snellen rate read` can read this file.
    """
    opened = await _form(services, study)
    sheets = await services.database.read(all_sheets, opened)

    def written() -> bytes:
        """Return the ratings as the bytes of a CSV file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ratings.csv"
            write_questionnaire(path, opened.prepared.key, sheets)
            return path.read_bytes()

    return _download(f"ratings-{study}.csv", await asyncio.to_thread(written), "text/csv")


@router.get(f"{ROOT}/{{study}}/key.json", include_in_schema=False)
async def study_key(study: str, admin: AdminDep, services: ServicesDep) -> Response:
    """Download the key of a study, which says which model wrote which item, as an administrator.

    In one folder with the ratings, it makes a study that `snellen rate` can read.
    """
    opened = await _form(services, study)
    key: RatingKey = opened.prepared.key
    return _download(
        "key.json", msgspec.json.format(msgspec.json.encode(key), indent=1), "application/json"
    )


async def _form(services: Services, name: str) -> OpenForm:
    """Return a study by its name.

    An unknown name is refused (404), and so is a study that cannot be read (503).
    """
    settings: RatingPageSettings = services.settings(NAME)
    declared = next((study for study in settings.studies if study.name == name), None)
    if declared is None:
        raise HTTPException(404, "there is no study with this name")
    try:
        return await asyncio.to_thread(open_form, services.configuration.folder, declared)
    except SnellenError:
        LOGGER.exception("study cannot be opened", extra={"facts": {"study": name}})
        raise HTTPException(
            503, "this study is not ready; the server's log states the reason"
        ) from None


def _parse_rating(value: object) -> int:
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 2:
        raise DataError("a rating is a whole number")
    return int(value)


def _download(name: str, content: bytes, media_type: str) -> Response:
    """Return a response that the browser saves as a file of this name."""
    return Response(
        content,
        media_type=media_type,
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


async def open_studies(services: Services) -> dict[str, Any]:
    """Return the values for the template `ratings/home.html`.

    `titles` has the title of each study by its name. Studies that cannot be read are left out.
    """
    settings: RatingPageSettings = services.settings(NAME)
    titles = {}
    for declared in settings.studies:
        with suppress(SnellenError):  # /readyz says so
            titles[declared.name] = (
                await asyncio.to_thread(RatingStudy.find, declared.study)
            ).title
    return {"titles": titles}


FEATURE = Feature(
    name=NAME,
    title="Ratings by people",
    router=router,
    package="snellen_lab.rating_pages",
    migrations="snellen_lab.rating_pages.migrations",
    tables=(item_rating,),
    settings=RatingPageSettings,
    navigation=(NavigationEntry("Rate", ROOT, "accounts"),),
    home=open_studies,
    health_checks=(HealthCheck("ratings", ratings_fault),),
    limits=(RateLimit(LIMIT, "300/minute", "1200/minute"),),
    personal=(PersonalData(item_rating, "account_id"),),
)
