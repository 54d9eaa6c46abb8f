"""vLLM in this process: `vllm:org/name`, an optional extra.

Prompts are those of `hf:` (`snellen.models.hf.prompter`): vLLM is given their tokens, with a placeholder for each image,
and the images; it puts an image's tokens in the place of its placeholder. So replies and scores are of the same text as
those of `hf:`.

Written for the documented interface of `vllm.LLM` (0.6 and later), and tried on the CPU build of vLLM 0.32
(docs/evidence/whitebox.md). It has not been run on a GPU. For a vLLM server use `openai:` instead, which needs no extra.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from snellen.common.decoding import decode_image
from snellen.common.images import Images
from snellen.common.late import import_tqdm
from snellen.errors import DataError, MissingExtraError
from snellen.models.base import ALL_KINDS, ShownByName, failed
from snellen.models.hf.conversation import ChatPrompt
from snellen.models.hf.load import import_transformers, load_prompt_parts, weights_fact
from snellen.models.hf.prompter import Prompter
from snellen.models.model_strings import ModelSpec, locate_checkpoint
from snellen.models.options import read_options
from snellen.models.request_options import DTYPES, Dtype, ProcessorOptions
from snellen.records import ContinuationScore, Request, RequestKind, Response, Usage

ADAPTER = "vllm-4"


class VllmOptions(ProcessorOptions, frozen=True):
    """Options after `?` in a vllm: model string; those of its own but batch_size are passed to vllm.LLM."""

    dtype: Dtype = "auto"
    quantization: str = ""
    """How the weights are quantised, as vLLM spells it: awq, gptq, bitsandbytes ...; empty: as the checkpoint says."""
    tensor_parallel_size: Annotated[int, Meta(ge=1)] = 1
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.9
    max_model_len: Annotated[int, Meta(ge=0)] = 0
    """Maximum length of prompt and reply in tokens; 0 for the model's own."""
    images: Annotated[int, Meta(ge=1)] = 4
    """Maximum number of images per prompt."""
    batch_size: Annotated[int, Meta(ge=1)] = 256
    trust_remote_code: bool = False


def open_vllm(spec: ModelSpec) -> VllmModel:
    """Return the model of `vllm:org/name[@revision]` or `vllm:./folder`. Raises MissingExtraError without vLLM."""
    options = read_options(spec, VllmOptions)
    import_tqdm()
    try:
        vllm = importlib.import_module("vllm")
    except ImportError as error:
        raise MissingExtraError(error.name or "vllm", "vllm", spec.text) from None
    target, revision = locate_checkpoint(spec)
    processor, config = load_prompt_parts(spec, options)
    prompter = Prompter(
        spec.text, processor, config.model_type, options, spec.target, clips_as_video=False
    )
    weights = weights_fact(target, config)
    settings: dict[str, Any] = {}
    if options.max_model_len:
        settings["max_model_len"] = options.max_model_len
    if options.quantization:
        settings["quantization"] = options.quantization
    if processor_settings := options.processor_settings():
        settings["mm_processor_kwargs"] = processor_settings
    if processor.image_processor is not None:
        settings["limit_mm_per_prompt"] = {"image": options.images}
    engine = vllm.LLM(
        model=target,
        revision=revision or None,
        dtype=DTYPES.get(options.dtype, options.dtype),
        tensor_parallel_size=options.tensor_parallel_size,
        gpu_memory_utilization=options.gpu_memory_utilization,
        trust_remote_code=options.trust_remote_code,
        seed=0,
        **settings,
    )
    return VllmModel(spec, options, prompter, vllm, engine, weights)


