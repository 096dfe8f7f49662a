/** The handler of `serve` as a route of a real Next application, built for production. */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { task } from "@codeq/client";
import { packedPackages, tarballIn } from "../built-once.ts";
import { Child } from "../e2e/server-process.ts";
import { fromNpm } from "./runtimes.ts";
import { setup } from "./setup.ts";

const run = promisify(execFile);
const next = fromNpm("next", "16.4.6");
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const files: Readonly<Record<string, string>> = {
  "package.json": '{ "private": true, "type": "module" }',
  "app/layout.js": "export default ({ children }) => children;",
  "app/wake/wake.js": `
    import { codeq, serve, task } from "@codeq/client";
    const double = task("double");
    const options = { secret: process.env.CODEQ_SECRET, maxDuration: "10s", idle: 200 };
    export const handle = serve(codeq(), double.handle((n) => n * 2), options);
  `,
  "app/wake/route.js": `
    import { handle } from "./wake.js";
    export const maxDuration = 60;
    export const POST = handle;
  `,
};

/** Below the folder that has Next, whose compiler follows no links out of it. */
async function application(t: TestContext, modules: string): Promise<string> {
  const directory = mkdtempSync(join(modules, "../app-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const client = join(directory, "node_modules/@codeq/client");
  for (const each of [join(directory, "app/wake"), client]) mkdirSync(each, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
  const tarball = tarballIn(await packedPackages(), "client");
  execFileSync("tar", ["-xzf", tarball, "-C", client, "--strip-components=1"]);
  return directory;
}

test("Next: a notification of the server starts a route, and the tasks are done", {
  skip: "missing" in next && next.missing,
}, async (t) => {
  assert.ok("path" in next);
  const cwd = await application(t, next.path);
  const world = await setup(t, { WEBHOOK_HMAC_SECRET: secret });
  const { NODE_OPTIONS: _options, NODE_TEST_CONTEXT: _context, ...others } = process.env;
  const codeq = { CODEQ_URL: world.server.url, CODEQ_TOKEN: "dev-token", CODEQ_SECRET: secret };
  const env = { ...others, ...codeq, NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" };
  const program = join(next.path, "next/dist/bin/next");
  await run(process.execPath, [program, "build"], { cwd, env });
  const words = [program, "start", "--port", "0", "--hostname", "127.0.0.1"];
  const child = new Child(
    spawn(process.execPath, words, { cwd, env, stdio: ["ignore", "pipe", "pipe"] }),
  );
  t.after(() => child.kill());
  const line = await child.anyLine((each) => /Local: +http/.test(each));
  const [url = ""] = /http:\S+/.exec(line) ?? [];
  assert.equal((await fetch(`${url}/wake`, { method: "POST", body: "{}" })).status, 401);
  const client = world.client();
  const double = task<number, number>("double");
  await client.subscriptions.create({ url: `${url}/wake`, tasks: ["double"] });
  const runs = await client.enqueueMany(double, [{ input: 1 }, { input: 2 }]);
  const results = await Promise.all(runs.map((each) => each.result({ timeout: "60s" })));
  assert.deepEqual(results, [2, 4]);
});
