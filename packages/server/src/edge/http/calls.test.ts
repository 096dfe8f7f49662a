/** TextDecoder is the oracle. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { bodyText } from "./calls.ts";

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // Not UTF-8.
    return undefined;
  }
}

test("bytes are text exactly when they are UTF-8, and nothing in it is replaced", () => {
  const bytes = [
    ...[[], [0x41], [0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82], [0xe2, 0x82, 0xac]],
    ...[
      [0xf0, 0x9f, 0x98, 0x80],
      [0xf4, 0x90, 0x80, 0x80],
      [0xef, 0xbf, 0xbd],
      [0xef, 0xbb, 0xbf],
    ],
    ...[[0xef, 0xbf, 0xbd, 0xff], [0x80], [0xc3], [0x00]],
  ];
  for (const each of bytes) {
    assert.equal(bodyText(Buffer.from(each)), decoded(Uint8Array.from(each)), String(each));
  }
});

test("any text comes back as it was, and any bytes as a strict decoder reads them", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      assert.equal(bodyText(Buffer.from(text)), text);
    }),
  );
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.uint8Array(), fc.nat(), (text, more, place) => {
      const whole = Buffer.from(text);
      const at = place % (whole.length + 1);
      const mixed = Buffer.concat([whole.subarray(0, at), more, whole.subarray(at)]);
      assert.equal(bodyText(mixed), decoded(mixed));
    }),
    { numRuns: 2000 },
  );
});
