"""Small random models of every architecture that the white-box paths are proved on, and inputs made by hand.

No processors and no network: a model and the encoded beginning of a prompt, image included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import transformers as tf

from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, extend

# Waking threads takes longer than a forward of these models, much longer on busy cores.
torch.set_num_threads(1)

VOCABULARY, WIDTH, IMAGE = 600, 64, 5
PER_TOKEN = frozenset(
    {"token_type_ids", "mm_token_type_ids", "cross_attention_mask", "image_embeds_position_mask"}
)
"""Of the inputs made by hand here, those with one entry per token."""
Made = tuple[Any, EncodedPrompt]
CLIP: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MROPE = {"rope_type": "default", "type": "mrope", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(seed: int, count: int) -> tuple[int, ...]:
    return tuple(
        torch.randint(
            10, VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed)
        ).tolist()
    )


def begun(
    images: int, before: int = 3, after: tuple[int, ...] = (), **extras: Any
) -> EncodedPrompt:
    """A prompt up to and with its image: `before` tokens of text, `images` tokens of image, `after`."""
    ids = (*tokens(0, before), *(IMAGE,) * images, *after)
    return EncodedPrompt(ids, extras, ("cat",), per_token=PER_TOKEN & extras.keys())


def sharpen(model: Any) -> Any:
    """Large random weights: with small ones all tokens are equally likely and equality proves nothing."""
    generator = torch.Generator().manual_seed(0)
    for name, values in model.named_parameters():
        if values.ndim > 1:
            # Through kernels of a few weights, such as those for a single channel, an image would fade away.
            kernel = values.ndim == 4
            values.data.normal_(
                0, max(0.12, values[0].numel() ** -0.5) if kernel else 0.12, generator=generator
            )
        elif "norm" not in name and "bias" in name:
            values.data.normal_(0, 0.05, generator=generator)
        elif "gate" in name or ("norm" not in name and not values.any()):
            # Gates that begin closed, as Idefics' do, would hide the image.
            values.data.fill_(0.7)
    return model.eval()


def asked(head: EncodedPrompt) -> list[ContinuedPrompt]:
    """Two questions of unequal length and a third equal in length about one image, one about another.

    Continuations have 1, 3 and 5 tokens.
    """
    made = []
    for seed, (picture, length) in enumerate([("cat", 9), ("cat", 14), ("dog", 9), ("cat", 9)]):
        question = extend(head, tokens(10 + seed, length))
        extras = dict(question.extras)
        if picture == "dog":
            extras["pixel_values"] = normal(50, *extras["pixel_values"].shape)
        if "qformer_input_ids" in extras:
            words = torch.tensor([tokens(60 + seed, 6 + seed)])
            extras |= {"qformer_input_ids": words, "qformer_attention_mask": torch.ones_like(words)}
        tails = tuple(tokens(20 + 4 * seed + i, count) for i, count in enumerate((1, 3, 5)))
        made.append(ContinuedPrompt(replace(question, extras=extras, digests=(picture,)), tails))
    return made


def llava() -> Made:
    config = tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**CLIP),
        text_config=tf.LlamaConfig(**TEXT),
        image_token_index=IMAGE,
        vision_feature_select_strategy="default",
        vision_feature_layer=-2,
    )
    return tf.LlavaForConditionalGeneration(config), begun(16, pixel_values=normal(1, 1, 3, 32, 32))


def llava_next() -> Made:
    config = tf.LlavaNextConfig(
        vision_config=tf.CLIPVisionConfig(**CLIP),
        text_config=tf.LlamaConfig(**TEXT),
        image_token_index=IMAGE,
        image_grid_pinpoints=[[32, 32], [64, 32]],
        vision_feature_select_strategy="default",
    )
    head = begun(
        16 + 16 + 4, pixel_values=normal(1, 1, 2, 3, 32, 32), image_sizes=torch.tensor([[32, 32]])
    )
    return tf.LlavaNextForConditionalGeneration(config), head


def llava_onevision() -> Made:
    config = tf.LlavaOnevisionConfig(
        vision_config=tf.SiglipVisionConfig(**CLIP, vision_use_head=False),
        text_config=tf.Qwen2Config(**TEXT),
        image_token_index=IMAGE,
        video_token_index=6,
        image_grid_pinpoints=[[32, 32]],
        vision_aspect_ratio="anyres_max_9",
    )
    head = begun(
        16 + 16 + 4,
        pixel_values=normal(1, 1, 2, 3, 32, 32),
        image_sizes=torch.tensor([[32, 32]]),
        batch_num_images=torch.tensor([1]),
    )
    return tf.LlavaOnevisionForConditionalGeneration(config), head


def _qwen(config: Any, model: Any, vision: dict[str, Any], **text: Any) -> Made:
    ids = (*tokens(0, 2), 3, *(IMAGE,) * 8, 4)
    kinds = torch.tensor([[int(token == IMAGE) for token in ids]])
    extras = {
        "pixel_values": normal(2, 32, 3 * 2 * 8 * 8),
        "image_grid_thw": torch.tensor([[1, 4, 8]]),
        "mm_token_type_ids": kinds,
    }
    shape = {
        "depth": 2,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "num_heads": 4,
    }
    settings = config(
        text_config={**TEXT, "rope_parameters": MROPE, **text},
        vision_config={**shape, **vision},
        image_token_id=IMAGE,
        video_token_id=6,
        vision_start_token_id=3,
        vision_end_token_id=4,
    )
    return model(settings), EncodedPrompt(
        ids, extras, ("cat",), per_token=PER_TOKEN & extras.keys()
    )


def qwen2_vl() -> Made:
    vision = {"embed_dim": 32, "hidden_size": WIDTH, "mlp_ratio": 2}
    return _qwen(tf.Qwen2VLConfig, tf.Qwen2VLForConditionalGeneration, vision)


def qwen2_5_vl() -> Made:
    vision = {
        "hidden_size": 32,
        "out_hidden_size": WIDTH,
        "intermediate_size": 64,
        "window_size": 32,
        "fullatt_block_indexes": [1],
    }
    return _qwen(tf.Qwen2_5_VLConfig, tf.Qwen2_5_VLForConditionalGeneration, vision)


def qwen3_vl() -> Made:
    vision = {
        "hidden_size": 32,
        "out_hidden_size": WIDTH,
        "intermediate_size": 64,
        "deepstack_visual_indexes": [0, 1],
        "num_position_embeddings": 64,
    }
    return _qwen(tf.Qwen3VLConfig, tf.Qwen3VLForConditionalGeneration, vision, head_dim=16)


def idefics2() -> Made:
    config = tf.Idefics2Config(
        vision_config=CLIP,
        perceiver_config={
            "hidden_size": WIDTH,
            "resampler_n_latents": 6,
            "resampler_depth": 2,
            "resampler_n_heads": 4,
            "resampler_head_dim": 16,
            "num_key_value_heads": 2,
        },
        text_config=tf.MistralConfig(**TEXT, sliding_window=None),
        image_token_id=IMAGE,
    )
    seen = torch.ones(1, 1, 32, 32, dtype=torch.long)
    head = begun(6, pixel_values=normal(1, 1, 1, 3, 32, 32), pixel_attention_mask=seen)
    return tf.Idefics2ForConditionalGeneration(config), head


def _idefics3(config: Any, model: Any) -> Made:
    settings = config(
        vision_config=CLIP,
        text_config=tf.LlamaConfig(**TEXT),
        image_token_id=IMAGE,
        scale_factor=2,
        pad_token_id=0,
    )
    seen = torch.ones(1, 3, 32, 32, dtype=torch.long)
    return model(settings), begun(
        12, pixel_values=normal(3, 1, 3, 3, 32, 32), pixel_attention_mask=seen
    )


def idefics3() -> Made:
    return _idefics3(tf.Idefics3Config, tf.Idefics3ForConditionalGeneration)


def smolvlm() -> Made:
    return _idefics3(tf.SmolVLMConfig, tf.SmolVLMForConditionalGeneration)


def internvl() -> Made:
    config = tf.InternVLConfig(
        vision_config={**CLIP, "image_size": [32, 32], "patch_size": [8, 8]},
        text_config=tf.Qwen2Config(**TEXT),
        image_token_id=IMAGE,
        downsample_ratio=0.5,
    )
    return tf.InternVLForConditionalGeneration(config), begun(
        4, pixel_values=normal(1, 1, 3, 32, 32)
    )


def paligemma() -> Made:
    config = tf.PaliGemmaConfig(
        vision_config=tf.SiglipVisionConfig(**CLIP, projection_dim=WIDTH, vision_use_head=False),
        text_config=tf.GemmaConfig(**{**TEXT, "num_key_value_heads": 1}, head_dim=16),
        image_token_index=IMAGE,
        projection_dim=WIDTH,
        hidden_size=WIDTH,
    )
    head = begun(
        16,
        0,
        pixel_values=normal(1, 1, 3, 32, 32),
        token_type_ids=torch.zeros(1, 16, dtype=torch.long),
    )
    return tf.PaliGemmaForConditionalGeneration(config), head


def gemma3() -> Made:
    config = tf.Gemma3Config(
        vision_config=tf.SiglipVisionConfig(**CLIP, vision_use_head=False),
        text_config=tf.Gemma3TextConfig(
            **{**TEXT, "num_key_value_heads": 1},
            layer_types=["sliding_attention", "full_attention"],
            head_dim=16,
            sliding_window=16,
        ),
        image_token_index=IMAGE,
        mm_tokens_per_image=4,
        boi_token_index=3,
        eoi_token_index=4,
    )
    kinds = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    return tf.Gemma3ForConditionalGeneration(config), begun(
        4, pixel_values=normal(1, 1, 3, 32, 32), token_type_ids=kinds
    )


def mllama() -> Made:
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_global_layers": 1,
        "attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
        "max_num_tiles": 1,
        "supported_aspect_ratios": [[1, 1]],
        "intermediate_layers_indices": [0],
        "vision_output_dim": 64,
    }
    text = {**TEXT, "num_hidden_layers": 3, "cross_attention_layers": [1]}
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    config = tf.MllamaConfig(vision_config=vision, text_config=text, image_token_index=VOCABULARY)
    head = begun(
        0,
        after=(VOCABULARY,),
        pixel_values=normal(1, 1, 1, 1, 3, 32, 32),
        aspect_ratio_ids=torch.tensor([[1]]),
        aspect_ratio_mask=torch.ones(1, 1, 1, dtype=torch.long),
        cross_attention_mask=torch.ones(1, 4, 1, 1, dtype=torch.long),
    )
    return tf.MllamaForConditionalGeneration(config), head


def _blip2(config: Any, model: Any, text: dict[str, Any], instruct: bool = False) -> Made:
    reader = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "encoder_hidden_size": 32,
        "cross_attention_frequency": 1,
    }
    settings = config(
        vision_config=CLIP,
        qformer_config=reader,
        text_config=text,
        num_query_tokens=4,
        image_token_index=IMAGE,
    )
    extras = {"pixel_values": normal(1, 1, 3, 32, 32)}
    if instruct:
        extras |= {"qformer_input_ids": torch.tensor([tokens(5, 9)])}
        extras |= {"qformer_attention_mask": torch.ones(1, 9, dtype=torch.long)}
    return model(settings), begun(4, 0, **extras)


OPT = {
    "model_type": "opt",
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "word_embed_proj_dim": WIDTH,
    "ffn_dim": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
T5 = {
    "model_type": "t5",
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
    "feed_forward_proj": "gated-gelu",
}


def blip2_opt() -> Made:
    return _blip2(tf.Blip2Config, tf.Blip2ForConditionalGeneration, OPT)


def blip2_flan_t5() -> Made:
    return _blip2(tf.Blip2Config, tf.Blip2ForConditionalGeneration, T5)


def instructblip_vicuna() -> Made:
    vicuna = {**TEXT, "model_type": "llama"}
    return _blip2(
        tf.InstructBlipConfig, tf.InstructBlipForConditionalGeneration, vicuna, instruct=True
    )


def instructblip_flan_t5() -> Made:
    return _blip2(tf.InstructBlipConfig, tf.InstructBlipForConditionalGeneration, T5, instruct=True)


def kosmos2() -> Made:
    config = tf.Kosmos2Config(
        text_config={
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 256,
            "embed_dim": WIDTH,
            "layers": 2,
            "ffn_dim": 128,
            "attention_heads": 4,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "layerdrop": 0.0,
            "pad_token_id": 1,
            "bos_token_id": 0,
            "eos_token_id": 2,
        },
        vision_config=CLIP,
        latent_query_num=4,
    )
    places = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    head = begun(4, pixel_values=normal(1, 1, 3, 32, 32), image_embeds_position_mask=places)
    return tf.Kosmos2ForConditionalGeneration(config), head


def florence2() -> Made:
    vision = {
        "depths": (1, 1, 1, 1),
        "embed_dim": (8, 16, 16, 32),
        "num_heads": (2, 2, 2, 4),
        "num_groups": (2, 2, 2, 4),
        "window_size": 4,
        "projection_dim": WIDTH,
        "drop_path_rate": 0.0,
    }
    text = {
        "model_type": "bart",
        "vocab_size": VOCABULARY,
        "d_model": WIDTH,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
        "max_position_embeddings": 256,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    }
    config = tf.Florence2Config(vision_config=vision, text_config=text, image_token_id=IMAGE)
    # 64 pixels leave 2 x 2 places, and one more for their mean.
    return tf.Florence2ForConditionalGeneration(config), begun(
        5, 0, pixel_values=normal(1, 1, 3, 64, 64)
    )


def git() -> Made:
    text = {name: value for name, value in TEXT.items() if name != "num_key_value_heads"}
    config = tf.GitConfig(vision_config=CLIP, **text)
    return tf.GitForCausalLM(config), begun(0, pixel_values=normal(1, 1, 3, 32, 32))


ARCHITECTURES: dict[str, Callable[[], Made]] = {
    "LLaVA": llava,
    "LLaVA-NeXT": llava_next,
    "LLaVA-OneVision": llava_onevision,
    "Qwen2-VL": qwen2_vl,
    "Qwen2.5-VL": qwen2_5_vl,
    "Qwen3-VL": qwen3_vl,
    "Idefics2": idefics2,
    "Idefics3": idefics3,
    "SmolVLM": smolvlm,
    "InternVL": internvl,
    "PaliGemma": paligemma,
    "Gemma 3": gemma3,
    "Mllama": mllama,
    "BLIP-2 OPT": blip2_opt,
    "BLIP-2 FlanT5": blip2_flan_t5,
    "InstructBLIP Vicuna": instructblip_vicuna,
    "InstructBLIP FlanT5": instructblip_flan_t5,
    "Kosmos-2": kosmos2,
    "Florence-2": florence2,
    "GIT": git,
}


def make(name: str) -> Made:
    """The model called `name`, sharpened, with the beginning of a prompt."""
    torch.manual_seed(0)
    model, head = ARCHITECTURES[name]()
    return sharpen(model), head
