"""CLIP-like scorers: dual encoders of transformers (CLIP, SigLIP, SigLIP 2) and BLIP's image-text matching.

`clip:openai/clip-vit-base-patch32`, `clip:./folder`. They rank options but generate no text, so
they run only the likelihood protocols, as in LVLM-eHub's comparison on ARO (Table A.3). The question is ignored:
the text compared with the image is the option, inserted into the caption `?text=` if one is given
(`?text=a photo of {option}`).

A score is the model's logit of image and text: the scaled cosine (SigLIP: plus its bias), or for BLIP the
log-odds of its matching head. It is not a log-likelihood and has no length, so all rules order options
equally; `softmax` gives CLIP's zero-shot probabilities.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from snellen.common.decoding import decode_image
from snellen.common.images import Images
from snellen.errors import DataError, ModelError
from snellen.models.base import NO_CONTINUATIONS, ShownByName, failed
from snellen.models.hf.conversation import control_tokens, without_control_tokens
from snellen.models.hf.load import (
    HfOptions,
    LoadedModel,
    inference,
    load_pretrained,
    quiet_and_single_threaded,
)
from snellen.models.model_strings import ModelSpec
from snellen.models.options import read_options
from snellen.models.request_options import Dtype
from snellen.records import ContinuationScore, Request, RequestKind, Response

ADAPTER = "clip-2"
LOGITS = "scores are logits of image and text, not log-likelihoods"
CACHED_IMAGES, CACHED_TEXTS = 256, 8192
CUT = "an option was truncated to the maximum length of the text encoder"


class ClipOptions(Struct, frozen=True):
    """What may follow `?` in a clip: model string."""

    text: str = "{option}"
    """The caption into which an option is inserted."""
    dtype: Dtype = "auto"
    device: str = "auto"
    batch_size: Annotated[int, Meta(ge=1)] = 64
    """Images, texts or pairs per forward pass."""
    pickle: bool = False
    """Weights may be read from a pickle (`.bin`)."""


def open_clip(spec: ModelSpec) -> ClipModel:
    """The scorer that `clip:org/name[@revision]` or `clip:./folder` names, ready for use.

    Raises MissingExtraError without torch or transformers, ModelError when it cannot be loaded or is not a scorer.
    """
    options = read_options(spec, ClipOptions)
    if "{option}" not in options.text:
        raise ModelError(
            f"{spec.text}: text={options.text!r} has no {{option}}; write text=a photo of {{option}}"
        )
    return ClipModel(
        spec,
        load_pretrained(
            spec,
            HfOptions(dtype=options.dtype, device=options.device, pickle=options.pickle),
            _architecture,
        ),
        options,
    )


def _architecture(transformers: Any, target: str, common: dict[str, Any]) -> Any:
    """The class to load: transformers has no auto class for BLIP's matching head."""
    kind = transformers.AutoConfig.from_pretrained(target, **common).model_type
    return transformers.BlipForImageTextRetrieval if kind == "blip" else transformers.AutoModel


