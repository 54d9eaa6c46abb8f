"""The feature `explorer`: images, questions and replies of public runs, without secret answers.

Which answers are secret is decided when runs are indexed. The answers of a benchmark are read only if the configuration
names it, and never if a board of the leaderboard scores by them. The index of such a benchmark is made without its
answers, so that no page, filter or error, and not even the time that a page takes, can reveal them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import lru_cache
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

NAME = "explorer"
ROOT = "/explorer"
"""Path of the explorer's pages."""
RUNS = "runs"
"""Folder of runs in the server's folder."""
ALL_RUNS = "*"
"""Value of `public` that makes all runs public."""
router = APIRouter()


class ExplorerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings in `[feature.explorer]`."""

    public: tuple[str, ...] = ()
    """Names of folders in DIR/runs that all visitors can see; `*` for all."""
    answers_of: tuple[str, ...] = ()
    """Benchmarks whose answers all visitors can see. The answers of the leaderboard's benchmarks stay secret anyway."""

    def __post_init__(self) -> None:
        """Raise ValueError for a name in `public` that cannot be that of a run's folder."""
        for name in self.public:
            if not name:
                raise ValueError("public: a run has a name; `*` stands for all")
            if name != ALL_RUNS:
                try:
                    check_folder_name(name)
                except SnellenError as error:
                    raise ValueError(f"public: {error}") from None


class _SecretBenchmarks(Struct, frozen=True):
    """The benchmarks that boards of the leaderboard score by, so that their answers are secret."""

    everything: bool = False
    """Whether all answers count as secret, because a benchmark of a board could not be read."""
    names: frozenset[str] = frozenset()
    questions: frozenset[str] = frozenset()
    """Digests of their questions, by which a benchmark is recognised under another name."""

    def contains(self, use: BenchmarkUse) -> bool:
        """Return whether the answers of a benchmark in a run are secret."""
        return self.everything or use.name in self.names or use.questions in self.questions


class PublicRuns(Struct, frozen=True):
    """The runs that all visitors can see, and their pages."""

    library: RunLibrary
    pages: ViewPages
    has_answers: bool
    """Whether the pages show the answers of any benchmark."""


def _add_page(path: str, page: Callable[[ViewPages, Request], Response]) -> None:
    """Add a page of the viewer under the explorer's address."""

    async def explore(request: Request, services: ServicesDep) -> Response:
        return await _hosted_page(request, services, page)

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
    """Return a file that the pages need, such as a style sheet. These files have no content of runs."""
    response = await asyncio.to_thread(ViewPages.asset, request)
    response.headers["cache-control"] = "public, max-age=600"
    return response


@router.get(f"{ROOT}/", include_in_schema=False)
async def explore_from_the_top() -> Response:
    return RedirectResponse(ROOT, 308)


async def _public_page(
    request: Request, services: Services, page: Callable[[ViewPages, Request], Response]
) -> Response:
    """Return a page of the viewer of public runs.

    Args:
        request: The request, whose query names the run.
        services: The services of the server.
        page: The method of the viewer that makes the page.

    Raises:
        HTTPException: 404 if no run is public, or if the request names something that is not public.
    """
    runs = await asyncio.to_thread(public_runs, services)
    if runs is None:
        raise HTTPException(404, "no run is public")
    try:
        return await asyncio.to_thread(page, runs.pages, request)
    except SnellenError:
        # The message of the error may name folders of the server, so it is only logged.
        LOGGER.info("not shown", exc_info=True)
        raise HTTPException(404, "nothing with this name is public") from None


async def _hosted_page(
    request: Request, services: Services, page: Callable[[ViewPages, Request], Response]
) -> Response:
    """Return a page of the viewer inside the layout of the server. Its content is empty if no run is public.

    The arguments and errors are those of `_public_page`.
    """
    content = ""
    has_answers = False
    runs = await asyncio.to_thread(public_runs, services)
    if runs is not None:
        viewer_page = await _public_page(request, services, page)
        content = bytes(viewer_page.body).decode()
        has_answers = runs.has_answers
    # The templates of the viewer have escaped the content.
    values = {"content": Markup(content), "has_answers": has_answers}  # noqa: S704
    return services.pages.render(request, "explorer/hosted.html", values)


