/**
 * Looks at every key of a data directory and says what does not fit together: a task in two places
 * or in none, an index key without a task, a count that is not the number of keys, a total that is
 * not the size of what is kept, a payload, a result or an idempotency key that stands alone.
 */
import type { Engine } from "@codeq/engine";
import {
  isFailure,
  type Result,
  type ResultBody,
  resultOf,
  type Task,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import { violations } from "../../packages/queue/test/invariants.ts";
import {
  addCounts,
  type Counts,
  decodeCounts,
  isEmpty,
  noCounts,
} from "../../packages/server/src/core/records/counts.ts";
import { FailureChanges } from "../../packages/server/src/core/records/failure-counts.ts";
import { decodeIdempotency } from "../../packages/server/src/core/records/idempotency-record.ts";
import {
  countsKey,
  idempotencyKeyOf,
  idOf,
  numberOf,
  parseIndexKey,
  queuesPrefix,
  sequenceKey,
  storedBytesKey,
} from "../../packages/server/src/core/store/keys.ts";
import { decodeResult, readTask } from "../../packages/server/src/core/store/task-codec.ts";
import { keysOf } from "../../packages/server/src/core/store/task-rows.ts";

export interface StoreContents {
  readonly tasks: ReadonlyMap<TaskId, Task>;
  readonly payloads: ReadonlyMap<TaskId, string>;
  readonly results: ReadonlyMap<TaskId, Result>;
  /** One sentence for everything that does not fit. */
  readonly problems: readonly string[];
}

const everything = { after: "codeq/", before: "codeq/~" };
const pieceEntries = 2000;

/** All entries, in order, durable or not. */
export async function* entriesOf(engine: Engine): AsyncGenerator<readonly [string, Buffer]> {
  let { after } = everything;
  for (;;) {
    const entries = await engine.scan({ ...everything, after }, pieceEntries);
    yield* entries;
    const last = entries.at(-1);
    if (last === undefined || entries.length < pieceEntries) return;
    after = last[0];
  }
}

/** Flushes first, since counts are written with a flush. */
export async function readStore(engine: Engine): Promise<StoreContents> {
  await engine.flushNow();
  const reading = new Reading();
  for await (const [key, value] of entriesOf(engine)) reading.add(key, value);
  return reading.conclude();
}

class Reading {
  readonly tasks = new Map<TaskId, Task>();
  readonly payloads = new Map<TaskId, string>();
  readonly results = new Map<TaskId, Result>();
  readonly problems: string[] = [];
  readonly #bodies = new Map<TaskId, ResultBody>();
  readonly #indexKeys = new Set<string>();
  readonly #idempotency = new Map<string, string>();
  readonly #counts = new Map<string, Counts>();
  /** Dead letters and failed tasks, by the counters of their groups. */
  readonly #failures = new Map<string, string>();
  /** Bytes of payload and result. */
  readonly #sizes = new Map<TaskId, number>();
  readonly #storedBytes = new Map<string, number>();
  #sequence = 0;

  add(key: string, value: Buffer): void {
    const kind = key.split("/", 2)[1];
    switch (kind) {
      case "tasks":
        this.#addTask(key, value);
        return;
      case "payload":
        this.#addPayload(idOf(key), value);
        return;
      case "results":
        this.#addResult(key, decodeResult(value));
        return;
      case "idempo":
        this.#addKey(key, value);
        return;
      case "counts":
        this.#counts.set(key, decodeCounts(value));
        return;
      case "bytes":
        this.#storedBytes.set(key, Number(value.toString("latin1")));
        return;
      case "failure-counts":
        this.#failures.set(key, value.toString("latin1"));
        return;
      case "q":
      case "ttl":
      case "start-by":
      case "failures":
      case "failure-times":
        this.#indexKeys.add(key);
        return;
      case "quarantine":
        this.problems.push(`${key} was quarantined`);
        return;
      case "meta":
        if (key === sequenceKey) this.#sequence = Number(value.toString("latin1"));
        return;
      case "webhook":
      case "deliveries":
      case "undelivered":
      case "endpoints":
      case "signing":
      case "paused":
      case "series":
      case "jobs":
      case "keys":
      case "key-uses":
      case "audit":
      case "subs":
      case "topics":
      case "sub-turns":
      case "triage":
      case "kept-keys":
      case "unique":
      case "batches":
      case "batch-state":
      case "batch-due":
        return;
      default:
        this.problems.push(`${key} is not a key of the store`);
    }
  }

  /** The key of a deleted task stands alone. */
  #addKey(key: string, value: Buffer): void {
    const entry = decodeIdempotency(value.toString("utf8"));
    if (entry === undefined) this.problems.push(`${key} cannot be read`);
    else if (entry.gone === undefined) this.#idempotency.set(key, entry.taskId);
  }

  conclude(): StoreContents {
    for (const [id, body] of this.#bodies) {
      const task = this.tasks.get(id);
      // Files that were attached while the task is worked on; its result will name them.
      if (task?.place.in === "leased" && task.result !== undefined && body.json === "") continue;
      const result = task && resultOf(task, body);
      if (result === undefined) this.problems.push(`result of ${id} is too much`);
      else this.results.set(id, result);
    }
    this.#compareIndexes();
    this.#compareCompanions();
    this.#compareCounts();
    this.#compareFailures();
    this.#compareSizes();
    const { tasks, payloads, results, problems } = this;
    return { tasks, payloads, results, problems };
  }

  #addTask(key: string, value: Buffer): void {
    const task = readTask({ buffer: value, start: 0, end: value.length }, idOf(key));
    if (task === undefined) {
      this.problems.push(`${key} does not decode: ${value.toString("latin1").slice(0, 200)}`);
      return;
    }
    this.tasks.set(task.id, task);
    if (task.payload !== undefined) this.#addPayload(task.id, Buffer.from(task.payload));
    if (task.result !== undefined) this.#addResult(key, task.result);
    for (const broken of violations(task)) this.problems.push(`${key}: ${broken}`);
  }

  #addPayload(id: TaskId, value: Buffer): void {
    if (this.payloads.has(id)) this.problems.push(`task ${id} has two payloads`);
    this.payloads.set(id, value.toString("utf8"));
    this.#addSize(id, value.length);
  }

  #addResult(key: string, body: ResultBody | undefined): void {
    const id = idOf(key);
    if (this.#bodies.has(id)) this.problems.push(`task ${id} has two results`);
    if (body === undefined) {
      this.problems.push(`${key} does not decode`);
      return;
    }
    this.#bodies.set(id, body);
    this.#addSize(id, Buffer.byteLength(body.json));
    for (const { name, url, bytes = 0 } of body.artifacts) {
      this.#addSize(id, Buffer.byteLength(name) + Buffer.byteLength(url) + bytes);
    }
  }

  #addSize(id: TaskId, bytes: number): void {
    this.#sizes.set(id, (this.#sizes.get(id) ?? 0) + bytes);
  }

  /** The keys there are and the keys that the records ask for are the same, in both directions. */
  #compareIndexes(): void {
    const expected = new Set<string>();
    for (const task of this.tasks.values()) for (const key of keysOf(task)) expected.add(key);
    for (const key of without(expected, this.#indexKeys)) this.problems.push(`${key} is missing`);
    for (const key of without(this.#indexKeys, expected)) {
      const place = this.tasks.get(idOf(key))?.place;
      this.problems.push(`${key} is there, but the record says ${JSON.stringify(place)}`);
    }
  }

  #compareCompanions(): void {
    const ends = new Set<TaskId>();
    const keys = new Map<string, string>();
    for (const [id, { place, tenantId, idempotencyKey }] of this.tasks) {
      if (place.in === "done" || place.in === "dead") ends.add(id);
      if (idempotencyKey === "") continue;
      const key = idempotencyKeyOf(tenantId, idempotencyKey);
      if (keys.has(key)) this.problems.push(`${key} stands for ${keys.get(key)} and ${id}`);
      keys.set(key, id);
    }
    const ids = new Set(this.tasks.keys());
    this.#compareSets("payload", new Set(this.payloads.keys()), ids);
    this.#compareSets("result", new Set(this.results.keys()), ends);
    for (const [key, id] of keys) {
      const found = this.#idempotency.get(key);
      if (found !== id) this.problems.push(`${key} stands for ${found}, the task is ${id}`);
    }
    for (const key of this.#idempotency.keys()) {
      if (!keys.has(key)) this.problems.push(`${key} has no task`);
    }
  }

  #compareSets(what: string, found: ReadonlySet<TaskId>, wanted: ReadonlySet<TaskId>): void {
    for (const id of without(wanted, found)) this.problems.push(`task ${id} has no ${what}`);
    for (const id of without(found, wanted)) this.problems.push(`${what} of ${id} is too much`);
  }

  #compareCounts(): void {
    const counted = new Map<string, Counts>();
    for (const key of this.#indexKeys) {
      if (!key.startsWith(queuesPrefix)) continue;
      const { queue, tenantId, kind, priority } = parseIndexKey(key);
      const of = countsKey(queue, tenantId as TenantId);
      const one = noCounts();
      if (kind === "pending") {
        one.ready[priority] = 1;
        const sequence = numberOf(key);
        if (sequence > this.#sequence) this.problems.push(`${key} is beyond ${this.#sequence}`);
      } else if (kind === "delayed") one.delayed = 1;
      else if (kind === "held") one.held = 1;
      else if (kind === "inprog") one.leased = 1;
      else if (kind === "dlq") one.dead = 1;
      else one.failed = 1;
      counted.set(of, addCounts(counted.get(of) ?? noCounts(), one));
    }
    for (const key of new Set([...counted.keys(), ...this.#counts.keys()])) {
      const stored = this.#counts.get(key) ?? noCounts();
      const real = counted.get(key) ?? noCounts();
      if (JSON.stringify(stored) === JSON.stringify(real)) continue;
      this.problems.push(
        `${key} says ${JSON.stringify(stored)}, there are ${JSON.stringify(real)}`,
      );
    }
    for (const [key, counts] of this.#counts) {
      if (isEmpty(counts)) this.problems.push(`${key} is kept although it is empty`);
    }
  }

  #compareFailures(): void {
    const changes = new FailureChanges();
    for (const task of this.tasks.values()) if (isFailure(task)) changes.add(task, 1);
    for (const key of new Set([...changes.cells.keys(), ...this.#failures.keys()])) {
      const { dead = 0, failed = 0 } = changes.cells.get(key) ?? {};
      const [stored = "none", real] = [this.#failures.get(key), `${dead} ${failed}`];
      if (stored !== real) this.problems.push(`${key} says ${stored}, there are ${real}`);
    }
  }

  #compareSizes(): void {
    const sums = new Map<string, number>();
    for (const { id, tenantId, storedBytes } of this.tasks.values()) {
      const size = this.#sizes.get(id) ?? 0;
      if (size !== storedBytes) this.problems.push(`${id} has ${size} bytes, not ${storedBytes}`);
      const key = storedBytesKey(tenantId);
      sums.set(key, (sums.get(key) ?? 0) + size);
    }
    for (const key of new Set([...sums.keys(), ...this.#storedBytes.keys()])) {
      const [stored, real] = [this.#storedBytes.get(key), sums.get(key)];
      // What has no bytes left has no total either.
      if ((stored ?? 0) !== (real ?? 0))
        this.problems.push(`${key} says ${stored}, there are ${real} bytes`);
    }
  }
}

function without<T>(all: ReadonlySet<T>, others: ReadonlySet<T>): T[] {
  return [...all].filter((each) => !others.has(each));
}
