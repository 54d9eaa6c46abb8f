"""vLLM in this process: `vllm:org/name`, an optional extra.

Written for the documented interface of `vllm.LLM` (0.6 and later), tested against a stand-in, and tried on the CPU
build of vLLM 0.32 (docs/evidence/whitebox.md). It has not been run on a GPU. For a vLLM server use `openai:` instead,
which needs no extra.
"""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from snellen.common.decoding import data_uri, to_plain_file
from snellen.common.images import Images
from snellen.common.late import import_tqdm
from snellen.errors import DataError, MissingExtraError, ModelError
from snellen.extraction.thoughts import split_thoughts
from snellen.models import chat
from snellen.models.base import ALL_KINDS, NO_CONTINUATIONS, ShownByName, failed
from snellen.models.chat import has_response_prefix
from snellen.models.hf.conversation import control_tokens, without_control_tokens
from snellen.models.model_strings import ModelSpec
from snellen.models.options import read_options
from snellen.models.request_options import DTYPES, Dtype, ProcessorOptions
from snellen.models.served import (
    OTHER_HEADER,
    PromptTokens,
    border_mark,
    border_scores,
    has_other_header,
    with_continuation,
)
from snellen.models.server_faults import ServerFault
from snellen.models.template_dates import asks_for_date, chance_in, declared_date, with_date
from snellen.records import ImageRef, Message, Request, RequestKind, Response, TextPart, Usage

ADAPTER = "vllm-3"


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
    name, _, revision = spec.target.partition("@")
    settings: dict[str, Any] = {}
    if options.max_model_len:
        settings["max_model_len"] = options.max_model_len
    if options.quantization:
        settings["quantization"] = options.quantization
    if processor_settings := options.processor_settings():
        settings["mm_processor_kwargs"] = processor_settings
    engine = vllm.LLM(
        model=name,
        revision=revision or None,
        dtype=DTYPES.get(options.dtype, options.dtype),
        tensor_parallel_size=options.tensor_parallel_size,
        gpu_memory_utilization=options.gpu_memory_utilization,
        trust_remote_code=options.trust_remote_code,
        limit_mm_per_prompt={"image": options.images},
        seed=0,
        **settings,
    )
    return VllmModel(spec, options, vllm, engine)


