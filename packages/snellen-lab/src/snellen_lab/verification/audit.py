"""An audit of a benchmark by people: a random sample of its questions, labels that only grow, an exact bound.

NAME.audit.jsonl    one AuditLabel a line, beside the benchmark's folder, so that a build does not take it away; the
                    last line of a rater about a question counts

The page is one file that opens offline, or the same from a server on this machine that keeps each label at once.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from jinja2 import PackageLoader
from msgspec import Struct
from msgspec.structs import replace

from snellen.plugin_api import (
    JSON_FAULTS,
    Answer,
    Benchmark,
    DataError,
    ErrorBound,
    ItemDecision,
    OfflinePage,
    Sample,
    Sampling,
    StoreError,
    Verification,
    add_lines,
    data_uri,
    draw_subset,
    json_lines,
    kept_lines,
    rng_for,
    sample_answers,
    template_environment,
    to_plain_file,
    with_verification,
    write_atomically,
)
from snellen_lab.agreement.statistics import cohen_kappa

Label = Literal[
    "good", "wrong answer", "two right options", "no picture needed", "unclear or other"
]
LABELS: tuple[Label, ...] = get_args(Label)
LEVEL = 0.95


class AuditItem(Struct, frozen=True):
    """A question that is labelled, with its answers."""

    id: str
    """A digest of all that a rater sees: it stays the same in another build."""
    sample: Sample
    golds: tuple[Answer, ...]

    def is_right(self, turn: int, place: int) -> bool:
        """Whether an option is keyed as right."""
        return any(gold.turn == turn and place in gold.options for gold in self.golds)


class AuditLabel(Struct, frozen=True, omit_defaults=True):
    """What a rater says of a question."""

    item: str
    label: Label | None
    """None takes back what was said before."""
    by: str
    sample_id: str = ""
    answer: str = ""
    """The option that the rater chose before the key was shown; empty for none."""
    settles: bool = False
    """Whether it was given in sight of what others had said, and decides."""


# --- what is drawn ---------------------------------------------------------------------------------------------------


def audited_items(benchmark: Benchmark, limit: int, seed: int = 0) -> list[AuditItem]:
    """A simple random sample of a benchmark's questions with known answers, in an order in which every beginning is
    one. Raises DataError where no answer is known."""
    answers = sample_answers(benchmark.folder)
    if not answers:
        raise DataError(f"{benchmark.name}: no answer is known here, so there is nothing to audit")
    place = {name: rng_for(benchmark.name, name, "audit", seed).random() for name in answers}
    chosen = sorted(answers, key=lambda name: (place[name], name))[:limit]
    return _items(benchmark, answers, chosen)


def named_items(benchmark: Benchmark, names: Sequence[str]) -> list[AuditItem]:
    """The questions with these ids. Raises DataError for one that the benchmark has not, or that has no answer."""
    answers = sample_answers(benchmark.folder)
    if missing := [name for name in names if name not in answers]:
        raise DataError(f"{benchmark.name} has no question {missing[0]!r} with a known answer")
    return _items(benchmark, answers, list(dict.fromkeys(names)))


def _items(
    benchmark: Benchmark, answers: Mapping[str, Sequence[Answer]], names: Sequence[str]
) -> list[AuditItem]:
    chosen = set(names)
    items = {
        sample.id: AuditItem(_digest(sample, answers[sample.id]), sample, tuple(answers[sample.id]))
        for sample in benchmark.samples()
        if sample.id in chosen
    }
    return [items[name] for name in names]


def _digest(sample: Sample, golds: Sequence[Answer]) -> str:
    content = (
        replace(sample, id="", benchmark="", group="", tags={}),
        [(gold.options, gold.texts) for gold in golds],
    )
    return hashlib.blake2b(
        msgspec.json.encode(content, order="deterministic"), digest_size=8
    ).hexdigest()


# --- labels ----------------------------------------------------------------------------------------------------------


def labels_file(benchmark: Benchmark) -> Path:
    """Where labels of a benchmark's questions are kept."""
    return benchmark.folder.with_name(f"{benchmark.folder.name}.audit.jsonl")


def read_audit_labels(path: Path) -> list[AuditLabel]:
    """The last label of each rater about each question. Raises StoreError, naming the line, for one that is none."""
    labels = kept_lines(path, AuditLabel, "a label of an audit")
    latest = {(label.item, label.by, label.settles): label for label in labels}
    return [label for label in latest.values() if label.label]


