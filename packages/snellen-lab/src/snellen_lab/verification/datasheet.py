"""The datasheet of a built benchmark: what it is, how it was made, what was thrown out, what it scores, and how sure
one can be of it.
"""

from __future__ import annotations

import gzip
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from snellen import JudgeSpec, ScoringSpec
from snellen.plugin_api import (
    SHARE,
    Announce,
    Answer,
    Benchmark,
    BenchmarkManifest,
    Cell,
    DataError,
    Estimate,
    ImageRef,
    LintMaterial,
    LintQuestion,
    NumberCell,
    OptionRow,
    Sample,
    ScoredRun,
    ShownItem,
    ShownPicture,
    ShownRound,
    Table,
    data_uri,
    estimate_mean,
    evaluate_spec,
    first_samples,
    gather_material,
    headlines_of,
    lines_of,
    open_answers,
    open_benchmark,
    open_file,
    percent,
    results_of,
    run_spec,
    score_folders,
    shown_gold,
    silent,
    slug,
    to_plain_file,
)
from snellen_lab.linting import Finding, lint, text_only
from snellen_lab.verification.certificate import ERROR_LIMIT, Certificate, certify

ORACLE = "snellen:oracle"
ORACLE_LIMIT = 200
"""Samples that the oracle is asked: enough to see that right answers are read and scored as right."""
OF_LINT = {
    "majority-answer": "the answer most often right about other pictures",
    "longest-option": "always the longest option",
    "shortest-option": "always the shortest option",
    "blind-reader": "a naive reader of options (looks, places, wordings)",
    "question-reader": "a naive reader of the question",
    "constant-reply": "always the reply that most questions accept",
    "text-only": "",
}


class Baseline(Struct, frozen=True):
    """The score of something that does not look at pictures, or that needs not."""

    name: str
    metric: str
    unit: str
    estimate: Estimate
    note: str = ""


def baselines(
    benchmark: Benchmark, choices: Sequence[LintQuestion], findings: Sequence[Finding]
) -> list[Baseline]:
    """The oracle, guessing, the first option, and what lint measured; `findings` hold those of blind models too."""
    lines = _oracle(benchmark) if benchmark.manifest.counts.answers else []
    if choices:
        chance = sum(question.chance for question in choices) / len(choices)
        guess = Estimate(chance, None, None, None, len(choices))
        lines.append(
            Baseline(
                "guessing, each option equally likely",
                "accuracy",
                SHARE,
                guess,
                "computed, not measured",
            )
        )
        first = [float(0 in question.gold) for question in choices]
        estimate = estimate_mean(first, [question.group for question in choices])
        lines.append(Baseline("always the first option", "accuracy", SHARE, estimate))
    for finding in findings:
        if finding.check in OF_LINT and finding.estimate is not None:
            name = OF_LINT[finding.check] or finding.message.partition(":")[0]
            lines.append(Baseline(name, "accuracy", SHARE, finding.estimate))
    return lines


def _oracle(benchmark: Benchmark) -> list[Baseline]:
    """A model that knows every answer, asked like any other."""
    limit = min(ORACLE_LIMIT, benchmark.count())
    with tempfile.TemporaryDirectory() as folder:
        spec = run_spec(
            {
                "models": (ORACLE,),
                "benchmarks": (str(benchmark.folder),),
                "runs": folder,
                "report": False,
                "limit": limit,
                "allow_same_requests": True,
            }
        )
        [finished] = evaluate_spec(spec)
        [scored] = finished.scored.benchmarks
        headlines = headlines_of(scored)
        rows = [
            row for row in results_of(finished.scored) if row.metric in headlines and not row.slice
        ]
        note = "" if limit == benchmark.count() else f"of {limit:,} samples"
        return [
            Baseline(
                "the oracle, which knows every answer", row.metric, row.unit, row.estimate, note
            )
            for row in rows
            if row.benchmark == benchmark.name
        ][:1]


SET_APART = "set_apart.jsonl.gz"
MOST_VALUES = 12
"""Values of a tag, or answers, that a table names."""


