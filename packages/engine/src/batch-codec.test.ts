import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { added, moved, removed, thing, things } from "../test/things.ts";
import {
  create,
  decodeBody,
  GroupWriter,
  type Op,
  opKinds,
  put,
  remove,
  Slab,
  type Span,
} from "./batch-codec.ts";
import { alignBytes, headerBytes } from "./log/log.ts";
import type { Row, RowChange, RowCodec } from "./row-codec.ts";

function setup(): { slab: Slab; write: (ops: readonly Op[]) => GroupWriter } {
  const slab = new Slab();
  const write = (ops: readonly Op[]): GroupWriter => {
    const writer = new GroupWriter(slab);
    for (const op of ops) writer.add(op);
    return writer;
  };
  return { slab, write };
}

function bytesOf({ buffer, start, end }: Span): Buffer {
  return buffer.subarray(start, end);
}

function bodyOf(writer: GroupWriter): Buffer {
  const frame = writer.finish();
  return frame.subarray(headerBytes, headerBytes + writer.bodyBytes);
}

function decoded(body: Buffer): [number, string, string][] {
  return [...decodeBody(body)].map(({ kind, key, value }) => [
    kind,
    key,
    bytesOf(value).toString("hex"),
  ]);
}

function expected(ops: readonly Op[]): [number, string, string][] {
  return ops.map(({ kind, key, value }) => [
    kind,
    key,
    kind === opKinds.delete ? "" : Buffer.from(value as string).toString("hex"),
  ]);
}

const keyArbitrary = fc.string({ unit: "grapheme-ascii", maxLength: 300 });
const valueArbitrary = fc.oneof(
  fc.string({ unit: "binary", maxLength: 2000 }),
  fc.string({ unit: "grapheme" }),
  fc.uint8Array({ maxLength: 3000 }),
  fc.constantFrom("", "é€😀", "x".repeat(5000), new Uint8Array(0)),
);
const opArbitrary: fc.Arbitrary<Op> = fc.oneof(
  fc.tuple(keyArbitrary, valueArbitrary).map(([key, value]) => put(key, value)),
  fc.tuple(keyArbitrary, valueArbitrary).map(([key, value]) => create(key, value)),
  keyArbitrary.map((key) => remove(key)),
);

describe("writing and reading back", () => {
  test("any ops come back as they went in, group after group in one slab", () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(opArbitrary, { maxLength: 30 }), { maxLength: 8 }),
        (groups) => {
          const { write } = setup();
          const bodies = groups.map((ops) => bodyOf(write(ops)));
          // All groups are written before any is read: none may have written over another.
          groups.forEach((ops, at) => {
            assert.deepEqual(decoded(bodies[at]!), expected(ops));
          });
        },
      ),
      { numRuns: 200 },
    );
  });

  test("what the writer says of the last value is that value, also after it has moved on", () => {
    const { slab } = setup();
    const writer = new GroupWriter(slab);
    const spans: Span[] = [];
    const values = ["", "a", "é".repeat(3000), "b".repeat(2_000_000), "c"];
    for (const [at, value] of values.entries()) {
      writer.add(put(`k${at}`, value));
      spans.push({ ...writer.last });
    }
    assert.deepEqual(
      spans.map((span) => bytesOf(span).toString()),
      values,
    );
  });

  test("values larger than a slab, and groups that grow past it, are whole", () => {
    const { write } = setup();
    const ops = [
      put("small", "x"),
      create("large", Buffer.alloc(3 * 1024 * 1024, 7)),
      put("text", "€".repeat(600_000)),
      remove("small"),
    ];
    assert.deepEqual(decoded(bodyOf(write(ops))), expected(ops));
  });

  test("half of a surrogate pair is stored as the replacement character, never as damage", () => {
    const { write } = setup();
    const [op] = [...decodeBody(bodyOf(write([put("k", "a\ud800b\udc00")])))];
    assert.equal(bytesOf(op!.value).toString(), "a\ufffdb\ufffd");
  });

  test("a group without ops is a body of its version alone", () => {
    const { write } = setup();
    const writer = write([]);
    assert.equal(writer.opCount, 0);
    assert.equal(writer.bodyBytes, 1);
    assert.deepEqual(decoded(bodyOf(writer)), []);
  });

  test("a frame starts with room for the header and ends with zeros up to the alignment", () => {
    const { slab } = setup();
    for (let length = 0; length < 200; length += 1) {
      // The memory is dirty from whoever used it before.
      const free = slab.free(4096);
      free.buffer.fill(0xee, free.start);
      const writer = new GroupWriter(slab);
      writer.add(put("k", "x".repeat(length)));
      const frame = writer.finish();
      assert.equal(frame.length % alignBytes, 0);
      assert.ok(frame.length - headerBytes - writer.bodyBytes < alignBytes);
      assert.ok(frame.subarray(headerBytes + writer.bodyBytes).every((byte) => byte === 0));
      assert.equal(writer.finish(), frame);
    }
  });

  test("small groups share memory, and a finished one is never written over", () => {
    const { write } = setup();
    const groups = Array.from({ length: 500 }, (_, n) => {
      const writer = write([put(`key ${n}`, `value ${n}`)]);
      return { n, frame: writer.finish(), bodyBytes: writer.bodyBytes };
    });
    assert.equal(new Set(groups.map(({ frame }) => frame.buffer)).size, 1);
    for (const { n, frame, bodyBytes } of groups) {
      const [op] = [...decodeBody(frame.subarray(headerBytes, headerBytes + bodyBytes))];
      assert.equal(bytesOf(op!.value).toString(), `value ${n}`);
    }
  });
});

