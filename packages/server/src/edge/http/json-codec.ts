/**
 * Records as JSON on the wire. Built as text, because that is several times cheaper than building objects
 * first; only strings that users choose need escaping.
 */
import {
  type Attempt,
  attemptsOf,
  type Place,
  type Result,
  startByMsOf,
  statusOf,
  type Task,
  type TaskBatch,
  type TaskExtras,
  type TaskLane,
  type TaskUnique,
} from "@codeq/queue";
import { placeOf } from "../../core/search/task-filter.ts";
import type { Timestamps } from "../../core/timestamps.ts";
import type { FeedEvent, TaskEvent } from "../../telemetry/feed.ts";
import type { FeedSummary } from "../../telemetry/feed-summaries.ts";

const locations = {
  ready: "PENDING_LIST",
  delayed: "DELAYED_ZSET",
  held: "HELD_SET",
  leased: "INPROG_SET",
  dead: "DLQ_SET",
  done: "NONE",
} as const satisfies Record<Place["in"], string>;

/** Longer reasons are truncated in events; the task has the whole reason. */
const reasonCharsMax = 256;
/** Longer results are left out of events. */
const resultCharsMax = 64 * 1024;

export class JsonCodec {
  readonly #timestamps: Timestamps;
  #lastEvent: FeedEvent | undefined;
  #lastEventText = "";
  #lastSummary: FeedSummary | undefined;
  #lastSummaryText = "";

  constructor(timestamps: Timestamps) {
    this.#timestamps = timestamps;
  }

  task(task: Task, payload: string): string {
    return `${this.#open(task, payload)}}`;
  }

  /** A task with its attempts. */
  taskWithHistory(task: Task, payload: string): string {
    return `${this.#open(task, payload)}${this.#history(task)}${this.#report(task)}}`;
  }

  /** What a browser gets to see that watches the task. */
  publicTask(task: Task): string {
    const { id, command, createdMs, updatedMs } = task;
    const status = statusOf(task.place);
    const times = { createdAt: this.instant(createdMs), updatedAt: this.instant(updatedMs) };
    const shown = JSON.stringify({ id, command, status, ...times });
    return `${shown.slice(0, -1)}${this.#report(task)}}`;
  }

  /** The same of what happens to it. */
  publicEvent(event: FeedEvent): string {
    const { event: name, atMs, command, reason } = event;
    const time = this.#timestamps.local(atMs);
    const { taskId, attempt, how, delaySeconds, percent, text, lines } = event as TaskEvent;
    const said = { reason, percent, text, lines };
    return JSON.stringify({
      event: name,
      time,
      taskId,
      command,
      attempt,
      how,
      delaySeconds,
      ...said,
    });
  }

  /** Empty for a task without attempts. */
  #history(task: Task): string {
    const attempts = attemptsOf(task);
    if (attempts.length === 0) return "";
    const shown = attempts.map((each) => this.#attempt(each)).join(",");
    const omitted = task.leaseToken - attempts.length;
    const count = omitted > 0 ? `,"attemptsOmitted":${omitted}` : "";
    return `,"attemptHistory":[${shown}]${count}`;
  }

