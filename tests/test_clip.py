"""CLIP-like scorers, from tiny random folders: their scores are the model's own logits, however they are batched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf
from msgspec.structs import replace
from PIL import Image
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

import snellen
import tiny_configs
from small import rows
from snellen.building.benchmark import Benchmark
from snellen.errors import ModelError
from snellen.models.clip import CUT, LOGITS, ClipModel, open_clip
from snellen.models.loading import load_model
from snellen.models.model_strings import parse_spec
from snellen.records import Request
from tiny_archs import Pictures, ask, byte_level

SPECIALS = ["<pad>", "<bos>", "<unused>", "<eos>"]
SIDE = {"height": 32, "width": 32}
WORDS = {
    "vocab_size": 420,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 3,
}
OPTIONS = ("red", "a dark green square", "no", "two of them, beside the black star")


def _clip() -> tuple[Any, Any]:
    config = tf.CLIPConfig(text_config=WORDS, vision_config=tiny_configs.CLIP, projection_dim=16)
    return tf.CLIPModel(config), tf.CLIPProcessor(
        CLIPImageProcessorPil(size=SIDE, crop_size=SIDE), byte_level(SPECIALS, "<bos> $A <eos>")
    )


def _siglip() -> tuple[Any, Any]:
    config = tf.SiglipConfig(text_config=WORDS, vision_config=tiny_configs.CLIP)
    words = byte_level(SPECIALS, "$A <eos>", model_input_names=["input_ids"])
    return tf.SiglipModel(config), tf.SiglipProcessor(SiglipImageProcessorPil(size=SIDE), words)


def _blip() -> tuple[Any, Any]:
    text = {**WORDS, "encoder_hidden_size": 32, "sep_token_id": 3}
    config = tf.BlipConfig(
        text_config=text, vision_config=tiny_configs.CLIP, image_text_hidden_size=16
    )
    words = byte_level(SPECIALS, "<bos> $A <eos>", cls_token="<bos>", sep_token="<eos>")
    return tf.BlipForImageTextRetrieval(config), tf.BlipProcessor(
        BlipImageProcessorPil(size=SIDE), words
    )


MADE: dict[str, Callable[[], tuple[Any, Any]]] = {"clip": _clip, "siglip": _siglip, "blip": _blip}


@pytest.fixture(scope="module", params=list(MADE))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as save_pretrained writes it; the weights are large enough for images to matter."""
    place = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(0)
    model, processor = MADE[request.param]()
    with torch.no_grad():
        for values in model.parameters():
            if values.ndim > 1:
                values.normal_(0, 0.2)
    model.save_pretrained(place)
    processor.save_pretrained(place)
    return place


def opened(folder: Path, query: str = "") -> ClipModel:
    return open_clip(parse_spec(f"clip:{folder}{query}"))


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return Pictures()


@pytest.fixture(scope="module")
def requests(pictures: Pictures) -> list[Request]:
    shown = [pictures.add(colour) for colour in ("red", "green", "blue")]
    return [ask(f"Which? {i}", shown[i % 3], continuations=OPTIONS[: 2 + i % 3]) for i in range(7)]


def scores(model: ClipModel, requests: list[Request], pictures: Pictures) -> list[list[float]]:
    return [
        [score.sum for score in response.scores]
        for response in model.loglikelihood(requests, pictures)
    ]


def own_logits(folder: Path, image: Image.Image, texts: list[str]) -> list[float]:
    """By the forward of transformers itself, one text at a time."""
    processor = tf.AutoProcessor.from_pretrained(folder)
    blip = tf.AutoConfig.from_pretrained(folder).model_type == "blip"
    model = (tf.BlipForImageTextRetrieval if blip else tf.AutoModel).from_pretrained(folder).eval()
    found = []
    for text in texts:
        words = processor.tokenizer(text, padding="max_length", max_length=40, return_tensors="pt")
        words = {name: words[name] for name in ("input_ids", "attention_mask") if name in words}
        with torch.inference_mode():
            out = model(
                **words,
                pixel_values=processor.image_processor(images=[image], return_tensors="pt")[
                    "pixel_values"
                ],
            )
        found.append(
            float(out.itm_score[0, 1] - out.itm_score[0, 0])
            if blip
            else float(out.logits_per_image)
        )
    return found


def test_scores_are_the_models_own_logits(
    folder: Path, pictures: Pictures, requests: list[Request]
) -> None:
    [response] = opened(folder).loglikelihood(requests[2:3], pictures)
    expected = own_logits(folder, Image.new("RGB", (40, 30), "blue"), list(OPTIONS))
    assert [score.sum for score in response.scores] == pytest.approx(expected, abs=1e-4)
    assert {(score.tokens, score.bytes) for score in response.scores} == {(1, 1)}
    assert response.notes == (LOGITS,)


def test_scores_do_not_depend_on_what_is_asked_together(
    folder: Path, pictures: Pictures, requests: list[Request]
) -> None:
    alone = [
        scores(opened(folder, "?batch_size=1"), [request], pictures)[0] for request in requests
    ]
    model = opened(folder, "?batch_size=3")
    for together in (
        scores(model, requests, pictures),
        scores(model, requests[::-1], pictures)[::-1],
    ):
        for one, other in zip(alone, together, strict=True):
            assert one == pytest.approx(other, abs=1e-5)


