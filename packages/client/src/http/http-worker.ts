/** The worker stream, spoken as requests to the HTTP API. */
import { textOf, type WireUint64, worker } from "@codeq/protocol/wire";
import { asCodeqError } from "../codeq-error.ts";
import type { OpenOptions, SessionListener } from "../session.ts";
import type { HttpApi } from "./http-api.ts";
import { HttpSession, type Talk } from "./http-session.ts";

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
      const { taskId, delaySeconds, reason, leaseToken } = event.value;
      const { status, ...ack } = await tell(talk, taskId, "nack", {
        delaySeconds,
        reason,
        leaseToken,
      });
      const value = { ...worker.newNackAck(), ...ack, dlq: status === "dlq" };
      talk.reply({ case: "nackAck", value });
      return;
    }
    case "heartbeat": {
      const { taskId, extendSeconds, leaseToken, progress, logs } = event.value;
      const { cancelled = false, ...ack } = await tell(talk, taskId, "heartbeat", {
        extendSeconds,
        leaseToken,
        progress,
        logs: logs.length === 0 ? undefined : logs,
      });
      talk.reply({ case: "heartbeatAck", value: { ...ack, cancelled } });
      return;
    }
    case "abandon": {
      const { taskId, interrupted, leaseToken } = event.value;
      const value = await tell(talk, taskId, "abandon", { interrupted, leaseToken });
      talk.reply({ case: "abandonAck", value });
      return;
    }
    case "hello":
    case undefined:
      return;
  }
}

/** Takes what is there; when there is nothing, waits for one task, over and over. */
async function claim(ready: worker.Ready, talk: Talk<Reply>): Promise<void> {
  const { commands, leaseSeconds } = ready;
  const count = Math.min(ready.count, claimMax);
  const now = JSON.stringify({ commands, leaseSeconds, count });
  const later = JSON.stringify({ commands, leaseSeconds, waitSeconds: claimWaitSeconds });
  try {
    const taken = await talk.ask({ method: "POST", path: "/tasks/claim/batch", body: now });
    let tasks = (taken as { readonly tasks: readonly TaskAnswer[] } | undefined)?.tasks ?? [];
    while (tasks.length === 0 && !talk.finishing.aborted) {
      const waitMs = claimWaitSeconds * 1000;
      const path = "/tasks/claim";
      const one = await talk.ask({ method: "POST", path, body: later, waitMs });
      tasks = one === undefined ? [] : [one as TaskAnswer];
    }
    if (tasks.length > 0) talk.reply({ case: "taskBatch", value: { tasks: tasks.map(taskOf) } });
  } catch (thrown) {
    const { code, message, retryable } = asCodeqError(thrown, "unavailable");
    // One that may pass ends the session, and the next one asks again.
    if (retryable) throw thrown;
    talk.reply({ case: "error", value: { code: "", message, errorCode: code } });
  }
}

interface TaskAnswer {
  readonly id: string;
  readonly command: string;
  readonly payload: string;
  readonly priority?: number;
  readonly webhook?: string;
  readonly maxAttempts: number;
  readonly status: string;
  readonly workerId?: string;
  readonly leaseUntil?: string;
  readonly attempts?: number;
  readonly tenantId?: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly leaseToken?: number;
  readonly traceParent?: string;
  readonly traceState?: string;
  readonly tags?: string[];
  readonly replayOf?: string;
  readonly timeoutSeconds?: number;
}

function taskOf({ createdAt, updatedAt, ...task }: TaskAnswer): worker.Task {
  const createdAtMs = Date.parse(createdAt);
  return { ...worker.newTask(), ...task, createdAtMs, updatedAtMs: Date.parse(updatedAt) };
}

async function submitAll(results: readonly worker.Result[], talk: Talk<Reply>): Promise<void> {
  const requests: Promise<void>[] = [];
  for (let at = 0; at < results.length; at += resultsMax) {
    requests.push(submit(results.slice(at, at + resultsMax), talk));
  }
  await Promise.all(requests);
}

interface SubmitAnswer {
  readonly error?: string;
  readonly code?: string;
}

async function submit(results: readonly worker.Result[], talk: Talk<Reply>): Promise<void> {
  const body = `{"results":[${results.map(resultOf).join(",")}]}`;
  let answers: readonly SubmitAnswer[];
  try {
    const answer = await talk.ask({ method: "POST", path: "/tasks/batch/results", body });
    answers = (answer as { readonly results: readonly SubmitAnswer[] }).results;
  } catch (thrown) {
    const { code, message } = asCodeqError(thrown, "unavailable");
    if (code === "unavailable") throw thrown;
    answers = results.map(() => ({ error: message, code }));
  }
  const acks = results.map(({ taskId, leaseToken }, index): worker.ResultAck => {
    const { error: errorMessage = "", code: errorCode = "" } = answers[index] ?? {};
    const ok = answers[index]?.error === undefined;
    return { taskId, ok, errorMessage, errorCode, leaseToken };
  });
  talk.reply({ case: "resultAckBatch", value: { acks } });
}

function resultOf({ taskId, status, error, resultJson, leaseToken }: worker.Result): string {
  const fields = JSON.stringify({ taskId, status, error, leaseToken: Number(leaseToken) });
  const result = textOf(resultJson) || "{}";
  return status === "COMPLETED" ? `${fields.slice(0, -1)},"result":${result}}` : fields;
}

/** One of the verbs that concern a single task. */
interface Told {
  readonly status?: string | undefined;
  readonly cancelled?: boolean | undefined;
}

async function tell(
  talk: Talk<Reply>,
  taskId: string,
  verb: "nack" | "heartbeat" | "abandon",
  fields: Readonly<Record<string, unknown>> & { readonly leaseToken: WireUint64 },
): Promise<worker.AbandonAck & Told> {
  const { leaseToken } = fields;
  const body = JSON.stringify({ ...fields, leaseToken: Number(leaseToken) });
  try {
    const path = `/tasks/${encodeURIComponent(taskId)}/${verb}`;
    const answer = await talk.ask({ method: "POST", path, body });
    const { status, cancelled } = (answer ?? {}) as Told;
    return { taskId, ok: true, errorMessage: "", errorCode: "", leaseToken, status, cancelled };
  } catch (thrown) {
    const { code, message } = asCodeqError(thrown, "unavailable");
    if (code === "unavailable") throw thrown;
    return { taskId, ok: false, errorMessage: message, errorCode: code, leaseToken };
  }
}
