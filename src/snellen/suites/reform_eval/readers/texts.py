"""Readers of benchmarks that need further text files: OCR results, articles of Wikipedia, or steps of WikiHow.

TextVQA and DocVQA by a stricter rule: only questions with an answer that the published OCR results contain.

The paper leaves out questions whose answer must be inferred and is not written in the image, and does not say how it
finds them. The usual benchmarks leave out questions whose answer cannot be a text in the image. This reader also
leaves out those whose answer OCR did not find, although the OCR results of TextVQA miss much of what people read.

K-ViQuAE: ViQuAE's questions, each with a passage that contains the answer.

Besides the questions in `test.jsonl`, this reads the authors' copy of Wikipedia: `humans_with_faces.jsonl.gz`,
`humans_without_faces.jsonl.gz` and `non_humans.jsonl.gz`, compressed or not.

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
"""Function that returns the words that OCR found in an image, given the image's name (the `group` of its questions)."""


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
    """Yield the questions that a mapping describes, except those whose answer OCR did not find in the image.

    A question stays if OCR found all words of at least one of its accepted answers. The first draft gets the notes of
    the mapping, and the last one a note on the number of questions left out.
    """
    chosen = read_params(params, TokenParams)
    if chosen.tokens == "rosetta":
        words_in_image = _open_rosetta_tokens(folder)
    else:
        words_in_image = _open_page_scans(folder)
    drafts = list(read_mapped(chosen.mapping, folder))
    notes = tuple(note for draft in drafts for note in draft.notes)
    readable_drafts = (_keep_if_read_by_ocr(draft, words_in_image) for draft in drafts)
    for draft in without_exclusions(readable_drafts, Path(chosen.tokens)):
        yield replace(draft, notes=(*notes, *draft.notes))
        notes = ()


def _keep_if_read_by_ocr(draft: Draft, tokens: TokenLookup) -> Draft | Exclusion:
    """Return the question if OCR found one of its accepted answers in its image, and otherwise the reason to leave it
    out.

    An answer counts as found if all its words are in the image, in any order.

    Args:
        draft: The question.
        tokens: Function that returns the words that OCR found in an image.
    """
    words_in_image = tokens(draft.group)  # a question's group is its image
    for answer in draft.rounds[0].texts:
        if words_in_image.issuperset(fold_answer(answer).split()):
            return replace(draft, notes=())
    return Exclusion("no accepted answer among the OCR tokens")


def _open_rosetta_tokens(folder: Path | None) -> TokenLookup:
    """Return a function that returns the words that OCR found in an image of TextVQA, given the name of the image.

    One file has the words of all images, so it is read here once. For an image that is not in the file, the
    function returns an empty set.
    """
    path = locate_file(folder, "TextVQA_Rosetta_OCR_v0.2_val.json")
    words_by_image: dict[str, frozenset[str]] = {}
    for _, item in list_items(path, "data", read_json(path, _Data).data, _Tokens):
        words_by_image[item.image_id] = _folded_words(item.ocr_tokens)

    def words_in(image: str) -> frozenset[str]:
        return words_by_image.get(image, frozenset())

    return words_in


def _open_page_scans(folder: Path | None) -> TokenLookup:
    """Return a function that returns the words that OCR found on a page of DocVQA, given the name of the page.

    Each page has a file of its own, which is read whenever the function is called.
    """
    scans = locate_file(folder, "val/ocr_results", "ocr_results", "spdocvqa_ocr")

    def words(page: str) -> frozenset[str]:
        """Return the words on a page."""
        scan = read_json(scans / f"{page}.json", _Scan)
        lines: list[str] = []
        for part in scan.recognition:
            lines.extend(line.text for line in part.lines)
        return _folded_words(lines)

    return words


def _folded_words(texts: Iterable[str]) -> frozenset[str]:
    """Return all words of some texts in the form in which they are compared: lower case, no articles, no punctuation."""
    return frozenset(word for text in texts for word in fold_answer(text).split())


ARTICLES = ("humans_with_faces", "humans_without_faces", "non_humans")
MAX_PASSAGE_WORDS = 100
"""The greatest number of words of a passage, unless a single sentence has more, as in the authors' own passages."""
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
    """Yield the questions that a mapping describes, each with a passage of Wikipedia that contains its answer.

    The data link each question to articles. The passage is the first one of them that contains the original answer,
    or else the first that contains another accepted form of it. A question without such a passage is left out and
    counted.
    """
    chosen = read_params(params, PassageParams)
    path = locate_file(folder, chosen.questions)
    titles_by_question = {}
    all_titles: set[str] = set()
    for _, question in json_lines(path, ViquaeQuestion):
        titles_by_question[question.id] = question.titles
        all_titles.update(question.titles)
    articles = _read_articles(folder, all_titles)

    def with_passage(draft: Draft) -> Draft | Exclusion:
        """Return a question with its passage as context, or the reason to leave it out."""
        passages: list[str] = []
        for title in titles_by_question[draft.id]:
            passages += articles.get(title, ())
        passage = _first_passage_with(passages, draft.rounds[0].texts)
        return replace(draft, context=passage) if passage else Exclusion(NO_PASSAGE)

    drafts = read_mapped(chosen.mapping, folder)
    return without_exclusions((with_passage(draft) for draft in drafts), path)


def _read_articles(folder: Path | None, titles: set[str]) -> dict[str, list[str]]:
    """Return the passages of the articles with these titles, by title.

    The files are large, so they are read line by line, and only the articles that are needed are kept.
    """
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
    """Yield an article in passages of whole sentences, each with the title in front: `Title. First sentence. ...`.

    A passage has at most `MAX_PASSAGE_WORDS` words; only a single sentence that is longer makes a longer one.
    Paragraphs that are empty, repeat the title, or are list items or section marks are skipped.
    """
    sentences: list[str] = []
    length = 0
    for paragraph in paragraphs:
        text = paragraph.strip()
        if not text or text == title or text.startswith(_SEMI_STRUCTURED):
            continue
        for sentence in _SENTENCE.split(text):
            words = len(sentence.split())
            if sentences and length + words > MAX_PASSAGE_WORDS:
                yield f"{title}. {' '.join(sentences)}"
                sentences = []
                length = 0
            sentences.append(sentence)
            length += words
    if sentences:
        yield f"{title}. {' '.join(sentences)}"


def _first_passage_with(passages: list[str], answers: Iterable[str]) -> str | None:
    """Return the first passage that contains the first answer as whole words; if there is none, try the next answer.

    Args:
        passages: The passages in their order.
        answers: The original answer, then other accepted forms of it.

    Returns:
        The passage; None if no passage contains any of the answers.
    """
    folded = [f" {fold_answer(passage)} " for passage in passages]
    for answer in answers:
        for passage, text in zip(passages, folded, strict=True):
            if f" {fold_answer(answer)} " in text:
                return passage
    return None


POOL_SIZE = 1000
"""The greatest number of steps of all articles that are kept as wrong options."""


class WikihowParams(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class WikihowStep(Struct, frozen=True):
    step_id: str
    headline: str | None = None
    img: str | None = None
    """Where the image was on the web. A step without an image makes no question."""

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
    """Return a random sample of at most `POOL_SIZE` steps of all articles, and notes on the steps that are left out.

    The sample serves as wrong options. Example of a note: `WikihowText_data.json: 12 steps without an image left
    out`.
    """
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
            if len(pool) < POOL_SIZE:
                pool.append(step.text)
            else:
                # Reservoir sampling: each step so far is equally likely to be in the pool.
                index = rng.randrange(count_so_far)
                if index < POOL_SIZE:
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