class VllmModel(ShownByName):
    """Passes whole windows to the engine, which batches requests and caches images and prefixes itself.

    The engine's tokenizer reads control tokens wherever they stand, so texts are written without them.
    """

    kinds: frozenset[RequestKind] = ALL_KINDS

    def __init__(self, spec: ModelSpec, options: VllmOptions, vllm: Any, engine: Any) -> None:
        self.name = spec.text
        self.batch_size = options.batch_size
        self._target, self._options, self._vllm, self._engine = spec.target, options, vllm, engine
        self._controls = control_tokens(engine.get_tokenizer())
        settings = options.chat_template_kwargs
        self._template_options: dict[str, Any] = {}
        self._date: datetime.date | None = None
        template = getattr(engine.get_tokenizer(), "chat_template", None)
        if isinstance(template, str) and asks_for_date(template):
            self._date = declared_date(options.date)
            template, dates = with_date(template, self._date)
            self._template_options["chat_template"] = template
            settings = {**dates, **settings}
        if isinstance(template, str) and (chance := chance_in(template)):
            raise ModelError(
                f"{spec.text}: its chat template is random ({chance}), so prompts are not reproducible"
            )
        if settings:
            self._template_options["chat_template_kwargs"] = settings

    def fingerprint(self) -> dict[str, str]:
        return {
            "adapter": ADAPTER,
            "model": self._target,
            "dtype": DTYPES.get(self._options.dtype, self._options.dtype),
            "max_model_len": str(self._options.max_model_len or "own"),
            "vllm": str(self._vllm.__version__),
            **({"quantised": self._options.quantization} if self._options.quantization else {}),
            **self._options.facts(self._target),
            **self._options.processor_facts(),
            **({"date": str(self._date)} if self._date else {}),
        }

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        requests = [self._options.applied(request) for request in requests]
        sampling = [self._sampling(request) for request in requests]
        outputs = self._ask([request.messages for request in requests], sampling, images)
        responses: list[Response] = []
        for output in outputs:
            is_error = isinstance(output, Response)
            responses.append(output if is_error else _reply(output))
        return responses

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Score the continuations of all requests in one call of the engine.

        Each request needs a prompt per continuation, one with a mark, and one that a reply would follow (see `served`).
        """
        requests = [self._options.applied(request) for request in requests]
        prompts = [
            with_continuation(request.messages, text)
            for request in requests
            for text in _endings(request)
        ]
        scored = self._vllm.SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        outputs = iter(self._ask(prompts, [scored] * len(prompts), images))
        responses = []
        for request in requests:
            request_outputs = [next(outputs) for _ in _endings(request)]
            failure = next(
                (output for output in request_outputs if isinstance(output, Response)), None
            )
            responses.append(failure or _scores(request_outputs, request))
        return responses

    def _sampling(self, request: Request) -> Any:
        decoding = request.decoding
        sampled = {"top_p": decoding.top_p, "seed": decoding.seed} if decoding.temperature else {}
        return self._vllm.SamplingParams(
            max_tokens=decoding.max_new_tokens + self._options.reasoning_budget(self._target),
            temperature=decoding.temperature,
            stop=list(decoding.stop) or None,
            **sampled,
        )

    def _ask(
        self, prompts: Sequence[tuple[Message, ...]], sampling: Sequence[Any], images: Images
    ) -> list[Any]:
        """Return the engine's outputs in order, or a Response with an error for a prompt whose image is missing.

        `LLM.chat` takes one setting for the end of all conversations, so open ones need a separate call.
        """

        def encode_image(image: ImageRef) -> msgspec.Raw:
            media_type, content = to_plain_file(image, images.read(image))
            url = data_uri(media_type, content)
            return msgspec.Raw(
                msgspec.json.encode({"type": "image_url", "image_url": {"url": url}})
            )

        outputs: list[Any] = [None] * len(prompts)
        for is_open in (False, True):
            places, conversations = list[int](), list[Any]()
            for i, messages in enumerate(prompts):
                if (messages[-1].role == "assistant") == is_open:
                    try:
                        conversations.append(
                            msgspec.json.decode(
                                msgspec.json.encode(
                                    chat.write_messages(self._as_text(messages), encode_image)
                                )
                            )
                        )
                        places.append(i)
                    except DataError as error:
                        outputs[i] = failed("bad_request", str(error))
            if not conversations:
                continue
            answered = self._engine.chat(
                conversations,
                [sampling[i] for i in places],
                use_tqdm=False,
                add_generation_prompt=not is_open,
                continue_final_message=is_open,
                **self._template_options,
            )
            for i, output in zip(places, answered, strict=True):
                outputs[i] = output
        return outputs

    def _as_text(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the conversation with texts that cannot be mistaken for control tokens."""
        return tuple(
            replace(
                message,
                content=tuple(
                    TextPart(without_control_tokens(part.text, self._controls))
                    if isinstance(part, TextPart)
                    else part
                    for part in message.content
                ),
            )
            for message in messages
        )


def _endings(request: Request) -> tuple[str | None, ...]:
    """Return the endings of the conversations that score a request: each continuation, a mark, and None for no ending."""
    if not request.continuations:
        return ()
    return (*request.continuations, border_mark(request.continuations), None)


def _reply(output: Any) -> Response:
    [completion] = output.outputs
    usage = Usage(len(output.prompt_token_ids), len(completion.token_ids))
    parts = split_thoughts(completion.text)
    return Response(
        text=parts.answer, reasoning=parts.reasoning, finish=completion.finish_reason, usage=usage
    )


def _scores(outputs: Sequence[Any], request: Request) -> Response:
    """Return the response to a request for log-likelihoods, from the engine's outputs for each continuation and two more prompts."""
    if not request.continuations:
        return failed("bad_request", NO_CONTINUATIONS)
    *prompts, marked, alone = (_tokens(output) for output in outputs)
    outcome = border_scores(marked, prompts, request.continuations)
    if isinstance(outcome, ServerFault):
        return failed(outcome.kind, outcome.detail)
    if not has_response_prefix(request) and has_other_header(alone, marked):
        return replace(outcome, notes=(*outcome.notes, OTHER_HEADER))
    return outcome


def _tokens(output: Any) -> PromptTokens:
    ids = tuple(output.prompt_token_ids)
    positions = output.prompt_logprobs
    return PromptTokens(
        ids, tuple(p[i].logprob if p else None for p, i in zip(positions, ids, strict=True))
    )