class VllmModel(ShownByName):
    """Passes whole windows to the engine, which batches requests and caches images and prefixes itself."""

    kinds: frozenset[RequestKind] = ALL_KINDS

    def __init__(
        self,
        spec: ModelSpec,
        options: VllmOptions,
        prompter: Prompter,
        vllm: Any,
        engine: Any,
        weights: str,
    ) -> None:
        self.name = spec.text
        self.batch_size = options.batch_size
        self._target = spec.target
        self._options = options
        self._prompter = prompter
        self._vllm = vllm
        self._engine = engine
        self._weights = weights
        """Commit of the repository, or digest of the folder."""

    def fingerprint(self) -> dict[str, str]:
        options = self._options
        facts = {
            "adapter": ADAPTER,
            "model": self._target,
            "weights": self._weights,
            "dtype": DTYPES.get(options.dtype, options.dtype),
            "max_model_len": str(options.max_model_len or "own"),
            "vllm": str(self._vllm.__version__),
            "transformers": import_transformers().__version__,
        }
        if options.quantization:
            facts["quantised"] = options.quantization
        facts |= options.facts(self._target)
        facts |= options.processor_facts()
        facts |= self._prompter.facts()
        return facts

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Return replies in the order of the requests."""

        def tokens(request: Request, prompt: ChatPrompt) -> list[tuple[int, ...]]:
            return [self._prompter.tokens.of_prompt(prompt)]

        def read(request: Request, outputs: Sequence[Any]) -> Response:
            [output] = outputs
            [completion] = output.outputs
            usage = Usage(len(output.prompt_token_ids), len(completion.token_ids))
            response = Response(
                text=completion.text.strip(), finish=completion.finish_reason, usage=usage
            )
            return self._prompter.without_thoughts(response, request)

        return self._answered(requests, images, tokens, self._sampling, read)

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Score the continuations of all requests in one call of the engine, each as a prompt of its own."""
        scored = self._vllm.SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)

        def tokens(request: Request, prompt: ChatPrompt) -> list[tuple[int, ...]]:
            split = self._prompter.tokens.split(prompt, self._prompter.continuations(request))
            self._prompter.require_finished(request, prompt)
            lengths[request.key] = [len(tail) for tail in split.tails]
            return [(*split.context, *tail) for tail in split.tails]

        def read(request: Request, outputs: Sequence[Any]) -> Response:
            scores = []
            for output, length, text in zip(
                outputs, lengths[request.key], request.continuations, strict=True
            ):
                values = _last_logprobs(output, length)
                scores.append(ContinuationScore(math.fsum(values), length, len(text.encode())))
            return Response(scores=tuple(scores))

        lengths: dict[str, list[int]] = {}
        return self._answered(requests, images, tokens, lambda _: scored, read)

    def _sampling(self, request: Request) -> Any:
        decoding = request.decoding
        sampled = {"top_p": decoding.top_p, "seed": decoding.seed} if decoding.temperature else {}
        return self._vllm.SamplingParams(
            max_tokens=decoding.max_new_tokens,
            temperature=decoding.temperature,
            stop=list(decoding.stop) or None,
            **sampled,
        )

    def _answered(
        self,
        requests: Sequence[Request],
        images: Images,
        tokens: Callable[[Request, ChatPrompt], list[tuple[int, ...]]],
        sampling: Callable[[Request], Any],
        read: Callable[[Request, Sequence[Any]], Response],
    ) -> list[Response]:
        """Return the responses to requests, all of which the engine is given together.

        Args:
            requests: The requests.
            images: Where their images are read.
            tokens: Returns the tokens of the prompts that answer a request.
            sampling: Returns how tokens are generated after the prompts of a request.
            read: Returns the response to a request from the engine's outputs for its prompts.
        """
        responses: dict[int, Response] = {}
        sent_requests: list[tuple[int, Request, tuple[str, ...], int]] = []
        """For each request that was written: its index, the request, its notes, and its number of prompts."""
        prompts: list[dict[str, Any]] = []
        settings: list[Any] = []
        for index, unwritten in enumerate(requests):
            request = self._prompter.sent(unwritten)
            decoded_images = []
            try:
                prompt = self._prompter.write(request)
                token_lists = tokens(request, prompt)
                for image in prompt.images:
                    where = f"image {image.digest[:12]}"
                    decoded_images.append(decode_image(images.read(image), where))
            except (DataError, OSError, ValueError) as error:
                responses[index] = failed("bad_request", str(error))
                continue
            notes = dict.fromkeys((*self._prompter.conversation.notes, *prompt.notes))
            for decoded in decoded_images:
                notes.update(dict.fromkeys(decoded.notes))
            pictures = [decoded.upright for decoded in decoded_images]
            for token_list in token_lists:
                inputs: dict[str, Any] = {"prompt_token_ids": list(token_list)}
                if pictures:
                    inputs["multi_modal_data"] = {"image": pictures}
                prompts.append(inputs)
                settings.append(sampling(request))
            sent_requests.append((index, request, tuple(notes), len(token_lists)))

        outputs: Iterator[Any] = iter(())
        if prompts:
            outputs = iter(self._engine.generate(prompts, settings, use_tqdm=False))
        for index, request, request_notes, n_prompts in sent_requests:
            response = read(request, list(islice(outputs, n_prompts)))
            responses[index] = replace(response, notes=(*request_notes, *response.notes))
        return [responses[index] for index in range(len(requests))]


def _last_logprobs(output: Any, count: int) -> list[float]:
    """Return the log-probabilities, in nats, of the last `count` tokens of a prompt."""
    ids = output.prompt_token_ids[-count:]
    positions = output.prompt_logprobs[-count:]
    return [position[token].logprob for position, token in zip(positions, ids, strict=True)]