class ClipModel(ShownByName):
    """Ranks options; each image is encoded once, and so is each text in a dual encoder."""

    kinds: frozenset[RequestKind] = frozenset({"loglikelihood"})

    def __init__(self, spec: ModelSpec, loaded: LoadedModel, options: ClipOptions) -> None:
        self.name = spec.text
        self.batch_size = options.batch_size
        self._caption = options.text
        self._model, self._processor, self._facts = loaded.model, loaded.processor, loaded.facts
        self._scorer = _scorer(spec, loaded, options.batch_size)
        self._pictures: OrderedDict[str, Any] = OrderedDict()
        self._notes: dict[str, tuple[str, ...]] = {}
        self._controls = control_tokens(loaded.processor.tokenizer)

    def fingerprint(self) -> dict[str, str]:
        return {**self._facts, "adapter": ADAPTER, "text": self._caption}

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """One failure per request: a scorer cannot generate."""
        return [failed("model", "a clip: model only scores options") for _ in requests]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:

        with inference(), quiet_and_single_threaded(self._model):
            faults = self._look(requests, images)
            self._scorer.prepare(
                [self._caption_of(text) for request in requests for text in request.continuations]
            )
            responses = [self._score(request, faults) for request in requests]
        for cache, most in ((self._pictures, CACHED_IMAGES), (self._scorer.texts, CACHED_TEXTS)):
            while len(cache) > most:
                cache.popitem(last=False)
        return responses

    def embed_images(self, contents: Sequence[bytes]) -> Any:
        """Unit vectors of images, a row each. Raises ModelError where the model has none (BLIP's matching head)."""

        if not isinstance(self._scorer, DualEncoder):
            raise ModelError(f"{self.name}: cannot embed images; use a CLIP or SigLIP model")
        upright = [decode_image(content, "an image to embed").upright for content in contents]
        with inference(), quiet_and_single_threaded(self._model):
            pixels = self._processor.image_processor(images=upright, return_tensors="pt")
            return self._scorer.picture(_to_device(pixels, self._model)).float().cpu().numpy()

    def _caption_of(self, option: str) -> str:
        return self._caption.replace("{option}", without_control_tokens(option, self._controls))

    def _look(self, requests: Sequence[Request], images: Images) -> dict[str, str]:
        """Encode the images that are not cached. Returns the reasons for failures by digest."""
        pictures = {image.digest: image for request in requests for image in request.images}
        missing = [image for digest, image in pictures.items() if digest not in self._pictures]
        faults: dict[str, str] = {}
        for i in range(0, len(missing), self.batch_size):
            decoded = {}
            for image in missing[i : i + self.batch_size]:
                try:
                    picture = decode_image(images.read(image), f"image {image.digest[:12]}")
                    decoded[image.digest] = picture.upright
                    self._notes[image.digest] = picture.notes
                except (DataError, OSError, MemoryError) as error:
                    faults[image.digest] = f"{error}" or type(error).__name__
            faults.update(self._encode(decoded))
        return faults

    def _encode(self, decoded: dict[str, Any]) -> dict[str, str]:
        """Features of images; if a batch fails, of each image alone. Returns the reasons for failures by digest."""
        if not decoded:
            return {}
        try:
            pixels = self._processor.image_processor(
                images=list(decoded.values()), return_tensors="pt"
            )
            self._pictures.update(
                zip(decoded, self._scorer.picture(_to_device(pixels, self._model)), strict=True)
            )
        except (RuntimeError, ValueError, MemoryError) as error:
            if len(decoded) == 1:
                return dict.fromkeys(
                    decoded, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                )
            return {
                name: why
                for item in decoded.items()
                for name, why in self._encode(dict([item])).items()
            }
        return {}

    def _score(self, request: Request, faults: dict[str, str]) -> Response:
        if len(request.images) != 1:
            return failed(
                "bad_request",
                f"the request has {len(request.images)} images; a clip: model takes one",
            )
        if not request.continuations:
            return failed("bad_request", NO_CONTINUATIONS)
        digest = request.images[0].digest
        if digest in faults:
            return failed("bad_request", faults[digest])
        self._pictures.move_to_end(digest)
        texts = [self._caption_of(text) for text in request.continuations]
        logits = self._scorer.logits(self._pictures[digest], texts)
        notes = (LOGITS, CUT) if self._scorer.cut.intersection(texts) else (LOGITS,)
        return Response(
            scores=tuple(ContinuationScore(logit, 1, 1) for logit in logits),
            notes=(*notes, *self._notes[digest]),
        )


def _to_device(inputs: Any, model: Any) -> dict[str, Any]:
    placed = {name: values.to(model.device) for name, values in inputs.items()}
    return {
        n: values.to(model.dtype) if values.is_floating_point() else values
        for n, values in placed.items()
    }


