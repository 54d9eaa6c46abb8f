"""Find battles in which a model gave itself away before the vote.

It may be named, say who made it or what it is, or be asked by the voter who it is. A vote on such a
battle is not by somebody who does not know the models. Signs, screens and cars in images also bear
names of makers, so a maker's name counts only in a sentence in which a reply speaks of itself.
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
    # People also ask about a car or a camera which model it is.
    r"|\b(?:what|which|whose) (?:\w+ ){0,3}(?:llm|vlm|ai|assistant|chatbot) is this\b"
    r"|\b(?:what is|what's|tell me|say) your name\b"
    r"|\bwho (?:made|built|created|trained|developed) you\b"
    r"|\byour (?:developer|maker|creator|model name|version)\b",
    re.IGNORECASE,
)
_SPEAKS_OF_ITSELF = (
    r"(?:\b(?:i am|i'm|my name is|call me|as an? (?:ai|assistant|model)|you are talking to)"
    # Few words may be between "I am" and the name: "I am looking at a Google sign" does not name the model.
    r"(?:(?: [\w-]+){0,4}? (?:ai|model|assistant|chatbot),?)?(?: (?:a|an|the|called|named|made|built|created|trained|developed|by|from|of))* )"
)
_MADE_BY = (
    r"\bI(?: am|'m| was|, )?\b[^.!?\n]{0,60}?\b(?:trained|built|made|created|developed) (?:by|at) "
)


def names_pattern(names: Iterable[str], makers: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Return two patterns that find replies in which a model of the arena gives itself away.

    Args:
        names: The names of the arena's models: those that the operator uses, and others they go by.
        makers: Their makers, in addition to `MAKERS`.

    Returns:
        First, a pattern that finds the name of one of the models anywhere in a reply. Names that are also ordinary
        words are left out of it. Second, a pattern that finds a phrase in which a reply says what model it is or who
        made it, such as "I was trained by ...".
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
    """Return how a battle gave a model away: `ASKED`, `NAMED` or `SELF_DESCRIPTION`.

    It is "" if the battle did not. `ASKED` means that the voter asked which model it is.

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
    """Return whether a name can hardly be an ordinary word.

    It must have at least four characters, and a digit, a sign such as "-", a capital after a small
    letter, or three capitals in a row.
    """
    return bool(re.search(r"[\d_./:-]|[a-z][A-Z]|[A-Z]{3}", name)) and len(name) >= 4
