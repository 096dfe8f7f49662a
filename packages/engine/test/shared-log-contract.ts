/** What every shared log does, written as tests. `connect` opens another handle to the same log. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { SharedLog } from "../src/log/replicated/shared-log.ts";

export interface OpenedSharedLog extends AsyncDisposable {
  connect(): Promise<SharedLog>;
}

type Open = () => Promise<OpenedSharedLog>;

export function sharedLogContract(name: string, open: Open): void {
  describe(`${name} is a SharedLog`, () => {
    test("keeps a record in the slot behind the last one", async () => {
      await using opened = await open();
      const log = await opened.connect();
      assert.deepEqual(await log.bounds(), { first: 1, last: 0 });
      assert.deepEqual(await log.append(bytes("one"), 1), { kind: "kept" });
      assert.deepEqual(await log.append(bytes("two"), 2), { kind: "kept" });
      assert.deepEqual(await log.bounds(), { first: 1, last: 2 });
      assert.deepEqual(await texts(log, 1), ["one", "two"]);
    });

    test("refuses a record for a slot that is taken, and one behind a slot that is free", async () => {
      await using opened = await open();
      const log = await opened.connect();
      await log.append(bytes("one"), 1);
      assert.equal((await log.append(bytes("other"), 1)).kind, "fenced");
      assert.match((await log.append(bytes("other"), 3)).kind, /^(lost|fenced)$/);
      assert.deepEqual(await texts(log, 1), ["one"]);
    });

    test("gives a slot to one of those who want it at the same time", async () => {
      await using opened = await open();
      const logs = await Promise.all([opened.connect(), opened.connect(), opened.connect()]);
      for (let slot = 1; slot <= 5; slot++) {
        const answers = await Promise.all(logs.map((log, at) => log.append(bytes(`${at}`), slot)));
        const kept = answers.flatMap(({ kind }, at) => (kind === "kept" ? [`${at}`] : []));
        assert.equal(kept.length, 1);
        assert.deepEqual(await texts(logs[0] as SharedLog, slot), kept);
      }
    });

    test("takes a repeat of the same bytes for the same slot without keeping them twice", async () => {
      await using opened = await open();
      const log = await opened.connect();
      const both = await Promise.all([log.append(bytes("one"), 1), log.append(bytes("one"), 1)]);
      assert.ok(both.some(({ kind }) => kind === "kept"));
      assert.ok(both.every(({ kind }) => kind === "kept" || kind === "fenced"));
      assert.deepEqual(await texts(log, 1), ["one"]);
    });

    test("never answers about its end with less than what was acknowledged", async () => {
      await using opened = await open();
      const logs = await Promise.all([opened.connect(), opened.connect(), opened.connect()]);
      for (let slot = 1; slot <= 40; slot++) {
        const [writer, ...others] = [...logs.slice(slot % 3), ...logs.slice(0, slot % 3)];
        assert.deepEqual(await writer?.append(bytes(`${slot}`), slot), { kind: "kept" });
        for (const { last } of await Promise.all(others.map((log) => log.bounds()))) {
          assert.equal(last, slot);
        }
        // A server that is behind returns nothing only as long as the log is not known to be longer.
        assert.deepEqual(await texts(others[0] as SharedLog, slot), [`${slot}`]);
      }
    });

    test("answers with nothing for a slot that is still free", async () => {
      await using opened = await open();
      const log = await opened.connect();
      assert.deepEqual(await log.read(1), []);
      await log.append(bytes("one"), 1);
      assert.deepEqual(await log.read(2), []);
      assert.deepEqual(await log.read(20), []);
    });

    test("reads any number of records, in pieces and in order", async () => {
      await using opened = await open();
      const [log, reader] = await Promise.all([opened.connect(), opened.connect()]);
      const expected = Array.from({ length: 400 }, (_, at) => `record ${at}`);
      for (const [at, text] of expected.entries()) await log.append(bytes(text), at + 1);
      assert.deepEqual(await texts(log, 1), expected);
      assert.deepEqual(await texts(log, 399), expected.slice(398));
      assert.equal(log.hasMore(400), false);
      // An end that was not told how long the log is; its server may be behind.
      let read: readonly string[] = [];
      while (read.length < expected.length) read = await texts(reader, 1);
      const piece = await reader.read(1);
      assert.equal(reader.hasMore(piece.length), piece.length < expected.length);
    });

    test("keeps records of any bytes, also large ones", async () => {
      await using opened = await open();
      const log = await opened.connect();
      const large = Buffer.alloc(900_000, 0);
      for (let at = 0; at < large.length; at++) large[at] = at % 251;
      for (let slot = 1; slot <= 8; slot++) await log.append(large, slot);
      let slot = 1;
      while (slot <= 8) {
        const records = await log.read(slot);
        assert.ok(records.length > 0);
        for (const record of records) assert.ok(large.equals(record));
        slot += records.length;
      }
    });

    test("gives up what is below a slot, and never the last record", async () => {
      await using opened = await open();
      const log = await opened.connect();
      for (let slot = 1; slot <= 5; slot++) await log.append(bytes(`${slot}`), slot);
      await log.trim(4);
      assert.deepEqual(await log.bounds(), { first: 4, last: 5 });
      await assert.rejects(log.read(3), { code: "behind" });
      assert.deepEqual(await texts(log, 4), ["4", "5"]);
      await log.trim(100);
      assert.deepEqual(await log.bounds(), { first: 5, last: 5 });
      await log.trim(2);
      assert.equal((await log.append(bytes("6"), 6)).kind, "kept");
      assert.deepEqual(await texts(log, 5), ["5", "6"]);
    });

    test("notifies the others", async () => {
      await using opened = await open();
      const [one, other] = await Promise.all([opened.connect(), opened.connect()]);
      const next = (): Promise<string> =>
        new Promise((resolve) => {
          other.onNotice = resolve;
        });
      // A log may begin with a notice of its own, when it can hear of changes.
      let heard = next();
      await other.bounds();
      await one.append(bytes("one"), 1);
      one.notify();
      assert.equal(await heard, "");
      heard = new Promise((resolve) => {
        other.onNotice = (text) => {
          if (text !== "") resolve(text);
        };
      });
      one.notify("a text");
      assert.equal(await heard, "a text");
    });

    test("has the same id for all who open it", async () => {
      await using opened = await open();
      const [one, other] = await Promise.all([opened.connect(), opened.connect()]);
      assert.ok(one.logId > 0);
      assert.equal(one.logId, other.logId);
      assert.ok(one.recordBytesMax > 900_000);
    });
  });
}

const bytes = (text: string): Buffer => Buffer.from(text);

async function texts(log: SharedLog, from: number): Promise<string[]> {
  const found: string[] = [];
  for (;;) {
    const records = await log.read(from + found.length);
    if (records.length === 0) return found;
    for (const record of records) found.push(Buffer.from(record).toString());
  }
}
