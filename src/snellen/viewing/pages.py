"""Pages that only read: the table of runs, a run, questions, one question. A server may show them to others, too."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment
from msgspec import Struct
from msgspec.structs import replace
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from snellen.analysis.headline import protocol_preference
from snellen.common.decoding import to_plain_file
from snellen.common.images import ImageStore
from snellen.errors import DataError, SnellenError
from snellen.metrics.declaration import SHARE, metric_of
from snellen.records import Exchange, Prediction, Result
from snellen.report.headline_table import short_title
from snellen.report.letters import corrected_letters, letter_sentences
from snellen.report.number_text import capitalised, dimension_title, metric_title
from snellen.report.rendering import page_style, report_asset, templates
from snellen.report.reported_runs import MEAN_DESCRIPTIONS, uses_first_presentation_only
from snellen.report.sample_cards import (
    ShownExchange,
    score_meanings,
    scores_text,
    shown_correct_answer,
    shown_exchange,
    shown_options,
    shown_reading,
)
from snellen.report.samples import OUTCOMES
from snellen.viewing.failures import FailureClusterGroup, failure_clusters
from snellen.viewing.filters import (
    OUTCOMES_THAT_REVEAL_ANSWERS,
    QUESTIONS_PER_PAGE,
    SORTS,
    SORTS_THAT_REVEAL_ANSWERS,
    QuestionFilter,
)
from snellen.viewing.library import RunLibrary, ShownRun, previous_run
from snellen.viewing.questions import (
    find_image,
    find_question,
    list_questions,
    read_exchanges_of,
    read_question,
    runs_in_order,
)
from snellen.viewing.run_notes import RunNote, read_run_notes
from snellen.viewing.run_summary import RunDetails
from snellen.viewing.run_table import (
    SORTABLE_COLUMNS,
    RunFilter,
    RunTableRow,
    chosen_rows,
    trend_of,
)
from snellen.viewing.running import Progress
from snellen.viewing.training_page import ShownTraining, shown_trainings, step_of

SHOWN_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
ASSETS = {"view.css": "text/css", "view.js": "text/javascript", "icon.svg": "image/svg+xml"}
MAX_TAG_CHOICES = 500
"""Tags that the filter offers at most."""
_DIGEST = re.compile("[0-9a-f]{64}")
_encode_json = msgspec.json.Encoder().encode


def _environment(options: PageOptions) -> Environment:
    """Return the template environment of the pages; their templates can import those of reports."""
    hidden: tuple[str, ...] = ()
    if not options.has_answers:
        hidden = (*OUTCOMES_THAT_REVEAL_ANSWERS, *SORTS_THAT_REVEAL_ANSWERS)
    environment = templates(
        "snellen.viewing",
        root=options.root,
        base=options.base,
        has_answers=options.has_answers,
        is_local=options.is_local,
        outcomes=tuple(outcome for outcome in OUTCOMES if outcome not in hidden),
        sorts={name: title for name, (title, _) in SORTS.items() if name not in hidden},
        run_columns={name: title for name, (title, _) in SORTABLE_COLUMNS.items()},
        metric_title=metric_title,
        MEAN_DESCRIPTIONS=MEAN_DESCRIPTIONS,
        short_title=short_title,
        dimension_title=dimension_title,
        share_unit=SHARE,
        QuestionFilter=QuestionFilter,
        RunFilter=RunFilter,
        shown_exchange=shown_exchange if options.is_local else _exchange_without_error_details,
        shown_options=shown_options,
        shown_reading=shown_reading,
        shown_correct_answer=shown_correct_answer,
        scores_text=scores_text,
        score_meanings=score_meanings,
        chosen_label=chosen_label,
        uses_first_presentation_only=uses_first_presentation_only,
    )
    environment.filters["duration"] = duration
    return environment


def duration(seconds: float) -> str:
    """Return a duration as text, in the largest unit of which there are at least two: `90 s`, `15 min` or `3 h`."""
    minutes = seconds / 60
    hours = minutes / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    if hours < 2:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h"


def chosen_label(prediction: Prediction) -> str:
    """Return the label of the chosen option as it was shown; empty without a choice."""
    variant = prediction.variant
    labels = dict(zip(variant.order, variant.labels, strict=False))
    return "" if prediction.choice is None else labels.get(prediction.choice, "")


def _exchange_without_error_details(exchange: Exchange) -> ShownExchange:
    """Return an exchange for display without error details, which may contain addresses and paths."""
    error = exchange.response.error
    if error is None:
        return shown_exchange(exchange)
    error_without_details = replace(error, detail="")
    response = replace(exchange.response, error=error_without_details)
    return shown_exchange(replace(exchange, response=response))


class PageOptions(Struct, frozen=True):
    """Location and options of the pages.

    Examples:
        >>> PageOptions(root="/explorer", has_answers=False).is_local
        True
    """

    root: str = ""
    """Prefix of the path of each page."""
    base: str = "base.html"
    """The template around the content of a page."""
    has_answers: bool = True
    """Whether the pages show what is right or wrong. If not, no filter or order depends on it."""
    is_local: bool = True
    """Whether the reader owns the runs.

    If so, exchanges and errors are shown unchanged, notes are read, and each request of a page updates the index.
    """


class ViewPages:
    """The pages of a library. Each method answers a request, in any thread, or raises an error for `error_page`.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> pages = ViewPages(RunLibrary([Path("runs")]), PageOptions(root="/explorer"))
        >>> len(pages.library.runs())
        1
    """

    def __init__(self, library: RunLibrary, options: PageOptions | None = None) -> None:
        self.library = library
        self._progress = Progress()
        self._options = options or PageOptions()
        self._templates = _environment(self._options)

    # --- pages ---------------------------------------------------------------------------------------------------

    def overview(self, request: Request) -> Response:
        return self._page(request, "overview.html", self._overview(request))

    def run(self, request: Request) -> Response:
        """The page of one run: state, benchmarks, option letters, failure clusters and changes over time."""
        runs = self.library.runs()
        run_rows = self.run_rows(runs)
        run_row = self._run_row(request, run_rows)
        query = request.query_params
        details = self.library.details(run_row.run)
        protocol = query.get("protocol", "")
        if not protocol and run_row.headline:
            protocol = run_row.headline.protocol
        if protocol not in run_row.protocols:
            protocol = next(iter(run_row.protocols), "")
        benchmarks = benchmark_rows_of(details, protocol)
        if query.get("sort") == "worst":
            benchmarks.sort(key=BenchmarkRow.worst_first_key)
        occurring_outcomes: set[str] = set()
        for row in benchmarks:
            occurring_outcomes.update(row.outcomes)
        clusters: list[FailureClusterGroup] = []
        if self._options.has_answers:  # clusters are of wrong replies
            clusters = self.library.cached(
                ("clusters", run_row.run.id, protocol),
                lambda: failure_clusters(self.library, run_row.run, protocol),
            )
        letters = [letter for letter in details.letters if letter.protocol == protocol]
        values = {
            "run_row": run_row,
            "protocol": protocol,
            "sort": query.get("sort", ""),
            "benchmarks": benchmarks,
            "occurring": occurring_outcomes,
            "notes": metric_notes(benchmarks),
            "numbers": number_table(details.results),
            "thresholds": details.thresholds,
            "thresholds_fault": details.thresholds_fault,
            "answers_missing": details.answers_missing,
            "scored_with": details.scored_with,
            "not_applied": details.not_applied,
            "asked": details.started_benchmarks,
            "mean": details.overall if _shows_mean(run_row, benchmarks, protocol) else None,
            "letters": corrected_letters(letters),
            "letter_sentences": letter_sentences(letters),
            "clusters": clusters,
            "trend": trend_of(run_row, run_rows),
            "training": self.training_of(run_row, run_rows),
            "previous": previous_run(run_row.run, runs),
            **self.values_for_run(run_row.run),
            **self._index_state(runs),
        }
        values["is_live"] = values["is_indexing"] or run_row.changes
        return self._page(request, "run.html", values)

    def questions(self, request: Request) -> Response:
        """Answer with the list of the questions that match a filter."""
        chosen = self._question_filter(request.query_params)
        runs = self.library.runs()
        matches = list_questions(self.library, chosen, runs)
        choices = self.library.cached("choices", lambda: self._choices(runs))
        return self._page(
            request,
            "questions.html",
            {
                "chosen": chosen,
                "found": matches,
                "labels": _run_labels(runs),
                "choices": choices,
                **self._index_state(runs),
            },
        )

    def question(self, request: Request) -> Response:
        """Answer with the page of one question of the chosen list, and links to the questions before and after it."""
        query = {**request.query_params, "benchmark": request.query_params.get("in", "")}
        chosen = self._question_filter(query)
        runs = self.library.runs()
        question_id = self.question_id(request.query_params)
        ids = self.library.selection(chosen, runs)
        list_index = ids.index(question_id) if question_id in ids else None
        previous_address = None
        next_address = None
        if list_index is not None:
            if list_index > 0:
                previous_address = self._address(ids[list_index - 1], chosen)
            if list_index + 1 < len(ids):
                next_address = self._address(ids[list_index + 1], chosen)
            chosen_list = chosen.to(page=list_index // QUESTIONS_PER_PAGE + 1)
        else:
            chosen_list = chosen
        compared = runs_in_order(runs, chosen.compared)
        values = {
            "chosen": chosen_list,
            "page": read_question(self.library, question_id, compared, chosen.protocol),
            "position": list_index,
            "total": len(ids),
            "labels": _run_labels(runs),
            "previous": previous_address,
            "next": next_address,
            **self.values_for_question(question_id, runs),
            **self._index_state(runs),
        }
        return self._page(request, "question.html", values)

    def exchanges(self, request: Request) -> Response:
        """Return the recorded requests and responses of a run about one question, as JSON."""
        run = self.named_run(request.query_params.get("run", ""))
        question = self.question_id(request.query_params)
        exchanges = read_exchanges_of(self.library, question, run)
        content = msgspec.json.format(_encode_json(exchanges), indent=1)
        return Response(content, media_type="application/json")

    def picture(self, request: Request) -> Response:
        """Answer with an image by its digest. It never changes, so browsers may keep it."""
        digest = request.path_params["digest"]
        if not _DIGEST.fullmatch(digest):
            raise HTTPException(404, "there is no image with this name")
        folder, image = find_image(self.library, digest)
        media_type, content = to_plain_file(image, ImageStore(folder / "images").read(image))
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        is_image = media_type in SHOWN_IMAGE_TYPES
        return Response(
            content,
            media_type=media_type if is_image else "application/octet-stream",
            headers=headers,
        )

    @staticmethod
    def asset(request: Request) -> Response:
        """A static file: `view.css`, `view.js`, `icon.svg`, or `report.css` and `charts.js` of reports."""
        name = request.path_params["name"]
        if name == "report.css":
            return Response(page_style(), media_type="text/css")
        if name == "charts.js":
            return Response(report_asset(name), media_type="text/javascript")
        if name not in ASSETS:
            raise HTTPException(404, "there is no file with this name")
        return Response(
            files("snellen.viewing").joinpath("static", name).read_text("utf-8"),
            media_type=ASSETS[name],
        )

    def error_page(self, request: Request, error: Exception) -> Response:
        """Return the page for an error. Its status is that of an HTTPException, 404 for a DataError, otherwise 500."""
        if isinstance(error, HTTPException):
            code = error.status_code
            detail = error.detail
        else:
            code = 404 if isinstance(error, DataError) else 500
            detail = str(error)
        values = {"code": code, "detail": detail, **self._index_state(self.library.runs())}
        return self._page(request, "fault.html", values, code)

    # --- content of the pages ------------------------------------------------------------------------------------

    def values_for_request(self, request: Request) -> dict[str, Any]:
        """Template values about the request. Pages with forms override this to return the token of the session."""
        return {"token": ""}

    def values_for_run(self, run: ShownRun) -> dict[str, Any]:
        """Template values about a run. Pages that start runs override this to return its latest process."""
        return {"launch": None}

    def trainings(self, run_rows: Sequence[RunTableRow]) -> list[ShownTraining]:
        """Return the trainings that have a page."""
        return shown_trainings(run_rows) if self._options.is_local else []

    def training_of(self, run_row: RunTableRow, run_rows: Sequence[RunTableRow]) -> str:
        """Return the name of the training of a run; empty if it has no page."""
        step = step_of(run_row)
        if step is None:
            return ""
        training = step[0]
        names = {training.name for training in self.trainings(run_rows)}
        return training if training in names else ""

    def is_working(self, run: ShownRun) -> bool | None:
        """Return whether the process of a run is alive; None if these pages did not start one."""
        return None

    def values_for_question(self, question_id: int, runs: Sequence[ShownRun]) -> dict[str, Any]:
        """Template values about a question. Pages that store labels and notes override this."""
        return {"notes": {}, "given": {}}

    def run_rows(self, runs: Sequence[ShownRun]) -> list[RunTableRow]:
        """Return the rows of the table of runs: each run with the user's note on it and its progress."""
        notes = read_run_notes(self.library.roots) if self._options.is_local else {}
        run_rows = []
        for run in runs:
            state = None
            # An error here is a fault of the run, which is shown when indexing finds it.
            with suppress(SnellenError):
                if run.manifest is not None and not run.fault:
                    state = self._progress.of(run.folder, run.manifest, self.is_working(run))
            run_rows.append(RunTableRow(run, notes.get(run.folder, RunNote("")), state))
        return run_rows

    def named_run(self, name: str) -> ShownRun:
        """Return the run with a name.

        Raises:
            HTTPException: There is no such run (404).
        """
        for run in self.library.runs():
            if run.name == name:
                return run
        raise HTTPException(404, "there is no run with this name")

    def question_id(self, query: Mapping[str, Any]) -> int:
        """Return the id in the index of the question that a URL or a form names.

        Args:
            query: The fields of the URL or form: `of` (the benchmark), `sample`, `turn` and `build`.

        Raises:
            HTTPException: The runs have no such question (404).
        """
        turn = str(query.get("turn", "0"))
        question_id = None
        if turn.isdecimal() and len(turn) < 9:
            question_name = (
                str(query.get("of", "")),
                str(query.get("sample", "")),
                int(turn),
                str(query.get("build", "")),
            )
            question_id = find_question(self.library, *question_name)
        if question_id is None:
            raise HTTPException(404, "these runs have no question with this name")
        return question_id

    def _page(
        self, request: Request, template: str, values: Mapping[str, Any], code: int = 200
    ) -> Response:
        """Return a page.

        After it was sent, the index is updated in the background, so that the user does not have to wait for that.

        Args:
            request: The request for the page.
            template: The name of its template.
            values: The values that the template shows.
            code: The HTTP status.
        """
        content = {**self.values_for_request(request), **values}
        later = (
            BackgroundTask(self.library.refresh_in_background) if self._options.is_local else None
        )
        return HTMLResponse(
            self._templates.get_template(template).render(content), code, background=later
        )

    def _question_filter(self, query: Mapping[str, str]) -> QuestionFilter:
        """Read the filter of questions from a URL, without conditions that would reveal answers which must stay hidden."""
        chosen = QuestionFilter.from_query(query)
        return chosen if self._options.has_answers else chosen.without_answers()

    def _run_row(self, request: Request, run_rows: Sequence[RunTableRow]) -> RunTableRow:
        """Return the table row of the run that a request names.

        Raises:
            HTTPException: There is no such run (404).
        """
        name = request.query_params.get("run", "")
        for run_row in run_rows:
            if run_row.run.name == name:
                return run_row
        raise HTTPException(404, "there is no run with this name")

    def _overview(self, request: Request) -> dict[str, Any]:
        """Return the values of the page with all runs."""
        runs = self.library.runs()
        run_rows = self.run_rows(runs)
        chosen = RunFilter.from_query(request.query_params)
        tags: set[str] = set()
        n_archived = 0
        is_changing = self.library.is_behind(runs)
        for run_row in run_rows:
            tags.update(run_row.note.tags)
            n_archived += run_row.note.archived
            is_changing = is_changing or run_row.changes

        def count_questions() -> int:
            [[count]] = self.library.rows("SELECT count(*) FROM question")
            return int(count)

        return {
            "chosen": chosen,
            "run_rows": chosen_rows(run_rows, chosen),
            "total": len(run_rows),
            "tags": sorted(tags),
            "archived": n_archived,
            "trainings": self.trainings(run_rows),
            "questions": self.library.cached("questions", count_questions),
            **self._index_state(runs),
            "is_live": is_changing,
        }

    def _index_state(self, runs: Sequence[ShownRun]) -> dict[str, Any]:
        """Return what every page shows about the index: the error of the last update, and whether runs are missing."""
        return {"fault": self.library.fault, "is_indexing": self.library.is_behind(runs)}

    def _choices(self, runs: Sequence[ShownRun]) -> dict[str, list[tuple[str, str]]]:
        """Return the choices of each list in the form that filters questions.

        Returns:
            By the name of the field (`benchmark`, `dimension`, `tag`, `run` and `protocol`), pairs of a value and the text
            that the list shows.
        """

        def column(query: str, *parameters: object) -> list[str]:
            """Return the values of an SQL query with one column."""
            return [value for (value,) in self.library.rows(query, *parameters)]

        benchmarks = column("SELECT DISTINCT benchmark FROM question ORDER BY 1")
        dimensions = column(
            "SELECT DISTINCT dimension FROM question WHERE dimension != '' ORDER BY 1"
        )
        tags = column("SELECT DISTINCT tag FROM tag ORDER BY 1 LIMIT ?", MAX_TAG_CHOICES)
        labels = _run_labels(runs)
        protocols: set[str] = set()
        for run in runs:
            if run.manifest:
                protocols.update(run.manifest.protocols)
        return {
            "benchmark": [(name, name) for name in benchmarks],
            "dimension": [(name, dimension_title(name)) for name in dimensions],
            "tag": [(tag, tag) for tag in tags],
            "run": [(run.name, labels[run.name]) for run in runs if run.id >= 0],
            "protocol": [(name, name) for name in sorted(protocols)],
        }

    def _address(self, question_id: int, chosen: QuestionFilter) -> str:
        """Return the address of a question by its id, in the chosen list of questions."""
        [(benchmark, sample_id, turn, build)] = self.library.rows(
            "SELECT benchmark, sample_id, turn, build FROM question WHERE id = ?", question_id
        )
        return chosen.question_address(benchmark, sample_id, turn, build)


