/** The producer stream, spoken as requests to the HTTP API. */
import { producer, textOf } from "@codeq/protocol/wire";
import { asCodeqError } from "../codeq-error.ts";
import type { OpenOptions, SessionListener } from "../session.ts";
import type { HttpApi } from "./http-api.ts";
import { HttpSession, type Talk } from "./http-session.ts";

type Event = producer.ProducerEvent;
type Reply = producer.ServerEvent;

/** What every server takes in one request. */
const batchMax = 100;

export function httpProducer(
  api: HttpApi,
  { token }: OpenOptions,
  listener: SessionListener<Reply>,
): HttpSession<Event, Reply> {
  return new HttpSession<Event, Reply>({
    api,
    token,
    listener,
    helloAckOf: (event) =>
      event.case === "hello" ? { case: "helloAck", value: producer.newHelloAck() } : undefined,
    handle: async (event, talk) => {
      if (event.case === "create") await create([event.value], talk);
      else if (event.case === "createBatch") await createAll(event.value.tasks, talk);
      else if (event.case === "awaitResult") await result(event.value, talk);
    },
  });
}

/** A request has one trace context, so tasks of different traces go in different ones. */
async function createAll(tasks: readonly producer.CreateTask[], talk: Talk<Reply>): Promise<void> {
  const byTrace = Map.groupBy(
    tasks,
    ({ traceParent, traceState }) => `${traceParent} ${traceState}`,
  );
  const requests: Promise<void>[] = [];
  for (const group of byTrace.values()) {
    for (let at = 0; at < group.length; at += batchMax) {
      requests.push(create(group.slice(at, at + batchMax), talk));
    }
  }
  await Promise.all(requests);
}

async function create(tasks: readonly producer.CreateTask[], talk: Talk<Reply>): Promise<void> {
  const [first] = tasks;
  if (first === undefined) return;
  const { traceParent, traceState } = first;
  const headers = traceParent === "" ? {} : { traceparent: traceParent, tracestate: traceState };
  const body = `{"tasks":[${tasks.map(itemOf).join(",")}]}`;
  const answers = await answersTo(talk, { path: "/tasks/batch", body, headers }, tasks.length);
  const acks = tasks.map(({ seq }, index): producer.CreateAck => {
    const { task, error = "", code = "" } = answers[index] ?? {};
    const isOk = task !== undefined;
    return { seq, ok: isOk, taskId: task?.id ?? "", errorMessage: error, errorCode: code };
  });
  talk.reply({ case: "createAckBatch", value: { acks } });
}

interface CreateAnswer {
  readonly task?: { readonly id: string };
  readonly error?: string;
  readonly code?: string;
}

/** A refusal of the whole request is one of every item. */
async function answersTo(
  talk: Talk<Reply>,
  request: {
    readonly path: string;
    readonly body: string;
    readonly headers: Record<string, string>;
  },
  count: number,
): Promise<readonly CreateAnswer[]> {
  try {
    const answer = await talk.ask({ method: "POST", ...request });
    return (answer as { readonly results: readonly CreateAnswer[] }).results;
  } catch (thrown) {
    const { code, message } = asCodeqError(thrown, "unavailable");
    if (code === "unavailable") throw thrown;
    return Array.from({ length: count }, () => ({ error: message, code }));
  }
}

function itemOf(task: producer.CreateTask): string {
  const { command, priority, webhook, maxAttempts, idempotencyKey, runAtMs, delaySeconds } = task;
  const { tags, timeoutSeconds, ttlSeconds } = task;
  const runAt = runAtMs === undefined ? "" : new Date(runAtMs).toISOString();
  const fields = JSON.stringify({
    command,
    priority,
    webhook,
    maxAttempts,
    idempotencyKey,
    runAt,
    delaySeconds,
    tags: tags.length === 0 ? undefined : tags,
    timeoutSeconds: timeoutSeconds === 0 ? undefined : timeoutSeconds,
    ttlSeconds: ttlSeconds === 0 ? undefined : ttlSeconds,
  });
  return `${fields.slice(0, -1)},"payload":${textOf(task.payload)}}`;
}

interface ResultAnswer {
  readonly result: { readonly status: string; readonly result?: object; readonly error?: string };
  readonly task: { readonly attempts?: number; readonly lastKnownLocation?: string };
}

async function result(
  { taskId, waitSeconds }: producer.AwaitResult,
  talk: Talk<Reply>,
): Promise<void> {
  const path = `/tasks/${encodeURIComponent(taskId)}/result?waitSeconds=${waitSeconds}`;
  const value = { ...producer.newTaskResult(), taskId };
  try {
    const { result: found, task } = (await talk.ask({
      path,
      waitMs: waitSeconds * 1000,
    })) as ResultAnswer;
    value.ok = true;
    value.status = found.status;
    value.resultJson = found.result === undefined ? "" : JSON.stringify(found.result);
    value.error = found.error ?? "";
    // An attempt that ended with a result did not come back, but it counts as an attempt.
    value.attempts = (task.attempts ?? 0) + (task.lastKnownLocation === "DLQ_SET" ? 0 : 1);
  } catch (thrown) {
    const { code, message } = asCodeqError(thrown, "unavailable");
    if (code === "unavailable") throw thrown;
    value.errorCode = code;
    value.errorMessage = message;
  }
  talk.reply({ case: "taskResult", value });
}
