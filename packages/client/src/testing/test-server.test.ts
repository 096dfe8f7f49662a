import assert from "node:assert/strict";
import { test } from "node:test";
import { task } from "../task.ts";
import { testServer } from "./index.ts";

const greet = task<{ name: string }, { text: string }>("greet");

test("a task goes in, is done, and its result comes out, without time passing", async () => {
  await using server = await testServer();
  const before = server.now;
  server.client.worker(greet.handle(({ name }) => ({ text: `hello ${name}` })));
  const run = await server.client.enqueue(greet, { name: "Ada" });
  assert.deepEqual(await run.result(), { text: "hello Ada" });
  assert.deepEqual(server.now, before);
});

test("a delayed task is done when its time has come, and not a millisecond earlier", async () => {
  await using server = await testServer();
  const done: number[] = [];
  server.client.worker(
    greet.handle(() => {
      done.push(server.now.getTime());
      return { text: "" };
    }),
  );
  const startMs = server.now.getTime();
  await server.client.enqueue(greet, { name: "a" }, { delay: "1h" });
  assert.equal(server.counts(greet).delayed, 1);
  await server.advance(3_599_999);
  assert.deepEqual(done, []);
  await server.advance(1);
  assert.deepEqual(done, [startMs + 3_600_000]);
});
