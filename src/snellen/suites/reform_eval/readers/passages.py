"""K-ViQuAE: ViQuAE's questions with a passage that holds the answer.

Around the mapping of `test.jsonl` this reads the authors' Wikipedia, `humans_with_faces.jsonl.gz`,
`humans_without_faces.jsonl.gz` and `non_humans.jsonl.gz`, packed or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import Draft, read_params
from snellen.errors import DataError
from snellen.formats.decoding import JSON_FAULTS
from snellen.formats.json_files import json_lines
from snellen.formats.locate import locate
from snellen.readers.exclusions import Exclusion, without_exclusions
from snellen.readers.mapped import read as read_mapped
from snellen.reformulation.answer_equality import fold_answer

ARTICLES = ("humans_with_faces", "humans_without_faces", "non_humans")
PASSAGE_WORDS = 100
"""Words of a passage at most, unless one sentence has more (as the authors cut articles)."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_SEMI_STRUCTURED = ("Section::::", "BULLET::::")
NO_PASSAGE = "no passage of the linked articles holds the answer"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
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


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The mapping's drafts for which there is a passage, which is their context.

    The passage is the first one of the linked articles that holds the original answer, else an alias of it.
    """
    chosen = read_params(params, Params)
    path = locate(folder, chosen.questions)
    titles = {question.id: question.titles for _, question in json_lines(path, ViquaeQuestion)}
    articles = _articles(folder, {title for linked in titles.values() for title in linked})

    def with_passage(draft: Draft) -> Draft | Exclusion:
        passages = [passage for title in titles[draft.id] for passage in articles.get(title, ())]
        passage = _holding(passages, draft.rounds[0].texts)
        return replace(draft, context=passage) if passage else Exclusion(NO_PASSAGE)

    return without_exclusions(map(with_passage, read_mapped(chosen.mapping, folder)), path)


def _articles(folder: Path | None, titles: set[str]) -> dict[str, list[str]]:
    """The passages of the articles with these titles; of the others one at a time is in memory."""
    articles: dict[str, list[str]] = {}
    decode = msgspec.json.Decoder(Paragraphs).decode
    for name in ARTICLES:
        for where, article in json_lines(locate(folder, f"{name}.jsonl.gz", f"{name}.jsonl"), WikipediaArticle):
            if article.wikipedia_title in titles:
                try:
                    paragraphs = decode(article.text).paragraph
                except JSON_FAULTS as error:
                    raise DataError(f"{where}: text: {error}") from None
                articles[article.wikipedia_title] = list(cut(article.wikipedia_title, paragraphs))
    return articles


def cut(title: str, paragraphs: Iterable[str]) -> Iterator[str]:
    """Passages of whole sentences, WORDS words at most, the article's title in front."""
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
                sentences, length = [], 0
            sentences.append(sentence)
            length += words
    if sentences:
        yield f"{title}. {' '.join(sentences)}"


def _holding(passages: list[str], answers: Iterable[str]) -> str | None:
    """The first passage with the original answer as whole words, else with the first alias that is in one."""
    folded = [f" {fold_answer(passage)} " for passage in passages]
    for answer in answers:
        for passage, text in zip(passages, folded, strict=True):
            if f" {fold_answer(answer)} " in text:
                return passage
    return None
