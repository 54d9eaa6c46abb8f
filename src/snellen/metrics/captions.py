"""Caption metrics: BLEU, ROUGE-L and CIDEr-D, equal to the COCO caption evaluation and faster; METEOR, likeness.

Tokens are `standard` (Penn Treebank tokens, lower-case, punctuation removed, as the COCO evaluation
has them) or `legacy` (the words between blanks, case and punctuation kept: ReForm-Eval, LVLM-eHub).
"""

from __future__ import annotations

import importlib.util
import math
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from msgspec import Struct

from snellen.common.sentence_embeddings import embed
from snellen.errors import DataError, MissingExtraError
from snellen.metrics import ptb
from snellen.metrics.declaration import CorpusCountMetric, corpus_metric, pooled_row
from snellen.metrics.kept_programs import asked_program

Tokens = Literal["standard", "legacy"]
References = Sequence[Sequence[str]]
"""references[i] are the reference captions of the image of replies[i]."""

_ROUGE_BETA = 1.2
_TINY, _SMALL = 1e-15, 1e-9


class CorpusScore(Struct, frozen=True):
    """The value of a corpus metric over all captions, and for each caption in order.

    Examples:
        >>> CorpusScore(0.5, (0.25, 0.75)).value
        0.5
    """

    value: float
    per_caption: tuple[float, ...]


def caption_tokens(caption: str, tokens: Tokens = "standard") -> list[str]:
    """Return the words of a caption, split by a tokenisation: `standard` or `legacy`."""
    return _tokenizer(tokens)(caption)


def cider(
    replies: Sequence[str], references: References, *, tokens: Tokens = "standard"
) -> CorpusScore:
    """CIDEr-D (Vedantam et al. 2015, section 8 and Eq. 1-3), in [0, 10]; tables often print it times 100.

    The score of a reply c is 10 / 4 * sum over n = 1..4 of the mean over its references r of exp(-(l_c - l_r)^2 / (2 *
    6^2)) * (min(g_c, g_r) . g_r) / (|g_c| |g_r|). Here g is the vector of the tf-idf weights of a caption's n-grams,
    and l is a caption's length.

    As in the COCO evaluation, the length is the number of bigrams, and idf = log(images) - log(max(1, df)), where df is
    the number of images with the n-gram in a reference. It is counted in the given references, so a single image always
    scores 0.

    Raises DataError if replies and references differ in number, or an image has no reference.
    """
    from snellen.metrics._caption_arrays import cider_arrays, encode

    words, separator, sizes = _words_of_all(replies, references, tokens)
    corpus = encode(words, separator, sizes)
    return _mean_score(cider_arrays(corpus).tolist())


def bleu_counts(
    replies: Sequence[str], references: References, *, tokens: Tokens = "standard"
) -> list[tuple[float, ...]]:
    """Return the ten counts of BLEU for each reply; `bleu_from_sums` computes BLEU from their sums.

    Raises as `cider` does.
    """
    from snellen.metrics._caption_arrays import bleu_count_arrays, encode

    words, separator, sizes = _words_of_all(replies, references, tokens)
    counts = bleu_count_arrays(encode(words, separator, sizes))  # shape (10, replies)
    return [tuple(reply_counts) for reply_counts in counts.T.tolist()]


def bleu_from_sums(sums: Sequence[float]) -> tuple[float, ...]:
    """Return BLEU of the orders 1, 2, 3 and 4 (Papineni et al. 2002, section 2.3), in [0, 1].

    BLEU is the geometric mean of the clipped n-gram precisions for n = 1 to the order. It is multiplied by
    exp(1 - r / c) if the replies (c words) are shorter than the references of nearest length (r words). The constants
    that avoid divisions by zero are those of the COCO evaluation.

    Args:
        sums: Summed counts: the correct n-grams for n = 1 to 4, all n-grams for n = 1 to 4, c and r.
    """
    correct_ngrams = sums[:4]
    all_ngrams = sums[4:8]
    reply_length, reference_length = sums[8:]
    length_ratio = (reply_length + _TINY) / (reference_length + _SMALL)
    brevity_penalty = math.exp(1 - 1 / min(1.0, length_ratio))

    scores = []
    product = 1.0
    for order, (n_correct, n_all) in enumerate(zip(correct_ngrams, all_ngrams, strict=True), 1):
        precision = (n_correct + _TINY) / (n_all + _SMALL)
        product *= precision
        scores.append(product ** (1 / order) * brevity_penalty)
    return tuple(scores)


