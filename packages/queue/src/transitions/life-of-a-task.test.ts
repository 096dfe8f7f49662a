/**
 * Random lives of a task, each step compared with a model that counts the other way round: the
 * attempts that are left instead of those made, the free hand-backs that are left instead
 * of those used, and the claims that succeeded instead of a token.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  freeze,
  id,
  newTask,
  nobody,
  otherWorker,
  retention,
  worker,
} from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import { backoffPolicies, type RetryPolicy } from "../backoff.ts";
import type { Retention } from "../ended.ts";
import type { Owner } from "../owner.ts";
import type { Place, ResultBody, Task, WorkerId } from "../task.ts";
import { claim, promote } from "./claim.ts";
import { complete } from "./complete.ts";
import { enqueue } from "./enqueue.ts";
import { extendLease } from "./extend-lease.ts";
import type { Returned } from "./give-back.ts";
import { abandon, expireLease, nack, release } from "./give-back.ts";

type Who = "holder" | "holder with token" | "holder with old token" | "stranger" | "nobody";
type Verb =
  | { readonly verb: "claim"; readonly workerId: WorkerId; readonly leaseMs: number }
  | { readonly verb: "extend"; readonly who: Who; readonly leaseMs: number }
  | {
      readonly verb: "nack";
      readonly who: Who;
      readonly delaySeconds: number;
      readonly reason: string;
    }
  | { readonly verb: "abandon"; readonly who: Who; readonly interrupted: boolean }
  | { readonly verb: "release"; readonly who: Who }
  | { readonly verb: "expire" }
  | { readonly verb: "promote" }
  | {
      readonly verb: "complete";
      readonly who: Who;
      readonly how: "completed" | "failed";
      readonly error: string;
      readonly keepsResult: boolean;
    };
type Step = Verb & { readonly driftMs: number; readonly draw: number };

interface Life {
  readonly maxAttempts: number;
  readonly startDelayMs: number;
  readonly policy: RetryPolicy;
  readonly retention: Retention;
  readonly steps: readonly Step[];
}

/** What a step did: the new task, with the delay reported if it came back, or the refusal. */
type Effect =
  | { readonly task: Task; readonly delaySeconds?: number; readonly buried?: boolean }
  | { readonly code: string };

/** The expectation: where the task is now, or the refusal. */
type Forecast = { readonly to: Place["in"] } | { readonly code: string };

class Model {
  place: Place["in"];
  holder: WorkerId = nobody;
  left: number;
  free = 3;
  claims = 0;
  error = "";

  constructor(life: Life) {
    this.place = life.startDelayMs > 0 ? "delayed" : "ready";
    this.left = life.maxAttempts;
  }

  step(step: Step, owner: Owner, delaySeconds: number): Forecast {
    if (step.verb === "claim") return this.#leave("ready", "not_ready", () => this.#claimed(step));
    if (step.verb === "promote") return this.#leave("delayed", "not_delayed", () => "ready");
    if (step.verb === "expire") {
      const back = (): Place["in"] => this.#back(delaySeconds, "LEASE_EXPIRED", "");
      return this.#leave("leased", "not_in_progress", back);
    }
    if (this.place !== "leased") return { code: "not_in_progress" };
    const isHolder = owner.workerId === this.holder && owner.workerId.length > 0;
    const isLatest = [undefined, this.claims].includes(owner.leaseToken);
    if (!isHolder || !isLatest) return { code: "not_owner" };
    return this.#leave("leased", "not_in_progress", () => this.#owned(step, delaySeconds));
  }

  #leave(from: Place["in"], code: string, go: () => Place["in"]): Forecast {
    if (this.place !== from) return { code };
    this.place = go();
    return { to: this.place };
  }

  #claimed(step: { readonly workerId: WorkerId }): Place["in"] {
    this.holder = step.workerId;
    this.claims += 1;
    return "leased";
  }

  #owned(step: Step, delaySeconds: number): Place["in"] {
    switch (step.verb) {
      case "nack":
        return this.#back(delaySeconds, step.reason || "MAX_ATTEMPTS", step.reason);
      case "abandon":
        if (!step.interrupted || this.free === 0) return this.#back(0, "MAX_ATTEMPTS", "");
        this.free -= 1;
        return "ready";
      case "release":
        return "ready";
      case "complete":
        this.error = step.error;
        return "done";
      default:
        return "leased";
    }
  }

  #back(delaySeconds: number, epitaph: string, told: string): Place["in"] {
    this.left -= 1;
    this.free = 3;
    this.error = this.left === 0 ? epitaph : told || this.error;
    if (this.left === 0) return "dead";
    return delaySeconds === 0 ? "ready" : "delayed";
  }
}

