"""Sources whose questions are chosen, or given a context, by texts that lie beside them.

TextVQA and DocVQA by the stricter rule: only questions of which a gold stands among the published OCR tokens.

The paper leaves out what has to be inferred and does not say how. The entries leave out what the answer itself shows
to be no text of the image; this reader, around their mapping, also what OCR has not found. The tokens of TextVQA
miss much of what people read.

K-ViQuAE: ViQuAE's questions with a passage that holds the answer.

Around the mapping of `test.jsonl` this reads the authors' Wikipedia, `humans_with_faces.jsonl.gz`,
`humans_without_faces.jsonl.gz` and `non_humans.jsonl.gz`, packed or not.

WikiHow: which step of a task does the image show? (ReForm-Eval A.6)

Reads `WikihowText_data.json` (one article per line) and the images of the steps, `<step_id>.png`, as Visual
Goal-Step Inference distributes them. An article is a skill, its methods are tasks, the headlines of their
steps the texts. Distractors are other steps of the task, then of the skill, then of the whole file.

The release names no validation split; the paper's 32,194 steps are drawn from all of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import (
    DistractorSpec,
    Draft,
    Exclusion,
    QuestionDraft,
    read_params,
    without_exclusions,
)
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.json_files import JSON_FAULTS, json_lines, list_items, read_json
from snellen.formats.locate import locate_file
from snellen.readers.mapped import read as read_mapped
from snellen.reformulation.answer_equality import fold_answer
from snellen.suites.reform_eval import wording

TokenLookup = Callable[[str], frozenset[str]]
"""The words that OCR found in an image, by the name that its questions have as their group."""


class TokenParams(Struct, frozen=True, forbid_unknown_fields=True):
    mapping: dict[str, Any]
    """The parameters of the reader `mapped` for the questions."""
    tokens: Literal["rosetta", "scans"]
    """TextVQA's one file of tokens, or DocVQA's one file per page."""


class _Data(Struct, frozen=True):
    data: list[msgspec.Raw]


class _Tokens(Struct, frozen=True):
    image_id: str
    ocr_tokens: tuple[str, ...]


class _Text(Struct, frozen=True):
    text: str


class _Lines(Struct, frozen=True):
    lines: tuple[_Text, ...]


class _Scan(Struct, frozen=True):
    recognition: tuple[_Lines, ...] = msgspec.field(name="recognitionResults")


def read_with_tokens(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the mapping's drafts, without those for which OCR found all words of no accepted answer."""
    chosen = read_params(params, TokenParams)
    tokens = (
        _open_rosetta_tokens(folder) if chosen.tokens == "rosetta" else _open_page_scans(folder)
    )
    drafts = list(read_mapped(chosen.mapping, folder))
    notes = tuple(note for draft in drafts for note in draft.notes)
    for draft in without_exclusions(
        (_keep_if_read_by_ocr(draft, tokens) for draft in drafts), Path(chosen.tokens)
    ):
        yield replace(draft, notes=(*notes, *draft.notes))
        notes = ()


def _keep_if_read_by_ocr(draft: Draft, tokens: TokenLookup) -> Draft | Exclusion:
    """Return a draft if OCR found all words of one of its accepted answers in its image, else an exclusion.

    Args:
        draft: The draft of a question.
        tokens: Returns the words that OCR found in an image.
    """
    words_in_image = tokens(draft.group)  # a question's group is its image
    for answer in draft.rounds[0].texts:
        if words_in_image.issuperset(fold_answer(answer).split()):
            return replace(draft, notes=())
    return Exclusion("no accepted answer among the OCR tokens")


def _open_rosetta_tokens(folder: Path | None) -> TokenLookup:
    """Return a function from the name of an image of TextVQA to the words that OCR found in it.

    The words of all images are in one file. They are none for an unknown image.
    """
    path = locate_file(folder, "TextVQA_Rosetta_OCR_v0.2_val.json")
    words_by_image: dict[str, frozenset[str]] = {}
    for _, item in list_items(path, "data", read_json(path, _Data).data, _Tokens):
        words_by_image[item.image_id] = _folded_words(item.ocr_tokens)

    def words_in(image: str) -> frozenset[str]:
        return words_by_image.get(image, frozenset())

    return words_in


