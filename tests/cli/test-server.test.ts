/** `codeq test-server`, as the test kits of client libraries use it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Child, root } from "../e2e/server-process.ts";

interface Said {
  readonly event: string;
  readonly url: string;
  readonly now: string;
}

interface Started {
  readonly child: Child;
  readonly ready: Said;
  /** Writes a line, and waits for the answer to it. */
  readonly advance: (line: string) => Promise<Said>;
  readonly post: (path: string, body: object) => Promise<Response>;
}

async function setup(t: TestContext): Promise<Started> {
  const args = ["--conditions=source", join(root, "packages/cli/src/main.ts"), "test-server"];
  const child = new Child(spawn(process.execPath, args, { stdio: ["pipe", "pipe", "pipe"] }));
  t.after(() => child.kill());
  const said = async (event: string): Promise<Said> =>
    JSON.parse(await child.line((line) => line.includes(`"${event}"`))) as Said;
  const ready = await said("ready");
  return {
    child,
    ready,
    advance: (line) => {
      const answer = said("advanced");
      child.process.stdin?.write(`${line}\n`);
      return answer;
    },
    post: (path, body) =>
      fetch(`${ready.url}/v1/codeq${path}`, {
        method: "POST",
        headers: { authorization: "Bearer dev-token" },
        body: JSON.stringify(body),
      }),
  };
}

test("a delayed task is ready when the test has moved the clock, and the server ends with its input", async (t) => {
  const { child, ready, advance, post } = await setup(t);
  const created = await post("/tasks", { command: "later", payload: 1, delaySeconds: 3600 });
  assert.equal(created.status, 202);
  await advance("advance 3599000");
  assert.equal((await post("/tasks/claim", { commands: ["later"] })).status, 204);
  const { now } = await advance("advance 1000");
  assert.equal(Date.parse(now) - Date.parse(ready.now), 3_600_000);
  assert.equal((await post("/tasks/claim", { commands: ["later"] })).status, 200);
  child.process.stdin?.end();
  assert.equal((await child.exited).code, 0);
});

test("a line that the server does not understand ends it with what to write", async (t) => {
  const { child, advance } = await setup(t);
  await assert.rejects(advance("tomorrow"), /write "advance" and whole milliseconds/);
  assert.equal((await child.exited).code, 2);
});
