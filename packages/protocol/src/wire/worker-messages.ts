/**
 * Generated from proto/workerpb.proto by scripts/gen-codecs.ts. To change it, change that file and run
 * `npm run gen`.
 */
import type { WireReader } from "./reader.ts";
import type { WireBytes, WireUint64, WireWriter } from "./writer.ts";

export type Task = ReturnType<typeof newTask>;

export function newTask() {
  return {
    id: "",
    command: "",
    /** The JSON text of the producer, byte for byte. */
    payload: "" as WireBytes,
    priority: 0,
    webhook: "",
    maxAttempts: 0,
    status: "",
    workerId: "",
    /** RFC 3339; when the lease ends unless it is extended. */
    leaseUntil: "",
    /** Attempts that came back without a result. */
    attempts: 0,
    tenantId: "",
    createdAtMs: undefined as number | undefined,
    updatedAtMs: undefined as number | undefined,
    /**
     * Grows with every claim of the task. A worker that sends it back is refused once another claim
     * has replaced its own, even one under the same worker id.
     */
    leaseToken: 0 as WireUint64,
    /** W3C trace context of the producer, if it sent one. */
    traceParent: "",
    traceState: "",
    /** Labels that the producer gave it. */
    tags: [] as string[],
    /**
     * The id of the task that this one was made of: a dead letter that its topic sent here, or a task that
     * was replayed with changes.
     */
    replayOf: "",
    /** How long this attempt may take, from the claim on; zero for as long as its lease is extended. */
    timeoutSeconds: 0,
    /**
     * The schedule that created the task, and the nominal instant that it was created for, in milliseconds since
     * 1970; empty and zero for other tasks.
     */
    scheduleId: "",
    scheduledForMs: 0 as WireUint64,
    /** The batch that the task belongs to; empty for none. */
    batchId: "",
    /** The task is the callback of the batch, whose members ended like this. */
    isBatchCallback: false,
    batchSucceeded: 0 as WireUint64,
    batchFailed: 0 as WireUint64,
    batchCancelled: 0 as WireUint64,
    /** The lane of the task, and the units of rates that it takes. */
    lane: "",
    cost: 0,
  };
}

export function writeTask(message: Task, writer: WireWriter): void {
  writer.stringField(10, message.id);
  writer.stringField(18, message.command);
  writer.bytesField(26, message.payload);
  writer.int32Field(32, message.priority);
  writer.stringField(42, message.webhook);
  writer.int32Field(48, message.maxAttempts);
  writer.stringField(58, message.status);
  writer.stringField(66, message.workerId);
  writer.stringField(74, message.leaseUntil);
  writer.int32Field(80, message.attempts);
  writer.stringField(90, message.tenantId);
  writer.timestampField(98, message.createdAtMs);
  writer.timestampField(106, message.updatedAtMs);
  writer.uint64Field(800, message.leaseToken);
  writer.stringField(810, message.traceParent);
  writer.stringField(818, message.traceState);
  for (const each of message.tags) writer.stringMember(826, each);
  writer.stringField(834, message.replayOf);
  writer.int32Field(840, message.timeoutSeconds);
  writer.stringField(850, message.scheduleId);
  writer.uint64Field(856, message.scheduledForMs);
  writer.stringField(962, message.batchId);
  writer.boolField(968, message.isBatchCallback);
  writer.uint64Field(976, message.batchSucceeded);
  writer.uint64Field(984, message.batchFailed);
  writer.uint64Field(992, message.batchCancelled);
  writer.stringField(1042, message.lane);
  writer.int32Field(1048, message.cost);
}

