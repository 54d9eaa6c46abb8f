"""What MMBench's judge is asked, as printed (section 4.2 and appendix A)."""

from __future__ import annotations

from snellen.prompts.judge_prompts import load_judge_prompts

MATCH_VERSION = "mmbench-match-1"
_PROMPTS = load_judge_prompts("snellen.suites.mmbench")
MATCH = _PROMPTS[MATCH_VERSION]
MARK = _PROMPTS["mmbench-mark-1"]
MARK_LIST = _PROMPTS["mmbench-mark-list-1"]
