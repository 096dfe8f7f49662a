/** Contract 3.1 and 3.2: names, numbers and types of every field, written out once more. */
import assert from "node:assert/strict";
import test from "node:test";
import protobuf from "protobufjs";
import { loadProto, producerStream, workerStream } from "./messages.ts";

const timestamp = "google.protobuf.Timestamp";
const ack = "task_id=1 string, ok=2 bool, error_message=3 string";
const token = "lease_token=101 uint64";
const code = "error_code=100 string";

const workerMessages = {
  Task: [
    "id=1 string, command=2 string, payload=3 bytes, priority=4 int32, webhook=5 string",
    "max_attempts=6 int32, status=7 string, worker_id=8 string, lease_until=9 string",
    `attempts=10 int32, tenant_id=11 string, created_at=12 ${timestamp}, updated_at=13 ${timestamp}`,
    "lease_token=100 uint64, trace_parent=101 string, trace_state=102 string, tags=103 repeated string",
    "replay_of=104 string",
    "timeout_seconds=105 int32, schedule_id=106 string, scheduled_for_ms=107 uint64",
    "batch_id=120 string, is_batch_callback=121 bool, batch_succeeded=122 uint64",
    "batch_failed=123 uint64, batch_cancelled=124 uint64",
    "lane=130 string, cost=131 int32",
  ].join(", "),
  Hello: "token=1 string, worker_id=2 string",
  Ready: "commands=1 repeated string, lease_seconds=2 int32, count=3 int32",
  Artifact: "name=1 string, url=2 string, content=3 bytes, content_type=4 string",
  Result: [
    "task_id=1 string, status=2 string, result_json=3 bytes, error=4 string",
    "lease_token=100 uint64, artifacts=101 repeated Artifact, stack=102 string, used=120 Units",
  ].join(", "),
  Units: "count=1 int32",
  Nack: [
    "task_id=1 string, delay_seconds=2 int32, reason=3 string, lease_token=100 uint64",
    "delay_ms=101 uint64, stack=102 string, hold_seconds=120 int32, used=121 Units",
  ].join(", "),
  Progress: "percent=1 int32, text=2 string",
  Heartbeat: [
    "task_id=1 string, extend_seconds=2 int32, lease_token=100 uint64",
    "progress=101 Progress, logs=102 repeated string",
  ].join(", "),
  Abandon: "task_id=1 string, lease_token=100 uint64, interrupted=101 bool",
  ResultBatch: "results=1 repeated Result",
  WorkerEvent: [
    "hello=1 Hello, ready=2 Ready, result=3 Result, nack=4 Nack, heartbeat=5 Heartbeat",
    "abandon=6 Abandon, result_batch=7 ResultBatch",
  ].join(", "),
  HelloAck: "worker_id=1 string, tenant_id=2 string, instance=100 string",
  TaskAssignment: "task=1 Task",
  TaskBatch: "tasks=1 repeated Task",
  ResultAck: `${ack}, ${code}, ${token}`,
  ResultAckBatch: "acks=1 repeated ResultAck",
  HeartbeatAck: `${ack}, ${code}, ${token}, cancelled=102 bool`,
  NackAck: `${ack}, applied_delay_seconds=4 int32, dlq=5 bool, ${code}, ${token}`,
  AbandonAck: `${ack}, ${code}, ${token}`,
  ServerError: `message=1 string, code=2 string, ${code}`,
  ServerEvent: [
    "hello_ack=1 HelloAck, task=2 TaskAssignment, result_ack=3 ResultAck",
    "heartbeat_ack=4 HeartbeatAck, nack_ack=5 NackAck, abandon_ack=6 AbandonAck",
    "error=7 ServerError, task_batch=8 TaskBatch, result_ack_batch=9 ResultAckBatch",
  ].join(", "),
};

const producerMessages = {
  Hello: "token=1 string",
  CreateTask: [
    "seq=1 uint64, command=2 string, payload=3 bytes, priority=4 int32, webhook=5 string",
    `max_attempts=6 int32, idempotency_key=7 string, run_at=8 ${timestamp}`,
    "delay_seconds=9 int32, trace_parent=10 string, trace_state=11 string, tags=100 repeated string",
    "timeout_seconds=101 int32, ttl_seconds=102 int32, idempotency_mode=103 string",
    "unique_key=104 string, unique_while=105 string, unique_on=106 string, unique_for=107 string",
    "unique_max_wait=108 string, delay_ms=109 uint64, batch_id=120 string, after=121 repeated string",
    "lane=130 string, cost=131 int32",
  ].join(", "),
  CreateTaskBatch: "tasks=1 repeated CreateTask",
  AwaitResult: "task_id=1 string, wait_seconds=2 int32",
  ProducerEvent: [
    "hello=1 Hello, create=2 CreateTask, create_batch=3 CreateTaskBatch",
    "await_result=100 AwaitResult",
  ].join(", "),
  HelloAck: "tenant_id=1 string, subject=2 string, instance=100 string",
  CreateAck: `seq=1 uint64, ok=2 bool, task_id=3 string, error_message=4 string, ${code}, deduplicated=101 bool`,
  CreateAckBatch: "acks=1 repeated CreateAck",
  Artifact: "name=1 string, url=2 string, bytes=3 uint64, sha256=4 string, content_type=5 string",
  TaskResult: [
    `${ack}, status=4 string, result_json=5 bytes, error=6 string, attempts=7 int32`,
    code,
    "artifacts=101 repeated Artifact",
  ].join(", "),
  ServerError: `code=1 string, message=2 string, ${code}`,
  ServerEvent: [
    "hello_ack=1 HelloAck, create_ack=2 CreateAck, error=3 ServerError",
    "create_ack_batch=4 CreateAckBatch, task_result=100 TaskResult",
  ].join(", "),
};

function messagesOf(file: string, space: string): Record<string, string> {
  const root = loadProto(file, { keepCase: true });
  const namespace = root.lookup(space) as protobuf.Namespace;
  const types = namespace.nestedArray.filter((each) => each instanceof protobuf.Type);
  return Object.fromEntries(types.map((type) => [type.name, fieldsOf(type)]));
}

function fieldsOf(type: protobuf.Type): string {
  return type.fieldsArray
    .map(({ name, id, repeated, type: of }) => `${name}=${id} ${repeated ? "repeated " : ""}${of}`)
    .join(", ");
}

test("the messages of the worker stream have the fields of the contract", () => {
  assert.deepEqual(messagesOf("workerpb.proto", "workerpb"), workerMessages);
});

test("the messages of the producer stream have the fields of the contract", () => {
  assert.deepEqual(messagesOf("producerpb.proto", "producerpb"), producerMessages);
});

test("every event is one of several, on both sides of both streams", () => {
  for (const [file, space, events] of [
    ["workerpb.proto", "workerpb", ["WorkerEvent", "ServerEvent"]],
    ["producerpb.proto", "producerpb", ["ProducerEvent", "ServerEvent"]],
  ] as const) {
    const root = loadProto(file);
    for (const event of events) {
      const type = root.lookupType(`${space}.${event}`);
      assert.deepEqual(Object.keys(type.oneofs ?? {}), ["event"]);
      assert.deepEqual(
        type.fieldsArray.map(({ partOf }) => partOf?.name),
        type.fieldsArray.map(() => "event"),
      );
    }
  }
});

test("the methods have the paths that the stock clients call", () => {
  assert.equal(workerStream.path, "/workerpb.WorkerStream/Stream");
  assert.equal(producerStream.path, "/producerpb.ProducerStream/Stream");
});
