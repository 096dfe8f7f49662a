"""
Inputs and outputs as JSON. pydantic reads and writes what the annotations of a handler say: models, dataclasses,
TypedDicts and plain types.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pydantic
import pydantic_core
import typing_extensions

from .errors import CodeqError

T = TypeVar("T")

#: Below what one message to the server may have.
BYTES_MAX = 4 * 1024 * 1024 - 64 * 1024
_WRAPPED = b'{"$value":'


class Shape(Generic[T]):
    """One side of a task: its input or its output."""

    def __init__(self, of: str, kind: Any) -> None:
        self._of = of
        self._adapter: pydantic.TypeAdapter[T] = pydantic.TypeAdapter(_readable(kind))
        self._is_any = kind is Any

    def dump(self, value: T, code: str) -> bytes:
        try:
            data = self._adapter.dump_json(value, warnings=False)
            if not self._is_any:
                # What the other side will get is checked, not what was passed.
                self._adapter.validate_json(data)
        except (pydantic.ValidationError, pydantic_core.PydanticSerializationError) as error:
            raise CodeqError(code, f"{self._of} is not valid: {error}") from error
        return data

    def load(self, data: bytes, code: str) -> T:
        try:
            return self._adapter.validate_json(data)
        except pydantic.ValidationError as error:
            raise CodeqError(code, f"{self._of} is not valid: {error}") from error


def _readable(kind: Any) -> Any:
    """Before Python 3.12 pydantic reads the TypedDict of typing_extensions only, so one is made of the other."""
    if sys.version_info >= (3, 12) or not typing.is_typeddict(kind):
        return kind
    fields = {
        name: field if name in kind.__required_keys__ else typing_extensions.NotRequired[field]
        for name, field in ((name, _readable(hint)) for name, hint in typing.get_type_hints(kind).items())
    }
    make: Any = typing_extensions.TypedDict
    return make(kind.__name__, fields)


def dump_input(shape: Shape[Any], task: str, value: Any) -> bytes:
    data = shape.dump(value, "invalid_input")
    if len(data) > BYTES_MAX:
        text = f"the input of {task} has more than {BYTES_MAX} bytes"
        raise CodeqError("payload_too_large", f"{text}; store it elsewhere and send a reference")
    return data


def dump_output(shape: Shape[Any], task: str, value: Any) -> bytes:
    """
    The result of the server, which has to be a JSON object. Anything else is put into an object with one key, and
    so is an object that could be mistaken for that. No bytes mean no output.
    """
    if value is None:
        return b""
    data = shape.dump(value, "invalid_output")
    if len(data) > BYTES_MAX:
        text = f"the output of {task} has more than {BYTES_MAX} bytes"
        raise CodeqError("invalid_output", f"{text}; store it elsewhere and return a reference")
    is_plain = data.startswith(b"{") and data != b"{}" and not data.startswith(_WRAPPED)
    return data if is_plain else _WRAPPED + data + b"}"


def load_output(shape: Shape[T], data: bytes) -> T:
    if data in (b"", b"{}"):
        return typing.cast(T, None)
    value = pydantic_core.from_json(data)
    if list(value) == ["$value"]:
        data = pydantic_core.to_json(value["$value"])
    return shape.load(data, "invalid_output")


class Signature:
    """What a handler takes and returns, from its annotations."""

    def __init__(self, handler: Callable[..., Any], name: str, context: type) -> None:
        parameters = list(inspect.signature(handler).parameters.values())
        if len(parameters) > 2:
            raise TypeError(f"the handler of {name} has to take an input and a context at most")
        try:
            hints = typing.get_type_hints(handler, include_extras=True)
        except NameError as error:
            text = f"a type of the handler of {name} cannot be found: {error}"
            raise TypeError(f"{text}; define it at the top of its module") from error
        kinds = [hints.get(each.name, Any) for each in parameters]
        self.takes_context = len(kinds) == 2 or (len(kinds) == 1 and kinds[0] is context)
        self.takes_input = len(kinds) - int(self.takes_context) == 1
        self.input: Any = kinds[0] if self.takes_input else Any
        self.output: Any = hints.get("return", Any)
        self.is_async = inspect.iscoroutinefunction(handler)
