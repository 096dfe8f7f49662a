/**
 * What every `Log` does, written as tests. `open` starts from nothing; `reopen` closes the log and
 * opens it again as the next process would. Small segments show more of a log that has them.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  alignBytes,
  appendsInFlightMax,
  type Frame,
  headerBytes,
  type Log,
  recordTypes,
} from "../src/log/log.ts";

type Open = () => Promise<{ readonly log: Log; reopen(): Promise<Log> }>;

export function logContract(name: string, open: Open): void {
  describe(`${name} is a Log`, () => {
    describeAppend(open);
    describeOverlap(open);
    describeReading(open);
    describeReopening(open);
    describeTrim(open);
    describeClose(open);
  });
}

/** A frame around a body, with dirt where the log puts the header and the padding. */
export function frameOf(body: Uint8Array | string, fields: Partial<Frame> = {}): Frame {
  const bytes = Buffer.from(body);
  const room = Math.ceil((headerBytes + bytes.length) / alignBytes) * alignBytes;
  const buffer = Buffer.alloc(room, 0xee);
  buffer.set(bytes, headerBytes);
  const plain = { opCount: 1, type: recordTypes.batches, timeMs: 1_700_000_000_000 };
  return { buffer, bodyBytes: bytes.length, ...plain, ...fields };
}

/** Appends, and waits for what becomes of it. */
export function append(log: Log, frame: Frame): Promise<number> {
  return new Promise((resolve, reject) => {
    log.append(frame, (fault, index) => (fault === undefined ? resolve(index) : reject(fault)));
  });
}

/** The bodies of the records from `index` on, as text. */
export async function bodiesFrom(log: Log, index: number): Promise<string[]> {
  const bodies: string[] = [];
  let expected = index;
  for await (const record of log.readFrom(index)) {
    assert.equal(record.index, expected);
    expected += 1;
    bodies.push(record.body.toString());
  }
  return bodies;
}

function bodyOf(index: number): string {
  return `record ${index} `.padEnd(10 + ((index * 37) % 150), "x");
}

async function appendMany(log: Log, count: number): Promise<string[]> {
  const bodies: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const body = bodyOf(log.lastIndex + 1);
    await append(log, frameOf(body));
    bodies.push(body);
  }
  return bodies;
}

function describeAppend(open: Open): void {
  test("a new log is empty and starts at index 1", async () => {
    const { log } = await open();
    assert.deepEqual([log.firstIndex, log.lastIndex], [1, 0]);
    assert.deepEqual(await bodiesFrom(log, 1), []);
    await log.close();
  });

  test("records get consecutive indexes and are read back in order", async () => {
    const { log } = await open();
    for (const expected of [1, 2, 3]) {
      assert.equal(await append(log, frameOf(`body ${expected}`)), expected);
      assert.equal(log.lastIndex, expected);
    }
    assert.equal(log.firstIndex, 1);
    assert.ok(log.bytes >= 3 * alignBytes);
    assert.deepEqual(await bodiesFrom(log, 1), ["body 1", "body 2", "body 3"]);
    await log.sync();
    await log.close();
  });

  test("every field of a frame comes back, and the writer's own with it", async () => {
    const { log } = await open();
    await append(log, frameOf("x", { opCount: 77, type: 9, timeMs: Number.MAX_SAFE_INTEGER }));
    for await (const { body, ...fields } of log.readFrom(1)) {
      assert.equal(body.toString(), "x");
      const own = { writer: 11, epoch: 2 ** 40 + 3, shard: 5 };
      const given = { index: 1, opCount: 77, type: 9, timeMs: Number.MAX_SAFE_INTEGER };
      assert.deepEqual(fields, { ...own, ...given });
    }
    await log.close();
  });

  test("bodies of every length around the alignment keep their bytes", async () => {
    const { log, reopen } = await open();
    const lengths = [0, 1, 63, 64, 65, 127, 128, 129];
    for (const length of lengths) await append(log, frameOf("y".repeat(length)));
    const expected = lengths.map((length) => "y".repeat(length));
    assert.deepEqual(await bodiesFrom(log, 1), expected);
    const again = await reopen();
    assert.deepEqual(await bodiesFrom(again, 1), expected);
    await again.close();
  });
}