export function readTask(reader: WireReader): Task {
  const message = newTask();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.id = reader.string();
    else if (tag === 18) message.command = reader.string();
    else if (tag === 26) message.payload = reader.bytes();
    else if (tag === 32) message.priority = reader.int32();
    else if (tag === 42) message.webhook = reader.string();
    else if (tag === 48) message.maxAttempts = reader.int32();
    else if (tag === 58) message.status = reader.string();
    else if (tag === 66) message.workerId = reader.string();
    else if (tag === 74) message.leaseUntil = reader.string();
    else if (tag === 80) message.attempts = reader.int32();
    else if (tag === 90) message.tenantId = reader.string();
    else if (tag === 98) message.createdAtMs = reader.timestamp();
    else if (tag === 106) message.updatedAtMs = reader.timestamp();
    else if (tag === 800) message.leaseToken = reader.uint64();
    else if (tag === 810) message.traceParent = reader.string();
    else if (tag === 818) message.traceState = reader.string();
    else if (tag === 826) {
      reader.countElement();
      message.tags.push(reader.string());
    } else if (tag === 834) message.replayOf = reader.string();
    else if (tag === 840) message.timeoutSeconds = reader.int32();
    else if (tag === 850) message.scheduleId = reader.string();
    else if (tag === 856) message.scheduledForMs = reader.uint64();
    else if (tag === 962) message.batchId = reader.string();
    else if (tag === 968) message.isBatchCallback = reader.bool();
    else if (tag === 976) message.batchSucceeded = reader.uint64();
    else if (tag === 984) message.batchFailed = reader.uint64();
    else if (tag === 992) message.batchCancelled = reader.uint64();
    else if (tag === 1042) message.lane = reader.string();
    else if (tag === 1048) message.cost = reader.int32();
    else reader.skip(tag);
  }
  return message;
}

/** Has to be the first event. */
export type Hello = ReturnType<typeof newHello>;

export function newHello() {
  return {
    token: "",
    /** Empty takes the subject of the token. */
    workerId: "",
  };
}

export function writeHello(message: Hello, writer: WireWriter): void {
  writer.stringField(10, message.token);
  writer.stringField(18, message.workerId);
}

export function readHello(reader: WireReader): Hello {
  const message = newHello();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.token = reader.string();
    else if (tag === 18) message.workerId = reader.string();
    else reader.skip(tag);
  }
  return message;
}

/** Asks for tasks, and is answered when there is at least one. */
export type Ready = ReturnType<typeof newReady>;

export function newReady() {
  return {
    /** Empty means every command that the token allows. */
    commands: [] as string[],
    /** Zero means the default of the server. */
    leaseSeconds: 0,
    /** Up to 1 is answered by a TaskAssignment, more by a TaskBatch. */
    count: 0,
  };
}

export function writeReady(message: Ready, writer: WireWriter): void {
  for (const each of message.commands) writer.stringMember(10, each);
  writer.int32Field(16, message.leaseSeconds);
  writer.int32Field(24, message.count);
}

export function readReady(reader: WireReader): Ready {
  const message = newReady();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) {
      reader.countElement();
      message.commands.push(reader.string());
    } else if (tag === 16) message.leaseSeconds = reader.int32();
    else if (tag === 24) message.count = reader.int32();
    else reader.skip(tag);
  }
  return message;
}

/**
 * A file that belongs to a result: a link, or content that the server stores. Large files are stored before the
 * result, with PUT /v1/codeq/tasks/<id>/artifacts/<name>.
 */
export type Artifact = ReturnType<typeof newArtifact>;

export function newArtifact() {
  return {
    name: "",
    /** Where the file is; kept as it is. */
    url: "",
    /** The file itself, when there is no URL. */
    content: "" as WireBytes,
    contentType: "",
  };
}

export function writeArtifact(message: Artifact, writer: WireWriter): void {
  writer.stringField(10, message.name);
  writer.stringField(18, message.url);
  writer.bytesField(26, message.content);
  writer.stringField(34, message.contentType);
}

export function readArtifact(reader: WireReader): Artifact {
  const message = newArtifact();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.name = reader.string();
    else if (tag === 18) message.url = reader.string();
    else if (tag === 26) message.content = reader.bytes();
    else if (tag === 34) message.contentType = reader.string();
    else reader.skip(tag);
  }
  return message;
}

/** Units of the rate of a lane. */
export type Units = ReturnType<typeof newUnits>;

export function newUnits() {
  return {
    count: 0,
  };
}

export function writeUnits(message: Units, writer: WireWriter): void {
  writer.int32Field(8, message.count);
}

export function readUnits(reader: WireReader): Units {
  const message = newUnits();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 8) message.count = reader.int32();
    else reader.skip(tag);
  }
  return message;
}

export type Result = ReturnType<typeof newResult>;

export function newResult() {
  return {
    taskId: "",
    /** COMPLETED or FAILED. */
    status: "",
    /** A JSON object, or empty. */
    resultJson: "" as WireBytes,
    /** Needed when the status is FAILED. */
    error: "",
    /** Zero is not checked. */
    leaseToken: 0 as WireUint64,
    artifacts: [] as Artifact[],
    /** Where in the worker's code it failed, with causes. */
    stack: "",
    /** What the attempt really took; without it, its cost. */
    used: undefined as Units | undefined,
  };
}

