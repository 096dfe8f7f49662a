/** A data directory with tasks in every place and everything that is kept beside them, and what is in it. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { TaskId, TenantId } from "@codeq/queue";
import { SimClock, SimRandom } from "@codeq/simulated";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { isUnsettled } from "../../packages/server/src/core/backup/replace-stores.ts";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import { decodeIdempotency } from "../../packages/server/src/core/records/idempotency-record.ts";
import { shardOf, shardOfKey } from "../../packages/server/src/core/shards/shard-of.ts";
import { makeApiKey } from "../../packages/server/src/features/api-keys/operations.ts";
import { withApiKeys } from "../../packages/server/src/start/keys-command.ts";
import { openDataDir } from "../../packages/server/src/start/open-data-dir.ts";
import { openStore as openServerStore } from "../../packages/server/src/start/shards/open-shard.ts";
import { createLogger } from "../../packages/server/src/telemetry/logger.ts";
import { createMetrics } from "../../packages/server/src/telemetry/metrics.ts";
import {
  BrokerWorld,
  claim,
  completed,
  enqueue,
  nack,
  owned,
  submit,
} from "../../packages/server/test/broker-world.ts";
import { entriesOf, readStore } from "./check-store.ts";
import { configOf } from "./directory-config.ts";
import { openStore } from "./open-store.ts";

const tenants = ["acme", "umbrella", ""] as TenantId[];
/** Longer ones are kept apart from their tasks. */
const longText = JSON.stringify({ text: "x".repeat(5000) });

/** A broker on a directory, as a server has it. */
async function withBroker(
  { config, segmentBytes }: { readonly config: Config; readonly segmentBytes: number | undefined },
  use: (broker: ShardBroker, world: BrokerWorld) => Promise<void>,
): Promise<void> {
  const world = new BrokerWorld({ seed: 7 });
  const { clock } = world;
  const logger = createLogger({
    level: "error",
    format: "json",
    nowMs: () => clock.nowMs(),
    write: () => {},
  });
  const metrics = createMetrics({ commandsMax: 10 });
  const storage = await openDataDir(config, { clock, metrics, logger, segmentBytes });
  const parts = { config, clock, logger, metrics, storage, onState: () => {} };
  const store = await openServerStore({ ...parts, defer: (run) => void setImmediate(run) });
  try {
    await use(await world.openBroker(store), world);
  } finally {
    await store[Symbol.asyncDispose]();
  }
}

/** With one shard. Every place has tasks, with and without long payloads, results, keys and webhooks. */
export async function fillDirectory(
  dataDir: string,
  tasks: number,
  segmentBytes?: number,
): Promise<void> {
  const config = configOf(dataDir);
  await withBroker({ config, segmentBytes }, async (broker, world) => {
    const numbers = Array.from({ length: tasks }, (_, number) => number);
    await Promise.all(numbers.map((number) => fillOne(broker, world, number)));
  });
  const random = new SimRandom(3);
  const parts = { clock: new SimClock(), randomBytes: (into: Uint8Array) => random.bytes(into) };
  await withApiKeys(config, parts, async (opened) => {
    const identity = { tenantId: "acme" as TenantId, subject: "offline", isOperator: true };
    for (const name of ["shop", "resizer"]) {
      const input = { name, scopes: ["codeq:claim"], eventTypes: [], role: "none" };
      const server = { ...opened, clock: parts.clock };
      const call = { identity } as unknown as Parameters<typeof makeApiKey>[1];
      const made = await makeApiKey(server, call, { ...input, expiresInSeconds: 0 });
      assert.ok(made.ok, JSON.stringify(made));
    }
  });
}

