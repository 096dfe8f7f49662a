"""
Sessions with a server: its streams over gRPC, or the same messages as requests over HTTP. The client asks for
the ports of the streams at the HTTP address, and uses a stream only if the same server answers on it.
"""

from __future__ import annotations

import asyncio
import json
import ssl as tls
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol
from urllib.parse import quote

import grpc
import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp

from .errors import CodeqError
from .http_client import HttpClient
from .wire import producerpb_pb2 as producer
from .wire import workerpb_pb2 as worker

Kind = Literal["worker", "producer"]
Transport = Literal["auto", "streams", "http"]

_METHODS = {
    "worker": ("/workerpb.WorkerStream/Stream", worker.ServerEvent.FromString),
    "producer": ("/producerpb.ProducerStream/Stream", producer.ServerEvent.FromString),
}
_GRPC_OPTIONS = [
    # A pool of the process would make a new session wait for the backoff of earlier ones.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
]
#: What the streams say to a caller that they refuse, and its code.
_REFUSALS = {
    "missing Authorization header": "missing_authorization",
    "missing token": "missing_authorization",
    "invalid Authorization format": "invalid_authorization",
    "invalid token": "invalid_token",
    "the API key is mistyped or incomplete": "mistyped_key",
    "token is expired": "token_expired",
    "token is not valid yet": "token_not_active",
    "token was revoked": "token_revoked",
    "invalid issuer": "invalid_issuer",
    "invalid audience": "invalid_audience",
    "invalid token claims": "invalid_claims",
    "missing eventTypes": "missing_event_types",
    "missing scope": "missing_scope",
    "invalid tenant claims": "invalid_tenant",
}


class Session(Protocol):
    """One session. It ends once: `replies` returns when the server has answered all, and raises else."""

    #: The server that is expected to answer, if that is known.
    instance: str | None
    address: str

    def send(self, event: Any) -> None: ...

    def finish(self) -> None:
        """The server still answers what it was asked, then the session ends."""

    def cut(self) -> None: ...

    def replies(self) -> AsyncIterator[Any]: ...


class GrpcSession:
    def __init__(self, kind: Kind, address: str, ssl: bytes | None, is_tls: bool, instance: str | None) -> None:
        path, read = _METHODS[kind]
        self.instance = instance
        self.address = address
        self._channel = (
            grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ssl), _GRPC_OPTIONS)
            if is_tls
            else grpc.aio.insecure_channel(address, _GRPC_OPTIONS)
        )
        method = self._channel.stream_stream(path, request_serializer=_serialized, response_deserializer=read)
        self._call = method()
        self._unsent: asyncio.Queue[Any] = asyncio.Queue()
        self._writing = asyncio.ensure_future(self._write())

    def send(self, event: Any) -> None:
        self._unsent.put_nowait(event)

    def finish(self) -> None:
        self._unsent.put_nowait(None)

    def cut(self) -> None:
        self._writing.cancel()
        self._call.cancel()
        self._closing = asyncio.ensure_future(self._channel.close())

    async def replies(self) -> AsyncIterator[Any]:
        try:
            while (reply := await self._call.read()) is not grpc.aio.EOF:
                yield reply
        except grpc.aio.AioRpcError:
            # The status below says the same.
            pass
        except asyncio.CancelledError:
            if not self._call.cancelled():
                raise
        error = _end_of(await self._call.code(), await self._call.details())
        if error is not None:
            raise error

    async def _write(self) -> None:
        try:
            while (event := await self._unsent.get()) is not None:
                await self._call.write(event)
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The call has ended; its reader says why.
            pass


def _serialized(event: Any) -> bytes:
    data: bytes = event.SerializeToString()
    return data


