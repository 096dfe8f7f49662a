/** `task create`, `task result` and `worker start` as the Go command line has them: same flags, same output. */
import type { ReplyOf } from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import type { ApiClient } from "../api/api-client.ts";
import { ask, type BodyOf } from "../api/contract-commands.ts";
import type { Call } from "../call.ts";
import { CliError, usageError } from "../cli-error.ts";
import { pause } from "../host.ts";
import { isJson, withPayload } from "../payload.ts";

export async function create(call: Call): Promise<void> {
  const { options } = call;
  const command = options.text("event");
  const payload = options.text("payload");
  if (command === undefined) throw usageError("--event is required");
  if (payload === undefined) throw usageError("--payload is required");
  if (!isJson(payload)) throw usageError("--payload is not JSON");
  const fields = {
    command,
    priority: options.wholeNumber("priority", { min: -1_000_000, max: 1_000_000 }),
    webhook: options.text("webhook"),
    maxAttempts: options.wholeNumber("max-attempts", { min: 0, max: limits.maxAttemptsMax }),
    idempotencyKey: options.text("idempotency-key"),
    runAt: options.text("run-at"),
    delaySeconds: options.wholeNumber("delay-seconds", { min: 0, max: limits.delaySecondsMax }),
  };
  const { text, value } = await ask(call, "POST /tasks", { body: withPayload(fields, payload) });
  call.answer(text, `[OK] Task created: ${value.id}`);
}

export async function result(call: Call): Promise<void> {
  call.print((await ask(call, "GET /tasks/:id/result", { params: { id: call.word(0) } })).text);
}

/** An endpoint with its body; undefined leaves the task alone. */
type Acknowledgement =
  | readonly ["POST /tasks/:id/abandon", BodyOf<"POST /tasks/:id/abandon">]
  | readonly ["POST /tasks/:id/nack", BodyOf<"POST /tasks/:id/nack">]
  | readonly ["POST /tasks/:id/result", BodyOf<"POST /tasks/:id/result">]
  | undefined;

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
  // A refusal that a retry cannot change ends all slots.
  const failed = new AbortController();
  const enough = AbortSignal.any([stopped, failed.signal]);
  const claim = { commands, leaseSeconds, waitSeconds };
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
  if (ack === "abandon") return ["POST /tasks/:id/abandon", {}];
  if (ack === "nack") return ["POST /tasks/:id/nack", { reason: "", delaySeconds }];
  const result = { handledBy: "codeq-cli", ts: new Date(nowMs).toISOString() };
  return ["POST /tasks/:id/result", { status: "COMPLETED", result }];
}

interface Slot {
  readonly claim: BodyOf<"POST /tasks/claim"> & { readonly waitSeconds: number };
  readonly enough: AbortSignal;
  readonly acknowledge: () => Acknowledgement;
}

async function takeOne(call: Call, api: ApiClient, slot: Slot): Promise<void> {
  const task = await claimOne(call, api, slot);
  if (task === undefined) return;
  const { id, command, leaseToken } = task;
  call.answer({ event: "claimed", id, command }, `[OK] Task claimed: ${id} (${command})`);
  const [key, fields] = slot.acknowledge() ?? [];
  if (key === undefined) return;
  try {
    await api.call(key, { params: { id }, body: JSON.stringify({ ...fields, leaseToken }) });
  } catch (error) {
    // The lease ends by itself, and the task comes back.
    call.note(`[ERROR] ${(error as Error).message}`);
  }
}

/** Undefined when no task was ready, or when the server was away. */
async function claimOne(
  call: Call,
  api: ApiClient,
  { claim, enough }: Slot,
): Promise<ReplyOf<"POST /tasks/claim">> {
  const options = { waitMs: claim.waitSeconds * 1000, signal: enough };
  try {
    return (await api.call("POST /tasks/claim", { body: claim }, options)).value;
  } catch (error) {
    if (enough.aborted) return undefined;
    if (!isPassing(error)) throw error;
    call.note(`[ERROR] ${(error as Error).message}`);
    await pause(call.host.clock, troubleMs, enough);
    return undefined;
  }
}

/** Whether a retry may succeed. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof CliError)) return false;
  return error.exit === "unreachable" || error.status === 429 || (error.status ?? 0) >= 500;
}
