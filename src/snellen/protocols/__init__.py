"""Evaluation protocols: generators without I/O that yield waves of requests and receive responses."""

import snellen
from snellen.protocols.base import (
    Declaration,
    Protocol,
    ProtocolSettings,
    RequestGenerator,
    parse_protocol,
)

__all__ = ["Declaration", "Protocol", "ProtocolSettings", "RequestGenerator", "parse_protocol"]

__path__.append(snellen.__path__[-1])  # says what to import instead of a name that is not here
