"""
Requests to the HTTP API on an event loop: HTTP/1.1 with connections that are kept open. A request can be
cancelled at any time, which closes its connection.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl as tls
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from .errors import CodeqError

ANSWER_SECONDS_MAX = 15.0
_IDLE_MAX = 32
_BASE = "/v1/codeq"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpClient:
    """Of one server."""

    def __init__(self, url: str, ssl: tls.SSLContext | None) -> None:
        parts: SplitResult = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ValueError(f"invalid url {url!r}: give http://host:port or https://host:port")
        self.host = parts.hostname
        self.is_tls = parts.scheme == "https"
        self.port = parts.port or (443 if self.is_tls else 80)
        self._path = parts.path.rstrip("/")
        self._netloc = parts.netloc
        self._ssl = (ssl or tls.create_default_context()) if self.is_tls else None
        self._idle: list[_Connection] = []

    async def ask(
        self,
        method: str,
        path: str,
        *,
        token: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        wait: float = 0.0,
    ) -> Any:
        """The parsed answer, `None` when it is empty. Raises what the server refuses with its code."""
        sent = {"authorization": f"Bearer {token}", **(headers or {})}
        reply = await self.request(method, _BASE + path, body, sent, wait)
        if 200 <= reply.status < 300:
            return json.loads(reply.body) if reply.body else None
        raise _refusal(reply)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        wait: float = 0.0,
    ) -> Reply:
        try:
            return await asyncio.wait_for(self._exchange(method, path, body, headers or {}), ANSWER_SECONDS_MAX + wait)
        except asyncio.TimeoutError:
            raise self._unreachable("it does not answer", ambiguous=True) from None
        except (OSError, EOFError, ValueError) as error:
            raise self._unreachable(_reason_of(error), ambiguous=True) from error

    def close(self) -> None:
        for _reader, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        lines = [f"{method} {self._path}{path} HTTP/1.1", f"host: {self._netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
        message = ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")
        reader, writer = await self._connection()
        is_kept = False
        try:
            writer.write(message)
            await writer.drain()
            reply = await _read_reply(reader)
            is_kept = reply.headers.get("connection", "").lower() != "close" and len(self._idle) < _IDLE_MAX
            return reply
        finally:
            if is_kept:
                self._idle.append((reader, writer))
            else:
                writer.close()

    async def _connection(self) -> _Connection:
        while self._idle:
            reader, writer = self._idle.pop()
            # The server may have closed it meanwhile.
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self.host, self.port, ssl=self._ssl, limit=1 << 20)

    def _unreachable(self, why: str, *, ambiguous: bool) -> CodeqError:
        text = f"cannot reach {self.host}:{self.port}: {why}"
        return CodeqError("unavailable", text, ambiguous=ambiguous)


def _reason_of(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there; start a server with codeq dev, or set CODEQ_URL"
    if isinstance(error, socket.gaierror):
        return "the name cannot be resolved"
    return str(error) or type(error).__name__


async def _read_reply(reader: asyncio.StreamReader) -> Reply:
    status_line = await reader.readline()
    if not status_line:
        raise EOFError("the connection was closed")
    status = int(status_line.split(None, 2)[1])
    headers: dict[str, str] = {}
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if status in (204, 304):
        return Reply(status, headers, b"")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Reply(status, headers, await _read_chunks(reader))
    return Reply(status, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
        pieces.append(await reader.readexactly(size))
        await reader.readline()
    while await reader.readline() not in (b"\r\n", b""):
        pass
    return b"".join(pieces)


def _refusal(reply: Reply) -> CodeqError:
    code = reply.headers.get("codeq-error") or _code_of(reply.status)
    try:
        said = json.loads(reply.body)
        return CodeqError(code, str(said["error"]), task_id=said.get("taskId"))
    except (ValueError, KeyError, TypeError):
        return CodeqError(code, f"the server answered with status {reply.status}")


def _code_of(status: int) -> str:
    """For answers without a code, of something between the client and the server."""
    if status == 401:
        return "unauthenticated"
    if status == 403:
        return "permission_denied"
    if status >= 500 or status in (408, 429):
        return "unavailable"
    return "not_codeq" if status == 404 or status < 400 else "invalid_argument"
