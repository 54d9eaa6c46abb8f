"""Language models without eyes: other roles of a run are theirs, a question about a picture is not."""

from __future__ import annotations

from typing import Any


class TextProcessor:
    """A tokenizer in the place of a processor."""

    image_processor = None

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, *, text: str, images: Any = None, **settings: Any) -> Any:
        """The text as tensors. Raises ValueError for pictures."""
        if images:
            raise ValueError("this model reads text alone, and the request has a picture")
        return self.tokenizer(text, **settings)


def reads_text_alone(transformers: Any, target: str, common: dict[str, Any]) -> bool:
    """Whether a repository or folder holds a causal language model that is no image-text-to-text model."""
    kind = type(transformers.AutoConfig.from_pretrained(target, **common))
    sees = kind in transformers.AutoModelForImageTextToText._model_mapping
    return not sees and kind in transformers.AutoModelForCausalLM._model_mapping
