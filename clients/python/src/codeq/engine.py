"""
The thread on which this package talks to servers, with an event loop of its own: connections, heartbeats and
results go on while handlers block their thread. All clients of a process share it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Engine:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="codeq", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, run: Callable[[], None]) -> None:
        """Calls the function on the thread of the engine, soon."""
        self.loop.call_soon_threadsafe(run)

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Does it on the engine's thread and waits for it on the loop of the caller."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def do_sync(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The same for callers without a loop."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a call that waits was made on the thread of the engine")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)


_lock = threading.Lock()
_engine: Engine | None = None


def engine() -> Engine:
    """The engine of this process; threads do not survive a fork, so a child gets another one."""
    global _engine
    with _lock:
        if _engine is None or _engine.pid != os.getpid():
            _engine = Engine()
        return _engine