class Datasheet(Struct, frozen=True):
    """A benchmark's datasheet, as `snellen report BENCH` shows it."""

    benchmark: Benchmark
    certificate: Certificate
    findings: tuple[Finding, ...]
    """Those of lint, and of models without pictures."""
    baselines: tuple[Baseline, ...]
    contents: tuple[Table, ...]
    removals: tuple[Table, ...]
    examples: tuple[ShownItem, ...]

    @property
    def manifest(self) -> BenchmarkManifest:
        return self.benchmark.manifest

    @property
    def summary(self) -> str:
        """What it is and whether it is certified, in a few sentences."""
        manifest, counts = self.manifest, self.manifest.counts
        size = f"{counts.questions:,} {_form(manifest)} about {counts.images:,} pictures"
        if not counts.images:
            size = f"{counts.questions:,} {_form(manifest)} without pictures"
        bound = manifest.verification.bound if manifest.verification else None
        return " ".join(
            filter(None, (f"{size}.", self.certificate.sentence, bound.sentence if bound else ""))
        )

    def flat(self) -> dict[str, Any]:
        """What programs read: the certificate, its numbers, versions and counts."""
        manifest = self.manifest
        return {
            "benchmark": manifest.spec.name,
            "version": manifest.version,
            "is_certified": self.certificate.is_certified,
            "error_limit": self.certificate.error_limit,
            "criteria": msgspec.to_builtins(self.certificate.criteria),
            "verification": msgspec.to_builtins(manifest.verification),
            "counts": msgspec.to_builtins(manifest.counts),
            "baselines": msgspec.to_builtins(self.baselines),
        }


def make_datasheet(
    benchmark: Benchmark, runs: Sequence[ScoredRun], error_limit: float
) -> Datasheet:
    """The datasheet of a built benchmark; `runs` on it are asked for what models score without pictures.

    Raises DataError for a run on another benchmark or another version of this one.
    """
    for run in runs:
        _check_run(run, benchmark)
    findings = lint(benchmark)
    blind = [finding for run in runs for finding in text_only(run).get(benchmark.name, [])]
    material = gather_material(benchmark)
    return Datasheet(
        benchmark,
        certify(benchmark.manifest, findings, blind, error_limit),
        (*findings, *blind),
        tuple(baselines(benchmark, material.choices, (*findings, *blind))),
        tuple(_contents(material)),
        tuple(_removals(benchmark)),
        example_items(benchmark, open_answers(benchmark.folder)),
    )


def _check_run(run: ScoredRun, benchmark: Benchmark) -> None:
    uses = {use.name: use for use in run.manifest.benchmarks}
    if benchmark.name not in uses:
        raise DataError(
            f"{run.folder} is a run on {', '.join(uses)}, not on {benchmark.name}; leave it out"
        )
    manifest = benchmark.manifest
    if not uses[benchmark.name].fits(manifest.version, manifest.questions):
        raise DataError(
            f"{run.folder} asked {benchmark.name} version {uses[benchmark.name].version}, which is version "
            f"{manifest.version} now; ask the model again"
        )


def _form(manifest: BenchmarkManifest) -> str:
    return {
        "choice": "multiple-choice questions",
        "text": "open questions",
        "dialogue": "questions in dialogues",
    }[manifest.spec.formulation]


# --- what is in it ---------------------------------------------------------------------------------------------------


def _contents(material: LintMaterial) -> Iterator[Table]:
    counts = material.benchmark.manifest.counts
    groups = len({question.group for question in material.questions})
    size = sum(
        path.stat().st_size for path in material.benchmark.folder.rglob("*") if path.is_file()
    )
    rows: list[tuple[str, int | str]] = [
        ("questions", counts.questions),
        ("with a known answer", counts.answers),
        ("samples", counts.samples),
        ("pictures", counts.images),
        ("independent pictures or dialogues", groups),
        ("examples set apart", counts.examples),
        ("size on disk", f"{size / 2**20:,.1f} MiB"),
    ]
    yield Table("Counts", ("what", "count"), tuple(rows))
    if material.choices:
        yield _positions(material.choices)
    golds = Counter(
        text
        for question in material.questions
        for text in ([question.folded[place] for place in question.gold] or question.texts[:1])
    )
    if golds:
        yield _frequencies("Answers", "answer", golds)
    for tag, values in material.benchmark.manifest.tags.items():
        if values:
            yield _frequencies(f"By {tag}", tag, Counter(values))
    if material.pictures:
        yield _pictures(material)


def _positions(choices: Sequence[LintQuestion]) -> Table:
    """How often the answer stands in each place, by the number of options."""
    by_count: dict[int, Counter[int]] = {}
    for question in choices:
        by_count.setdefault(len(question.options), Counter()).update(question.gold)
    most = max(by_count)
    header = (
        "options",
        "questions",
        *(chr(ord("A") + place) if place < 26 else str(place + 1) for place in range(most)),
    )
    sizes = Counter(len(question.options) for question in choices)
    rows = tuple(
        (
            f"{count} options",
            sizes[count],
            *(tally[place] if place < count else "" for place in range(most)),
        )
        for count, tally in sorted(by_count.items())
    )
    return Table("Options, and how often the answer stands at each place", header, rows)


