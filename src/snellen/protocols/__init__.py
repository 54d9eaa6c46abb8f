"""Evaluation protocols: generators without I/O that yield waves of requests and receive responses."""

from snellen.protocols.base import (
    Declaration,
    Protocol,
    ProtocolSettings,
    RequestGenerator,
    parse_protocol,
)

__all__ = ["Declaration", "Protocol", "ProtocolSettings", "RequestGenerator", "parse_protocol"]
