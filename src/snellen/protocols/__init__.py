"""Evaluation protocols: generators without I/O that yield waves of requests and receive responses."""

from snellen.protocols.base import Protocol, ProtocolSettings, RequestGenerator, parse_protocol
from snellen.protocols.declaration import Declaration

__all__ = ["Declaration", "Protocol", "ProtocolSettings", "RequestGenerator", "parse_protocol"]
