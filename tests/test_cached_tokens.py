"""Tokens that a server had in its cache, or stored in it: recorded as the services count them, and priced apart."""

from __future__ import annotations

import math

import click
import pytest

from snellen.cli.flags import parse_price
from snellen.errors import DataError
from snellen.models.services import read_anthropic
from snellen.records import Response, Usage, in_batch
from snellen.runs.drivers import cost_of
from snellen.runs.spec import run_spec
from snellen.scoring.request_costs import RoleUse, sum_usage, usage_text

# As Anthropic's documentation of prompt caching has it: input_tokens are those after the last cache breakpoint.
ANTHROPIC_USAGE = {
    "input_tokens": 50,
    "cache_creation_input_tokens": 1000,
    "cache_read_input_tokens": 2000,
    "output_tokens": 10,
}
CACHING = Usage(3050, 10, cached_tokens=2000, stored_tokens=1000)


def test_anthropics_counts_are_recorded() -> None:
    body = {
        "content": [{"type": "text", "text": "A"}],
        "stop_reason": "end_turn",
        "usage": ANTHROPIC_USAGE,
    }
    response = read_anthropic(body)
    assert isinstance(response, Response) and response.usage == CACHING
    assert usage_text(CACHING) == (
        "3,050 input tokens (2,000 of them cached, 1,000 stored in the cache), 10 output tokens"
    )
    assert sum_usage([response, response]) == Usage(
        6100, 20, cached_tokens=4000, stored_tokens=2000
    )


def test_cached_tokens_have_their_price() -> None:
    """By hand, in millionths: 50 x 3 + 2000 x 0.3 + 1000 x 3.75 + 10 x 15 = 4650; without, 3050 x 3 + 150 = 9300."""
    assert cost_of(CACHING, (3.0, 15.0, 0.3, 3.75)) == pytest.approx(4650e-6)
    assert cost_of(CACHING, (3.0, 15.0)) == pytest.approx(9300e-6)
    # Stored tokens are billed like others where no price is given for them.
    assert cost_of(CACHING, (3.0, 15.0, 0.3)) == pytest.approx((1050 * 3 + 2000 * 0.3 + 150) * 1e-6)
    assert cost_of(in_batch(CACHING), (3.0, 15.0, 0.3, 3.75)) == pytest.approx(2325e-6)


def test_a_price_has_two_to_four_numbers() -> None:
    context, parameter = click.Context(click.Command("run")), click.Option(["--price"])
    assert parse_price(context, parameter, "3,15,0.3,3.75") == (3.0, 15.0, 0.3, 3.75)
    for text in ("3", "3,15,1,1,1", "3,x", "nan,1", "-1,15", "inf,1"):
        with pytest.raises(click.BadParameter, match="is not IN,OUT; give two prices"):
            parse_price(context, parameter, text)
    fields = {"models": ["snellen:tiny"], "benchmarks": ["eyechart"], "price": [3, 15, 0.3]}
    assert run_spec(fields).execution.price == (3.0, 15.0, 0.3)
    # A manifest with a price that JSON does not know could not be read again.
    for number in (math.nan, math.inf, -1.0):
        with pytest.raises(DataError, match="price"):
            run_spec({**fields, "price": [number, 15]})


def test_without_their_price_it_is_said_that_they_count_as_others() -> None:
    usage = RoleUse("", "anthropic:claude", 4, 0, CACHING)
    said = (
        "0.0093 at the price given, which counts cached tokens as others (a third price is theirs)"
    )
    assert usage.sentence((3.0, 15.0)).endswith(said)
    assert usage.sentence((3.0, 15.0, 0.3, 3.75)).endswith("0.00465 at the price given")
