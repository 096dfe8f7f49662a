/** The driver of the TypeScript client. README.md has the protocol. */
import { createInterface } from "node:readline";
import {
  type Client,
  CodeqError,
  codeq,
  type EnqueueOptions,
  Permanent,
  RateLimited,
  RetryIn,
  type Schedule,
  type ScheduleSettings,
  type TaskContext,
  TaskFailedError,
  task,
  type UniqueOptions,
  type Worker,
} from "@codeq/client";
import { type Fields, lineOf } from "./driver-process.ts";

interface OptionFields {
  readonly delaySeconds?: number;
  readonly priority?: number;
  readonly maxAttempts?: number;
  readonly idempotencyKey?: string;
  readonly idempotencyMode?: "strict" | "first";
  readonly unique?: Omit<UniqueOptions, "for" | "maxWait"> & {
    readonly forSeconds?: number;
    readonly maxWaitSeconds?: number;
  };
  readonly lane?: string;
  readonly cost?: number;
  readonly executionTimeoutSeconds?: number;
  readonly ttlSeconds?: number;
  readonly tags?: readonly string[];
  readonly batch?: string;
  readonly after?: readonly string[];
  readonly timeoutSeconds?: number;
}

interface Command extends Fields {
  readonly id: number;
  readonly do: string;
  readonly client: string;
  readonly worker: string;
  readonly task: string;
  readonly queue: string;
  readonly batch: string;
  readonly schedule: string;
}

/** A handler that waits to be told how to end. */
interface Running {
  readonly ctx: TaskContext;
  readonly end: PromiseWithResolvers<Fields>;
}

interface Opened {
  readonly client: Client;
  readonly workers: Map<string, Worker>;
  readonly running: Map<string, Running>;
}

const opened = new Map<string, Opened>();
const say = (line: Fields): void => void process.stdout.write(lineOf(line));
const ms = (seconds: unknown): number | undefined =>
  typeof seconds === "number" ? seconds * 1000 : undefined;

function optionsOf(given: unknown): EnqueueOptions {
  const { delaySeconds, executionTimeoutSeconds, ttlSeconds, timeoutSeconds, unique, ...rest } =
    (given ?? {}) as OptionFields;
  const { forSeconds, maxWaitSeconds, ...key } = unique ?? { key: "" };
  const lengths = { for: ms(forSeconds), maxWait: ms(maxWaitSeconds) };
  return {
    ...rest,
    unique: unique && { ...key, ...lengths },
    delay: ms(delaySeconds),
    executionTimeout: ms(executionTimeoutSeconds),
    ttl: ms(ttlSeconds),
    timeout: ms(timeoutSeconds),
  };
}

function of(name: string): Opened {
  const found = opened.get(name);
  if (found === undefined) throw new Error(`there is no client ${name}`);
  return found;
}

function runningOf({ client, worker, task: id }: Command): Running {
  const found = of(client).running.get(`${worker} ${id}`);
  if (found === undefined) throw new Error(`worker ${worker} does not run ${id}`);
  return found;
}

const verbs: Readonly<Record<string, (command: Command) => Promise<Fields>>> = {
  open: async ({ client: name, url, streams, transport, token }) => {
    await opened.get(name)?.client.close({ timeout: 0 });
    const client = codeq({
      url: url as string | string[],
      transport: transport as "streams" | "http",
      streams: streams as string | undefined,
      token: token as string,
      onWarning: () => {},
    });
    opened.set(name, { client, workers: new Map(), running: new Map() });
    return {};
  },
  enqueue: async ({ client, queue, input, options }) => {
    const run = await of(client).client.enqueue(task(queue), input, optionsOf(options));
    return { id: run.id };
  },
  enqueue_many: async ({ client, queue, items }) => {
    const given = (items as Fields[]).map(({ input, options }) => ({
      input,
      ...optionsOf(options),
    }));
    const runs = await of(client).client.enqueueMany(task(queue), given);
    return { ids: runs.map(({ id }) => id) };
  },
  by_key: async ({ client, queue, key }) => {
    const run = await of(client).client.runByKey(task(queue), String(key));
    return { id: run.id };
  },
  result: async ({ client, queue, task: id, timeoutSeconds }) => {
    const run = of(client).client.run(task(queue), id);
    return { output: await run.result({ timeout: ms(timeoutSeconds) }) };
  },
  cancel: async ({ client, task: id, graceSeconds }) => {
    await of(client)
      .client.run(task("any"), id)
      .cancel({ grace: ms(graceSeconds) });
    return {};
  },
  batch: async ({ client, batch: id, queue, input, on, failFast }) => {
    const options = {
      id,
      callback: task(queue),
      input,
      on: on as "end",
      failFast: failFast === true,
    };
    const { callback } = await of(client).client.batch(options);
    return { id: callback.id };
  },
  batch_ask: async ({ client, batch: id, ask }) => {
    const { phase, total, pending, succeeded, failed, cancelled } = await of(client)
      .client.batchById(id)
      [ask as "seal" | "progress" | "cancel"]();
    return { phase, total, pending, succeeded, failed, cancelled };
  },
  batch_results: async ({ client, batch: id, failed }) => {
    const members = [];
    for await (const each of of(client)
      .client.batchById(id)
      .results({ failed: failed === true })) {
      const { taskId, status, result: output, error } = each;
      members.push({ task: taskId, status, output, error });
    }
    return { members };
  },
  schedule: async ({ client, schedule: id, queue, input, times }) => {
    const settings = { input, ...(times as ScheduleSettings) };
    return shownSchedule(await of(client).client.schedules.put(id, task(queue), settings));
  },
  schedule_ask: async ({ client, schedule: id, ask }) => {
    const { schedules } = of(client).client;
    if (ask === "run") return { task: await schedules.runNow(id) };
    if (ask === "delete") {
      await schedules.delete(id);
      return {};
    }
    return shownSchedule(await schedules[ask as "get" | "pause" | "resume"](id));
  },
  schedules: async ({ client, prefix }) => {
    const ids = [];
    for await (const { id } of of(client).client.schedules.list({ prefix: String(prefix) }))
      ids.push(id);
    return { ids };
  },
  worker: async (command) => {
    startWorker(command);
    return {};
  },
  finish: async (command) => {
    runningOf(command).end.resolve(command);
    return {};
  },
  say: async (command) => {
    const { ctx } = runningOf(command);
    const { progress, note, log } = command;
    if (typeof progress === "number") ctx.progress(progress, note as string | undefined);
    if (typeof log === "string") ctx.log(log);
    return {};
  },
  block: async ({ seconds }) => {
    const endMs = performance.now() + Number(seconds) * 1000;
    while (performance.now() < endMs);
    return {};
  },
  close: async ({ client, worker, graceSeconds }) => {
    await of(client)
      .workers.get(worker)
      ?.close({ grace: ms(graceSeconds) });
    return {};
  },
  shut: async ({ client: name }) => {
    const { client, workers, running } = of(name);
    for (const { end } of running.values()) end.resolve({ error: "the scenario is over" });
    await Promise.allSettled([...workers.values()].map((each) => each.close({ grace: 0 })));
    await client.close({ timeout: 0 }).catch(() => {});
    opened.delete(name);
    return {};
  },
};