function describeOverlap(open: Open): void {
  test("appends overlap as far as there is room, and are told of in their order", async () => {
    const { log, reopen } = await open();
    const told: number[] = [];
    const bodies: string[] = [];
    let mostInFlight = 0;
    while (bodies.length < 60) {
      do {
        const body = bodyOf(bodies.length + 1);
        bodies.push(body);
        log.append(frameOf(body), (fault, index) => {
          assert.equal(fault, undefined);
          assert.ok(log.lastIndex >= index, "what was told of is part of the log");
          told.push(index);
        });
        mostInFlight = Math.max(mostInFlight, bodies.length - told.length);
      } while (log.canAppend);
      const ends = bodies.length % 3 === 0 ? bodies.length : told.length + 1;
      while (told.length < ends || !log.canAppend) await new Promise(setImmediate);
    }
    while (told.length < bodies.length) await new Promise(setImmediate);
    assert.equal(mostInFlight, appendsInFlightMax);
    assert.deepEqual(
      told,
      bodies.map((_, at) => at + 1),
    );
    assert.deepEqual(await bodiesFrom(log, 1), bodies);
    const again = await reopen();
    assert.deepEqual(await bodiesFrom(again, 1), bodies);
    await again.close();
  });

  test("closing waits for every append that is under way", async () => {
    const { log, reopen } = await open();
    await append(log, frameOf("first"));
    const under = [append(log, frameOf("a")), append(log, frameOf("b"))];
    const again = await reopen();
    assert.deepEqual(await Promise.all(under), [2, 3]);
    assert.deepEqual(await bodiesFrom(again, 1), ["first", "a", "b"]);
    await again.close();
  });
}

function describeReading(open: Open): void {
  test("reading starts at any index and is empty behind the last record", async () => {
    const { log } = await open();
    const bodies = await appendMany(log, 40);
    for (const index of [1, 2, 17, 40, 41]) {
      assert.deepEqual(await bodiesFrom(log, index), bodies.slice(index - 1));
    }
    await log.close();
  });

  test("a reader sees the records up to the time of its call, also while others follow", async () => {
    const { log } = await open();
    const bodies = await appendMany(log, 20);
    const records = log.readFrom(1);
    await appendMany(log, 5);
    const seen: string[] = [];
    for await (const record of records) {
      seen.push(record.body.toString());
      await appendMany(log, 1);
    }
    assert.deepEqual(seen, bodies);
    assert.equal(log.lastIndex, 45);
    await log.close();
  });
}

function describeReopening(open: Open): void {
  test("everything is there after reopening, and the index goes on", async () => {
    const { log, reopen } = await open();
    const bodies = await appendMany(log, 30);
    const again = await reopen();
    assert.deepEqual([again.firstIndex, again.lastIndex], [1, 30]);
    assert.deepEqual(await bodiesFrom(again, 1), bodies);
    bodies.push(...(await appendMany(again, 30)));
    assert.equal(again.lastIndex, 60);
    assert.deepEqual(await bodiesFrom(again, 1), bodies);
    await again.close();
  });
}

function describeTrim(open: Open): void {
  test("trimming may remove what lies below the index, and nothing else", async () => {
    const { log, reopen } = await open();
    const bodies = await appendMany(log, 60);
    await log.trim(41);
    assert.ok(log.firstIndex > 1 && log.firstIndex <= 41, `starts at ${log.firstIndex}`);
    assert.deepEqual(await bodiesFrom(log, 41), bodies.slice(40));
    assert.deepEqual(await bodiesFrom(log, log.firstIndex), bodies.slice(log.firstIndex - 1));
    const { firstIndex } = log;
    const again = await reopen();
    assert.equal(again.firstIndex, firstIndex);
    bodies.push(...(await appendMany(again, 60)));
    assert.deepEqual(await bodiesFrom(again, 41), bodies.slice(40));
    await again.close();
  });

  test("a log that was trimmed completely goes on with the next index", async () => {
    const { log, reopen } = await open();
    await appendMany(log, 50);
    await log.trim(51);
    await log.trim(99);
    assert.equal(log.lastIndex, 50);
    assert.deepEqual(await bodiesFrom(log, 51), []);
    const again = await reopen();
    assert.equal(again.lastIndex, 50);
    assert.equal(await append(again, frameOf("next")), 51);
    assert.deepEqual(await bodiesFrom(again, 51), ["next"]);
    await again.close();
  });

  test("records that were removed are refused, not skipped", async () => {
    const { log } = await open();
    await appendMany(log, 60);
    await log.trim(60);
    await assert.rejects(bodiesFrom(log, 1), { code: "corrupt" });
    await log.close();
  });
}

function describeClose(open: Open): void {
  test("a closed log refuses every call, and closing again does nothing", async () => {
    const { log } = await open();
    await append(log, frameOf("x"));
    await log.close();
    await log.close();
    await assert.rejects(append(log, frameOf("y")), { code: "closed" });
    await assert.rejects(log.sync(), { code: "closed" });
    await assert.rejects(log.trim(1), { code: "closed" });
    await assert.rejects(bodiesFrom(log, 1), { code: "closed" });
  });
}
