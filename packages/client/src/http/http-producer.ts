/** The producer stream, spoken as requests to the HTTP API. */
import { producer, textOf } from "@codeq/protocol/wire";
import { type AskApi, call } from "../api-calls.ts";
import type { OpenOptions, SessionListener } from "../connection/session.ts";
import { itemOf, taskEnd } from "./create-body.ts";
import type { HttpApi } from "./http-api.ts";
import { HttpSession, orRefused, type Talk } from "./http-session.ts";

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

/** A request has one trace context and one mode of keys, so tasks of different ones go in different requests. */
async function createAll(tasks: readonly producer.CreateTask[], talk: Talk<Reply>): Promise<void> {
  const byHeaders = Map.groupBy(
    tasks,
    ({ traceParent, traceState, idempotencyMode }) =>
      `${idempotencyMode} ${traceParent} ${traceState}`,
  );
  const requests: Promise<void>[] = [];
  for (const group of byHeaders.values()) {
    for (let at = 0; at < group.length; at += batchMax) {
      requests.push(create(group.slice(at, at + batchMax), talk));
    }
  }
  await Promise.all(requests);
}

async function create(tasks: readonly producer.CreateTask[], talk: Talk<Reply>): Promise<void> {
  const [first] = tasks;
  if (first === undefined) return;
  const { traceParent, traceState, idempotencyMode } = first;
  const trace = traceParent === "" ? {} : { traceparent: traceParent, tracestate: traceState };
  const mode = idempotencyMode === "" ? {} : { "codeq-idempotency-mode": idempotencyMode };
  const headers = { ...trace, ...mode };
  const body = `{"tasks":[${tasks.map((task) => itemOf(task, textOf(task.payload))).join(",")}]}`;
  const { results } = await orRefused(
    call((request) => talk.ask({ ...request, headers }), "POST /tasks/batch", { body }),
    (error) => ({ results: tasks.map(() => error) }),
  );
  const acks = tasks.map(({ seq }, index): producer.CreateAck => {
    const answer = results[index] ?? { error: "", code: "" };
    const isOk = "task" in answer;
    const { error, code } = isOk ? { error: "", code: "" } : answer;
    const taskId = isOk ? answer.task.id : "";
    const deduplicated = isOk && answer.deduplicated === true;
    return { seq, ok: isOk, taskId, errorMessage: error, errorCode: code, deduplicated };
  });
  talk.reply({ case: "createAckBatch", value: { acks } });
}

async function result(
  { taskId, waitSeconds }: producer.AwaitResult,
  talk: Talk<Reply>,
): Promise<void> {
  const given = { params: { id: taskId }, query: { waitSeconds } };
  const ask: AskApi = (request) => talk.ask({ ...request, waitMs: waitSeconds * 1000 });
  const answer = await orRefused(call(ask, "GET /tasks/:id/result", given), (error) => error);
  const value = { ...producer.newTaskResult(), taskId };
  if ("error" in answer) {
    value.errorCode = answer.code;
    value.errorMessage = answer.error;
  } else {
    const { json, ...end } = taskEnd(answer);
    Object.assign(value, { ...end, ok: true, resultJson: json });
  }
  talk.reply({ case: "taskResult", value });
}
