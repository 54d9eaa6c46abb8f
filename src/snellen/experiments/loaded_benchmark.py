"""The questions of a built benchmark with answers and images, for viewing and filtering."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from snellen.building.benchmark import Benchmark
from snellen.common.attribute_hints import same_hint, unknown_attribute
from snellen.common.decoding import decode_image
from snellen.common.late import data_frame, pandas_frame
from snellen.common.seeds import rng_for
from snellen.errors import DataError, UnknownNameError
from snellen.formats.shown_text import object_line
from snellen.records import Answer, Sample
from snellen.scoring.answers import Key, open_answers

if TYPE_CHECKING:
    import pandas
    import polars
    from PIL.Image import Image


SPLIT_NAMES = ("train", "validation", "val", "dev", "test")
QUESTION_HINTS = {
    **same_hint("they are `options`", "choices"),
    **same_hint("it is `question`", "prompt", "text"),
    **same_hint("it is `answer`; `answers` are all", "label", "target", "gold", "reference"),
    **same_hint("it is as_row()", "to_dict", "dict"),
}
BENCHMARK_HINTS = {
    **same_hint("head(n) has the first n questions", "take", "limit"),
    **same_hint("shuffle(seed)[:n] has n random questions", "sample", "train_test_split"),
    **same_hint("benchmark[n:] leaves out the first n questions", "skip", "tail"),
    **same_hint("benchmark.to_pandas() is the data frame of a benchmark", "ndim"),
    **same_hint("benchmark[5] or for question in benchmark", "iloc", "loc", "iterrows"),
    **same_hint(
        "to_pandas() or to_polars()", "to_df", "df", "to_frame", "to_dict", "to_list", "to_csv"
    ),
    **same_hint(
        "to_pandas() has the methods of pandas, and tags as columns",
        "describe",
        "value_counts",
        "groupby",
        "unique",
        "sort_values",
        "query",
    ),
    **same_hint(
        "iterate over the benchmark itself", "questions", "samples", "items", "data", "map"
    ),
    **same_hint(
        "to_pandas().columns has the columns, benchmark[0].as_row() a row",
        "features",
        "column_names",
        "columns",
        "keys",
        "info",
        "schema",
    ),
    **same_hint("len(benchmark) is the number of questions", "shape", "num_rows", "size", "count"),
    **same_hint(
        "a benchmark is one split; sn.list_benchmarks(WORD) shows others", "split", "splits"
    ),
}


class BenchmarkQuestion:
    """A question, or one round of a dialogue, with its answer and images."""

    def __init__(
        self, benchmark: Benchmark, sample: Sample, round_number: int, answer: Answer | None
    ) -> None:
        """Refer to one question of a benchmark; `answer` is None if its answers are hidden."""
        self.benchmark = benchmark
        self._sample = sample
        self._answer = answer
        self.round = round_number
        """Number of the round in a dialogue, from 0."""

    @property
    def id(self) -> str:
        """Id of the sample; the rounds of a dialogue share it."""
        return self._sample.id

    @property
    def question(self) -> str:
        return self._sample.rounds[self.round].question

    @property
    def options(self) -> tuple[str, ...]:
        """Options in the order of the source; empty for an open question."""
        return self._sample.rounds[self.round].options

    @property
    def context(self) -> str | None:
        return self._sample.context

    @property
    def answers(self) -> tuple[str, ...]:
        """Texts of the correct options, or reference answers; empty if the answers are hidden."""
        if self._answer is None:
            return ()
        if self.options:
            return tuple(self.options[index] for index in self._answer.options)
        return self._answer.texts

    @property
    def answer(self) -> str | None:
        """The first of `answers`; None if they are hidden."""
        return self.answers[0] if self.answers else None

    @property
    def images(self) -> list[Image]:
        """The images in RGB, as every model sees them. They are decoded each time."""
        store = self.benchmark.images
        return [
            decode_image(store.read(image), f"image {image.digest[:12]} of {self.id}").upright
            for image in self._sample.images
        ]

    @property
    def image(self) -> Image | None:
        """The first image; None for a question without images."""
        images = self._sample.images[:1]
        return self.images[0] if images else None

    @property
    def tags(self) -> Mapping[str, str]:
        """Facts about the question, such as its category."""
        return self._sample.tags

    def __getitem__(self, field: str) -> Any:
        """Return a field by its name, as of a dict."""
        if field.startswith("_") or not hasattr(type(self), field):
            raise KeyError(field)
        return getattr(self, field)

    def __getattr__(self, name: str) -> Any:
        """Raise an error that says where a missing attribute is."""
        raise unknown_attribute(self, name, QUESTION_HINTS)

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of a table, with images as paths."""
        store = self.benchmark.images
        return {
            "id": self.id,
            "round": self.round,
            "question": self.question,
            "options": list(self.options),
            "answers": list(self.answers),
            "context": self.context,
            "images": [str(store.path(image.digest)) for image in self._sample.images],
            **self.tags,
        }

    def __repr__(self) -> str:
        return f"<BenchmarkQuestion {self.id}: {self.question!r}, answer {self.answer!r}>"

    def _repr_html_(self) -> str:
        """Return the question as HTML for notebooks: its images, text and options, with a check mark at the correct ones."""
        store = self.benchmark.images
        parts = [f"<p><b>{html.escape(self.id)}</b></p>"]
        for image in self._sample.images:
            content = base64.b64encode(store.read(image)).decode()
            parts.append(
                f'<img style="max-height: 15em" src="data:{image.media_type};base64,{content}">'
            )
        parts.append(f"<p>{html.escape(self.question)}</p>")
        for option in self.options:
            mark = "✓ " if option in self.answers else ""
            parts.append(f"<div>{mark}{html.escape(option)}</div>")
        if not self.options:
            parts.append(f"<p>{html.escape('; '.join(self.answers))}</p>")
        return "".join(parts)


