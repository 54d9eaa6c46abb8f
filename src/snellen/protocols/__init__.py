"""Evaluation protocols: generators without I/O that yield waves of requests and receive responses."""

from snellen.protocols.base import Protocol, Wave, parse_protocol

__all__ = ["Protocol", "Wave", "parse_protocol"]
