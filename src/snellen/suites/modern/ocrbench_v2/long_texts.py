"""Long texts in replies to questions of OCRBench v2: pages, regions of a page, and translations."""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from functools import cache
from typing import Any

from snellen.common.late import import_extra
from snellen.metrics.ocr import edit_distance
from snellen.reformulation.wordnet import open_wordnet

_CHINESE = re.compile(r"[\u4e00-\u9fa5]")
_PURPOSE = "comparing long texts (BLEU, METEOR)"


def long_text_score(reply: str, gold: str) -> float:
    """Return how well a reply gives a long text, in [0, 1]: the mean of four measures; 0 for an empty reply.

    The measures are BLEU-4 of one sentence without smoothing (Papineni et al. 2002), METEOR with the weights of 2005
    (Banerjee and Lavie), F1 of the sets of words, and 1 - (edit distance / length of the longer text). BLEU and METEOR
    are NLTK's. Words are what is between blanks or, if reply or text are Chinese, what jieba splits them into.

    For example, `A wren sings in the old tree` against `A wren sang in the old tree` has a BLEU of 0.49, a METEOR of
    0.84, an F1 of 6 / 7, and an edit distance of 2 in 28 characters: 0.779.

    Args:
        reply: The reply.
        gold: The correct text.

    Raises:
        MissingExtraError: The extra `documents` is not installed.
        DataError: There is no WordNet, in which METEOR looks up synonyms.
    """
    if not reply:
        return 0.0
    if _CHINESE.search(gold) or _CHINESE.search(reply):
        reply_words = _chinese_words(reply)
        gold_words = _chinese_words(gold)
    else:
        reply_words = reply.split()
        gold_words = gold.split()
    similarity = 1 - edit_distance(reply, gold) / max(len(reply), len(gold))
    measures = (
        _bleu(reply_words, gold_words),
        _meteor(reply_words, gold_words),
        _word_f1(set(reply_words), set(gold_words)),
        similarity,
    )
    return sum(measures) / len(measures)


def _word_f1(reply: set[str], gold: set[str]) -> float:
    """Return the F1 of the different words of a reply, in [0, 1]."""
    n_shared = len(reply & gold)
    return 2 * n_shared / (len(reply) + len(gold)) if n_shared else 0.0


def _bleu(reply: list[str], gold: list[str]) -> float:
    bleu_score = import_extra("nltk.translate.bleu_score", "documents", _PURPOSE, "nltk")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of n-grams that do not occur, where BLEU is almost 0
        return float(bleu_score.sentence_bleu([gold], reply))


def _meteor(reply: list[str], gold: list[str]) -> float:
    meteor_score = import_extra("nltk.translate.meteor_score", "documents", _PURPOSE, "nltk")
    words = open_wordnet().reader
    return float(meteor_score.meteor_score([gold], reply, wordnet=words))


def _chinese_words(text: str) -> list[str]:
    words: list[str] = _word_splitter().lcut(text)
    return words


@cache
def _word_splitter() -> Any:
    """Return jieba's splitter of Chinese texts with its own dictionary, which takes a second to load."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba has escapes that newer Pythons warn about.
        jieba = import_extra("jieba", "documents", _PURPOSE)
        jieba.setLogLevel(logging.WARNING)
        splitter = jieba.Tokenizer()
        # Otherwise jieba reads a cache from the folder for temporary files, which others can write to.
        with tempfile.TemporaryDirectory() as folder:
            splitter.tmp_dir = folder
            splitter.initialize()
    return splitter
