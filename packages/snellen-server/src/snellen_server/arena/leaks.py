"""How a model gives itself away before the vote: by its name, by its maker, by what it says of itself; or it was asked to.

A vote on such a battle is no vote of somebody who does not know the models. Names of makers are on signs, screens and
cars in images too, so a maker counts only where a reply speaks of itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from snellen_server.arena.battles import BattleTurn

ASKED = "asked who it is"
NAMED = "named"
SELF_DESCRIPTION = "described itself"

MAKERS = (
    "01.AI",
    "AI2",
    "Aleph Alpha",
    "Alibaba",
    "Allen Institute",
    "Amazon",
    "Anthropic",
    "Apple",
    "Baichuan",
    "Baidu",
    "ByteDance",
    "Cohere",
    "DeepSeek",
    "Google",
    "Hugging Face",
    "IBM",
    "LAION",
    "LMSYS",
    "Meta",
    "Microsoft",
    "MiniMax",
    "Mistral",
    "Moonshot",
    "NVIDIA",
    "OpenAI",
    "OpenGVLab",
    "Reka",
    "Salesforce",
    "SenseTime",
    "Shanghai AI Laboratory",
    "StepFun",
    "Tencent",
    "xAI",
    "Zhipu",
)
FAMILIES = (
    "Bard",
    "BLIP",
    "ChatGLM",
    "ChatGPT",
    "Claude",
    "Command",
    "DeepSeek",
    "Fuyu",
    "Gemini",
    "Gemma",
    "GLM",
    "GPT",
    "Grok",
    "Idefics",
    "InternLM",
    "InternVL",
    "Kimi",
    "Kosmos",
    "Llama",
    "LLaVA",
    "MiniCPM",
    "MiniGPT",
    "Molmo",
    "Nova",
    "Otter",
    "PaliGemma",
    "Phi",
    "Pixtral",
    "Qwen",
    "SmolVLM",
    "Vicuna",
    "Yi",
)
"""Families of models, as replies call themselves."""

_ASKS = re.compile(
    r"\b(?:who|what) (?:are|r) (?:you|u)(?=\s*(?:[?.!,]|$|called|exactly|really))"
    r"|\b(?:what|which|whose) (?:\w+ ){0,3}(?:model|llm|vlm|ai|assistant|chatbot) (?:are|is) you\b"
    # Of a car or a camera people ask which model this is.
    r"|\b(?:what|which|whose) (?:\w+ ){0,3}(?:llm|vlm|ai|assistant|chatbot) is this\b"
    r"|\b(?:what is|what's|tell me|say) your name\b"
    r"|\bwho (?:made|built|created|trained|developed) you\b"
    r"|\byour (?:developer|maker|creator|model name|version)\b",
    re.IGNORECASE,
)
_SPEAKS_OF_ITSELF = (
    r"(?:\b(?:i am|i'm|my name is|call me|as an? (?:ai|assistant|model)|you are talking to)"
    # Whoever is looking at a sign of a maker does not say that it is one.
    r"(?:(?: [\w-]+){0,4}? (?:ai|model|assistant|chatbot),?)?(?: (?:a|an|the|called|named|made|built|created|trained|developed|by|from|of))* )"
)
_MADE_BY = (
    r"\bI(?: am|'m| was|, )?\b[^.!?\n]{0,60}?\b(?:trained|built|made|created|developed) (?:by|at) "
)


def names_pattern(names: Iterable[str], makers: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Return patterns of replies that give away which model of an arena wrote them.

    Args:
        names: What the arena's models are called, by the operator or by themselves.
        makers: Who made them, beyond `MAKERS`.

    Returns:
        Two patterns: a model's name anywhere in a reply, if the name is no common word; and a sentence in which the
        reply says what model it is or who made it.
    """
    # The longest first, because a pattern takes the first alternative that fits.
    model_names = sorted({name.strip() for name in names if name.strip()}, key=len, reverse=True)
    all_makers = (*MAKERS, *makers)

    telling_names = [name for name in model_names if _is_telling(name)]
    if telling_names:
        alternatives = "|".join(re.escape(name) for name in telling_names)
        named = re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])", re.IGNORECASE)
    else:
        named = re.compile(r"(?!)")  # fits nothing

    any_name = "|".join(re.escape(name) for name in (*model_names, *FAMILIES, *all_makers))
    any_maker = "|".join(re.escape(name) for name in all_makers)
    says_what_it_is = rf"{_SPEAKS_OF_ITSELF}(?:{any_name})(?![a-z])"
    says_who_made_it = rf"{_MADE_BY}(?:the )?(?:{any_maker})(?![a-z])"
    describes_itself = re.compile(f"{says_what_it_is}|{says_who_made_it}", re.IGNORECASE)
    return named, describes_itself


def identity_leak(turns: Sequence[BattleTurn], patterns: tuple[re.Pattern[str], ...]) -> str:
    """Return how a battle gave a model away: `ASKED`, `NAMED` or `SELF_DESCRIPTION`; empty if it did not.

    Example:
        >>> from snellen_server.arena.battles import SideReply
        >>> patterns = names_pattern(["alpha-model"], [])
        >>> reply = SideReply("I am alpha-model.")
        >>> identity_leak([BattleTurn("What is it?", reply, SideReply("A car."))], patterns)
        'named'
    """
    named, describes = patterns
    replies: list[str] = []
    for turn in turns:
        for reply in (turn.left, turn.right):
            if reply:
                replies.append(reply.text)
    if any(named.search(text) for text in replies):
        return NAMED
    if any(describes.search(text) for text in replies):
        return SELF_DESCRIPTION
    if any(_ASKS.search(turn.prompt) for turn in turns):
        return ASKED
    return ""


def _is_telling(name: str) -> bool:
    """Return whether a name cannot be an ordinary word: it has a digit, a sign, or a capital after the first letter."""
    return bool(re.search(r"[\d_./:-]|[a-z][A-Z]|[A-Z]{3}", name)) and len(name) >= 4