async function fillOne(broker: ShardBroker, world: BrokerWorld, number: number): Promise<void> {
  const tenantId = tenants[number % 3] as TenantId;
  // Each task has a queue of its own while it is brought to its place.
  const command = `Work${number % 7}.${number}`;
  const payload = number % 5 === 0 ? longText : `{"number":${number}}`;
  const fields = {
    tenantId,
    command,
    payload,
    payloadBytes: Buffer.byteLength(payload),
    payloadHash: `hash-${number}`,
    priority: number % 10,
    idempotencyKey: number % 2 === 0 ? `key/${number} ü` : "",
    webhook: number % 11 === 0 ? "http://127.0.0.1:9/hook" : "",
    // One that comes back is a dead letter or waits.
    maxAttempts: number % 6 === 5 ? 1 : 2,
    visibleMs: number % 6 === 1 ? world.clock.nowMs() + 60_000 + number : undefined,
  };
  const task = await enqueue(broker, fields);
  const place = number % 6;
  if (place < 2) return;
  const [claimed] = await claim(broker, {
    tenantId,
    commands: [command],
    leaseMs: 600_000,
  });
  assert.equal(claimed?.task.id, task.id);
  const of = owned(claimed.task);
  if (place === 3) {
    await submit(broker, of, completed(number % 4 === 3 ? longText : '{"ok":true}')).done;
  }
  if (place > 3) await nack(broker, of, { delaySeconds: 30, reason: "not yet" }).done;
}

/** What a data directory holds, whatever its number of shards. */
export interface Contents {
  /** Key -> bytes, of everything that does not follow from something else. */
  readonly entries: ReadonlyMap<string, string>;
  /** Of each shard. */
  readonly sequences: readonly number[];
  /** Keys that lie in the shard of the key as well as in that of the task. */
  readonly aliases: number;
}

const derived =
  /^codeq\/(counts|bytes|q|ttl|idempo|kept-keys|failures|failure-times|failure-counts|meta)\//;

/** Everything, after what has to hold for it was checked. */
export async function readContents(dataDir: string, shards: number): Promise<Contents> {
  assert.equal(isUnsettled(dataDir), false);
  assert.equal(existsSync(join(dataDir, `shard-${shards}`)), false);
  const entries = new Map<string, string>();
  const keys: Map<string, string>[] = [];
  const sequences: number[] = [];
  const folders = shards === 1 ? [] : Array.from({ length: shards }, (_, n) => `shard-${n}`);
  for (const [number, folder] of ["", ...folders].entries()) {
    const shard = number - 1;
    await using engine = await openStore(join(dataDir, folder));
    const own = new Map<string, string>();
    for await (const [key, value] of entriesOf(engine)) {
      if (key === "codeq/meta/sequence") sequences.push(Number(value));
      if (key.startsWith("codeq/idempo/")) own.set(key, value.toString());
      if (derived.test(key)) continue;
      assert.equal(entries.has(key), false, `${key} is there twice`);
      entries.set(key, value.toString("hex"));
      const id = key.slice(key.lastIndexOf("/") + 1) as TaskId;
      const isTask = /^codeq\/(tasks|payload|results|webhook)\//.test(key);
      if (shards > 1) assert.equal(isTask ? shardOf(id, shards) : -1, shard, key);
    }
    if (shards === 1 || shard >= 0) keys.push(own);
    const { problems } = await readStore(engine);
    assert.deepEqual(
      problems.filter((problem) => !isAlias(problem, own, shard, shards)),
      [],
    );
  }
  let aliases = 0;
  for (const [shard, own] of keys.entries()) {
    for (const [key, text] of own) {
      const [taskId] = JSON.parse(text) as [TaskId];
      const isAliasHere = shardOf(taskId, shards) !== shard;
      aliases += isAliasHere ? 1 : 0;
      if (!isAliasHere) entries.set(key, text);
      const asked = shardOfKey(...partsOf(key), shards);
      assert.equal(keys[asked]?.get(key), text, `${key} is not where it is looked for`);
      if (decodeIdempotency(text)?.gone !== undefined) continue;
      assert.equal(keys[shardOf(taskId, shards)]?.get(key), text, `${key} is not with its task`);
    }
  }
  return { entries: new Map([...entries].sort()), sequences, aliases };
}

function partsOf(key: string): [TenantId, string] {
  const [tenant = "", name = ""] = key.slice("codeq/idempo/".length).split("/");
  return [(tenant === "_" ? "" : tenant) as TenantId, decodeURIComponent(name)];
}

/** A key of a task in another shard is no problem. */
function isAlias(
  problem: string,
  keys: ReadonlyMap<string, string>,
  shard: number,
  shards: number,
): boolean {
  const [key = "", ...rest] = problem.split(" has no task");
  const text = rest.length === 0 ? undefined : keys.get(key);
  return text !== undefined && shardOf(JSON.parse(text)[0], shards) !== shard;
}
