/** `enqueue`: creates one task and may wait for its result, or creates one task for every line. */
import { taskIn } from "../api/task-view.ts";
import type { Call } from "../call.ts";
import { CliError, usageError } from "../cli-error.ts";
import { pause } from "../host.ts";
import {
  asMembers,
  checkCommand,
  createBody,
  isJson,
  readLines,
  readPayload,
  taskFields,
} from "../payload.ts";
import { ProgressBar } from "../terminal/screen.ts";
import { count, duration } from "../terminal/units.ts";
import { noResult, showResult, waitForResult } from "./result.ts";

const waitMsDefault = 60_000;

export async function run(call: Call): Promise<number | undefined> {
  const { options } = call;
  const command = checkCommand(call.word(0));
  const fields = taskFields(options);
  if (options.has("lines")) {
    await enqueueLines(call, { command, fields });
    return undefined;
  }
  const payload = await readPayload(call, call.word(1) || "{}", options.has("text"));
  const api = await call.api();
  const body = createBody({ command, payload, fields });
  const reply = await api.post("/tasks", body);
  const task = taskIn(reply.text);
  const isKnown = reply.headers.get("idempotent-replayed") === "true";
  const enqueued = `${isKnown ? "already enqueued" : "enqueued"} ${task.id}`;
  if (!options.has("wait")) {
    call.answer(reply.text, enqueued);
    return undefined;
  }
  call.note(enqueued);
  const timeoutMs = options.durationMs("timeout") ?? waitMsDefault;
  const text = await waitForResult(call, task.id, timeoutMs);
  if (text === undefined) throw noResult(call, task.id);
  return showResult(call, text);
}

const batchTasks = 500;
/** Below the server's limit for a body, with room for what is around the payloads. */
const batchBytes = 2 * 1024 * 1024;
const triesMax = 5;
const retryMs = 500;
const problemsShown = 5;

interface Line {
  readonly number: number;
  readonly body: string;
}

interface Item {
  readonly task?: { readonly id: string };
  readonly error?: string;
}

/**
 * `enqueue --lines`: one task for every line, sent in batches. Refused lines are reported with their numbers
 * and do not stop the others. A batch without an answer is sent again with the same idempotency keys, so a
 * broken connection creates no task twice.
 */
async function enqueueLines(
  call: Call,
  { command, fields }: { command: string; fields: string },
): Promise<void> {
  const { clock, errors: output } = call.host;
  if (call.options.has("wait")) throw usageError("--lines and --wait cannot be combined");
  if (call.options.has("key"))
    throw usageError("--lines creates its own idempotency keys; remove --key");
  const run = call.host.random(8).toString("hex");
  const startedMs = clock.monotonicMs();
  const told = new Told(call);
  using bar = new ProgressBar({ output, clock, title: "enqueueing", total: undefined });
  let batch: Line[] = [];
  let size = 0;
  const flush = async (): Promise<void> => {
    if (batch.length > 0) told.take(batch, await send(call, batch));
    batch = [];
    size = 0;
    bar.set(told.stored + told.refused);
  };
  for await (const { number, text } of readLines(call, call.word(1))) {
    const payload = call.options.has("text") ? JSON.stringify(text) : text;
    if (!isJson(payload)) {
      told.refuse(number, "not JSON");
      continue;
    }
    const key = asMembers({ idempotencyKey: `lines-${run}-${number}` });
    const body = createBody({ command, payload, fields: fields + key });
    if (batch.length === batchTasks || size + body.length > batchBytes) await flush();
    batch.push({ number, body });
    size += body.length;
  }
  await flush();
  bar[Symbol.dispose]();
  return told.finish(clock.monotonicMs() - startedMs);
}

async function send(call: Call, batch: readonly Line[]): Promise<readonly Item[]> {
  const api = await call.api();
  const body = `{"tasks":[${batch.map((line) => line.body).join(",")}]}`;
  for (let tries = 1; ; tries++) {
    try {
      const reply = await api.post("/tasks/batch", body);
      return (JSON.parse(reply.text) as { results: readonly Item[] }).results;
    } catch (error) {
      const isGone = error instanceof CliError && error.exit === "unreachable";
      if (!isGone || tries === triesMax) throw error;
      await pause(call.host.clock, retryMs * tries, call.host.stopped());
    }
  }
}

/** What became of the lines. */
class Told {
  readonly #call: Call;
  stored = 0;
  refused = 0;

  constructor(call: Call) {
    this.#call = call;
  }

  take(batch: readonly Line[], items: readonly Item[]): void {
    for (const [position, { number }] of batch.entries()) {
      const { task, error = "no answer" } = items[position] ?? {};
      if (task === undefined) {
        this.refuse(number, error);
        continue;
      }
      this.stored += 1;
      if (this.#call.json) this.#call.printJson({ line: number, id: task.id });
    }
  }

  refuse(line: number, error: string): void {
    this.refused += 1;
    if (this.#call.json) this.#call.printJson({ line, error });
    else if (this.refused <= problemsShown) this.#call.note(`line ${line}: ${error}`);
  }

  finish(tookMs: number): void {
    if (!this.#call.json) {
      this.#call.print(`enqueued ${count(this.stored)} in ${duration(tookMs)}`);
    }
    if (this.refused === 0) return;
    throw new CliError(`${count(this.refused)} line(s) were not stored`, {
      exit: "refused",
      next: "fix these lines and send them again; the other lines are stored",
    });
  }
}