class LoadedBenchmark(Sequence[BenchmarkQuestion]):
    """The questions of a benchmark, or some of them. The rounds of a dialogue are consecutive.

    Args:
        benchmark: The built benchmark.
        places: Index of the sample, and of the round in it, for each question. By default all questions, in the order
            of the source.
    """

    def __init__(
        self, benchmark: Benchmark, places: Sequence[tuple[int, int]] | None = None
    ) -> None:
        self.benchmark = benchmark
        self._chosen = places

    @property
    def name(self) -> str:
        return self.benchmark.name

    @property
    def folder(self) -> Path:
        return self.benchmark.folder

    @cached_property
    def _samples(self) -> list[Sample]:
        return list(self.benchmark.samples())

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Index of the sample, and of the round in it, for each question."""
        if self._chosen is not None:
            return list(self._chosen)
        return [
            (index, round_number)
            for index, sample in enumerate(self._samples)
            for round_number in range(len(sample.rounds))
        ]

    @cached_property
    def _answers(self) -> Mapping[Key, Answer]:
        return open_answers(self.benchmark.folder)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int | str) -> BenchmarkQuestion: ...

    @overload
    def __getitem__(self, index: slice) -> LoadedBenchmark: ...

    def __getitem__(self, index: int | str | slice) -> BenchmarkQuestion | LoadedBenchmark:
        """Return one question, by its number or identifier, or a part of the benchmark by a slice. `evaluate` accepts both.

        Raises:
            IndexError: There is no question with this number.
            UnknownNameError: There is no question with this identifier.
        """
        if isinstance(index, slice):
            return LoadedBenchmark(self.benchmark, self._places[index])
        if isinstance(index, str):
            return self._by_id(index)
        return self._question(*self._places[index])

    def select(self, indices: Iterable[int]) -> LoadedBenchmark:
        """Return the questions with these numbers, in this order. Raises IndexError for a number that none has."""
        return LoadedBenchmark(self.benchmark, [self._places[index] for index in indices])

    def filter(self, condition: Callable[[BenchmarkQuestion], object]) -> LoadedBenchmark:
        """Return the questions for which a function is true: `filter(lambda question: question.tags["level"] == "hard")`."""
        matching_places = []
        for place in self._places:
            if condition(self._question(*place)):
                matching_places.append(place)
        return LoadedBenchmark(self.benchmark, matching_places)

    def shuffle(self, seed: int = 0) -> LoadedBenchmark:
        """Return the questions in a random order, the same for a seed on any machine."""
        places = self._places.copy()
        rng_for(self.name, "shuffle", seed).shuffle(places)
        return LoadedBenchmark(self.benchmark, places)

    def head(self, count: int = 5) -> LoadedBenchmark:
        """Return the first questions."""
        return self[:count]

    def _by_id(self, sample_id: str) -> BenchmarkQuestion:
        """Return the question of a sample; for an unknown id the error says what was probably meant."""
        for index, round_number in self._places:
            if self._samples[index].id == sample_id:
                return self._question(index, round_number)
        hint = ""
        if sample_id in SPLIT_NAMES:
            hint = "; a benchmark is one split: index it with a number, as in [0]"
        elif hasattr(BenchmarkQuestion, sample_id):
            hint = (
                f"; to_pandas()[{sample_id!r}] is the column, benchmark[0][{sample_id!r}] one value"
            )
        raise UnknownNameError(f"{self.name} has no question {sample_id!r}{hint}")

    def _question(self, index: int, round_number: int) -> BenchmarkQuestion:
        sample = self._samples[index]
        answer = self._answers.get((sample.id, round_number))
        return BenchmarkQuestion(self.benchmark, sample, round_number, answer)

    def __iter__(self) -> Iterator[BenchmarkQuestion]:
        for place in self._places:
            yield self._question(*place)

    def __getattr__(self, name: str) -> Any:
        """Raise an error that says where a missing attribute is."""
        raise unknown_attribute(self, name, BENCHMARK_HINTS)

    def to_polars(self) -> polars.DataFrame:
        """Return one row per question; images are paths."""
        return data_frame(question.as_row() for question in self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row per question; images are paths."""
        return pandas_frame(question.as_row() for question in self)

    @property
    def sample_ids(self) -> tuple[str, ...] | None:
        """Ids of the chosen samples in their order; None for the complete benchmark."""
        if self._chosen is None:
            return None
        return tuple(dict.fromkeys(self._samples[index].id for index, _ in self._chosen))

    def __repr__(self) -> str:
        """Return one line with the name and folder of the benchmark and its number of questions and images."""
        counts = {"questions": len(self)}
        if self._chosen is None:
            counts["images"] = self.benchmark.manifest.counts.images
        return object_line(self, f"{self.name} in {self.folder}", **counts)


def selected_questions(questions: Sequence[BenchmarkQuestion]) -> LoadedBenchmark:
    """Return some questions of a loaded benchmark as a part of that benchmark, so that they can be evaluated.

    Raises:
        DataError: The questions are from several benchmarks.
    """
    benchmark = questions[0].benchmark
    if any(question.benchmark.folder != benchmark.folder for question in questions):
        raise DataError(
            "a list of questions must be of one benchmark; give a list for each, or the benchmarks themselves"
        )
    sample_numbers = {sample.id: number for number, sample in enumerate(benchmark.samples())}
    places = [(sample_numbers[question.id], question.round) for question in questions]
    return LoadedBenchmark(benchmark, places)