def _end_of(code: Any, details: str | None) -> CodeqError | None:
    if code == grpc.StatusCode.OK:
        return None
    text = (details or "").removeprefix("auth failed: ")
    shown = details or f"the server ended the stream ({code.name})"
    if code == grpc.StatusCode.UNAUTHENTICATED:
        return CodeqError(_REFUSALS.get(text, "unauthenticated"), shown)
    if code == grpc.StatusCode.PERMISSION_DENIED:
        return CodeqError(_REFUSALS.get(text, "permission_denied"), shown)
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return CodeqError("not_codeq", shown)
    return CodeqError("unavailable", shown, ambiguous=True)


_OVER = object()
_CLAIM_MAX = 10
_CLAIM_WAIT_SECONDS = 20
_BATCH_MAX = 100


class HttpSession:
    """Every event becomes a request, and the first that does not get through ends the session."""

    instance: str | None = None
    address = ""

    def __init__(self, api: HttpClient, token: str) -> None:
        self._api = api
        self._token = token
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self._under_way: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[None]] = set()
        self._is_finishing = False

    def send(self, event: Any) -> None:
        task = asyncio.ensure_future(self._carry_out(event))
        self._under_way.add(task)
        if event.WhichOneof("event") in ("ready", "await_result"):
            self._waiting.add(task)
        task.add_done_callback(self._carried_out)

    def finish(self) -> None:
        self._is_finishing = True
        for task in list(self._waiting):
            task.cancel()
        self._end_when_done()

    def cut(self) -> None:
        for task in list(self._under_way):
            task.cancel()
        self._replies.put_nowait(_OVER)

    async def replies(self) -> AsyncIterator[Any]:
        while (reply := await self._replies.get()) is not _OVER:
            if isinstance(reply, CodeqError):
                self.cut()
                raise reply
            yield reply

    def _carried_out(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._waiting.discard(task)
        self._end_when_done()

    def _end_when_done(self) -> None:
        if self._is_finishing and not self._under_way:
            self._replies.put_nowait(_OVER)

    async def _carry_out(self, event: Any) -> None:
        try:
            await self._handle(event.WhichOneof("event"), event)
        except CodeqError as error:
            self._replies.put_nowait(error)

    async def _handle(self, case: str, event: Any) -> None:
        raise NotImplementedError

    async def _greet(self, reply: Any) -> None:
        """A request for a task that cannot be shows whether the server is there and knows the token."""
        try:
            await self._ask("GET", "/tasks/hello")
        except CodeqError as error:
            if error.code != "not_found":
                raise
        self._replies.put_nowait(reply)

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        wait: float = 0.0,
    ) -> Any:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        return await self._api.ask(method, path, token=self._token, body=data, headers=headers, wait=wait)


