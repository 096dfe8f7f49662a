"""
A real server for tests, in memory and with a clock that only the test moves. It is the program `codeq`
(`codeq test-server`): the one in the PATH, or the command line in the variable `CODEQ_TEST_SERVER`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
from datetime import datetime
from types import TracebackType
from typing import Any

from .durations import Duration, to_seconds


class TestServer:
    """`with TestServer() as server:`; the pytest fixture `codeq_server` does the same."""

    __test__ = False

    def __init__(self, env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            text=True,
        )
        ready = self._answer()
        #: Address of the HTTP API.
        self.url: str = ready["url"]
        #: host:port of the streams.
        self.streams: str = ready["streams"]

    def __enter__(self) -> TestServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def now(self) -> datetime:
        """What the clock of the server shows."""
        return self._now

    async def advance(self, duration: Duration) -> None:
        """
        Moves the clock of the server, with everything that becomes due on the way. Workers have the clock of the
        machine: the lease of a task that a handler works on ends when it is moved by more than the lease.
        """
        await asyncio.get_running_loop().run_in_executor(None, self.advance_sync, duration)

    def advance_sync(self, duration: Duration) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"advance {round(to_seconds(duration, 'duration') * 1000)}\n")
        self._process.stdin.flush()
        self._answer()

    def close(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with {self._process.wait()}; what it wrote to stderr says why")
        answer: dict[str, Any] = json.loads(line)
        self._now = datetime.fromisoformat(answer["now"].replace("Z", "+00:00"))
        return answer


def _command() -> list[str]:
    given = os.environ.get("CODEQ_TEST_SERVER")
    if given:
        return shlex.split(given)
    program = shutil.which("codeq")
    if program is None:
        raise RuntimeError(
            "the program codeq is not in the PATH; install it, or set CODEQ_TEST_SERVER to a command line that starts "
            "it, such as: npx codeq test-server"
        )
    return [program, "test-server"]