export function writeResult(message: Result, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.stringField(18, message.status);
  writer.bytesField(26, message.resultJson);
  writer.stringField(34, message.error);
  writer.uint64Field(800, message.leaseToken);
  for (const each of message.artifacts) writer.messageMember(810, 2, writeArtifact, each);
  writer.stringField(818, message.stack);
  if (message.used !== undefined) writer.messageMember(962, 1, writeUnits, message.used);
}

export function readResult(reader: WireReader): Result {
  const message = newResult();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 18) message.status = reader.string();
    else if (tag === 26) message.resultJson = reader.bytes();
    else if (tag === 34) message.error = reader.string();
    else if (tag === 800) message.leaseToken = reader.uint64();
    else if (tag === 810) {
      reader.countElement();
      message.artifacts.push(reader.message(readArtifact));
    } else if (tag === 818) message.stack = reader.string();
    else if (tag === 962) message.used = reader.message(readUnits);
    else reader.skip(tag);
  }
  return message;
}

export type Nack = ReturnType<typeof newNack>;

export function newNack() {
  return {
    taskId: "",
    /** Zero leaves the delay to the retry policy. */
    delaySeconds: 0,
    reason: "",
    leaseToken: 0 as WireUint64,
    /** Wins over delay_seconds. */
    delayMs: 0 as WireUint64,
    /** Where in the worker's code it failed, with causes. */
    stack: "",
    /** Holds the lane of the task for so long: the task keeps its turn, and no attempt is counted. */
    holdSeconds: 0,
    /** What the attempt really took; without it, its cost. */
    used: undefined as Units | undefined,
  };
}

export function writeNack(message: Nack, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.int32Field(16, message.delaySeconds);
  writer.stringField(26, message.reason);
  writer.uint64Field(800, message.leaseToken);
  writer.uint64Field(808, message.delayMs);
  writer.stringField(818, message.stack);
  writer.int32Field(960, message.holdSeconds);
  if (message.used !== undefined) writer.messageMember(970, 1, writeUnits, message.used);
}

export function readNack(reader: WireReader): Nack {
  const message = newNack();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 16) message.delaySeconds = reader.int32();
    else if (tag === 26) message.reason = reader.string();
    else if (tag === 800) message.leaseToken = reader.uint64();
    else if (tag === 808) message.delayMs = reader.uint64();
    else if (tag === 818) message.stack = reader.string();
    else if (tag === 960) message.holdSeconds = reader.int32();
    else if (tag === 970) message.used = reader.message(readUnits);
    else reader.skip(tag);
  }
  return message;
}

/** How far the work has come. */
export type Progress = ReturnType<typeof newProgress>;

export function newProgress() {
  return {
    /** From 0 to 100. */
    percent: 0,
    text: "",
  };
}

export function writeProgress(message: Progress, writer: WireWriter): void {
  writer.int32Field(8, message.percent);
  writer.stringField(18, message.text);
}

export function readProgress(reader: WireReader): Progress {
  const message = newProgress();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 8) message.percent = reader.int32();
    else if (tag === 18) message.text = reader.string();
    else reader.skip(tag);
  }
  return message;
}

export type Heartbeat = ReturnType<typeof newHeartbeat>;

export function newHeartbeat() {
  return {
    taskId: "",
    /** From now; zero means the default lease. */
    extendSeconds: 0,
    leaseToken: 0 as WireUint64,
    /** For people who look at the task; a few reports a second are kept, the others dropped. */
    progress: undefined as Progress | undefined,
    /** Lines for people who look at the task. */
    logs: [] as string[],
  };
}

export function writeHeartbeat(message: Heartbeat, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.int32Field(16, message.extendSeconds);
  writer.uint64Field(800, message.leaseToken);
  if (message.progress !== undefined) writer.messageMember(810, 1, writeProgress, message.progress);
  for (const each of message.logs) writer.stringMember(818, each);
}

export function readHeartbeat(reader: WireReader): Heartbeat {
  const message = newHeartbeat();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 16) message.extendSeconds = reader.int32();
    else if (tag === 800) message.leaseToken = reader.uint64();
    else if (tag === 810) message.progress = reader.message(readProgress);
    else if (tag === 818) {
      reader.countElement();
      message.logs.push(reader.string());
    } else reader.skip(tag);
  }
  return message;
}

export type Abandon = ReturnType<typeof newAbandon>;

