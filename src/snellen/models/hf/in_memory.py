"""Evaluate a transformers model that is already in memory, for example while it is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from snellen.common.images import Images
from snellen.errors import ModelError
from snellen.models.base import ALL_KINDS, AnswerGroup, ReplyListener, ShownByName
from snellen.models.hf.adapters import base_model_of
from snellen.models.hf.load import HfOptions, LoadedModel, TextProcessor, kind_of, model_facts
from snellen.models.hf.model import ROWS, HFModel
from snellen.models.hf.settings_facts import settings_facts
from snellen.models.model_strings import model_string, parse_spec
from snellen.models.object_digest import content_facts
from snellen.models.options import read_options
from snellen.records import ImageRef, Request, RequestKind, Response

LOADING_OPTIONS = (
    "dtype",
    "device",
    "device_map",
    "attn_implementation",
    "min_pixels",
    "max_pixels",
    "processor_kwargs",
    "trust_remote_code",
    "pickle",
    "load_in_4bit",
    "load_in_8bit",
    "peft",
)
"""Options of `hf:` strings that say how weights are loaded."""


def hf(model: Any, processor: Any = None, *, name: str = "", **options: Any) -> InMemoryModel:
    """Wrap a transformers model and its processor, so that `evaluate` can ask it.

    The model is put into evaluation mode while it answers and back into training mode afterwards. Its weights may
    change between evaluations, and so may its settings, active adapters and processor: replies are stored under a
    digest of them. The model and the processor are left as they were.

    Args:
        model: An image-text-to-text model, also one with LoRA or other PEFT adapters, in `DataParallel` or in
            `DistributedDataParallel`.
        processor: Its processor, or the tokenizer of a model that reads only text.
        name: Name that results show. By default the name of the model's class.
        options: Options of `hf:` model strings that do not concern loading (docs/models.md): `batch_size`,
            `temperature`, `chat_template_kwargs`, `scoring` ...

    Raises:
        ModelError: The model or the processor is not one of transformers, or an option does not apply.

    Examples:
        >>> from transformers import AutoModelForImageTextToText, AutoProcessor
        >>> checkpoint = sn.tiny_checkpoint()
        >>> model = AutoModelForImageTextToText.from_pretrained(checkpoint)
        >>> processor = AutoProcessor.from_pretrained(checkpoint)
        >>> results = sn.evaluate(sn.hf(model, processor, name="step 0"), "eyechart/shape", limit=4)
        >>> results.runs[0].manifest.model
        'step 0'
    """
    if isinstance(model, (str, Path)):
        raise ModelError(
            f"hf: {str(model)!r} is not loaded; sn.evaluate('hf:{model}', ...) loads it, and sn.hf takes a model and its "
            "processor"
        )
    loading = [option for option in options if option in LOADING_OPTIONS]
    if loading:
        raise ModelError(
            f"hf: {', '.join(loading)}: this model is loaded already; set it where you load the model"
        )
    inner = base_model_of(model)
    _check_processor(processor)
    if not hasattr(processor, "tokenizer"):
        processor = TextProcessor(processor)
    shown_name = name or type(inner).__name__
    spec = parse_spec(model_string(f"hf:{shown_name}", **options))
    return InMemoryModel(shown_name, inner, processor, read_options(spec, HfOptions))


def _check_processor(processor: Any) -> None:
    if processor is None:
        raise ModelError(
            "hf: there is no processor; give AutoProcessor.from_pretrained(...) of the same checkpoint"
        )
    if not hasattr(processor, "tokenizer") and not hasattr(processor, "convert_tokens_to_ids"):
        raise ModelError(
            f"hf: {type(processor).__name__} is not a processor; give AutoProcessor.from_pretrained(...) "
            "of the same checkpoint"
        )


class InMemoryModel(ShownByName):
    """A transformers model that the user has loaded. Its weights may change between evaluations, as in a training."""

    kinds: frozenset[RequestKind] = ALL_KINDS

    def __init__(self, name: str, model: Any, processor: Any, options: HfOptions) -> None:
        self.name = name
        self.batch_size = options.rows(ROWS[kind_of(model)])
        self._model = model
        self._processor = processor
        self._options = options
        self._facts: dict[str, str] = {}
        self._adapter: HFModel | None = None
        self._cached_forwards: dict[Any, Any] = {}
        self._checked_structure: tuple[Any, ...] = ()
        self._self_checks: dict[tuple[Any, ...], Any] = {}

    def fingerprint(self) -> dict[str, str]:
        """Return the facts that replies depend on, with digests of weights and settings as they are now."""
        return self._current_adapter().fingerprint()

    def _current_adapter(self) -> HFModel:
        """Return the adapter (`HFModel`) for the present weights and settings; a new one if they have changed."""
        facts = content_facts("weights", dict(self._model.state_dict()))
        facts = settings_facts(self._model, self._processor) | facts
        facts = model_facts(self._model, self._processor) | facts
        if self._adapter is None or facts != self._facts:
            # What an earlier adapter remembers of images and prompts was computed by other weights or settings.
            self._cached_forwards = {}
            self._adapter = self._adapt(facts)
            self._facts = facts
        return self._adapter

    def _adapt(self, facts: dict[str, str]) -> HFModel:
        """Return a new adapter (`HFModel`) for the model, whose properties are `facts`."""
        sees_images = getattr(self._processor, "image_processor", None) is not None
        # Which shortcuts are exact depends on the modules and settings, not on the values of the weights, so a model in
        # training is checked once. Spot checks on real requests go on in each run.
        modules = [(name, type(module)) for name, module in self._model.named_modules()]
        structure = (modules, facts.get("settings"), facts.get("active adapters"))
        if structure != self._checked_structure:
            self._checked_structure = structure
            self._self_checks = {}
        # The adapter puts a cache into the processor, which the user goes on using for other images.
        processor = deepcopy(self._processor)
        loaded = LoadedModel(self._model, processor, facts, sees_images, self._self_checks)
        checkpoint = str(getattr(self._model.config, "name_or_path", ""))
        with self._answering():
            return HFModel(self.name, loaded, self._options, checkpoint)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Put the model into evaluation mode inside the block, with caches around the `forward` of its encoders.

        At the end, the caches are taken off again. Otherwise a copy of the model would call the
        `forward` of the original, and each evaluation during a training would add another layer of
        caches.
        """
        # A module has a `forward` of its own only where somebody has replaced that of its class.
        own_forwards = {module: vars(module).get("forward") for module in self._model.modules()}
        for module, cached_forward in self._cached_forwards.items():
            module.forward = cached_forward
        try:
            with evaluation_mode(self._model):
                yield
        finally:
            self._cached_forwards = {}
            for module, own_forward in own_forwards.items():
                cached_forward = vars(module).get("forward")
                if cached_forward is own_forward:
                    continue
                self._cached_forwards[module] = cached_forward
                if own_forward is None:
                    del module.forward
                else:
                    module.forward = own_forward

    @property
    def adapter(self) -> HFModel:
        """The adapter for the weights that the model had when `fingerprint` was called last."""
        return self._adapter or self._current_adapter()

    def findings(self) -> tuple[str, ...]:
        return self.adapter.findings()

    @property
    def disproved(self) -> frozenset[AnswerGroup]:
        return self.adapter.disproved

    def doubts(self, request: Request) -> bool:
        return self.adapter.doubts(request)

    def distrust(self, group: AnswerGroup) -> None:
        self.adapter.distrust(group)

    def expect(self, expected: Sequence[ImageRef], images: Images) -> None:
        self.adapter.expect(expected, images)

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        with self._answering():
            return self.adapter.generate(requests, images)

    def generate_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        with self._answering():
            return self.adapter.generate_streaming(request, images, listener)

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        with self._answering():
            return self.adapter.loglikelihood(requests, images)


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Switch off dropout and similar modules inside the block.

    At the end, only those modules return to training mode that were in it before: a trainer may
    have frozen others.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
