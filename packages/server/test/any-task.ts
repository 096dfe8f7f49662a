/** Arbitrary records, as strange as the types allow. */
import {
  comebacks,
  type Place,
  type ResultBody,
  scheduledKinds,
  type Task,
  type TaskBatch,
  type TaskExtras,
  type TaskId,
  type TaskLane,
  type TaskRepairs,
  type TaskSchedule,
  type TenantId,
  type Trail,
  uniqueWhiles,
  type WorkerId,
} from "@codeq/queue";
// biome-ignore lint/correctness/noUndeclaredDependencies: the workspace has it, for its tests.
import fc from "fast-check";

const text: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom("", '"', "\\", "\u2028", "\ud800", "[1]", "null", "\u0000"),
);
const ms: fc.Arbitrary<number> = fc.oneof(fc.nat(), fc.maxSafeNat());
const workerId = text as fc.Arbitrary<WorkerId>;
/** Plain objects, as the codecs make them. */
function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
}

export const anyTaskId: fc.Arbitrary<TaskId> = fc
  .uuid({ version: 7 })
  .map((uuid) => uuid as TaskId);

export const anyPlace: fc.Arbitrary<Place> = fc.oneof(
  record({ in: fc.constant("ready" as const), seq: ms }),
  record({ in: fc.constant("delayed" as const), dueMs: ms }),
  record({ in: fc.constant("held" as const) }),
  record({ in: fc.constant("leased" as const), workerId, untilMs: ms, leaseMs: ms, sinceMs: ms }),
  record({
    in: fc.constant("dead" as const),
    atMs: ms,
    expiresMs: fc.option(ms, { nil: undefined }),
  }),
  record({
    in: fc.constant("done" as const),
    how: fc.constantFrom("completed" as const, "failed" as const),
    workerId,
    startedMs: ms,
    atMs: ms,
    expiresMs: ms,
  }),
);

/** With artifacts, and a text that is not always short. */
export const anyResult: fc.Arbitrary<ResultBody> = record({
  json: fc.oneof(text, fc.string({ maxLength: 2000 })),
  artifacts: fc.array(record({ name: text, url: text }), { maxLength: 4 }),
});

export const anyExtras: fc.Arbitrary<TaskExtras | undefined> = fc.oneof(
  fc.constant(undefined),
  record({
    tags: fc.array(text, { maxLength: 4 }),
    timeoutMs: ms,
    ttlMs: ms,
    startByMs: ms,
  }),
);

const anyRepairs: fc.Arbitrary<TaskRepairs | undefined> = fc.oneof(
  fc.constant(undefined),
  record({ replayOf: anyTaskId, replayedAs: anyTaskId, isCopy: fc.boolean(), job: text }),
);

const anyTrail: fc.Arbitrary<Trail | undefined> = fc.oneof(
  fc.constant(undefined),
  record({
    attempts: fc.array(
      record({
        workerId,
        leaseToken: fc.nat(),
        startedMs: ms,
        endedMs: ms,
        outcome: fc.constantFrom(...comebacks),
        error: text,
        delayMs: ms,
        stack: text,
      }),
      { maxLength: 4 },
    ),
    progress: fc.option(record({ percent: fc.nat(100), text, atMs: ms }), { nil: undefined }),
    logs: fc.array(record({ atMs: ms, text }), { maxLength: 4 }),
  }),
);

const anyLane: fc.Arbitrary<TaskLane | undefined> = fc.oneof(
  fc.constant(undefined),
  record({
    name: fc.oneof(fc.constantFrom("", "l", "0", "a/b"), fc.string()),
    cost: fc.integer({ min: 1, max: 1_000_000_000 }),
    holds: fc.nat(100),
    seq: fc.nat(),
  }),
);

const anyUnique = fc.option(
  fc.record(
    {
      key: fc.string(),
      while: fc.constantFrom(...uniqueWhiles),
      forMs: fc.nat(),
      replaced: fc.nat(),
      sinceMs: fc.nat(),
      isHeld: fc.boolean(),
      dueMs: fc.nat(),
    },
    { noNullPrototype: true },
  ),
  { nil: undefined },
);

const anySchedule: fc.Arbitrary<TaskSchedule | undefined> = fc.oneof(
  fc.constant(undefined),
  record({
    id: fc.constantFrom("daily", "a.b:c_d-e"),
    forMs: ms,
    kind: fc.constantFrom(...scheduledKinds),
  }),
);

const anyBatch: fc.Arbitrary<TaskBatch | undefined> = fc.oneof(
  fc.constant(undefined),
  record({
    id: fc.constantFrom("import-7", "a.b:c_d-e"),
    isCallback: fc.boolean(),
    ended: fc.option(record({ succeeded: ms, failed: ms, cancelled: ms }), { nil: undefined }),
  }),
);

export const anyTask: fc.Arbitrary<Task> = record({
  id: anyTaskId,
  tenantId: fc.constantFrom("", "acme", "pending", "dlq") as fc.Arbitrary<TenantId>,
  command: fc.constantFrom("work", "Pending", "DLQ", "a.b:c_d-e"),
  priority: fc.nat(9),
  webhook: text,
  traceParent: text,
  traceState: text,
  idempotencyKey: text,
  payload: fc.option(
    fc.json({ noUnicodeString: false }).map((json) => json.replaceAll(":", ":\n")),
    {
      nil: undefined,
    },
  ),
  maxAttempts: fc.integer({ min: 1, max: 1000 }),
  attempts: fc.nat(1000),
  handBacks: fc.nat(3),
  replays: fc.nat(),
  cancelMs: ms,
  leaseToken: fc.nat(),
  error: text,
  createdMs: ms,
  updatedMs: ms,
  storedBytes: ms,
  place: anyPlace,
  result: fc.option(anyResult, { nil: undefined }),
  extras: anyExtras,
  repairs: anyRepairs,
  trail: anyTrail,
  schedule: anySchedule,
  unique: anyUnique,
  batch: anyBatch,
  lane: anyLane,
});
