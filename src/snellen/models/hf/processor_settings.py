"""Load a processor with the user's settings, such as `max_pixels`, and make sure that they have an effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.errors import ModelError
from snellen.models.model_strings import ModelSpec

_PARTS = ("image_processor", "video_processor", "tokenizer", "feature_extractor")
_OF_LOADING = frozenset(
    "pretrained_model_name_or_path trust_remote_code revision code_revision token cache_dir subfolder force_download "
    "local_files_only config".split()
)
"""Arguments of `from_pretrained` that say what is loaded, and from where. The model string has options of its own."""

TOKENIZER = "tokenizer"
_IMAGE_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
    "tokenizer_config.json",
)
"""Files that a processor is loaded from, by part. One of each part is enough."""


def load_processor(
    spec: ModelSpec, target: str, settings: Mapping[str, Any], common: Mapping[str, Any]
) -> Any:
    """Load the processor of a checkpoint.

    transformers ignores a setting that a processor does not have, so that a misspelt `max_pixel` would leave the images
    as they were. Such a setting is refused here.

    Args:
        spec: The model string, for errors.
        target: Folder or repository of the checkpoint.
        settings: Values that replace those of the checkpoint.
        common: Further arguments of `from_pretrained`, such as `revision`.

    Raises:
        ModelError: The folder lacks the processor or a part of it, a setting has no effect on it, or is none of a processor.
    """
    from transformers import AutoProcessor

    for name in settings:
        if name in _OF_LOADING or name in _PARTS:
            raise ModelError(f"{spec.text}: {name!r} is no setting of the processor; leave it out")
    try:
        processor = AutoProcessor.from_pretrained(target, **settings, **common)
    except (ImportError, OSError, ValueError, KeyError) as error:
        absent = absent_of_processor(target)
        if not absent:
            raise
        raise without_processor(spec, target, absent) from error
    except TypeError as error:
        if not settings:
            raise
        reason = " ".join(str(error).split())
        raise ModelError(
            f"{spec.text}: the processor does not take the settings {dict(settings)} ({reason})"
        ) from error
    # Without its files, transformers makes some tokenizers of nothing, and they know no word.
    if getattr(processor, "tokenizer", None) is not None and TOKENIZER in absent_of_processor(
        target
    ):
        raise without_processor(spec, target, [TOKENIZER])
    for name, value in settings.items():
        if _has_setting(processor, name, value):
            continue
        others = {other: kept for other, kept in settings.items() if other != name}
        without = AutoProcessor.from_pretrained(target, **others, **common)
        if _state(without) == _state(processor):
            raise ModelError(_without_effect(spec, processor, name))
    return processor


def absent_of_processor(target: str) -> list[str]:
    """Return what a folder lacks of a processor, such as after `model.save_pretrained`, which writes none of it.

    Args:
        target: A checkpoint. Of a repository on the hub, nothing is said to be absent.
    """
    folder = Path(target)
    if not folder.is_dir():
        return []
    names = {path.name for path in folder.iterdir()}
    absent: list[str] = []
    if names.isdisjoint(_IMAGE_PROCESSOR_FILES):
        absent.append(_IMAGE_PROCESSOR_FILES[0])
    if names.isdisjoint(_TOKENIZER_FILES):
        absent.append(TOKENIZER)
    return absent


def without_processor(spec: ModelSpec, target: str, absent: Sequence[str]) -> ModelError:
    """Return the error for a folder that lacks a processor or a part of it."""
    has_none = len(absent) > 1
    fault = "has no processor" if has_none else "lacks a part of the processor"
    files = ", ".join(absent)
    return ModelError(
        f"{spec.text}: {target} {fault} ({files}); save it with processor.save_pretrained({target!r}), or copy it from "
        "the base model"
    )


def _parts(processor: Any) -> list[Any]:
    """Return a processor and the processors inside it, such as that of images."""
    parts = [processor]
    for name in _PARTS:
        part = getattr(processor, name, None)
        if part is not None:
            parts.append(part)
    return parts


def _has_setting(processor: Any, name: str, value: Any) -> bool:
    """Return whether a part of the processor has an attribute of this name and value."""
    missing = object()
    return any(getattr(part, name, missing) == value for part in _parts(processor))


def _state(processor: Any) -> list[Any]:
    """Return the settings of a processor and the processors inside it."""
    return [part.to_dict() for part in _parts(processor) if hasattr(part, "to_dict")]


def _without_effect(spec: ModelSpec, processor: Any, name: str) -> str:
    """Return the error message for a setting that has no effect, with the settings that the image processor has."""
    image_processor = getattr(processor, "image_processor", processor)
    settings = image_processor.to_dict() if hasattr(image_processor, "to_dict") else {}
    known = []
    for setting, value in sorted(settings.items()):
        if value is not None and not setting.endswith(("_type", "_class")):
            known.append(setting)
    return (
        f"{spec.text}: the processor setting {name!r} has no effect on {type(image_processor).__name__}; "
        f"its settings are {', '.join(known)}"
    )
