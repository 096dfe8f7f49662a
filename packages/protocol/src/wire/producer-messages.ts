/**
 * Generated from proto/producerpb.proto by scripts/gen-codecs.ts. To change it, change that file and run
 * `npm run gen`.
 */
import type { WireReader } from "./reader.ts";
import type { WireBytes, WireUint64, WireWriter } from "./writer.ts";

/** Has to be the first event. */
export type Hello = ReturnType<typeof newHello>;

export function newHello() {
  return {
    token: "",
  };
}

export function writeHello(message: Hello, writer: WireWriter): void {
  writer.stringField(10, message.token);
}

export function readHello(reader: WireReader): Hello {
  const message = newHello();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.token = reader.string();
    else reader.skip(tag);
  }
  return message;
}

export type CreateTask = ReturnType<typeof newCreateTask>;

export function newCreateTask() {
  return {
    /** Chosen by the producer and returned with the acknowledgement. */
    seq: 0 as WireUint64,
    command: "",
    /** JSON text, kept byte for byte; empty means null. */
    payload: "" as WireBytes,
    priority: 0,
    webhook: "",
    maxAttempts: 0,
    idempotencyKey: "",
    /** Wins over delay_seconds. */
    runAtMs: undefined as number | undefined,
    delaySeconds: 0,
    traceParent: "",
    traceState: "",
    /** Labels to find the task by. */
    tags: [] as string[],
    /** How long a worker may take for one attempt; zero for as long as it extends its lease. */
    timeoutSeconds: 0,
    /** How long the task may wait for a worker once it may be claimed; zero for any time. */
    ttlSeconds: 0,
    /**
     * What the key does when another request had it first: strict refuses, first answers with the first
     * task; empty for the setting of the server.
     */
    idempotencyMode: "",
    /** One task at a time for a key of the queue; see the field unique of the HTTP API. */
    uniqueKey: "",
    uniqueWhile: "",
    uniqueOn: "",
    /** A length of time such as 5m; empty for none. */
    uniqueFor: "",
    uniqueMaxWait: "",
    /** Wins over delay_seconds. */
    delayMs: 0 as WireUint64,
    /** The open batch that the task becomes a member of; empty for none. */
    batchId: "",
    /** Tasks that have to succeed before this one can be claimed. */
    after: [] as string[],
    /** Limits, rates and fair shares apply to the tasks of the queue with the same lane; empty for none. */
    lane: "",
    /** Units of rates and fair shares that the task takes; zero for one. */
    cost: 0,
  };
}

export function writeCreateTask(message: CreateTask, writer: WireWriter): void {
  writer.uint64Field(8, message.seq);
  writer.stringField(18, message.command);
  writer.bytesField(26, message.payload);
  writer.int32Field(32, message.priority);
  writer.stringField(42, message.webhook);
  writer.int32Field(48, message.maxAttempts);
  writer.stringField(58, message.idempotencyKey);
  writer.timestampField(66, message.runAtMs);
  writer.int32Field(72, message.delaySeconds);
  writer.stringField(82, message.traceParent);
  writer.stringField(90, message.traceState);
  for (const each of message.tags) writer.stringMember(802, each);
  writer.int32Field(808, message.timeoutSeconds);
  writer.int32Field(816, message.ttlSeconds);
  writer.stringField(826, message.idempotencyMode);
  writer.stringField(834, message.uniqueKey);
  writer.stringField(842, message.uniqueWhile);
  writer.stringField(850, message.uniqueOn);
  writer.stringField(858, message.uniqueFor);
  writer.stringField(866, message.uniqueMaxWait);
  writer.uint64Field(872, message.delayMs);
  writer.stringField(962, message.batchId);
  for (const each of message.after) writer.stringMember(970, each);
  writer.stringField(1042, message.lane);
  writer.int32Field(1048, message.cost);
}

