"""One question about several images, in several prefixes: averaged over images, mean and spread over prefixes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import mini_ehub
import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.catalogue.entries import parse_entry
from snellen.errors import DataError
from snellen.records import ContinuationScore, Failure, Request, Response

OPTIONS = ("black", "blue", "red")
PICTURES, ITEMS = 2, 3
LEGACY = "legacy_picture_mean_accuracy"


class Believes:
    """A model whose log-likelihoods per token are set by hand: (item, image, prefix) -> one per option."""

    name = fingerprint = "believes"

    def __init__(
        self, beliefs: Callable[[int, int, int], Sequence[float] | None], tokens: int = 2
    ) -> None:
        self.beliefs, self.tokens = beliefs, tokens

    def generate(self, requests: Sequence[Request], images: Any) -> list[str]:
        return ["(A)"] * len(requests)

    def loglikelihood(self, requests: Sequence[Request], images: Any) -> list[Response]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Response:
        item, picture = map(int, request.sample_id.split("-"))
        beliefs = self.beliefs(item, picture, request.variant.test)
        if beliefs is None:
            return Response(error=Failure("model", "no"))
        return Response(
            scores=tuple(
                ContinuationScore(self.tokens * value, self.tokens, 4) for value in beliefs
            )
        )


@pytest.fixture
def pictures(tmp_path: Path) -> Benchmark:
    """Three items about two images each; the answer is red."""
    rows = [
        {
            "id": f"{item}-{picture}",
            "question": f"Which colour is {item}?",
            "options": OPTIONS,
            "answer": "red",
            "image": small.cell(10 * item + picture),
            "tag_item": str(item),
        }
        for item in range(ITEMS)
        for picture in range(PICTURES)
    ]
    return asked_of_images(rows, tmp_path)


def asked_of_images(rows: list[dict[str, Any]], tmp_path: Path) -> Benchmark:
    folder = tmp_path / "source"
    folder.mkdir()
    small.write(rows, folder / "rows.jsonl")
    entry = {
        "name": "mine/pictures", "title": "Mine", "formulation": "choice", "metrics": ["picture_mean"],
        "headline": "picture_mean_accuracy", "groups": {"images": "item"}, "likelihood_rule": "mean",
        "source": {"reader": "table", "params": {"file": "rows.jsonl"}},
    }  # fmt: skip
    return build_benchmark(parse_entry(entry, "entry"), source=folder, to=tmp_path / "built")


def found(
    benchmark: Benchmark, model: Believes, tmp_path: Path, protocol: str = "likelihood", **how: Any
) -> Any:
    sn.evaluate(
        model, str(benchmark.folder), protocol, runs=tmp_path / "runs", name="run", error_budget=1.0
    )
    results = sn.score(tmp_path / "runs/run", **how)
    return {
        row.metric: row for row in results.rows if row.benchmark == benchmark.name and not row.slice
    }


def test_the_shares_are_averaged_and_not_the_scores_or_the_choices(
    pictures: Benchmark, tmp_path: Path
) -> None:
    # Red has 0.6 and 0.3 of the two images, black 0.1 and 0.65: red 0.45, black 0.375.
    shares = {0: (0.1, 0.3, 0.6), 1: (0.65, 0.05, 0.3)}
    rows = found(
        pictures, Believes(lambda i, picture, p: [math.log(q) for q in shares[picture]]), tmp_path
    )
    assert rows["picture_mean_accuracy"].estimate.value == 1.0
    assert rows["accuracy"].estimate.value == 0.5  # image by image
    assert (
        rows["picture_mean_accuracy"].estimate.n == ITEMS
        and rows["accuracy"].estimate.n == ITEMS * PICTURES
    )
    assert rows["picture_mean_std"].estimate.value is None  # one prefix has none


def test_one_sure_picture_outweighs_the_other_as_published_as_computed_by_hand(
    pictures: Benchmark, tmp_path: Path
) -> None:
    # One image is nearly sure of black, the other finds red far likelier.
    scores = {0: (-0.05, -9.0, -3.0), 1: (-3.5, -9.0, -0.5)}
    model = Believes(lambda item, picture, prefix: scores[picture])
    rows = found(pictures, model, tmp_path, metrics=["legacy_picture_mean"])

    def softmax(values: Sequence[float]) -> Any:
        weights = np.exp(np.array(values) - max(values))
        return weights / weights.sum()

    standard = np.mean([softmax(values) for values in scores.values()], axis=0)
    published = np.mean(
        [softmax([1 / -value for value in values]) for values in scores.values()], axis=0
    )
    assert (int(standard.argmax()), int(published.argmax())) == (2, 0)
    assert rows["picture_mean_accuracy"].estimate.value == 1.0
    assert rows["legacy_picture_mean_accuracy"].estimate.value == 0.0


def test_the_spread_over_prefixes_is_the_sample_standard_deviation(
    pictures: Benchmark, tmp_path: Path
) -> None:
    # Prefix 0: all three items right, prefix 1: two, prefix 2: none, prefix 3: one.
    right = {0: 3, 1: 2, 2: 0, 3: 1}
    model = Believes(
        lambda item, picture, prefix: (-1, -3, -0.5) if item < right[prefix] else (-0.5, -3, -1)
    )
    rows = found(pictures, model, tmp_path, "likelihood?m=4")
    shares = [right[prefix] / ITEMS for prefix in range(4)]
    assert rows["picture_mean_accuracy"].estimate.value == pytest.approx(np.mean(shares))
    assert rows["picture_mean_std"].estimate.value == pytest.approx(np.std(shares, ddof=1))
    assert (
        rows["picture_mean_accuracy"].estimate.low
        < np.mean(shares)
        < rows["picture_mean_accuracy"].estimate.high
    )


def test_a_tie_is_not_right_and_counted_and_the_published_rule_takes_the_first(
    pictures: Benchmark, tmp_path: Path
) -> None:
    # Item 0: all alike; item 1: red and blue; item 2: red.
    scores = {0: (-1, -1, -1), 1: (-2, -1, -1), 2: (-2, -2, -1)}
    rows = found(
        pictures,
        Believes(lambda item, pic, p: scores[item]),
        tmp_path,
        metrics=["legacy_picture_mean"],
    )
    assert rows["picture_mean_accuracy"].estimate.value == pytest.approx(1 / 3)
    assert rows["picture_mean_tie_rate"].estimate.value == pytest.approx(2 / 3)
    assert rows["legacy_picture_mean_accuracy"].estimate.value == pytest.approx(
        1 / 3
    )  # black, blue, red


def test_of_tied_options_the_published_rule_takes_the_first_of_the_authors_list(
    tmp_path: Path,
) -> None:
    # A constant model chooses brown, the first of the published colours, and of `others` yes, 2 or long, by the type of
    # the answer. By the alphabet it would be black, and 1 whatever the answer's type is.
    colors = "black blue brown gray green orange pink red silver white yellow".split()
    words = (
        "baby big black books brown chest circle feathers feet female forest front fur grass ground hair hard head "
        "kitchen lake land large long metal mouth neck ocean outside plants road rough short sky small smooth soft "
        "stripes table tall thick thin top tree vertical water wild".split()
    )
    others = sorted(["yes", "no", *"1234568", *words])
    right = [(colors, "brown"), (colors, "brown"), (others, "yes"), (others, "2"), (others, "long")]
    wrong = [(colors, "black"), (others, "no"), (others, "1"), (others, "brown"), (["a", "b"], "b")]
    rows = [
        {
            "id": f"{n}-0",
            "question": f"What is {n}?",
            "options": options,
            "answer": answer,
            "image": small.cell(n),
        }
        for n, (options, answer) in enumerate(right + wrong)
    ]
    benchmark = asked_of_images(rows, tmp_path)

    class Constant(Believes):
        def _answer(self, request: Request) -> Response:
            return Response(scores=tuple(ContinuationScore(-1, 1) for _ in request.continuations))

    found_rows = found(
        benchmark, Constant(lambda *_: ()), tmp_path, metrics=["legacy_picture_mean"]
    )
    assert found_rows[LEGACY].estimate.value == len(right) / len(rows)
    assert found_rows["legacy_picture_mean_tie_rate"].estimate.value == 1.0
    assert found_rows["picture_mean_accuracy"].estimate.value == 0.0


def test_a_score_that_is_no_number_and_a_picture_without_an_answer_are_counted(
    pictures: Benchmark, tmp_path: Path
) -> None:
    def beliefs(item: int, picture: int, prefix: int) -> Sequence[float] | None:
        if (item, picture) == (0, 1):
            return (-1, math.nan, -0.5)
        return None if (item, picture) == (1, 0) else (-2, -2, -1)

    estimate = found(pictures, Believes(beliefs), tmp_path)["picture_mean_accuracy"].estimate
    # No journal keeps such a score: that request failed too.
    assert (estimate.value, estimate.n, estimate.unscored, estimate.errors) == (1.0, 1, 0, 2)


def test_the_entry_says_how_likelihoods_are_reduced_unless_scoring_does(
    pictures: Benchmark, tmp_path: Path
) -> None:
    class Long(Believes):
        def _answer(self, request: Request) -> Response:
            # Red has eight tokens: likelier by token, less likely as a whole.
            return Response(
                scores=(
                    ContinuationScore(-2, 1),
                    ContinuationScore(-9, 1),
                    ContinuationScore(-8, 8),
                )
            )

    assert (
        found(pictures, Long(lambda *_: ()), tmp_path)["picture_mean_accuracy"].estimate.value
        == 1.0
    )
    summed = sn.score(tmp_path / "runs/run", likelihood_rule="sum")
    assert summed.value("picture_mean_accuracy", benchmark=pictures.name) == 0.0
    shares = sn.score(
        tmp_path / "runs/run", likelihood_rule="softmax", metrics=["legacy_picture_mean"]
    )
    assert shares.value("picture_mean_accuracy", benchmark=pictures.name) == 1.0
    [one] = [
        r for r in shares.rows if (r.metric, r.benchmark, r.slice) == (LEGACY, pictures.name, "")
    ]
    assert (one.estimate.value, one.estimate.unscored) == (None, ITEMS)


def test_without_such_a_tag_there_are_no_rows_and_generation_has_none(
    pictures: Benchmark, tmp_path: Path
) -> None:
    rows = found(pictures, Believes(lambda *_: (-1, -1, -2)), tmp_path, "vanilla")
    assert "picture_mean_accuracy" not in rows and rows["accuracy"].estimate.value == 0.0


# --- ImageNetVC ----------------------------------------------------------------------------------------------------

PREFIXES = [
    "{} The answer is",
    "{}",
    "{} Answer:",
    "Question: {} Answer:",
    "Question: {} The answer is",
]


def imagenetvc(tmp_path: Path, **params: Any) -> Benchmark:
    entry = entries()["lvlm-ehub/imagenetvc"]
    source = replace(entry.source, params={**entry.source.params, **params})
    files = mini_ehub.official("imagenetvc", tmp_path / "files")
    return build_benchmark(replace(entry, source=source), source=files, to=tmp_path / "built")


def test_imagenetvc_is_asked_in_five_prefixes_the_printed_one_first(tmp_path: Path) -> None:
    asked: dict[str, list[str]] = {}

    class Listens(Believes):
        def loglikelihood(self, requests: Sequence[Request], images: Any) -> list[Response]:
            for request in requests:
                asked.setdefault(request.sample_id, []).append(request.messages[0].text)
            return [
                Response(scores=tuple(ContinuationScore(-len(c), 1) for c in r.continuations))
                for r in requests
            ]

    benchmark = imagenetvc(tmp_path)
    results = sn.evaluate(
        Listens(lambda *_: ()),
        str(benchmark.folder),
        method="likelihood",
        templates="data",
        runs=tmp_path / "runs",
    )
    first = next(iter(benchmark.samples()))
    question = first.question.removesuffix(" The answer is")
    assert asked[first.id] == [prefix.format(question) for prefix in PREFIXES]
    rows = {
        row.metric: row for row in results.rows if row.benchmark == benchmark.name and not row.slice
    }
    assert rows["picture_mean_accuracy"].estimate.n == 25 and rows["accuracy"].estimate.n == 75
    subsets = {
        r.slice
        for r in results.rows
        if r.metric == "picture_mean_std" and r.slice.startswith("subset=")
    }
    assert subsets == {
        f"subset={name}" for name in ("color", "shape", "material", "component", "others")
    }
    [capability] = [
        r for r in results.rows if r.metric == "capability" and r.dimension == "Commonsense"
    ]
    assert capability.estimate.value == rows["picture_mean_accuracy"].estimate.value


def test_candidates_by_type_give_away_what_kind_the_answer_is_of_and_a_file_orders_them(
    tmp_path: Path,
) -> None:
    standard = {s.tags["item"]: s.options for s in imagenetvc(tmp_path).samples()}
    by_type = {
        s.tags["item"]: s.options
        for s in imagenetvc(tmp_path / "type", candidates="type").samples()
    }
    assert len({options for item, options in standard.items() if item.startswith("others")}) == 1
    assert len({options for item, options in by_type.items() if item.startswith("others")}) > 1
    sets = {" ".join(options): options[::-1] for options in {*standard.values()}}
    files = mini_ehub.official("imagenetvc", tmp_path / "listed/files")
    named = {item.partition("-")[0]: options for item, options in standard.items()}
    (files / "datasets/own.json").write_text(
        json.dumps({name: options[::-1] for name, options in named.items()})
    )
    entry = entries()["lvlm-ehub/imagenetvc"]
    source = replace(entry.source, params={**entry.source.params, "candidate_file": "own.json"})
    listed = build_benchmark(
        replace(entry, source=source), source=files, to=tmp_path / "listed/built"
    )
    assert {s.options for s in listed.samples()} == set(sets.values())
    (files / "datasets/own.json").write_text(json.dumps({"color": ["black"]}))
    with pytest.raises(
        DataError, match=r"own.json: 'color' lacks the answer 'brown'; list every answer"
    ):
        build_benchmark(replace(entry, source=source), source=files, to=tmp_path / "again")