def _frequencies(title: str, column: str, counts: Counter[str]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (text, times) for text, times in counts.most_common(MOST_VALUES)
    ]
    if len(counts) > MOST_VALUES:
        remaining = counts.total() - sum(times for _, times in counts.most_common(MOST_VALUES))
        rows.append((f"{len(counts) - MOST_VALUES:,} others", remaining))
    return Table(title, (column, "questions"), tuple(rows))


def _pictures(material: LintMaterial) -> Table:
    pictures = list(material.pictures.values())
    rows = []
    for name, sizes in (
        ("width", [p.width for p in pictures]),
        ("height", [p.height for p in pictures]),
    ):
        rows.append((name, min(sizes), round(median(sizes)), max(sizes)))
    forms = ", ".join(
        f"{count:,} {kind}" for kind, count in Counter(p.media_type for p in pictures).most_common()
    )
    return Table(
        "Pictures, in pixels", ("side", "least", "median", "greatest"), tuple(rows), notes=(forms,)
    )


# --- what was thrown out, and why ------------------------------------------------------------------------------------


def _removals(benchmark: Benchmark) -> Iterator[Table]:
    history, verification = benchmark.manifest.made, benchmark.manifest.verification
    rows: list[tuple[Cell, ...]] = [("read from the source", history.read, "")]
    if history.complete != history.read:
        rows.append(("left after selection", history.complete, ""))
    if verification:
        rows.append(("candidates that were checked", verification.candidates, ""))
    drawn = "" if history.chance is None else f"drawn with a chance of {_range(*history.chance)}"
    counts = benchmark.manifest.counts
    rows.append(("in the benchmark", counts.samples + counts.examples, drawn))
    yield Table(
        "From the source to the benchmark",
        ("step", "samples", "how"),
        tuple(rows),
        notes=benchmark.manifest.warnings,
    )
    if verification and verification.checks:
        checks = tuple(
            (
                check.name,
                check.checked,
                check.failed,
                check.repaired,
                ", ".join(check.by),
                check.detail,
            )
            for check in verification.checks
        )
        yield Table(
            "Checks of questions",
            ("check", "checked", "failed", "repaired", "by", "result"),
            checks,
        )
    if reasons := _reasons_set_apart(benchmark):
        yield _frequencies("Set apart, by reason", "reason", reasons)
    if history.rejected:
        rejected = tuple(sorted(history.rejected.items(), key=lambda row: -row[1]))
        yield Table("Distractor candidates left out", ("reason", "candidates"), rejected)


def _range(lowest: float, highest: float) -> str:
    return percent(lowest) if lowest == highest else f"{percent(lowest)} to {percent(highest)}"


def _reasons_set_apart(benchmark: Benchmark) -> Counter[str]:
    path = benchmark.part(SET_APART)
    if path is None:
        return Counter()
    with open_file(path) as packed, gzip.open(packed) as lines:
        rows = [msgspec.json.decode(line) for line in lines_of(lines)]
    return Counter(reason for row in rows for reason in dict.fromkeys(row["reasons"]))


# --- its tables ------------------------------------------------------------------------------------------------------


def baseline_table(lines: Sequence[Baseline]) -> Table:
    rows = tuple(
        (line.name, line.metric, NumberCell(line.unit, line.estimate), line.note) for line in lines
    )
    return Table(
        "What is scored without looking, and by knowing", ("who", "metric", "score", "note"), rows
    )


def lint_table(findings: Sequence[Finding]) -> Table:
    rows = tuple(
        (
            finding.severity,
            finding.check,
            f"{finding.count:,} of {finding.total:,}" if finding.total else "",
            finding.message,
        )
        for finding in findings
    )
    return Table("Lint's findings", ("severity", "check", "count", "finding"), rows)


def certificate_table(certificate: Certificate) -> Table:
    rows = tuple(
        (criterion.name, "yes" if criterion.is_met else "no", criterion.rule, criterion.result)
        for criterion in certificate.criteria
    )
    return Table(
        "What certified means here, and what holds", ("criterion", "met", "rule", "found"), rows
    )


def source_table(manifest: BenchmarkManifest) -> Table:
    spec, history = manifest.spec, manifest.made
    facts = {
        "title": spec.title,
        "annotations from": ", ".join(spec.origins),
        "pictures from": ", ".join(spec.pictures),
        "licence": spec.licence or "not stated",
        "agreement": spec.agreement,
        "citation": spec.citation,
        "address": spec.url,
        "files": history.origin,
        "distractors written by": history.writer,
        "drawn from": spec.source.params.get("of", "") if spec.source.reader == "built" else "",
    }
    return Table(
        "Sources", ("what", "said"), tuple((name, text) for name, text in facts.items() if text)
    )


