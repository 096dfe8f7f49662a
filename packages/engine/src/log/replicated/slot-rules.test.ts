import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { recordTypes } from "../log.ts";
import { sharedRecordTypes } from "./shared-log.ts";
import {
  firstPosition,
  type LogPosition,
  type Meaning,
  parsePosition,
  positionText,
  readSlot,
  type StampedRecord,
  stamp,
} from "./slot-rules.ts";

const { takeover, heartbeat, handoff } = sharedRecordTypes;
const { batches } = recordTypes;

function record(fields: Partial<StampedRecord>): StampedRecord {
  const plain = { type: batches, shard: 0, epoch: 1, writer: 1, timeMs: 1, opCount: 1 };
  return { ...plain, body: Buffer.from("body"), ...fields };
}

/** Reads all records; what each means, and the position behind them. */
function readAll(
  records: readonly Uint8Array[],
  from: LogPosition = firstPosition,
): { meanings: Meaning["kind"][]; position: LogPosition } {
  const meanings: Meaning["kind"][] = [];
  let position = from;
  for (const bytes of records) {
    const reading = readSlot(position, bytes);
    meanings.push(reading.meaning.kind);
    position = reading.position;
    if (reading.meaning.kind === "diverged") break;
  }
  return { meanings, position };
}

/** A log as its writers stamped it, one after the other. */
function written(...records: readonly StampedRecord[]): Buffer[] {
  let position = firstPosition;
  return records.map((each) => {
    const bytes = stamp(each, position);
    const reading = readSlot(position, bytes);
    if (reading.meaning.kind !== "diverged") position = reading.position;
    return bytes;
  });
}

const start = record({ type: takeover, epoch: 1, writer: 7 });

describe("a record in a slot", () => {
  test("is live when it is of who leads", () => {
    const log = written(start, record({ writer: 7 }), record({ writer: 7, type: heartbeat }));
    const { meanings, position } = readAll(log);
    assert.deepEqual(meanings, ["live", "live", "live"]);
    assert.deepEqual(
      [position.slot, position.epoch, position.writer, position.index],
      [3, 1, 7, 1],
    );
  });

  test("is dead when its writer was deposed, however it got there", () => {
    const log = written(
      start,
      record({ type: takeover, epoch: 2, writer: 8 }),
      record({ epoch: 1, writer: 7 }),
      record({ epoch: 2, writer: 8 }),
    );
    const { meanings, position } = readAll(log);
    assert.deepEqual(meanings, ["live", "live", "dead", "live"]);
    assert.deepEqual([position.epoch, position.writer, position.index], [2, 8, 1]);
  });

  test("is dead when it was stamped for another slot", () => {
    const [first = Buffer.alloc(0)] = written(start);
    const behind = readSlot(firstPosition, first).position;
    const second = record({ writer: 7, body: Buffer.from("second") });
    // Two were on their way, and the one in between was lost.
    const lost = readSlot(behind, stamp(record({ writer: 7 }), behind)).position;
    assert.deepEqual(readAll([first, stamp(second, lost)]).meanings, ["live", "dead"]);
  });

  test("is dead when somebody else writes in the epoch of the leader", () => {
    assert.deepEqual(readAll(written(start, record({ writer: 8 }))).meanings, ["live", "dead"]);
  });

  test("of a takeover for an epoch that has been is dead", () => {
    const log = written(start, record({ type: takeover, epoch: 1, writer: 8 }));
    const { meanings, position } = readAll(log);
    assert.deepEqual(meanings, ["live", "dead"]);
    assert.equal(position.writer, 7);
  });

  test("stops the reader when it cannot follow what was read", () => {
    const other = readSlot(
      firstPosition,
      stamp(record({ writer: 5, type: takeover }), firstPosition),
    ).position;
    const stranger = stamp(record({ type: takeover, epoch: 2, writer: 8 }), other);
    const [first = Buffer.alloc(0)] = written(start);
    assert.deepEqual(readAll([first, stranger]).meanings, ["live", "diverged"]);
    const later = written(start, record({ epoch: 2, writer: 7 }));
    assert.deepEqual(readAll(later).meanings, ["live", "diverged"]);
    const skipped = written(start, record({ type: takeover, epoch: 3, writer: 7 }));
    assert.deepEqual(readAll(skipped).meanings, ["live", "diverged"]);
  });

  test("stops the reader when a single bit of it is wrong", () => {
    const [bytes = Buffer.alloc(0)] = written(start);
    for (let at = 0; at < bytes.length * 8; at += 7) {
      const damaged = Buffer.from(bytes);
      damaged[at >> 3] = (damaged[at >> 3] as number) ^ (1 << (at & 7));
      assert.equal(readSlot(firstPosition, damaged).meaning.kind, "diverged", `bit ${at}`);
    }
    for (const cut of [0, 63, bytes.length - 1]) {
      assert.equal(readSlot(firstPosition, bytes.subarray(0, cut)).meaning.kind, "diverged");
    }
  });
});

/** What writers may send, sound or not; a log without the compare would keep all of it. */
const anyRecord = fc.record({
  type: fc.constantFrom(batches, batches, takeover, heartbeat, handoff),
  epoch: fc.integer({ min: 1, max: 4 }),
  writer: fc.integer({ min: 1, max: 3 }),
  /** How many of the last slots its writer had not read. */
  behind: fc.constantFrom(0, 0, 0, 1, 2),
});

function anyLog(): fc.Arbitrary<Buffer[]> {
  return fc.array(anyRecord, { maxLength: 40 }).map((wanted) => {
    const positions = [firstPosition];
    return wanted.map(({ behind, ...fields }) => {
      const known = positions[Math.max(0, positions.length - 1 - behind)] as LogPosition;
      const bytes = stamp(record(fields), known);
      positions.push(readSlot(positions.at(-1) as LogPosition, bytes).position);
      return bytes;
    });
  });
}

describe("readers of one log", () => {
  test("come to the same position, wherever they stopped and began again", () => {
    fc.assert(
      fc.property(anyLog(), fc.nat(40), (log, stop) => {
        const whole = readAll(log);
        const first = readAll(log.slice(0, stop));
        if (first.meanings.includes("diverged")) return;
        const kept = parsePosition(
          positionText(first.position),
          first.position.index,
        ) as LogPosition;
        const rest = readAll(log.slice(stop), kept);
        assert.deepEqual([...first.meanings, ...rest.meanings], whole.meanings);
        assert.deepEqual(rest.position, whole.position);
      }),
    );
  });

  test("apply only what the leader of the epoch wrote, and never go back to an epoch", () => {
    fc.assert(
      fc.property(anyLog(), (log) => {
        let position = firstPosition;
        for (const bytes of log) {
          const { meaning, position: next } = readSlot(position, bytes);
          if (meaning.kind === "diverged") {
            assert.deepEqual(next, position);
            return;
          }
          assert.equal(next.slot, position.slot + 1);
          if (meaning.kind === "dead") {
            assert.deepEqual({ ...next, slot: 0, chain: 0 }, { ...position, slot: 0, chain: 0 });
          } else if (meaning.header.type === takeover) {
            assert.equal(next.epoch, position.epoch + 1);
          } else {
            assert.deepEqual([next.epoch, next.writer], [position.epoch, position.writer]);
          }
          position = next;
        }
      }),
    );
  });
});

test("what is no position is not read as one", () => {
  for (const text of [
    "",
    "1.2.3",
    "1.2.3.00",
    "a.1.2.0011223344556677",
    "1.2.3.00112233445566778",
  ]) {
    assert.equal(parsePosition(text, 1), undefined);
  }
});