class HttpWorkerSession(HttpSession):
    async def _handle(self, case: str, event: Any) -> None:
        value = getattr(event, case)
        if case == "hello":
            await self._greet(worker.ServerEvent(hello_ack=worker.HelloAck()))
        elif case == "ready":
            await self._claim(value)
        elif case == "result":
            await self._submit([value])
        elif case == "result_batch":
            results = list(value.results)
            parts = range(0, len(results), _BATCH_MAX)
            await asyncio.gather(*(self._submit(results[at : at + _BATCH_MAX]) for at in parts))
        elif case == "nack":
            body = {"delaySeconds": value.delay_ms / 1000, "reason": value.reason}
            if value.stack:
                body["stack"] = value.stack
            if value.hold_seconds:
                body["holdSeconds"] = value.hold_seconds
            if value.HasField("used"):
                body["used"] = value.used.count
            answer, ack = await self._tell(value, "nack", body)
            nack = worker.NackAck(**ack, dlq=answer.get("status") == "dlq")
            self._replies.put_nowait(worker.ServerEvent(nack_ack=nack))
        elif case == "heartbeat":
            body = {"extendSeconds": value.extend_seconds}
            if value.HasField("progress"):
                body["progress"] = {"percent": value.progress.percent, "text": value.progress.text}
            if value.logs:
                body["logs"] = list(value.logs)
            answer, ack = await self._tell(value, "heartbeat", body)
            beat = worker.HeartbeatAck(**ack, cancelled=bool(answer.get("cancelled")))
            self._replies.put_nowait(worker.ServerEvent(heartbeat_ack=beat))
        elif case == "abandon":
            _, ack = await self._tell(value, "abandon", {"interrupted": value.interrupted})
            self._replies.put_nowait(worker.ServerEvent(abandon_ack=worker.AbandonAck(**ack)))

    async def _claim(self, ready: worker.Ready) -> None:
        """Takes what is there; when there is nothing, waits for one task, over and over."""
        wanted = {"commands": list(ready.commands), "leaseSeconds": ready.lease_seconds}
        try:
            count = min(max(ready.count, 1), _CLAIM_MAX)
            taken = await self._ask("POST", "/tasks/claim/batch", {**wanted, "count": count})
            tasks = (taken or {}).get("tasks", [])
            while not tasks and not self._is_finishing:
                one = await self._ask(
                    "POST",
                    "/tasks/claim",
                    {**wanted, "waitSeconds": _CLAIM_WAIT_SECONDS},
                    wait=_CLAIM_WAIT_SECONDS,
                )
                tasks = [one] if one else []
            if tasks:
                batch = worker.TaskBatch(tasks=[_task_of(task) for task in tasks])
                self._replies.put_nowait(worker.ServerEvent(task_batch=batch))
        except CodeqError as error:
            if error.retryable or error.code in _REFUSALS.values():
                raise
            told = worker.ServerError(message=str(error), error_code=error.code)
            self._replies.put_nowait(worker.ServerEvent(error=told))

    async def _submit(self, results: Sequence[worker.Result]) -> None:
        body = b'{"results":[' + b",".join(map(_result_of, results)) + b"]}"
        try:
            answers = (await self._ask("POST", "/tasks/batch/results", body))["results"]
        except CodeqError as error:
            if error.code == "unavailable":
                raise
            answers = [{"error": str(error), "code": error.code}] * len(results)
        acks = [
            worker.ResultAck(
                task_id=result.task_id,
                lease_token=result.lease_token,
                ok="error" not in answer,
                error_message=answer.get("error", ""),
                error_code=answer.get("code", ""),
            )
            for result, answer in zip(results, answers, strict=True)
        ]
        batch = worker.ResultAckBatch(acks=acks)
        self._replies.put_nowait(worker.ServerEvent(result_ack_batch=batch))

    async def _tell(self, value: Any, verb: str, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        ack = {"task_id": value.task_id, "lease_token": value.lease_token, "ok": True}
        sent = {**body, "leaseToken": value.lease_token}
        try:
            path = f"/tasks/{quote(value.task_id, safe='')}/{verb}"
            return await self._ask("POST", path, sent) or {}, ack
        except CodeqError as error:
            if error.code == "unavailable":
                raise
            refused = {"ok": False, "error_message": str(error), "error_code": error.code}
            return {}, {**ack, **refused}


def _task_of(task: dict[str, Any]) -> worker.Task:
    message = worker.Task(
        id=task["id"],
        command=task["command"],
        payload=task["payload"].encode(),
        priority=task.get("priority", 0),
        max_attempts=task.get("maxAttempts", 0),
        attempts=task.get("attempts", 0),
        lease_token=task.get("leaseToken", 0),
        trace_parent=task.get("traceParent", ""),
        trace_state=task.get("traceState", ""),
        tags=task.get("tags", []),
        timeout_seconds=task.get("timeoutSeconds", 0),
        lane=task.get("lane", ""),
        cost=task.get("cost", 0),
        batch_id=task.get("batchId", ""),
        is_batch_callback=task.get("isBatchCallback", False),
        schedule_id=task.get("scheduleId", ""),
        **{f"batch_{how}": count for how, count in task.get("batchEnded", {}).items()},
    )
    message.created_at.FromJsonString(task["createdAt"])
    if "scheduledFor" in task:
        at = Timestamp()
        at.FromJsonString(task["scheduledFor"])
        message.scheduled_for_ms = at.ToMilliseconds()
    return message


def _result_of(result: worker.Result) -> bytes:
    fields: dict[str, Any] = {
        "taskId": result.task_id,
        "status": result.status,
        "error": result.error,
        "leaseToken": result.lease_token,
    }
    if result.stack:
        fields["stack"] = result.stack
    if result.HasField("used"):
        fields["used"] = result.used.count
    head = json.dumps(fields).encode()
    if result.status != "COMPLETED":
        return head
    return head[:-1] + b',"result":' + (result.result_json or b"{}") + b"}"


class HttpProducerSession(HttpSession):
    async def _handle(self, case: str, event: Any) -> None:
        value = getattr(event, case)
        if case == "hello":
            await self._greet(producer.ServerEvent(hello_ack=producer.HelloAck()))
        elif case == "create":
            await self._create([value])
        elif case == "create_batch":
            groups: dict[tuple[str, str, str], list[producer.CreateTask]] = {}
            for task in value.tasks:
                of = (task.trace_parent, task.trace_state, task.idempotency_mode)
                groups.setdefault(of, []).append(task)
            # A request has one trace context, one idempotency mode and a limited number of tasks.
            await asyncio.gather(
                *(
                    self._create(group[at : at + _BATCH_MAX])
                    for group in groups.values()
                    for at in range(0, len(group), _BATCH_MAX)
                )
            )
        elif case == "await_result":
            await self._result(value)

    async def _create(self, tasks: Sequence[producer.CreateTask]) -> None:
        first = tasks[0]
        headers = {"traceparent": first.trace_parent} if first.trace_parent else {}
        if first.trace_state:
            headers["tracestate"] = first.trace_state
        if first.idempotency_mode:
            headers["codeq-idempotency-mode"] = first.idempotency_mode
        body = b'{"tasks":[' + b",".join(map(_creation_of, tasks)) + b"]}"
        try:
            answers = (await self._ask("POST", "/tasks/batch", body, headers))["results"]
        except CodeqError as error:
            if error.code == "unavailable":
                raise
            answers = [{"error": str(error), "code": error.code}] * len(tasks)
        acks = [
            producer.CreateAck(
                seq=task.seq,
                ok="task" in answer,
                task_id=answer.get("task", {}).get("id", ""),
                error_message=answer.get("error", ""),
                error_code=answer.get("code", ""),
            )
            for task, answer in zip(tasks, answers, strict=True)
        ]
        batch = producer.CreateAckBatch(acks=acks)
        self._replies.put_nowait(producer.ServerEvent(create_ack_batch=batch))

    async def _result(self, asked: producer.AwaitResult) -> None:
        found = producer.TaskResult(task_id=asked.task_id)
        path = f"/tasks/{quote(asked.task_id, safe='')}/result?waitSeconds={asked.wait_seconds}"
        try:
            answer = await self._ask("GET", path, wait=asked.wait_seconds)
            result, task = answer["result"], answer["task"]
            found.ok = True
            found.status = result["status"]
            found.error = result.get("error", "")
            if "result" in result:
                found.result_json = json.dumps(result["result"]).encode()
            # An attempt that ended with a result did not come back, but it counts as an attempt.
            is_dead = task.get("lastKnownLocation") == "DLQ_SET"
            found.attempts = task.get("attempts", 0) + (0 if is_dead else 1)
        except CodeqError as error:
            if error.code == "unavailable":
                raise
            found.error_code = error.code
            found.error_message = str(error)
        self._replies.put_nowait(producer.ServerEvent(task_result=found))


def _creation_of(task: producer.CreateTask) -> bytes:
    fields = template_of(task)
    fields["idempotencyKey"] = task.idempotency_key
    fields["delaySeconds"] = task.delay_ms / 1000
    if task.HasField("run_at"):
        fields["runAt"] = task.run_at.ToJsonString()
    if task.batch_id:
        fields["batchId"] = task.batch_id
    if task.after:
        fields["after"] = list(task.after)
    return with_payload(fields, task.payload)


def template_of(task: producer.CreateTask) -> dict[str, Any]:
    """The fields that the tasks of a schedule have as well."""
    fields: dict[str, Any] = {
        "command": task.command,
        "priority": task.priority,
        "webhook": task.webhook,
        "maxAttempts": task.max_attempts,
    }
    if task.tags:
        fields["tags"] = list(task.tags)
    if task.timeout_seconds:
        fields["timeoutSeconds"] = task.timeout_seconds
    if task.ttl_seconds:
        fields["ttlSeconds"] = task.ttl_seconds
    if task.lane:
        fields["lane"] = task.lane
    if task.cost:
        fields["cost"] = task.cost
    if task.unique_key:
        fields["unique"] = {
            "key": task.unique_key,
            "while": task.unique_while,
            "on": task.unique_on,
            "for": task.unique_for,
            "maxWait": task.unique_max_wait,
        }
    return fields


def with_payload(fields: dict[str, Any], payload: bytes) -> bytes:
    """The JSON text with the payload as it was written."""
    return json.dumps(fields).encode()[:-1] + b',"payload":' + payload + b"}"


class Transports:
    """Opens sessions with the servers of a client, one server after the other when they do not answer."""

    def __init__(
        self,
        urls: Sequence[str],
        transport: Transport,
        streams: str | None,
        ca: bytes | None,
    ) -> None:
        ssl = tls.create_default_context(cadata=ca.decode()) if ca else None
        self.servers = [HttpClient(url, ssl) for url in urls]
        self._current = 0
        self._transport = transport
        self._streams = streams
        self._ca = ca
        self._foreign: set[str] = set()
        self._is_without_streams = False

    @property
    def api(self) -> HttpClient:
        return self.servers[self._current]

    def pass_over(self, server: HttpClient) -> None:
        """This one did not answer: the next one is asked."""
        if self.api is server:
            self._current = (self._current + 1) % len(self.servers)

    def streams_failed(self) -> None:
        """The streams could not be reached: the next session goes over HTTP, if it may."""
        self._is_without_streams = True

    def is_foreign(self, address: str) -> None:
        """Another server answers at this address of streams."""
        self._foreign.add(address)

    async def open(self, kind: Kind, token: str, stay: Transport | None) -> Session:
        """`stay` is the transport that has to be used, because leases can only be ended there."""
        server = self.api
        only = stay or self._transport
        if only == "auto" and self._is_without_streams:
            self._is_without_streams = False
            only = "http"
        try:
            target = None if only == "http" else await self._target(kind, server)
        except CodeqError:
            self.pass_over(server)
            raise
        if target is not None:
            address, instance = target
            return GrpcSession(kind, address, self._ca, server.is_tls, instance)
        if only == "streams":
            text = "the server has no streams that can be reached; give their address, or use http"
            raise CodeqError("unavailable", text)
        return (HttpWorkerSession if kind == "worker" else HttpProducerSession)(server, token)

    async def ask(self, method: str, path: str, *, token: str, body: Any = None) -> Any:
        """A request that has no stream; the next server is asked when one cannot be reached."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        for remaining in reversed(range(len(self.servers))):
            server = self.api
            try:
                return await server.ask(method, path, token=token, body=data)
            except CodeqError as error:
                if error.code != "unavailable" or remaining == 0:
                    raise
                self.pass_over(server)
        raise AssertionError("there is at least one server")

    def close(self) -> None:
        for server in self.servers:
            server.close()

    async def _target(self, kind: Kind, server: HttpClient) -> tuple[str, str | None] | None:
        """The address of the streams, and the server that has to answer there."""
        if self._streams is not None:
            return self._streams, None
        reply = await server.request("GET", "/healthz")
        try:
            health = json.loads(reply.body)
            ports = health["streams"]
            port = ports.get(kind) or ports.get("producer" if kind == "worker" else "worker")
            address = f"{server.host}:{port}"
            if port is None or address in self._foreign:
                return None
            return address, str(health["instance"])
        except (ValueError, KeyError, TypeError, AttributeError):
            # Something in between does not let the page through.
            return None
