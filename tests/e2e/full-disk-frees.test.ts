/**
 * A disk that has become too full heals by itself: what ends or deletes tasks may use the last room, and
 * what was deleted gives its room back. A start on such a disk is not damage.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { campaignLength } from "../campaign-length.ts";
import { untilWritesAreTried } from "./accepting-writes.ts";
import { ApiClient, type TaskJson } from "./api-client.ts";
import { type Child, spawnServer, startServer } from "./server-process.ts";
import { mebibyte, SmallFileSystem } from "./small-file-system.ts";

const reserve = { CODEQ_MIN_FREE_DISK_BYTES: String(40 * mebibyte) };
const healingMsMax = 300_000;
const fullExitCode = 28;

interface World {
  readonly files: SmallFileSystem;
  readonly dataDir: string;
  /** Called after the test, the last one first. */
  readonly stack: AsyncDisposableStack;
}

function setup(t: TestContext, bytes: number): World | undefined {
  const files = SmallFileSystem.mount(bytes);
  if (typeof files === "string") {
    t.skip(files);
    return undefined;
  }
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  stack.defer(() => files.unmount());
  return { files, dataDir: join(files.path, "data"), stack };
}

/** Creates tasks and completes every second one, until the disk is too full; the ids of all. */
async function fill(api: ApiClient): Promise<{ pending: string[]; leased: string[] }> {
  const pending: string[] = [];
  const leased: string[] = [];
  for (let number = 0; number < 400; number += 1) {
    const payload = { number, contents: randomBytes(700_000).toString("base64") };
    const command = number % 4 === 0 ? "keep" : "finish";
    const created = await api.create({ command, payload });
    if (created.status === 507) return { pending, leased };
    assert.equal(created.status, 202, created.text);
    if (command === "keep") {
      pending.push((JSON.parse(created.text) as TaskJson).id);
      continue;
    }
    const claimed = await api.post("/tasks/claim", { commands: ["finish"], leaseSeconds: 600 });
    if (claimed.status === 507) return { pending, leased };
    leased.push((JSON.parse(claimed.text) as TaskJson).id);
  }
  return assert.fail("the disk does not become full");
}

function submit(api: ApiClient, id: string): ReturnType<ApiClient["post"]> {
  return api.post(`/tasks/${id}/result`, { status: "COMPLETED", result: { ok: 1 } });
}

async function complete(api: ApiClient, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const done = await submit(api, id);
    assert.equal(done.status, 200, done.text);
  }
}

const later = { limit: 1000, before: "2999-01-01T00:00:00Z" };

async function untilStatus(
  status: number,
  server: Child,
  call: () => Promise<{ readonly status: number }>,
): Promise<void> {
  const untilMs = performance.now() + healingMsMax;
  const isReached = async (): Promise<boolean> => {
    await untilWritesAreTried(server, untilMs);
    return (await call()).status === status;
  };
  while (!(await isReached())) {
    assert.ok(performance.now() < untilMs, "it does not heal");
  }
}

const filesBytes = 220 * mebibyte;

test("completions and deletions use the reserve, and make room without a restart", async (t) => {
  const world = setup(t, filesBytes);
  if (world === undefined) return;
  const server = await startServer({ dataDir: world.dataDir, env: reserve });
  world.stack.defer(() => server.kill());
  const api = new ApiClient(server.port);
  world.stack.defer(() => api.close());
  const { pending, leased } = await fill(api);
  const claim = (): ReturnType<ApiClient["post"]> =>
    api.post("/tasks/claim", { commands: ["keep"] });
  assert.equal((await claim()).status, 507, "a backlog does not drain");
  await complete(api, leased);
  const cleaned = await api.post("/admin/tasks/cleanup", later);
  assert.equal(cleaned.status, 200, cleaned.text);
  await untilStatus(202, server, () => api.create({ command: "small", payload: 1 }));
  for (const id of pending) assert.equal((await api.get(`/tasks/${id}`)).status, 200);
  assert.equal((await claim()).status, 200);
});

test("a start with little room left serves, or ends with a code of its own", async (t) => {
  const filled = setup(t, filesBytes);
  if (filled === undefined) return;
  const first = await startServer({ dataDir: filled.dataDir, env: reserve });
  filled.stack.defer(() => first.kill());
  const filling = new ApiClient(first.port);
  const { pending, leased } = await fill(filling);
  filling.close();
  await first.kill();
  const leftBytes = campaignLength({ short: [0, 300_000], long: [0, 300_000, mebibyte] });
  for (const freeBytes of leftBytes)
    await t.test(`with ${freeBytes} bytes left`, async (t) => {
      const world = setup(t, filesBytes);
      assert.ok(world);
      cpSync(filled.dataDir, world.dataDir, { recursive: true });
      // Whatever is left.
      assert.throws(() => world.files.fill(100 * mebibyte), { code: "ENOSPC" });
      world.files.shrink(freeBytes);
      const server = spawnServer({ dataDir: world.dataDir, env: reserve });
      world.stack.defer(() => server.kill());
      const line = await server.line((each) => each.includes('"listening"')).catch(() => undefined);
      if (line === undefined) {
        const { code, stderr } = await server.exited;
        assert.equal(code, fullExitCode, stderr);
        assert.match(stderr, /no (space|room) left|bytes to be opened/);
        t.diagnostic("it ended");
        return;
      }
      const api = new ApiClient((JSON.parse(line) as { port: number }).port);
      world.stack.defer(() => api.close());
      for (const id of [...pending, ...leased]) {
        assert.equal((await api.get(`/tasks/${id}`)).status, 200);
      }
      // How much of the last bytes the start itself needed is up to the store.
      const calls = leased.map((id) => () => submit(api, id));
      calls.push(() => api.post("/admin/tasks/cleanup", later));
      const refused: typeof calls = [];
      for (const call of calls) {
        const { status, text } = await call();
        if (status !== 200) assert.equal(status, 507, text);
        if (status === 507) refused.push(call);
      }
      // A store that has met the end itself takes nothing before there is more room than the reserve.
      if (refused.length > 0) world.files.resize(600 * mebibyte);
      for (const call of refused) await untilStatus(200, server, call);
      t.diagnostic(`it serves, and refused ${refused.length} of ${calls.length} calls`);
    });
});