export function readCreateTask(reader: WireReader): CreateTask {
  const message = newCreateTask();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 8) message.seq = reader.uint64();
    else if (tag === 18) message.command = reader.string();
    else if (tag === 26) message.payload = reader.bytes();
    else if (tag === 32) message.priority = reader.int32();
    else if (tag === 42) message.webhook = reader.string();
    else if (tag === 48) message.maxAttempts = reader.int32();
    else if (tag === 58) message.idempotencyKey = reader.string();
    else if (tag === 66) message.runAtMs = reader.timestamp();
    else if (tag === 72) message.delaySeconds = reader.int32();
    else if (tag === 82) message.traceParent = reader.string();
    else if (tag === 90) message.traceState = reader.string();
    else if (tag === 802) {
      reader.countElement();
      message.tags.push(reader.string());
    } else if (tag === 808) message.timeoutSeconds = reader.int32();
    else if (tag === 816) message.ttlSeconds = reader.int32();
    else if (tag === 826) message.idempotencyMode = reader.string();
    else if (tag === 834) message.uniqueKey = reader.string();
    else if (tag === 842) message.uniqueWhile = reader.string();
    else if (tag === 850) message.uniqueOn = reader.string();
    else if (tag === 858) message.uniqueFor = reader.string();
    else if (tag === 866) message.uniqueMaxWait = reader.string();
    else if (tag === 872) message.delayMs = reader.uint64();
    else if (tag === 962) message.batchId = reader.string();
    else if (tag === 970) {
      reader.countElement();
      message.after.push(reader.string());
    } else if (tag === 1042) message.lane = reader.string();
    else if (tag === 1048) message.cost = reader.int32();
    else reader.skip(tag);
  }
  return message;
}

export type CreateTaskBatch = ReturnType<typeof newCreateTaskBatch>;

export function newCreateTaskBatch() {
  return {
    tasks: [] as CreateTask[],
  };
}

export function writeCreateTaskBatch(message: CreateTaskBatch, writer: WireWriter): void {
  for (const each of message.tasks) writer.messageMember(10, 2, writeCreateTask, each);
}

export function readCreateTaskBatch(reader: WireReader): CreateTaskBatch {
  const message = newCreateTaskBatch();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) {
      reader.countElement();
      message.tasks.push(reader.message(readCreateTask));
    } else reader.skip(tag);
  }
  return message;
}

/** Asks for the result of a task. It is answered when the task has ended or the time is over. */
export type AwaitResult = ReturnType<typeof newAwaitResult>;

export function newAwaitResult() {
  return {
    taskId: "",
    /** Zero answers at once; there is a longest time, so ask again. */
    waitSeconds: 0,
  };
}

export function writeAwaitResult(message: AwaitResult, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.int32Field(16, message.waitSeconds);
}

export function readAwaitResult(reader: WireReader): AwaitResult {
  const message = newAwaitResult();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 16) message.waitSeconds = reader.int32();
    else reader.skip(tag);
  }
  return message;
}

export type ProducerEvent =
  | { case: "hello"; value: Hello }
  | { case: "create"; value: CreateTask }
  | { case: "createBatch"; value: CreateTaskBatch }
  | { case: "awaitResult"; value: AwaitResult }
  | { case: undefined; value?: undefined };

export function writeProducerEvent(message: ProducerEvent, writer: WireWriter): void {
  if (message.case === "hello") writer.messageMember(10, 1, writeHello, message.value);
  else if (message.case === "create") writer.messageMember(18, 2, writeCreateTask, message.value);
  else if (message.case === "createBatch")
    writer.messageMember(26, 2, writeCreateTaskBatch, message.value);
  else if (message.case === "awaitResult")
    writer.messageMember(802, 1, writeAwaitResult, message.value);
}

