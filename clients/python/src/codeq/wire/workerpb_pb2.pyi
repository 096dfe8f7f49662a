from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Task(_message.Message):
    __slots__ = ("id", "command", "payload", "priority", "webhook", "max_attempts", "status", "worker_id", "lease_until", "attempts", "tenant_id", "created_at", "updated_at", "lease_token", "trace_parent", "trace_state", "tags", "replay_of", "timeout_seconds", "schedule_id", "scheduled_for_ms", "batch_id", "is_batch_callback", "batch_succeeded", "batch_failed", "batch_cancelled", "lane", "cost")
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TRACE_PARENT_FIELD_NUMBER: _ClassVar[int]
    TRACE_STATE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    REPLAY_OF_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FOR_MS_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    IS_BATCH_CALLBACK_FIELD_NUMBER: _ClassVar[int]
    BATCH_SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    BATCH_FAILED_FIELD_NUMBER: _ClassVar[int]
    BATCH_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    id: str
    command: str
    payload: bytes
    priority: int
    webhook: str
    max_attempts: int
    status: str
    worker_id: str
    lease_until: str
    attempts: int
    tenant_id: str
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    lease_token: int
    trace_parent: str
    trace_state: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    replay_of: str
    timeout_seconds: int
    schedule_id: str
    scheduled_for_ms: int
    batch_id: str
    is_batch_callback: bool
    batch_succeeded: int
    batch_failed: int
    batch_cancelled: int
    lane: str
    cost: int
    def __init__(self, id: _Optional[str] = ..., command: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., webhook: _Optional[str] = ..., max_attempts: _Optional[int] = ..., status: _Optional[str] = ..., worker_id: _Optional[str] = ..., lease_until: _Optional[str] = ..., attempts: _Optional[int] = ..., tenant_id: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease_token: _Optional[int] = ..., trace_parent: _Optional[str] = ..., trace_state: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., replay_of: _Optional[str] = ..., timeout_seconds: _Optional[int] = ..., schedule_id: _Optional[str] = ..., scheduled_for_ms: _Optional[int] = ..., batch_id: _Optional[str] = ..., is_batch_callback: bool = ..., batch_succeeded: _Optional[int] = ..., batch_failed: _Optional[int] = ..., batch_cancelled: _Optional[int] = ..., lane: _Optional[str] = ..., cost: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("token", "worker_id")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    token: str
    worker_id: str
    def __init__(self, token: _Optional[str] = ..., worker_id: _Optional[str] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("commands", "lease_seconds", "count")
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedScalarFieldContainer[str]
    lease_seconds: int
    count: int
    def __init__(self, commands: _Optional[_Iterable[str]] = ..., lease_seconds: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("name", "url", "content", "content_type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    url: str
    content: bytes
    content_type: str
    def __init__(self, name: _Optional[str] = ..., url: _Optional[str] = ..., content: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class Units(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("task_id", "status", "result_json", "error", "lease_token", "artifacts", "stack", "used")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    status: str
    result_json: bytes
    error: str
    lease_token: int
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    stack: str
    used: Units
    def __init__(self, task_id: _Optional[str] = ..., status: _Optional[str] = ..., result_json: _Optional[bytes] = ..., error: _Optional[str] = ..., lease_token: _Optional[int] = ..., artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., stack: _Optional[str] = ..., used: _Optional[_Union[Units, _Mapping]] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("task_id", "delay_seconds", "reason", "lease_token", "delay_ms", "stack", "hold_seconds", "used")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    HOLD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    delay_seconds: int
    reason: str
    lease_token: int
    delay_ms: int
    stack: str
    hold_seconds: int
    used: Units
    def __init__(self, task_id: _Optional[str] = ..., delay_seconds: _Optional[int] = ..., reason: _Optional[str] = ..., lease_token: _Optional[int] = ..., delay_ms: _Optional[int] = ..., stack: _Optional[str] = ..., hold_seconds: _Optional[int] = ..., used: _Optional[_Union[Units, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("percent", "text")
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    percent: int
    text: str
    def __init__(self, percent: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("task_id", "extend_seconds", "lease_token", "progress", "logs")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXTEND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    extend_seconds: int
    lease_token: int
    progress: Progress
    logs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task_id: _Optional[str] = ..., extend_seconds: _Optional[int] = ..., lease_token: _Optional[int] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., logs: _Optional[_Iterable[str]] = ...) -> None: ...

class Abandon(_message.Message):
    __slots__ = ("task_id", "lease_token", "interrupted")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    lease_token: int
    interrupted: bool
    def __init__(self, task_id: _Optional[str] = ..., lease_token: _Optional[int] = ..., interrupted: bool = ...) -> None: ...

class ResultBatch(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class WorkerEvent(_message.Message):
    __slots__ = ("hello", "ready", "result", "nack", "heartbeat", "abandon", "result_batch")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ABANDON_FIELD_NUMBER: _ClassVar[int]
    RESULT_BATCH_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    ready: Ready
    result: Result
    nack: Nack
    heartbeat: Heartbeat
    abandon: Abandon
    result_batch: ResultBatch
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., nack: _Optional[_Union[Nack, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., abandon: _Optional[_Union[Abandon, _Mapping]] = ..., result_batch: _Optional[_Union[ResultBatch, _Mapping]] = ...) -> None: ...

class HelloAck(_message.Message):
    __slots__ = ("worker_id", "tenant_id", "instance")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    tenant_id: str
    instance: str
    def __init__(self, worker_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., instance: _Optional[str] = ...) -> None: ...

class TaskAssignment(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: Task
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ...) -> None: ...

class TaskBatch(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ...) -> None: ...

class ResultAck(_message.Message):
    __slots__ = ("task_id", "ok", "error_message", "error_code", "lease_token")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    error_code: str
    lease_token: int
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ..., error_code: _Optional[str] = ..., lease_token: _Optional[int] = ...) -> None: ...

class ResultAckBatch(_message.Message):
    __slots__ = ("acks",)
    ACKS_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[ResultAck]
    def __init__(self, acks: _Optional[_Iterable[_Union[ResultAck, _Mapping]]] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("task_id", "ok", "error_message", "error_code", "lease_token", "cancelled")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    error_code: str
    lease_token: int
    cancelled: bool
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ..., error_code: _Optional[str] = ..., lease_token: _Optional[int] = ..., cancelled: bool = ...) -> None: ...

class NackAck(_message.Message):
    __slots__ = ("task_id", "ok", "error_message", "applied_delay_seconds", "dlq", "error_code", "lease_token")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    APPLIED_DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DLQ_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    applied_delay_seconds: int
    dlq: bool
    error_code: str
    lease_token: int
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ..., applied_delay_seconds: _Optional[int] = ..., dlq: bool = ..., error_code: _Optional[str] = ..., lease_token: _Optional[int] = ...) -> None: ...

class AbandonAck(_message.Message):
    __slots__ = ("task_id", "ok", "error_message", "error_code", "lease_token")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    error_code: str
    lease_token: int
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ..., error_code: _Optional[str] = ..., lease_token: _Optional[int] = ...) -> None: ...

class ServerError(_message.Message):
    __slots__ = ("message", "code", "error_code")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    message: str
    code: str
    error_code: str
    def __init__(self, message: _Optional[str] = ..., code: _Optional[str] = ..., error_code: _Optional[str] = ...) -> None: ...

class ServerEvent(_message.Message):
    __slots__ = ("hello_ack", "task", "result_ack", "heartbeat_ack", "nack_ack", "abandon_ack", "error", "task_batch", "result_ack_batch")
    HELLO_ACK_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_ACK_FIELD_NUMBER: _ClassVar[int]
    ABANDON_ACK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TASK_BATCH_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACK_BATCH_FIELD_NUMBER: _ClassVar[int]
    hello_ack: HelloAck
    task: TaskAssignment
    result_ack: ResultAck
    heartbeat_ack: HeartbeatAck
    nack_ack: NackAck
    abandon_ack: AbandonAck
    error: ServerError
    task_batch: TaskBatch
    result_ack_batch: ResultAckBatch
    def __init__(self, hello_ack: _Optional[_Union[HelloAck, _Mapping]] = ..., task: _Optional[_Union[TaskAssignment, _Mapping]] = ..., result_ack: _Optional[_Union[ResultAck, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., nack_ack: _Optional[_Union[NackAck, _Mapping]] = ..., abandon_ack: _Optional[_Union[AbandonAck, _Mapping]] = ..., error: _Optional[_Union[ServerError, _Mapping]] = ..., task_batch: _Optional[_Union[TaskBatch, _Mapping]] = ..., result_ack_batch: _Optional[_Union[ResultAckBatch, _Mapping]] = ...) -> None: ...
