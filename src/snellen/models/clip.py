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
    """Load the scorer that `clip:org/name[@revision]` or `clip:./folder` names.

    Raises MissingExtraError without torch or transformers, ModelError when it cannot be loaded or is not a scorer.
    """
    options = read_options(spec, ClipOptions)
    if "{option}" not in options.text:
        raise ModelError(
            f"{spec.text}: text={options.text!r} has no {{option}}; write text=a photo of {{option}}"
        )
    loading_options = HfOptions(dtype=options.dtype, device=options.device, pickle=options.pickle)
    loaded = load_pretrained(spec, loading_options, _architecture)
    return ClipModel(spec, loaded, options)


def _architecture(transformers: Any, target: str, common: dict[str, Any]) -> Any:
    """Return the class to load: transformers has no auto class for BLIP's matching head.

    `common` are arguments of from_pretrained.
    """
    config = transformers.AutoConfig.from_pretrained(target, **common)
    if config.model_type == "blip":
        return transformers.BlipForImageTextRetrieval
    return transformers.AutoModel


class ClipModel(ShownByName):
    """Ranks options; each image is encoded once, and so is each text in a dual encoder."""

    kinds: frozenset[RequestKind] = frozenset({"loglikelihood"})

    def __init__(self, spec: ModelSpec, loaded: LoadedModel, options: ClipOptions) -> None:
        self.name = spec.text
        self.batch_size = options.batch_size
        self._caption = options.text
        self._model = loaded.model
        self._processor = loaded.processor
        self._facts = loaded.facts
        self._scorer = _scorer(spec, loaded, options.batch_size)
        self._features: OrderedDict[str, Any] = OrderedDict()
        """Features of images, by digest."""
        self._notes: dict[str, tuple[str, ...]] = {}
        self._controls = control_tokens(loaded.processor.tokenizer)

    def fingerprint(self) -> dict[str, str]:
        return {**self._facts, "adapter": ADAPTER, "text": self._caption}

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Return a failure for each request: this model only scores options and cannot generate."""
        return [failed("model", "a clip: model only scores options") for _ in requests]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Return a score for each option of each request: how well it describes the image."""
        captions = []
        for request in requests:
            captions.extend(self._caption_of(text) for text in request.continuations)
        with inference(), quiet_and_single_threaded(self._model):
            faults = self._encode_images(requests, images)
            self._scorer.prepare(captions)
            responses = [self._score(request, faults) for request in requests]
        _drop_oldest(self._features, CACHED_IMAGES)
        _drop_oldest(self._scorer.texts, CACHED_TEXTS)
        return responses

    def embed_images(self, contents: Sequence[bytes]) -> Any:
        """Return unit vectors of image files, a row each. Raises ModelError if the model has none (BLIP's matching head)."""
        if not isinstance(self._scorer, DualEncoder):
            raise ModelError(f"{self.name}: cannot embed images; use a CLIP or SigLIP model")
        decoded = [decode_image(content, "an image to embed").upright for content in contents]
        with inference(), quiet_and_single_threaded(self._model):
            features = self._features_of(decoded)
            return features.float().cpu().numpy()

    def _features_of(self, decoded: Sequence[Any]) -> Any:
        """Return the features of decoded images, a row each."""
        pixels = self._processor.image_processor(images=list(decoded), return_tensors="pt")
        return self._scorer.image_features(_to_device(pixels, self._model))

    def _caption_of(self, option: str) -> str:
        """Return the caption for an option, without control tokens."""
        text = without_control_tokens(option, self._controls)
        return self._caption.replace("{option}", text)

    def _encode_images(self, requests: Sequence[Request], images: Images) -> dict[str, str]:
        """Encode the images that are not cached. Returns why some failed, by digest."""
        missing = {}
        for request in requests:
            for image in request.images:
                if image.digest not in self._features:
                    missing[image.digest] = image
        missing_images = list(missing.values())
        faults: dict[str, str] = {}
        for start in range(0, len(missing_images), self.batch_size):
            decoded_by_digest = {}
            for image in missing_images[start : start + self.batch_size]:
                try:
                    decoded = decode_image(images.read(image), f"image {image.digest[:12]}")
                except (DataError, OSError, MemoryError) as error:
                    faults[image.digest] = f"{error}" or type(error).__name__
                    continue
                decoded_by_digest[image.digest] = decoded.upright
                self._notes[image.digest] = decoded.notes
            faults.update(self._encode(decoded_by_digest))
        return faults

    def _encode(self, decoded_by_digest: dict[str, Any]) -> dict[str, str]:
        """Cache the features of images. If a batch fails, each image is tried alone. Returns why some failed, by digest."""
        if not decoded_by_digest:
            return {}
        try:
            features = self._features_of(list(decoded_by_digest.values()))
            self._features.update(zip(decoded_by_digest, features, strict=True))
            return {}
        except (RuntimeError, ValueError, MemoryError) as error:
            if len(decoded_by_digest) == 1:
                message = " ".join(str(error).split())[:300]
                return dict.fromkeys(decoded_by_digest, f"{type(error).__name__}: {message}")
        faults = {}
        for digest, decoded in decoded_by_digest.items():
            faults.update(self._encode({digest: decoded}))
        return faults

    def _score(self, request: Request, faults: dict[str, str]) -> Response:
        """Return the scores of a request's options. `faults` are the images that could not be encoded, by digest."""
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
        self._features.move_to_end(digest)
        captions = [self._caption_of(text) for text in request.continuations]
        logits = self._scorer.logits(self._features[digest], captions)
        notes = [LOGITS]
        if self._scorer.cut.intersection(captions):
            notes.append(CUT)
        return Response(
            scores=tuple(ContinuationScore(logit, 1, 1) for logit in logits),
            notes=(*notes, *self._notes[digest]),
        )


