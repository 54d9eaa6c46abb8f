"""Small random models of whatever transformers registers as image-text models, with their real processors.

Nothing here is written for one architecture but what `OVERRIDES` says. A tiny configuration is the default one with its
sizes shrunk by the names of the settings; a processor is the registered class with its Pillow image processor (or its
torchvision one, where there is no other) and a small tokenizer that has every token that the processor's code asks for.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
import transformers as tf
from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

from tiny_archs import CHAT, ROLES, byte_level, unigram, word_piece
from tiny_configs import sharpen

REGISTERED = tuple(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
PINPOINTS = [[32, 32], [64, 32]]
WIDTH, PATCH, SIDE, HEAD = 64, 8, 32, 16
TOKEN_SETTING = re.compile(r"^(\w*_token)_(?:id|index)$")
TOKEN_IN_CODE = re.compile(r"tokenizer\.(\w+_token)(?:_id)?\b|getattr\(tokenizer, \"(\w+_token)\"")
TOKEN_SPELLED = re.compile(r"[\"'](<[^\s\"'{}]+>|\[[A-Z_]+\]|\|[A-Z_]+\||\]<\][^\"']+)[\"']")
TOKEN_WRITTEN = re.compile(
    r"^ *(?:self\.)?(\w+_(?:token|TOKEN)) = \"(<[^\s\"{}]+>|\|[A-Z_]+\|)\"$", re.MULTILINE
)
IMPORTED_BY_CODE = re.compile(r"^ *from \.(image_processing_\w+) import", re.MULTILINE)
ORDINARY = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}

SIZES: tuple[tuple[str, int], ...] = (
    (r"^(num_)?(key_value|kv)_heads$|num_key_value_heads$|linear_num_key_heads|^n_groups$", 2),
    (
        r"(num|n)_(attention_|linear_|resampler_|conf_)?.*heads?$|_attention_heads$|^attention_heads$|_n_heads$|_heads$",
        4,
    ),
    (r"head_dim$|_head_dim$|^d_kv$|dim_head$|^ssm_state_size$|^d_rel$", HEAD),
    (r"qk_rope_head_dim|^rotary_dim$", 8),
    (r"experts_per_tok|moe_topk|moe_k$", 2),
    (r"shared_experts?$|num_shared_experts|^n_shared", 1),
    (r"(num|n)_.*experts$|num_experts$", 4),
    (r"^n_group$|^topk_group$", 1),
    (r"_topk$|sliding_window(_size)?$|attention_chunk_size", 16),
    (r"lora_rank$|lowrank$|laurel_rank$", 16),
    (
        r"^(num_hidden_layers|num_layers|n_layers|layers|depth|encoder_layers|decoder_layers|num_decoder_layers)$",
        2,
    ),
    (r"^max_position_embeddings$", 2048),
    (r"^image_size$|^resolution$", SIDE),
    (r"^(patch_size)$", PATCH),
    (r"intermediate_size|ffn_dim$|^d_ff$|mlp_dim$|ff_dim$|expert_dim$", 2 * WIDTH),
    (
        r"hidden_size$|^hidden_dim$|d_model$|^embed_dim$|embed_dim$|embed_proj_dim$|projection_dim$|projection_hidden_dim$|out(put)?_dim$",
        WIDTH,
    ),
    (r"(output|vision_output|input)_dim$|out_channels$|output_channels$|adapter_in", WIDTH),
    (r"^num_position_embeddings$|^num_patches$|^num_image_tokens$", (SIDE // PATCH) ** 2),
    (
        r"^mm_tokens_per_image$|soft_tokens_per_image$|^image_seq_length$|^num_query_tokens$|^latent_query_num$",
        4,
    ),
)
"""What settings of a size are shrunk to, by their names; the first that fits."""
PROCESSOR_SIZES = {
    "patch_size": PATCH,
    "img_size": SIDE,
    "image_seq_length": 4,
    "image_seq_len": 4,
    "num_query_tokens": 4,
    "num_image_tokens": (SIDE // PATCH) ** 2,
    "num_patch_index_tokens": 4,
    "downsample_factor": 2,
    "spatial_merge_size": 2,
    "vision_feature_select_strategy": "default",
    "num_additional_image_tokens": 1,
}
UNTOUCHED = re.compile(
    r"^out_channels$|in_channels|num_channels|chunk_size_feed_forward|hidden_size_per_layer_input_x"
)
INDEXES = re.compile(r"index|indices|idxs|_layers$|layer_id")


@dataclass(frozen=True)
class Overrides:
    """What the rules do not find for one architecture."""

    classes: tuple[str, str] | None = None
    """Processor and image processor, where none are registered; model cards name them."""

    config: dict[str, Any] = field(default_factory=dict)
    """Settings by dotted name."""
    image_processor: dict[str, Any] = field(default_factory=dict)
    processor: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    """What published image processors have beside their settings."""
    processor_attributes: dict[str, Any] = field(default_factory=dict)
    picture: str = ""
    """What the chat template writes for an image, where that is not the processor's token for it."""
    tokenizer: Literal["byte_level", "unigram"] = "byte_level"
    """Of which kind the small tokenizer is, where the processor's code relies on it."""
    vocabulary: dict[str, Any] = field(default_factory=dict)
    """The first of the tokens that images are written in, and how many, where images are tokens themselves."""
    reason: str = ""
    """Why it cannot be asked at all."""