export function readProducerEvent(reader: WireReader): ProducerEvent {
  let message: ProducerEvent = { case: undefined };
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message = { case: "hello", value: reader.message(readHello) };
    else if (tag === 18) message = { case: "create", value: reader.message(readCreateTask) };
    else if (tag === 26)
      message = { case: "createBatch", value: reader.message(readCreateTaskBatch) };
    else if (tag === 802) message = { case: "awaitResult", value: reader.message(readAwaitResult) };
    else reader.skip(tag);
  }
  return message;
}

export type HelloAck = ReturnType<typeof newHelloAck>;

export function newHelloAck() {
  return {
    tenantId: "",
    subject: "",
    /** Another one with every start of a server. */
    instance: "",
  };
}

export function writeHelloAck(message: HelloAck, writer: WireWriter): void {
  writer.stringField(10, message.tenantId);
  writer.stringField(18, message.subject);
  writer.stringField(802, message.instance);
}

export function readHelloAck(reader: WireReader): HelloAck {
  const message = newHelloAck();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.tenantId = reader.string();
    else if (tag === 18) message.subject = reader.string();
    else if (tag === 802) message.instance = reader.string();
    else reader.skip(tag);
  }
  return message;
}

export type CreateAck = ReturnType<typeof newCreateAck>;

export function newCreateAck() {
  return {
    seq: 0 as WireUint64,
    ok: false,
    taskId: "",
    errorMessage: "",
    /** The name of the refusal in the table of errors. */
    errorCode: "",
    /** The task is there for an earlier request with the same unique key. */
    deduplicated: false,
  };
}

export function writeCreateAck(message: CreateAck, writer: WireWriter): void {
  writer.uint64Field(8, message.seq);
  writer.boolField(16, message.ok);
  writer.stringField(26, message.taskId);
  writer.stringField(34, message.errorMessage);
  writer.stringField(802, message.errorCode);
  writer.boolField(808, message.deduplicated);
}

export function readCreateAck(reader: WireReader): CreateAck {
  const message = newCreateAck();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 8) message.seq = reader.uint64();
    else if (tag === 16) message.ok = reader.bool();
    else if (tag === 26) message.taskId = reader.string();
    else if (tag === 34) message.errorMessage = reader.string();
    else if (tag === 802) message.errorCode = reader.string();
    else if (tag === 808) message.deduplicated = reader.bool();
    else reader.skip(tag);
  }
  return message;
}

/** In the order of the batch that it answers. */
export type CreateAckBatch = ReturnType<typeof newCreateAckBatch>;

export function newCreateAckBatch() {
  return {
    acks: [] as CreateAck[],
  };
}

export function writeCreateAckBatch(message: CreateAckBatch, writer: WireWriter): void {
  for (const each of message.acks) writer.messageMember(10, 2, writeCreateAck, each);
}

export function readCreateAckBatch(reader: WireReader): CreateAckBatch {
  const message = newCreateAckBatch();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) {
      reader.countElement();
      message.acks.push(reader.message(readCreateAck));
    } else reader.skip(tag);
  }
  return message;
}

/** A file that belongs to a result. A link has a name and a URL only. */
export type Artifact = ReturnType<typeof newArtifact>;

export function newArtifact() {
  return {
    name: "",
    url: "",
    bytes: 0 as WireUint64,
    /** Of the content, in hexadecimal digits. */
    sha256: "",
    contentType: "",
  };
}

export function writeArtifact(message: Artifact, writer: WireWriter): void {
  writer.stringField(10, message.name);
  writer.stringField(18, message.url);
  writer.uint64Field(24, message.bytes);
  writer.stringField(34, message.sha256);
  writer.stringField(42, message.contentType);
}

export function readArtifact(reader: WireReader): Artifact {
  const message = newArtifact();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.name = reader.string();
    else if (tag === 18) message.url = reader.string();
    else if (tag === 24) message.bytes = reader.uint64();
    else if (tag === 34) message.sha256 = reader.string();
    else if (tag === 42) message.contentType = reader.string();
    else reader.skip(tag);
  }
  return message;
}

