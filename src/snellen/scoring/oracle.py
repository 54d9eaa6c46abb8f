"""The oracle: a model that reads the answers, to check benchmarks and protocols. It must score 100."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from snellen.building.benchmark import Benchmark
from snellen.common.images import Images
from snellen.errors import DataError
from snellen.models.base import ALL_KINDS, ShownByName
from snellen.models.embedded import NoOptions, scores_favouring
from snellen.models.model_strings import ModelSpec
from snellen.models.options import read_options
from snellen.records import Answer, Failure, Request, RequestKind, Response
from snellen.scoring.answers import Key, open_answers


class Oracle(ShownByName):
    """A model that always gives the correct answer, as a reference.

    It replies with the label of the first correct option (its text if no labels are shown), or with the first reference
    answer of an open question. If it is asked for likelihoods, that option gets the highest one.
    """

    kinds: frozenset[RequestKind] = ALL_KINDS
    batch_size = 1024
    answers_by_sample = True

    def __init__(self, name: str) -> None:
        """Create a model that always answers correctly. `prepare` must give it the answers before it is used."""
        self.name = name
        # Each is by the name of the benchmark.
        self._answers: dict[str, Mapping[Key, Answer]] = {}
        self._folders: dict[str, Path] = {}
        self._options: dict[str, dict[Key, tuple[str, ...]]] = {}

    def fingerprint(self) -> dict[str, str]:
        return {"instrument": "oracle", "version": "2"}

    def prepare(self, benchmarks: Sequence[Path]) -> None:
        """Open the answers of the benchmarks that will be asked, by the names of the benchmarks.

        Raises DataError if the answers of all are hidden.
        """
        self._folders = {}
        self._answers = {}
        for folder in benchmarks:
            name = Benchmark(folder).name
            self._folders[name] = folder
            self._answers[name] = open_answers(folder)
        if self._answers and not any(self._answers.values()):
            raise DataError(
                f"the answers of {', '.join(self._answers)} are hidden here, and {self.name} needs them; run another "
                "model, whose replies can be scored where the answers are (docs/sharing.md)"
            )

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [self._reply(request) for request in requests]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Return scores that favour the correct option of each request."""
        responses = []
        for request in requests:
            answer = self._answer(request)
            if answer and answer.options:
                responses.append(scores_favouring(request, answer.options[0]))
            else:
                responses.append(_UNKNOWN)
        return responses

    def _answer(self, request: Request) -> Answer | None:
        """Return the answer to the question of a request; None if it is hidden."""
        answers = self._answers.get(request.benchmark, {})
        return answers.get((request.sample_id, request.variant.turn))

    def _reply(self, request: Request) -> Response:
        """Return the correct reply to a request.

        It is the letter of the correct option, its text if options have no letters, or a reference answer to an open
        question.
        """
        answer = self._answer(request)
        if answer is None:
            return _UNKNOWN
        if not answer.options:
            return Response(text=answer.texts[0], finish="stop")
        variant = request.variant
        right_option = answer.options[0]
        if variant.labels:
            position = variant.order.index(right_option)
            return Response(text=f"({variant.labels[position]})", finish="stop")
        options = self._options_of(request.benchmark)[request.sample_id, variant.turn]
        return Response(text=options[right_option], finish="stop")

    def _options_of(self, benchmark: str) -> dict[Key, tuple[str, ...]]:
        """Return the texts of the options of each question, reading the benchmark at the first call."""
        if benchmark not in self._options:
            options: dict[Key, tuple[str, ...]] = {}
            for sample in Benchmark(self._folders[benchmark]).samples():
                for number, turn in enumerate(sample.rounds):
                    options[sample.id, number] = turn.options
            self._options[benchmark] = options
        return self._options[benchmark]


_UNKNOWN = Response(error=Failure("model", "the answer to this question is hidden from the oracle"))


def open_oracle(spec: ModelSpec) -> Oracle:
    read_options(spec, NoOptions)
    return Oracle(spec.text)
