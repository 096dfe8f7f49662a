import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import { SimClock } from "../../../../simulated/src/index.ts";
import type { AuditEvent } from "./audit-record.ts";
import { AuditTally, type AuditTallyParts } from "./audit-tally.ts";

const startMs = Date.UTC(2026, 0, 2);

function event(fields: Partial<AuditEvent> = {}): AuditEvent {
  return {
    action: "get_task",
    target: "",
    detail: "",
    outcome: "refused",
    code: "invalid_token",
    tenantId: "" as TenantId,
    subject: "",
    homeTenantId: "",
    issuedBy: "",
    apiKeyId: "",
    address: "192.0.2.1",
    requestId: "r",
    ...fields,
  };
}

function setup(limits: Partial<AuditTallyParts> = {}) {
  const clock = new SimClock({ wallMs: startMs });
  let ids = 0;
  const tally = new AuditTally({
    clock,
    perMinuteMax: 3,
    perHourMax: 5,
    others: event({ action: "others", address: "" }),
    idAt: (ms) => {
      ids += 1;
      return `${ms}/${ids}`;
    },
    ...limits,
  });
  /** What the trail does when something is due; shows what was written. */
  const write = (): string[] => {
    const due = tally.due();
    const shown = due.map(({ record: { action, address, count } }) =>
      [action, address, count].join(" "),
    );
    for (const each of due) each.writtenCount = each.record.count;
    tally.settle();
    return shown;
  };
  const dueInMs = (): number | undefined =>
    tally.dueMs === undefined ? undefined : tally.dueMs - clock.monotonicMs();
  return { clock, tally, write, dueInMs };
}

test("the first of its kind is due within a second, its repetitions at the end of the minute", async () => {
  const { clock, tally, write, dueInMs } = setup();
  assert.equal(dueInMs(), undefined);
  assert.equal(tally.add(event())?.count, 1);
  for (let times = 1; times < 100; times += 1) {
    assert.equal(tally.add(event({ requestId: `r${times}` })), undefined);
  }
  assert.equal(dueInMs(), 1000);
  await clock.advance(1000);
  assert.deepEqual(write(), ["get_task 192.0.2.1 100"]);
  assert.equal(dueInMs(), 59_000);
  tally.add(event());
  await clock.advance(58_999);
  assert.deepEqual(write(), []);
  await clock.advance(1);
  assert.deepEqual(write(), ["get_task 192.0.2.1 101"]);
  assert.equal(dueInMs(), undefined);
});

test("a record keeps its id while it grows, and the next minute has another", async () => {
  const { clock, tally, write } = setup();
  tally.add(event());
  const [first] = tally.due();
  assert.deepEqual(first?.record, {
    ...event(),
    id: `${startMs}/1`,
    atMs: startMs,
    lastMs: startMs,
    count: 1,
  });
  await clock.advance(5000);
  tally.add(event({ requestId: "later" }));
  const [grown] = tally.due();
  assert.deepEqual(grown?.record, {
    ...event(),
    id: `${startMs}/1`,
    atMs: startMs,
    lastMs: startMs + 5000,
    count: 2,
  });
  await clock.advance(55_000);
  write();
  tally.add(event());
  assert.equal(tally.due()[0]?.record.id, `${startMs + 60_000}/2`);
});

test("what differs in anything but the request is another event", () => {
  const { tally } = setup({ perMinuteMax: 100, perHourMax: 100 });
  const others: Partial<AuditEvent>[] = [
    {},
    { action: "create_task" },
    { address: "192.0.2.2" },
    { code: "token_expired" },
    { outcome: "ok" },
    { target: "x" },
    { subject: "shop" },
    { tenantId: "acme" as TenantId },
    { homeTenantId: "acme" },
  ];
  for (const other of others) assert.notEqual(tally.add(event(other)), undefined);
  for (const other of others) assert.equal(tally.add(event(other)), undefined);
  assert.equal(tally.due().length, others.length);
});

test("beyond its room a minute counts the rest together, and the next has room again", async () => {
  const { clock, tally, write } = setup({ perHourMax: 1000 });
  for (let number = 0; number < 10; number += 1) tally.add(event({ address: `10.0.0.${number}` }));
  tally.add(event({ address: "10.0.0.1" }));
  await clock.advance(1000);
  const seen = ["get_task 10.0.0.0 1", "get_task 10.0.0.1 2", "get_task 10.0.0.2 1"];
  assert.deepEqual(write(), [...seen, "others  7"]);
  await clock.advance(59_000);
  assert.deepEqual(write(), []);
  tally.add(event({ address: "10.0.0.9" }));
  await clock.advance(1000);
  assert.deepEqual(write(), ["get_task 10.0.0.9 1"]);
});

test("an hour has room for so many, however they are spread", async () => {
  const { clock, tally, write } = setup();
  const written: string[] = [];
  for (let minute = 0; minute < 60; minute += 1) {
    tally.add(event({ address: `10.0.0.${minute}` }));
    await clock.advance(60_000);
    written.push(...write());
  }
  assert.equal(written.filter((line) => line.startsWith("get_task")).length, 5);
  assert.equal(written.filter((line) => line === "others  1").length, 55);
  tally.add(event({ address: "10.0.1.1" }));
  assert.equal(tally.due()[0]?.record.action, "get_task");
});

test("while nothing can be written memory does not grow, and nothing is lost count of", async () => {
  const { clock, tally, write } = setup({ perHourMax: 1000 });
  for (let minute = 0; minute < 30; minute += 1) {
    for (let number = 0; number < 10; number += 1) {
      tally.add(event({ address: `10.${minute}.0.${number}` }));
    }
    assert.ok(tally.due(true).length <= 4);
    await clock.advance(60_000);
  }
  const lines = write();
  assert.equal(lines.length, 4);
  const counted = lines.map((line) => Number(line.split(" ").at(-1)));
  assert.equal(
    counted.reduce((sum, count) => sum + count, 0),
    300,
  );
});

test("what grows while it is written is written again", async () => {
  const { clock, tally, dueInMs } = setup();
  tally.add(event());
  await clock.advance(60_000);
  const [due] = tally.due();
  assert.ok(due !== undefined);
  const { count } = due.record;
  tally.add(event());
  due.writtenCount = count;
  tally.settle();
  assert.equal(dueInMs(), 60_000);
  assert.equal(tally.due(true)[0]?.record.count, 2);
});