def import_audit_labels(source: Path, benchmark: Benchmark) -> tuple[int, int]:
    """Add labels of a file, such as a rater's page saves, to those of a benchmark: how many are about its questions,
    and how many there are. Raises DataError for a file that is not there, and for labels by nobody."""
    if not source.is_file():
        raise DataError(f"{source}: there is no such file of labels")
    labels = read_audit_labels(source)
    if nobody := [label for label in labels if not label.by.strip()]:
        raise DataError(
            f"{source}: the label of {nobody[0].sample_id or nobody[0].item} is by nobody; give it a `by`"
        )
    own = {item.id for item in audited_items(benchmark, benchmark.manifest.counts.samples)}
    fitting = [label for label in labels if label.item in own]
    add_lines(labels_file(benchmark), *fitting)
    return len(fitting), len(labels)


# --- what the labels come to -----------------------------------------------------------------------------------------


class ItemVerdict(Struct, frozen=True):
    """What the labels of one question come to."""

    item: AuditItem
    labels: Mapping[str, Label]
    """By rater."""
    settled: Label | None = None

    @property
    def differs(self) -> bool:
        """Whether one rater finds it good and another does not."""
        return len({label == "good" for label in self.labels.values()}) > 1

    @property
    def is_open(self) -> bool:
        """Whether raters differ, and nobody has settled it."""
        return self.differs and self.settled is None

    @property
    def is_bad(self) -> bool:
        """What raters could not settle is bad."""
        return self.settled != "good" if self.settled else set(self.labels.values()) != {"good"}

    @property
    def reason(self) -> str:
        """Why it is bad, in words."""
        if self.is_open:
            return "people: not settled, " + ", ".join(
                f"{by} says {label}" for by, label in sorted(self.labels.items())
            )
        kinds = (
            [self.settled]
            if self.settled
            else [label for label in self.labels.values() if label != "good"]
        )
        return "people: " + " and ".join(dict.fromkeys(kind for kind in kinds if kind))


class AuditOutcome(Struct, frozen=True):
    """What an audit came to so far."""

    verdicts: tuple[ItemVerdict, ...]
    """Of the questions that all raters labelled."""
    of: int
    """Questions of the benchmark that could be drawn."""
    raters: tuple[str, ...]
    """Those who have labelled all that was drawn; before that, all who have begun."""
    unlabelled: dict[str, int]
    """By rater how many of those drawn are left to label."""

    @property
    def is_complete(self) -> bool:
        """Whether somebody has labelled all that was drawn."""
        return bool(self.raters) and not any(self.unlabelled[by] for by in self.raters)

    @property
    def bad(self) -> list[ItemVerdict]:
        """The bad questions."""
        return [verdict for verdict in self.verdicts if verdict.is_bad]

    @property
    def kinds(self) -> Counter[str]:
        """How many questions are bad, by what is bad."""
        return Counter(
            verdict.reason.partition(", ")[0].removeprefix("people: ") for verdict in self.bad
        )

    def bound(self, *, removed: bool = False) -> ErrorBound:
        """The exact bound; with `removed` that of the benchmark without the bad questions that were found."""
        n, bad = len(self.verdicts), len(self.bad)
        most = most_bad(self.of, n, bad)
        at_most = (most - bad) / max(1, self.of - bad) if removed else most / self.of
        pairs = [tuple(int(label == "good") for label in v.labels.values()) for v in self.verdicts]
        kappa = cohen_kappa([(a, b) for a, b in pairs]) if len(self.raters) == 2 else None
        differing = sum(verdict.differs for verdict in self.verdicts)
        return ErrorBound(
            n, self.of, bad, at_most, LEVEL, self.raters, differing, bad if removed else 0, kappa
        )


def audit_outcome(
    items: Sequence[AuditItem], of: int, labels: Iterable[AuditLabel]
) -> AuditOutcome:
    """What labels say of the questions drawn, which are `items` of `of`."""
    drawn = {item.id for item in items}
    by_rater: dict[str, dict[str, Label]] = {}
    settled: dict[str, Label] = {}
    for label in labels:
        if label.item in drawn and label.label:
            if label.settles:
                settled[label.item] = label.label
            else:
                by_rater.setdefault(label.by, {})[label.item] = label.label
    unlabelled = {by: len(drawn) - len(own) for by, own in sorted(by_rater.items())}
    raters = tuple(by for by, count in unlabelled.items() if not count) or tuple(unlabelled)
    verdicts = tuple(
        ItemVerdict(item, {by: by_rater[by][item.id] for by in raters}, settled.get(item.id))
        for item in items
        if raters and all(item.id in by_rater[by] for by in raters)
    )
    return AuditOutcome(verdicts, of, raters, unlabelled)