const anyLeaseMs = fc.integer({ min: 1, max: 86_400_000 });
const anyText = fc.constantFrom("", "jam", "out of paper");
const anyWho: fc.Arbitrary<Who> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom<Who>("holder", "holder with token") },
  { weight: 1, arbitrary: fc.constantFrom<Who>("holder with old token", "stranger", "nobody") },
);
const anyVerb: fc.Arbitrary<Verb> = fc.oneof(
  {
    weight: 9,
    arbitrary: fc.record({
      verb: fc.constant("claim" as const),
      workerId: fc.constantFrom(worker, otherWorker),
      leaseMs: anyLeaseMs,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      verb: fc.constant("extend" as const),
      who: anyWho,
      leaseMs: anyLeaseMs,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      verb: fc.constant("nack" as const),
      who: anyWho,
      delaySeconds: fc.constantFrom(-1, 0, 0, 1, 30, 5000),
      reason: anyText,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      verb: fc.constant("abandon" as const),
      who: anyWho,
      interrupted: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ verb: fc.constant("release" as const), who: anyWho }) },
  { weight: 1, arbitrary: fc.record({ verb: fc.constant("expire" as const) }) },
  { weight: 5, arbitrary: fc.record({ verb: fc.constant("promote" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      verb: fc.constant("complete" as const),
      who: anyWho,
      how: fc.constantFrom("completed" as const, "failed" as const),
      error: anyText,
      keepsResult: fc.boolean(),
    }),
  },
);
const anyStep: fc.Arbitrary<Step> = fc
  .tuple(
    anyVerb,
    // The wall clock may step back.
    fc.integer({ min: -10_000, max: 60_000 }),
    fc.constantFrom(0, 0.25, 0.5, 1 - 2 ** -53),
  )
  .map(([verb, driftMs, draw]) => ({ ...verb, driftMs, draw }));
const anyLife: fc.Arbitrary<Life> = fc.record({
  maxAttempts: fc.integer({ min: 1, max: 6 }),
  startDelayMs: fc.constantFrom(-1, 0, 0, 1, 5000),
  policy: fc.record({
    backoff: fc.constantFrom(...backoffPolicies),
    baseSeconds: fc.integer({ min: 1, max: 10 }),
    maxSeconds: fc.integer({ min: 1, max: 60 }),
  }),
  retention: fc.record({ doneMs: fc.nat(100_000), deadMs: fc.constantFrom(0, 1, 100_000) }),
  steps: fc.array(anyStep, { maxLength: 120, size: "max" }),
});

function ownerOf(who: Who, model: Model): Owner {
  switch (who) {
    case "holder":
      return { workerId: model.holder };
    case "holder with token":
      return { workerId: model.holder, leaseToken: model.claims };
    case "holder with old token":
      return { workerId: model.holder, leaseToken: model.claims - 1 };
    case "stranger":
      return { workerId: "worker-c" as WorkerId, leaseToken: model.claims };
    case "nobody":
      return { workerId: nobody };
  }
}

/** The delay in the words of the contract, by repeated doubling; jitter makes it a range. */
function delayRange(step: Step, life: Life, returns: number): readonly [number, number] {
  const { backoff, baseSeconds, maxSeconds } = life.policy;
  if (step.verb === "nack" && step.delaySeconds > 0) {
    const asked = Math.min(step.delaySeconds, maxSeconds);
    return [asked, asked];
  }
  if (step.verb !== "nack" && step.verb !== "expire") return [0, 0];
  let grown = baseSeconds;
  for (let round = 1; round <= returns; round++) {
    if (backoff === "linear" && round > 1) grown += baseSeconds;
    if (backoff.startsWith("exp")) grown *= 2;
  }
  const cap = Math.min(grown, maxSeconds);
  if (backoff === "exp_full_jitter") return [0, cap];
  if (backoff === "exp_equal_jitter") return [Math.floor(cap / 2), cap];
  return [cap, cap];
}

/** What every worker gives back that finishes the task. */
const given = { json: '{"pages":1}', artifacts: [] };

/** What travels with the task that the step made. */
function expectedResult(to: Place["in"], step: Step): ResultBody | undefined {
  if (to === "dead") return { json: "", artifacts: [] };
  return to === "done" && "keepsResult" in step && step.keepsResult ? given : undefined;
}

interface Moment {
  readonly life: Life;
  readonly nowMs: number;
  readonly seq: number;
}

function apply(task: Task, step: Step, { owner, life, ...at }: Moment & { owner: Owner }): Effect {
  const around = { ...at, draw: step.draw, policy: life.policy, retention: life.retention };
  switch (step.verb) {
    case "claim":
      return changed(claim(task, { workerId: step.workerId, leaseMs: step.leaseMs }, at.nowMs));
    case "extend":
      return changed(
        extendLease(task, owner, { nowMs: at.nowMs, leaseMs: step.leaseMs, ranMs: 0, leftMs: 0 }),
      );
    case "nack":
      return returned(nack(task, owner, step, around));
    case "abandon":
      return returned(abandon(task, owner, step, around));
    case "release":
      return changed(release(task, owner, around));
    case "expire":
      return returned(expireLease(task, { ...around, ranMs: 0 }));
    case "promote":
      return changed(promote(task, at));
    case "complete": {
      const submission = { how: step.how, error: step.error, result: given, resultBytes: 11 };
      const ending = { ...around, keepsResult: step.keepsResult };
      return changed(complete(task, owner, submission, ending));
    }
  }
}

type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly code: string };

