/** The worker stream, spoken as requests to the HTTP API. */
import type { ReplyOf } from "@codeq/protocol";
import { textOf, type WireUint64, worker } from "@codeq/protocol/wire";
import { type AskApi, call } from "../api-calls.ts";
import { asCodeqError } from "../codeq-error.ts";
import type { OpenOptions, SessionListener } from "../connection/session.ts";
import type { HttpApi } from "./http-api.ts";
import { HttpSession, isRefused, orRefused, type Talk } from "./http-session.ts";

type Event = worker.WorkerEvent;
type Reply = worker.ServerEvent;

/** What every server takes in one request. */
const resultsMax = 100;
const claimMax = 10;
const claimWaitSeconds = 20;

export function httpWorker(
  api: HttpApi,
  { token }: OpenOptions,
  listener: SessionListener<Reply>,
): HttpSession<Event, Reply> {
  return new HttpSession<Event, Reply>({
    api,
    token,
    listener,
    helloAckOf: (event) =>
      event.case === "hello" ? { case: "helloAck", value: worker.newHelloAck() } : undefined,
    handle,
  });
}

async function handle(event: Event, talk: Talk<Reply>): Promise<void> {
  switch (event.case) {
    case "ready":
      return claim(event.value, talk);
    case "result":
      return submit([event.value], talk);
    case "resultBatch":
      return submitAll(event.value.results, talk);
    case "nack": {
      const { taskId, delayMs, reason, stack, leaseToken, used } = event.value;
      const delaySeconds = Number(delayMs) / 1000;
      const holdSeconds = event.value.holdSeconds || undefined;
      const lane = { holdSeconds, used: used?.count };
      const answer = await orRefused(
        call(talk.ask, "POST /tasks/:id/nack", {
          params: { id: taskId },
          body: {
            delaySeconds,
            reason,
            stack: stack || undefined,
            leaseToken: Number(leaseToken),
            ...lane,
          },
        }),
        (error) => error,
      );
      const dlq = "status" in answer && answer.status === "dlq";
      const value = { ...worker.newNackAck(), ...ackOf(event.value, answer), dlq };
      talk.reply({ case: "nackAck", value });
      return;
    }
    case "heartbeat": {
      const { taskId, extendSeconds, leaseToken, progress, logs } = event.value;
      const answer = await orRefused(
        call(talk.ask, "POST /tasks/:id/heartbeat", {
          params: { id: taskId },
          body: {
            extendSeconds,
            leaseToken: Number(leaseToken),
            progress,
            logs: logs.length === 0 ? undefined : logs,
          },
        }),
        (error) => error,
      );
      const cancelled = "cancelled" in answer && answer.cancelled === true;
      talk.reply({ case: "heartbeatAck", value: { ...ackOf(event.value, answer), cancelled } });
      return;
    }
    case "abandon": {
      const { taskId, interrupted, leaseToken } = event.value;
      const answer = await orRefused(
        call(talk.ask, "POST /tasks/:id/abandon", {
          params: { id: taskId },
          body: { interrupted, leaseToken: Number(leaseToken) },
        }),
        (error) => error,
      );
      talk.reply({ case: "abandonAck", value: ackOf(event.value, answer) });
      return;
    }
    case "hello":
    case undefined:
      return;
  }
}

/** Claims the ready tasks; with none, waits for one task until there is one. */
async function claim(ready: worker.Ready, talk: Talk<Reply>): Promise<void> {
  const { commands, leaseSeconds } = ready;
  const count = Math.min(ready.count, claimMax);
  const later = { commands, leaseSeconds, waitSeconds: claimWaitSeconds };
  const wait: AskApi = (request) => talk.ask({ ...request, waitMs: claimWaitSeconds * 1000 });
  try {
    const body = { commands, leaseSeconds, count };
    const taken = await call(talk.ask, "POST /tasks/claim/batch", { body });
    let tasks = taken?.tasks ?? [];
    while (tasks.length === 0 && !talk.finishing.aborted) {
      const one = await call(wait, "POST /tasks/claim", { body: later });
      tasks = one === undefined ? [] : [one];
    }
    if (tasks.length > 0) talk.reply({ case: "taskBatch", value: { tasks: tasks.map(taskOf) } });
  } catch (thrown) {
    const { code, message, retryable } = asCodeqError(thrown, "unavailable");
    // One that may pass ends the session, and the next one asks again.
    if (retryable) throw thrown;
    talk.reply({ case: "error", value: { code: "", message, errorCode: code } });
  }
}

type Task = NonNullable<ReplyOf<"POST /tasks/claim">>;

/** Fields that are missing, such as a priority of 0, have their default. */
function taskOf({ createdAt, updatedAt, tags = [], ...more }: Task): worker.Task {
  const { scheduledFor, batchEnded, ...fields } = more;
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return {
    ...worker.newTask(),
    ...Object.fromEntries(given),
    tags: [...tags],
    scheduledForMs: scheduledFor === undefined ? 0 : Date.parse(scheduledFor),
    batchSucceeded: batchEnded?.succeeded ?? 0,
    batchFailed: batchEnded?.failed ?? 0,
    batchCancelled: batchEnded?.cancelled ?? 0,
    createdAtMs: Date.parse(createdAt),
    updatedAtMs: Date.parse(updatedAt),
  };
}

async function submitAll(results: readonly worker.Result[], talk: Talk<Reply>): Promise<void> {
  const requests: Promise<void>[] = [];
  for (let at = 0; at < results.length; at += resultsMax) {
    requests.push(submit(results.slice(at, at + resultsMax), talk));
  }
  await Promise.all(requests);
}

async function submit(results: readonly worker.Result[], talk: Talk<Reply>): Promise<void> {
  const body = `{"results":[${results.map(resultOf).join(",")}]}`;
  const { results: answers }: { readonly results: readonly object[] } = await orRefused(
    call(talk.ask, "POST /tasks/batch/results", { body }),
    (error) => ({ results: results.map(() => error) }),
  );
  const acks = results.map((each, index) => ackOf(each, answers[index] ?? {}));
  talk.reply({ case: "resultAckBatch", value: { acks } });
}

function resultOf(of: worker.Result): string {
  const { taskId, status, error, stack, resultJson, leaseToken } = of;
  const token = Number(leaseToken);
  const used = of.used?.count;
  const sent = { taskId, status, error, stack: stack || undefined, leaseToken: token, used };
  const fields = JSON.stringify(sent);
  const result = textOf(resultJson) || "{}";
  return status === "COMPLETED" ? `${fields.slice(0, -1)},"result":${result}}` : fields;
}

interface Attempt {
  readonly taskId: string;
  readonly leaseToken: WireUint64;
}

/** The acknowledgement of a request about one attempt. */
function ackOf({ taskId, leaseToken }: Attempt, answer: object): worker.ResultAck {
  if (!isRefused(answer)) return { taskId, ok: true, errorMessage: "", errorCode: "", leaseToken };
  const { error: errorMessage, code: errorCode } = answer;
  return { taskId, ok: false, errorMessage, errorCode, leaseToken };
}