with Path(__file__).with_suffix(".toml").open("rb") as _file:
    OVERRIDES = {name: Overrides(**settings) for name, settings in tomllib.load(_file).items()}


class CannotBuildError(Exception):
    """An architecture cannot be made small, or cannot be asked, for a reason that is said in a line."""


class NoVideo:
    """In the place of a video processor, which needs torchvision; an image does not go through it."""

    merge_size, temporal_patch_size, model_input_names = 2, 2, ()
    num_frames, fps = 8, 1


@dataclass(frozen=True)
class Small:
    """A small model with its processor."""

    model: Any
    processor: Any
    needs: str
    """What its processor needs besides Pillow; empty if nothing."""


def make_processor(
    name: str,
    tokens: Mapping[str, str],
    image_processor: Mapping[str, Any],
    processor: Mapping[str, Any],
) -> Any:
    """The processor of a model type with the settings of a published checkpoint, and a small tokenizer.

    Args:
        name: The model type.
        tokens: How the checkpoint spells tokens that the processor names, such as {"image_token": "<|image_pad|>"}.
        image_processor: Settings of its image processor; the defaults of its class elsewhere.
        processor: Settings of the processor itself.

    Raises CannotBuildError.
    """
    given = OVERRIDES.get(name, Overrides())
    given = replace(
        given, image_processor=dict(image_processor), processor={**given.processor, **processor}
    )
    settings = tf.CONFIG_MAPPING[name]().to_dict()
    made, _, _ = _processor(name, settings, given, tokens, shrinks=False)
    return made


def make_registered(name: str, tokens: Mapping[str, str] = MappingProxyType({})) -> Small:
    """The small model of type `name`; `tokens` are those of `make_processor`. Raises CannotBuildError."""
    given = OVERRIDES.get(name, Overrides())
    if given.reason:
        raise CannotBuildError(given.reason)
    kind = tf.CONFIG_MAPPING[name]
    settings = kind().to_dict()
    processor, needs, coded = _processor(name, settings, given, tokens)
    words = getattr(processor, "tokenizer", processor)
    small = shrunk(
        settings,
        lambda key: _token(key, (words, processor) if key in coded else (processor, words)),
        len(words),
    )
    architecture = sys.modules[tf.AutoModelForImageTextToText._model_mapping[kind].__module__]
    if "mrope_section" in inspect.getsource(architecture):
        _with_sections(small.get("text_config", small))
    if given.vocabulary:
        small |= _vocabulary(
            **given.vocabulary, words=len(words), image=_token("image_token", (processor, words))
        )
        _put(
            small,
            "text_config.vocab_size" if "text_config" in small else "vocab_size",
            len(words) + given.vocabulary["count"],
        )
    for path, value in given.config.items():
        spelled = isinstance(value, str) and value.startswith("token:")
        _put(
            small,
            path,
            words.convert_tokens_to_ids(value.removeprefix("token:")) if spelled else value,
        )
    config = kind.from_dict(small)
    torch.manual_seed(0)
    model = tf.AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    return Small(sharpen(model), processor, needs)