function changed(outcome: Answer<Task>): Effect {
  return outcome.ok ? { task: outcome.value } : { code: outcome.code };
}

function returned(outcome: Answer<Returned>): Effect {
  return outcome.ok ? outcome.value : { code: outcome.code };
}

/** The place in full, from the step alone; the delay is known only from the report. */
function expectedPlace(
  to: Place["in"],
  step: Step,
  at: Moment & {
    readonly holder: WorkerId;
    readonly claimedMs: number;
    readonly delaySeconds: number;
  },
): Place {
  const { life, nowMs, seq, holder, claimedMs } = at;
  switch (to) {
    case "ready":
      return { in: "ready", seq };
    case "delayed":
      return { in: "delayed", dueMs: nowMs + at.delaySeconds * 1000 };
    case "held":
      return { in: "held" };
    case "leased": {
      const leaseMs = "leaseMs" in step ? step.leaseMs : Number.NaN;
      const untilMs = nowMs + leaseMs;
      return { in: "leased", workerId: holder, untilMs, leaseMs, sinceMs: claimedMs };
    }
    case "dead": {
      const { deadMs } = life.retention;
      return { in: "dead", atMs: nowMs, expiresMs: deadMs > 0 ? nowMs + deadMs : undefined };
    }
    case "done": {
      const how = "how" in step ? step.how : "completed";
      const expiresMs = nowMs + life.retention.doneMs;
      return {
        in: "done",
        how,
        workerId: holder,
        startedMs: claimedMs,
        atMs: nowMs,
        expiresMs,
      };
    }
  }
}

const identity = [
  "id",
  "tenantId",
  "command",
  "priority",
  "webhook",
  "traceParent",
  "traceState",
  "idempotencyKey",
  "payload",
  "maxAttempts",
  "createdMs",
] as const;

/** Lives the whole life and returns what happened, one word for each step. */
function live(life: Life): string[] {
  let nowMs = 1_000_000;
  let seq = 1;
  let claimedMs = 0;
  const visibleMs = nowMs + life.startDelayMs;
  const wanted = newTask({ maxAttempts: life.maxAttempts, visibleMs });
  const born = enqueue(wanted, { id, nowMs, seq, keepsPayload: true });
  const model = new Model(life);
  let task = freeze(born);
  assert.equal(task.place.in, model.place);
  const trace: string[] = [];

  for (const step of life.steps) {
    nowMs += step.driftMs;
    seq += 1;
    const owner = "who" in step ? ownerOf(step.who, model) : { workerId: nobody };
    const [low, high] = delayRange(step, life, life.maxAttempts - model.left + 1);
    const effect = apply(task, step, { owner, life, nowMs, seq });
    const delaySeconds = "task" in effect ? (effect.delaySeconds ?? 0) : 0;
    const forecast = model.step(step, owner, delaySeconds);
    if ("code" in forecast || "code" in effect) {
      assert.deepEqual(effect, forecast, step.verb);
      trace.push(`${step.verb} ${"code" in forecast ? forecast.code : ""}`);
      continue;
    }
    task = freeze(effect.task);
    if (step.verb === "claim") claimedMs = nowMs;
    const at = { life, nowMs, seq, holder: model.holder, claimedMs, delaySeconds };
    assert.deepEqual(task.place, expectedPlace(forecast.to, step, at), step.verb);
    if (forecast.to === "dead") assert.equal(delaySeconds, 0);
    else assert.ok(delaySeconds >= low && delaySeconds <= high);
    if (effect.buried !== undefined) assert.equal(effect.buried, forecast.to === "dead");
    assert.deepEqual(violations(task), []);
    assert.equal(task.attempts, life.maxAttempts - model.left);
    assert.equal(task.handBacks, 3 - model.free);
    assert.equal(task.leaseToken, model.claims);
    assert.equal(task.error, model.error);
    assert.equal(task.updatedMs, nowMs);
    assert.deepEqual(task.result, expectedResult(forecast.to, step));
    assert.equal(task.storedBytes, born.storedBytes + (forecast.to === "done" ? 11 : 0));
    for (const field of identity) assert.equal(task[field], born[field], field);
    trace.push(`${step.verb} ${forecast.to}${task.handBacks === 3 ? " 3" : ""}`);
  }
  return trace;
}

