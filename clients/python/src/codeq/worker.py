"""Runs handlers: async ones on the loop of the worker, the others in a pool of threads."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import os
import signal
import socket
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .batch import Batch, BatchEnd
from .context import Context, current_trace
from .durations import Duration, to_seconds, whole_ms
from .errors import CodeqError, Permanent, RateLimited, RetryIn
from .shapes import dump_output
from .worker_core import HAND_BACK, Attempt, Outcome, Settled, WorkerCore, WorkerEvents

if TYPE_CHECKING:
    from .app import Codeq, Task

logger = logging.getLogger("codeq")

_TEXT_CHARS_MAX = 2000
_STACK_CHARS_MAX = 4096
_FRAMES_MAX = 10
_CAUSES_MAX = 4
_ERRORS_MAX = 5
#: Frames below this folder are those of this library.
_HERE = os.path.dirname(__file__)
_DELAY_SECONDS_MAX = 316_224_000
_HOLD_SECONDS_MAX = 86_400
#: What handlers raise on purpose.
_MEANT = (Permanent, RetryIn, RateLimited)
#: Reasons to stop that say nothing about the task.
_STOPS = {"worker_closing", "lease_lost", "task_cancelled"}


def _nothing(*_: Any) -> None:
    pass


@dataclass
class Listeners:
    """
    Functions that are told what happens in a worker, on the thread that talks to the server: they have to be
    quick. Failures and problems are written to the logger `codeq` in any case.
    """

    #: A run has ended, and the server has answered what it made of that.
    settled: Callable[[Context, Settled], object] = _nothing
    #: The server refused the outcome of a run, so the run has no effect.
    refused: Callable[[CodeqError], object] = _nothing
    #: The server does not want this worker.
    stopped: Callable[[CodeqError], object] = _nothing
    #: The worker is connected, or the reason why not.
    connection: Callable[[CodeqError | None], object] = _nothing


class Worker:
    """Made by `app.worker`. `await worker.run()` works until a signal or `close`."""

    def __init__(
        self,
        app: Codeq,
        tasks: Sequence[Task[Any, Any]],
        *,
        concurrency: int,
        name: str | None,
        grace: Duration,
        listeners: Listeners | None,
        stacks: bool,
    ) -> None:
        if not 1 <= concurrency <= 10_000:
            raise ValueError(f"invalid concurrency {concurrency}: from 1 to 10000")
        handled = [task for task in tasks if task.handler is not None]
        if not handled:
            raise ValueError("a worker needs at least one task with a handler")
        self._app = app
        self._tasks = {task.name.lower(): task for task in handled}
        self._concurrency = concurrency
        self._grace = to_seconds(grace, "grace")
        self._on = listeners or Listeners()
        self._stacks = stacks
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._core: WorkerCore | None = None
        self._engine = app.engine()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._contexts: dict[Attempt, Context] = {}
        self._ended: list[tuple[Attempt, Outcome]] = []
        self._ended_lock = threading.Lock()
        self._over: asyncio.Event | None = None
        self._problem: CodeqError | None = None
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begins to work on this event loop, and returns."""
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        if any(not task.is_async for task in self._tasks.values()):
            self._pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="codeq-handler")
        await self._engine.do(self._begin())

    async def run(self) -> None:
        """
        Works until SIGTERM or SIGINT, or until `close` is called elsewhere. Raises when the server does not want this
        worker.
        """
        await self.start()
        over = self._over
        assert over is not None
        restore = self._on_signals() if threading.current_thread() is threading.main_thread() else _nothing
        try:
            await over.wait()
            if self._closing is not None:
                await self._closing
        finally:
            restore()
            self._shut_pool()
        if self._problem is not None:
            raise self._problem

    def run_sync(self) -> None:
        """The same for programs without an event loop."""
        asyncio.run(self.run())

    async def close(self, grace: Duration | None = None) -> None:
        """
        Stops asking for tasks, lets the running ones finish, and hands back those that have not finished within the
        grace, without an attempt being counted.
        """
        core = self._core
        if core is None:
            return
        seconds = self._grace if grace is None else to_seconds(grace, "grace")
        try:
            await self._engine.do(core.close(seconds))
        finally:
            self._shut_pool()
            if self._over is not None:
                self._over.set()

    async def _begin(self) -> None:
        events = WorkerEvents(
            start=self._start,
            settled=self._settled,
            refused=self._refused,
            stopped=self._stopped,
            warning=lambda code, text: logger.warning("%s: %s", code, text),
            connection=self._connection,
        )
        leases = {task.name: (task.lease_seconds, task.timeout_seconds) for task in self._tasks.values()}
        link = self._app.link()
        self._core = WorkerCore(link.transports, self._app.token, self.name, leases, self._concurrency, events)
        self._core.begin()

    def _on_signals(self) -> Callable[[], object]:
        """Closes the worker at SIGINT and SIGTERM. Returns what ends that."""
        loop = asyncio.get_running_loop()
        ending = ExitStack()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._stop_soon)
                ending.callback(loop.remove_signal_handler, number)
            except NotImplementedError:
                # A loop of Windows.
                before = signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._stop_soon))
                ending.callback(signal.signal, number, before)
        return ending.close

    def _stop_soon(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self.close())
        else:
            os._exit(1)

    def _shut_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    # On the thread of the engine.

    def _start(self, attempts: Sequence[Attempt]) -> None:
        loop = self._loop
        assert loop is not None
        begun: list[Attempt] = []
        for attempt in attempts:
            task = self._tasks[attempt.task.command.lower()]
            if task.is_async:
                begun.append(attempt)
            else:
                assert self._pool is not None
                self._contexts[attempt] = context = Context(attempt, None, self._batch_of(attempt))
                self._pool.submit(contextvars.Context().run, self._run_sync, task, context, attempt)
        if begun:
            try:
                loop.call_soon_threadsafe(self._start_async, begun)
            except RuntimeError:
                # The loop was closed without the worker.
                for attempt in begun:
                    self._told_end(attempt, HAND_BACK)

    def _settled(self, attempt: Attempt, settled: Settled) -> None:
        context = self._contexts.pop(attempt, None)
        if context is not None:
            self._on.settled(context, settled)

    def _refused(self, attempt: Attempt, error: CodeqError) -> None:
        self._contexts.pop(attempt, None)
        logger.warning("the server refused the outcome of task %s: %s", error.task_id, error)
        self._on.refused(error)

    def _stopped(self, error: CodeqError) -> None:
        self._problem = error
        self._on.stopped(error)
        if self._loop is not None and self._over is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)

    def _connection(self, error: CodeqError | None) -> None:
        if error is not None:
            logger.warning("no connection: %s", error)
        self._on.connection(error)

    def _batch_of(self, attempt: Attempt) -> Batch | None:
        task = attempt.task
        if not task.batch_id:
            return None
        ended = None
        if task.is_batch_callback:
            ended = BatchEnd(task.batch_succeeded, task.batch_failed, task.batch_cancelled)
        return Batch(self._app, task.batch_id, ended=ended)

    # On the loop of the worker, or on a thread of the pool.

    def _start_async(self, attempts: Sequence[Attempt]) -> None:
        loop = asyncio.get_running_loop()
        for attempt in attempts:
            task = self._tasks[attempt.task.command.lower()]
            running: list[asyncio.Task[None]] = []

            def cancel(running: list[asyncio.Task[None]] = running) -> None:
                loop.call_soon_threadsafe(lambda: running[0].cancel())

            context = Context(attempt, cancel, self._batch_of(attempt))
            self._contexts[attempt] = context
            coroutine = self._run_async(task, context, attempt)
            running.append(contextvars.Context().run(loop.create_task, coroutine))
            if attempt.stop_reason is not None:
                running[0].cancel()

    async def _run_async(self, task: Task[Any, Any], context: Context, attempt: Attempt) -> None:
        try:
            current_trace.set(context.trace)
            with self._app.tracing.handle(context):
                output = await task.call(context)
            outcome = Outcome("completed", dump_output(task.output, task.name, output))
        except BaseException as error:
            outcome = self._outcome_of(task, context, error)
        self._told_end(attempt, outcome)

    def _run_sync(self, task: Task[Any, Any], context: Context, attempt: Attempt) -> None:
        try:
            current_trace.set(context.trace)
            with self._app.tracing.handle(context):
                output = task.call(context)
            outcome = Outcome("completed", dump_output(task.output, task.name, output))
        except BaseException as error:
            outcome = self._outcome_of(task, context, error)
        self._told_end(attempt, outcome)

    def _told_end(self, attempt: Attempt, outcome: Outcome) -> None:
        """Ends that come together are passed on together."""
        with self._ended_lock:
            self._ended.append((attempt, outcome))
            is_first = len(self._ended) == 1
        if is_first:
            self._engine.call(self._pass_on)

    def _pass_on(self) -> None:
        with self._ended_lock:
            ended, self._ended = self._ended, []
        if self._core is not None:
            self._core.ended(ended)

    def _outcome_of(self, task: Task[Any, Any], context: Context, error: BaseException) -> Outcome:
        reason = context.stop_reason
        if reason is not None:
            if reason.code in _STOPS:
                # The handler did not fail: it was told to stop.
                return HAND_BACK
            error = reason
        # What these say was meant: where it was said does not help.
        is_plain = isinstance(error, (*_MEANT, CodeqError))
        what = f"task {context.id} ({context.task}) failed in attempt {context.attempt} of {context.max_attempts}"
        logger.warning("%s: %s", what, _text_of(error), exc_info=None if is_plain else error)
        text = _text_of(error)
        stack = "\n".join(_stack_of(error))[:_STACK_CHARS_MAX] if self._stacks else ""
        if isinstance(error, Permanent):
            return Outcome("failed", text=text, stack=stack)
        if isinstance(error, RateLimited):
            hold = max(1, min(math.ceil(error.hold_seconds), _HOLD_SECONDS_MAX))
            return Outcome("retry", text=text, stack=stack, hold_seconds=hold)
        delay = error.delay_seconds if isinstance(error, RetryIn) else None
        try:
            delay = task.retry_delay(context.attempt, error) if delay is None else delay
        except Exception as broken:  # the error of the handler must not be hidden by another one
            text = f"{text} (retry delay failed: {broken!r})"[:_TEXT_CHARS_MAX]
        if delay is None:
            return Outcome("retry", text=text, stack=stack)
        # Zero would leave it to the policy of the server.
        delay_ms = max(1, min(whole_ms(delay), 1000 * _DELAY_SECONDS_MAX))
        return Outcome("retry", text=text, stack=stack, delay_ms=delay_ms)


def _text_of(error: BaseException) -> str:
    # What the server says when it notices first.
    if isinstance(error, CodeqError) and error.code == "task_timeout":
        return "TIMEOUT"
    is_plain = isinstance(error, (*_MEANT, CodeqError))
    text = str(error) if is_plain else f"{type(error).__name__}: {error}"
    return (text.strip() or "the handler failed without a message")[:_TEXT_CHARS_MAX]


def _stack_of(error: BaseException, depth: int = 0) -> Iterator[str]:
    """Where the error was raised, the innermost frame first; the same of its causes and of the errors of a group."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in frames if not code.co_filename.startswith(_HERE)]
    for code, line in reversed(own[-_FRAMES_MAX:]):
        yield f"    at {code.co_name} ({code.co_filename}:{line})"
    if depth == _CAUSES_MAX:
        return
    joined: Sequence[BaseException] = getattr(error, "exceptions", ())
    for number, each in enumerate(joined[:_ERRORS_MAX], 1):
        yield f"error {number} of {len(joined)}: {type(each).__name__}: {each}"
        yield from _stack_of(each, depth + 1)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield f"caused by: {type(cause).__name__}: {cause}"
        yield from _stack_of(cause, depth + 1)