def rouge_l(
    replies: Sequence[str], references: References, *, tokens: Tokens = "standard"
) -> CorpusScore:
    """ROUGE-L (Lin 2004, section 3), in [0, 1]: F of the longest common subsequence, beta = 1.2.

    As in the COCO evaluation, precision and recall are each the best value over the references, so the two may come
    from different references. With `legacy` tokens, a caption is split at every single blank, so two blanks in a row
    enclose an empty word. Raises the same errors as `cider`.
    """
    check_paired(replies, references)
    split = _blank_words if tokens == "legacy" else _tokenizer(tokens)
    scores = []
    for reply, captions in zip(replies, references, strict=True):
        # A text without words has one empty word.
        reply_words = split(reply) or [""]
        caption_words = [split(caption) or [""] for caption in captions]
        scores.append(_rouge_of_one(reply_words, caption_words))
    return _mean_score(scores)


def _position_bits(words: Sequence[str]) -> dict[str, int]:
    """Return, for each word of a caption, its positions as bits: `["a", "b", "a"]` gives `{"a": 0b101, "b": 0b010}`."""
    bits_by_word: dict[str, int] = {}
    bit = 1
    for word in words:
        bits_by_word[word] = bits_by_word.get(word, 0) | bit
        bit <<= 1
    return bits_by_word


def _common_subsequence_length(
    bits_by_word: Mapping[str, int], length: int, second: Sequence[str]
) -> int:
    """Return the length of the longest common subsequence of two captions (bit-parallel; Hyyrö 2004).

    Args:
        bits_by_word: For each word of the first caption, its positions as bits.
        length: Number of words of the first caption.
        second: Words of the second caption.
    """
    all_bits = (1 << length) - 1
    # A zero bit at a position of the first caption means that the common subsequence grows by one word there.
    row = all_bits
    for word in second:
        if word in bits_by_word:  # any other word leaves the row unchanged
            matches = row & bits_by_word[word]
            row = ((row + matches) | (row - matches)) & all_bits
    # Each bit cleared stands for one token of the common subsequence.
    return length - row.bit_count()


def _rouge_of_one(reply: list[str], captions: list[list[str]]) -> float:
    """Return ROUGE-L of the words of a reply against its best reference captions.

    Precision and recall are each the best over the captions, as in the COCO evaluation.
    """
    bits_by_word = _position_bits(reply)
    precisions: list[float] = []
    recalls: list[float] = []
    for caption in captions:
        n_common = _common_subsequence_length(bits_by_word, len(reply), caption)
        precisions.append(n_common / len(reply))
        recalls.append(n_common / len(caption))
    precision = max(precisions)
    recall = max(recalls)
    if not precision or not recall:
        return 0.0
    beta_squared = _ROUGE_BETA**2
    return (1 + beta_squared) * precision * recall / (recall + beta_squared * precision)


def _mean_score(values: list[float]) -> CorpusScore:
    return CorpusScore(math.fsum(values) / len(values), tuple(values))


def _blank_words(text: str) -> list[str]:
    return text.split(" ")


def _words_of_all(
    replies: Sequence[str], references: References, tokens: Tokens
) -> tuple[list[str], str, list[int]]:
    """Split captions into words.

    Returns:
        The words of all references, image by image, then those of all replies, with a separator after each caption; the
        separator; and the number of references of each image.
    """
    check_paired(replies, references)
    sizes = [len(image_references) for image_references in references]
    captions = [*chain.from_iterable(references), *replies]
    if tokens == "legacy":
        # Splitting all captions at once is twice as fast as one by one. No caption may contain the separator.
        separator = "\0"
        while True:
            joined = f" {separator} ".join([*captions, ""])
            if joined.count(separator) <= len(captions):
                return joined.split(), separator, sizes
            separator += "\0"
    words: list[str] = []
    split = _tokenizer(tokens)
    for caption in captions:
        words += split(caption)
        words.append(" ")
    return words, " ", sizes


def check_paired(replies: Sequence[str], references: References) -> None:
    """Raise DataError unless there are replies and each one has a list with at least one reference caption."""
    if len(replies) != len(references):
        raise DataError(
            f"caption metric: {len(replies)} replies but references of {len(references)} images; "
            "give one list of references per reply, in the same order"
        )
    if not replies:
        raise DataError("caption metric: no captions; a corpus score needs at least one reply")
    for index, captions in enumerate(references):
        if not captions or isinstance(captions, str):
            raise DataError(
                f"caption metric: references[{index}] is not a list of captions; give at least one"
            )


def _tokenizer(tokens: Tokens) -> Callable[[str], list[str]]:
    """Return the function that splits a caption into words."""
    if tokens == "standard":
        return ptb.caption_words
    if tokens == "legacy":
        return str.split
    raise DataError(f"caption metric: unknown tokenisation {tokens!r}; choose standard or legacy")


CIDER_LIMIT = "10 needs a caption like every reference, and so references that are all alike"
CIDER = corpus_metric(
    cider, title="CIDEr", unit="CIDEr", low=0.0, high=10.0, scale="cider", limit=CIDER_LIMIT
)
ROUGE_L = corpus_metric(rouge_l, title="ROUGE-L", unit="share", scale="rouge_l")