test("every life of a task agrees with the model, step by step", () => {
  fc.assert(
    fc.property(anyLife, (life) => {
      live(life);
    }),
    { numRuns: 1500 },
  );
});

test("the random lives reach every transition, every end and every refusal", () => {
  const seen = new Set(fc.sample(anyLife, { seed: 20_240_607, numRuns: 1500 }).flatMap(live));
  const expected = [
    "claim leased",
    "claim leased 3",
    "claim not_ready",
    "extend leased",
    "extend not_in_progress",
    "extend not_owner",
    "nack delayed",
    "nack ready",
    "nack dead",
    "nack not_in_progress",
    "nack not_owner",
    "abandon ready",
    "abandon ready 3",
    "abandon dead",
    "abandon not_in_progress",
    "abandon not_owner",
    "release ready",
    "release ready 3",
    "release not_in_progress",
    "release not_owner",
    "expire delayed",
    "expire ready",
    "expire dead",
    "expire not_in_progress",
    "promote ready",
    "promote not_delayed",
    "complete done",
    "complete done 3",
    "complete not_in_progress",
    "complete not_owner",
  ];
  assert.deepEqual(
    expected.filter((event) => !seen.has(event)),
    [],
  );
});

const around = {
  nowMs: 5000,
  seq: 9,
  draw: 0.5,
  retention,
  policy: { backoff: "exp_full_jitter", baseSeconds: 5, maxSeconds: 900 },
} as const;

type WayBack = "nack" | "abandon" | "interrupted" | "expire";

/** Claims and returns a task until it is dead; answers how often it was delivered. */
function attemptsUntilDead(maxAttempts: number, waysBack: readonly WayBack[]): number {
  let task = enqueue(newTask({ maxAttempts }), {
    ...{ id, nowMs: 1000, seq: 1 },
    keepsPayload: true,
  });
  let attempts = 0;
  while (task.place.in !== "dead") {
    const ready: Task = task.place.in === "delayed" ? must(promote(task, around)) : task;
    const tokenBefore = ready.leaseToken;
    const leased: Task = must(claim(ready, { workerId: worker, leaseMs: 1000 }, 5000));
    assert.ok(leased.leaseToken > tokenBefore);
    attempts += 1;
    const wayBack = waysBack[attempts % waysBack.length] ?? "nack";
    task = giveBack(leased, wayBack).task;
    assert.ok(attempts <= 4 * maxAttempts, "a task must not be delivered for ever");
  }
  return attempts;
}

function giveBack(task: Task, wayBack: WayBack): Returned {
  const by: Owner = { workerId: worker, leaseToken: task.leaseToken };
  switch (wayBack) {
    case "nack":
      return must(nack(task, by, { delaySeconds: 0, reason: "" }, around));
    case "abandon":
      return must(abandon(task, by, { interrupted: false }, around));
    case "interrupted":
      return must(abandon(task, by, { interrupted: true }, around));
    case "expire":
      return must(expireLease(task, { ...around, ranMs: 0 }));
  }
}

function must<T>(outcome: Answer<T>): T {
  assert.ok(outcome.ok);
  return outcome.value;
}

const anyMax = fc.integer({ min: 1, max: 40 });

test("a task is delivered exactly maxAttempts times when every attempt counts", () => {
  const counted = fc.constantFrom<WayBack>("nack", "abandon", "expire");
  fc.assert(
    fc.property(anyMax, fc.array(counted, { minLength: 1 }), (maxAttempts, waysBack) => {
      assert.equal(attemptsUntilDead(maxAttempts, waysBack), maxAttempts);
    }),
  );
});

test("interrupted hand-backs give at most three attempts more for each that counts", () => {
  const anyWayBack = fc.constantFrom<WayBack>("nack", "abandon", "expire", "interrupted");
  fc.assert(
    fc.property(anyMax, fc.array(anyWayBack, { minLength: 1 }), (maxAttempts, waysBack) => {
      const attempts = attemptsUntilDead(maxAttempts, waysBack);
      assert.ok(attempts >= maxAttempts && attempts <= 4 * maxAttempts);
    }),
  );
});

test("nothing but interrupted hand-backs gives exactly four attempts for each that counts", () => {
  for (const maxAttempts of [1, 2, 5]) {
    assert.equal(attemptsUntilDead(maxAttempts, ["interrupted"]), 4 * maxAttempts);
  }
});
