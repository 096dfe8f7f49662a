/**
 * Sound tasks to start a test from. Each is written out by hand instead of being made by the
 * transitions, so that a bug in one transition cannot hide in the input of another's test.
 */
import type { RetryPolicy } from "../src/backoff.ts";
import type { Retention } from "../src/ended.ts";
import type { LeasedTask } from "../src/owner.ts";
import type {
  PastAttempt,
  Place,
  ResultBody,
  Task,
  TaskId,
  TenantId,
  Trail,
  WorkerId,
} from "../src/task.ts";
import type { NewTask } from "../src/transitions/enqueue.ts";

export const worker = "worker-a" as WorkerId;
export const otherWorker = "worker-b" as WorkerId;
export const nobody = "" as WorkerId;

export const retention: Retention = { doneMs: 86_400_000, deadMs: 604_800_000 };
export const policy: RetryPolicy = { backoff: "exponential", baseSeconds: 5, maxSeconds: 900 };

export const placeNames: readonly Place["in"][] = [
  "ready",
  "delayed",
  "held",
  "leased",
  "dead",
  "done",
];

export const id = "01890a5d-ac96-774b-bcce-b302099a8057" as TaskId;

export function newTask(over: Partial<NewTask> = {}): NewTask {
  return {
    tenantId: "tenant-1" as TenantId,
    command: "Render",
    priority: 4,
    webhook: "https://example.test/hook",
    traceParent: "00-11111111111111111111111111111111-2222222222222222-01",
    traceState: "vendor=1",
    idempotencyKey: "order-17",
    payload: '{"page":1}',
    payloadBytes: 20,
    payloadHash: "hash",
    keepsFirst: false,
    maxAttempts: 5,
    visibleMs: undefined,
    extras: undefined,
    ...over,
  };
}

/** A task last changed at 2000 that has been claimed twice and came back once. */
export function taskIn(where: Place["in"], over: Partial<Task> = {}): Task {
  const { visibleMs: _, payloadBytes, payloadHash: __, ...fields } = newTask();
  return freeze({
    id,
    ...fields,
    repairs: undefined,
    schedule: undefined,
    unique: undefined,
    batch: where === "held" ? { id: "b1", isCallback: true, ended: undefined } : undefined,
    lane: undefined,
    attempts: where === "dead" ? fields.maxAttempts : 1,
    handBacks: 0,
    replays: 0,
    cancelMs: 0,
    leaseToken: where === "dead" ? fields.maxAttempts : 2,
    error: where === "dead" ? "MAX_ATTEMPTS" : "",
    createdMs: 1000,
    updatedMs: 2000,
    trail: undefined,
    storedBytes: payloadBytes,
    place: examplePlace(where),
    result: exampleResult(where),
    ...over,
  });
}

export function leasedTask(over: Partial<LeasedTask> = {}): Task {
  return taskIn("leased", over);
}

/** What one attempt that came back leaves. */
export function oneAttempt(end: Partial<PastAttempt>): Trail {
  const known = { workerId: worker, leaseToken: 2, startedMs: 2000, endedMs: 10_000 };
  const attempt = {
    ...known,
    outcome: "nacked",
    error: "",
    stack: "",
    delayMs: 0,
    ...end,
  } as const;
  return { attempts: [attempt], progress: undefined, logs: [] };
}

function exampleResult(where: Place["in"]): ResultBody | undefined {
  if (where === "done") return { json: '{"pages":1}', artifacts: [] };
  return where === "dead" ? { json: "", artifacts: [] } : undefined;
}

function examplePlace(where: Place["in"]): Place {
  switch (where) {
    case "ready":
      return { in: "ready", seq: 7 };
    case "delayed":
      return { in: "delayed", dueMs: 9000 };
    case "held":
      return { in: "held" };
    case "leased":
      return { in: "leased", workerId: worker, untilMs: 32_000, leaseMs: 30_000, sinceMs: 2000 };
    case "dead":
      return { in: "dead", atMs: 2000, expiresMs: 604_802_000 };
    case "done":
      return {
        in: "done",
        how: "completed",
        workerId: worker,
        startedMs: 2000,
        atMs: 2000,
        expiresMs: 86_402_000,
      };
  }
}

/** A transition that writes into its input fails on the spot. */
export function freeze(task: Task): Task {
  Object.freeze(task.place);
  return Object.freeze(task);
}
