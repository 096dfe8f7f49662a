import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { append } from "../test/log-contract.ts";
import { sealed } from "../test/sealed.ts";
import { added, changed, moved, removed, type Thing, thing, things } from "../test/things.ts";
import { GroupWriter, type Op, put, remove, Slab } from "./batch-codec.ts";
import { MemoryKv } from "./kv/memory-kv.ts";
import { alignBytes, headerBytes, recordTypes } from "./log/log.ts";
import { MemoryLog } from "./log/memory-log.ts";
import type { Overlay } from "./overlay.ts";
import { replay } from "./replay.ts";
import { type RowChange, recordOf } from "./row-codec.ts";

interface Body {
  readonly bytes: Buffer;
  readonly opCount: number;
}

const slab = new Slab();

function bodyOf(changes: readonly RowChange[], ops: readonly Op[] = []): Body {
  const writer = new GroupWriter(slab);
  for (const change of changes) {
    writer.addRow(things.idOf(change.after ?? (change.before as Thing)), change, things);
  }
  for (const op of ops) writer.add(op);
  const bytes = Buffer.from(writer.finish().subarray(headerBytes, headerBytes + writer.bodyBytes));
  return { bytes, opCount: writer.opCount };
}

/** What a log of these bodies makes of a kv that holds these rows. */
async function replayed(
  bodies: readonly Body[],
  stored: readonly Thing[] = [],
  contents: Map<string, Buffer> = new Map(),
): Promise<Overlay> {
  const log = new MemoryLog({ writer: 1, epoch: 1, shard: 0 });
  for (const { bytes, opCount } of bodies) {
    const buffer = Buffer.concat([Buffer.alloc(headerBytes), bytes, Buffer.alloc(alignBytes)]);
    const bodyBytes = bytes.length;
    await append(log, { buffer, bodyBytes, opCount, type: recordTypes.batches, timeMs: 0 });
  }
  for (const row of stored)
    contents.set(things.prefix + row.id, sealed(things.prefix + row.id, recordOf(row, things)));
  return replay({ log, kv: new MemoryKv({ contents }), rows: things }, 1);
}

function rowsOf(overlay: Overlay): unknown[] {
  return [...overlay.rows].map(([id, { row, below, born }]) => [id, below, row, born]);
}

describe("what fits", () => {
  test("a difference applies to the row in the overlay, or else in the kv", async () => {
    const [a, b] = [thing("a", "low", "stored"), thing("b", "low", "logged")];
    const [highA, highB] = [moved(a, "high"), moved(b, "high")];
    const overlay = await replayed([bodyOf([highA, added(b)]), bodyOf([highB])], [a]);
    assert.deepEqual(rowsOf(overlay), [
      ["a", a, highA.after, false],
      ["b", undefined, highB.after, true],
    ]);
    assert.equal(overlay.rows.get("b")?.index, 2);
  });

  test("what was deleted leaves what it was, or nothing when it was new", async () => {
    const [a, b] = [thing("a", "low"), thing("b", "low")];
    const bodies = [bodyOf([added(b), removed(a)]), bodyOf([removed(b)])];
    assert.deepEqual(rowsOf(await replayed(bodies, [a])), [["a", a, undefined, false]]);
    const again = [...bodies, bodyOf([added(changed(a, { note: "again" }))])];
    const [found] = rowsOf(await replayed(again, [a]));
    assert.deepEqual(found, ["a", a, changed(a, { note: "again" }), false]);
  });

  test("rows and other keys of a record are both there", async () => {
    const overlay = await replayed([bodyOf([added(thing("a", ""))], [put("k", "v"), remove("l")])]);
    assert.equal(overlay.entries.get("k")?.text, "v");
    assert.equal(overlay.entries.get("l")?.isDeleted, true);
    assert.equal(overlay.size, 3);
    assert.ok(overlay.bytes > 0);
  });
});

describe("what does not fit is damage, and the fault names the record", () => {
  const a = thing("a", "low");
  const second = { code: "corrupt", message: /^log record 2: / };
  const first = bodyOf([], [put("k", "v")]);

  test("a row that is changed or deleted and is not there", async () => {
    for (const change of [moved(a, "high"), removed(a)]) {
      await assert.rejects(replayed([first, bodyOf([change])]), second);
      const gone = bodyOf([removed(a)]);
      await assert.rejects(replayed([gone, bodyOf([change])], [a]), second);
    }
  });

  test("a row that is created and is there", async () => {
    await assert.rejects(replayed([bodyOf([added(a)]), bodyOf([added(a)])]), second);
  });

  test("a difference that was made of another state of the row", async () => {
    const later = moved(moved(a, "high").after, "top");
    await assert.rejects(replayed([first, bodyOf([later])], [a]), second);
  });

  test("a row in the kv that cannot be read: damaged, or of a foreign version", async () => {
    const good = recordOf(a, things);
    for (let at = 0; at < good.length; at += 1) {
      const damaged = Buffer.from(good);
      damaged[at] = (damaged[at] as number) ^ 0x40;
      for (const bytes of [damaged, good.subarray(0, at)]) {
        const contents = new Map([["t/a", bytes]]);
        const bodies = [first, bodyOf([moved(a, "high")])];
        await assert.rejects(replayed(bodies, [], contents), second);
      }
    }
  });

  test("a row that is written like other keys", async () => {
    await assert.rejects(replayed([first, bodyOf([], [put("t/a", "bytes")])]), second);
    await assert.rejects(replayed([first, bodyOf([], [remove("t/a")])]), second);
  });

  test("a body that has more or less ops than its header says, or a foreign version", async () => {
    const { bytes } = bodyOf([added(a)]);
    for (const opCount of [0, 2]) {
      await assert.rejects(replayed([first, { bytes, opCount }]), second);
    }
    bytes[0] = 2;
    const foreign = { code: "format", message: /^log record 2: .*version 2/ };
    await assert.rejects(replayed([first, { bytes, opCount: 1 }]), foreign);
  });
});

