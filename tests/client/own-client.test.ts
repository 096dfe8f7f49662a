/** Programs as users write them: the server comes from the environment, and signals end a worker in order. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { suite, type TestContext, test } from "node:test";
import { task } from "@codeq/client";
import { Child, root } from "../e2e/server-process.ts";
import { type Setup, setup } from "./setup.ts";

const slow = task<null, string>("slow");

function start(t: TestContext, { server }: Setup, program: string): Child {
  const args = ["--conditions=source", "--input-type=module", "--eval", program];
  const env = { PATH: process.env["PATH"], CODEQ_URL: server.url, CODEQ_TOKEN: "dev-token" };
  const stdio = ["ignore", "pipe", "pipe"] as const;
  const cwd = join(root, "tests");
  const child = new Child(spawn(process.execPath, args, { env, cwd, stdio: [...stdio] }));
  t.after(() => child.kill());
  return child;
}

/** A worker whose handler runs until it is stopped. */
const worker = `
  import { codeq, task } from "@codeq/client";
  const slow = task("slow").handle((_input, { signal, attempt }) => {
    console.log("attempt", attempt);
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const worker = codeq().worker(slow, { grace: 0 });
  await worker.done;
  console.log("the worker has ended");
`;

suite("programs", { concurrency: true }, () => {
  test("a task enqueues itself with the server of the environment, and the program ends", async (t) => {
    const world = await setup(t);
    world.client().worker(task("double").handle((n) => (n as number) * 2));
    const program = `
    import { task } from "@codeq/client";
    const double = task("double");
    const run = await double.enqueue(4);
    console.log(await run.result(), await double.run(21, { timeout: "30s" }));
  `;
    const { code, stdout } = await start(t, world, program).exited;
    assert.deepEqual([code, stdout], [0, "8 42\n"]);
  });

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    test(`${signal}: a worker hands its task back, loses no attempt, and ends`, async (t) => {
      const world = await setup(t);
      const run = await world.client().enqueue(slow, null);
      const child = start(t, world, worker);
      await child.anyLine((line) => line === "attempt 1");
      child.signal(signal);
      const { code, stdout, stderr } = await child.exited;
      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(stdout, /the worker has ended/);
      const { status } = await run.status();
      assert.equal(status, "PENDING");
      world.client().worker(slow.handle((_input, { attempt }) => `attempt ${attempt}`));
      assert.equal(await run.result(), "attempt 1");
    });
  }

  test("a process that something else keeps alive ends of the signal, a little later", async (t) => {
    const world = await setup(t);
    await world.client().enqueue(slow, null);
    const child = start(t, world, `setInterval(() => {}, 1000);${worker}`);
    await child.anyLine((line) => line === "attempt 1");
    child.signal("SIGTERM");
    const { signal, stdout } = await child.exited;
    assert.match(stdout, /the worker has ended/);
    assert.equal(signal, "SIGTERM");
  });

  test("a worker that cannot hand back says so, and the exit code is 1", async (t) => {
    const world = await setup(t);
    await world.client().enqueue(slow, null);
    const child = start(t, world, worker);
    await child.anyLine((line) => line === "attempt 1");
    await world.server.kill();
    child.signal("SIGTERM");
    const { code, stderr } = await child.exited;
    assert.equal(code, 1);
    assert.match(stderr, /has not acknowledged the results of 1 tasks/);
  });
});
