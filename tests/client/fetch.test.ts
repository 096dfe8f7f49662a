/** The producer that has nothing but `fetch`: against a real server, and in runtimes that are not Node. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { gzipSync } from "node:zlib";
import { task } from "@codeq/client";
import { type CodeqError, codeq, EnqueueManyError, TaskFailedError } from "@codeq/client/fetch";
import { build } from "esbuild";
import { Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import { type RuntimeName, runtime } from "./runtimes.ts";
import { type Setup, setup } from "./setup.ts";

const double = task<number, number>("double");

function producer({ server }: Setup, fetch?: typeof globalThis.fetch) {
  return codeq({ url: server.url, token: "dev-token", fetch });
}

test("tasks are enqueued and their results, updates and failures come back", async (t) => {
  const world = await setup(t);
  const client = producer(world);
  world.client().worker(
    double.handle((n, ctx) => {
      if (n < 0) throw new Error("it is negative");
      ctx.progress(0.5);
      return n * 2;
    }),
    { on: { failed: () => {} } },
  );
  const run = await client.enqueue(double, 21, { priority: 9, tags: ["a"] });
  assert.equal(await run.result({ timeout: "30s" }), 42);
  const updates = [];
  for await (const { event } of run.events()) updates.push(event);
  assert.deepEqual([updates[0], updates.at(-1)], ["task", "result"]);
  assert.deepEqual(await run.artifacts(), []);
  const key = { idempotencyKey: "k" };
  const keyed = await client.enqueue(double, 1, key);
  const lenient = { ...key, idempotencyMode: "first" } as const;
  const [first, other] = await client.enqueueMany(double, [{ input: 2, ...lenient }, { input: 3 }]);
  assert.deepEqual([first?.id, await other?.result()], [keyed.id, 6]);
  await assert.rejects(client.enqueue(double, 2, key), { code: "idempotency_key_reused" });
  assert.equal((await client.runByKey(double, "k")).id, keyed.id);
  const runs = await client.enqueueMany(
    double,
    Array.from({ length: 250 }, (_, input) => ({ input })),
  );
  const outputs = await Promise.all(runs.slice(0, 20).map((each) => each.result()));
  assert.deepEqual(
    outputs,
    Array.from({ length: 20 }, (_, n) => n * 2),
  );
  const negative = await client.enqueue(double, -1, { maxAttempts: 1 });
  await assert.rejects(negative.result(), (error) => {
    assert.ok(error instanceof TaskFailedError);
    assert.deepEqual([error.reason, error.attempts], ["Error: it is negative", 1]);
    return true;
  });
  const late = await client.enqueue(double, 1, { delay: "1h" });
  await assert.rejects(late.result({ timeout: 10 }), { code: "timeout" });
  await assert.rejects(late.result({ signal: AbortSignal.abort(new Error("enough")) }), /enough/);
  await late.cancel();
  assert.equal((await late.status()).status, "FAILED");
  assert.equal((await late.explain()).rule, "cancelled");
});

test("an answer that is lost costs a request, and the task is stored once", async (t) => {
  const world = await setup(t);
  const lost: string[] = [];
  const client = producer(world, async (input, init) => {
    const answer = await fetch(input, init);
    if (init?.method !== "POST" || lost.length === 2) return answer;
    lost.push(await answer.text());
    throw new TypeError("the connection broke");
  });
  const run = await client.enqueue(double, 1);
  assert.equal(lost.length, 2);
  for (const text of lost) assert.match(text, new RegExp(run.id));
  await world.server.kill();
  await assert.rejects(client.enqueue(double, 1, { timeout: 50 }), {
    code: "timeout",
    ambiguous: true,
    message: /nothing listens there/,
  });
});

test("refusals come item by item, and are not tried again", async (t) => {
  const world = await setup(t);
  const client = producer(world);
  await client.enqueue(double, 1, { idempotencyKey: "one" });
  const items = [{ input: 1 }, { input: 2, idempotencyKey: "one" }];
  await assert.rejects(client.enqueueMany(double, items), (error) => {
    assert.ok(error instanceof EnqueueManyError);
    assert.deepEqual(
      error.outcomes.map((outcome) => (outcome.ok ? "stored" : (outcome.error as CodeqError).code)),
      ["stored", "idempotency_key_reused"],
    );
    return true;
  });
  const stranger = codeq({ url: world.server.url, token: "wrong" });
  await assert.rejects(stranger.enqueue(double, 1), { code: "invalid_token" });
  assert.throws(() => codeq({ url: "not a url", token: "dev-token" }), { code: "invalid_option" });
});

/** A program, with the client in it. */
async function bundle(contents: string): Promise<string> {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: join(root, "tests") },
    bundle: true,
    write: false,
    minify: true,
    metafile: true,
    format: "esm",
    // Whatever would need Node fails to build.
    platform: "browser",
    conditions: ["source"],
  });
  const files = Object.keys(metafile.inputs);
  assert.deepEqual(
    files.filter((file) => /grpc|wire\/|worker\/worker/.test(file)),
    [],
  );
  return outputFiles[0]?.text ?? "";
}

