import assert from "node:assert/strict";
import { test } from "node:test";
import { sealed } from "../../test/sealed.ts";
import { sealedEnd, unseal } from "./checked-value.ts";
import { crc32c } from "./crc32c.ts";

test("a value comes back with its key only, and every flipped bit is found", () => {
  const stored = sealed("codeq/tasks/a", "what was written");
  assert.equal(unseal("codeq/tasks/a", stored).toString(), "what was written");
  assert.throws(() => unseal("codeq/tasks/b", stored), { code: "corrupt" });
  for (let bit = 0; bit < stored.length * 8; bit += 1) {
    const bytes = Buffer.from(stored);
    bytes[bit >>> 3] = (bytes[bit >>> 3] as number) ^ (1 << (bit & 7));
    assert.equal(sealedEnd("codeq/tasks/a", bytes), undefined);
  }
});

test("a value without room for a checksum is damaged; an empty one with it is not", () => {
  assert.equal(sealedEnd("a", Buffer.from("abc")), undefined);
  assert.equal(sealedEnd("a", sealed("a", "")), 0);
});

test("the checksum is the one of LevelDB, whatever the length", () => {
  assert.equal(crc32c(Buffer.from("123456789"), 0, 9), 0xe3069283);
  assert.equal(crc32c(Buffer.alloc(32), 0, 32), 0x8a9136aa);
  assert.equal(crc32c(Buffer.alloc(32, 0xff), 0, 32), 0x62a8ab43);
});
