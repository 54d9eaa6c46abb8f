"""Caption metrics against the COCO evaluation's own code, closed forms, and invariants."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

import small
import snellen as sn
from snellen.errors import DataError, MissingExtraError
from snellen.metrics._caption_arrays import _sort_with_order
from snellen.metrics.captions import (
    bleu_counts,
    bleu_from_sums,
    caption_tokens,
    cider,
    meteor_counts,
    meteor_from_sums,
    rouge_l,
)
from snellen.metrics.kept_programs import programs_kept
from snellen.suites.lvlm_ehub.extraction import legacy_cider

PICTURES = [
    (
        "A man's dog runs on the beach.",
        ["A dog is running on a beach.", "The man's dog runs, happily, by the sea."],
    ),
    (
        "two cats on a sofa",
        ["Two cats are lying on a red sofa.", "A pair of cats - one black - on a couch"],
    ),
    (
        "A T-shirt-wearing skateboarder does a trick!",
        ["A skateboarder in a T-shirt does a trick", "He isn't falling."],
    ),
    ("", ["An empty street at 5 p.m."]),
    ("a a a a a a", ["a man", "a woman and a child", "A"]),
]
REPLIES = [reply for reply, _ in PICTURES]
REFERENCES = [references for _, references in PICTURES]

words = st.sampled_from("a the dog cat man runs on red sofa . two".split())
lines = st.lists(words, max_size=9).map(" ".join)
corpora = st.lists(
    st.tuples(lines, st.lists(lines, min_size=1, max_size=4)), min_size=1, max_size=6
)


def as_coco(replies, references, tokens):
    """The two dictionaries that pycocoevalcap's scorers read."""
    gts = {
        i: [" ".join(caption_tokens(text, tokens)) for text in group]
        for i, group in enumerate(references)
    }
    return gts, {i: [" ".join(caption_tokens(reply, tokens))] for i, reply in enumerate(replies)}


def bleu(replies, references, tokens="standard"):
    """BLEU of the orders 1 to 4 of the corpus, and of each reply."""
    counts = bleu_counts(replies, references, tokens=tokens)
    return bleu_from_sums(np.sum(counts, axis=0)), list(map(bleu_from_sums, counts))


def assert_equal_to_coco(replies, references, tokens):
    gts, res = as_coco(replies, references, tokens)
    value, each = Cider().compute_score(gts, res)
    ours = cider(replies, references, tokens=tokens)
    np.testing.assert_allclose([ours.value, *ours.per_caption], [value, *each], rtol=0, atol=1e-9)
    values, each = Bleu(4).compute_score(gts, res, verbose=0)
    pooled, per_caption = bleu(replies, references, tokens)
    np.testing.assert_allclose(
        [pooled, *per_caption], [values, *np.transpose(each)], rtol=0, atol=1e-9
    )
    value, each = Rouge().compute_score(gts, res)
    ours = rouge_l(replies, references, tokens=tokens)
    np.testing.assert_allclose([ours.value, *ours.per_caption], [value, *each], rtol=0, atol=1e-9)


@pytest.mark.parametrize("tokens", ["standard", "legacy"])
def test_realistic_captions_score_as_in_the_coco_evaluation(tokens):
    assert_equal_to_coco(REPLIES, REFERENCES, tokens)


@settings(max_examples=60, deadline=None)
@given(corpora)
def test_any_corpus_scores_as_in_the_coco_evaluation(corpus):
    assume(
        any(line for _, references in corpus for line in references)
    )  # it crashes when no reference has a word
    assert_equal_to_coco(
        [reply for reply, _ in corpus], [references for _, references in corpus], "legacy"
    )


def test_five_hundred_pictures_score_as_in_the_coco_evaluation():
    draw = random.Random(5)
    vocabulary = [f"w{i}" for i in range(400)]

    def line():
        return " ".join(
            vocabulary[min(399, int(draw.expovariate(0.02)))] for _ in range(draw.randint(3, 15))
        )

    replies = [line() for _ in range(500)]
    references = [
        [line(), reply, *(line() for _ in range(draw.randint(0, 3)))] for reply in replies
    ]
    assert_equal_to_coco(replies, references, "legacy")


def test_cider_of_two_pictures_by_hand():
    """Words a | b in the first image, c | d in the second; idf of each is log 2, so each reply is its reference."""
    score = cider(["a b", "c e"], [["a b"], ["c d"]])
    # One reply is its reference at n = 1 and 2 (no longer n-grams): (1 + 1 + 0 + 0) / 4 * 10.
    assert score.per_caption[0] == pytest.approx(5.0)
    # "c e" shares one of two words: cosine 1/2 at n = 1, none above.
    assert score.per_caption[1] == pytest.approx(0.5 / 4 * 10)
    assert score.value == pytest.approx((5.0 + 1.25) / 2)


def test_a_single_picture_has_no_cider_because_no_word_is_rarer_than_another():
    assert cider(["a dog runs"], [["a dog runs"]]).value == 0.0