def test_a_picture_is_encoded_once_and_matters(
    folder: Path, pictures: Pictures, requests: list[Request]
) -> None:
    class Counting(Pictures):
        count = 0

        def read(self, image: Any) -> bytes:
            self.count += 1
            return super().read(image)

    counted = Counting(pictures)
    model = opened(folder)
    first = scores(model, requests, counted)
    assert scores(model, requests, counted) == first
    assert counted.count == 3
    assert first[0] != pytest.approx(first[1][:2], abs=1e-4)


def test_options_go_into_the_caption_that_is_asked_for(folder: Path, pictures: Pictures) -> None:
    shown = pictures.add("red")
    captioned = opened(folder, "?text=a photo of {option}")
    [by_caption] = scores(captioned, [ask("?", shown, continuations=("red", "no"))], pictures)
    [by_hand] = scores(
        opened(folder),
        [ask("?", shown, continuations=("a photo of red", "a photo of no"))],
        pictures,
    )
    assert by_caption == pytest.approx(by_hand, abs=1e-6)
    assert captioned.fingerprint()["text"] == "a photo of {option}"


def test_what_cannot_be_scored_fails_alone(folder: Path, pictures: Pictures) -> None:
    one, two = pictures.add("red"), pictures.add("blue")
    long = ask("?", one, continuations=("red " * 50, "no"))
    responses = opened(folder).loglikelihood(
        [ask("?", continuations=("a", "b")), ask("?", one, two, continuations=("a", "b")), long],
        pictures,
    )
    assert [response.error and response.error.kind for response in responses] == [
        "bad_request",
        "bad_request",
        None,
    ]
    assert responses[2].notes == (LOGITS, CUT)


def test_a_scorer_runs_the_likelihood_protocol_and_no_other(
    folder: Path, make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    benchmark = str(make(rows(6)).folder)
    results = snellen.evaluate(f"clip:{folder}", benchmark, "likelihood", runs=tmp_path, name="run")
    chosen = {
        rule: snellen.score(tmp_path / "run", likelihood_rule=rule).value(
            "accuracy", benchmark="mine"
        )
        for rule in ("mean", "byte")
    }
    assert set(chosen.values()) == {results.value("accuracy", benchmark="mine")}
    with pytest.raises(ModelError, match="only scores options, but vanilla needs replies"):
        snellen.evaluate(f"clip:{folder}", benchmark, "vanilla", runs=tmp_path)


@pytest.mark.parametrize(
    ("query", "words"),
    [("?text=a photo", r"has no \{option\}"), ("?batch_size=0", "batch_size"), ("?txt=x", "text")],
)
def test_options_that_make_no_sense_are_one_line(query: str, words: str, tmp_path: Path) -> None:
    with pytest.raises((ModelError, snellen.UnknownNameError), match=words):
        load_model(f"clip:{tmp_path}{query}")


def test_a_model_that_does_not_compare_is_refused(tmp_path: Path) -> None:
    tf.BertModel(tf.BertConfig(**{**WORDS, "type_vocab_size": 2})).save_pretrained(tmp_path)
    byte_level(SPECIALS).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="BertModel does not compare images with texts"):
        load_model(f"clip:{tmp_path}")


def test_odd_requests_fail_alone_and_control_tokens_are_text(
    folder: Path, pictures: Pictures
) -> None:
    model, red, blue = opened(folder), pictures.add("red"), pictures.add("blue")
    broken = replace(red, digest="1" * 64)
    pictures[broken.digest] = b"no image"
    good = ask("Which?", red, continuations=("red", "< eos>"))
    asked = [
        good,
        ask("Which?", broken, continuations=OPTIONS),
        ask("Which?", blue, continuations=()),
    ]
    first, unread, empty = model.loglikelihood(asked, pictures)
    [spelled] = model.loglikelihood([ask("Which?", red, continuations=("red", "<eos>"))], pictures)
    assert first.error is None
    assert first.scores == spelled.scores
    assert [reply.error and reply.error.kind for reply in (unread, empty)] == ["bad_request"] * 2
    assert empty.error is not None
    assert empty.error.detail == "the request has no continuations; there is nothing to score"


def test_pictures_are_embedded_as_directions_that_say_which_are_alike(
    folder: Path, tmp_path: Path
) -> None:
    for name, colour in {
        "cherry": (250, 0, 20),
        "tomato": (240, 10, 10),
        "sky": (20, 90, 250),
    }.items():
        for number in range(2):
            place = tmp_path / "photos" / name / f"{number}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            picture = Image.new("RGB", (32, 32), colour)
            picture.paste(
                "white",
                (ord(name[0]) % 20, 4 + 14 * number, ord(name[0]) % 20 + 10, 14 + 14 * number),
            )
            picture.save(place)
    settings: dict[str, Any] = {
        "options": 2,
        "distractors": "near-image",
        "embeddings": f"clip:{folder}",
    }
    if folder.name.startswith("blip"):
        with pytest.raises(ModelError, match="cannot embed images; use a CLIP or SigLIP"):
            snellen.reform(tmp_path / "photos", to=tmp_path / "built", **settings)
        return
    contents = [
        (tmp_path / "photos" / name / "0.png").read_bytes() for name in ("cherry", "tomato", "sky")
    ]
    cherry, tomato, sky = opened(folder).embed_images(contents)
    assert abs(float(cherry @ cherry) - 1) < 1e-4 and cherry @ tomato > cherry @ sky
    benchmark = snellen.reform(tmp_path / "photos", to=tmp_path / "built", **settings)
    shown = [
        set(sample.options) for sample in benchmark.samples() if sample.id.startswith("cherry")
    ]
    assert shown == [{"cherry", "tomato"}] * 2
    assert benchmark.manifest.build_info.recipe["embeddings"] == f"clip:{folder}"
