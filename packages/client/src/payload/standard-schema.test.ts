import assert from "node:assert/strict";
import { test } from "node:test";
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";
import { task } from "../client.ts";
import { testServer } from "../test-server/index.ts";
import type { StandardSchema } from "./standard-schema.ts";
import { ValidationError } from "./standard-schema.ts";

const makes = {
  zod: z.object({ size: z.object({ width: z.number() }) }),
  valibot: v.object({ size: v.object({ width: v.number() }) }),
  arktype: type({ size: { width: "number" } }),
};

for (const [make, schema] of Object.entries(makes)) {
  test(`${make}: an input that does not fit is refused before it is sent`, async () => {
    await using server = await testServer();
    const resize = task("resize", { input: schema as StandardSchema });
    const wrong = { size: { width: "wide" } };
    await assert.rejects(server.client.enqueue(resize, wrong), (error: unknown) => {
      assert.ok(error instanceof ValidationError);
      assert.equal(error.code, "invalid_input");
      assert.match(error.message, /^the input of resize is not valid: .*size\.width/);
      assert.equal(error.issues.length, 1);
      return true;
    });
    assert.equal(server.counts(resize).ready, 0);
    await server.client.enqueue(resize, { size: { width: 1 } });
    assert.equal(server.counts(resize).ready, 1);
  });

  test(`${make}: an output that does not fit is a failed attempt`, async () => {
    await using server = await testServer({ env: { MAX_ATTEMPTS_DEFAULT: "1" } });
    const measure = task("measure", { output: schema as StandardSchema });
    const failed: unknown[] = [];
    server.client.worker(
      measure.handle(() => ({ size: 3 })),
      { on: { failed: (_ctx, error) => failed.push(error) } },
    );
    const run = await server.client.enqueue(measure);
    await assert.rejects(run.result(), { code: "task_failed", reason: /output of measure/ });
    assert.ok(failed[0] instanceof ValidationError);
  });
}

test("what is checked is what arrives: a date is a text by then", async () => {
  await using server = await testServer();
  const remind = task("remind", { input: z.object({ at: z.date() }) });
  await assert.rejects(server.client.enqueue(remind, { at: new Date(0) }), {
    code: "invalid_input",
    message: /at: .*date/,
  });
});

test("handlers get what the schema makes of the input, and so do results", async () => {
  await using server = await testServer();
  const remind = task("remind", {
    input: z.object({ at: z.coerce.date(), text: z.string().default("now") }),
    output: z.object({ sentAt: z.coerce.date() }),
  });
  const seen: unknown[] = [];
  server.client.worker(
    remind.handle((input) => {
      seen.push(input);
      return { sentAt: input.at };
    }),
  );
  const run = await server.client.enqueue(remind, { at: new Date(0) });
  assert.deepEqual(await run.result(), { sentAt: new Date(0) });
  assert.deepEqual(seen, [{ at: new Date(0), text: "now" }]);
});

test("validators may take their time", async () => {
  await using server = await testServer();
  const slow = z.string().refine(async (text) => text !== "taken");
  const register = task("register", { input: slow });
  await assert.rejects(server.client.enqueue(register, "taken"), { code: "invalid_input" });
  await server.client.enqueue(register, "free");
});

test("an input from a producer without the schema is a failed attempt, not a lost task", async () => {
  await using server = await testServer({ env: { MAX_ATTEMPTS_DEFAULT: "1" } });
  const loose = task("resize");
  const strict = task("resize", { input: makes.zod });
  server.client.worker(
    strict.handle(() => 1),
    { on: { failed: () => {} } },
  );
  const run = await server.client.enqueue(loose, { size: "large" });
  await assert.rejects(run.result(), { reason: /the input of resize is not valid: size/ });
  assert.equal(server.counts(strict).dead, 1);
});
