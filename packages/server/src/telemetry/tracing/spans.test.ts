import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import { SimClock, settle } from "../../../../simulated/src/index.ts";
import { SpanQueue } from "./spans.ts";

type Done = Parameters<SpanExporter["export"]>[1];

/** A collector that answers when the test says so. */
function setup() {
  const clock = new SimClock();
  const batches: { readonly spans: ReadableSpan[]; readonly done: Done }[] = [];
  const counts = { sent: 0, lost: 0, why: "" };
  const exporter: SpanExporter = {
    export: (spans, done) => void batches.push({ spans, done }),
    shutdown: () => Promise.resolve(),
  };
  const queue = new SpanQueue({
    exporter,
    clock,
    onSent: (spans) => {
      counts.sent += spans;
    },
    onLost: (spans, why) => {
      counts.lost += spans;
      counts.why = why;
    },
  });
  const add = (spans: number): void => {
    for (let n = 0; n < spans; n += 1) queue.add({} as ReadableSpan);
  };
  return { clock, batches, counts, exporter, queue, add };
}

test("spans are sent together a second after the first, or when there are many", async () => {
  const { clock, batches, counts, add } = setup();
  add(3);
  await clock.advance(999);
  assert.equal(batches.length, 0);
  await clock.advance(1);
  assert.deepEqual(
    batches.map(({ spans }) => spans.length),
    [3],
  );
  batches[0]?.done({ code: 0 });
  await settle();
  assert.deepEqual(counts, { sent: 3, lost: 0, why: "" });
  add(512);
  assert.equal(batches.at(-1)?.spans.length, 512);
});

test("one batch is under way at a time, and the next follows its answer", async () => {
  const { clock, batches, add } = setup();
  add(600);
  await clock.advance(5000);
  assert.equal(batches.length, 1);
  batches[0]?.done({ code: 0 });
  await settle();
  await clock.advance(1000);
  assert.equal(batches[1]?.spans.length, 88);
});

test("what a collector refuses is lost and counted, once", async () => {
  const { clock, batches, counts, add } = setup();
  add(5);
  await clock.advance(1000);
  batches[0]?.done({ code: 1, error: new Error("nobody listens") });
  await settle();
  assert.deepEqual(counts, { sent: 0, lost: 5, why: "nobody listens" });
  await clock.advance(10_000);
  assert.equal(batches.length, 1);
});

test("an exporter that throws loses its batch and nothing else", async () => {
  const { clock, exporter, counts, add } = setup();
  exporter.export = () => {
    throw new Error("broken");
  };
  add(2);
  await clock.advance(1000);
  assert.deepEqual(counts, { sent: 0, lost: 2, why: "broken" });
  add(1);
  await clock.advance(1000);
  assert.equal(counts.lost, 3);
});

test("a collector that is silent costs a bounded amount of memory", () => {
  const { batches, counts, add } = setup();
  add(512 + 4096);
  assert.equal(batches.length, 1);
  assert.equal(counts.lost, 0);
  add(100);
  assert.equal(counts.lost, 100);
});

test("a shutdown sends what waits, and waits no longer than a second for it", async () => {
  const answered = setup();
  answered.add(3);
  const closing = answered.queue.shutdown();
  await settle();
  answered.batches[0]?.done({ code: 0 });
  await closing;
  assert.equal(answered.counts.sent, 3);

  const silent = setup();
  silent.add(600);
  let isClosed = false;
  const ended = silent.queue.shutdown().then(() => {
    isClosed = true;
  });
  await silent.clock.advance(999);
  assert.equal(isClosed, false);
  await silent.clock.advance(1);
  await ended;
  assert.deepEqual(silent.counts, { sent: 0, lost: 88, why: "the server stops" });
  silent.add(1);
  assert.equal(silent.counts.lost, 89);
});