class Scorer:
    """Base of the scorers: tokenises texts."""

    def __init__(self, loaded: LoadedModel, batch: int) -> None:
        self._model, self._tokenizer, self._batch = loaded.model, loaded.processor.tokenizer, batch
        config = loaded.model.config
        self._longest = int(config.text_config.max_position_embeddings)
        # SigLIP was trained on texts padded to full length, and reads the last token.
        self._full = config.model_type.startswith("siglip")
        self.texts: OrderedDict[str, Any] = OrderedDict()
        self.cut: set[str] = set()
        """Texts that were too long for the encoder."""

    def picture(self, pixels: dict[str, Any]) -> Any:
        """Features of images, one row each."""
        raise NotImplementedError

    def prepare(self, texts: Sequence[str]) -> None:
        """Encode texts in advance, where that does not need an image."""

    def logits(self, picture: Any, texts: Sequence[str]) -> list[float]:
        """One logit per text."""
        raise NotImplementedError

    def _tokens(self, texts: Sequence[str]) -> dict[str, Any]:
        self.cut.update(
            text for text in texts if len(self._tokenizer(text)["input_ids"]) > self._longest
        )
        fill: dict[str, Any] = {"padding": "max_length"} if self._full else {"padding": True}
        spelled = self._tokenizer(
            list(texts), truncation=True, max_length=self._longest, return_tensors="pt", **fill
        )
        return _to_device(
            {name: spelled[name] for name in ("input_ids", "attention_mask") if name in spelled},
            self._model,
        )


class DualEncoder(Scorer):
    """CLIP-like models: the scaled cosine of two embeddings."""

    def picture(self, pixels: dict[str, Any]) -> Any:
        return _direction(self._model.get_image_features(**pixels))

    def prepare(self, texts: Sequence[str]) -> None:
        missing = [text for text in dict.fromkeys(texts) if text not in self.texts]
        for i in range(0, len(missing), self._batch):
            batch = missing[i : i + self._batch]
            tokens = self._tokens(batch)
            if self._full:  # it attends to padding too, as in training
                tokens.pop("attention_mask", None)
            self.texts.update(
                zip(batch, _direction(self._model.get_text_features(**tokens)), strict=True)
            )

    def logits(self, picture: Any, texts: Sequence[str]) -> list[float]:
        import torch

        cosines = torch.stack([self.texts[text] for text in texts]) @ picture
        bias = getattr(self._model, "logit_bias", None)
        scaled = cosines * self._model.logit_scale.exp() + (0.0 if bias is None else bias)
        return [float(value) for value in scaled.float().flatten()]


class MatchingHead(Scorer):
    """BLIP: the text encoder attends to the image, and its head gives the log-odds of a match."""

    def picture(self, pixels: dict[str, Any]) -> Any:
        return self._model.vision_model(**pixels).last_hidden_state

    def logits(self, picture: Any, texts: Sequence[str]) -> list[float]:
        logits: list[float] = []
        for i in range(0, len(texts), self._batch):
            batch = texts[i : i + self._batch]
            expanded = picture.expand(len(batch), *picture.shape)
            hidden = self._model.text_encoder(
                **self._tokens(batch), encoder_hidden_states=expanded
            ).last_hidden_state
            no, yes = self._model.itm_head(hidden[:, 0, :]).float().unbind(-1)
            logits += (yes - no).tolist()
        return logits


def _direction(features: Any) -> Any:
    """Normalised embeddings; newer versions of transformers return a record that holds them."""
    embedded = getattr(features, "pooler_output", features)
    return embedded / embedded.norm(dim=-1, keepdim=True)


def _scorer(spec: ModelSpec, loaded: LoadedModel, batch: int) -> Scorer:
    if hasattr(loaded.model, "itm_head") and loaded.model.config.model_type == "blip":
        return MatchingHead(loaded, batch)
    if all(
        hasattr(loaded.model, name)
        for name in ("get_image_features", "get_text_features", "logit_scale")
    ):
        return DualEncoder(loaded, batch)
    raise ModelError(
        f"{spec.text}: {type(loaded.model).__name__} does not compare images with texts; use clip: for CLIP, "
        "SigLIP, SigLIP 2 and BLIP's matching head, and hf: for models that generate text"
    )