def most_bad(of: int, drawn: int, bad: int, level: float = LEVEL) -> int:
    """The greatest number of bad questions among `of` with which so few as `bad` among `drawn` come in more than
    1 - level of all samples drawn without replacement: an exact upper bound (hypergeometric, one side)."""
    low, high = bad, of - (drawn - bad)
    while low < high:
        middle = (low + high + 1) // 2
        if few_bad_probability(of, middle, drawn, bad) > 1 - level:
            low = middle
        else:
            high = middle - 1
    return low


def few_bad_probability(of: int, bad_in_all: int, drawn: int, bad: int) -> float:
    """How likely at most `bad` of those drawn are bad."""
    least = max(0, drawn - (of - bad_in_all))
    total = _log_choices(of, drawn)
    return math.fsum(
        math.exp(_log_choices(bad_in_all, k) + _log_choices(of - bad_in_all, drawn - k) - total)
        for k in range(least, min(bad, bad_in_all, drawn) + 1)
    )


def _log_choices(of: int, drawn: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(drawn + 1) - math.lgamma(of - drawn + 1)


# --- what follows ----------------------------------------------------------------------------------------------------


def with_bound(benchmark: Benchmark, bound: ErrorBound) -> Benchmark:
    """The benchmark, whose manifest on disk says what the audit found."""
    count = benchmark.manifest.counts.samples
    before = benchmark.manifest.verification or Verification(count, count)
    return with_verification(benchmark, replace(before, bound=bound))


def keep_good(
    benchmark: Benchmark,
    outcome: AuditOutcome,
    name: str,
    *,
    bounded: bool = True,
    to: Path | None = None,
) -> Benchmark:
    """The questions but for those that people found bad, as a benchmark of that name. If they were drawn at random
    (`bounded`) its manifest has the bound that holds for it.

    If at most K questions are bad with 95% confidence, and b of these are taken out, at most K - b of the others are
    bad with the same confidence: it is the same event. A question that got another distractor instead would have to
    count as bad until somebody has looked at it, so none does.
    """
    decisions = {
        v.item.sample.id: ItemDecision(v.item.sample.id, set_apart=(v.reason,)) for v in outcome.bad
    }
    part = draw_subset(benchmark, Sampling(), name=name, to=to, decisions=decisions)
    count = part.manifest.counts.samples
    before = benchmark.manifest.verification or Verification(count + len(decisions), count)
    return with_verification(
        part, replace(before, kept=count, bound=outcome.bound(removed=True) if bounded else None)
    )


def against_people(benchmark: Benchmark, failed: Collection[str]) -> str:
    """What a check errs by, in words, where people have labelled questions of the benchmark; else nothing."""
    labels = read_audit_labels(labels_file(benchmark))
    if not labels:
        return ""
    verdicts: dict[bool, list[bool]] = {True: [], False: []}
    good = {label.item: True for label in labels}
    for label in sorted(labels, key=lambda label: label.settles):
        good[label.item] = label.label == "good" and (good[label.item] or label.settles)
    for item in audited_items(benchmark, benchmark.manifest.counts.samples):
        if item.id in good:
            verdicts[good[item.id]].append(item.sample.id in failed)
    return (
        f"of {len(verdicts[True]):,} questions that people found good {sum(verdicts[True]):,} fail, "
        f"of {len(verdicts[False]):,} that they found bad {sum(verdicts[False]):,}"
    )


def ids_in(path: Path) -> Iterator[str]:
    """The ids of a list of questions: JSON Lines with an `id`, as `lint` writes. Raises DataError for another file."""
    return (listed.id for _, listed in json_lines(path, _Listed))


class _Listed(Struct):
    id: str


MOST_SENT = 100_000
"""Bytes of a label."""


class AuditForm(Struct, frozen=True):
    """What a page asks, and of whom."""

    benchmark: Benchmark
    items: Sequence[AuditItem]
    by: str = ""
    """Who labels; the page asks for a name where there is none."""
    settling: Mapping[str, ItemVerdict] = {}
    """By item what raters said who differ: to be settled in sight of it."""
    earlier: Mapping[str, AuditLabel] = {}
    """By item what was labelled before."""
    sends: str = ""
    """The path that labels are sent to; empty for a page that saves them as a file."""

    @property
    def settles(self) -> bool:
        """Whether labels decide where raters differ."""
        return bool(self.settling)

    @property
    def asked(self) -> list[AuditItem]:
        """The questions that are shown: all, or those to be settled."""
        return [item for item in self.items if not self.settles or item.id in self.settling]


def audit_page(form: AuditForm) -> str:
    """The whole page."""
    style = files("snellen_lab.ratings").joinpath("form.css").read_text("utf-8")
    style += files("snellen_lab.verification").joinpath("audit.css").read_text("utf-8")
    script = files("snellen_lab.ratings").joinpath("form_elements.js").read_text("utf-8")
    script += files("snellen_lab.verification").joinpath("audit.js").read_text("utf-8")
    page = OfflinePage(
        f"Audit of {form.benchmark.name}",
        style,
        script,
        "audit",
        _content(form),
        talks=bool(form.sends),
    )
    templates = template_environment(PackageLoader("snellen_lab.ratings"))
    return templates.get_template("form.html").render(page=page)


def write_audit_page(form: AuditForm, path: Path) -> None:
    """Write the page as one file. Raises StoreError for a place that cannot be written."""
    try:
        write_atomically(path, audit_page(form).encode("utf-8", "replace"))
    except OSError as error:
        raise StoreError(f"{path}: the page cannot be written ({error.strerror})") from None


def _content(form: AuditForm) -> dict[str, Any]:
    pictures = {image.digest: image for item in form.asked for image in item.sample.images}
    places = {digest: place for place, digest in enumerate(pictures)}
    images = form.benchmark.images
    drawn = " ".join(item.id for item in form.asked)
    return {
        "draw": hashlib.blake2b(drawn.encode(), digest_size=8).hexdigest(),
        "by": form.by,
        "sends": form.sends,
        "settles": form.settles,
        "labels": LABELS,
        "given": {
            item: {"label": label.label, "answer": label.answer}
            for item, label in form.earlier.items()
        },
        "pictures": [
            data_uri(*to_plain_file(image, images.read(image))) for image in pictures.values()
        ],
        "items": [
            {
                "id": item.id,
                "name": item.sample.id,
                "context": item.sample.context or "",
                "pictures": [places[image.digest] for image in item.sample.images],
                "labels": dict(form.settling[item.id].labels) if item.id in form.settling else {},
                "rounds": [
                    {
                        "question": turn.question,
                        "options": turn.options,
                        "gold": [
                            place
                            for place in range(len(turn.options))
                            if item.is_right(number, place)
                        ],
                        "texts": [
                            text
                            for gold in item.golds
                            if gold.turn == number
                            for text in gold.texts
                        ],
                    }
                    for number, turn in enumerate(item.sample.rounds)
                ],
            }
            for item in form.asked
        ],
    }


class AuditServer(ThreadingHTTPServer):
    """Serves the page on this machine alone, and adds each label to a file. Only who has its address, with the secret
    in it, sees anything."""

    daemon_threads = True

    def __init__(self, form: AuditForm, labels: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.secret, self.labels, self._form = f"/{secrets.token_urlsafe(12)}", labels, form

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://127.0.0.1:{self.server_port}{self.secret}"

    def page(self) -> bytes:
        """The page with what was labelled so far."""
        form = self._form
        own = {
            label.item: label
            for label in read_audit_labels(self.labels)
            if (label.by, label.settles) == (form.by, form.settles)
        }
        labelled = msgspec.structs.replace(form, earlier=own, sends=self.secret)
        return audit_page(labelled).encode("utf-8", "replace")


class _Handler(BaseHTTPRequestHandler):
    server: AuditServer  # pyrefly: ignore[bad-override-mutable-attribute]  # no other server makes one

    def do_GET(self) -> None:
        if self.path == self.server.secret:
            self._send(200, self.server.page(), "text/html; charset=utf-8")
        else:
            self._send(404, b"not here", "text/plain")

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if self.path != self.server.secret or size > MOST_SENT:
            self._send(404, b"not here", "text/plain")
            return
        try:
            label = msgspec.json.decode(self.rfile.read(size), type=AuditLabel)
            add_lines(self.server.labels, label)
        except (*JSON_FAULTS, StoreError) as error:
            self._send(500, str(error).encode(), "text/plain")
            return
        self._send(200, b"kept", "text/plain")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: each label would be a line."""