/** A history of a few rows, and the batches that lead through it. */
class History {
  readonly batches: RowChange[][] = [];
  /** Every state that a row ever had. */
  readonly states: Set<string> = new Set();
  readonly #rows: Map<string, Thing> = new Map();
  #last = 0;

  constructor(steps: readonly (readonly Step[])[]) {
    for (const each of steps) this.batches.push(each.flatMap((step) => this.#change(step)));
  }

  #change([name, what, text]: Step): RowChange[] {
    const before = this.#rows.get(name);
    if (what === "remove") {
      this.#rows.delete(name);
      return before === undefined ? [] : [removed(before)];
    }
    this.#last += 1;
    // An id does not come back.
    const fresh = thing(`${name}${this.#last}`, text);
    const after = before === undefined ? fresh : changed(before, { [what]: text });
    this.#rows.set(name, after);
    this.states.add(JSON.stringify(after));
    return [{ before, after }];
  }
}

type Step = readonly [name: string, what: "shelf" | "note" | "remove", text: string];
const step: fc.Arbitrary<Step> = fc.tuple(
  fc.constantFrom("a", "b", "c"),
  fc.constantFrom("shelf", "note", "remove"),
  fc.string({ maxLength: 6 }),
);
const history = fc
  .array(fc.array(step, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 5 })
  .map((steps) => new History(steps))
  .filter(({ batches }) => batches.some((batch) => batch.length > 0));

async function outcome(bodies: readonly Body[]): Promise<Overlay | "fault"> {
  try {
    return await replayed(bodies);
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    assert.ok(["corrupt", "format"].includes(code), String(error));
    assert.match(message, /^log record \d+: /);
    return "fault";
  }
}

describe("damage of any history is a fault, and never a wrong row", () => {
  test("a body that is cut short anywhere", async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(), fc.nat(), async ({ batches }, which, length) => {
        const bodies = batches.map((batch) => bodyOf(batch));
        const at = which % bodies.length;
        const { bytes, opCount } = bodies[at] as Body;
        if (opCount === 0) return;
        bodies[at] = { bytes: bytes.subarray(0, length % bytes.length), opCount };
        assert.equal(await outcome(bodies), "fault");
      }),
    );
  });

  test("changes, or whole records, that have changed places", async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(), fc.nat(), async ({ batches }, from, to) => {
        const flat = batches.flat();
        const sound = await replayed([bodyOf(flat)]);
        const swapped = [...flat];
        const [i, j] = [from % flat.length, to % flat.length];
        [swapped[i], swapped[j]] = [flat[j] as RowChange, flat[i] as RowChange];
        for (const bodies of [[bodyOf(swapped)], swapped.map((change) => bodyOf([change]))]) {
          const found = await outcome(bodies);
          // Changes of different rows may come in any order.
          if (found === "fault") continue;
          assert.deepEqual(rowsOf(found).sort(), rowsOf(sound).sort());
        }
      }),
    );
  });

  test("a change that is missing, or is there twice", async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(), async ({ batches }, which) => {
        const flat = batches.flat();
        const at = which % flat.length;
        const change = flat[at] as RowChange;
        const { id } = (change.after ?? change.before) as Thing;
        const next = flat.slice(at + 1).find(({ before }) => (before as Thing)?.id === id);
        const opCount = flat.length;
        const { bytes } = bodyOf(flat.toSpliced(at, 1));
        assert.equal(await outcome([{ bytes, opCount }]), "fault");
        assert.equal(await outcome([bodyOf(flat.toSpliced(at, 0, change))]), "fault");
        // A record that is missing is for the log to notice; what follows on it is noticed here.
        if (next?.after !== undefined)
          assert.equal(await outcome([bodyOf(flat.toSpliced(at, 1))]), "fault");
      }),
    );
  });

  test("any byte that is another one", async () => {
    await fc.assert(
      fc.asyncProperty(
        history,
        fc.nat(),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        async ({ batches, states }, which, position, flip) => {
          const bodies = batches.map((batch) => bodyOf(batch));
          const { bytes } = bodies[which % bodies.length] as Body;
          const at = position % bytes.length;
          bytes[at] = (bytes[at] as number) ^ flip;
          const found = await outcome(bodies);
          if (found === "fault") return;
          for (const { row } of found.rows.values()) {
            if (row !== undefined) assert.ok(states.has(JSON.stringify(row)), JSON.stringify(row));
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
