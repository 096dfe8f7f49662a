"""The application: which server, which tasks, and what can be done with them."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar, overload
from urllib.parse import quote
from uuid import uuid4

from typing_extensions import TypedDict, Unpack

from .batch import Batch, CreatedBatch, create_batch
from .context import Context
from .durations import Duration, in_words, moment, to_seconds, whole_ms, whole_seconds
from .engine import Engine, engine
from .errors import CodeqError, TaskFailed
from .producer_core import ProducerCore
from .schedules import Schedules
from .sessions import Transport, Transports
from .shapes import Shape, Signature, dump_input, load_output
from .tracing import PassOn, Tracing
from .wire import producerpb_pb2 as producer
from .worker import Listeners, Worker

In = TypeVar("In")
Out = TypeVar("Out")
R = TypeVar("R")

Token = str | Callable[[], str] | Callable[[], Awaitable[str]]
RetryDelay = Duration | Callable[[int, BaseException], Duration]
#: A value for all tasks, or a function that gets the input.
Lane = str | Callable[[Any], str]
Cost = int | Callable[[Any], int]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_ENQUEUE_SECONDS = 30.0


@dataclass
class _Link:
    """What lives on the engine of this process."""

    pid: int
    transports: Transports
    producer: ProducerCore


@dataclass(frozen=True)
class Unique:
    """One task of the queue at a time has the key."""

    #: Such as the id of an account.
    key: str
    #: Until when a task has its key: until it has ended, or until a worker begins it.
    until: Literal["unfinished", "waiting"] = "unfinished"
    #: When a task has the key: `return` gives that task, `refuse` fails with the code `unique_key_held`, `replace` and
    #: `latest` give the waiting task the new input, priority and time, `cancel` cancels the task and creates this one.
    on: Literal["return", "refuse", "replace", "latest", "cancel"] = "return"
    #: How long the key is held at least, also when the task ends before.
    hold: Duration | None = None
    #: How long later calls may put off the task.
    max_wait: Duration | None = None


@dataclass(frozen=True)
class Settings:
    """How one task is to be treated when it is enqueued."""

    #: To the millisecond.
    delay: Duration | None = None
    run_at: datetime | None = None
    priority: int | None = None
    max_attempts: int | None = None
    idempotency_key: str | None = None
    #: What a key does whose first task had another input: `strict` refuses this task, `first` gives the first one.
    #: Default: the setting of the server, which is `strict` unless it was changed.
    idempotency_mode: Literal["strict", "first"] | None = None
    unique: Unique | None = None
    #: Limits, rates and fair shares apply to the tasks of the queue with the same lane.
    lane: str | None = None
    #: Units of rates and fair shares that the task takes. Default: 1.
    cost: int | None = None
    #: How long a worker may take for one attempt.
    execution_timeout: Duration | None = None
    #: How long the task may wait for a worker once it may be claimed.
    ttl: Duration | None = None
    tags: Sequence[str] = ()
    #: The server posts the result there.
    webhook: str | None = None
    #: The id of the open batch that the task becomes a member of.
    batch: str | None = None
    #: Tasks that have to succeed before a worker can claim this one.
    after: Sequence[Run[Any] | str] = ()


#: A key for all tasks, or a function that gets the input.
UniqueOf = Unique | Callable[[Any], Unique]


class MemberOptions(TypedDict, total=False):
    """The options of a member of a batch: the fields of `Settings` that it can have, as keyword arguments."""

    delay: Duration | None
    run_at: datetime | None
    priority: int | None
    max_attempts: int | None
    idempotency_key: str | None
    idempotency_mode: Literal["strict", "first"] | None
    unique: Unique | None
    lane: str | None
    cost: int | None
    execution_timeout: Duration | None
    ttl: Duration | None
    tags: Sequence[str]
    webhook: str | None


class EnqueueOptions(MemberOptions, total=False):
    """The fields of `Settings`, as keyword arguments."""

    batch: str | None
    after: Sequence[Run[Any] | str]


class Run(Generic[Out]):
    """A task that was enqueued."""

    def __init__(self, app: Codeq, output: Shape[Out], task_id: str) -> None:
        self._app = app
        self._output = output
        self.id = task_id

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    async def result(self, timeout: Duration | None = None) -> Out:
        """
        Waits until the task has ended and gives its output. Raises `TaskFailed` when the task failed, and a
        `CodeqError` with the code `timeout` when it has not ended in time.
        """
        return await self._app.engine().do(self._result(timeout))

    def result_sync(self, timeout: Duration | None = None) -> Out:
        return self._app.engine().do_sync(self._result(timeout))

    async def cancel(self, grace: Duration | None = None) -> None:
        """
        Ends the task as failed with the reason `CANCELLED`. When a worker has it, its handler is told to stop,
        and loses the task after the grace.
        """
        await self._app.engine().do(self._cancel(grace))

    def cancel_sync(self, grace: Duration | None = None) -> None:
        self._app.engine().do_sync(self._cancel(grace))

    async def status(self) -> dict[str, Any]:
        """The task as the HTTP API shows it."""
        return await self._app.engine().do(self._status())

    def status_sync(self) -> dict[str, Any]:
        return self._app.engine().do_sync(self._status())

    async def _result(self, timeout: Duration | None) -> Out:
        seconds = None if timeout is None else to_seconds(timeout, "timeout")
        found = await self._app.link().producer.result(self.id, seconds)
        if found.status != "COMPLETED":
            raise TaskFailed(self.id, found.error, found.attempts)
        return load_output(self._output, found.result_json)

    async def _cancel(self, grace: Duration | None) -> None:
        body = {} if grace is None else {"graceSeconds": whole_seconds(to_seconds(grace, "grace"))}
        await self._app.ask("POST", f"/tasks/{quote(self.id, safe='')}/cancel", body)

    async def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._app.ask("GET", f"/tasks/{quote(self.id, safe='')}")
        return found


class EnqueueManyError(CodeqError):
    """Some tasks were not stored; `outcomes` has a run or an error for each, in order."""

    def __init__(self, outcomes: Sequence[Run[Any] | CodeqError]) -> None:
        refused = [each for each in outcomes if isinstance(each, CodeqError)]
        text = f"{len(refused)} of {len(outcomes)} tasks were not stored: {refused[0]}"
        super().__init__("some_refused", text)
        self.outcomes = outcomes


class Task(Generic[In, Out]):
    """A task: made by `@app.task`, or by `app.define` where only producers are."""

    def __init__(
        self,
        app: Codeq,
        name: str,
        input_type: Any,
        output_type: Any,
        *,
        handler: Callable[..., Any] | None = None,
        signature: Signature | None = None,
        lease: Duration = 60,
        timeout: Duration | None = None,
        max_attempts: int | None = None,
        retry_delay: RetryDelay | None = None,
        priority: int = 0,
        unique: UniqueOf | None = None,
        lane: Lane | None = None,
        cost: Cost | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            rule = "a letter or digit, then up to 127 of letters, digits and _ . : -"
            raise ValueError(f"invalid task name {name!r}: {rule}")
        self._app = app
        self.name = name
        self.input: Shape[In] = Shape(f"the input of {name}", input_type)
        self.output: Shape[Out] = Shape(f"the output of {name}", output_type)
        self.handler = handler
        self.is_async = signature is not None and signature.is_async
        self._signature = signature
        self.lease_seconds = to_seconds(lease, "lease")
        if not 1 <= self.lease_seconds <= 86_400:
            raise ValueError(f"invalid lease {lease!r}: from 1s to 24h")
        self.timeout_seconds = None if timeout is None else to_seconds(timeout, "timeout")
        self._max_attempts = max_attempts
        self._retry_delay = retry_delay
        self._priority = priority
        self._unique = unique
        self._lane = lane
        self._cost = cost

    def __call__(self, *args: Any) -> Any:
        """Calls the handler itself, without a server: for tests."""
        if self.handler is None:
            raise TypeError(f"the task {self.name} has no handler here")
        return self.handler(*args)

    async def enqueue(
        self,
        input: In,  # noqa: A002
        *,
        timeout: Duration = _ENQUEUE_SECONDS,
        **settings: Unpack[EnqueueOptions],
    ) -> Run[Out]:
        """
        Returns when the task is stored. While the server cannot be reached it tries again, for as long as `timeout`
        allows; a task is never stored twice. The other options are the fields of `Settings`.
        """
        runs = await self._app.engine().do(self.create([(input, Settings(**settings))], timeout))
        return _single(runs)

    def enqueue_sync(
        self,
        input: In,  # noqa: A002
        *,
        timeout: Duration = _ENQUEUE_SECONDS,
        **settings: Unpack[EnqueueOptions],
    ) -> Run[Out]:
        work = self.create([(input, Settings(**settings))], timeout)
        return _single(self._app.engine().do_sync(work))

    async def enqueue_many(
        self,
        inputs: Iterable[In | tuple[In, Settings]],
        *,
        timeout: Duration = _ENQUEUE_SECONDS,
    ) -> list[Run[Out]]:
        """Enqueues several tasks at once; raises an `EnqueueManyError` when some are not stored."""
        items = [self.item(each) for each in inputs]
        return _all(await self._app.engine().do(self.create(items, timeout)))

    def enqueue_many_sync(
        self,
        inputs: Iterable[In | tuple[In, Settings]],
        *,
        timeout: Duration = _ENQUEUE_SECONDS,
    ) -> list[Run[Out]]:
        items = [self.item(each) for each in inputs]
        return _all(self._app.engine().do_sync(self.create(items, timeout)))

    async def run(
        self,
        input: In,  # noqa: A002
        *,
        timeout: Duration | None = None,
        **settings: Unpack[EnqueueOptions],
    ) -> Out:
        """
        Enqueues the task and waits for its output. `timeout` is for storing the task (default: 30 seconds) and then for
        its result (default: no limit).
        """
        run = await self.enqueue(input, timeout=_ENQUEUE_SECONDS if timeout is None else timeout, **settings)
        return await run.result(timeout)

    def run_sync(
        self,
        input: In,  # noqa: A002
        *,
        timeout: Duration | None = None,
        **settings: Unpack[EnqueueOptions],
    ) -> Out:
        run = self.enqueue_sync(input, timeout=_ENQUEUE_SECONDS if timeout is None else timeout, **settings)
        return run.result_sync(timeout)

    def of(self, task_id: str) -> Run[Out]:
        """A task that was enqueued before, by its id."""
        return Run(self._app, self.output, task_id)

    async def by_key(self, key: str) -> Run[Out]:
        """
        The task of an idempotency key. Raises a `CodeqError` with the code `not_found` when no task has the key, and
        `task_deleted` when its task has ended and was deleted; then `task_id` is its id.
        """
        return await self._app.engine().do(self._by_key(key))

    def by_key_sync(self, key: str) -> Run[Out]:
        return self._app.engine().do_sync(self._by_key(key))

    async def _by_key(self, key: str) -> Run[Out]:
        return self.of((await self._app.ask("GET", f"/tasks/by-key/{quote(key, safe='')}"))["id"])

    def template(self) -> dict[str, Any]:
        """What the task says of itself when it is the callback of a batch."""
        return {"priority": self._priority, "maxAttempts": self._max_attempts or 0}

    def call(self, context: Context) -> Any:
        """Runs the handler with the input of the context."""
        assert self.handler is not None
        assert self._signature is not None
        args: list[Any] = []
        if self._signature.takes_input:
            args.append(self.input.load(context.payload, "invalid_input"))
        if self._signature.takes_context:
            args.append(context)
        return self.handler(*args)

    def retry_delay(self, attempt: int, error: BaseException) -> float | None:
        """Seconds before the next attempt; none leaves it to the server."""
        delay = self._retry_delay
        if delay is None:
            return None
        return to_seconds(delay(attempt, error) if callable(delay) else delay, "retry delay")

    def item(self, given: In | tuple[In, Settings]) -> tuple[In, Settings]:
        """An input with its settings."""
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Settings):
            return given
        return given, Settings()  # type: ignore[return-value]

    async def create(self, items: Sequence[tuple[In, Settings]], timeout: Duration) -> list[Run[Out] | CodeqError]:
        with self._app.tracing.enqueue(self.name) as trace:
            messages: list[producer.CreateTask | CodeqError] = []
            for value, settings in items:
                try:
                    message = self.message(value, settings)
                    if trace is not None:
                        message.trace_parent, message.trace_state = trace
                    messages.append(message)
                except CodeqError as error:
                    messages.append(error)
            sent = [each for each in messages if not isinstance(each, CodeqError)]
            seconds = to_seconds(timeout, "timeout")
            stored = iter(await self._app.link().producer.create(sent, seconds) if sent else [])
        outcomes: list[Run[Out] | CodeqError] = []
        for message_or_error in messages:
            if isinstance(message_or_error, CodeqError):
                outcomes.append(message_or_error)
                continue
            outcome = next(stored)
            outcomes.append(outcome if isinstance(outcome, CodeqError) else self.of(outcome))
        return outcomes

    def message(self, value: In, settings: Settings) -> producer.CreateTask:
        """A task as it is sent to the server."""
        priority = self._priority if settings.priority is None else settings.priority
        attempts = settings.max_attempts or self._max_attempts or 0
        message = producer.CreateTask(
            command=self.name,
            payload=dump_input(self.input, self.name, value),
            priority=priority,
            max_attempts=attempts,
            idempotency_key=settings.idempotency_key or "",
            webhook=settings.webhook or "",
            tags=settings.tags,
            idempotency_mode=settings.idempotency_mode or "",
            lane=(_of(self._lane, value) if settings.lane is None else settings.lane) or "",
            cost=(_of(self._cost, value) if settings.cost is None else settings.cost) or 0,
            delay_ms=_ms(settings.delay, "delay"),
            timeout_seconds=_seconds(settings.execution_timeout, "execution_timeout"),
            ttl_seconds=_seconds(settings.ttl, "ttl"),
            batch_id=settings.batch or "",
            after=[each if isinstance(each, str) else each.id for each in settings.after],
        )
        if settings.run_at is not None:
            message.run_at.FromDatetime(moment(settings.run_at, "run_at"))
        unique = _of(self._unique, value) if settings.unique is None else settings.unique
        if unique is not None:
            message.unique_key, message.unique_while, message.unique_on = unique.key, unique.until, unique.on
            message.unique_for = _length(unique.hold, "hold")
            message.unique_max_wait = _length(unique.max_wait, "max_wait")
        return message


def _of(option: Any, value: Any) -> Any:
    return option(value) if callable(option) else option


def _ms(duration: Duration | None, what: str) -> int:
    return 0 if duration is None else whole_ms(to_seconds(duration, what))


def _length(duration: Duration | None, what: str) -> str:
    return "" if duration is None else in_words(duration, what)


def _seconds(duration: Duration | None, what: str) -> int:
    return 0 if duration is None else whole_seconds(to_seconds(duration, what))


def _single(outcomes: Sequence[Run[Out] | CodeqError]) -> Run[Out]:
    (outcome,) = outcomes
    if isinstance(outcome, CodeqError):
        raise outcome
    return outcome


def _all(outcomes: Sequence[Run[Out] | CodeqError]) -> list[Run[Out]]:
    runs = [each for each in outcomes if isinstance(each, Run)]
    if len(runs) < len(outcomes):
        raise EnqueueManyError(outcomes)
    return runs


class TaskDecorator(Protocol):
    """What `app.task(...)` returns."""

    @overload
    def __call__(self, handler: Callable[[In, Context], Coroutine[Any, Any, Out]], /) -> Task[In, Out]: ...
    @overload
    def __call__(self, handler: Callable[[In], Coroutine[Any, Any, Out]], /) -> Task[In, Out]: ...
    @overload
    def __call__(self, handler: Callable[[], Coroutine[Any, Any, Out]], /) -> Task[None, Out]: ...
    @overload
    def __call__(self, handler: Callable[[In, Context], Out], /) -> Task[In, Out]: ...
    @overload
    def __call__(self, handler: Callable[[In], Out], /) -> Task[In, Out]: ...
    @overload
    def __call__(self, handler: Callable[[], Out], /) -> Task[None, Out]: ...


class Codeq:
    """
    Which server, who is asking, and the tasks of this application. Everything has a default: the variables `CODEQ_URL`
    and `CODEQ_TOKEN`, or a server for development on this machine.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        token: Token | None = None,
        *,
        transport: Transport = "auto",
        streams: str | None = None,
        ca: bytes | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        environment = os.environ.get("CODEQ_URL") or os.environ.get("CODEQ_BASE_URL")
        given = url or environment or "http://127.0.0.1:8080"
        self._urls = given.split(",") if isinstance(given, str) else list(given)
        self._token: Token = token or os.environ.get("CODEQ_TOKEN") or "dev-token"
        self._options = (transport, streams, ca)
        # Mistakes in the options show here, and not on another thread.
        Transports(self._urls, *self._options)
        self.tracing: Tracing = tracing or PassOn()
        self.tasks: dict[str, Task[Any, Any]] = {}
        #: Tasks that the server creates again and again.
        self.schedules = Schedules(self)
        self._link: _Link | None = None

    @overload
    def task(self, handler: Callable[[In, Context], Coroutine[Any, Any, Out]], /) -> Task[In, Out]: ...
    @overload
    def task(self, handler: Callable[[In], Coroutine[Any, Any, Out]], /) -> Task[In, Out]: ...
    @overload
    def task(self, handler: Callable[[], Coroutine[Any, Any, Out]], /) -> Task[None, Out]: ...
    @overload
    def task(self, handler: Callable[[In, Context], Out], /) -> Task[In, Out]: ...
    @overload
    def task(self, handler: Callable[[In], Out], /) -> Task[In, Out]: ...
    @overload
    def task(self, handler: Callable[[], Out], /) -> Task[None, Out]: ...
    @overload
    def task(
        self,
        handler: None = None,
        /,
        *,
        name: str | None = None,
        lease: Duration = 60,
        timeout: Duration | None = None,
        max_attempts: int | None = None,
        retry_delay: RetryDelay | None = None,
        priority: int = 0,
        unique: UniqueOf | None = None,
        lane: Lane | None = None,
        cost: Cost | None = None,
    ) -> TaskDecorator: ...
    def task(
        self,
        handler: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        lease: Duration = 60,
        timeout: Duration | None = None,
        max_attempts: int | None = None,
        retry_delay: RetryDelay | None = None,
        priority: int = 0,
        unique: UniqueOf | None = None,
        lane: Lane | None = None,
        cost: Cost | None = None,
    ) -> Task[Any, Any] | TaskDecorator:
        """
        Makes a task of a function of one input, and a `Context` if it wants one. Annotations say what the input and the
        output are: pydantic models, dataclasses, TypedDicts or plain types.
        """
        options: dict[str, Any] = {
            "name": name,
            "lease": lease,
            "timeout": timeout,
            "max_attempts": max_attempts,
            "retry_delay": retry_delay,
            "priority": priority,
            "unique": unique,
            "lane": lane,
            "cost": cost,
        }
        if handler is not None:
            return self._add(handler, options)
        return lambda given: self._add(given, options)

    def define(
        self,
        name: str,
        input: type[In],  # noqa: A002
        output: type[Out],
        **options: Any,
    ) -> Task[In, Out]:
        """A task whose handler is elsewhere, for producers."""
        return Task(self, name, input, output, **options)

    def worker(
        self,
        tasks: Sequence[Task[Any, Any]] | None = None,
        *,
        concurrency: int = 10,
        name: str | None = None,
        grace: Duration = 10,
        listeners: Listeners | None = None,
        stacks: bool = True,
    ) -> Worker:
        """
        A worker for these tasks; default: all tasks of the application that have a handler. `stacks=False` keeps the
        places where handlers failed from the server.
        """
        return Worker(
            self,
            list(self.tasks.values()) if tasks is None else tasks,
            concurrency=concurrency,
            name=name,
            grace=grace,
            listeners=listeners,
            stacks=stacks,
        )

    async def batch(
        self,
        callback: Task[In, Out],
        input: In,  # noqa: A002
        members: Sequence[tuple[Task[Any, Any], Any]] | None = None,
        *,
        id: str | None = None,  # noqa: A002
        on: Literal["success", "end"] = "success",
        fail_fast: bool = False,
        open_for: Duration | None = None,
    ) -> CreatedBatch[Out]:
        """
        Creates a batch: `callback` runs when every member succeeded or, with `on="end"`, when every member has ended.
        With `members`, pairs of a task and its input, the batch is filled and sealed; without, it stays open. The same
        call with the same `id` gives the same batch with the same members.
        """
        return await self.engine().do(self._batch(callback, input, members, id, on, fail_fast, open_for))

    def batch_sync(
        self,
        callback: Task[In, Out],
        input: In,  # noqa: A002
        members: Sequence[tuple[Task[Any, Any], Any]] | None = None,
        *,
        id: str | None = None,  # noqa: A002
        on: Literal["success", "end"] = "success",
        fail_fast: bool = False,
        open_for: Duration | None = None,
    ) -> CreatedBatch[Out]:
        return self.engine().do_sync(self._batch(callback, input, members, id, on, fail_fast, open_for))

    def batch_by_id(self, batch_id: str) -> Batch:
        """A batch that was created before."""
        return Batch(self, batch_id)

    async def close(self) -> None:
        """Ends the connection of producers; workers are closed by themselves."""
        await self.engine().do(self._close())

    def close_sync(self) -> None:
        self.engine().do_sync(self._close())

    def engine(self) -> Engine:
        return engine()

    # On the thread of the engine.

    def link(self) -> _Link:
        if self._link is None or self._link.pid != os.getpid():
            transports = Transports(self._urls, *self._options)
            self._link = _Link(os.getpid(), transports, ProducerCore(transports, self.token))
        return self._link

    async def token(self) -> str:
        given = self._token if isinstance(self._token, str) else self._token()
        return given if isinstance(given, str) else await given

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return await self.link().transports.ask(method, path, token=await self.token(), body=body)

    async def _batch(
        self,
        callback: Task[In, Out],
        value: In,
        members: Sequence[tuple[Task[Any, Any], Any]] | None,
        name: str | None,
        on: str,
        fail_fast: bool,
        open_for: Duration | None,
    ) -> CreatedBatch[Out]:
        return await create_batch(
            self,
            callback,
            value,
            members,
            batch_id=name or str(uuid4()),
            is_named=name is not None,
            options={**callback.template(), "on": on, "failFast": fail_fast},
            open_for=open_for,
        )

    async def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.producer.close()
            link.transports.close()

    def _add(self, handler: Callable[..., Any], options: dict[str, Any]) -> Task[Any, Any]:
        name = options["name"] or handler.__name__
        if name.lower() in self.tasks:
            raise ValueError(f"the application has two tasks with the name {name}")
        signature = Signature(handler, name, Context)
        task: Task[Any, Any] = Task(
            self,
            name,
            signature.input,
            signature.output,
            handler=handler,
            signature=signature,
            **{key: value for key, value in options.items() if key != "name"},
        )
        self.tasks[name.lower()] = task
        return task
