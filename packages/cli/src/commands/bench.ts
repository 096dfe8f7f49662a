/** `bench`: measures a running server with one small client on this machine. */
import { type Clock, limits } from "@codeq/server/command-line";
import type { ApiClient } from "../api/api-client.ts";
import type { BodyOf } from "../api/contract-commands.ts";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { pause } from "../host.ts";
import { ProgressBar } from "../terminal/screen.ts";
import { count, duration } from "../terminal/units.ts";

export async function run(call: Call): Promise<number> {
  const { options, host } = call;
  const tasks = options.wholeNumber("tasks", { min: 1, max: 10_000_000 }) ?? 5000;
  const payloadBytes =
    options.wholeNumber("payload-bytes", { min: 8, max: limits.payloadBytesMax }) ?? 100;
  const concurrency = options.wholeNumber("concurrency", { min: 1, max: 1000 }) ?? 32;
  const batch = options.wholeNumber("batch", { min: 1, max: limits.claimBatchMax }) ?? 1;
  const { errors: output, clock } = host;
  using bar = new ProgressBar({ output, clock, title: "tasks", total: tasks });
  const report = await runLoad({
    api: await call.api(),
    clock,
    // Always the same name, because the metrics of a server have a limited number of commands.
    command: "codeq-bench",
    tasks,
    payloadBytes,
    concurrency,
    batch,
    stopped: host.stopped(),
    progress: (done) => bar.set(done),
  });
  bar[Symbol.dispose]();
  if (call.json) {
    call.printJson({ ...report, payloadBytes, concurrency, batch });
    return exitCodes.ok.code;
  }
  const { seconds, tasksPerSecond } = report;
  call.print(
    `${count(report.tasks)} tasks enqueued, claimed and completed in ${duration(seconds * 1000)}: ` +
      call.style.bold(`${count(tasksPerSecond)} tasks/s`),
  );
  call.print(`  enqueue  ${spreadText(report.enqueueMs)}`);
  call.print(`  pickup   ${spreadText(report.pickupMs)}`);
  call.print(`  cycle    ${spreadText(report.cycleMs)}`);
  call.note("measured with one small HTTP client; streams, batches and more clients are faster");
  return host.stopped().aborted ? exitCodes.interrupted.code : exitCodes.ok.code;
}

function spreadText({ p50, p99, max }: Spread): string {
  return `p50 ${duration(p50)}  p99 ${duration(p99)}  max ${duration(max)}`;
}

interface LoadOptions {
  readonly api: ApiClient;
  readonly clock: Clock;
  readonly command: string;
  readonly tasks: number;
  readonly payloadBytes: number;
  /** Requests under way at a time, for producers and for workers each. */
  readonly concurrency: number;
  /** Tasks in one request. */
  readonly batch: number;
  readonly stopped: AbortSignal;
  readonly progress: (done: number) => void;
}

interface LoadReport {
  readonly tasks: number;
  readonly seconds: number;
  readonly tasksPerSecond: number;
  readonly enqueueMs: Spread;
  /** From the answer to its enqueue until a task was in the hands of a worker. */
  readonly pickupMs: Spread;
  /** From its enqueue until its result was stored. */
  readonly cycleMs: Spread;
}

interface Spread {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const leaseSeconds = 60;
const claimWaitSeconds = 1;
const emptyMs = 5;
const never = new AbortController().signal;

/**
 * A small load on a running server: producers create tasks while workers claim and complete them, all over
 * HTTP from this process. It uses its own queue and leaves no task in it, also when it is stopped early:
 * then producers stop, and workers complete what is left.
 */
async function runLoad(options: LoadOptions): Promise<LoadReport> {
  const load = new Load(options);
  const startedMs = options.clock.monotonicMs();
  const slots = Array.from({ length: options.concurrency });
  const producers = Promise.all(slots.map(() => load.produce())).finally(() => load.allProduced());
  await Promise.all([producers, ...slots.map(() => load.work())]);
  const seconds = (options.clock.monotonicMs() - startedMs) / 1000;
  await load.empty();
  return {
    tasks: load.done,
    seconds,
    tasksPerSecond: load.done / seconds,
    enqueueMs: spreadOf(load.enqueueMs),
    pickupMs: spreadOf(load.pickupMs),
    cycleMs: spreadOf(load.cycleMs),
  };
}

interface Times {
  readonly sentMs: number;
  storedMs: number;
}

class Load {
  readonly #options: LoadOptions;
  readonly #payload: { readonly x: string };
  readonly #times: Map<string, Times> = new Map();
  readonly enqueueMs: number[] = [];
  readonly pickupMs: number[] = [];
  readonly cycleMs: number[] = [];
  #begun = 0;
  #stored = 0;
  #isProduced = false;
  done = 0;