def run_titles(run_rows: Sequence[RunTableRow]) -> dict[str, str]:
    """Return the title of each run, which is the name that the user gave it if there is one, by the name of the run."""
    return {run_row.run.name: run_row.title for run_row in run_rows}


def _run_labels(runs: Sequence[ShownRun]) -> dict[str, str]:
    """Return a label for each run, by the name of the run.

    The label is the name of the model. If several runs have the same model, the name of the run follows in brackets.
    """
    n_runs_by_model = Counter(run.label for run in runs)
    labels: dict[str, str] = {}
    for run in runs:
        is_only_run = n_runs_by_model[run.label] == 1
        labels[run.name] = run.label if is_only_run else f"{run.label} ({run.name})"
    return labels


# --- numbers of a run ------------------------------------------------------------------------------------------------


BenchmarkAndProtocol = tuple[str, str]
"""Benchmark and protocol."""


class NumberTable(Struct, frozen=True):
    """All results of a run as a table: rows of benchmarks and protocols, columns of metrics."""

    metrics: tuple[str, ...]
    """The metrics that have a value in at least one row, in the order of the results."""
    rows: tuple[tuple[BenchmarkAndProtocol, dict[str, Result]], ...]
    """For each row, its benchmark and protocol, and its results by metric."""


def number_table(results: Sequence[Result]) -> NumberTable:
    """Arrange results in a table: a row for each benchmark and protocol, a column for each metric with a value."""
    results_by_row: dict[BenchmarkAndProtocol, dict[str, Result]] = defaultdict(dict)
    metrics: dict[str, None] = {}
    for result in results:
        row_key = (result.benchmark, result.protocol)
        results_by_row[row_key][result.metric] = result
        if result.estimate.value is not None:
            metrics[result.metric] = None
    return NumberTable(tuple(metrics), tuple(results_by_row.items()))