def test_bleu_of_a_short_reply_by_hand():
    """Both of its words are right, it has 2 of 4 words: exp(1 - 4/2)."""
    assert bleu(["the dog"], [["the dog runs away"]])[0][0] == pytest.approx(np.exp(-1), abs=1e-8)


def test_rouge_by_hand():
    """The common subsequence `a dog runs` has 3 of 4 words on both sides."""
    assert rouge_l(["a dog runs fast"], [["a dog quickly runs"]]).value == pytest.approx(0.75)


def test_standard_tokens_forgive_case_and_punctuation_and_legacy_tokens_do_not():
    replies, references = ["A dog!", "two cats."], [["a dog"], ["Two cats"]]
    assert bleu(replies, references)[0][1] == pytest.approx(1.0)
    assert bleu(replies, references, tokens="legacy")[0][1] < 0.1


def test_legacy_cider_is_that_of_the_words_between_blanks():
    assert legacy_cider(REPLIES, REFERENCES) == cider(REPLIES, REFERENCES, tokens="legacy")
    assert legacy_cider(REPLIES, REFERENCES) != cider(REPLIES, REFERENCES)


@settings(max_examples=40, deadline=None)
@given(corpora, st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_pictures_or_references(corpus, draw):
    order = list(range(len(corpus)))
    draw.shuffle(order)
    turned = [(corpus[i][0], corpus[i][1][::-1]) for i in order]
    for metric in (cider, rouge_l):
        straight = metric([reply for reply, _ in corpus], [references for _, references in corpus])
        mixed = metric([reply for reply, _ in turned], [references for _, references in turned])
        assert mixed.value == pytest.approx(straight.value, abs=1e-12)
        assert mixed.per_caption == pytest.approx(
            [straight.per_caption[i] for i in order], abs=1e-12
        )
    straight = bleu_counts([reply for reply, _ in corpus], [references for _, references in corpus])
    mixed = bleu_counts([reply for reply, _ in turned], [references for _, references in turned])
    assert mixed == [straight[i] for i in order]


@settings(max_examples=40, deadline=None)
@given(corpora)
def test_scores_stay_within_their_bounds(corpus):
    replies, references = [reply for reply, _ in corpus], [references for _, references in corpus]
    for metric, most in ((cider, 10.0), (rouge_l, 1.0)):
        score = metric(replies, references)
        assert all(0.0 <= value <= most + 1e-9 for value in (score.value, *score.per_caption))
    pooled, per_caption = bleu(replies, references)
    assert all(0.0 <= value <= 1.0 + 1e-9 for values in (pooled, *per_caption) for value in values)


@pytest.mark.parametrize("metric", [cider, bleu_counts, rouge_l])
@pytest.mark.parametrize(
    ("replies", "references", "fault"),
    [
        (["a"], [], "1 replies but references of 0"),
        ([], [], "no captions"),
        (["a"], [[]], r"references\[0\]"),
        (["a"], ["a dog"], r"references\[0\]"),
    ],
)
def test_unpaired_captions_are_refused(metric, replies, references, fault):
    with pytest.raises(DataError, match=fault):
        metric(replies, references)


def test_an_unknown_tokenisation_is_refused():
    with pytest.raises(DataError, match="standard or legacy"):
        rouge_l(["a"], [["a"]], tokens="coco")


def test_metrics_import_without_loading_numpy():
    modules = "captions ocr kie vqa hallucination ptb normalise numbers".split()
    imports = "; ".join(f"import snellen.metrics.{module}" for module in modules)
    code = f"import sys; sys.modules['numpy'] = None; {imports}; print(snellen.metrics.ocr.exact_match('a', ['A']))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "1.0"


@given(st.text("abc", min_size=1, max_size=12), st.text("abc", min_size=1, max_size=12))
def test_rouge_l_is_that_of_the_textbooks_common_subsequence(first, second):
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, left in enumerate(first):
        for j, right in enumerate(second):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
            )
    precision, recall = table[-1][-1] / len(first), table[-1][-1] / len(second)
    expected = 2.44 * precision * recall / (recall + 1.44 * precision) if precision else 0.0
    assert rouge_l([" ".join(first)], [[" ".join(second)]], tokens="legacy").value == pytest.approx(
        expected
    )


needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="waits for a Java runtime")


def statistics(*numbers):
    """The program's answer: counts of words, of exact matches (no others are found here), and of chunks."""
    return (*map(float, numbers[:8]), *[0.0] * 12, *map(float, numbers[8:]))