export function newAbandon() {
  return {
    taskId: "",
    leaseToken: 0 as WireUint64,
    /** The worker is shutting down: the task goes back without an attempt being counted. */
    interrupted: false,
  };
}

export function writeAbandon(message: Abandon, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.uint64Field(800, message.leaseToken);
  writer.boolField(808, message.interrupted);
}

export function readAbandon(reader: WireReader): Abandon {
  const message = newAbandon();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 800) message.leaseToken = reader.uint64();
    else if (tag === 808) message.interrupted = reader.bool();
    else reader.skip(tag);
  }
  return message;
}

export type ResultBatch = ReturnType<typeof newResultBatch>;

export function newResultBatch() {
  return {
    results: [] as Result[],
  };
}

export function writeResultBatch(message: ResultBatch, writer: WireWriter): void {
  for (const each of message.results) writer.messageMember(10, 2, writeResult, each);
}

export function readResultBatch(reader: WireReader): ResultBatch {
  const message = newResultBatch();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) {
      reader.countElement();
      message.results.push(reader.message(readResult));
    } else reader.skip(tag);
  }
  return message;
}

export type WorkerEvent =
  | { case: "hello"; value: Hello }
  | { case: "ready"; value: Ready }
  | { case: "result"; value: Result }
  | { case: "nack"; value: Nack }
  | { case: "heartbeat"; value: Heartbeat }
  | { case: "abandon"; value: Abandon }
  | { case: "resultBatch"; value: ResultBatch }
  | { case: undefined; value?: undefined };

export function writeWorkerEvent(message: WorkerEvent, writer: WireWriter): void {
  if (message.case === "hello") writer.messageMember(10, 1, writeHello, message.value);
  else if (message.case === "ready") writer.messageMember(18, 2, writeReady, message.value);
  else if (message.case === "result") writer.messageMember(26, 2, writeResult, message.value);
  else if (message.case === "nack") writer.messageMember(34, 2, writeNack, message.value);
  else if (message.case === "heartbeat") writer.messageMember(42, 2, writeHeartbeat, message.value);
  else if (message.case === "abandon") writer.messageMember(50, 1, writeAbandon, message.value);
  else if (message.case === "resultBatch")
    writer.messageMember(58, 2, writeResultBatch, message.value);
}

export function readWorkerEvent(reader: WireReader): WorkerEvent {
  let message: WorkerEvent = { case: undefined };
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message = { case: "hello", value: reader.message(readHello) };
    else if (tag === 18) message = { case: "ready", value: reader.message(readReady) };
    else if (tag === 26) message = { case: "result", value: reader.message(readResult) };
    else if (tag === 34) message = { case: "nack", value: reader.message(readNack) };
    else if (tag === 42) message = { case: "heartbeat", value: reader.message(readHeartbeat) };
    else if (tag === 50) message = { case: "abandon", value: reader.message(readAbandon) };
    else if (tag === 58) message = { case: "resultBatch", value: reader.message(readResultBatch) };
    else reader.skip(tag);
  }
  return message;
}

export type HelloAck = ReturnType<typeof newHelloAck>;

export function newHelloAck() {
  return {
    workerId: "",
    tenantId: "",
    /** Another one with every start of a server. */
    instance: "",
  };
}

export function writeHelloAck(message: HelloAck, writer: WireWriter): void {
  writer.stringField(10, message.workerId);
  writer.stringField(18, message.tenantId);
  writer.stringField(802, message.instance);
}

export function readHelloAck(reader: WireReader): HelloAck {
  const message = newHelloAck();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.workerId = reader.string();
    else if (tag === 18) message.tenantId = reader.string();
    else if (tag === 802) message.instance = reader.string();
    else reader.skip(tag);
  }
  return message;
}

export type TaskAssignment = ReturnType<typeof newTaskAssignment>;

export function newTaskAssignment() {
  return {
    task: undefined as Task | undefined,
  };
}

export function writeTaskAssignment(message: TaskAssignment, writer: WireWriter): void {
  if (message.task !== undefined) writer.messageMember(10, 2, writeTask, message.task);
}

export function readTaskAssignment(reader: WireReader): TaskAssignment {
  const message = newTaskAssignment();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.task = reader.message(readTask);
    else reader.skip(tag);
  }
  return message;
}

/** Never empty. */
export type TaskBatch = ReturnType<typeof newTaskBatch>;

export function newTaskBatch() {
  return {
    tasks: [] as Task[],
  };
}