def caption_similarity(replies: Sequence[str], references: References) -> CorpusScore:
    """Cosine of the embeddings of a caption and its nearest reference, from -1 to 1 (LVLM-eHub, figure A.2).

    Args:
        replies: The captions.
        references: The references of each caption.

    Raises:
        MissingExtraError: The embedding model is not installed.
        DataError: A caption has no reference.
    """
    texts: list[str] = []
    for reply, captions in zip(replies, references, strict=True):
        if not captions:
            raise DataError(
                "a caption has no reference; give at least one, or leave the question out"
            )
        texts += [reply, *captions]
    vectors = embed(texts)

    values: list[float] = []
    start = 0
    for captions in references:
        reply_vector = vectors[start]
        end = start + 1 + len(captions)
        similarities = vectors[start + 1 : end] @ reply_vector
        values.append(float(similarities.max()))
        start = end
    mean = sum(values) / len(values) if values else 0.0
    return CorpusScore(mean, tuple(values))


CAPTION_SIMILARITY = corpus_metric(
    caption_similarity,
    unit="cosine",
    low=-1.0,
    high=1.0,
    scale="cosine",
    title="caption similarity",
)


# --- METEOR 1.5, by the original Java program in the package pycocoevalcap --------------------------------------------


def meteor_counts(
    replies: Sequence[str], references: References, *, tokens: Tokens = "standard"
) -> list[tuple[float, ...]]:
    """Return METEOR's 23 statistics of each reply, compared with the best of its references.

    `meteor_from_sums` computes METEOR from sums of these statistics. If reply and reference are the same words in the
    same order (one chunk), the number of chunks is set to 0, as METEOR's own program does when it sums. The Java
    program is started once for all replies; within `programs_kept` it also stays for other benchmarks.

    Raises:
        MissingExtraError: Java or pycocoevalcap is not installed.
        DataError: Replies and references differ in number, or an image has no reference.
    """
    java, program = find_jar("meteor/meteor-1.5.jar", "METEOR")
    check_paired(replies, references)
    command = [
        java,
        "-Dfile.encoding=UTF-8",
        "-Xmx2G",
        "-jar",
        str(program),
        "-",
        "-",
        "-stdio",
        "-l",
        "en",
        "-norm",
    ]
    counts = []
    with asked_program(command) as process:
        for reply, captions in zip(replies, references, strict=True):
            fields = ["SCORE"]
            for text in (*captions, reply):
                fields.append(_program_line(text, tokens))
            answer = _ask_program(process, " ||| ".join(fields))
            statistics = tuple(float(number) for number in answer.split())
            counts.append(_without_whole_chunk(statistics))
    return counts


def _without_whole_chunk(statistics: tuple[float, ...]) -> tuple[float, ...]:
    """Return METEOR's statistics of a caption, with no chunk if reply and reference are the same words in the same order."""
    reply_words, reference_words = statistics[:2]
    chunks, reply_matched, reference_matched = statistics[_INDEX_OF_CHUNKS:]
    all_match = reply_matched == reply_words and reference_matched == reference_words
    if chunks == 1 and all_match:
        return (*statistics[:_INDEX_OF_CHUNKS], 0.0, reply_matched, reference_matched)
    return statistics


_INDEX_OF_CHUNKS = 20
"""Index of the chunk count among the statistics; the matched words of reply and reference follow."""
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_MATCH_WEIGHTS = (1.0, 0.6, 0.8, 0.6)
"""Of exact, stem, synonym and paraphrase matches. The program's own values for English."""


def meteor_from_sums(sums: Sequence[float]) -> float:
    """Return METEOR for English with its default weights (Denkowski and Lavie 2014, section 2), in [0, 1].

    METEOR aligns words of the reply with words of the best reference: equal words, equal stems, synonyms and
    paraphrases. It is the weighted F of aligned words (recall counts 0.85) times 1 - 0.6 (chunks / matches)^0.2, where a
    chunk is a run of words aligned in order. Content words count 0.75 and function words 0.25.

    Args:
        sums: The statistics of one reply, or sums over replies: words of the reply and the reference, function words of
            both, four numbers for each kind of match (content words of reply and reference, function words of both),
            the chunks, and the matched words of both.
    """
    reply_words, reference_words, reply_function, reference_function = sums[:4]
    chunks, reply_matched, reference_matched = sums[_INDEX_OF_CHUNKS:]
    matched_weights = []
    for side in (0, 1):  # reply, reference
        weights = []
        for match_kind, weight in enumerate(_MATCH_WEIGHTS):
            # The content words of both sides come first, then the function words of both.
            first_of_kind = 4 + 4 * match_kind
            content_matches = sums[first_of_kind + side]
            function_matches = sums[first_of_kind + 2 + side]
            weights.append(weight * (_DELTA * content_matches + (1 - _DELTA) * function_matches))
        matched_weights.append(math.fsum(weights))
    matched_reply_weight, matched_reference_weight = matched_weights
    if not matched_reply_weight or not matched_reference_weight:
        return 0.0

    reply_content = reply_words - reply_function
    reference_content = reference_words - reference_function
    reply_weight = _DELTA * reply_content + (1 - _DELTA) * reply_function
    reference_weight = _DELTA * reference_content + (1 - _DELTA) * reference_function
    precision = matched_reply_weight / reply_weight
    recall = matched_reference_weight / reference_weight
    fragments = chunks / ((reply_matched + reference_matched) / 2)
    f_score = precision * recall / (_ALPHA * precision + (1 - _ALPHA) * recall)
    return float(f_score * (1 - _GAMMA * fragments**_BETA))


