"""SGLang's HTTP interface on loopback, with a small model of transformers behind it.

Addresses, fields and the positions of log-probabilities are those of SGLang 0.5.23: `entrypoints/http_server.py`,
`entrypoints/openai/serving_tokenize.py` and `serving_chat.py`, `managers/io_struct.py` (GenerateReqInput),
`managers/tokenizer_manager.py` (add_logprob_to_meta_info) and `scheduler_components/logprob_result_processor.py`. Prompts
are computed as a whole, one at a time, by the model's own forward; nothing of Snellen takes part.
"""

from __future__ import annotations

import io
import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

GENERATE_FIELDS = {
    "input_ids",
    "image_data",
    "sampling_params",
    "return_logprob",
    "logprob_start_len",
    "token_ids_logprob",
    "lora_path",
}
"""Fields of GenerateReqInput that this server reads. Others are refused, as SGLang refuses a field that it has not."""


@dataclass
class SGLang:
    """A served model, and what it was asked."""

    folder: Path
    name: str = "tiny"
    entries: list[dict[str, Any]] = field(default_factory=list)
    """Further entries of the list of models, such as adapters."""
    tokenises_conversations: bool = True
    """SGLang 0.5.10 does not."""
    avoids_retokenising: bool = False
    """SGLANG_MM_AVOID_RETOKENIZE."""
    opens_thought: bool = False
    """Whether the template opens a thought before replies, as that of Qwen3-VL-Thinking does. A template sees
    `enable_thinking` of `chat_template_kwargs`."""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.processor = transformers.AutoProcessor.from_pretrained(self.folder)
        self.tokenizer = self.processor.tokenizer
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(
            self.folder, dtype=torch.float32
        ).eval()

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for asked_path, body in self.asked if asked_path == path]

    def models(self) -> dict[str, Any]:
        card = {"object": "model", "created": 0, "owned_by": "sglang", "parent": None}
        own = {**card, "id": self.name, "root": self.name, "max_model_len": 4096}
        return {"object": "list", "data": [own, *({**card, **entry} for entry in self.entries)]}

    def tokenize(self, body: dict[str, Any]) -> dict[str, Any]:
        """`_tokenize_chat_request`: the template with a generation prompt, then the tokens of an opened reply."""
        if not self.tokenises_conversations:
            raise ValueError(
                "1 validation error: [{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}]"
            )
        messages = [dict(message) for message in body["messages"]]
        opened = ""
        if messages[-1]["role"] == "assistant":
            if not body.get("continue_final_message"):
                raise ValueError("the last message is the assistant's")
            opened = messages.pop()["content"]
            assert isinstance(opened, str)
        for message in messages:
            if isinstance(message["content"], list):
                parts = []
                for part in message["content"]:
                    is_image = part["type"] == "image_url"
                    parts.append({"type": "image"} if is_image else part)
                message["content"] = parts
        text = self.processor.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        settings = body.get("chat_template_kwargs") or {}
        if self.opens_thought and settings.get("enable_thinking", True):
            text += "<think>\n"
        tokens = self.tokenizer.encode(text, add_special_tokens=False)
        if opened:
            tokens += self.tokenizer.encode(opened, add_special_tokens=False)
        return {"tokens": tokens, "count": len(tokens), "max_model_len": 4096}

    def detokenize(self, body: dict[str, Any]) -> dict[str, Any]:
        skips = body.get("skip_special_tokens", True)
        return {"text": self.tokenizer.decode(body["tokens"], skip_special_tokens=skips)}

    def generate(self, body: dict[str, Any]) -> dict[str, Any]:
        unknown = body.keys() - GENERATE_FIELDS
        if unknown:
            raise ValueError(f"unknown field {sorted(unknown)[0]}")
        inputs = self._inputs(body["input_ids"], body.get("image_data") or [])
        ids = inputs["input_ids"][0].tolist()
        start = body.get("logprob_start_len", -1)
        if start == -1:
            start = len(ids)
        if start > len(ids):
            raise ValueError("logprob_start_len is higher than the number of input tokens")
        with torch.no_grad():
            logits = self.model(**inputs).logits[0]
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        following = int(logprobs[-1].argmax())
        meta: dict[str, Any] = {
            "id": "0",
            "finish_reason": {"type": "length", "length": 1},
            "prompt_tokens": len(ids),
            "weight_version": "default",
            "num_retractions": 0,
        }
        if body.get("return_logprob"):
            values = [
                float(logprobs[place - 1, ids[place]]) for place in range(start + 1, len(ids))
            ]
            shown = [0 if self._is_image(token) else token for token in ids[start:]]
            listed = zip([None, *values], shown, strict=True) if shown else []
            meta["input_token_logprobs"] = [[value, token, None] for value, token in listed]
            meta["output_token_logprobs"] = [[float(logprobs[-1, following]), following, None]]
            meta["output_token_logprobs_length"] = 1
            if body.get("token_ids_logprob"):
                chosen = body["token_ids_logprob"]
                meta["input_token_ids_logprobs"] = [None] * len(shown)
                meta["output_token_ids_logprobs"] = [
                    [[float(logprobs[-1, token]), token, None] for token in chosen]
                ]
        meta |= {"reasoning_tokens": 0, "completion_tokens": 1, "cached_tokens": 0}
        text = self.tokenizer.decode([following])
        return {"text": text, "output_ids": [following], "meta_info": meta}

    def _inputs(self, tokens: list[int], urls: list[str]) -> Any:
        """The model's inputs. With images, SGLang reads the tokens as text and lets the processor tokenise it."""
        if not urls:
            return {"input_ids": torch.tensor([tokens])}
        images = []
        for url in urls:
            content = b64decode(url.partition(",")[2])
            images.append(Image.open(io.BytesIO(content)).convert("RGB"))
        text = self.tokenizer.decode(tokens)
        inputs = self.processor(
            text=[text], images=images, add_special_tokens=False, return_tensors="pt"
        )
        if self.avoids_retokenising:
            images_read = sum(self._is_image(token) for token in inputs["input_ids"][0].tolist())
            expanded: list[int] = []
            for token in tokens:
                times = images_read // len(urls) if self._is_image(token) else 1
                expanded += [token] * times
            inputs["input_ids"] = torch.tensor([expanded])
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        return inputs

    def _is_image(self, token: int) -> bool:
        return token == self.processor.image_token_id


@contextmanager
def serve_sglang(folder: Path, **settings: Any) -> Iterator[SGLang]:
    """Serve a checkpoint on loopback until the block ends."""
    served = SGLang(folder, **settings)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

        def _reply(self, status: int, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._reply(200, served.models() if self.path == "/v1/models" else {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answers = {
                "/tokenize": served.tokenize,
                "/detokenize": served.detokenize,
                "/generate": served.generate,
            }
            answer = answers.get(self.path)
            with lock:
                served.asked.append((self.path, body))
                if answer is None:
                    self._reply(404, {"detail": "Not Found"})
                    return
                try:
                    content = answer(body)
                except ValueError as error:
                    self._reply(400, {"error": {"message": str(error)}})
                    return
                self._reply(200, content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