def _to_device(inputs: Any, model: Any) -> dict[str, Any]:
    """Return inputs on the model's device, with floating-point numbers in the model's format."""
    placed = {}
    for name, values in inputs.items():
        number_format = model.dtype if values.is_floating_point() else values.dtype
        placed[name] = values.to(model.device).to(number_format)
    return placed


def _drop_oldest(cache: OrderedDict[str, Any], most: int) -> None:
    """Remove the first entries of a cache beyond `most`."""
    while len(cache) > most:
        cache.popitem(last=False)


class Scorer:
    """Base of the scorers: tokenises texts."""

    def __init__(self, loaded: LoadedModel, batch: int) -> None:
        config = loaded.model.config
        self._model = loaded.model
        self._tokenizer = loaded.processor.tokenizer
        self._batch = batch
        self._longest = int(config.text_config.max_position_embeddings)
        # SigLIP was trained on texts padded to full length, and reads the last token.
        self._pads_fully = config.model_type.startswith("siglip")
        self.texts: OrderedDict[str, Any] = OrderedDict()
        """Features of texts, where they do not depend on the image."""
        self.cut: set[str] = set()
        """Texts that were too long for the encoder."""

    def image_features(self, pixels: dict[str, Any]) -> Any:
        """Return the features of images, one row each."""
        raise NotImplementedError

    def prepare(self, texts: Sequence[str]) -> None:
        """Encode texts in advance, where that does not need an image."""

    def logits(self, image: Any, texts: Sequence[str]) -> list[float]:
        """Return one logit per text: how well it describes an image, given its features."""
        raise NotImplementedError

    def _tokens(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return token ids and attention mask of texts, and note which of them had to be cut."""
        for text in texts:
            if len(self._tokenizer(text)["input_ids"]) > self._longest:
                self.cut.add(text)
        encoded = self._tokenizer(
            list(texts),
            truncation=True,
            max_length=self._longest,
            return_tensors="pt",
            padding="max_length" if self._pads_fully else True,
        )
        inputs = {}
        for name in ("input_ids", "attention_mask"):
            if name in encoded:
                inputs[name] = encoded[name]
        return _to_device(inputs, self._model)


class DualEncoder(Scorer):
    """CLIP-like models: the scaled cosine of two embeddings."""

    def image_features(self, pixels: dict[str, Any]) -> Any:
        return _unit_vectors(self._model.get_image_features(**pixels))

    def prepare(self, texts: Sequence[str]) -> None:
        """Compute the features of texts that were not seen before, and keep them in `self.texts`."""
        missing = [text for text in dict.fromkeys(texts) if text not in self.texts]
        for start in range(0, len(missing), self._batch):
            batch = missing[start : start + self._batch]
            tokens = self._tokens(batch)
            if self._pads_fully:  # it attends to padding too, as in training
                tokens.pop("attention_mask", None)
            features = _unit_vectors(self._model.get_text_features(**tokens))
            self.texts.update(zip(batch, features, strict=True))

    def logits(self, image: Any, texts: Sequence[str]) -> list[float]:
        import torch

        text_features = torch.stack([self.texts[text] for text in texts])
        cosines = text_features @ image
        logits = cosines * self._model.logit_scale.exp()
        bias = getattr(self._model, "logit_bias", None)
        if bias is not None:
            logits = logits + bias
        return [float(value) for value in logits.float().flatten()]


class MatchingHead(Scorer):
    """BLIP: the text encoder attends to the image, and its head gives the log-odds of a match."""

    def image_features(self, pixels: dict[str, Any]) -> Any:
        return self._model.vision_model(**pixels).last_hidden_state

    def logits(self, image: Any, texts: Sequence[str]) -> list[float]:
        """Return for each text the logit of "it matches the image" minus that of "it does not".

        Args:
            image: Features of the image; shape (patches, width).
            texts: The texts.
        """
        logits: list[float] = []
        for start in range(0, len(texts), self._batch):
            batch = texts[start : start + self._batch]
            repeated_image = image.expand(len(batch), *image.shape)
            output = self._model.text_encoder(
                **self._tokens(batch), encoder_hidden_states=repeated_image
            )
            first_token = output.last_hidden_state[:, 0, :]
            # The head has two outputs for each text: no match, match.
            no_match, match = self._model.itm_head(first_token).float().unbind(-1)
            logits += (match - no_match).tolist()
        return logits


def _unit_vectors(features: Any) -> Any:
    """Return embeddings scaled to length 1; newer versions of transformers return a record that holds them."""
    embeddings = getattr(features, "pooler_output", features)
    return embeddings / embeddings.norm(dim=-1, keepdim=True)


def _scorer(spec: ModelSpec, loaded: LoadedModel, batch: int) -> Scorer:
    """Return the scorer for a model's architecture. Raises ModelError if the model does not compare images with texts."""
    model = loaded.model
    if hasattr(model, "itm_head") and model.config.model_type == "blip":
        return MatchingHead(loaded, batch)
    needed = ("get_image_features", "get_text_features", "logit_scale")
    if all(hasattr(model, name) for name in needed):
        return DualEncoder(loaded, batch)
    raise ModelError(
        f"{spec.text}: {type(model).__name__} does not compare images with texts; use clip: for CLIP, "
        "SigLIP, SigLIP 2 and BLIP's matching head, and hf: for models that generate text"
    )
