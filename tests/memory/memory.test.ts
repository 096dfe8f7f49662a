/** The short form of `npm run memory`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fillAndDrain } from "./fill-and-drain.ts";
import { memoryGroup } from "./memory-group.ts";

const mebibyte = 1024 * 1024;
const tasks = 200_000;
/** Machines with two cores were seen to take 394 to 423 MB, the faster the more. */
const limitBytes = 512 * mebibyte;

test("a queue that fills and drains takes a bounded amount of memory", {
  skip: process.platform !== "linux" && "memory is read from /proc",
}, async (t) => {
  const made = memoryGroup(limitBytes);
  const group = "why" in made ? undefined : made;
  if ("why" in made) t.diagnostic(`without a control group: ${made.why}`);
  t.after(() => group?.remove());
  const report = await fillAndDrain({
    tasks,
    payloadBytes: 100,
    durability: "os",
    group,
    onProgress: () => {},
  });
  const most = Math.max(report.filling.own, report.draining.own);
  t.diagnostic(`${Math.round(most / mebibyte)} MB`);
  assert.equal(report.ended, undefined);
  assert.equal(report.completed, tasks);
  assert.ok(most > 0 && most < limitBytes, `it held ${Math.round(most / mebibyte)} MB`);
});
