import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryLogServer } from "./memory-shared-log.ts";
import { sharedLogContract } from "./shared-log-contract.ts";

sharedLogContract("MemorySharedLog", async () => {
  const server = new MemoryLogServer(7);
  return { connect: async () => server.connect(), [Symbol.asyncDispose]: async () => {} };
});

test("says that it does not know when an answer is lost", async () => {
  const server = new MemoryLogServer(7);
  const log = server.connect(async (there) => {
    there();
    throw new Error("lost");
  });
  const answer = await log.append(Buffer.from("one"), 1);
  assert.deepEqual(answer, { kind: "unknown", why: "lost" });
  assert.equal(server.bounds.last, 1);
  await assert.rejects(log.read(1), { code: "storage_failed" });
});

test("takes nothing more when it is full", async () => {
  const server = new MemoryLogServer(7);
  server.bytesMax = 5;
  const log = server.connect();
  assert.equal((await log.append(Buffer.from("one"), 1)).kind, "kept");
  assert.equal((await log.append(Buffer.from("two"), 2)).kind, "full");
  assert.equal((await log.append(Buffer.from("2"), 2)).kind, "kept");
});
