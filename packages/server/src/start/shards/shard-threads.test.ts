import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "@codeq/simulated";
import { Restarts } from "./shard-threads.ts";

test("a thread is started again after a moment, five times a minute and no more", async () => {
  const clock = new SimClock({ wallMs: 0 });
  const restarts = new Restarts(clock);
  let started = 0;
  const start = (): void => {
    started += 1;
    restarts.started();
  };
  start();
  for (let again = 1; again < 5; again += 1) {
    assert.equal(restarts.startAgain(start), true);
    assert.equal(started, again, "not at once");
    await clock.advance(250);
    assert.equal(started, again + 1);
  }
  assert.equal(restarts.startAgain(start), false);
  await clock.advance(60_000);
  assert.equal(started, 5);
  assert.equal(restarts.startAgain(start), true, "a minute later");
});
