"""The kinds of models that a model string can name, for lists."""

from __future__ import annotations

from snellen import registry

_BY_SCHEME = {
    "anthropic": ("anthropic:NAME", "a model of Anthropic's service"),
    "azure": (
        "azure:DEPLOYMENT@https://RESOURCE.openai.azure.com",
        "a deployment in Azure OpenAI",
    ),
    "bedrock": ("bedrock:NAME?region=R", "a model of Amazon Bedrock"),
    "clip": (
        "clip:org/name, clip:./folder",
        "CLIP, SigLIP or BLIP's matching head, as a scorer of options",
    ),
    "gemini": ("gemini:NAME", "a model of the Gemini API"),
    "hf": (
        "hf:org/name[@revision], hf:./folder",
        "an image-text-to-text model of transformers, in this process",
    ),
    "ocr": ("ocr:rapidocr", "a reader of text that runs offline on a CPU"),
    "openai": ("openai:name@http://host:port/v1", "a model behind an OpenAI-compatible server"),
    "replay": ("replay:runs/NAME", "the responses of an earlier run"),
    "vertex": (
        "vertex:NAME?project=P&location=L",
        "a Gemini model of Google Cloud's Vertex AI",
    ),
    "vllm": ("vllm:org/name", "a model of the hub by vLLM, in this process"),
}
_EMBEDDED = (
    ("snellen:tiny", "a trained LLaVA of a few megabytes that ships with Snellen"),
    ("snellen:tiny-xs", "a smaller one that was not trained to answer with option labels"),
    ("snellen:oracle", "instrument: knows the answers; must score 100"),
    ("snellen:uniform", "instrument: guesses; must score at chance"),
    (
        "snellen:always-a",
        "instrument: names the first label; must score 0 under CircularEval",
    ),
    (
        "snellen:biased?p=0.7",
        "instrument: names the first label with probability p, else guesses",
    ),
    (
        "snellen:scripted?file=replies.json",
        "instrument: replies from a file, sample id to text",
    ),
)


def known_models() -> list[tuple[str, str]]:
    """Return the forms of model strings, those of embedded models last, each with a description."""
    forms = [
        _BY_SCHEME.get(scheme, (f"{scheme}:...", "from another package"))
        for scheme in registry.names("models")
        if scheme != "snellen"
    ]
    return [*forms, *_EMBEDDED]