def _open_page_scans(folder: Path | None) -> TokenLookup:
    """Return a function from the name of a page to the words that OCR found on it, from DocVQA's file for each
    page."""
    scans = locate_file(folder, "val/ocr_results", "ocr_results", "spdocvqa_ocr")

    def words(page: str) -> frozenset[str]:
        scan = read_json(scans / f"{page}.json", _Scan)
        lines: list[str] = []
        for part in scan.recognition:
            lines.extend(line.text for line in part.lines)
        return _folded_words(lines)

    return words


def _folded_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of texts, folded for comparison: without case, articles and punctuation."""
    return frozenset(word for text in texts for word in fold_answer(text).split())


ARTICLES = ("humans_with_faces", "humans_without_faces", "non_humans")
PASSAGE_WORDS = 100
"""Words of a passage at most, unless one sentence has more (as the authors cut articles)."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_SEMI_STRUCTURED = ("Section::::", "BULLET::::")
NO_PASSAGE = "no passage of the linked articles holds the answer"


class PassageParams(Struct, frozen=True, forbid_unknown_fields=True):
    mapping: dict[str, Any]
    """The parameters of the reader `mapped` for the questions."""
    questions: str = "test.jsonl"


class Provenance(Struct, frozen=True):
    title: list[str]


class Output(Struct, frozen=True):
    provenance: list[Provenance] = []


class ViquaeQuestion(Struct, frozen=True):
    id: str
    output: Output

    @property
    def titles(self) -> tuple[str, ...]:
        """Articles that the question was made from."""
        return tuple(dict.fromkeys(link.title[0] for link in self.output.provenance if link.title))


class Paragraphs(Struct, frozen=True):
    paragraph: list[str]


class WikipediaArticle(Struct, frozen=True):
    wikipedia_title: str
    text: msgspec.Raw


