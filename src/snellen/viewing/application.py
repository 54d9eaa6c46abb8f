"""The web application: pages made on the server, which only read, for this machine alone."""

from __future__ import annotations

import re
import socket
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec
import uvicorn
from jinja2 import Environment
from msgspec import Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from snellen.errors import DataError, SnellenError, StoreError
from snellen.images import ImageStore, to_plain_file
from snellen.records import Exchange, Result
from snellen.report.formatting import metric_title
from snellen.report.gallery import OUTCOMES
from snellen.report.rendering import page_style, templates
from snellen.report.sample_card import ShownTalk, scores_text, shown_gold, shown_options, shown_reading, shown_talk
from snellen.viewing.filters import OF_ANSWERS, PAGE, SORTS, SORTS_BY_ANSWERS, QuestionFilter
from snellen.viewing.library import RunChanges, RunLibrary, ShownRun, changes_of
from snellen.viewing.progress import Progress
from snellen.viewing.questions import (
    find_picture,
    find_question,
    list_questions,
    read_exchanges_of,
    read_question,
)

HOSTS = ["127.0.0.1", "localhost"]
"""Names under which it answers: a page elsewhere whose name is made to lead here is turned away."""
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
ASSETS = {"view.css": "text/css", "view.js": "text/javascript", "icon.svg": "image/svg+xml"}
MOST_CHOICES = 500
"""Most tags that the filter offers."""
_DIGEST = re.compile("[0-9a-f]{64}")
_json = msgspec.json.Encoder().encode


def make_application(library: RunLibrary, *, hosts: Sequence[str] = HOSTS) -> Starlette:
    """The application over a library. It indexes what is new while it serves."""
    pages = ViewPages(library)
    application = Starlette(
        routes=[
            Route("/", pages.overview),
            Route("/runs", pages.runs),
            Route("/questions", pages.questions),
            Route("/question", pages.question),
            Route("/exchanges.json", pages.exchanges),
            Route("/pictures/{digest}", pages.picture),
            Route("/assets/{name}", pages.asset),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)), Middleware(SecurityHeaders)],
        exception_handlers={HTTPException: pages.not_there, SnellenError: pages.not_there},
    )
    application.router.redirect_slashes = False
    return application


def _environment(look: ViewLook) -> Environment:
    """The templates of these pages, which import those of reports."""
    environment = templates("snellen.viewing")
    hidden = () if look.has_answers else (*OF_ANSWERS, *SORTS_BY_ANSWERS)
    environment.globals |= {
        "root": look.root,
        "base": look.base,
        "has_answers": look.has_answers,
        "has_records": look.has_records,
        "outcomes": tuple(outcome for outcome in OUTCOMES if outcome not in hidden),
        "sorts": {name: words for name, (words, _) in SORTS.items() if name not in hidden},
        "number_table": number_table,
        "metric_title": metric_title,
        "page_size": PAGE,
        "QuestionFilter": QuestionFilter,
        "shown_talk": shown_talk if look.has_records else _talk_without_faults,
        "shown_options": shown_options,
        "shown_reading": shown_reading,
        "shown_gold": shown_gold,
        "scores_text": scores_text,
    }
    environment.filters["clock"] = lambda seconds: time.strftime("%H:%M:%S", time.localtime(seconds))
    return environment


def _talk_without_faults(exchange: Exchange) -> ShownTalk:
    """Without the words of an error, which may name addresses and paths."""
    error = exchange.response.error
    if error is None:
        return shown_talk(exchange)
    return shown_talk(replace(exchange, response=replace(exchange.response, error=replace(error, detail=""))))


class ViewLook(Struct, frozen=True):
    """Where the pages stand, and what they show."""

    root: str = ""
    """Before the path of each page."""
    base: str = "base.html"
    """The template around their content."""
    has_answers: bool = True
    """Whether anything is right or wrong here: without, no filter and no order asks for it."""
    has_records: bool = True
    """Whether exchanges are shown as they were recorded, with the faults of servers."""
    keeps_up: bool = True
    """Whether a page that is asked for has what is new indexed."""


