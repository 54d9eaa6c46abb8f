"""The feature `explorer`: images, questions and replies of public runs; of hidden answers nothing.

What is hidden is decided once, where runs are indexed: a benchmark's answers are opened only when the configuration
names it, and never when a board of the leaderboard scores by them. The index of a hidden benchmark is made without its
answers, so there is nothing in it that a page, a filter, an error or the time that one takes could tell.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup
from msgspec import Struct

from snellen import SnellenError, StoreError
from snellen.plugin_api import BenchmarkUse, PageOptions, RunLibrary, ViewPages, check_folder_name
from snellen_server.hosting.callers import ServicesDep
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.features import Feature, Job, NavigationEntry
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.services import Services
from snellen_server.leaderboard.boards import NAME as LEADERBOARD
from snellen_server.leaderboard.boards import LeaderboardSettings, board_benchmarks

NAME, ROOT, RUNS = "explorer", "/explorer", "runs"
EVERY = "*"
router = APIRouter()


class ExplorerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings in `[feature.explorer]`."""

    public: tuple[str, ...] = ()
    """Folders below DIR/runs that everybody sees; `*` for all."""
    answers_of: tuple[str, ...] = ()
    """Benchmarks whose answers everybody may see; those of the leaderboard's boards stay hidden all the same."""

    def __post_init__(self) -> None:
        """Raise ValueError for a name in `public` that cannot be that of a run's folder."""
        for name in self.public:
            if not name:
                raise ValueError("public: a run has a name; `*` stands for all")
            if name != EVERY:
                try:
                    check_folder_name(name)
                except SnellenError as error:
                    raise ValueError(f"public: {error}") from None


class _Hidden(Struct, frozen=True):
    """What a board of the leaderboard scores by its answers."""

    everything: bool = False
    """Where the boards cannot be told: then nothing is shown."""
    names: frozenset[str] = frozenset()
    questions: frozenset[str] = frozenset()
    """Digests, so that a benchmark under another name is known, too."""


class PublicRuns(Struct, frozen=True):
    """The runs that everybody sees."""

    library: RunLibrary
    pages: ViewPages
    has_answers: bool


def _add_page(path: str, page: Callable[[ViewPages, Request], Response]) -> None:
    """Add a page of the viewer under the explorer's address."""

    async def explore(request: Request, services: ServicesDep) -> Response:
        return await _page(request, services, page)

    router.add_api_route(f"{ROOT}{path}", explore, include_in_schema=False)


_add_page("", ViewPages.overview)
_add_page("/run", ViewPages.run)
_add_page("/questions", ViewPages.questions)
_add_page("/question", ViewPages.question)


@router.get(f"{ROOT}/images/{{digest}}", include_in_schema=False)
async def explore_image(digest: str, request: Request, services: ServicesDep) -> Response:
    return await _public_page(request, services, ViewPages.picture)


@router.get(f"{ROOT}/assets/{{name}}", include_in_schema=False)
async def explore_asset(request: Request) -> Response:
    """The files beside the pages, which hold nothing of a run."""
    response = await asyncio.to_thread(ViewPages.asset, request)
    response.headers["cache-control"] = "public, max-age=600"
    return response


@router.get(f"{ROOT}/", include_in_schema=False)
async def explore_from_the_top() -> Response:
    return RedirectResponse(ROOT, 308)


async def _public_page(
    request: Request, services: Services, page: Callable[[ViewPages, Request], Response]
) -> Response:
    """Return a page of the viewer of public runs; anything that is not public is refused with 404."""
    runs = await asyncio.to_thread(public_runs, services)
    if runs is None:
        raise HTTPException(404, "no run is public")
    try:
        return await asyncio.to_thread(page, runs.pages, request)
    except SnellenError:
        # Its words may name folders of the server.
        LOGGER.info("not shown", exc_info=True)
        raise HTTPException(404, "nothing with this name is public") from None


