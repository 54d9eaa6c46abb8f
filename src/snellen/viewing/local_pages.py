"""The pages for whoever has the runs: reports, comparisons, and what changes something.

Only who opened the address that the command printed may change anything: it sets a cookie, and forms carry the same
secret. So neither a page elsewhere nor another user of this machine writes notes or starts runs here.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from snellen.analysis.aggregate import results_of_all
from snellen.common.paths import snellen_home
from snellen.errors import DataError, SnellenError
from snellen.experiments.report_files import report_name
from snellen.formats.json_files import add_lines
from snellen.records import Result
from snellen.report.flipped import FLIPS_NOTE
from snellen.report.page import html_report
from snellen.report.reported_runs import prepare_reported_runs
from snellen.scoring.reply_labels import LABELS_FILE, HumanLabel, read_labels
from snellen.viewing.comparing import (
    MAX_COMPARED_RUNS,
    compare_shown,
    flips_by_protocol,
    read_scored,
)
from snellen.viewing.failures import failures_by_image_similarity
from snellen.viewing.filters import QuestionFilter
from snellen.viewing.library import RunLibrary, ShownRun
from snellen.viewing.pages import ViewPages, benchmark_rows_of, run_titles
from snellen.viewing.patience import http_protocol
from snellen.viewing.run_choices import offered_choices
from snellen.viewing.run_notes import (
    MAX_NOTE_LENGTH,
    RunNote,
    SampleNote,
    as_tags,
    read_sample_notes,
    write_run_note,
    write_sample_note,
)
from snellen.viewing.running import RunStarter, StartForm, exam_toml, forecast_lines
from snellen.viewing.serving import SecurityHeaders
from snellen.viewing.training_page import ShownTraining, shown_trainings, training_page

Form = Mapping[str, str]
LOCAL_HOST_NAMES = ("127.0.0.1", "localhost")
"""Host names that the pages answer to; a request for another name may come from a foreign page (DNS rebinding)."""
MAX_FORM_BYTES = 64_000
MAX_FORM_FIELDS = 500
"""Fields of a form, each chosen benchmark among them."""
MAX_LABEL_LENGTH = 8
"""Characters of the label of a reply: the letter of an option, in any script."""
HOW_TO_MAKE_CHANGES = (
    "to make changes, open the address that `snellen view` printed in the terminal"
)
REPORT_HEADERS = {
    # Beside the policy in the report itself.
    "content-security-policy": "sandbox allow-scripts allow-downloads; frame-ancestors 'self'",
    # A sandboxed page with another value is not opened by some browsers.
    "cross-origin-opener-policy": "unsafe-none",
}


class LocalPages(ViewPages):
    """All pages of `snellen view`; with `read_only` none that changes anything.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> pages = LocalPages(RunLibrary([Path("runs")]), read_only=True)
        >>> type(pages.application()).__name__
        'Starlette'
    """

    def __init__(self, library: RunLibrary, *, read_only: bool = False) -> None:
        """Prepare the pages of a viewer on the user's own machine.

        Args:
            library: The runs that it shows.
            read_only: Whether forms that change something, such as notes, are disabled.
        """
        super().__init__(library)
        self.secret = "" if read_only else secrets.token_urlsafe(24)
        self._last_report: tuple[tuple[tuple[int, float], ...], bytes] = ((), b"")
        """Which runs the last report was made of, and its content."""
        root = library.roots[0]
        is_single_run = (root / "manifest.json").exists()
        folder_of_runs = root.parent if is_single_run else root
        self.run_starter = RunStarter(folder_of_runs, snellen_home() / "views/started")

    def application(self, *, hosts: Sequence[str] = LOCAL_HOST_NAMES) -> Starlette:
        """Return the pages as an ASGI application, which indexes new runs while it serves.

        Args:
            hosts: Names of this machine in addresses of the pages. Requests for other names are refused.
        """
        application = Starlette(
            routes=self.routes(),
            middleware=[
                Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)),
                Middleware(SecurityHeaders),
            ],
            exception_handlers={HTTPException: self.error_page, SnellenError: self.error_page},
        )
        application.router.redirect_slashes = False
        return application

    def routes(self) -> list[Route]:
        """Return the routes of the pages, with those that change something unless the pages are read-only."""
        changes_by_path: dict[str, Callable[[Form], str]] = {
            "/run-note": self._store_run_note,
            "/note": self._store_sample_note,
            "/label": self._store_label,
            "/start": self._start,
            "/resume": self._resume,
            "/stop": self._stop,
        }
        pages_by_path = {
            "/": self.overview,
            "/run": self.run,
            "/questions": self.questions,
            "/question": self.question,
            "/exchanges.json": self.exchanges,
            "/compare": self.compare,
            "/report": self.report,
            "/alike": self.similar_images,
            "/training": self.training,
            "/start": self.start_form,
            "/process": self.process,
            "/images/{digest}": self.picture,
            "/assets/{name}": self.asset,
        }
        return [
            *(Route(path, page) for path, page in pages_by_path.items()),
            *(
                Route(path, self._form_endpoint(change), methods=["POST"])
                for path, change in changes_by_path.items()
            ),
        ]

    # --- who may change something --------------------------------------------------------------------------------

    def overview(self, request: Request) -> Response:
        """Return the page with all runs.

        A request with the token of the printed address receives the cookie that allows changes, and is redirected to
        the address without the token.
        """
        token = request.query_params.get("token")
        if token is None:
            return super().overview(request)
        response = RedirectResponse("/", 303)
        if self._is_secret(token):
            response.set_cookie(_cookie(request), self.secret, httponly=True, samesite="lax")
        return response

    def values_for_request(self, request: Request) -> dict[str, Any]:
        """Return the token that forms need, if the request has the secret cookie."""
        cookie = request.cookies.get(_cookie(request), "")
        return {"token": self.secret if self._is_secret(cookie) else ""}

    def _is_secret(self, token: str) -> bool:
        """Return whether a token is the secret of these pages. Read-only pages have none, so no token is."""
        return bool(self.secret) and hmac.compare_digest(token.encode(), self.secret.encode())

    def _form_endpoint(self, change: Callable[[Form], str]) -> Callable[[Request], Any]:
        """Return the endpoint for a form that changes something.

        Args:
            change: Makes the change, given the fields of the form, and returns the URL of the page to show next.
        """

        async def endpoint(request: Request) -> Response:
            """Carry out a form, if it comes from these pages and has the token; then redirect to the resulting page."""
            # The form is read only after these checks, so that a stranger cannot make the server work.
            if not self._is_own_request(request):
                raise HTTPException(403, "this form was sent from another site")
            if not self.values_for_request(request)["token"]:
                raise HTTPException(403, HOW_TO_MAKE_CHANGES)
            form = await _read_form(request)
            if not self._is_secret(form.get("token", "")):
                raise HTTPException(403, HOW_TO_MAKE_CHANGES)
            return RedirectResponse(await run_in_threadpool(change, form), 303)

        return endpoint

    def _is_own_request(self, request: Request) -> bool:
        """Return whether a request comes from one of these pages, or from an address that the user typed.

        Browsers state that in the headers `Origin` and `Sec-Fetch-Site`. Programs that are not browsers send neither.
        """
        origin = request.headers.get("origin")
        if origin is not None:
            origin_host = urlsplit(origin).netloc
            if origin_host != request.headers.get("host"):
                return False
        fetch_site = request.headers.get("sec-fetch-site")
        return fetch_site in (None, "same-origin", "none")

    # --- notes and labels ----------------------------------------------------------------------------------------

    def _store_run_note(self, form: Form) -> str:
        """Store the note on a run from a form, and return the address of the run."""
        run = self.named_run(form.get("run", ""))
        note = RunNote(
            run="",
            alias=form.get("alias", "").strip()[:80],
            tags=as_tags(form.get("tags", "")),
            archived=form.get("archived") == "1",
        )
        write_run_note(self.library.roots, run.folder, note)
        return f"/run?{urlencode({'run': run.name})}"

    def _store_sample_note(self, form: Form) -> str:
        """Store the note that a user wrote on a question, and return the URL of the notes."""
        run = self.named_run(form.get("run", ""))
        question_id = self.question_id(form)
        [(benchmark, sample_id, turn)] = self.library.rows(
            "SELECT benchmark, sample_id, turn FROM question WHERE id = ?", question_id
        )
        text = form.get("text", "").replace("\r\n", "\n")  # how browsers end lines
        text = text.strip()[:MAX_NOTE_LENGTH]
        write_sample_note(run.folder, SampleNote(benchmark, sample_id, turn, text))
        return _question_address(form, "notes")

    def _store_label(self, form: Form) -> str:
        """Store which option a user read in a reply, and return the URL of the page that shows the reply.

        Such labels by people are compared with what Snellen reads in replies.

        Args:
            form: The form that the user sent. It names the run, the question, the sample and the digest of the reply
                (`item`). Its `label` is the letter of an option, X if the reply names none, or empty to remove
                an earlier label.

        Raises:
            HTTPException: The form is not from a page of this program.
        """
        run = self.named_run(form.get("run", ""))
        self.question_id(form)  # raises if it names no question
        reply_digest = form.get("item", "")
        label = form.get("label", "")
        has_digest = re.fullmatch("[0-9a-f]{16}", reply_digest) is not None
        has_label = len(label) <= MAX_LABEL_LENGTH
        if not (has_digest and has_label):
            raise HTTPException(400, "this is not a label for a reply")
        human_label = HumanLabel(reply_digest, label or None, "", form.get("sample", ""))
        add_lines(run.folder / LABELS_FILE, human_label)
        return _question_address(form, f"reply-{reply_digest}")

    def values_for_question(self, question_id: int, runs: Sequence[ShownRun]) -> dict[str, Any]:
        """Return what the user wrote about a question: a note for each run, and labels of replies.

        Args:
            question_id: The number of the question in the index.
            runs: The runs that are shown.

        Returns:
            `notes` by run, and under `given` the labels by (run, digest of the reply).
        """
        [(benchmark, sample_id, turn)] = self.library.rows(
            "SELECT benchmark, sample_id, turn FROM question WHERE id = ?", question_id
        )
        notes: dict[str, str] = {}
        labels: dict[tuple[str, str], str | None] = {}
        for run in runs:
            if run.id < 0:  # not indexed yet
                continue
            note = read_sample_notes(run.folder).get((benchmark, sample_id, turn))
            if note:
                notes[run.name] = note.text
            for (item, labeller), label in read_labels(run.folder / LABELS_FILE).items():
                if not labeller:
                    labels[run.name, item] = label.label
        return {"notes": notes, "given": labels}

    # --- runs under way ------------------------------------------------------------------------------------------

    def start_form(self, request: Request) -> Response:
        """Return the page with the form that starts a run.

        If the form was submitted for a preview, the page shows either the errors in it or the settings and the number of
        requests of the run.
        """
        has_token = bool(self.values_for_request(request)["token"])
        is_submitted = has_token and self._is_own_request(request) and bool(request.query_params)
        form = StartForm()
        faults: list[str] = []
        if is_submitted:
            form = StartForm.from_form(request.query_params)
            faults = form.faults()

        existing_run = None
        exam = ""
        forecast: list[str] = []
        if is_submitted and not faults:
            existing_run = self._run_with_typed_name(form)
            exam = exam_toml(form.fields, self.run_starter.runs)
            forecast = forecast_lines(form, self.run_starter.runs)

        runs = self.library.runs()
        all_started = self.run_starter.all()
        started_folders = {started.run for started in all_started}
        started_runs = [run for run in runs if run.folder in started_folders]
        finished_folders: set[Path] = set()
        for run_row in self.run_rows(started_runs):
            if run_row.state_name == "finished":
                finished_folders.add(run_row.run.folder)
        values = {
            "launches": all_started,
            "finished": finished_folders,
            "earlier": existing_run,
            "folder": self.run_starter.runs,
            "form": form,
            "faults": faults,
            "exam": exam,
            "forecast": forecast,
            "read_only": not self.secret,
            "offered": offered_choices(run.manifest.model for run in runs if run.manifest),
            **self._index_state(runs),
        }
        return self._page(request, "start.html", values)

    def process(self, request: Request) -> Response:
        """Return the page of a process that was started here: its output, and the progress of its run."""
        started = self.run_starter.find(request.query_params.get("id", ""))
        runs = self.library.runs()
        run_rows = self.run_rows([run for run in runs if run.folder == started.run])
        run_row = run_rows[0] if run_rows else None
        values = {
            "launch": started,
            "run_row": run_row,
            "is_finished": run_row is not None and run_row.state_name == "finished",
            **self._index_state(runs),
        }
        return self._page(request, "process.html", values)

    def _start(self, form: Form) -> str:
        """Start a run with the settings of a form, and return the URL of the page to show next.

        If the run was started, it is the page of its process. It is the form again if the form has errors, if the user only
        wants a preview, or if an earlier run has the typed name and the user has not confirmed that it may be extended.
        """
        settings = StartForm.from_form(form)
        existing_run = self._run_with_typed_name(settings)
        may_extend = existing_run is None or form.get("grows") == existing_run.name
        wants_preview = bool(form.get("look"))
        if wants_preview or settings.faults() or not may_extend:
            return f"/start?look=1&{settings.query}"
        process = self.run_starter.start(settings.named_fields)
        return f"/process?id={process.id}"

    def _run_with_typed_name(self, form: StartForm) -> ShownRun | None:
        """Return the existing run that has the name which the user typed into the form, and which a new run would extend.

        Returns:
            None if there is no such run, or if no name was typed.
        """
        if not form.name:
            return None
        folder = self.run_starter.runs / form.name
        for run in self.library.runs():
            if run.folder == folder and run.manifest is not None:
                return run
        return None

    def _resume(self, form: Form) -> str:
        """Continue a run that has stopped, and return the URL of the page of its process."""
        run = self.named_run(form.get("run", ""))
        if run.manifest is None:
            raise DataError(run.fault)
        process = self.run_starter.resume(run.folder, run.manifest)
        return f"/process?id={process.id}"

    def _stop(self, form: Form) -> str:
        """Stop the process that a form names, and return the URL of its page."""
        process_id = form.get("id", "")
        self.run_starter.stop(process_id)
        return f"/process?{urlencode({'id': process_id})}"

    def values_for_run(self, run: ShownRun) -> dict[str, Any]:
        return {"launch": self.run_starter.latest_of_run(run.folder)}

    def is_working(self, run: ShownRun) -> bool | None:
        started = self.run_starter.latest_of_run(run.folder)
        return None if started is None else started.exit_code is None

    # --- reports and comparisons ---------------------------------------------------------------------------------

    def report(self, request: Request) -> Response:
        """Return the report of the selected runs: to save as a file, for a frame, or with a bar of links at the top.

        The last report is remembered for as long as its runs do not change.
        """
        runs = self._selected_runs(request, 1)

        stamps = tuple((run.id, run.indexed) for run in runs)
        remembered_stamps, _ = self._last_report
        if remembered_stamps != stamps:
            scored = read_scored(runs)
            html = html_report(prepare_reported_runs(scored, results_of_all(scored)))
            self._last_report = (stamps, html.encode("utf-8", "replace"))
        _, content = self._last_report
        if request.query_params.get("save"):
            name = report_name([run.folder.name for run in runs])
            headers = {**REPORT_HEADERS, "content-disposition": f'attachment; filename="{name}"'}
            return Response(content, media_type="text/html", headers=headers)
        if request.headers.get("sec-fetch-dest") == "iframe":
            return Response(content, media_type="text/html", headers=REPORT_HEADERS)

        run_query = urlencode([("run", run.name) for run in runs])
        save_address = escape(f"/report?{run_query}&save=1")
        links = f'<a href="/">Runs</a> · <a href="{save_address}">Save as one file</a>'
        bar = f'<p class="over">{links}</p>'
        head, body_tag, body = content.partition(b"<body>")
        with_bar = head + body_tag + bar.encode() + body
        return Response(with_bar, media_type="text/html", headers=REPORT_HEADERS)

    def compare(self, request: Request) -> Response:
        """Answer with the page that compares the picked runs."""
        runs = self._selected_runs(request, 2)
        comparison = self.library.cached(
            ("compare", *(run.id for run in runs)), lambda: compare_shown(self.library, runs)
        )
        values = {
            "picked": runs,
            "titles": run_titles(self.run_rows(runs)),
            "comparison": comparison,
            "sums": flips_by_protocol(comparison.flips),
            "flips_note": FLIPS_NOTE,
            **self._index_state(self.library.runs()),
        }
        return self._page(request, "compare.html", values)

    def training(self, request: Request) -> Response:
        """Answer with the page of a training: its scores over the steps, and the questions that flipped between steps."""
        name = request.query_params.get("name", "")
        run_rows = self.run_rows(self.library.runs())
        trainings = {training.name: training for training in shown_trainings(run_rows)}
        training = trainings.get(name)
        if training is None:
            raise HTTPException(404, "there is no training with this name and two steps or more")
        ids = tuple(run_row.run.id for run_row in training.run_rows.values())
        page = self.library.cached(
            ("training", name, *ids),
            lambda: training_page(self.library, training, self._step_headlines(training)),
        )
        values = {
            "page": page,
            "training": training,
            "flips_note": FLIPS_NOTE,
            "is_live": any(run_row.changes for run_row in training.run_rows.values()),
            **self._index_state(self.library.runs()),
        }
        return self._page(request, "training.html", values)

    def _step_headlines(self, training: ShownTraining) -> dict[int, dict[str, Result]]:
        """Return the headline results at each step of a training.

        Returns:
            By step and then by benchmark. The headline of the whole run is under an empty name.
        """
        headlines: dict[int, dict[str, Result]] = {}
        for step, run_row in training.run_rows.items():
            details = self.library.details(run_row.run)
            protocol = run_row.headline.protocol if run_row.headline else ""
            headline_by_benchmark: dict[str, Result] = {}
            for benchmark_row in benchmark_rows_of(details, protocol):
                headline_by_benchmark[benchmark_row.benchmark] = benchmark_row.headline
            if details.overall is not None:
                headline_by_benchmark[""] = details.overall
            headlines[step] = headline_by_benchmark
        return headlines

    def similar_images(self, request: Request) -> Response:
        """Return the page with groups of similar images on which a run has significantly more wrong answers."""
        run = self.named_run(request.query_params.get("run", ""))
        protocol = request.query_params.get("protocol", "")
        clusters = self.library.cached(
            ("alike", run.id, protocol),
            lambda: failures_by_image_similarity(self.library, run, protocol),
        )
        values = {
            "run": run,
            "protocol": protocol,
            "clusters": clusters,
            **self._index_state(self.library.runs()),
        }
        return self._page(request, "alike.html", values)

    def _selected_runs(self, request: Request, least: int) -> list[ShownRun]:
        """Return the runs that a request names.

        Raises:
            HTTPException: They are fewer than `least`, or too many (400).
        """
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        if not least <= len(names) <= MAX_COMPARED_RUNS:
            raise HTTPException(
                400, f"pick {least} to {MAX_COMPARED_RUNS} runs in the table, then compare them"
            )
        return [self.named_run(name) for name in names]


async def _read_form(request: Request) -> Form:
    """The fields of a form that is not too long; several values of a field are joined by spaces. Raises HTTPException."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise HTTPException(413, "this form is too long")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise HTTPException(400, "this form does not belong to these pages") from None
    form: dict[str, str] = {}
    for name, value in fields:
        form[name] = f"{form[name]} {value}" if name in form else value
    return form


