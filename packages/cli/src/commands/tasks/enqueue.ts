/** `enqueue`: creates one task and may wait for its result, or creates one task for every line. */
import type { ItemOf } from "@codeq/client/command-line";
import type { Call } from "../../call.ts";
import { CliError, usageError } from "../../cli-error.ts";
import { pause } from "../../host.ts";
import {
  checkCommand,
  isJson,
  readLines,
  readPayload,
  taskFields,
  withPayload,
} from "../../payload.ts";
import { ProgressBar } from "../../terminal/screen.ts";
import { count, duration } from "../../terminal/units.ts";
import { noResult, showResult, waitForResult } from "./result.ts";

const waitMsDefault = 60_000;

export function run(call: Call): Promise<number | undefined> {
  const batchId = call.options.text("batch");
  return enqueue(call, { command: call.word(0), payload: call.word(1), batchId });
}

interface Wanted {
  readonly command: string;
  readonly payload: string;
  readonly batchId: string | undefined;
}

/** Creates what the options say, also as members of a batch. */
export async function enqueue(call: Call, wanted: Wanted): Promise<number | undefined> {
  const { options } = call;
  const command = checkCommand(wanted.command);
  const fields = { command, batchId: wanted.batchId, ...taskFields(options) };
  if (options.has("lines")) {
    await enqueueLines(call, wanted.payload, fields);
    return undefined;
  }
  const payload = await readPayload(call, wanted.payload || "{}", options.has("text"));
  const api = await call.api();
  const body = withPayload(fields, payload);
  const mode = options.text("key-mode");
  const asked = mode === undefined ? {} : { headers: { "codeq-idempotency-mode": mode } };
  const { text: answer, value: task, headers } = await api.call("POST /tasks", { body }, asked);
  const isKnown = headers.get("idempotent-replayed") === "true" || task.deduplicated === true;
  const enqueued = `${isKnown ? "already enqueued" : "enqueued"} ${task.id}`;
  if (!options.has("wait")) {
    call.answer(answer, enqueued);
    return undefined;
  }
  call.note(enqueued);
  const timeoutMs = options.durationMs("timeout") ?? waitMsDefault;
  const result = await waitForResult(call, task.id, timeoutMs);
  if (result === undefined) throw noResult(call, task.id);
  return showResult(call, result);
}

const batchTasks = 500;
/** Less than the server's limit for a body, which leaves space for what is around the payloads. */
const batchBytes = 2 * 1024 * 1024;
const triesMax = 5;
const retryMs = 500;
const problemsShown = 5;

interface Line {
  readonly number: number;
  readonly body: string;
}

type Item = ItemOf<"POST /tasks/batch">;

/**
 * `enqueue --lines`: one task for every line, sent in batches. Refused lines are reported with their numbers
 * and do not stop the others. A batch without an answer is sent again with the same idempotency keys, so a
 * broken connection creates no task twice.
 */
async function enqueueLines(
  call: Call,
  source: string,
  fields: ReturnType<typeof taskFields>,
): Promise<void> {
  const { clock, errors: output } = call.host;
  if (call.options.has("wait")) throw usageError("--lines and --wait cannot be combined");
  if (call.options.has("key"))
    throw usageError("--lines creates its own idempotency keys; remove --key");
  const run = call.host.random(8).toString("hex");
  const startedMs = clock.monotonicMs();
  const outcomes = new LineOutcomes(call);
  using bar = new ProgressBar({ output, clock, title: "enqueueing", total: undefined });
  let batch: Line[] = [];
  let size = 0;
  const flush = async (): Promise<void> => {
    if (batch.length > 0) outcomes.take(batch, await send(call, batch));
    batch = [];
    size = 0;
    bar.set(outcomes.stored + outcomes.refused);
  };
  for await (const { number, text } of readLines(call, source)) {
    const payload = call.options.has("text") ? JSON.stringify(text) : text;
    if (!isJson(payload)) {
      outcomes.refuse(number, "not JSON");
      continue;
    }
    const idempotencyKey = `lines-${run}-${number}`;
    const body = withPayload({ ...fields, idempotencyKey }, payload);
    if (batch.length === batchTasks || size + body.length > batchBytes) await flush();
    batch.push({ number, body });
    size += body.length;
  }
  await flush();
  bar[Symbol.dispose]();
  return outcomes.finish(clock.monotonicMs() - startedMs);
}

async function send(call: Call, batch: readonly Line[]): Promise<readonly Item[]> {
  const api = await call.api();
  const body = `{"tasks":[${batch.map((line) => line.body).join(",")}]}`;
  for (let tries = 1; ; tries++) {
    try {
      return (await api.call("POST /tasks/batch", { body })).value.results;
    } catch (error) {
      const isGone = error instanceof CliError && error.exit === "unreachable";
      if (!isGone || tries === triesMax) throw error;
      await pause(call.host.clock, retryMs * tries, call.host.stopped());
    }
  }
}

/** Counts and prints the lines that were stored and those that were refused. */
class LineOutcomes {
  readonly #call: Call;
  stored = 0;
  refused = 0;

  constructor(call: Call) {
    this.#call = call;
  }

  take(batch: readonly Line[], items: readonly Item[]): void {
    for (const [position, { number }] of batch.entries()) {
      const item = items[position] ?? { error: "no answer" };
      if ("error" in item) {
        this.refuse(number, item.error);
        continue;
      }
      this.stored += 1;
      if (this.#call.json) this.#call.printJson({ line: number, id: item.task.id });
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
