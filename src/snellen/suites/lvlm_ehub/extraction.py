"""LVLM-eHub's rule for reading a reply, faults included (appendix A.3, with the normaliser of VQA).

LVLM-eHub's scorers of open questions, defect for defect, to reproduce its numbers. ReForm-Eval took some over.

The arithmetic of CIDEr is the standard one: only the tokens differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from snellen.extraction.reading import (
    ExtractedChoice,
    NamedExtractor,
    no_choice,
    published_rule,
    texts_alone,
)
from snellen.metrics import captions
from snellen.metrics.captions import pooled_bleu, pooled_meteor
from snellen.metrics.declaration import (
    ChoiceMetric,
    CorpusCountMetric,
    Golds,
    class_mean,
    corpus_metric,
    pooled_row,
    reply_metric,
    share_row,
)
from snellen.metrics.normalise import contains_words, legacy_ocr_normalise, vqa_normalise
from snellen.metrics.question_counts import Counts
from snellen.records import Answer, Prediction


def class_match(reply: str, references: Sequence[str]) -> float:
    """LVLM-eHub, OCR and image classification: as `ocr_match`, but any one reference (a synonym) counts.

    It is 1 if any reference occurs in the reply as whole words, and otherwise 0. Everything but ASCII letters and
    digits is ignored.
    """
    words = legacy_ocr_normalise(reply)
    return float(
        any(contains_words(words, legacy_ocr_normalise(reference)) for reference in references)
    )


def vqa_match(reply: str, references: Sequence[str]) -> float:
    """LVLM-eHub, VQA, and ReForm-Eval, KIE: 1 if the reply contains any reference as whole words.

    Otherwise it is 0. Both texts are normalised as VQA's script does. The meaning of the reply is ignored: `Yes,
    there is no doubt` is right for the reference "no", and `none of these` for "0", because the normalisation
    changes "none" to "0". A reference of which nothing is left, such as an article or a symbol, matches every reply
    that has a word.
    """
    words = vqa_normalise(reply)
    return float(any(contains_words(words, vqa_normalise(reference)) for reference in references))


def option_match(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Return the share of replies that contain the text of the correct option (`vqa_match`), for questions with
    options.

    A reply that repeats all options is always right. For likelihoods, it is the share of correct choices. This is
    LVLM-eHub's metric.
    """
    n_right = 0
    for prediction in predictions:
        if prediction.method == "generation":
            is_right = any(option in prediction.mentioned for option in answer.options)
        else:
            is_right = prediction.choice in answer.options
        n_right += is_right
    return n_right / len(predictions)


def visdial_reciprocal_rank(reply: str, options: Sequence[str]) -> float:
    """LVLM-eHub, VisDial: 1 / position (from 1) of the first option *in file order* that the reply contains, else 0.

    The correct answer is never read: a short option at the beginning of the file scores higher than the correct
    one.
    """
    normalised_reply = vqa_normalise(reply)
    for position, option in enumerate(options, start=1):
        if contains_words(normalised_reply, vqa_normalise(option)):
            return 1 / position
    return 0.0


def kie_word_counts(reply: str, gold: str) -> Counts:
    """Return the counts of one reply for LVLM-eHub's F1 of words, which is computed from the counts of all replies
    together.

    Words are separated by spaces and compared as they are written. If a word is repeated, it matches at most as
    often as the other text has it.

    Returns:
        The number of matching words, of words in the reply, and of words in the reference text `gold`.
    """
    reply_words = Counter(reply.split())
    gold_words = Counter(gold.split())
    matching_words = reply_words & gold_words
    return matching_words.total(), reply_words.total(), gold_words.total()


def kie_word_rows(sums: Counts) -> tuple[float | None, ...]:
    """Turn the summed counts of all replies into F1, precision and recall of words (LVLM-eHub, key information
    extraction).

    The paper calls it entity-level F1 (Table 3). If no word matches, F1 is 0; the original divides by zero there.

    Args:
        sums: The number of matching words, of words in replies, and of words in reference texts.

    Returns:
        F1, precision and recall. Precision is None if no reply has a word, recall if no reference has one, and F1
        if neither has.
    """
    matched, reply_words, gold_words = sums

    def share(count: float, total: float) -> float | None:
        return count / total if total else None

    f1 = share(2 * matched, reply_words + gold_words)
    precision = share(matched, reply_words)
    recall = share(matched, gold_words)
    return f1, precision, recall


def legacy_cider(replies: Sequence[str], references: captions.References) -> captions.CorpusScore:
    """ReForm-Eval and LVLM-eHub, captions: CIDEr-D of the words between blanks, case and punctuation kept.

    So `dog.` is not `dog`, and `A` at the start of a caption not `a`. Their tables print it times 100.
    """
    return captions.cider(replies, references, tokens="legacy")


def legacy_rouge_l(replies: Sequence[str], references: captions.References) -> captions.CorpusScore:
    """ReForm-Eval and LVLM-eHub, captions: ROUGE-L of the words between single blanks, case and punctuation kept."""
    return captions.rouge_l(replies, references, tokens="legacy")


def _count_words(replies: Sequence[str], golds: Golds) -> list[Counts | str]:
    return [
        kie_word_counts(reply, texts[0]) if texts else "no gold"
        for reply, texts in zip(replies, golds, strict=True)
    ]


_WORDLESS = "a gold without a letter or digit matches no reply without one"
CLASS_MATCH = reply_metric(class_match, name="legacy_class_match", unit="share", limit=_WORDLESS)
CLASS_MATCH_MEAN = class_mean(
    class_match, name="legacy_class_match_mean", title="legacy mean per-class accuracy"
)
VQA_MATCH = reply_metric(
    vqa_match, name="legacy_vqa_match", unit="share", title="legacy VQA match", limit=_WORDLESS
)
OPTION_MATCH = ChoiceMetric(
    description="word matching of choices: right if the right option's text occurs in the reply, whatever else does",
    rows=(share_row("legacy_option_match", unparsed="wrong"),),
    measure=option_match,
)
VISDIAL_RECIPROCAL_RANK = replace(
    reply_metric(
        visdial_reciprocal_rank,
        name="legacy_visdial_reciprocal_rank",
        title="legacy VisDial reciprocal rank",
        unit="1 / rank",
        low=0.0,
        high=1.0,
        interval="proportion",
        scale="legacy reciprocal rank",
        limit="the gold is not read: a shorter candidate that stands earlier in the file wins",
    ),
    references="candidates",
)
CIDER = corpus_metric(
    legacy_cider,
    title="legacy CIDEr",
    unit="CIDEr",
    low=0.0,
    high=10.0,
    scale="legacy_cider",
    limit=captions.CIDER_LIMIT,
)
ROUGE_L = corpus_metric(
    legacy_rouge_l, title="legacy ROUGE-L", unit="share", scale="legacy_rouge_l"
)
BLEU_1, BLEU_2, BLEU_3, BLEU_4 = (pooled_bleu(order, "legacy") for order in (1, 2, 3, 4))
METEOR = pooled_meteor("legacy")


KIE_WORD_F1 = CorpusCountMetric(
    description="F1 of the set's white-space words, case kept, which LVLM-eHub prints as entity F1; 0 without a match",
    rows=tuple(
        pooled_row(
            f"legacy_kie_word_{part.lower()}", f"legacy KIE word {part}", undefined=undefined
        )
        for part, undefined in (("F1", ""), ("precision", "no reply has a word"), ("recall", ""))
    ),
    count=_count_words,
    compute=kie_word_rows,
    per_question=("legacy_kie_word_f1",),
)


def ehub_word_match(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """Read a choice by the rule of LVLM-eHub's ranking of options: the first option whose text occurs in the reply.

    Options are tried in the order shown. Texts are compared as whole words after VQA's normalisation; labels such
    as A are ignored. The paper's accuracies use a looser rule (`legacy_option_match`): they only ask whether the
    correct option is among those that the reply mentions, so a reply that names two options is right for both.
    """
    del labels
    mentioned = tuple(place for place, option in enumerate(options) if vqa_match(reply, [option]))
    if mentioned:
        return ExtractedChoice(mentioned[0], "text", "likely", mentioned=mentioned)
    return no_choice("no match" if reply.strip() else "empty")


WORD_MATCH = NamedExtractor("lvlm-ehub-word-match", published_rule(ehub_word_match), texts_alone)