  /** The progress and logs that workers reported. */
  #report({ trail }: Task): string {
    const { progress, logs = [] } = trail ?? {};
    let text = "";
    if (progress !== undefined) {
      const { percent, text: said, atMs } = progress;
      text += `,"progress":${JSON.stringify({ percent, text: said, at: this.instant(atMs) })}`;
    }
    if (logs.length === 0) return text;
    const lines = logs.map(({ atMs, text: said }) => ({ at: this.instant(atMs), text: said }));
    return `${text},"logs":${JSON.stringify(lines)}`;
  }

  #attempt(attempt: Attempt): string {
    const { startedMs, endedMs, outcome, error, stack, delayMs, leaseToken, workerId } = attempt;
    return JSON.stringify({
      workerId,
      leaseToken,
      startedAt: this.instant(startedMs),
      endedAt: endedMs === undefined ? undefined : this.instant(endedMs),
      outcome,
      error: error === "" ? undefined : error,
      stack: stack === "" ? undefined : stack,
      delaySeconds: delayMs === 0 ? undefined : delayMs / 1000,
    });
  }

  /** A task as administrators see it in full. */
  inspectedTask(task: Task, payload: string | undefined): string {
    const listed = this.listedTask(task, payload).slice(0, -1);
    return `${listed}${this.#history(task)}${this.#report(task)}}`;
  }

  /** A task as administrators see it, with its place and its times; long payloads are left out. */
  listedTask(task: Task, payload: string | undefined): string {
    const { place } = task;
    let text = `${this.#open(task, payload)},"place":"${placeOf(task)}"`;
    if (payload === undefined) text += `,"payloadOmitted":true`;
    text += optional("idempotencyKey", task.idempotencyKey);
    if (task.cancelMs !== 0) text += `,"cancelledUntil":"${this.instant(task.cancelMs)}"`;
    if (place.in === "delayed" && task.unique?.isHeld !== true) {
      text += `,"dueAt":"${this.instant(place.dueMs)}"`;
    }
    if (place.in === "done") text += optional("workerId", place.workerId);
    if (place.in === "dead" || place.in === "done") {
      text += `,"endedAt":"${this.instant(place.atMs)}"`;
      if (place.expiresMs !== undefined) text += `,"expiresAt":"${this.instant(place.expiresMs)}"`;
    }
    return `${text}}`;
  }

  #unique({ key, replaced, sinceMs, isHeld }: TaskUnique): string {
    let text = optional("uniqueKey", key);
    if (replaced > 0) text += `,"replaced":${replaced},"replacedSince":"${this.instant(sinceMs)}"`;
    return isHeld ? `${text},"waitsForKey":true` : text;
  }

  /** The object without its closing brace. */
  #open(task: Task, payload: string | undefined): string {
    const { place } = task;
    let text = `{"id":"${task.id}","command":"${task.command}"`;
    if (payload !== undefined) text += `,"payload":${JSON.stringify(payload)}`;
    if (task.priority !== 0) text += `,"priority":${task.priority}`;
    text += optional("webhook", task.webhook);
    text += optional("traceParent", task.traceParent);
    text += optional("traceState", task.traceState);
    text += `,"status":"${statusOf(place)}","lastKnownLocation":"${locations[place.in]}"`;
    if (place.in === "delayed" && task.unique?.isHeld !== true) {
      text += `,"runAt":"${this.#timestamps.local(place.dueMs)}"`;
    }
    if (place.in === "leased") {
      text += optional("workerId", place.workerId);
      text += `,"leaseUntil":"${this.#timestamps.seconds(place.untilMs)}"`;
    }
    if (task.attempts !== 0) text += `,"attempts":${task.attempts}`;
    text += `,"maxAttempts":${task.maxAttempts}`;
    text += optional("error", task.error);
    if (place.in === "dead" || place.in === "done")
      text += `,"resultKey":"codeq/results/${task.id}"`;
    text += optional("tenantId", task.tenantId);
    text += `,"createdAt":"${this.#timestamps.local(task.createdMs)}"`;
    text += `,"updatedAt":"${this.#timestamps.local(task.updatedMs)}"`;
    if (place.in === "leased") text += `,"leaseToken":${task.leaseToken}`;
    if (task.repairs !== undefined) {
      text += optional("replayOf", task.repairs.replayOf);
      text += optional("replayedAs", task.repairs.replayedAs);
    }
    if (task.replays !== 0) text += `,"replays":${task.replays}`;
    if (task.extras !== undefined) text += this.#extras(task, task.extras);
    if (task.unique !== undefined) text += this.#unique(task.unique);
    text += laneText(task.lane);
    if (task.schedule !== undefined) {
      const { id, forMs } = task.schedule;
      text += `,"scheduleId":"${id}","scheduledFor":"${this.instant(forMs)}"`;
    }
    return task.batch === undefined ? text : text + batchText(task.batch);
  }

  #extras(task: Task, { tags, timeoutMs, ttlMs }: TaskExtras): string {
    let text = tags.length === 0 ? "" : `,"tags":${JSON.stringify(tags)}`;
    if (timeoutMs !== 0) text += `,"timeoutSeconds":${timeoutMs / 1000}`;
    if (ttlMs !== 0) text += `,"ttlSeconds":${ttlMs / 1000}`;
    const startByMs = startByMsOf(task);
    if (startByMs !== undefined) text += `,"startBy":"${this.#timestamps.local(startByMs)}"`;
    return text;
  }

  result(result: Result): string {
    let text = `{"taskId":"${result.taskId}","status":"${result.status}"`;
    if (result.resultJson !== "" && !/^\{\s*\}$/.test(result.resultJson)) {
      text += `,"result":${result.resultJson}`;
    }
    text += optional("error", result.error);
    if (result.artifacts.length > 0) text += `,"artifacts":${JSON.stringify(result.artifacts)}`;
    return `${text},"completedAt":"${this.#timestamps.local(result.completedMs)}"}`;
  }

  /** The last event of a task; a long result is left out. */
  resultEvent(result: Result): string {
    const isLong = result.resultJson.length > resultCharsMax;
    const shown = this.result(isLong ? { ...result, resultJson: "" } : result).slice(1);
    return `{"event":"result",${isLong ? `"resultOmitted":true,` : ""}${shown}`;
  }

  /** Rendered once: the same event goes to all readers in a row. */
  event(event: FeedEvent): string {
    if (event === this.#lastEvent) return this.#lastEventText;
    const { event: name, atMs, reason, scheduledForMs, ...fields } = event;
    const time = this.#timestamps.local(atMs);
    const scheduledFor = scheduledForMs && this.#timestamps.local(scheduledForMs);
    const cut = reason === undefined ? {} : { reason: reason.slice(0, reasonCharsMax) };
    this.#lastEventText = JSON.stringify({ event: name, time, ...fields, scheduledFor, ...cut });
    this.#lastEvent = event;
    return this.#lastEventText;
  }

  /** Rendered once: the same summary goes to all readers in a row. */
  summary(summary: FeedSummary): string {
    if (summary === this.#lastSummary) return this.#lastSummaryText;
    const { atMs, queues, others } = summary;
    this.#lastSummary = summary;
    this.#lastSummaryText = JSON.stringify({
      event: "summary",
      time: this.#timestamps.local(atMs),
      queues: Object.fromEntries(queues),
      ...(others === 0 ? {} : { others }),
    });
    return this.#lastSummaryText;
  }

  instant(ms: number): string {
    return this.#timestamps.local(ms);
  }

  /** Whole seconds in the configured time zone. */
  seconds(ms: number): string {
    return this.#timestamps.seconds(ms);
  }
}

function batchText({ id, isCallback, ended }: TaskBatch): string {
  const text = `,"batchId":"${id}"${isCallback ? `,"isBatchCallback":true` : ""}`;
  return ended === undefined ? text : `${text},"batchEnded":${JSON.stringify(ended)}`;
}

function optional(name: string, value: string): string {
  return value === "" ? "" : `,"${name}":${JSON.stringify(value)}`;
}

function laneText(lane: TaskLane | undefined): string {
  if (lane === undefined) return "";
  return optional("lane", lane.name) + (lane.cost === 1 ? "" : `,"cost":${lane.cost}`);
}
