"""Conditions on facts and tags: `dimension == 'CG' and level in ('easy', 'hard')`.

A condition is written in a small part of Python: names, strings, numbers, lists, comparisons, `in`, `and`, `or`, `not`.
It is parsed by Python's own parser and evaluated here, so that no code of the user is executed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from snellen import callers
from snellen.errors import DataError

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, group: item in group,
    ast.NotIn: lambda item, group: item not in group,
}


class Condition:
    """A parsed condition. Its attribute `names` has the names of the facts that it refers to.

    Args:
        text: The condition.
        nested: Whether it may refer to a field of a fact: `note.question_type == 'color'`.
        setting: The setting that contains the condition, with which error messages begin.

    Raises:
        DataError: The text is not a valid condition.
    """

    def __init__(self, text: str, *, nested: bool = False, setting: str = "where") -> None:
        """Parse a condition, and check that it has only what conditions may have.

        Args:
            text: The condition, such as `dimension == 'CG'`.
            nested: Whether it may name a field inside an object, such as `answer.kind`.
            setting: The setting that gives the condition, for messages.

        Raises:
            DataError: The text is not a condition.
        """
        self.text = text
        self._setting = setting
        self._nested = nested
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        # Very deep nesting raises the last two.
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise DataError(
                f"{self._setting_text} is not a condition; an example is \"dimension == 'CG'\""
            ) from None
        names = [node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        self.names = frozenset(names)
        self._check(self._tree)

    @property
    def _setting_text(self) -> str:
        """The setting as the user gives it, such as `--where "level == 'easy'"`, for error messages."""
        return callers.setting(self._setting, self.text, is_quoted=True)

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Return whether the condition is true for some facts. A fact that is missing has the value None."""
        return bool(self._value(self._tree, facts))

    def _check(self, node: ast.expr) -> None:
        """Raise DataError if an expression has anything but names, constants, comparisons, `in`, `and`, `or` and `not`."""
        match node:
            case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                for part in parts:
                    self._check(part)
            case ast.UnaryOp(op=ast.Not(), operand=part):
                self._check(part)
            case ast.Compare(left=left, ops=operators, comparators=others) if all(
                type(operator) in _COMPARE for operator in operators
            ):
                for part in (left, *others):
                    self._check(part)
            case ast.Name() | ast.Constant():
                return
            case ast.Attribute(value=ast.Name()) if self._nested:
                return
            case _:
                raise DataError(
                    f"{self._setting_text}: {ast.unparse(node)!r} is not allowed; use names, strings, "
                    "numbers, comparisons, in, and, or, not"
                )

    def _value(self, node: ast.expr, facts: Mapping[str, Any]) -> Any:
        """Return the value of an expression that `_check` has accepted."""
        match node:
            case ast.BoolOp(op=ast.And(), values=operands):
                return all(self._value(operand, facts) for operand in operands)
            case ast.BoolOp(values=operands):
                return any(self._value(operand, facts) for operand in operands)
            case ast.UnaryOp(operand=operand):  # `not`
                return not self._value(operand, facts)
            case ast.Compare(left=left, ops=operators, comparators=others):
                # As in Python, `a < b < c` compares neighbours.
                values = [self._value(part, facts) for part in (left, *others)]
                for operator, first, second in zip(operators, values[:-1], values[1:], strict=True):
                    if not self._compare(operator, first, second):
                        return False
                return True
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [self._value(element, facts) for element in elements]
            case ast.Name(id=name):
                return facts.get(name)
            case ast.Attribute(value=ast.Name(id=name), attr=inner_name):
                outer = facts.get(name)
                return outer.get(inner_name) if isinstance(outer, Mapping) else None
            case ast.Constant(value=value):
                return value
            case _:
                raise AssertionError(f"unchecked {ast.dump(node)}")

    def _compare(self, operator: ast.cmpop, first: Any, second: Any) -> bool:
        """Return whether a comparison is true; values of types that cannot be compared give False."""
        try:
            return _COMPARE[type(operator)](first, second)
        except TypeError:
            return False
