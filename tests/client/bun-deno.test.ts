/** The whole library, with streams and workers, in runtimes that have the modules of Node. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import test from "node:test";
import { task } from "@codeq/client";
import { build } from "esbuild";
import { Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import { runtime } from "./runtimes.ts";
import { setup } from "./setup.ts";

const wait = task<null, void>("wait");

const program = `
  import { codeq, task } from "@codeq/client";
  const double = task("double", { retry: { delay: "1ms" } });
  const wait = task("wait");
  const client = codeq({ url: process.env.CODEQ_URL, token: "dev-token", transport: "streams" });
  const worker = client.worker(
    [
      double.handle((n, { attempt }) => {
        if (attempt === 1) throw new Error("once");
        return n * 2;
      }),
      wait.handle(async (_input, { signal }) => {
        console.log("waiting");
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      }),
    ],
    { grace: "0s", on: { failed: () => {} } },
  );
  const runs = await client.enqueueMany(double, Array.from({ length: 300 }, (_, input) => ({ input })));
  const outputs = await Promise.all(runs.map((run) => run.result()));
  console.log(outputs.reduce((sum, each) => sum + each));
  await worker.done;
  console.log("closed");
`;

const programs = { bun: ["run"], deno: ["run", "--allow-all", "--no-prompt"] } as const;

for (const [name, args] of Object.entries(programs)) {
  const got = runtime(name as keyof typeof programs);
  test(`a producer and a worker run in ${name}, and hand back on SIGTERM`, {
    skip: "missing" in got && got.missing,
  }, async (t) => {
    assert.ok("path" in got);
    const world = await setup(t);
    const directory = temporaryDirectory();
    t.after(() => directory.dispose());
    const file = join(directory.path, "program.mjs");
    await build({
      stdin: { contents: program, resolveDir: join(root, "tests") },
      ...{ bundle: true, outfile: file, format: "esm", platform: "node", conditions: ["source"] },
    });
    const env = { HOME: directory.path, DENO_NO_UPDATE_CHECK: "1", CODEQ_URL: world.server.url };
    const child = new Child(
      spawn(got.path, [...args, file], { env, stdio: ["ignore", "pipe", "pipe"] }),
    );
    t.after(() => child.kill());
    await child.anyLine((line) => line === "89700");
    const { id } = await world.client().enqueue(wait, null);
    await child.anyLine((line) => line === "waiting");
    child.signal("SIGTERM");
    const { code, stdout, stderr } = await child.exited;
    assert.deepEqual([code, stdout], [0, "89700\nwaiting\nclosed\n"], stderr);
    const { task: left } = await world.client().admin.task(id);
    assert.deepEqual([left.status, left.attempts ?? 0], ["PENDING", 0]);
  });
}
