"""Durations, shapes, signatures and errors, without a server."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict

import pydantic
import pytest

from codeq import Codeq, CodeqError, Context, Permanent, RateLimited, RetryIn, Settings, Unique
from codeq.app import EnqueueOptions
from codeq.durations import in_words, to_seconds
from codeq.shapes import Shape, dump_input, dump_output, load_output
from codeq.wire import producerpb_pb2, workerpb_pb2


class Model(pydantic.BaseModel):
    name: str
    at: datetime


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    id: int


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(3, 3.0), ("500ms", 0.5), ("30s", 30.0), ("5m", 300.0), ("1.5h", 5400.0), ("1d", 86400.0)],
)
def test_durations_are_seconds(given: Any, seconds: float) -> None:
    assert to_seconds(given, "delay") == seconds
    assert to_seconds(timedelta(seconds=seconds), "delay") == seconds


@pytest.mark.parametrize("given", [-1, "", "5", "5 minutes", float("nan"), float("inf"), None, True])
def test_what_is_no_duration_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(ValueError, match=r"invalid delay .*30s"):
        to_seconds(given, "delay")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Model, Model(name="Ada", at=datetime(2026, 1, 2, tzinfo=timezone.utc))),
        (Point, Point(1, 2)),
        (Row, {"id": 1}),
        (list[Point], [Point(1)]),
        (Any, {"free": [1, None]}),
    ],
)
def test_inputs_and_outputs_of_every_kind_come_back(kind: Any, value: Any) -> None:
    shape: Shape[Any] = Shape("the input", kind)
    assert shape.load(dump_input(shape, "task", value), "invalid_input") == value
    assert load_output(shape, dump_output(shape, "task", value)) == value


@pytest.mark.parametrize(
    ("output", "written"),
    [
        ({"a": 1}, b'{"a":1}'),
        ({}, b'{"$value":{}}'),
        ({"$value": 1}, b'{"$value":{"$value":1}}'),
        (7, b'{"$value":7}'),
        ("text", b'{"$value":"text"}'),
        (None, b""),
    ],
)
def test_outputs_are_written_as_the_other_clients_write_them(output: Any, written: bytes) -> None:
    shape: Shape[Any] = Shape("the output", Any)
    assert dump_output(shape, "task", output) == written
    assert load_output(shape, written) == output


def test_an_input_that_its_type_refuses_is_an_error_with_a_code() -> None:
    shape: Shape[Any] = Shape("the input of draw", Point)
    with pytest.raises(CodeqError, match="the input of draw is not valid") as raised:
        shape.load(b'{"x":"left"}', "invalid_input")
    assert raised.value.code == "invalid_input"
    with pytest.raises(CodeqError, match="more than") as raised:
        dump_input(Shape("the input", Any), "task", "x" * 5_000_000)
    assert raised.value.code == "payload_too_large"


def test_a_task_takes_its_types_from_its_handler() -> None:
    app = Codeq()

    @app.task
    async def draw(point: Point, context: Context) -> Row:
        return {"id": point.x}

    @app.task(name="tidy-up", lease="10s", retry_delay=lambda attempt, error: attempt * 10)
    def tidy(context: Context) -> None: ...

    assert (draw.name, draw.is_async, draw.lease_seconds) == ("draw", True, 60)
    assert (tidy.name, tidy.is_async, tidy.lease_seconds) == ("tidy-up", False, 10)
    assert tidy.retry_delay(3, ValueError()) == 30
    assert asyncio.run(draw(Point(4), None)) == {"id": 4}
    with pytest.raises(ValueError, match="two tasks with the name Draw"):
        app.task(name="Draw")(lambda: None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "with space"}, "invalid task name"),
        ({"lease": "0.5s"}, "invalid lease"),
        ({"timeout": "soon"}, "invalid timeout"),
    ],
)
def test_a_task_that_cannot_be_is_refused_when_it_is_defined(options: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Codeq().task(**{"name": "some", **options})(lambda given: given)


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://host", "http://user:secret@host"])
def test_a_url_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="give http://host:port"):
        Codeq(url)


def test_the_pause_of_a_rate_limit_comes_from_the_header() -> None:
    assert RateLimited("120").hold_seconds == 120
    assert RateLimited("2m").hold_seconds == 120
    later = format_datetime(datetime.now(timezone.utc) + timedelta(minutes=5), usegmt=True)
    assert 290 < RateLimited(later).hold_seconds <= 300
    assert not isinstance(RateLimited(1), RetryIn)
    assert not isinstance(Permanent("no"), RetryIn)


@pytest.mark.parametrize(
    ("given", "words"), [(0.5, "500ms"), (90, "90s"), ("2m", "2m"), ("24h", "1d"), ("1.5h", "90m"), (0, "0ms")]
)
def test_lengths_are_written_as_people_would(given: Any, words: str) -> None:
    assert in_words(given, "every") == words


def test_a_server_that_is_not_there_is_an_error_that_says_what_to_do() -> None:
    task = Codeq("http://127.0.0.1:9").define("greet", str, str)
    with pytest.raises(CodeqError) as raised:
        task.enqueue_sync("Ada", timeout="300ms")
    assert raised.value.code == "timeout"
    assert "cannot reach 127.0.0.1:9: nothing listens there; start a server with codeq dev" in str(raised.value)


def test_a_moment_needs_a_time_zone() -> None:
    task = Codeq().define("remind", str, str)
    noon = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert task.message("Ada", Settings(run_at=noon)).run_at.ToJsonString() == "2030-01-01T10:00:00Z"
    with pytest.raises(ValueError, match="invalid run_at 2030-01-01T12:00:00: give it a time zone"):
        task.message("Ada", Settings(run_at=noon.replace(tzinfo=None)))
    with pytest.raises(ValueError, match="invalid start 2030-01-01T12:00:00: give it a time zone"):
        Codeq().schedules.put_sync("s", task, "Ada", every="1h", start=noon.replace(tzinfo=None))


def test_a_task_takes_its_lane_its_cost_and_its_key_from_the_input() -> None:
    app = Codeq()

    @app.task(
        lane=lambda point: f"row {point.y}", cost=lambda point: point.x, unique=lambda point: Unique(str(point.x))
    )
    async def draw(point: Point) -> None: ...

    @app.task(lane="all", cost=3, unique=Unique("one", on="latest"))
    async def tidy() -> None: ...

    given = draw.message(Point(7, 2), Settings())
    assert (given.lane, given.cost, given.unique_key) == ("row 2", 7, "7")
    other = draw.message(Point(7, 2), Settings(lane="other", cost=1, unique=Unique("other")))
    assert (other.lane, other.cost, other.unique_key) == ("other", 1, "other")
    fixed = tidy.message(None, Settings())
    assert (fixed.lane, fixed.cost, fixed.unique_key, fixed.unique_on) == ("all", 3, "one", "latest")
    plain = app.define("plain", str, str).message("", Settings())
    assert (plain.lane, plain.cost, plain.unique_key) == ("", 0, "")


def test_options_that_do_not_exist_are_refused_by_type_checkers_and_when_the_program_runs() -> None:
    task = Codeq().define("remind", str, str)
    with pytest.raises(TypeError, match="dealy"):
        task.enqueue_sync("Ada", dealy="1s")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="dealy"):
        task.run_sync("Ada", dealy="1s")  # type: ignore[call-arg]


def test_the_keyword_arguments_of_enqueue_are_the_fields_of_settings() -> None:
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert EnqueueOptions.__required_keys__ | EnqueueOptions.__optional_keys__ == fields


@pytest.mark.parametrize("module", [workerpb_pb2, producerpb_pb2])
def test_the_messages_have_the_fields_of_the_proto_files(module: ModuleType) -> None:
    name = module.__name__.rsplit(".", 1)[-1].removesuffix("_pb2")
    text = (Path(__file__).parents[3] / "proto" / f"{name}.proto").read_text()
    written = {
        (message, field, int(number))
        for message, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S)
        for field, number in re.findall(r"(\w+) = (\d+);", body)
    }
    generated = {
        (message.name, field.name, field.number)
        for message in module.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    }
    assert len(written) > 30
    assert generated == written
