"""Settings of processors in model strings: they change what the model sees, and none is ignored in silence."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import transformers
from PIL import Image

import snellen as sn
from snellen.models.base import Model
from snellen.models.hf.load import package_named
from snellen.models.hf.processor_settings import load_processor
from snellen.models.loading import load_model
from snellen.models.model_strings import model_string, parse_spec
from tiny_archs import Pictures, ask, save

PICTURES = Pictures()
IMAGE = PICTURES.add("red")
QWEN = parse_spec("hf:Qwen/Qwen2.5-VL-3B-Instruct")


def prompt_tokens(model: Model) -> int:
    [reply] = model.generate([ask("What colour is it?", IMAGE)], PICTURES)
    assert reply.error is None
    assert reply.usage is not None
    return reply.usage.prompt_tokens


def test_a_setting_of_the_processor_changes_the_prompt_and_the_fingerprint(tmp_path: Path) -> None:
    folder = save("Idefics3", tmp_path)
    plain = load_model(f"hf:{folder}")
    string = model_string(f"hf:{folder}", processor_kwargs={"do_image_splitting": False})
    whole: Any = load_model(string)
    assert prompt_tokens(whole) < prompt_tokens(plain)  # type: ignore[arg-type]
    assert whole.fingerprint()["processor settings"] == '{"do_image_splitting":false}'
    assert "processor settings" not in plain.fingerprint()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "option", ["max_pixels=3136", 'processor_kwargs={"do_image_spliting":false}']
)
def test_a_setting_that_the_processor_does_not_have_is_refused(option: str) -> None:
    string = f"hf:{sn.tiny_checkpoint()}?{option}"
    with pytest.raises(
        sn.SnellenError, match=r"has no effect on \w+; its settings are .*do_resize"
    ):
        load_model(string)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('{"trust_remote_code":true}', "'trust_remote_code' is no setting of the processor"),
        ('{"tokenizer":"mine"}', "'tokenizer' is no setting of the processor"),
        ('{"do_resize":"no"}', "Validation error for field 'do_resize'"),
    ],
)
def test_what_no_processor_takes_is_refused_in_a_line(settings: str, message: str) -> None:
    with pytest.raises(sn.SnellenError, match=message) as caught:
        load_model(f"hf:{sn.tiny_checkpoint()}?processor_kwargs={settings}")
    assert "\n" not in str(caught.value)


def test_a_model_of_text_alone_takes_no_settings_of_images(tmp_path: Path) -> None:
    transformers.GPT2Config().save_pretrained(tmp_path)
    with pytest.raises(sn.SnellenError, match=r"reads text alone .* leave out max_pixels"):
        load_model(f"hf:{tmp_path}?max_pixels=3136")


def test_pixel_bounds_of_qwen_set_the_size_of_an_image(tmp_path: Path) -> None:
    # A whole Qwen processor needs torchvision for videos; its image processor does not.
    transformers.Qwen2VLImageProcessorPil().save_pretrained(tmp_path)
    image = Image.new("RGB", (640, 480))

    def patches(**settings: int) -> list[int]:
        processor = load_processor(QWEN, str(tmp_path), settings, {})
        return processor(image, return_tensors="pt")["image_grid_thw"][0].tolist()

    assert patches() == [1, 34, 46]
    assert patches(max_pixels=3136) == [1, 2, 4]  # 56 by 28 pixels
    assert patches(min_pixels=12544, max_pixels=12544) == [1, 6, 8]  # 112 by 84
    with pytest.raises(sn.SnellenError, match="'max_pixel' has no effect"):
        patches(max_pixel=3136)


def test_a_setting_that_equals_the_checkpoints_is_no_fault(tmp_path: Path) -> None:
    transformers.Qwen2VLImageProcessorPil().save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "preprocessor_config.json").read_text())
    processor = load_processor(QWEN, str(tmp_path), {"patch_size": stored["patch_size"]}, {})
    assert processor.patch_size == stored["patch_size"]


def test_a_folder_without_a_processor_says_how_to_save_it(tmp_path: Path) -> None:
    whole = save("LLaVA", tmp_path / "whole")
    weights = tmp_path / "weights"
    weights.mkdir()
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        shutil.copy(whole / name, weights / name)
    how = rf"save it with processor.save_pretrained\('{weights}'\), or copy it from the base model$"
    with pytest.raises(
        sn.SnellenError, match=rf"has no processor \(preprocessor_config.json, tokenizer\); {how}"
    ):
        load_model(f"hf:{weights}")
    shutil.copy(whole / "processor_config.json", weights)
    with pytest.raises(
        sn.SnellenError, match=rf"lacks a part of the processor \(tokenizer\); {how}"
    ):
        load_model(f"hf:{weights}")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(whole / name, weights / name)
    load_model(f"hf:{weights}")


def test_a_model_of_text_alone_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    transformers.GPT2Config().save_pretrained(tmp_path)
    with pytest.raises(sn.SnellenError, match=r"has no tokenizer; save it with tokenizer\.save_"):
        load_model(f"hf:{tmp_path}")


@pytest.mark.skipif(find_spec("torchvision") is not None, reason="waits for none of torchvision")
def test_a_model_that_needs_torchvision_names_it(tmp_path: Path) -> None:
    save("LLaVA", tmp_path)
    (tmp_path / "processor_config.json").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "qwen2_vl"}')
    (tmp_path / "preprocessor_config.json").write_text('{"processor_class": "Qwen2VLProcessor"}')
    with pytest.raises(sn.SnellenError, match=r"needs torchvision: pip install torchvision$"):
        load_model(f"hf:{tmp_path}")


@pytest.mark.parametrize(
    ("message", "packages"),
    [
        # As transformers 5.23 writes them.
        ("\nX requires the Torchvision library but it was not found", "torchvision"),
        ("Package `num2words` is required. Install it with `pip install num2words`.", "num2words"),
        (
            "not found in your environment: einops, timm. Run `pip install einops timm`",
            "einops timm",
        ),
        ("X requires the OpenCV library\n```\npip install opencv-python\n```", "opencv-python"),
        ("cannot import name 'nothing' from 'transformers'", ""),
    ],
)
def test_the_package_that_transformers_asks_for_is_found(message: str, packages: str) -> None:
    assert package_named(ImportError(message)) == packages