def _cookie(request: Request) -> str:
    """Return the name of the cookie. It contains the port, because browsers share cookies between ports of a host."""
    return f"snellen-view-{request.url.port or 80}"


def _question_address(form: Form, anchor: str) -> str:
    """Return the URL of a part of a question's page.

    Args:
        form: A form of that page. It names the question, and under `among` the filter of the list that the user came
            from.
        anchor: The part of the page.
    """
    query = dict(parse_qsl(form.get("among", "")))
    chosen = QuestionFilter.from_query(query)
    turn = int(form.get("turn", "0"))
    address = chosen.question_address(
        form.get("of", ""), form.get("sample", ""), turn, form.get("build", "")
    )
    return f"{address}#{anchor}"


# --- the application -------------------------------------------------------------------------------------------------


def make_server(pages: LocalPages) -> uvicorn.Server:
    """Return a server for the pages, not started yet. Set its `should_exit` to stop it."""
    settings = uvicorn.Config(
        pages.application(),
        http=http_protocol(),  # type: ignore[arg-type]
        ws="none",
        log_level="warning",
        server_header=False,
        lifespan="off",
    )
    return uvicorn.Server(settings)


def serve_pages(pages: LocalPages, listener: socket.socket) -> None:
    """Serve the pages at an open socket until the user presses Ctrl-C. The index is updated in the background."""
    pages.library.refresh_in_background()
    with suppress(KeyboardInterrupt):
        make_server(pages).run(sockets=[listener])