def read_with_passages(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the mapping's drafts with a passage of an article as context. Drafts without such a passage are
    excluded.

    The passage is the first one of the linked articles that contains the original answer, or else an alias of it.
    """
    chosen = read_params(params, PassageParams)
    path = locate_file(folder, chosen.questions)
    titles_by_question = {
        question.id: question.titles for _, question in json_lines(path, ViquaeQuestion)
    }
    articles = _read_articles(folder, set(chain.from_iterable(titles_by_question.values())))

    def with_passage(draft: Draft) -> Draft | Exclusion:
        passages: list[str] = []
        for title in titles_by_question[draft.id]:
            passages += articles.get(title, ())
        passage = _first_passage_with(passages, draft.rounds[0].texts)
        return replace(draft, context=passage) if passage else Exclusion(NO_PASSAGE)

    return without_exclusions(map(with_passage, read_mapped(chosen.mapping, folder)), path)


def _read_articles(folder: Path | None, titles: set[str]) -> dict[str, list[str]]:
    """Return the passages of the articles with these titles. Only one of the other articles is in memory at a time."""
    articles: dict[str, list[str]] = {}
    decode = msgspec.json.Decoder(Paragraphs).decode
    for name in ARTICLES:
        for where, article in json_lines(
            locate_file(folder, f"{name}.jsonl.gz", f"{name}.jsonl"), WikipediaArticle
        ):
            if article.wikipedia_title in titles:
                try:
                    paragraphs = decode(article.text).paragraph
                except JSON_FAULTS as error:
                    raise DataError(f"{where}: text: {error}") from None
                articles[article.wikipedia_title] = list(
                    cut_passages(article.wikipedia_title, paragraphs)
                )
    return articles


def cut_passages(title: str, paragraphs: Iterable[str]) -> Iterator[str]:
    """Yield passages of whole sentences with at most `PASSAGE_WORDS` words, each with the article's title in front.
    A longer sentence is a passage by itself."""
    sentences: list[str] = []
    length = 0
    for paragraph in paragraphs:
        text = paragraph.strip()
        if not text or text == title or text.startswith(_SEMI_STRUCTURED):
            continue
        for sentence in _SENTENCE.split(text):
            words = len(sentence.split())
            if sentences and length + words > PASSAGE_WORDS:
                yield f"{title}. {' '.join(sentences)}"
                sentences = []
                length = 0
            sentences.append(sentence)
            length += words
    if sentences:
        yield f"{title}. {' '.join(sentences)}"


def _first_passage_with(passages: list[str], answers: Iterable[str]) -> str | None:
    """Return the first passage with the original answer as whole words, or else with the first alias that occurs in
    a passage. None if none does."""
    folded = [f" {fold_answer(passage)} " for passage in passages]
    for answer in answers:
        for passage, text in zip(passages, folded, strict=True):
            if f" {fold_answer(answer)} " in text:
                return passage
    return None


POOL = 1000
"""Steps of the whole file that are kept as its distractors."""


class WikihowParams(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class WikihowStep(Struct, frozen=True):
    step_id: str
    headline: str | None = None
    img: str | None = None
    """Where the image was; a step without is asked about by nobody."""

    @property
    def text(self) -> str:
        return (self.headline or "").strip()


class WikihowMethod(Struct, frozen=True):
    steps: tuple[WikihowStep, ...]
    name: str | None = None


class WikihowArticle(Struct, frozen=True):
    file_id: str
    goal: str
    methods: tuple[WikihowMethod, ...]
    category_hierarchy: tuple[str, ...] = ()


def read_wikihow(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft for each step with a headline and an image, in the order of the file."""
    read_params(params, WikihowParams)
    path = locate_file(folder, "WikihowText_data.json")
    pictures = locate_file(folder, "wiki_images", "images")
    pool, notes = _sample_steps(path)
    for where, article in json_lines(path, WikihowArticle):
        for draft in _step_questions(article, pool, pictures, where):
            yield replace(draft, notes=notes) if notes else draft
            notes = ()


def _sample_steps(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a random sample of the steps of all articles, to be used as distractors, and notes on the steps that
    are left out."""
    rng = rng_for("wikihow", "pool")
    pool: list[str] = []
    counts: Counter[str] = Counter()
    count_so_far = 0
    for _, article in json_lines(path, WikihowArticle):
        for step in chain.from_iterable(method.steps for method in article.methods):
            if not step.text or not step.img:
                counts["without an image" if step.text else "without a headline"] += 1
            if not step.text:
                continue
            count_so_far += 1
            if len(pool) < POOL:
                pool.append(step.text)
            else:
                # Reservoir sampling: each step so far is equally likely to be in the pool.
                index = rng.randrange(count_so_far)
                if index < POOL:
                    pool[index] = step.text
    if not pool:
        raise DataError(f"{path}: no step has a headline")
    notes = [
        f"{path.name}: {count} steps {reason} left out" for reason, count in sorted(counts.items())
    ]
    return tuple(pool), tuple(notes)


def _step_questions(
    article: WikihowArticle, pool: tuple[str, ...], pictures: Path, where: str
) -> Iterator[Draft]:
    """Yield a question for each step of an article that has an image.

    Its distractors are other steps of the same method, then of the article's other methods, then of other articles.

    Args:
        article: The article, with one or more methods that have steps.
        pool: Steps of other articles.
        pictures: Folder of the images.
        where: File and line, for error messages.
    """
    steps_by_method = []
    for method in article.methods:
        steps_by_method.append(tuple(step.text for step in method.steps if step.text))
    tags = {}
    if article.category_hierarchy:
        tags["category"] = article.category_hierarchy[0]
    for number, method in enumerate(article.methods):
        steps_of_other_methods: list[str] = []
        for other_number, steps in enumerate(steps_by_method):
            if other_number != number:
                steps_of_other_methods += steps
        tiers = (steps_by_method[number], tuple(steps_of_other_methods), pool)
        task = (method.name or "").strip() or article.goal
        for step in method.steps:
            if not step.text or not step.img:
                continue
            question = QuestionDraft(
                wording.step_question(task),
                texts=(step.text,),
                distractors=DistractorSpec(tiers=tiers),
            )
            yield Draft(
                id=step.step_id,
                rounds=(question,),
                images=(pictures / f"{step.step_id}.png",),
                where=f"{where}: step {step.step_id}",
                group=step.step_id,
                tags=tags,
            )
