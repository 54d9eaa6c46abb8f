"""What a protocol asks is what is scored: a presentation is its whole variant, and no two hide each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

import snellen as sn
from slow_model import Slow
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.errors import DataError
from snellen.protocols import Declaration, RequestGenerator
from snellen.protocols.base import declaration_of, parse_protocol
from snellen.protocols.choice import Vanilla
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import (
    ContinuationScore,
    Exchange,
    Failure,
    ImagePart,
    Prediction,
    Request,
    Response,
    Sample,
    Score,
    Variant,
)
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.runs.run_store import RunStore
from snellen.scoring.journal_reading import with_conclusions
from test_docs import ROOT, blocks

DOCUMENTED = re.compile(rf"\b(?:{'|'.join(registry.names('protocols'))})\?[a-z_]+=[\w,.=&-]*\w")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LABELS = sorted(
    {*registry.names("protocols")} - {"perturb"}  # which needs a dose
    | {found for page in PAGES for found in DOCUMENTED.findall(page.read_text("utf-8"))}
    | {
        "likelihood?pmi=text&m=3",
        "instability?perturb=all&m=4",
        "dialogue?m=2",
        "vanilla?labels=random",
    }
)


def predictions_of(results: sn.Results) -> tuple[Prediction, ...]:
    return results.runs[0].benchmarks[0].predictions


def scores_of(results: sn.Results, metric: str) -> list[Score]:
    return [score for score in results.runs[0].benchmarks[0].scores if score.metric == metric]


def count_answered_presentations(exchanges: Sequence[Exchange]) -> list[tuple[str, Variant]]:
    return [
        (e.request.sample_id, e.request.variant)
        for e in exchanges
        if not e.request.variant.baseline
    ]


@pytest.mark.parametrize("label", LABELS)
def test_every_presentation_that_a_protocol_asks_is_predicted(
    label: str, eyechart: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    task = "dialogue" if label.startswith("dialogue") else "colour"
    # Slow replies nothing that is a question, so other models of the run conclude in the first round.
    protocol = parse_protocol(label)
    roles = {role: Slow() for role in declaration_of(protocol).roles}
    temperature = 1.0 if declaration_of(protocol).needs_temperature else 0.0
    results = sn.evaluate(
        Slow(),
        str(eyechart[task].folder),
        label,
        roles=roles,
        limit=3,
        temperature=temperature,
        runs=tmp_path,
        name="run",
    )
    samples = {results.runs[0].benchmarks[0].spec.name: results.runs[0].benchmarks[0].samples}
    presented = count_answered_presentations(
        list(with_conclusions(read_exchanges(tmp_path / "run"), [protocol.label], samples))
    )
    predicted = [(p.sample_id, p.variant) for p in predictions_of(results)]
    assert len(presented) == len(predicted) > 0
    assert Counter(presented) == Counter(predicted)


def test_the_documented_protocols_are_found() -> None:
    assert {"circular?all_passes=true", "instability?m=5", "likelihood?pmi=text"} < set(LABELS)


# --- protocols of other packages ---------------------------------------------------------------------------------


class Doubled(Struct, frozen=True):
    """The same presentation twice, in other words: the second would hide the first."""

    gold_history = False
    method = "generation"
    label = "doubled"

    def applies(self, sample: Sample) -> bool:
        return True

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        yield from Vanilla().ask(sample, prompt)
        yield from Vanilla().ask(replace(sample, question=f"Once more: {sample.question}"), prompt)


class Reversed:
    """A plain class with nothing of Snellen's: options in their own order, then reversed."""

    gold_history = False
    method = "generation"
    label = "reversed"

    def applies(self, sample: Sample) -> bool:
        return bool(sample.options)

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        count = len(sample.options)
        variant = Variant(
            template=prompt.template_ids("generation")[0],
            order=tuple(range(count)),
            labels=("A", "B", "C", "D"),
        )
        yield [
            prompt.generate(sample, variant),
            prompt.generate(sample, replace(variant, order=variant.order[::-1])),
        ]


class Declared(Reversed):
    label = "declared"
    declaration = Declaration(presentations=2, instability=True)