describe("rows", () => {
  const low = thing("a", "low", "note");
  const kinds = [
    [added(low), opKinds.rowCreated, low],
    [moved(low, "high"), opKinds.rowChanged, moved(low, "high").after],
    [removed(low), opKinds.rowDeleted, undefined],
  ] as const;

  function bodyWith(changes: readonly RowChange[], codec: RowCodec = things): Buffer {
    const writer = new GroupWriter(new Slab());
    for (const change of changes) writer.addRow("a", change, codec);
    assert.equal(writer.opCount, changes.length);
    return Buffer.from(bodyOf(writer));
  }

  test("each kind comes back with its id, and with what the codec wrote", () => {
    const ops = [...decodeBody(bodyWith(kinds.map(([change]) => change)))];
    for (const [at, [change, kind, row]] of kinds.entries()) {
      const { value, ...op } = ops[at]!;
      assert.deepEqual(op, { kind, key: "a" });
      if (row === undefined) assert.equal(value.start, value.end);
      const { buffer, start, end } = value;
      const before = change.before as Row | undefined;
      assert.deepEqual(things.read(buffer, start, end, "a", before), row);
    }
  });

  test("rows and other ops come in the order they were added, also past the end of a slab", () => {
    const writer = new GroupWriter(new Slab());
    const large = thing("a", "low", "é".repeat(20_000));
    for (let n = 0; n < 60; n += 1) {
      writer.addRow(`a${n}`, { before: undefined, after: { ...large, id: `a${n}` } }, things);
      writer.add(put(`k${n}`, `v${n}`));
    }
    const ops = [...decodeBody(bodyOf(writer))];
    for (let n = 0; n < 60; n += 1) {
      const { buffer, start, end } = ops[n * 2]!.value;
      const id = `a${n}`;
      assert.deepEqual(things.read(buffer, start, end, id, undefined), { ...large, id });
      assert.equal(bytesOf(ops[n * 2 + 1]!.value).toString(), `v${n}`);
    }
  });

  test("a body that ends anywhere inside a row of any kind is corrupt", () => {
    for (const [change] of kinds) {
      const body = bodyWith([change]);
      for (let length = 2; length < body.length; length += 1) {
        assert.throws(() => [...decodeBody(body.subarray(0, length))], { code: "corrupt" });
      }
    }
  });

  test("a kind that nobody knows is corrupt", () => {
    const body = bodyWith([added(low)]);
    for (const kind of [0, 7, 255]) {
      body[1] = kind;
      assert.throws(() => [...decodeBody(body)], { code: "corrupt" });
    }
  });

  test("an id or a row that takes more room than it may is a bug that shows at once", () => {
    const writer = new GroupWriter(new Slab());
    assert.throws(() => writer.addRow("i".repeat(256), added(low), things));
    writer.addRow("i".repeat(255), added(low), things);
    const greedy = { ...things, bytesMaxOf: () => 5 };
    assert.throws(() => bodyWith([added(low)], greedy), { code: "ERR_ASSERTION" });
  });

  test("what could not be added leaves the group as it was", () => {
    const writer = new GroupWriter(new Slab());
    writer.add(put("k", "v"));
    const failing: RowCodec = {
      ...things,
      write: () => {
        throw new Error("no row of mine");
      },
    };
    assert.throws(() => writer.addRow("a", added(low), failing), /no row of mine/);
    assert.equal(writer.opCount, 1);
    assert.equal([...decodeBody(bodyOf(writer))].length, 1);
  });
});

describe("damage", () => {
  test("a body of another version is refused by name", () => {
    assert.throws(() => [...decodeBody(Buffer.from([9]))], {
      code: "format",
      message: /version 9/,
    });
    assert.throws(() => [...decodeBody(Buffer.alloc(0))], { code: "format" });
  });

  test("a body that ends anywhere inside an op is corrupt", () => {
    const { write } = setup();
    const body = Buffer.from(
      bodyOf(write([put("key", "value"), remove("other"), create("c", "")])),
    );
    const ends = new Set([1, 1 + 7 + 3 + 5, 1 + 15 + 3 + 5, body.length]);
    for (let length = 1; length <= body.length; length += 1) {
      const part = body.subarray(0, length);
      if (ends.has(length)) assert.doesNotThrow(() => [...decodeBody(part)]);
      else assert.throws(() => [...decodeBody(part)], { code: "corrupt" }, `${length} bytes`);
    }
  });

  test("any damage is either refused as such or still gives ops inside the body", () => {
    fc.assert(
      fc.property(
        fc.array(opArbitrary, { minLength: 1, maxLength: 6 }),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (ops, position, flip) => {
          const body = Buffer.from(bodyOf(setup().write(ops)));
          const at = position % body.length;
          body[at] = (body[at] as number) ^ flip;
          try {
            for (const { value } of decodeBody(body)) assert.ok(value.end <= body.length);
          } catch (error) {
            assert.ok(
              ["corrupt", "format"].includes((error as { code: string }).code),
              String(error),
            );
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

test("a key that does not fit its length field is a bug that shows at once", () => {
  const { write } = setup();
  assert.throws(() => write([put("k".repeat(65_536), "")]));
  write([put("k".repeat(65_535), "")]);
});