export type TaskResult = ReturnType<typeof newTaskResult>;

export function newTaskResult() {
  return {
    taskId: "",
    /** False while the task has not ended, and when there is no such task. */
    ok: false,
    errorMessage: "",
    /** COMPLETED or FAILED. */
    status: "",
    /** A JSON object, or empty. */
    resultJson: "" as WireBytes,
    /** What a failed task failed with. */
    error: "",
    /** Attempts, with the one that ended in this result. */
    attempts: 0,
    errorCode: "",
    artifacts: [] as Artifact[],
  };
}

export function writeTaskResult(message: TaskResult, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.boolField(16, message.ok);
  writer.stringField(26, message.errorMessage);
  writer.stringField(34, message.status);
  writer.bytesField(42, message.resultJson);
  writer.stringField(50, message.error);
  writer.int32Field(56, message.attempts);
  writer.stringField(802, message.errorCode);
  for (const each of message.artifacts) writer.messageMember(810, 1, writeArtifact, each);
}

export function readTaskResult(reader: WireReader): TaskResult {
  const message = newTaskResult();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 16) message.ok = reader.bool();
    else if (tag === 26) message.errorMessage = reader.string();
    else if (tag === 34) message.status = reader.string();
    else if (tag === 42) message.resultJson = reader.bytes();
    else if (tag === 50) message.error = reader.string();
    else if (tag === 56) message.attempts = reader.int32();
    else if (tag === 802) message.errorCode = reader.string();
    else if (tag === 810) {
      reader.countElement();
      message.artifacts.push(reader.message(readArtifact));
    } else reader.skip(tag);
  }
  return message;
}

/**
 * An event that could not be handled; the session goes on. The worker stream has a message of this
 * name with the two numbers the other way round.
 */
export type ServerError = ReturnType<typeof newServerError>;

export function newServerError() {
  return {
    code: "",
    message: "",
    errorCode: "",
  };
}

export function writeServerError(message: ServerError, writer: WireWriter): void {
  writer.stringField(10, message.code);
  writer.stringField(18, message.message);
  writer.stringField(802, message.errorCode);
}

export function readServerError(reader: WireReader): ServerError {
  const message = newServerError();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.code = reader.string();
    else if (tag === 18) message.message = reader.string();
    else if (tag === 802) message.errorCode = reader.string();
    else reader.skip(tag);
  }
  return message;
}

export type ServerEvent =
  | { case: "helloAck"; value: HelloAck }
  | { case: "createAck"; value: CreateAck }
  | { case: "error"; value: ServerError }
  | { case: "createAckBatch"; value: CreateAckBatch }
  | { case: "taskResult"; value: TaskResult }
  | { case: undefined; value?: undefined };

export function writeServerEvent(message: ServerEvent, writer: WireWriter): void {
  if (message.case === "helloAck") writer.messageMember(10, 1, writeHelloAck, message.value);
  else if (message.case === "createAck") writer.messageMember(18, 2, writeCreateAck, message.value);
  else if (message.case === "error") writer.messageMember(26, 1, writeServerError, message.value);
  else if (message.case === "createAckBatch")
    writer.messageMember(34, 2, writeCreateAckBatch, message.value);
  else if (message.case === "taskResult")
    writer.messageMember(802, 2, writeTaskResult, message.value);
}

export function readServerEvent(reader: WireReader): ServerEvent {
  let message: ServerEvent = { case: undefined };
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message = { case: "helloAck", value: reader.message(readHelloAck) };
    else if (tag === 18) message = { case: "createAck", value: reader.message(readCreateAck) };
    else if (tag === 26) message = { case: "error", value: reader.message(readServerError) };
    else if (tag === 34)
      message = { case: "createAckBatch", value: reader.message(readCreateAckBatch) };
    else if (tag === 802) message = { case: "taskResult", value: reader.message(readTaskResult) };
    else reader.skip(tag);
  }
  return message;
}