SCORED_BY_METEOR = {
    "a dog is running on a beach ||| the man 's dog runs happily by the sea ||| a man 's dog runs on the beach": (
        statistics(9, 10, 5, 5, 3, 3, 3, 3, 2, 6, 6)
    ),
    "two cats are lying on a red sofa ||| a pair of cats one black on a couch ||| two cats on a sofa": (
        statistics(5, 8, 3, 4, 2, 2, 3, 3, 3, 5, 5)
    ),
    "a skateboarder in a t-shirt does a trick ||| he is n't falling ||| a t-shirt-wearing skateboarder does a trick": (
        statistics(8, 9, 2, 4, 5, 5, 2, 2, 3, 7, 7)
    ),
    "an empty street at 5 p.m. ||| ": statistics(0, 6, 0, 2, 0, 0, 0, 0, 0, 0, 0),
    "a man ||| a woman and a child ||| a ||| a a a a a a": statistics(
        6, 1, 6, 1, 0, 0, 1, 1, 1, 1, 1
    ),
    "a red sofa ||| a couch ||| a red sofa": statistics(3, 3, 1, 1, 2, 2, 1, 1, 1, 3, 3),
}
"""What METEOR 1.5 answered to `SCORE`, by what it was asked; its Java program takes twelve seconds to start."""
SPEAKS_AS_METEOR = """\
import sys

assert sys.argv[2:4] == ["-Xmx2G", "-jar"] and sys.argv[5:] == "- - -stdio -l en -norm".split()
for line in sys.stdin:
    print(*{answers!r}[line.rstrip("\\n").removeprefix("SCORE ||| ")], flush=True)
"""


@pytest.mark.parametrize(
    "program", ["recorded", pytest.param("java", marks=[needs_java, pytest.mark.slow])]
)
def test_meteor_is_that_of_the_coco_evaluation(program, tmp_path, monkeypatch):
    """The numbers that pycocoevalcap 1.2's own wrapper gave for these captions after its tokeniser."""
    if program == "recorded":
        (tmp_path / "java").write_text(
            f"#!{sys.executable} -S\n{SPEAKS_AS_METEOR.format(answers=SCORED_BY_METEOR)}"
        )
        (tmp_path / "java").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    # The last reply is its reference: its one chunk does not count when statistics are summed.
    counts = meteor_counts([*REPLIES, "A red sofa."], [*REFERENCES, ["A red sofa", "a couch"]])
    assert meteor_from_sums(np.sum(counts, axis=0)) == pytest.approx(0.30845249891587095, abs=1e-12)
    expected = [
        0.31817190564329095,
        0.27588264629992343,
        0.43811838253734087,
        0.0,
        0.22857142857142856,
        1.0,
    ]
    assert list(map(meteor_from_sums, counts)) == pytest.approx(expected, abs=1e-12)


def test_a_meteor_program_that_ends_without_an_answer_is_told(tmp_path, monkeypatch):
    (tmp_path / "java").write_text("#!/bin/sh\nread line\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(DataError, match="ended without a result; run it with `java -jar`"):
        meteor_counts(["a dog"], [["a cat"]])


def test_all_benchmarks_of_a_scoring_are_asked_of_one_meteor_program(tmp_path, monkeypatch):
    started = tmp_path / "started"
    answer = " ".join(map(str, statistics(3, 3, 1, 1, 2, 2, 1, 1, 1, 3, 3)))
    (tmp_path / "java").write_text(
        f"#!/bin/sh\necho >> {started}\nwhile read line; do echo {answer}; done\n"
    )
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    captions = [
        {"id": f"q{i}", "question": "Describe it.", "answer": f"sofa {i}"} for i in range(2)
    ]
    built = [
        small.built(captions, tmp_path / name, name=name, formulation="text", metrics=("meteor",))
        for name in "ab"
    ]
    folders = [str(benchmark.folder) for benchmark in built]
    runs = tmp_path / "runs"
    results = sn.evaluate(
        sn.Scripted({}, name="m"), folders, runs=runs, name="r", allow_same_requests=True
    )
    assert [
        row.metric for row in results.rows if row.benchmark in ("a", "b") and not row.slice
    ] == ["meteor"] * 2
    assert started.read_text().count("\n") == 1
    sn.score(runs / "r")
    assert started.read_text().count("\n") == 2, "it ended with its scoring"


def test_a_program_that_failed_is_not_asked_again(tmp_path, monkeypatch):
    started = tmp_path / "started"
    (tmp_path / "java").write_text(f"#!/bin/sh\necho >> {started}\nread line\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with programs_kept():
        for _ in range(2):
            with pytest.raises(DataError, match="ended without a result"):
                meteor_counts(["a dog"], [["a cat"]])
    assert started.read_text().count("\n") == 2


def test_without_pycocoevalcap_meteor_names_its_extra(monkeypatch):
    monkeypatch.setattr(
        sys, "path", [folder for folder in sys.path if "site-packages" not in folder]
    )
    for module in [name for name in sys.modules if name.startswith("pycocoevalcap")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    with pytest.raises(MissingExtraError, match=r"snellen\[meteor\]"):
        meteor_counts(REPLIES, REFERENCES)


def test_without_java_meteor_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtraError, match="Java runtime"):
        meteor_counts(REPLIES, REFERENCES)


@given(st.lists(st.integers(0, 2**62 - 1), min_size=1, max_size=30))
def test_keys_too_large_for_the_fast_sort_are_sorted_as_well(keys):
    for some in (keys, [key % 7 for key in keys]):
        values, order = _sort_with_order(np.array(some, dtype=np.int64))
        assert values.tolist() == sorted(some)
        assert [some[i] for i in order] == sorted(some)
        assert order.tolist() == sorted(range(len(some)), key=some.__getitem__)
