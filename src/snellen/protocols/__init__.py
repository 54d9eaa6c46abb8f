"""Evaluation protocols: generators without I/O that yield waves of requests and receive responses."""

from snellen.absent_names import hint_at_absent_names
from snellen.protocols.base import (
    Declaration,
    Protocol,
    ProtocolSettings,
    RequestGenerator,
    parse_protocol,
)

__all__ = ["Declaration", "Protocol", "ProtocolSettings", "RequestGenerator", "parse_protocol"]

hint_at_absent_names(__path__)
