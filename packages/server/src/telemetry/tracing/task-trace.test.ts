import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId } from "@codeq/queue";
import { SimRandom } from "../../../../simulated/src/index.ts";
import { TaskIds } from "../../core/task-ids.ts";
import { isInShare, ownContext, parentHeader, remoteContext } from "./task-trace.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";

test("a context that was sent is read with its decision and its state", () => {
  const traceParent = `00-${traceId}-${spanId}-01`;
  const sent = remoteContext({ traceParent, traceState: "vendor=1" });
  assert.deepEqual([sent?.traceId, sent?.spanId, sent?.traceFlags], [traceId, spanId, 1]);
  assert.equal(sent?.isRemote, true);
  assert.equal(sent?.traceState?.serialize(), "vendor=1");
  assert.equal(parentHeader(sent!), traceParent);
  const dropped = remoteContext({ traceParent: `00-${traceId}-${spanId}-00`, traceState: "" });
  assert.equal(dropped?.traceFlags, 0);
});

test("a context that means nothing is none", () => {
  const nothing = [
    undefined,
    "",
    "00",
    `ff-${traceId}-${spanId}-01`,
    `00-${"0".repeat(32)}-${spanId}-01`,
    `00-${traceId}-${"0".repeat(16)}-01`,
    `00-${traceId}-${spanId}-01-more`,
  ];
  for (const traceParent of nothing) {
    assert.equal(remoteContext({ traceParent, traceState: "" }), undefined, traceParent);
  }
});

test("a task without a context has a trace of its own, which follows from its id", () => {
  const id = "01991e2f-0000-7abc-9def-0123456789ab" as TaskId;
  const own = ownContext({ id });
  assert.equal(own.traceId, "01991e2f00007abc9def0123456789ab");
  assert.equal(own.spanId, "9def0123456789ab");
});

test("the share of the ids that are kept is the one asked for, by id of the task as by id of its trace", () => {
  const random = new SimRandom(1);
  const source = new TaskIds((bytes) => random.bytes(bytes));
  const ids = Array.from({ length: 20_000 }, () => source.next(1));
  for (const share of [0, 0.01, 0.5, 0.99, 1]) {
    const kept = ids.filter((id) => isInShare(id, share));
    const expected = ids.length * share;
    const deviation = Math.sqrt(expected * (1 - share));
    assert.ok(Math.abs(kept.length - expected) <= 6 * deviation, `${kept.length} at ${share}`);
    const byTrace = ids.filter((id) => isInShare(ownContext({ id }).traceId, share));
    assert.deepEqual(byTrace, kept);
  }
});