test("the bundle has nothing of Node, and stays small", async (t) => {
  const text = await bundle('export { codeq, task } from "@codeq/client/fetch";');
  assert.doesNotMatch(text, /\bBuffer\b|from"node:|require\(/);
  const kilobytes = text.length / 1000;
  t.diagnostic(`${kilobytes.toFixed(1)} KB, ${(gzipSync(text).length / 1000).toFixed(1)} KB gzip`);
  const page = readFileSync(join(root, "docs/guide/producer.md"), "utf8");
  const [, stated] = /Its size is (\d+) KB bundled and minified/.exec(page) ?? [];
  assert.ok(
    Math.abs(kilobytes - Number(stated)) < 2,
    `${kilobytes} KB, and the page says ${stated}`,
  );
  assert.ok(kilobytes < 40, `${kilobytes} KB`);
});

/** The same in every runtime. */
const tasks = `
  import { codeq, task, useClient } from "@codeq/client/fetch";
  const double = task("double");
  const answer = async (url) => {
    useClient(codeq({ url, token: "dev-token" }));
    const runs = await codeq({ url, token: "dev-token" }).enqueueMany(double, [{ input: 4 }]);
    return [await runs[0].result(), await double.run(21, { timeout: "60s" })].join(" ");
  };
`;

const programs: Readonly<Record<Exclude<RuntimeName, "workerd">, string[]>> = {
  bun: ["run"],
  deno: ["run", "--allow-net", "--no-prompt"],
};

async function worked(t: TestContext): Promise<Setup> {
  const world = await setup(t);
  world.client().worker(double.handle((n) => n * 2));
  return world;
}

for (const [name, args] of Object.entries(programs)) {
  const got = runtime(name as RuntimeName);
  test(`it runs in ${name}`, { skip: "missing" in got && got.missing }, async (t) => {
    assert.ok("path" in got);
    const { server } = await worked(t);
    const directory = temporaryDirectory();
    t.after(() => directory.dispose());
    const program = join(directory.path, "program.mjs");
    const text = await bundle(
      `${tasks}\nconsole.log(await answer(${JSON.stringify(server.url)}));`,
    );
    writeFileSync(program, text);
    const env = { HOME: directory.path, DENO_NO_UPDATE_CHECK: "1" };
    const child = new Child(
      spawn(got.path, [...args, program], { env, stdio: ["ignore", "pipe", "pipe"] }),
    );
    t.after(() => child.kill());
    const { code, stdout, stderr } = await child.exited;
    assert.deepEqual([code, stdout], [0, "8 42\n"], stderr);
  });
}

const workerd = runtime("workerd");
test("it runs in workerd, as Cloudflare Workers do", {
  skip: "missing" in workerd && workerd.missing,
}, async (t) => {
  assert.ok("path" in workerd);
  const { server } = await worked(t);
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const handler =
    "export default { async fetch(_request, env) { return new Response(await answer(env.URL)); } };";
  writeFileSync(join(directory.path, "worker.mjs"), await bundle(`${tasks}\n${handler}`));
  const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker", esModule = embed "worker.mjs")],
      compatibilityDate = "2026-01-01",
      bindings = [(name = "URL", text = ${JSON.stringify(server.url)})],
    )),
    (name = "internet", network = (allow = ["public", "private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);`;
  const file = join(directory.path, "config.capnp");
  writeFileSync(file, config);
  const child = new Child(
    spawn(workerd.path, ["serve", file, "--control-fd=1"], { stdio: ["ignore", "pipe", "pipe"] }),
  );
  t.after(() => child.kill());
  const line = await child.anyLine((each) => each.includes('"listen"'));
  const { port } = JSON.parse(line) as { port: number };
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  assert.deepEqual([answer.status, await answer.text()], [200, "8 42"], child.stderr);
});
