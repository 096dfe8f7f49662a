/** The trail on a simulated disk: what is kept, what is found, what is deleted and what is not lost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { put } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { BrokerWorld } from "../../../test/broker-world.ts";
import { engineOf } from "../../../test/engine-of.ts";
import { LocalControl } from "../../core/control/local-control.ts";
import { auditOfPrefix, auditPrefix, quarantineKey } from "../../core/store/keys.ts";
import type { Store } from "../../core/store/store.ts";
import { createLogger } from "../../telemetry/logger.ts";
import type { AuditEvent, AuditRecord } from "./audit-record.ts";
import { type AuditQuery, AuditTrail } from "./audit-trail.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;
const dayMs = 24 * 60 * 60 * 1000;

interface Opened {
  readonly world: BrokerWorld;
  readonly store: Store;
  readonly trail: AuditTrail;
  readonly lines: string[];
}

async function open(
  world: BrokerWorld = new BrokerWorld({ flushBytes: 1 << 30 }),
  retentionMs: number = 90 * dayMs,
): Promise<Opened> {
  const store = await world.openStore();
  const { clock, random } = world;
  const lines: string[] = [];
  const logger = createLogger({
    level: "info",
    format: "json",
    nowMs: () => clock.nowMs(),
    write: (line) => lines.push(line),
  });
  const randomBytes = (into: Uint8Array): void => random.bytes(into);
  const control = new LocalControl(store);
  const trail = new AuditTrail({ store: control, clock, logger, randomBytes, retentionMs });
  return { world, store, trail, lines };
}

function event(fields: Partial<AuditEvent> = {}): AuditEvent {
  return {
    action: "clean_up",
    target: "",
    detail: "",
    outcome: "ok",
    code: "",
    tenantId: acme,
    subject: "boss",
    homeTenantId: "acme",
    issuedBy: "configuration",
    apiKeyId: "",
    address: "192.0.2.1",
    requestId: "r",
    ...fields,
  };
}

async function list(
  trail: AuditTrail,
  query: Partial<AuditQuery> = {},
): Promise<readonly AuditRecord[]> {
  const all = { tenantId: undefined, fromMs: undefined, toMs: undefined };
  const any = { action: undefined, outcome: undefined, after: "", limit: 1000 };
  return (await trail.list({ ...all, ...any, ...query })).records;
}

const targets = (records: readonly AuditRecord[]): string[] => records.map(({ target }) => target);

test("records are found again, the newest first, by tenant and after a restart", async () => {
  const { trail, world, store, lines } = await open();
  for (const [target, tenantId] of [
    ["a", acme],
    ["b", globex],
    ["c", acme],
    ["d", "" as TenantId],
  ] as const) {
    await trail.record(event({ target, tenantId }));
  }
  await world.clock.advance(1);
  await trail.record(event({ target: "e" }));
  assert.equal(lines.length, 5);
  assert.match(lines[0] ?? "", /"msg":"audit".*"action":"clean_up","target":"a"/);
  await store[Symbol.asyncDispose]();
  const next = await open(world);
  await next.trail.record(event({ target: "f" }));
  assert.deepEqual(targets(await list(next.trail)).slice(2), ["d", "c", "b", "a"]);
  assert.deepEqual(
    targets(await list(next.trail))
      .slice(0, 2)
      .sort(),
    ["e", "f"],
  );
  assert.deepEqual(targets(await list(next.trail, { tenantId: acme })).slice(2), ["c", "a"]);
  assert.deepEqual(targets(await list(next.trail, { tenantId: globex })), ["b"]);
  assert.deepEqual(targets(await list(next.trail, { tenantId: "acm" as TenantId })), []);
});

test("pages follow each other, whatever is written in between", async () => {
  const { trail, world } = await open();
  for (let number = 0; number < 7; number += 1) {
    await trail.record(event({ target: String(number) }));
    if (number % 2 === 0) await world.clock.advance(1);
  }
  for (const tenantId of [undefined, acme]) {
    const found: string[] = [];
    for (let after: string | undefined = ""; after !== undefined; ) {
      const all = { fromMs: undefined, toMs: undefined, action: undefined, outcome: undefined };
      const page = await trail.list({ ...all, tenantId, after, limit: 2 });
      found.push(...targets(page.records));
      after = page.next;
      await trail.record(event({ target: "new" }));
    }
    assert.deepEqual(
      found.filter((target) => target !== "new"),
      ["6", "5", "4", "3", "2", "1", "0"],
    );
  }
});

test("a span of time includes its beginning and not its end", async () => {
  const { trail, world } = await open();
  const startMs = world.clock.nowMs();
  for (let number = 0; number < 5; number += 1) {
    await trail.record(event({ target: String(number) }));
    await world.clock.advance(1000);
  }
  const between = async (fromMs?: number, toMs?: number): Promise<string> =>
    targets(await list(trail, { fromMs, toMs })).join("");
  assert.equal(await between(startMs + 1000, startMs + 3000), "21");
  assert.equal(await between(startMs + 1001, startMs + 3001), "32");
  assert.equal(await between(startMs + 3000), "43");
  assert.equal(await between(undefined, startMs + 1), "0");
  assert.equal(await between(startMs + 3000, startMs + 1000), "");
});

test("a search that finds little looks at so many records and says where to go on", async () => {
  const { trail, store } = await open();
  const rare = trail.entry(event({ action: "rare" }));
  await store.commitRecords([...rare.writes]).done;
  const common = Array.from({ length: 6000 }, () => trail.entry(event()).writes).flat();
  await store.commitRecords(common).done;
  const all = { tenantId: acme, fromMs: undefined, toMs: undefined, outcome: undefined };
  const query = { ...all, action: "rare", limit: 10 };
  const first = await trail.list({ ...query, after: "" });
  assert.equal(first.records.length, 0);
  assert.ok(first.next !== undefined);
  const second = await trail.list({ ...query, after: first.next });
  assert.deepEqual([second.records.length, second.next], [1, undefined]);
});

test("counted events are logged at once and written soon, and once more when they have grown", async () => {
  const { trail, world, lines } = await open();
  let planned = 0;
  trail.onPlanned = () => {
    planned += 1;
  };
  const stranger = event({ subject: "", outcome: "refused", tenantId: "" as TenantId });
  for (let times = 0; times < 1000; times += 1) trail.tally(stranger);
  assert.equal(planned, 1);
  assert.equal(lines.length, 1, "the log is told at once");
  assert.equal(trail.writeAtMs, world.clock.monotonicMs() + 1000);
  assert.deepEqual(await list(trail), []);
  await world.clock.advance(1000);
  await trail.writeTallies();
  trail.tally(stranger);
  await world.clock.advance(59_000);
  await trail.writeTallies();
  const records = await list(trail);
  assert.deepEqual(
    records.map(({ count }) => count),
    [1001],
  );
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? "", /"count":1001/);
  assert.equal(trail.writeAtMs, undefined);
});

test("strangers cannot take the room of those who are known", async () => {
  const { trail, world } = await open();
  const stranger = event({ subject: "", outcome: "refused", tenantId: "" as TenantId });
  for (let number = 0; number < 5000; number += 1) {
    trail.tally({ ...stranger, address: `2001:db8::${number.toString(16)}` });
  }
  trail.tally(event({ outcome: "refused", target: "known" }));
  await world.clock.advance(1000);
  await trail.writeTallies();
  const records = await list(trail);
  assert.equal(records.length, 102);
  assert.ok(records.some(({ target }) => target === "known"));
  const others = records.find(({ action }) => action === "other_strangers");
  assert.equal(others?.count, 4900);
});

test("what was counted is written when the server stops", async () => {
  const { trail } = await open();
  trail.tally(event({ outcome: "refused" }));
  trail.tally(event({ outcome: "refused" }));
  await trail[Symbol.asyncDispose]();
  assert.deepEqual(
    (await list(trail)).map(({ count }) => count),
    [2],
  );
});

test("a full disk keeps records out of the store and not out of the log, once", async () => {
  const { trail, world, store, lines } = await open(
    new BrokerWorld({ segmentBytes: 4096, minFreeBytes: 100 }),
  );
  world.disk.capacityBytes = 0;
  const large = put("x", "x".repeat(6000));
  await assert.rejects(store.commitRecords([large]).done, { code: "disk_full" });
  await trail.record(event({ target: "lost" }));
  trail.tally(event({ outcome: "refused", target: "late" }));
  await assert.rejects(trail.writeTallies(), { code: "disk_full" });
  await assert.rejects(trail.writeTallies(), { code: "disk_full" });
  await trail[Symbol.asyncDispose]();
  const logged = lines.filter((line) => line.includes('"msg":"audit"'));
  assert.equal(logged.length, 2);
  assert.ok(lines.some((line) => line.includes("an audit record could not be stored")));
  world.disk.capacityBytes = Number.MAX_SAFE_INTEGER;
  await world.clock.advance(1000);
  await trail.writeTallies();
  assert.deepEqual(targets(await list(trail)), ["late"]);
  assert.equal(lines.filter((line) => line.includes('"msg":"audit"')).length, 2);
});

test("records are deleted with everything of them when their time is over, in pieces", async () => {
  const { trail, world, store } = await open(undefined, dayMs);
  const old = Array.from({ length: 1100 }, () => trail.entry(event()).writes).flat();
  await store.commitRecords(old).done;
  await world.clock.advance(dayMs);
  await trail.record(event({ target: "young" }));
  const run = async (): Promise<void> => {
    while ((trail.deleteAtMs ?? Number.POSITIVE_INFINITY) <= world.clock.monotonicMs()) {
      await trail.deleteOld();
    }
  };
  await run();
  assert.equal((await list(trail)).length, 1000, "at the very end they are still there");
  await world.clock.advance(60 * 60 * 1000);
  await run();
  assert.deepEqual(targets(await list(trail)), ["young"]);
  const keys = await engineOf(store).scanKeys(
    { after: "codeq/audit/", before: "codeq/audit/~" },
    10,
  );
  assert.equal(keys.length, 2);
  await world.clock.advance(dayMs);
  await run();
  assert.equal(trail.deleteAtMs, undefined, "nothing is there, so nothing is planned");
  await trail.record(event());
  assert.equal(trail.deleteAtMs, world.clock.monotonicMs() + 60 * 60 * 1000);
});

test("records are kept for ever when the configuration says so", async () => {
  const { trail } = await open(undefined, 0);
  await trail.record(event());
  assert.equal(trail.deleteAtMs, undefined);
});

test("a record that cannot be read is passed over and kept aside, also when it is old", async () => {
  const { trail, world, store } = await open(undefined, dayMs);
  await trail.record(event({ target: "good" }));
  const [{ id } = { id: "" }] = await list(trail);
  await trail.record(event({ target: "bad" }));
  const bad = (await list(trail)).find(({ target }) => target === "bad")?.id ?? "";
  await store.commitRecords([put(auditPrefix + bad, "{}")]).done;
  assert.deepEqual(
    (await list(trail)).map((each) => each.id),
    [id],
  );
  assert.equal(engineOf(store).getText(quarantineKey(auditPrefix + bad)), "{}");
  await world.clock.advance(2 * dayMs);
  await trail.deleteOld();
  assert.equal(engineOf(store).getText(auditPrefix + bad), "{}");
  assert.equal(engineOf(store).getText(auditPrefix + id), undefined);
  assert.equal(engineOf(store).getText(auditOfPrefix(acme) + id), undefined);
});

test("records of two processes in the same millisecond do not replace each other", async () => {
  const first = await open();
  await first.trail.record(event({ target: "first" }));
  await first.store[Symbol.asyncDispose]();
  const second = await open(first.world);
  await second.trail.record(event({ target: "second" }));
  assert.deepEqual(targets(await list(second.trail)).sort(), ["first", "second"]);
});