class ViewPages:
    """The pages of a library. Each is made of a request, in any thread; what cannot be shown is raised."""

    def __init__(self, library: RunLibrary, look: ViewLook | None = None) -> None:
        self._library, self._progress, self._look = library, Progress(), look or ViewLook()
        self._templates = _environment(self._look)

    # --- pages ---------------------------------------------------------------------------------------------------

    def overview(self, request: Request) -> Response:
        return self._page("overview.html", self._overview())

    def runs(self, request: Request) -> Response:
        """The part of the overview that is asked for again and again."""
        return self._page("runs.html", self._overview())

    def questions(self, request: Request) -> Response:
        self._refresh()
        chosen = self._chosen(request.query_params)
        runs = self._library.runs()
        matches = list_questions(self._library, chosen, runs)
        choices = self._library.once("choices", lambda: self._choices(runs))
        return self._page(
            "questions.html",
            {"chosen": chosen, "found": matches, "labels": _labels(runs), "choices": choices, **self._state(runs)},
        )

    def question(self, request: Request) -> Response:
        chosen = self._chosen({**request.query_params, "benchmark": request.query_params.get("in", "")})
        runs = self._library.runs()
        number = self._number(request)
        ids = self._library.selection(chosen, runs)
        place = ids.index(number) if number in ids else None
        around: dict[str, Any] = {"previous": None, "next": None}
        if place is not None:
            near = {"previous": place - 1, "next": place + 1}
            around = {name: self._address(ids[at], chosen) for name, at in near.items() if 0 <= at < len(ids)} | {
                name: None for name, at in near.items() if not 0 <= at < len(ids)
            }
        return self._page(
            "question.html",
            {
                "chosen": chosen if place is None else chosen.to(page=place // PAGE + 1),
                "page": read_question(self._library, number, runs),
                "place": place,
                "total": len(ids),
                "labels": _labels(runs),
                **around,
                **self._state(runs),
            },
        )

    def exchanges(self, request: Request) -> Response:
        """What was sent and what came, as recorded."""
        runs = {run.name: run for run in self._library.runs()}
        run = runs.get(request.query_params.get("run", ""))
        if run is None:
            raise HTTPException(404, "no run of this name is shown here")
        exchanges = read_exchanges_of(self._library, self._number(request), run)
        return Response(msgspec.json.format(_json(exchanges), indent=1), media_type="application/json")

    def picture(self, request: Request) -> Response:
        digest = request.path_params["digest"]
        if not _DIGEST.fullmatch(digest):
            raise HTTPException(404, "no picture has this name")
        folder, image = find_picture(self._library, digest)
        media_type, content = to_plain_file(image, ImageStore(folder / "images").read(image))
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        is_picture = media_type in PICTURES
        return Response(content, media_type=media_type if is_picture else "application/octet-stream", headers=headers)

    @staticmethod
    def asset(request: Request) -> Response:
        """A file beside the pages: `view.css`, `view.js`, `icon.svg`, and `report.css`, the style of reports."""
        name = request.path_params["name"]
        if name == "report.css":
            return Response(page_style(), media_type="text/css")
        if name not in ASSETS:
            raise HTTPException(404, "no file has this name")
        return Response(files("snellen.viewing").joinpath("static", name).read_text("utf-8"), media_type=ASSETS[name])

    def not_there(self, request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 404 if isinstance(error, DataError) else 500
        detail = error.detail if isinstance(error, HTTPException) else str(error)
        values = {"code": code, "detail": detail, **self._state(self._library.runs())}
        return self._page("fault.html", values, code)

    # --- what they show ------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        if self._look.keeps_up:
            self._library.refresh_in_background()

    def _chosen(self, query: Mapping[str, str]) -> QuestionFilter:
        chosen = QuestionFilter.from_query(query)
        return chosen if self._look.has_answers else chosen.without_answers()

    def _page(self, template: str, values: Mapping[str, Any], code: int = 200) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(values), code)

    def _overview(self) -> dict[str, Any]:
        self._refresh()
        runs = self._library.runs()
        states = {}
        for run in runs:
            # What it raises is the run's fault, which is shown when indexing has found it too.
            with suppress(SnellenError):
                if run.manifest is None or run.fault:
                    continue
                states[run.name] = self._progress.of(run.folder, run.manifest)
        return {
            "runs": runs,
            "states": states,
            "counts": self._library.once("counts", self._counts),
            "questions": self._library.once(
                "questions", lambda: self._library.rows("SELECT count(*) FROM question")[0][0]
            ),
            "changes": self._library.once("changes", lambda: self._changes(runs)),
            **self._state(runs),
            "is_live": self._library.is_behind(runs) or any(state.state == "under way" for state in states.values()),
        }

    def _state(self, runs: Sequence[ShownRun]) -> dict[str, Any]:
        """What every page says of the index."""
        return {"fault": self._library.fault, "is_indexing": self._library.is_behind(runs)}

    def _counts(self) -> dict[tuple[int, str], dict[str, int]]:
        """How many questions have each outcome, by run and protocol."""
        counts: dict[tuple[int, str], dict[str, int]] = {}
        rows = self._library.rows("SELECT run, protocol, outcome, count(*) FROM entry GROUP BY run, protocol, outcome")
        for run, protocol, outcome, count in rows:
            counts.setdefault((run, protocol), {})[OUTCOMES[outcome]] = count
        return counts

    def _changes(self, runs: Sequence[ShownRun]) -> dict[str, RunChanges]:
        changed = ((run.name, changes_of(self._library, run, runs)) for run in runs)
        return {name: changes for name, changes in changed if changes}

    def _choices(self, runs: Sequence[ShownRun]) -> dict[str, list[tuple[str, str]]]:
        """What each list of the filter offers: values and their words."""

        def of(query: str, *values: object) -> list[tuple[str, str]]:
            return [(value, value) for (value,) in self._library.rows(query, *values)]

        labels = _labels(runs)
        return {
            "benchmark": of("SELECT DISTINCT benchmark FROM question ORDER BY 1"),
            "dimension": of("SELECT DISTINCT dimension FROM question WHERE dimension != '' ORDER BY 1"),
            "tag": of("SELECT DISTINCT tag FROM tag ORDER BY 1 LIMIT ?", MOST_CHOICES),
            "run": [(run.name, labels[run.name]) for run in runs if run.id >= 0],
            "protocol": of("SELECT DISTINCT protocol FROM entry ORDER BY 1"),
        }

    def _number(self, request: Request) -> int:
        query = request.query_params
        turn = query.get("turn", "0")
        number = None
        if turn.isdecimal() and len(turn) < 9:
            number = find_question(
                self._library, query.get("of", ""), query.get("sample", ""), int(turn), query.get("build", "")
            )
        if number is None:
            raise HTTPException(404, "no question of this name is in the runs that are shown here")
        return number

    def _address(self, number: int, chosen: QuestionFilter) -> str:
        [(benchmark, sample_id, turn, build)] = self._library.rows(
            "SELECT benchmark, sample_id, turn, build FROM question WHERE id = ?", number
        )
        return chosen.question_address(benchmark, sample_id, turn, build)


def _labels(runs: Sequence[ShownRun]) -> dict[str, str]:
    """What to call each run: its model, with its name where several runs share the model."""
    models = [run.label for run in runs]
    return {run.name: f"{run.label} ({run.name})" if models.count(run.label) > 1 else run.label for run in runs}


# --- numbers of a run ------------------------------------------------------------------------------------------------


Place = tuple[str, str]
"""Benchmark and protocol."""


class NumberTable(Struct, frozen=True):
    metrics: tuple[str, ...]
    """Those that have a value somewhere, in the order of the results."""
    rows: tuple[tuple[Place, dict[str, Result]], ...]
    """Results by metric."""


def number_table(results: Sequence[Result]) -> NumberTable:
    """A row for each benchmark and protocol."""
    rows: dict[Place, dict[str, Result]] = defaultdict(dict)
    for row in results:
        rows[row.benchmark, row.protocol][row.metric] = row
    valued = dict.fromkeys(row.metric for row in results if row.estimate.value is not None)
    return NumberTable(tuple(valued), tuple(rows.items()))


# --- security headers ------------------------------------------------------------------------------------------------


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all a browser sends forms with the origin "null"
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class SecurityHeaders:
    """Middleware: every answer has `HEADERS` and `others`, unless it sets one of them itself."""

    def __init__(self, app: ASGIApp, more_headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.app = app
        self._headers = [(name.encode(), value.encode()) for name, value in {**HEADERS, **more_headers}.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own_names = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(header for header in self._headers if header[0] not in own_names),
                ]
            await send(message)

        await self.app(scope, receive, with_headers)


# --- serving on loopback ---------------------------------------------------------------------------------------------


LOOPBACK = "127.0.0.1"


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """A socket on a port, 0 for a free one, of this machine alone unless a host is given. Raises StoreError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, which asyncio wants to know before it sends small answers at once (TCP_NODELAY).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        other = "another port with --port, or 0" if host == LOOPBACK else "others with --host and --port"
        raise StoreError(f"port {port} of {host} cannot be used ({error.strerror}); choose {other}") from None
    listener.listen(1024)
    return listener


def make_server(library: RunLibrary) -> uvicorn.Server:
    """A server of the pages that has not started; `should_exit` stops it."""
    settings = uvicorn.Config(make_application(library), log_level="warning", server_header=False, lifespan="off")
    return uvicorn.Server(settings)


def serve_pages(library: RunLibrary, listener: socket.socket) -> None:
    """Serve until Ctrl-C."""
    library.refresh_in_background()
    with suppress(KeyboardInterrupt):
        make_server(library).run(sockets=[listener])
