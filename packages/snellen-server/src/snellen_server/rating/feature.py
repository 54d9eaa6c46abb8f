"""The feature `ratings`: raters sign in, see blinded items in an order of their own, and are kept at every step."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from snellen.plugin_api import DataError, RatingKey, SnellenError, find_rating_study, write_questionnaire
from snellen_server.hosting.callers import AdminDep, Limited, PersonDep, ServicesDep
from snellen_server.hosting.features import Feature, HealthCheck, NavigationEntry, PersonalData
from snellen_server.hosting.limits import RateLimit
from snellen_server.hosting.logs import LOGGER
from snellen_server.hosting.services import Services
from snellen_server.rating.studies import (
    NAME,
    OpenForm,
    RatingPageSettings,
    all_sheets,
    item_rating,
    open_form,
    ratings_fault,
    ratings_of,
    save_ratings,
)

ROOT, LIMIT = "/ratings", "ratings"
FIELD = "rating."
"""What the names of a form's fields begin with, before that of a dimension."""
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
    """An item, by its place in the rater's order; without one the first that is not finished."""
    opened = await _form(services, study)
    ratings = await services.database.read(lambda connection: ratings_of(connection, opened.form, rater))
    order = opened.order(rater.id)
    unfinished = [at for at, number in enumerate(order, 1) if opened.missing(ratings, number)]
    values: dict[str, Any] = {"opened": opened, "study": opened.prepared.key.study, "total": len(order)}
    at = place or (unfinished[0] if unfinished else len(order) + 1)
    values |= {"left": len(unfinished), "first_left": unfinished[0] if unfinished else 0, "has_begun": bool(ratings)}
    if at > len(order):
        return services.pages.render(request, "ratings/end.html", values)
    item = opened.item(order[at - 1])
    rating = ratings.get(item.number, {})
    return services.pages.render(request, "ratings/item.html", {**values, "item": item, "given": rating, "place": at})


@router.post(f"{ROOT}/{{study}}/items/{{number}}", include_in_schema=False, dependencies=[Depends(Limited(LIMIT))])
async def rate_item(study: str, number: int, request: Request, rater: PersonDep, services: ServicesDep) -> Response:
    """Keeps the ratings of an item that were given, all or some, and goes on."""
    opened = await _form(services, study)
    form = await request.form()
    values = {name.removeprefix(FIELD): _whole(value) for name, value in form.items() if name.startswith(FIELD)}
    opened.check(number, values)
    await services.database.write(lambda connection: save_ratings(connection, opened.form, rater, number, values))
    place = opened.order(rater.id).index(number) + 1
    return RedirectResponse(f"{ROOT}/{study}?place={place + 1}", 303)


@router.get(f"{ROOT}/{{study}}/pictures/{{digest}}", include_in_schema=False)
async def rated_picture(study: str, digest: str, rater: PersonDep, services: ServicesDep) -> Response:
    opened = await _form(services, study)
    if digest not in opened.prepared.pictures:
        raise HTTPException(404, "no picture has this name")
    media_type, content = opened.prepared.pictures[digest]
    return Response(content, media_type=media_type, headers={"cache-control": "private, max-age=31536000, immutable"})


@router.get(f"{ROOT}/{{study}}/mine.json", include_in_schema=False)
async def own_ratings(study: str, rater: PersonDep, services: ServicesDep) -> Response:
    """What the rater gave, as the offline form saves it: for `snellen rate read`."""
    opened = await _form(services, study)
    ratings = await services.database.read(lambda connection: ratings_of(connection, opened.form, rater))
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
    """What all raters gave, a row each: for `snellen rate read`."""
    opened = await _form(services, study)
    sheets = await services.database.read(lambda connection: all_sheets(connection, opened))

    def written() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ratings.csv"
            write_questionnaire(path, opened.prepared.key, sheets)
            return path.read_bytes()

    return _download(f"ratings-{study}.csv", await asyncio.to_thread(written), "text/csv")


@router.get(f"{ROOT}/{{study}}/key.json", include_in_schema=False)
async def study_key(study: str, admin: AdminDep, services: ServicesDep) -> Response:
    """Which model wrote which item: beside the ratings, it makes a folder that `snellen rate` reads."""
    opened = await _form(services, study)
    key: RatingKey = opened.prepared.key
    return _download("key.json", msgspec.json.format(msgspec.json.encode(key), indent=1), "application/json")


async def _form(services: Services, name: str) -> OpenForm:
    settings: RatingPageSettings = services.settings(NAME)
    declared = next((study for study in settings.studies if study.name == name), None)
    if declared is None:
        raise HTTPException(404, "no study of this name is here")
    try:
        return await asyncio.to_thread(open_form, services.configuration.folder, declared)
    except SnellenError:
        LOGGER.exception("study cannot be opened", extra={"facts": {"study": name}})
        raise HTTPException(503, "this study is not ready; the operator can see why") from None


def _whole(value: object) -> int:
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 2:
        raise DataError("a rating is a whole number")
    return int(value)


def _download(name: str, content: bytes, media_type: str) -> Response:
    return Response(content, media_type=media_type, headers={"content-disposition": f'attachment; filename="{name}"'})


async def open_studies(services: Services) -> dict[str, Any]:
    """The values of `ratings/home.html`: the title of each study that can be read, by its name."""
    settings: RatingPageSettings = services.settings(NAME)
    titles = {}
    for declared in settings.studies:
        with suppress(SnellenError):  # /readyz says so
            titles[declared.name] = (await asyncio.to_thread(find_rating_study, declared.study)).title
    return {"titles": titles}


FEATURE = Feature(
    name=NAME,
    title="Ratings by people",
    router=router,
    package="snellen_server.rating",
    migrations="snellen_server.rating.migrations",
    tables=(item_rating,),
    settings=RatingPageSettings,
    navigation=(NavigationEntry("Rate", ROOT, "accounts"),),
    home=open_studies,
    health_checks=(HealthCheck("ratings", ratings_fault),),
    limits=(RateLimit(LIMIT, "300/minute", "1200/minute"),),
    personal=(PersonalData(item_rating, "account_id"),),
)