def _ask_program(process: subprocess.Popen[str], line: str) -> str:
    """Send a line to the Java program and return its reply."""
    if process.stdin is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return _read_statistics(process)


def _read_statistics(process: subprocess.Popen[str]) -> str:
    """Read a line from the Java program. Raises DataError if the program has ended."""
    line: str = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise DataError(
            "METEOR: its Java program ended without a result; run it with `java -jar` to see why"
        )
    return line.strip()


def _program_line(caption: str, tokens: Tokens) -> str:
    return " ".join(caption_tokens(caption, tokens)).replace("|||", "")


def find_jar(path: str, purpose: str) -> tuple[str, Path]:
    """Find a Java program that pycocoevalcap contains.

    Args:
        path: Path of the jar within the package.
        purpose: What needs it, for the error message.

    Returns:
        The java command and the jar.

    Raises:
        MissingExtraError: There is no java, or no pycocoevalcap.
    """
    java = shutil.which("java")
    if java is None:
        raise MissingJavaError(purpose)
    package = importlib.util.find_spec("pycocoevalcap")
    folders: list[str] = []
    if package is not None:
        folders = list(package.submodule_search_locations or ())
    for folder in folders:
        jar = Path(folder, path)
        if jar.is_file():
            return java, jar
    raise MissingExtraError("pycocoevalcap", "meteor", purpose)


class MissingJavaError(MissingExtraError):
    """No `java` on the path."""

    def __init__(self, purpose: str) -> None:
        Exception.__init__(
            self,
            f"{purpose} runs a Java program, but java was not found; install a Java runtime (8 or later) and add "
            "it to PATH",
        )


# --- metrics of the whole ---------------------------------------------------------------------------------------------


_SHORT_CAPTION_LIMIT = "captions with fewer words than its n-grams have none that could match"


def pooled_bleu(order: int, tokens: Tokens = "standard") -> CorpusCountMetric:
    """Declare BLEU of n-grams up to `order`, named `bleu_N`, or `legacy_bleu_N` on legacy tokens."""
    name_prefix = ""
    title_prefix = ""
    word_note = "0 to 1"
    if tokens == "legacy":
        name_prefix = "legacy_"
        title_prefix = "legacy "
        word_note = "words between blanks, case and punctuation kept"
    name = f"{name_prefix}bleu_{order}"
    return CorpusCountMetric(
        description=f"BLEU-{order} (Papineni et al. 2002): n-gram precisions pooled over all captions, {word_note}",
        rows=(
            pooled_row(
                name,
                f"{title_prefix}BLEU-{order}",
                scale=name,
                limit=_SHORT_CAPTION_LIMIT if order > 1 else "",
            ),
        ),
        count=partial(bleu_counts, tokens=tokens),
        compute=lambda sums: (bleu_from_sums(sums)[order - 1],),
        per_question=(name,),
    )


BLEU_1, BLEU_2, BLEU_3, BLEU_4 = (pooled_bleu(order) for order in (1, 2, 3, 4))


def pooled_meteor(tokens: Tokens = "standard") -> CorpusCountMetric:
    """Declare METEOR, named `meteor`, or `legacy_meteor` on legacy tokens."""
    name_prefix = ""
    title_prefix = ""
    word_note = ""
    if tokens == "legacy":
        name_prefix = "legacy_"
        title_prefix = "legacy "
        word_note = " on words between blanks"
    name = f"{name_prefix}meteor"
    return CorpusCountMetric(
        description=f"METEOR 1.5 (Denkowski and Lavie 2014) by its own Java program{word_note}, pooled over all captions",
        rows=(pooled_row(name, f"{title_prefix}METEOR", scale=name),),
        count=partial(meteor_counts, tokens=tokens),
        compute=lambda sums: (meteor_from_sums(sums),),
        per_question=(name,),
    )


METEOR = pooled_meteor()
