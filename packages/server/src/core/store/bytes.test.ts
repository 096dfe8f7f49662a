import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  ByteReader,
  DamagedBytes,
  numberBytesMax,
  textExtraBytes,
  unitBytesMax,
  writeNumber,
  writeText,
} from "./bytes.ts";

/** What the writer makes, in a buffer that has exactly the room that is asked for, and more around it. */
function written(room: number, write: (buffer: Buffer, at: number) => number): Buffer {
  const around = 7;
  const buffer = Buffer.alloc(room + 2 * around, 0xa5);
  const end = write(buffer, around);
  assert.ok(end - around <= room, `${end - around} bytes instead of ${room}`);
  const untouched = [...buffer.subarray(0, around), ...buffer.subarray(around + room)];
  assert.ok(untouched.every((byte) => byte === 0xa5));
  return buffer.subarray(around, end);
}

const numberBytes = (value: number): Buffer =>
  written(numberBytesMax, (buffer, at) => writeNumber(buffer, at, value));

const textBytes = (text: string): Buffer =>
  written(textExtraBytes + text.length * unitBytesMax, (buffer, at) => writeText(buffer, at, text));

function reader(bytes: Buffer): ByteReader {
  return new ByteReader(bytes, 0, bytes.length);
}

/** Reads all of it. */
function readWith<T>(bytes: Buffer, read: (from: ByteReader) => T): T {
  const from = reader(bytes);
  const value = read(from);
  assert.ok(from.isAtEnd);
  return value;
}

test("a number comes back as it was, up to the largest there is, in as few bytes as it needs", () => {
  const edges = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32];
  const powers = Array.from({ length: 53 }, (_, bits) => 2 ** bits);
  for (const value of [...edges, ...powers, ...powers.map((each) => each - 1), 2 ** 53 - 1]) {
    const bytes = numberBytes(value);
    assert.equal(
      readWith(bytes, (from) => from.number()),
      value,
    );
    const bits = value === 0 ? 1 : value.toString(2).length;
    assert.equal(bytes.length, Math.ceil(bits / 7));
  }
  fc.assert(
    fc.property(fc.maxSafeNat(), (value) => {
      assert.equal(
        readWith(numberBytes(value), (from) => from.number()),
        value,
      );
    }),
  );
});

test("a number that no number can hold is damage", () => {
  const tooLarge = [
    Buffer.from("ffffffffffffff10", "hex"),
    Buffer.from("8080808080808010", "hex"),
    Buffer.from("ffffffffffffffff01", "hex"),
    Buffer.alloc(20, 0x80),
    Buffer.alloc(20, 0xff),
  ];
  for (const bytes of tooLarge) assert.throws(() => reader(bytes).number(), DamagedBytes);
});

test("a text comes back as it was, whatever it is made of", () => {
  const unit = fc.constantFrom(
    "a",
    "\u007f",
    "\u0080",
    "\u07ff",
    "\u0800",
    "\uffff",
    "\ud83d\ude00",
  );
  const halves = fc.constantFrom("a", "\ud800", "\udfff", "é");
  const anyText = fc.oneof(
    fc.string({ unit: "binary", maxLength: 100 }),
    fc.string({ unit, maxLength: 300 }),
    fc.string({ unit: halves, maxLength: 60 }),
  );
  fc.assert(
    fc.property(anyText, (text) => {
      assert.equal(
        readWith(textBytes(text), (from) => from.text()),
        text,
      );
    }),
    { numRuns: 1000 },
  );
});

test("texts around the length at which the form changes come back, of units of any size", () => {
  for (const unit of ["a", "é", "€", "\ud83d\ude00", "\ud800", "\udc00"]) {
    for (let count = 0; count <= 130; count += 1) {
      for (const text of [unit.repeat(count), `${"a".repeat(count)}${unit}`]) {
        assert.equal(
          readWith(textBytes(text), (from) => from.text()),
          text,
        );
      }
    }
  }
  const long = "€".repeat(100_000);
  assert.equal(
    readWith(textBytes(long), (from) => from.text()),
    long,
  );
});

test("a short text has one byte in front, a long one five", () => {
  assert.equal(textBytes("").toString("hex"), "00");
  assert.equal(textBytes("ab").toString("hex"), "026162");
  assert.equal(textBytes("€".repeat(42)).length, 1 + 126);
  assert.equal(textBytes("€".repeat(43)).length, 5 + 129);
  assert.equal(textBytes("a".repeat(43)).length, 5 + 43);
});

test("whatever is cut off is noticed", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 60 }), fc.maxSafeNat(), (text, number) => {
      const [texts, numbers] = [textBytes(text), numberBytes(number)];
      for (let end = 0; end < texts.length; end += 1) {
        assert.throws(() => new ByteReader(texts, 0, end).text(), DamagedBytes);
      }
      for (let end = 0; end < numbers.length; end += 1) {
        assert.throws(() => new ByteReader(numbers, 0, end).number(), DamagedBytes);
      }
    }),
  );
});

test("nothing is read beyond the end, though the buffer goes on", () => {
  const bytes = Buffer.from("05616263646566", "hex");
  assert.equal(new ByteReader(bytes, 0, 6).text(), "abcde");
  assert.throws(() => new ByteReader(bytes, 0, 5).text(), DamagedBytes);
  assert.throws(() => new ByteReader(bytes, 3, 3).byte(), DamagedBytes);
  const long = Buffer.from("ff05000000616263646566", "hex");
  assert.throws(() => new ByteReader(long, 0, 9).text(), DamagedBytes);
  assert.throws(() => new ByteReader(long, 0, 3).text(), DamagedBytes);
});

test("any bytes are read or are damage, and nothing else happens", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (array) => {
      for (const read of [
        (from: ByteReader) => from.text(),
        (from: ByteReader) => from.number(),
        (from: ByteReader) => from.byte(),
      ]) {
        const from = reader(Buffer.from(array));
        try {
          while (!from.isAtEnd) read(from);
        } catch (error) {
          assert.ok(error instanceof DamagedBytes);
        }
      }
    }),
  );
});