class BenchmarkRow(Struct, frozen=True):
    """A benchmark on a run's page, under one protocol."""

    benchmark: str
    headline: Result
    outcomes: dict[str, int]
    chance: float | None = None
    """The chance level, if the headline is a share."""

    def worst_first_key(self) -> tuple[bool, float]:
        """Return a sort key that puts the worst results first.

        Shares are compared by their distance from chance: 0 at the chance level, 1 for a perfect score. Results that are
        not shares, or of which a lower one is better, come last.
        """
        value = self.headline.estimate.value
        if value is None or self.headline.unit != SHARE or self.headline.better != "higher":
            return True, 0.0
        chance = 0.0
        if self.chance is not None and self.chance < 1:
            chance = self.chance
        return False, (value - chance) / (1 - chance)


def benchmark_rows_of(details: RunDetails, protocol: str) -> list[BenchmarkRow]:
    """Return the headline result of each benchmark of a run, for the table on the page of the run.

    Args:
        details: The results of the run.
        protocol: The protocol to show. A benchmark that was not run under it is shown under the most preferred of its
            protocols.
    """
    results_by_benchmark: dict[str, list[Result]] = defaultdict(list)
    for result in details.results:
        results_by_benchmark[result.benchmark].append(result)

    benchmark_rows: list[BenchmarkRow] = []
    for benchmark, results in results_by_benchmark.items():
        headline_metrics = details.headlines[benchmark]

        def preference(
            result: Result, metrics: Sequence[str] = headline_metrics
        ) -> tuple[object, ...]:
            """Return a sort key: results under `protocol` first, then by the preference of protocols and metrics."""
            is_other_protocol = result.protocol != protocol
            metric_index = len(metrics)
            if result.metric in metrics:
                metric_index = metrics.index(result.metric)
            return is_other_protocol, protocol_preference(result.protocol), metric_index

        candidates = [result for result in results if result.metric in headline_metrics]
        headline = min(candidates or results, key=preference)
        outcomes = details.outcomes.get(benchmark, {}).get(headline.protocol, {})
        chance = None
        if headline.unit == SHARE:
            chance = details.chance.get(benchmark, {}).get(headline.metric)
        benchmark_rows.append(BenchmarkRow(benchmark, headline, outcomes, chance))
    return benchmark_rows


def _shows_mean(run_row: RunTableRow, benchmarks: Sequence[BenchmarkRow], protocol: str) -> bool:
    """Return whether the headline number of a run is the mean of the benchmarks that its page shows.

    It is if there are several benchmarks, and if all of them and the headline are under the protocol of the page.
    """
    if run_row.headline is None or len(benchmarks) < 2:
        return False
    protocols = {benchmark.headline.protocol for benchmark in benchmarks}
    protocols.add(run_row.headline.protocol)
    return protocols == {protocol}


def metric_notes(benchmark_rows: Sequence[BenchmarkRow]) -> list[str]:
    """Return a sentence for each headline metric of some results that says what it measures."""
    notes: list[str] = []
    for name in dict.fromkeys(row.headline.metric for row in benchmark_rows):
        metric = metric_of(name)
        description = metric.description.rstrip(".") if metric else ""
        if description:
            notes.append(f"{capitalised(metric_title(name))}: {description}.")
    return notes
