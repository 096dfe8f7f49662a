import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId } from "@codeq/queue";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import { SamplingDecision, TraceIdRatioBasedSampler } from "@opentelemetry/sdk-trace";
import fc from "fast-check";
import { isOwnKept, ownContext, parentHeader, remoteContext } from "./task-trace.ts";

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

test("whether a trace of a task's own is kept is what the sampler of OpenTelemetry says", () => {
  for (const ratio of [0, 0.01, 0.5, 0.999, 1]) {
    const sampler = new TraceIdRatioBasedSampler(ratio);
    for (const uuid of fc.sample(fc.uuid(), { numRuns: 200, seed: 1 })) {
      const id = uuid as TaskId;
      const { decision } = sampler.shouldSample(ROOT_CONTEXT, ownContext({ id }).traceId);
      const isKept = decision === SamplingDecision.RECORD_AND_SAMPLED;
      assert.equal(isOwnKept({ id }, ratio), isKept, `${id} at ${ratio}`);
    }
  }
});