export function writeTaskBatch(message: TaskBatch, writer: WireWriter): void {
  for (const each of message.tasks) writer.messageMember(10, 2, writeTask, each);
}

export function readTaskBatch(reader: WireReader): TaskBatch {
  const message = newTaskBatch();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) {
      reader.countElement();
      message.tasks.push(reader.message(readTask));
    } else reader.skip(tag);
  }
  return message;
}

export type ResultAck = ReturnType<typeof newResultAck>;

export function newResultAck() {
  return {
    taskId: "",
    ok: false,
    errorMessage: "",
    /** The name of the refusal in the table of errors; here and in the other acknowledgements. */
    errorCode: "",
    /** As in the event that is answered, so zero when the event had none; here and in the others. */
    leaseToken: 0 as WireUint64,
  };
}

export function writeResultAck(message: ResultAck, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.boolField(16, message.ok);
  writer.stringField(26, message.errorMessage);
  writer.stringField(802, message.errorCode);
  writer.uint64Field(808, message.leaseToken);
}

export function readResultAck(reader: WireReader): ResultAck {
  const message = newResultAck();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 16) message.ok = reader.bool();
    else if (tag === 26) message.errorMessage = reader.string();
    else if (tag === 802) message.errorCode = reader.string();
    else if (tag === 808) message.leaseToken = reader.uint64();
    else reader.skip(tag);
  }
  return message;
}

/** In the order of the batch that it answers. */
export type ResultAckBatch = ReturnType<typeof newResultAckBatch>;

export function newResultAckBatch() {
  return {
    acks: [] as ResultAck[],
  };
}

export function writeResultAckBatch(message: ResultAckBatch, writer: WireWriter): void {
  for (const each of message.acks) writer.messageMember(10, 1, writeResultAck, each);
}

export function readResultAckBatch(reader: WireReader): ResultAckBatch {
  const message = newResultAckBatch();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) {
      reader.countElement();
      message.acks.push(reader.message(readResultAck));
    } else reader.skip(tag);
  }
  return message;
}

/** Also sent without a heartbeat when a task that the worker may have is cancelled. */
export type HeartbeatAck = ReturnType<typeof newHeartbeatAck>;

export function newHeartbeatAck() {
  return {
    taskId: "",
    ok: false,
    errorMessage: "",
    errorCode: "",
    leaseToken: 0 as WireUint64,
    /** The task is not wanted any more: the worker should stop, and loses it soon. */
    cancelled: false,
  };
}

export function writeHeartbeatAck(message: HeartbeatAck, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.boolField(16, message.ok);
  writer.stringField(26, message.errorMessage);
  writer.stringField(802, message.errorCode);
  writer.uint64Field(808, message.leaseToken);
  writer.boolField(816, message.cancelled);
}

export function readHeartbeatAck(reader: WireReader): HeartbeatAck {
  const message = newHeartbeatAck();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 16) message.ok = reader.bool();
    else if (tag === 26) message.errorMessage = reader.string();
    else if (tag === 802) message.errorCode = reader.string();
    else if (tag === 808) message.leaseToken = reader.uint64();
    else if (tag === 816) message.cancelled = reader.bool();
    else reader.skip(tag);
  }
  return message;
}

export type NackAck = ReturnType<typeof newNackAck>;

export function newNackAck() {
  return {
    taskId: "",
    ok: false,
    errorMessage: "",
    /** Rounded up. */
    appliedDelaySeconds: 0,
    /** The task had no attempt left and became a dead letter. */
    dlq: false,
    errorCode: "",
    leaseToken: 0 as WireUint64,
  };
}

export function writeNackAck(message: NackAck, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.boolField(16, message.ok);
  writer.stringField(26, message.errorMessage);
  writer.int32Field(32, message.appliedDelaySeconds);
  writer.boolField(40, message.dlq);
  writer.stringField(802, message.errorCode);
  writer.uint64Field(808, message.leaseToken);
}

export function readNackAck(reader: WireReader): NackAck {
  const message = newNackAck();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 16) message.ok = reader.bool();
    else if (tag === 26) message.errorMessage = reader.string();
    else if (tag === 32) message.appliedDelaySeconds = reader.int32();
    else if (tag === 40) message.dlq = reader.bool();
    else if (tag === 802) message.errorCode = reader.string();
    else if (tag === 808) message.leaseToken = reader.uint64();
    else reader.skip(tag);
  }
  return message;
}

