/** `task create`, `task result` and `worker start` as the Go command line has them: same flags, same output. */
import { limits } from "@codeq/server/command-line";
import type { ApiClient } from "../api/api-client.ts";
import { taskIn } from "../api/task-view.ts";
import type { Call } from "../call.ts";
import { CliError, usageError } from "../cli-error.ts";
import { pause } from "../host.ts";
import { asMembers, createBody, isJson } from "../payload.ts";

export async function create(call: Call): Promise<void> {
  const { options } = call;
  const command = options.text("event");
  const payload = options.text("payload");
  if (command === undefined) throw usageError("--event is required");
  if (payload === undefined) throw usageError("--payload is required");
  if (!isJson(payload)) throw usageError("--payload is not JSON");
  const fields = asMembers({
    priority: options.wholeNumber("priority", { min: -1_000_000, max: 1_000_000 }),
    webhook: options.text("webhook"),
    maxAttempts: options.wholeNumber("max-attempts", { min: 0, max: limits.maxAttemptsMax }),
    idempotencyKey: options.text("idempotency-key"),
    runAt: options.text("run-at"),
    delaySeconds: options.wholeNumber("delay-seconds", { min: 0, max: limits.delaySecondsMax }),
  });
  const api = await call.api();
  const { text } = await api.post("/tasks", createBody({ command, payload, fields }));
  call.answer(text, `[OK] Task created: ${taskIn(text).id}`);
}

export async function result(call: Call): Promise<void> {
  const api = await call.api();
  const { text } = await api.get(`/tasks/${encodeURIComponent(call.word(0))}/result`);
  call.print(text);
}

interface ClaimedTask {
  readonly id: string;
  readonly command: string;
  readonly leaseToken: number;
}

/** A verb of the API with its body; undefined leaves the task alone. */
type Acknowledgement = readonly [verb: string, fields: object] | undefined;

const troubleMs = 1000;

/**
 * `worker start` of the Go command line: claims tasks and acknowledges each with one request, without doing
 * any work. It never holds a lease for longer than that, so it does not use the worker of the client
 * library, which has no counterpart for some of its acknowledgements.
 */
export async function start(call: Call): Promise<void> {
  const { options } = call;
  const commands = options.list("events");
  if (commands.length === 0) throw usageError("--events is required");
  const number = (name: string, min: number, max: number): number | undefined =>
    options.wholeNumber(name, { min, max });
  const leaseSeconds = number("lease-seconds", 1, limits.leaseSecondsMax) ?? 60;
  const asked = number("wait-seconds", 0, 3600) ?? 10;
  const waitSeconds = Math.min(asked, limits.claimWaitSecondsMax);
  const concurrency = number("concurrency", 1, 1000) ?? 1;
  const nackDelay = number("nack-delay", 0, 1e9) ?? 5;
  const acknowledge = (): Acknowledgement =>
    acknowledgement(options.text("ack") ?? "abandon", nackDelay, call.host.clock.nowMs());
  const api = await call.api();
  if (!call.json) {
    call.print(`[INFO] Worker connected. Listening... (token: ${api.connection.workerTokenOf})`);
  }
  const stopped = call.host.stopped();
  // One that is refused for good ends them all.
  const failed = new AbortController();
  const enough = AbortSignal.any([stopped, failed.signal]);
  const claim = { body: JSON.stringify({ commands, leaseSeconds, waitSeconds }), waitSeconds };
  const slot = async (): Promise<void> => {
    while (!enough.aborted) await takeOne(call, api, { claim, enough, acknowledge });
  };
  const slots = Array.from({ length: concurrency }, () =>
    slot().catch((error: unknown) => {
      failed.abort();
      throw error;
    }),
  );
  await Promise.all(slots);
}

function acknowledgement(ack: string, delaySeconds: number, nowMs: number): Acknowledgement {
  if (ack === "none") return undefined;
  if (ack === "abandon") return ["abandon", {}];
  if (ack === "nack") return ["nack", { reason: "", delaySeconds }];
  const result = { handledBy: "codeq-cli", ts: new Date(nowMs).toISOString() };
  return ["result", { status: "COMPLETED", result }];
}

interface Slot {
  readonly claim: { readonly body: string; readonly waitSeconds: number };
  readonly enough: AbortSignal;
  readonly acknowledge: () => Acknowledgement;
}

async function takeOne(call: Call, api: ApiClient, slot: Slot): Promise<void> {
  const task = await claimOne(call, api, slot);
  if (task === undefined) return;
  const { id, command, leaseToken } = task;
  call.answer({ event: "claimed", id, command }, `[OK] Task claimed: ${id} (${command})`);
  const [verb, fields] = slot.acknowledge() ?? [];
  if (verb === undefined) return;
  try {
    const body = JSON.stringify({ ...fields, leaseToken });
    await api.post(`/tasks/${id}/${verb}`, body, { as: "worker" });
  } catch (error) {
    // The lease ends by itself, and the task comes back.
    call.note(`[ERROR] ${(error as Error).message}`);
  }
}

/** Undefined when there was none, or no server for a while. */
async function claimOne(
  call: Call,
  api: ApiClient,
  { claim, enough }: Slot,
): Promise<ClaimedTask | undefined> {
  const options = { as: "worker", waitMs: claim.waitSeconds * 1000, signal: enough } as const;
  try {
    const { text } = await api.post("/tasks/claim", claim.body, options);
    return text === "" ? undefined : (JSON.parse(text) as ClaimedTask);
  } catch (error) {
    if (enough.aborted) return undefined;
    if (!isPassing(error)) throw error;
    call.note(`[ERROR] ${(error as Error).message}`);
    await pause(call.host.clock, troubleMs, enough);
    return undefined;
  }
}

/** Something that may be different in a moment. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof CliError)) return false;
  return error.exit === "unreachable" || error.status === 429 || (error.status ?? 0) >= 500;
}