async def _page(
    request: Request, services: Services, page: Callable[[ViewPages, Request], Response]
) -> Response:
    """Return a page of the viewer inside the server's layout; empty if no run is public."""
    runs = await asyncio.to_thread(public_runs, services)
    content = bytes((await _public_page(request, services, page)).body).decode() if runs else ""
    # It was escaped by its own templates.
    values = {"content": Markup(content), "has_answers": runs is not None and runs.has_answers}  # noqa: S704
    return services.pages.render(request, "explorer/hosted.html", values)


def public_runs(services: Services) -> PublicRuns | None:
    """Return the runs of the configuration; None when there are none. The index is made in the background."""
    settings: ExplorerSettings = services.settings(NAME)
    hidden = _hidden(services.configuration)
    try:
        with _OPENING:
            return _opened(services.configuration.folder.absolute(), settings, hidden)
    except StoreError:
        return None


def _hidden(configuration: Configuration) -> _Hidden:
    """Return what the explorer must not show: the benchmarks of all boards, whose answers are secret.

    If a board's benchmark cannot be read, everything is hidden.
    """
    boards = msgspec.convert(configuration.feature.get(LEADERBOARD, {}), LeaderboardSettings).boards
    try:
        benchmarks = list(chain.from_iterable(board_benchmarks(board) for board in boards))
    except SnellenError:
        return _Hidden(everything=True)
    return _Hidden(
        names=frozenset(benchmark.name for benchmark in benchmarks),
        questions=frozenset(benchmark.manifest.questions for benchmark in benchmarks),
    )


_OPENING = Lock()


@lru_cache(maxsize=1)
def _opened(folder: Path, settings: ExplorerSettings, hidden: _Hidden) -> PublicRuns:
    """Open the public runs in a server's folder, and their pages.

    Args:
        folder: The server's folder.
        settings: Which runs are public, and of which benchmarks the answers are shown.
        hidden: The benchmarks of leaderboards, whose answers are never shown.

    Raises:
        StoreError: None of the runs is there.
    """
    root = folder / RUNS
    if EVERY in settings.public:
        places = [root]
    else:
        places = [root / name for name in settings.public]

    def shows_answers(use: BenchmarkUse) -> bool:
        """Return whether the answers of a benchmark may be shown."""
        is_hidden = (
            hidden.everything or use.name in hidden.names or use.questions in hidden.questions
        )
        return use.name in settings.answers_of and not is_hidden

    # What was indexed with other answers shown is in another file, and is not asked.
    scope = (
        settings.public,
        settings.answers_of,
        hidden.everything,
        sorted(hidden.names),
        sorted(hidden.questions),
    )
    digest = hashlib.sha256(repr(scope).encode()).hexdigest()[:12]
    library = RunLibrary(
        [place for place in places if place.is_dir()],
        folder / f"explorer-{digest}.sqlite",
        shows_answers,
        shows_hosts=False,
    )
    has_answers = False
    for run in library.runs():
        if run.manifest and any(shows_answers(use) for use in run.manifest.benchmarks):
            has_answers = True
    look = PageOptions(ROOT, "content.html", has_answers, is_local=False)
    return PublicRuns(library, ViewPages(library, look), look.has_answers)


async def index_public_runs(services: Services) -> None:
    """Bring the index up to date, and delete those of earlier configurations."""
    runs = await asyncio.to_thread(public_runs, services)
    if runs is not None:
        await asyncio.to_thread(runs.library.refresh)
    current_name = runs.library.index.name if runs else ""
    for path in services.configuration.folder.glob("explorer-*.sqlite*"):
        if not current_name or not path.name.startswith(current_name):
            path.unlink(missing_ok=True)


async def explorable(services: Services) -> dict[str, Any]:
    """Return the values of `explorer/home.html`."""
    runs = await asyncio.to_thread(public_runs, services)
    return {"runs": [run.name for run in runs.library.runs()] if runs else []}


FEATURE = Feature(
    name=NAME,
    title="Explorer",
    router=router,
    package="snellen_server.explorer",
    settings=ExplorerSettings,
    navigation=(NavigationEntry("Explorer", ROOT),),
    home=explorable,
    jobs=(Job("index public runs", 60, index_public_runs),),
)
