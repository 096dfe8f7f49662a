import assert from "node:assert/strict";
import { test } from "node:test";
import { limits } from "@codeq/protocol";
import { systemClock } from "../clock.ts";
import { Permanent, RateLimited, task } from "../index.ts";
import { testServer } from "../test-server/index.ts";
import { stackOf } from "./outcome.ts";

function failing(cause: unknown): never {
  throw new Error("outer", { cause });
}

function thrownBy(run: () => never): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}

test("a stack has frames without the message, and the frames of causes below them", () => {
  const stack = stackOf(thrownBy(() => failing(new TypeError("inner"))));
  const [first = "", ...rest] = stack.split("\n");
  assert.match(first, /^ +at failing \(.*outcome\.test\.ts:\d+:\d+\)$/);
  const at = rest.indexOf("caused by: TypeError: inner");
  assert.ok(at > 0, stack);
  assert.match(rest[at + 1] ?? "", /^ +at .*outcome\.test\.ts/);
  assert.doesNotMatch(stack, /outer|node:/);
});

test("joined errors are numbered, and loops of causes and long stacks end", () => {
  const many = Array.from({ length: 9 }, (_, n) => new Error(`no ${n}`));
  const joined = stackOf(new AggregateError(many));
  assert.match(joined, /^error 5 of 9: Error: no 4$/m);
  assert.doesNotMatch(joined, /error 6/);
  const loop = new Error("round");
  loop.cause = loop;
  assert.equal(stackOf(loop).match(/caused by/g)?.length, 4);
  const long = new Error("x", { cause: new Error("y".repeat(10_000)) });
  assert.equal(stackOf(long).length, limits.stackCharsMax);
  assert.equal(stackOf("no error"), "");
});

test("the pause of a rate limit is a duration, or the value of a Retry-After header", () => {
  assert.equal(new RateLimited("90s").holdMs, 90_000);
  assert.equal(new RateLimited("120").holdMs, 120_000);
  assert.equal(new RateLimited("120").message, "rate limited for 2m");
  assert.equal(new RateLimited(1500).holdMs, 1500);
  const { holdMs } = new RateLimited(new Date(systemClock.nowMs() + 300_000).toUTCString());
  assert.ok(holdMs > 290_000 && holdMs <= 300_000, `${holdMs} ms`);
  assert.equal(new RateLimited("Thu, 19 Nov 1981 08:52:00 GMT").holdMs, 0);
  for (const wrong of ["", "soon", "-1", "2026-01-01"]) {
    assert.throws(() => new RateLimited(wrong), { code: "invalid_option" });
  }
});

const mail = task<{ readonly how: string }>("mail", { retry: { maxAttempts: 1 } });

const thrown: Readonly<Record<string, () => never>> = {
  retried: () => failing(new Error("no route\nto host")),
  permanent: () => {
    throw new Permanent("gone", { cause: "the customer left" });
  },
  object: () => {
    throw { code: 7, why: "odd" };
  },
};

async function attemptOf(how: string, options: { readonly stacks?: boolean } = {}) {
  await using server = await testServer();
  server.client.worker(
    mail.handle((input) => thrown[input.how]?.()),
    options,
  );
  const { id } = await server.client.enqueue(mail, { how });
  await server.runUntilIdle();
  const { task: found } = await server.client.admin.task(id);
  assert.equal(found.attemptHistory?.length, 1);
  return { ...found.attemptHistory[0], text: found.error };
}

test("the server keeps the stack of an attempt, whether the task is retried or fails", async () => {
  const retried = await attemptOf("retried");
  assert.equal(retried.text, "Error: outer");
  assert.match(retried.stack ?? "", /at failing .*\n(.*\n)*caused by: Error: no route\nto host\n/);
  // The frames of this library that called the handler are left out.
  assert.doesNotMatch(retried.stack ?? "", /run-attempt|task\.(ts|js)/);
  const permanent = await attemptOf("permanent");
  assert.deepEqual([permanent.outcome, permanent.error], ["failed", "gone"]);
  assert.match(permanent.stack ?? "", /at .*\n(.*\n)*caused by: the customer left$/);
  assert.equal((await attemptOf("retried", { stacks: false })).stack, undefined);
  const object = await attemptOf("object");
  assert.equal(object.text, '{"code":7,"why":"odd"}');
  assert.equal(object.stack, undefined);
});