def shrunk(settings: dict[str, Any], token: Any, words: int) -> dict[str, Any]:
    """Settings with small sizes, and the ids of tokens by `token(name)`; a part of them is shrunk likewise."""
    layers = settings.get("num_hidden_layers")
    text = "vocab_size" in settings
    count = 4 if text else 2
    small: dict[str, Any] = {}
    if settings.get("kv_lora_rank"):
        settings = {**settings, "num_key_value_heads": None}
    rotary = 1.0
    for rope in (settings, settings.get("rope_parameters") or {}):
        rotary = rope.get("partial_rotary_factor") or rotary if isinstance(rope, dict) else rotary
    for key, value in settings.items():
        if key in (
            "id2label",
            "label2id",
            "transformers_version",
            "dtype",
            "architectures",
            "_name_or_path",
        ):
            continue
        if key == "per_layer_config" and (
            types := settings.get("layer_types") or settings.get("mlp_layer_types")
        ):
            kinds = {types[int(layer)]: part for layer, part in value.items()}
            small[key] = {
                i: shrunk(kinds[kind], token, words)
                for i, kind in enumerate(_cycled(types, count))
                if kind in kinds
            }
            continue
        if isinstance(value, dict):
            small[key] = (
                shrunk(value, token, words)
                if key.endswith(("_config", "encoder", "decoder"))
                else _rope(value, rotary)
            )
        elif value is None and re.match(r"image_token_(id|index)$", key):
            small[key] = token("image_token")
        elif isinstance(value, bool) or value is None:
            small[key] = value
        elif key == "image_grid_pinpoints":
            small[key] = PINPOINTS
        elif isinstance(value, (list, tuple)) and layers and len(value) == layers:
            small[key] = _cycled(value, count)
        elif (
            isinstance(value, (list, tuple))
            and value
            and INDEXES.search(key)
            and all(type(v) is int for v in value)
        ):
            small[key] = [0, 1] if not text else [1, 3]
        elif isinstance(value, int):
            small[key] = _number(key, value, token, words, count, rotary)
        else:
            small[key] = value
    if settings.get("kv_lora_rank"):
        # Compressed keys and values are those of all heads.
        small["num_key_value_heads"] = small["num_attention_heads"]
    return small


def _cycled(values: Any, count: int) -> list[Any]:
    """`count` values, in which each kind occurs."""
    kinds = list(dict.fromkeys(values))
    return [kinds[i % len(kinds)] for i in range(count)]