class BothRight(Reversed):
    label = "both-right"
    declaration = Declaration(presentations=2, circular=True, instability=False)


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], str]:
    """Registers a protocol as another package would, and gives its name."""

    def register(form: Any) -> str:
        monkeypatch.setitem(registry._NAMES["protocols"], form.label, f"{__name__}:{form.__name__}")
        return str(form.label)

    return register


def first_place(request: Request) -> str:
    return "(A)"


def test_the_example_of_contributing_scores_all_that_it_asks(
    questions: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {"__name__": "__page__"}
    for _, block in blocks(ROOT / "CONTRIBUTING.md"):
        exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    monkeypatch.setattr("test_presentations.Twice", names["Twice"], raising=False)
    monkeypatch.setitem(registry._NAMES["protocols"], "twice", "test_presentations:Twice")
    results = sn.evaluate(
        sn.Scripted(first_place), str(questions.folder), "twice", limit=8, runs=tmp_path, name="run"
    )
    assert len(list(read_exchanges(tmp_path / "run"))) == len(predictions_of(results)) == 16
    assert {score.n_presentations for score in scores_of(results, "accuracy")} == {2}


@pytest.mark.parametrize("concurrent", [False, True])
def test_two_presentations_of_one_variant_are_refused_before_either_is_lost(
    concurrent: bool, questions: Benchmark, tmp_path: Path, stranger: Callable[[type], str]
) -> None:
    from slow_model import SlowAsync

    model = SlowAsync() if concurrent else Slow()
    with pytest.raises(
        DataError,
        match=r"^doubled: two presentations of mine q\d+ have the same variant \(.*\); give",
    ) as caught:
        sn.evaluate(model, str(questions.folder), stranger(Doubled), runs=tmp_path, name="run")
    assert "\n" not in str(caught.value)
    assert '{"template":"choice.generation.0","order":' in str(caught.value)


def test_a_plain_class_that_declares_nothing_is_scored_by_the_mean_of_its_presentations(
    questions: Benchmark, tmp_path: Path, stranger: Callable[[type], str]
) -> None:
    results = sn.evaluate(
        sn.Scripted(first_place), str(questions.folder), stranger(Reversed), runs=tmp_path
    )
    # Golds are 0 1 2 3 0 ...: "(A)" is right in the own order for gold 0, reversed for gold 3.
    assert Counter(score.value for score in scores_of(results, "accuracy")) == {0.5: 6, 0.0: 6}
    assert scores_of(results, "instability") == scores_of(results, "circular_accuracy") == []


def test_a_stranger_that_declares_instability_gets_it(
    questions: Benchmark, tmp_path: Path, stranger: Callable[[type], str]
) -> None:
    results = sn.evaluate(
        sn.Scripted(first_place), str(questions.folder), stranger(Declared), runs=tmp_path
    )
    assert {round(score.value or 0, 3) for score in scores_of(results, "instability")} == {
        0.693
    }  # log 2: never the same


def test_a_stranger_that_declares_a_circular_verdict_gets_it(
    questions: Benchmark, tmp_path: Path, stranger: Callable[[type], str]
) -> None:
    def knows_cats(request: Request) -> str:
        return f"({request.variant.labels[request.variant.order.index(0)]})"

    results = sn.evaluate(
        sn.Scripted(knows_cats), str(questions.folder), stranger(BothRight), runs=tmp_path
    )
    assert Counter(score.value for score in scores_of(results, "circular_accuracy")) == {
        1.0: 3,
        0.0: 9,
    }
    assert Counter(score.value for score in scores_of(results, "consistency")) == {1.0: 12}


def test_a_plain_class_has_no_options(stranger: Callable[[type], str]) -> None:
    name = stranger(Reversed)
    assert parse_protocol(name).label == "reversed"
    with pytest.raises(sn.errors.UnknownNameError, match="unknown option of reversed 'm'"):
        parse_protocol(f"{name}?m=2")


# --- runs that go on ---------------------------------------------------------------------------------------------


def test_a_presentation_that_failed_and_came_later_is_one(
    questions: Benchmark, tmp_path: Path
) -> None:
    broken = [True]

    def reply(request: Request) -> Response:
        if broken[0] and request.sample_id in ("q000", "q001"):
            return Response(error=Failure("server", "down"))
        return Response(text="(A)")

    for name in ("first", "again"):
        results = sn.evaluate(
            sn.Scripted(reply, fingerprint="flaky"),
            str(questions.folder),
            "vanilla",
            runs=tmp_path,
            name="run",
            error_budget=1.0,
        )
        broken[0] = False
        lost = [
            (s.reason, s.detail, s.never_answered)
            for s in scores_of(results, "accuracy")
            if s.value is None
        ]
        assert lost == ([("request failed", "server", True)] * 2 if name == "first" else [])
        assert len(predictions_of(results)) == 12
    assert len(list(read_exchanges(tmp_path / "run"))) == 14


def test_of_two_answers_to_one_request_the_last_counts(
    questions: Benchmark, tmp_path: Path
) -> None:
    sn.evaluate(
        sn.Scripted(first_place),
        str(questions.folder),
        "vanilla",
        limit=1,
        runs=tmp_path,
        name="run",
    )
    [exchange] = read_exchanges(tmp_path / "run")
    with RunStore(tmp_path / "run", authors=read_manifest(tmp_path / "run").authors) as store:
        store.append([replace(exchange, response=Response(text="(B)"))])
        store.append([replace(exchange, response=Response(error=Failure("server", "down")))])
    [prediction] = predictions_of(sn.score(tmp_path / "run"))
    assert (prediction.choice, prediction.error) == (1, None)


def test_a_journal_with_two_requests_of_one_variant_is_not_scored(
    questions: Benchmark, tmp_path: Path
) -> None:
    sn.evaluate(
        sn.Scripted(first_place),
        str(questions.folder),
        "vanilla",
        limit=1,
        runs=tmp_path,
        name="run",
    )
    [exchange] = read_exchanges(tmp_path / "run")
    other = replace(exchange.request, messages=exchange.request.messages[:1])
    with RunStore(tmp_path / "run", authors=read_manifest(tmp_path / "run").authors) as store:
        store.append([replace(exchange, request=other)])
    with pytest.raises(
        DataError,
        match=rf"^vanilla: two presentations of mine {exchange.request.sample_id} have the ",
    ):
        sn.score(tmp_path / "run")


def test_an_answer_that_serves_two_presentations_is_two_predictions(
    questions: Benchmark, tmp_path: Path
) -> None:
    results = sn.evaluate(
        Slow(), str(questions.folder), "circular?by=likelihood", limit=2, runs=tmp_path, name="run"
    )
    exchanges = list(read_exchanges(tmp_path / "run"))
    assert (sum(not e.reused for e in exchanges), len(exchanges), len(predictions_of(results))) == (
        2,
        8,
        8,
    )
    assert (results.runs[0].distinct_requests, results.runs[0].reused) == (2, 6)


# --- baselines ---------------------------------------------------------------------------------------------------


def test_each_presentation_has_a_baseline_of_its_own(questions: Benchmark, tmp_path: Path) -> None:
    """With the image option i scores i. Without, the template's own option is as likely as nothing else, so that
    what is left is most for another option than it would be with the baseline of another presentation."""
    given = {0: (-9.0, 0.0, 0.0, 0.0), 1: (0.0, -9.0, 0.0, 0.0), 2: (0.0, 0.0, -9.0, 0.0)}

    class Prior:
        name = "prior"

        def generate(self, requests: list[Request], images: Any) -> list[str]:
            raise AssertionError("likelihood alone")

        def loglikelihood(self, requests: list[Request], images: Any) -> list[Response]:
            return [
                Response(scores=tuple(ContinuationScore(v, 1) for v in self._values(r)))
                for r in requests
            ]

        def _values(self, request: Request) -> tuple[float, ...]:
            shows = any(
                isinstance(part, ImagePart)
                for message in request.messages
                for part in message.content
            )
            return (-3.0, -3.0, -3.0, -3.0) if shows else given[request.variant.test]

    results = sn.evaluate(
        Prior(),
        str(questions.folder),
        "likelihood?pmi=text&m=3",
        limit=2,
        runs=tmp_path,
        name="run",
    )
    assert len(list(read_exchanges(tmp_path / "run"))) == 12
    chosen: dict[str, list[int | None]] = {}
    for prediction in predictions_of(results):
        chosen.setdefault(prediction.sample_id, []).append(prediction.choice)
    assert list(chosen.values()) == [[0, 1, 2]] * 2
