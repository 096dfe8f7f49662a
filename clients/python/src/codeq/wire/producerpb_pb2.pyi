from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class CreateTask(_message.Message):
    __slots__ = ("seq", "command", "payload", "priority", "webhook", "max_attempts", "idempotency_key", "run_at", "delay_seconds", "trace_parent", "trace_state", "tags", "timeout_seconds", "ttl_seconds", "idempotency_mode", "unique_key", "unique_while", "unique_on", "unique_for", "unique_max_wait", "delay_ms", "batch_id", "after", "lane", "cost")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TRACE_PARENT_FIELD_NUMBER: _ClassVar[int]
    TRACE_STATE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_MODE_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_WHILE_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ON_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_FOR_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    seq: int
    command: str
    payload: bytes
    priority: int
    webhook: str
    max_attempts: int
    idempotency_key: str
    run_at: _timestamp_pb2.Timestamp
    delay_seconds: int
    trace_parent: str
    trace_state: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    timeout_seconds: int
    ttl_seconds: int
    idempotency_mode: str
    unique_key: str
    unique_while: str
    unique_on: str
    unique_for: str
    unique_max_wait: str
    delay_ms: int
    batch_id: str
    after: _containers.RepeatedScalarFieldContainer[str]
    lane: str
    cost: int
    def __init__(self, seq: _Optional[int] = ..., command: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., webhook: _Optional[str] = ..., max_attempts: _Optional[int] = ..., idempotency_key: _Optional[str] = ..., run_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delay_seconds: _Optional[int] = ..., trace_parent: _Optional[str] = ..., trace_state: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., timeout_seconds: _Optional[int] = ..., ttl_seconds: _Optional[int] = ..., idempotency_mode: _Optional[str] = ..., unique_key: _Optional[str] = ..., unique_while: _Optional[str] = ..., unique_on: _Optional[str] = ..., unique_for: _Optional[str] = ..., unique_max_wait: _Optional[str] = ..., delay_ms: _Optional[int] = ..., batch_id: _Optional[str] = ..., after: _Optional[_Iterable[str]] = ..., lane: _Optional[str] = ..., cost: _Optional[int] = ...) -> None: ...

class CreateTaskBatch(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[CreateTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[CreateTask, _Mapping]]] = ...) -> None: ...

class AwaitResult(_message.Message):
    __slots__ = ("task_id", "wait_seconds")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    wait_seconds: int
    def __init__(self, task_id: _Optional[str] = ..., wait_seconds: _Optional[int] = ...) -> None: ...

class ProducerEvent(_message.Message):
    __slots__ = ("hello", "create", "create_batch", "await_result")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_BATCH_FIELD_NUMBER: _ClassVar[int]
    AWAIT_RESULT_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    create: CreateTask
    create_batch: CreateTaskBatch
    await_result: AwaitResult
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., create: _Optional[_Union[CreateTask, _Mapping]] = ..., create_batch: _Optional[_Union[CreateTaskBatch, _Mapping]] = ..., await_result: _Optional[_Union[AwaitResult, _Mapping]] = ...) -> None: ...

class HelloAck(_message.Message):
    __slots__ = ("tenant_id", "subject", "instance")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    subject: str
    instance: str
    def __init__(self, tenant_id: _Optional[str] = ..., subject: _Optional[str] = ..., instance: _Optional[str] = ...) -> None: ...

class CreateAck(_message.Message):
    __slots__ = ("seq", "ok", "task_id", "error_message", "error_code", "deduplicated")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    ok: bool
    task_id: str
    error_message: str
    error_code: str
    deduplicated: bool
    def __init__(self, seq: _Optional[int] = ..., ok: bool = ..., task_id: _Optional[str] = ..., error_message: _Optional[str] = ..., error_code: _Optional[str] = ..., deduplicated: bool = ...) -> None: ...

class CreateAckBatch(_message.Message):
    __slots__ = ("acks",)
    ACKS_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[CreateAck]
    def __init__(self, acks: _Optional[_Iterable[_Union[CreateAck, _Mapping]]] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("name", "url", "bytes", "sha256", "content_type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    url: str
    bytes: int
    sha256: str
    content_type: str
    def __init__(self, name: _Optional[str] = ..., url: _Optional[str] = ..., bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., content_type: _Optional[str] = ...) -> None: ...

class TaskResult(_message.Message):
    __slots__ = ("task_id", "ok", "error_message", "status", "result_json", "error", "attempts", "error_code", "artifacts")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    status: str
    result_json: bytes
    error: str
    attempts: int
    error_code: str
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ..., status: _Optional[str] = ..., result_json: _Optional[bytes] = ..., error: _Optional[str] = ..., attempts: _Optional[int] = ..., error_code: _Optional[str] = ..., artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ...) -> None: ...

class ServerError(_message.Message):
    __slots__ = ("code", "message", "error_code")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    error_code: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., error_code: _Optional[str] = ...) -> None: ...

class ServerEvent(_message.Message):
    __slots__ = ("hello_ack", "create_ack", "error", "create_ack_batch", "task_result")
    HELLO_ACK_FIELD_NUMBER: _ClassVar[int]
    CREATE_ACK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CREATE_ACK_BATCH_FIELD_NUMBER: _ClassVar[int]
    TASK_RESULT_FIELD_NUMBER: _ClassVar[int]
    hello_ack: HelloAck
    create_ack: CreateAck
    error: ServerError
    create_ack_batch: CreateAckBatch
    task_result: TaskResult
    def __init__(self, hello_ack: _Optional[_Union[HelloAck, _Mapping]] = ..., create_ack: _Optional[_Union[CreateAck, _Mapping]] = ..., error: _Optional[_Union[ServerError, _Mapping]] = ..., create_ack_batch: _Optional[_Union[CreateAckBatch, _Mapping]] = ..., task_result: _Optional[_Union[TaskResult, _Mapping]] = ...) -> None: ...