  constructor(options: LoadOptions) {
    this.#options = options;
    const room = Math.max(0, options.payloadBytes - `{"x":""}`.length);
    this.#payload = { x: "x".repeat(room) };
  }

  async produce(): Promise<void> {
    const { api, clock, command, tasks, batch, stopped } = this.#options;
    while (this.#begun < tasks && !stopped.aborted) {
      const size = Math.min(batch, tasks - this.#begun);
      this.#begun += size;
      const task = { command, payload: this.#payload };
      const sentMs = clock.monotonicMs();
      const ids =
        batch === 1
          ? [(await api.call("POST /tasks", { body: task })).value.id]
          : await createAll(
              api,
              Array.from({ length: size }, () => task),
            );
      const storedMs = clock.monotonicMs();
      this.enqueueMs.push(storedMs - sentMs);
      this.#stored += ids.length;
      for (const id of ids) {
        // A worker may have been faster than the answer.
        const known = this.#times.get(id);
        if (known === undefined) this.#times.set(id, { sentMs, storedMs });
        else this.#finish(id, { sentMs, storedMs }, known.storedMs);
      }
    }
  }

  allProduced(): void {
    this.#isProduced = true;
  }

  async work(): Promise<void> {
    while (!this.#isProduced || this.done < this.#stored) {
      const claimed = await this.#claim();
      const takenMs = this.#options.clock.monotonicMs();
      if (claimed.length === 0) {
        // A batch claim does not wait by itself.
        if (this.#options.batch > 1) await pause(this.#options.clock, emptyMs, never);
        continue;
      }
      await this.#complete(claimed);
      const endedMs = this.#options.clock.monotonicMs();
      for (const { id } of claimed) {
        const times = this.#times.get(id);
        this.done += 1;
        if (times === undefined) this.#times.set(id, { sentMs: takenMs, storedMs: endedMs });
        else {
          this.pickupMs.push(Math.max(0, takenMs - times.storedMs));
          this.#finish(id, times, endedMs);
        }
      }
      this.#options.progress(this.done);
    }
  }

  /** Does what an earlier load may have left behind. */
  async empty(): Promise<void> {
    for (;;) {
      const left = await this.#claim(0);
      if (left.length === 0) return;
      await this.#complete(left);
    }
  }

  async #claim(waitSeconds = claimWaitSeconds): Promise<readonly { readonly id: string }[]> {
    const { api, command, batch } = this.#options;
    const commands = [command];
    if (batch === 1) {
      const body = { commands, leaseSeconds, waitSeconds };
      const options = { waitMs: waitSeconds * 1000 };
      const { value } = await api.call("POST /tasks/claim", { body }, options);
      return value === undefined ? [] : [value];
    }
    const body = { commands, leaseSeconds, count: batch };
    return (await api.call("POST /tasks/claim/batch", { body })).value?.tasks ?? [];
  }

  async #complete(tasks: readonly { readonly id: string }[]): Promise<void> {
    const { api, batch } = this.#options;
    const result = { status: "COMPLETED", result: { ok: true } };
    if (batch === 1) {
      for (const { id } of tasks) {
        await api.call("POST /tasks/:id/result", { params: { id }, body: result });
      }
      return;
    }
    const results = tasks.map(({ id }) => ({ taskId: id, ...result }));
    await api.call("POST /tasks/batch/results", { body: { results } });
  }

  #finish(id: string, { sentMs }: Times, endedMs: number): void {
    this.cycleMs.push(endedMs - sentMs);
    this.#times.delete(id);
  }
}

/** The ids of the tasks that were not refused. */
async function createAll(
  api: ApiClient,
  tasks: BodyOf<"POST /tasks/batch">["tasks"],
): Promise<readonly string[]> {
  const { results } = (await api.call("POST /tasks/batch", { body: { tasks } })).value;
  return results.flatMap((each) => ("task" in each ? [each.task.id] : []));
}

function spreadOf(values: number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return { p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? 0 };
}