function shownSchedule({ id, version, nextAt, fired, paused }: Schedule): Fields {
  return { id, version, fired, hasNext: nextAt !== undefined, isPaused: paused !== undefined };
}

function startWorker(command: Command): void {
  const { client: name, worker, queues, concurrency, leaseSeconds, timeoutSeconds } = command;
  const { client, workers, running } = of(name);
  const from = { client: name, worker };
  const settings = { lease: ms(leaseSeconds), timeout: ms(timeoutSeconds) };
  const handlers = (queues as string[]).map((queue) =>
    task<unknown, unknown>(queue, settings).handle(async (input, ctx) => {
      if (command["echo"] === true) return input;
      const { attempt, maxAttempts, priority, tags, fencingToken, lane, cost } = ctx;
      const key = `${worker} ${ctx.id}`;
      const end = Promise.withResolvers<Fields>();
      running.set(key, { ctx, end });
      ctx.signal.addEventListener("abort", () => {
        const { code } = ctx.signal.reason as CodeqError;
        say({ event: "told", ...from, task: ctx.id, attempt, code });
        if (command["stubborn"] !== true) end.reject(ctx.signal.reason);
      });
      const facts = { attempt, maxAttempts, priority, tags, fencingToken, lane, cost, input };
      const schedule = ctx.schedule && {
        id: ctx.schedule.id,
        forMs: ctx.schedule.scheduledFor.getTime(),
      };
      const batch = ctx.batch && { id: ctx.batch.id, ended: ctx.batch.ended };
      say({ event: "started", ...from, task: ctx.id, queue, ...facts, schedule, batch });
      return outputOf(await end.promise, ctx);
    }),
  );
  const started = client.worker(handlers, {
    name: `${name}-${worker}`,
    ...(typeof concurrency === "number" ? { concurrency } : {}),
    on: {
      settled: ({ id, attempt }, as) => {
        if (command["echo"] !== true) say({ event: "settled", ...from, task: id, attempt, as });
      },
      refused: ({ taskId, code }) => say({ event: "refused", ...from, task: taskId, code }),
      stopped: ({ code }) => say({ event: "stopped", ...from, code }),
      failed: () => {},
      warning: () => {},
      connection: () => {},
    },
  });
  workers.set(worker, started);
}

function outputOf(how: Fields, ctx: TaskContext): unknown {
  const { used, hold, retryIn, permanent, error, output } = how;
  if (typeof used === "number") ctx.used(used);
  if (hold !== undefined) throw new RateLimited(String(hold), String(error));
  if (typeof retryIn === "number") throw new RetryIn(retryIn * 1000, String(error));
  if (permanent !== undefined) throw new Permanent(String(permanent));
  if (error !== undefined) throw new Error(String(error));
  return output;
}

async function answer(command: Command): Promise<void> {
  try {
    const run = verbs[command.do];
    if (run === undefined) throw new Error(`no such command: ${command.do}`);
    say({ id: command.id, ok: await run(command) });
  } catch (error) {
    const code = error instanceof CodeqError ? error.code : "driver_failed";
    const more =
      error instanceof TaskFailedError ? { reason: error.reason, attempts: error.attempts } : {};
    say({ id: command.id, error: { code, message: (error as Error).message, ...more } });
  }
}

createInterface({ input: process.stdin })
  .on("line", (line) => void answer(JSON.parse(line) as Command))
  .on("close", () => process.exit(0));