def public_runs(services: Services) -> PublicRuns | None:
    """Return the runs that the configuration makes public; None if there are none. They are indexed in the background."""
    settings: ExplorerSettings = services.settings(NAME)
    secret = _secret_benchmarks(services.configuration)
    folder = services.configuration.folder.absolute()
    try:
        with _OPEN_LOCK:
            return _open_public_runs(folder, settings, secret)
    except StoreError:
        return None


def _secret_benchmarks(configuration: Configuration) -> _SecretBenchmarks:
    """Return the benchmarks of all boards of the leaderboard, whose answers the explorer must not show.

    If a benchmark of a board cannot be read, all answers count as secret.
    """
    leaderboard_table = configuration.feature.get(LEADERBOARD, {})
    leaderboard_settings = msgspec.convert(leaderboard_table, LeaderboardSettings)
    names: set[str] = set()
    questions: set[str] = set()
    try:
        for board in leaderboard_settings.boards:
            for benchmark in board_benchmarks(board):
                names.add(benchmark.name)
                questions.add(benchmark.manifest.questions)
    except SnellenError:
        return _SecretBenchmarks(everything=True)
    return _SecretBenchmarks(names=frozenset(names), questions=frozenset(questions))


_OPEN_LOCK = Lock()


@lru_cache(maxsize=1)
def _open_public_runs(
    folder: Path, settings: ExplorerSettings, secret: _SecretBenchmarks
) -> PublicRuns:
    """Open the public runs in a server's folder, and their pages.

    Args:
        folder: The server's folder.
        settings: Which runs are public, and of which benchmarks the answers are shown.
        secret: The benchmarks of leaderboards, whose answers are never shown.

    Raises:
        StoreError: None of the runs exists.
    """
    root = folder / RUNS
    if ALL_RUNS in settings.public:
        run_folders = [root]
    else:
        run_folders = [root / name for name in settings.public]

    def shows_answers(use: BenchmarkUse) -> bool:
        """Return whether the answers of a benchmark may be shown."""
        return use.name in settings.answers_of and not secret.contains(use)

    # An index that was made with other settings may contain answers that are secret now. It has another file name.
    index_settings = (
        settings.public,
        settings.answers_of,
        secret.everything,
        sorted(secret.names),
        sorted(secret.questions),
    )
    digest = hashlib.sha256(repr(index_settings).encode()).hexdigest()[:12]
    library = RunLibrary(
        [run_folder for run_folder in run_folders if run_folder.is_dir()],
        folder / f"explorer-{digest}.sqlite",
        shows_answers,
        shows_hosts=False,
    )
    has_answers = False
    for run in library.runs():
        if run.manifest and any(shows_answers(use) for use in run.manifest.benchmarks):
            has_answers = True
    options = PageOptions(ROOT, "content.html", has_answers, is_local=False)
    return PublicRuns(library, ViewPages(library, options), has_answers)


async def index_public_runs(services: Services) -> None:
    """Update the index of public runs, and delete the indexes that were made with earlier settings."""
    runs = await asyncio.to_thread(public_runs, services)
    if runs is not None:
        await asyncio.to_thread(runs.library.refresh)
    current_name = runs.library.index.name if runs else ""
    for path in services.configuration.folder.glob("explorer-*.sqlite*"):
        if not current_name or not path.name.startswith(current_name):
            path.unlink(missing_ok=True)


async def home_values(services: Services) -> dict[str, Any]:
    """Return the values of the template `explorer/home.html`: the names of the public runs."""
    runs = await asyncio.to_thread(public_runs, services)
    if runs is None:
        return {"runs": []}
    return {"runs": [run.name for run in runs.library.runs()]}


FEATURE = Feature(
    name=NAME,
    title="Explorer",
    router=router,
    package="snellen_server.explorer",
    settings=ExplorerSettings,
    navigation=(NavigationEntry("Explorer", ROOT),),
    home=home_values,
    jobs=(Job("index public runs", 60, index_public_runs),),
)
