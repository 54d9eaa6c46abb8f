"""LVLM-eHub's rule for reading a reply, faults included (appendix A.3, with the normaliser of VQA)."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.extraction.reading import ExtractedChoice, NamedExtractor, no_choice, published_rule, texts_alone
from snellen.suites.lvlm_ehub.metrics import vqa_match


def ehub_word_match(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """The first option in the order shown that occurs in the reply as word(s), after VQA's normaliser.

    This is the rule of the paper's ranking of options. Its accuracies ask only whether the gold is among those
    mentioned (`legacy_option_match`), so that a reply which names two options is right for both. Labels are not
    consulted.
    """
    del labels
    mentioned = tuple(place for place, option in enumerate(options) if vqa_match(reply, [option]))
    if mentioned:
        return ExtractedChoice(mentioned[0], "text", "likely", mentioned=mentioned)
    return no_choice("no match" if reply.strip() else "empty")


WORD_MATCH = NamedExtractor("lvlm-ehub-word-match", published_rule(ehub_word_match), "lvlm-ehub", texts_alone)
