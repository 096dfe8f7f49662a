"""
Keeps one session with a server open: opens a session, sends Hello, and opens another one after a pause when the
session is lost. Lives on the loop of the engine. What was sent in a session that ended may have arrived or not;
the owner sends it again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from .errors import CodeqError
from .sessions import GrpcSession, Kind, Session, Transport, Transports

Token = Callable[[], Awaitable[str]]

_HELLO_SECONDS_MAX = 10.0
_END_SECONDS_MAX = 5.0


def pause(tries: int) -> float:
    """How long to wait before another try: longer with every one, and different for every client."""
    most = min(5.0, 0.1 * float(2 ** min(max(tries - 1, 0), 16)))
    return most / 2 + most / 2 * random.random()


class Listener(Protocol):
    def opened(self) -> None: ...

    def reply(self, reply: Any) -> None: ...

    def lost(self, error: CodeqError) -> bool:
        """The session was lost, or none could be opened. Whether to open another one."""

    def refused(self, error: CodeqError) -> bool:
        """The server does not accept the Hello. Whether to try again."""

    def must_stay(self) -> bool:
        """Whether the next session has to use the transport of the last one."""


class Connection:
    def __init__(
        self,
        transports: Transports,
        kind: Kind,
        token: Token,
        hello: Callable[[str], Any],
        listener: Listener,
    ) -> None:
        self._transports = transports
        self._kind: Kind = kind
        self._token = token
        self._hello = hello
        self._listener = listener
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._last: Transport | None = None
        self._is_ending = False
        self._is_closed = False
        self._failures = 0
        self.is_open = False
        self.last_error: CodeqError | None = None

    def connect(self) -> None:
        """Opens a session unless there is one."""
        if self._task is None and not self._is_closed:
            self._task = asyncio.ensure_future(self._run())

    def send(self, event: Any) -> None:
        if self.is_open and self._session is not None:
            self._session.send(event)

    def renew(self) -> None:
        """Half closes the session; the owner is told of its end as of a lost one."""
        if self.is_open and self._session is not None:
            self._is_ending = True
            self.is_open = False
            self._session.finish()
            asyncio.get_running_loop().call_later(_END_SECONDS_MAX, self._cut_if, self._session)

    async def close(self) -> None:
        """Half closes the session and waits for its end."""
        self._is_closed = True
        self.renew()
        if self._task is None:
            return
        if self._is_ending:
            await asyncio.wait([self._task], timeout=_END_SECONDS_MAX)
        self.cut()

    def cut(self) -> None:
        self._is_closed = True
        self.is_open = False
        if self._session is not None:
            self._session.cut()
        if self._task is not None:
            self._task.cancel()

    def _cut_if(self, session: Session) -> None:
        if self._session is session:
            session.cut()

    async def _run(self) -> None:
        try:
            while await self._live():
                if self._failures > 0:
                    await asyncio.sleep(pause(self._failures))
        finally:
            self.is_open = False
            self._task = None

    async def _live(self) -> bool:
        """One session from its beginning to its end; whether to open another one."""
        server = self._transports.api
        try:
            await self._hold()
        except CodeqError as error:
            problem = error
        else:
            problem = CodeqError("unavailable", "the server ended the session", ambiguous=True)
        finally:
            self.is_open = False
            if self._session is not None:
                self._session.cut()
                self._session = None
        self.last_error = problem
        is_asked_for, self._is_ending = self._is_ending, False
        if self._is_closed:
            return False
        if not problem.retryable:
            self._failures += 1
            return self._listener.refused(problem)
        if is_asked_for:
            self._failures = 0
        else:
            self._failures += 1
            self._transports.pass_over(server)
        return self._listener.lost(problem)

    async def _hold(self) -> None:
        stay = self._last if self._listener.must_stay() else None
        token = await self._token()
        session = await self._transports.open(self._kind, token, stay)
        self._session = session
        session.send(self._hello(token))
        replies = session.replies()
        try:
            await self._greeting(session, replies)
        except CodeqError as error:
            if error.retryable and isinstance(session, GrpcSession):
                self._transports.streams_failed()
            raise
        self._last = "streams" if isinstance(session, GrpcSession) else "http"
        self._failures = 0
        self.last_error = None
        self.is_open = True
        self._listener.opened()
        async for reply in replies:
            self._listener.reply(reply)

    async def _greeting(self, session: Session, replies: AsyncIterator[Any]) -> None:
        try:
            reply = await asyncio.wait_for(replies.__anext__(), _HELLO_SECONDS_MAX)
        except asyncio.TimeoutError:
            raise CodeqError("unavailable", "the server does not answer the Hello") from None
        except StopAsyncIteration:
            raise CodeqError("unavailable", "the server ended the session") from None
        answering = reply.hello_ack.instance
        if session.instance is not None and answering != session.instance:
            self._transports.is_foreign(session.address)
            raise CodeqError("unavailable", f"another server answers on {session.address}")