export type AbandonAck = ReturnType<typeof newAbandonAck>;

export function newAbandonAck() {
  return {
    taskId: "",
    ok: false,
    errorMessage: "",
    errorCode: "",
    leaseToken: 0 as WireUint64,
  };
}

export function writeAbandonAck(message: AbandonAck, writer: WireWriter): void {
  writer.stringField(10, message.taskId);
  writer.boolField(16, message.ok);
  writer.stringField(26, message.errorMessage);
  writer.stringField(802, message.errorCode);
  writer.uint64Field(808, message.leaseToken);
}

export function readAbandonAck(reader: WireReader): AbandonAck {
  const message = newAbandonAck();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.taskId = reader.string();
    else if (tag === 16) message.ok = reader.bool();
    else if (tag === 26) message.errorMessage = reader.string();
    else if (tag === 802) message.errorCode = reader.string();
    else if (tag === 808) message.leaseToken = reader.uint64();
    else reader.skip(tag);
  }
  return message;
}

/**
 * An event that could not be handled; the session goes on. The producer stream has a message of this
 * name with the two numbers the other way round.
 */
export type ServerError = ReturnType<typeof newServerError>;

export function newServerError() {
  return {
    message: "",
    code: "",
    errorCode: "",
  };
}

export function writeServerError(message: ServerError, writer: WireWriter): void {
  writer.stringField(10, message.message);
  writer.stringField(18, message.code);
  writer.stringField(802, message.errorCode);
}

export function readServerError(reader: WireReader): ServerError {
  const message = newServerError();
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message.message = reader.string();
    else if (tag === 18) message.code = reader.string();
    else if (tag === 802) message.errorCode = reader.string();
    else reader.skip(tag);
  }
  return message;
}

export type ServerEvent =
  | { case: "helloAck"; value: HelloAck }
  | { case: "task"; value: TaskAssignment }
  | { case: "resultAck"; value: ResultAck }
  | { case: "heartbeatAck"; value: HeartbeatAck }
  | { case: "nackAck"; value: NackAck }
  | { case: "abandonAck"; value: AbandonAck }
  | { case: "error"; value: ServerError }
  | { case: "taskBatch"; value: TaskBatch }
  | { case: "resultAckBatch"; value: ResultAckBatch }
  | { case: undefined; value?: undefined };

export function writeServerEvent(message: ServerEvent, writer: WireWriter): void {
  if (message.case === "helloAck") writer.messageMember(10, 1, writeHelloAck, message.value);
  else if (message.case === "task") writer.messageMember(18, 1, writeTaskAssignment, message.value);
  else if (message.case === "resultAck") writer.messageMember(26, 1, writeResultAck, message.value);
  else if (message.case === "heartbeatAck")
    writer.messageMember(34, 2, writeHeartbeatAck, message.value);
  else if (message.case === "nackAck") writer.messageMember(42, 2, writeNackAck, message.value);
  else if (message.case === "abandonAck")
    writer.messageMember(50, 1, writeAbandonAck, message.value);
  else if (message.case === "error") writer.messageMember(58, 1, writeServerError, message.value);
  else if (message.case === "taskBatch") writer.messageMember(66, 2, writeTaskBatch, message.value);
  else if (message.case === "resultAckBatch")
    writer.messageMember(74, 2, writeResultAckBatch, message.value);
}

export function readServerEvent(reader: WireReader): ServerEvent {
  let message: ServerEvent = { case: undefined };
  while (reader.more()) {
    const tag = reader.tag();
    if (tag === 10) message = { case: "helloAck", value: reader.message(readHelloAck) };
    else if (tag === 18) message = { case: "task", value: reader.message(readTaskAssignment) };
    else if (tag === 26) message = { case: "resultAck", value: reader.message(readResultAck) };
    else if (tag === 34)
      message = { case: "heartbeatAck", value: reader.message(readHeartbeatAck) };
    else if (tag === 42) message = { case: "nackAck", value: reader.message(readNackAck) };
    else if (tag === 50) message = { case: "abandonAck", value: reader.message(readAbandonAck) };
    else if (tag === 58) message = { case: "error", value: reader.message(readServerError) };
    else if (tag === 66) message = { case: "taskBatch", value: reader.message(readTaskBatch) };
    else if (tag === 74)
      message = { case: "resultAckBatch", value: reader.message(readResultAckBatch) };
    else reader.skip(tag);
  }
  return message;
}