def _rope(value: dict[str, Any], rotary: float) -> dict[str, Any]:
    half = int((32 if rotary < 0.5 else HEAD) * value.get("partial_rotary_factor", rotary) / 2)
    made = {}
    for key, part in value.items():
        if isinstance(part, dict):
            made[key] = _rope(part, rotary)
        elif key == "mrope_section":
            rest = half // 3
            made[key] = (
                [half - 2 * rest, rest, rest] if len(part) == 3 else [half // len(part)] * len(part)
            )
        else:
            made[key] = part
    return made


def _with_sections(text: dict[str, Any]) -> None:
    """Rotary embeddings in three parts, for architectures that want them even if their defaults lack them."""
    rope = dict(text.get("rope_parameters") or {"rope_type": "default", "rope_theta": 10000.0})
    if "mrope_section" not in rope and all(not isinstance(value, dict) for value in rope.values()):
        rotary = rope.get("partial_rotary_factor") or text.get("partial_rotary_factor") or 1.0
        half = int((text.get("head_dim") or HEAD) * rotary / 2)
        text["rope_parameters"] = {
            **rope,
            "mrope_section": [half - 2 * (half // 3), half // 3, half // 3],
        }


def _number(key: str, value: int, token: Any, words: int, count: int, rotary: float) -> int:
    if found := TOKEN_SETTING.match(key):
        return token(found[1]) if value is not None else value
    if re.search(r"^vocab_size|vocab_size$", key):
        return words
    if key == "num_hidden_layers":
        return count
    if key == "head_dim" and rotary < 0.5:
        return 32
    if UNTOUCHED.search(key):
        return value
    for pattern, size in SIZES:
        if re.search(pattern, key):
            return min(value, size) if value >= 0 else value
    return value


def _token(name: str, owners: tuple[Any, ...]) -> int:
    """The id of a token, as the first of `owners`, a processor and a tokenizer, that knows it says; 0 if none does."""
    found = [getattr(owner, f"{name}_id", None) for owner in owners]
    words = next(owner for owner in owners if hasattr(owner, "convert_tokens_to_ids"))
    spelled = [str(getattr(owner, name)) for owner in owners if getattr(owner, name, None)]
    found += [words.convert_tokens_to_ids(text) for text in spelled]
    return next((number for number in found if isinstance(number, int)), 0)


def _vocabulary(first: str, count: int, words: int, image: int) -> dict[str, Any]:
    """The map from names to ids of tokens that images are written in: behind those of text."""
    if first.startswith("IMGIMG"):
        names = [
            "IMGIMG" + "".join(chr(ord("A") + int(digit)) for digit in str(i)) + "Z"
            for i in range(count)
        ]
    else:
        names = [first.replace("000000", f"{i:06d}") for i in range(count)]
    return {
        "vocabulary_map": {
            "<image>": image,
            "<|extra_200|>": 3,
            **{name: words + i for i, name in enumerate(names)},
        }
    }


def _put(settings: dict[str, Any], path: str, value: Any) -> None:
    *parts, last = path.split(".")
    for part in parts:
        settings = settings.setdefault(part, {})
    settings[last] = value


def _names(settings: dict[str, Any]) -> set[str]:
    """Names of the tokens that a configuration has ids of."""
    found = {match[1] for key in settings if (match := TOKEN_SETTING.match(str(key)))}
    for value in settings.values():
        if isinstance(value, dict):
            found |= _names(value)
    return found


def _processor(
    name: str,
    settings: dict[str, Any],
    given: Overrides,
    tokens: Mapping[str, str],
    *,
    shrinks: bool = True,
) -> tuple[Any, str, set[str]]:
    class_name = given.classes[0] if given.classes else PROCESSOR_MAPPING_NAMES.get(name)
    if class_name is None:
        raise CannotBuildError("no processor is registered for it")
    kind = getattr(tf, class_name)
    code = inspect.getsource(importlib.import_module(kind.__module__))
    coded = {first or second for first, second in TOKEN_IN_CODE.findall(code)}
    named = {
        part
        for part in coded | _names(settings)
        if part not in ORDINARY and not part.startswith("add_")
    }
    if "AddedToken(" in code and 'hasattr(tokenizer, "image_token")' in code:
        named.discard("image_token")
    written = {part.lower(): text for part, text in TOKEN_WRITTEN.findall(code)}
    extra = {
        part: tokens.get(part) or written.get(part, f"<|{part}|>")
        for part in sorted(named - {"mask_token", "cls_token", "sep_token"})
    }
    code += "".join(
        f'"{text}"'
        for name, text in vars(kind).items()
        if name.endswith("TOKEN") and isinstance(text, str)
    )
    spelled = sorted(set(TOKEN_SPELLED.findall(code)) - {*ORDINARY.values(), *extra.values()})
    words = {"byte_level": byte_level, "unigram": unigram}[given.tokenizer](
        [*ORDINARY.values(), *dict.fromkeys(extra.values()), *spelled, *ROLES],
        unk_token="<unk>",
        sep_token="<|end|>",
        extra_special_tokens=extra,
    )
    pixels, needs = _image_processor(name, given, shrinks=shrinks)
    needs = needs or _imported_by(kind, code)
    parts: dict[str, Any] = {"image_processor": pixels, "tokenizer": words}
    wanted = [
        p
        for p in inspect.signature(kind.__init__).parameters
        if p not in ("self", "kwargs", "args")
    ]
    parts = {part: value for part, value in parts.items() if part in wanted}
    form = kind
    if "video_processor" in wanted:
        parts["video_processor"], form, lacking = _video_processor(name, kind)
        needs = needs or lacking
    if "qformer_tokenizer" in wanted:
        parts["qformer_tokenizer"] = word_piece()
    sizes = PROCESSOR_SIZES | given.processor
    parts |= {part: value for part, value in sizes.items() if part in wanted}
    if "feature_extractor" in wanted:
        parts["feature_extractor"] = getattr(
            tf, sizes.get("feature_extractor") or FEATURE_EXTRACTOR_MAPPING_NAMES[name]
        )()
    made = form(**parts)
    for key, value in given.processor_attributes.items():
        setattr(made, key, value)
    if given.picture:
        made.chat_template = CHAT.replace("<image>", given.picture)
    return made, needs, coded


def _image_processor(name: str, given: Overrides, *, shrinks: bool) -> tuple[Any, str]:
    names = {"pil": given.classes[1]} if given.classes else IMAGE_PROCESSOR_MAPPING_NAMES.get(name)
    if not names:
        raise CannotBuildError("no image processor is registered for it")
    needs = (
        ""
        if names.get("pil", "").endswith(("Pil", "Emu3ImageProcessor", "VideoLlavaImageProcessor"))
        else "torchvision"
    )
    kind = getattr(tf, names.get("pil") or names["torchvision"], None)
    if kind is None:
        kind = _pil(names["pil"])
    if getattr(kind, "is_dummy", False):
        raise CannotBuildError("its processor needs torchvision")
    if not shrinks:
        return kind(**given.image_processor), needs
    small: dict[str, Any] = {}
    for key, value in kind().to_dict().items():
        if isinstance(value, dict) and key in (
            "size",
            "crop_size",
            "max_image_size",
            "high_res_size",
        ):
            small[key] = {
                side: _edge(length) for side, length in value.items() if length is not None
            }
        elif key == "image_grid_pinpoints":
            small[key] = PINPOINTS
        elif key == "patch_size" and isinstance(value, int):
            small[key] = PATCH
        elif key == "patch_size" and isinstance(value, dict):
            small[key] = dict.fromkeys(value, PATCH)
    made = kind(**(small | given.image_processor))
    for key, value in given.attributes.items():
        setattr(made, key, value)
    return made, needs


def _imported_by(kind: Any, code: str) -> str:
    """What a processor's `code` needs for the image processors that it imports by itself, as Pixtral's does."""
    package = kind.__module__.rpartition(".")[0]
    specs = [
        importlib.util.find_spec(f"{package}.{name}") for name in IMPORTED_BY_CODE.findall(code)
    ]
    needy = [
        spec
        for spec in specs
        if spec and "torchvision." in Path(str(spec.origin)).read_text(encoding="utf-8")
    ]
    return "torchvision" if needy else ""


def _edge(length: int) -> int:
    """Edges count pixels of a side in most processors, of the area in some."""
    return SIDE * SIDE if length > 2_000 else SIDE


def _pil(name: str) -> Any:
    raise CannotBuildError(f"{name} cannot be imported")


def _video_processor(name: str, kind: Any) -> tuple[Any, Any, str]:
    """A video processor for a processor class, where it can be made; else a stand-in that an image never meets."""
    try:
        importlib.import_module("torchvision")
        from transformers.models.auto.video_processing_auto import VIDEO_PROCESSOR_MAPPING_NAMES

        return (
            getattr(tf, VIDEO_PROCESSOR_MAPPING_NAMES[name]["torchvision"])(),
            kind,
            "torchvision",
        )
    except (ImportError, KeyError):
        form = type(
            kind.__name__, (kind,), {"check_argument_for_proper_class": lambda self, *_: None}
        )
        return NoVideo(), form, "torchvision"