def digest_table(manifest: BenchmarkManifest) -> Table:
    rows = [
        ("version (questions, answers, pictures)", manifest.version),
        ("questions without answers", manifest.questions),
    ]
    rows += [(f"SHA-256 of {name}", digest) for name, digest in sorted(manifest.files.items())]
    return Table("Version and digests", ("what", "digest"), tuple(rows))


def sheet_name(benchmark: Benchmark) -> Path:
    """Where a datasheet is written unless its user says so."""
    return Path(f"{slug(benchmark.name)}.datasheet.html")


LEAST, MOST = 3, 12
TYPE_TAGS = ("type", "question_type", "task", "category")
"""Tags by which examples are spread, the first that there is."""
BUDGET = 6 * 2**20
"""Bytes of pictures on a page."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def example_items(
    benchmark: Benchmark, answers: Mapping[tuple[str, int], Answer]
) -> tuple[ShownItem, ...]:
    """Examples, chosen by the hash of their ids; one of each type where questions have several, at most MOST."""
    chosen = _chosen(benchmark)
    by_id = {sample.id: sample for sample in benchmark.samples() if sample.id in chosen}
    uris = _example_pictures(benchmark, [by_id[name] for name in chosen])
    return tuple(_item(by_id[name], answers, uris) for name in chosen)


def _chosen(benchmark: Benchmark) -> list[str]:
    tag = next((name for name in TYPE_TAGS if len(benchmark.manifest.tags.get(name, {})) > 1), "")
    ids: dict[str, list[str]] = defaultdict(list)
    for sample in benchmark.samples():
        ids[sample.tags.get(tag, "")].append(sample.id)
    count = min(MOST, max(len(ids), 2 * LEAST))
    by_type = [first_samples(names, count) for _, names in sorted(ids.items())]
    in_turn = chain.from_iterable(zip_longest(*by_type))
    return list(islice((name for name in in_turn if name is not None), count))


def _example_pictures(benchmark: Benchmark, samples: Sequence[Sample]) -> dict[str, str]:
    """Data URIs by digest, until the page is full."""
    uris: dict[str, str] = {}
    budget = BUDGET
    for image in dict.fromkeys(image for sample in samples for image in sample.images):
        try:
            media_type, content = to_plain_file(image, benchmark.images.read(image))
        except DataError:
            continue  # the page says of each picture without content that it is missing
        if len(content) <= budget:
            budget -= len(content)
            uris[image.digest] = data_uri(media_type, content)
    return uris


def _item(
    sample: Sample, answers: Mapping[tuple[str, int], Answer], uris: Mapping[str, str]
) -> ShownItem:
    return ShownItem(
        sample.id,
        tuple(sample.tags.items()),
        tuple(_picture(image, sample, uris) for image in sample.images),
        sample.context or "",
        tuple(_rounds(sample, answers)),
    )


def _picture(image: ImageRef, sample: Sample, uris: Mapping[str, str]) -> ShownPicture:
    words = f"Picture of {sample.id}, {image.width} by {image.height} pixels"
    return ShownPicture(uris.get(image.digest, ""), words, image.width, image.height)


def _rounds(sample: Sample, answers: Mapping[tuple[str, int], Answer]) -> Iterator[ShownRound]:
    for number, turn in enumerate(sample.rounds):
        answer = answers.get((sample.id, number))
        right = answer.options if answer else ()
        options = tuple(
            OptionRow(
                LETTERS[place] if place < len(LETTERS) else str(place + 1),
                text,
                ("correct",) * (place in right),
            )
            for place, text in enumerate(turn.options)
        )
        yield ShownRound(
            turn.question,
            options,
            None if turn.options and answer else shown_gold(answer, turn.options),
        )


def datasheet(
    benchmark: str | Path,
    runs: Iterable[str | Path] = (),
    *,
    error_limit: float = ERROR_LIMIT,
    announce: Announce = silent,
) -> Datasheet:
    """The datasheet of a built benchmark, by name or folder: what it is, and whether it is certified
    (docs/datasheets.md).

    `runs` are folders of runs on it that saw no pictures. It is certified where at most a share `error_limit` of its
    questions can be bad, among other criteria. Raises UnknownNameError, DataError for a run on something else.
    """
    scored = score_folders(
        [Path(run) for run in runs], ScoringSpec(), JudgeSpec(), announce, kept_will_do=True
    )
    return make_datasheet(open_benchmark(str(benchmark)), scored, error_limit)
