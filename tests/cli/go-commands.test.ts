/** What scripts for the Go command line rely on: contract 10. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setup, startCommand } from "./setup.ts";

test("task create, get and result print what scripts read", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const { code, output } = await cli.run(
    ...["task", "create", "--event", "RENDER", "--payload", '{"id":7}', "--priority", "5"],
    ...["--max-attempts", "3", "--idempotency-key", "k", "--delay-seconds", "0"],
  );
  assert.equal(code, 0);
  const [, id = ""] = /^\[OK\] Task created: (\S+)\n$/.exec(output) ?? [];
  const got = JSON.parse((await cli.run("task", "get", id)).output);
  assert.equal(got.command, "RENDER");
  assert.equal(got.priority, 5);
  const none = await cli.run("task", "result", id);
  assert.ok(none.code !== 0);
  assert.match(none.errors, /^\[ERROR\] error \(404\): \{"error":"result not found"\}\n/);
  await cli.run("work", "RENDER", "--max", "1", "--", "cat");
  const result = JSON.parse((await cli.run("task", "result", id)).output);
  assert.equal(result.result.status, "COMPLETED");
  assert.match((await cli.run("task", "create")).errors, /^\[ERROR\] --event is required/);
  const bad = await cli.run("--base-url", "http://127.0.0.1:9", "task", "get", id);
  assert.match(bad.errors, /^\[ERROR\] http/);
});

test("queue inspect prints one line", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  await cli.run("enqueue", "x");
  await cli.run("enqueue", "x", "--delay", "1h");
  const { output } = await cli.run("queue", "inspect", "X");
  assert.equal(output, "READY: 1 | DELAYED: 1 | IN_PROGRESS: 0 | DLQ: 0\n");
});

/** One that is given back at once would be claimed over and over. */
function attempts(ack: string): string[] {
  return ["--max-attempts", ack === "abandon" ? "1" : "5"];
}

test("worker start claims and acknowledges as it is told, until it is stopped", async (t) => {
  const { world, server } = await setup(t);
  const cli = world();
  const expected = {
    complete: "COMPLETED",
    nack: "PENDING",
    none: "IN_PROGRESS",
    abandon: "FAILED",
  };
  for (const [ack, status] of Object.entries(expected)) {
    const { output } = await cli.run("enqueue", `e-${ack}`, "--json", ...attempts(ack));
    const { id } = JSON.parse(output);
    const argv = [
      "worker",
      "start",
      "--events",
      `e-${ack},other`,
      "--ack",
      ack,
      "--wait-seconds",
      "1",
    ];
    const child = startCommand(argv, {
      directory: cli.directory,
      env: { CODEQ_BASE_URL: server.url, CODEQ_WORKER_TOKEN: "dev-token" },
    });
    t.after(() => child.kill());
    await child.anyLine((line) => line === "[INFO] Worker connected. Listening... (token: worker)");
    await child.anyLine((line) => line === `[OK] Task claimed: ${id} (e-${ack})`);
    child.signal("SIGTERM");
    assert.equal((await child.exited).code, 0);
    const task = JSON.parse((await cli.run("get", id, "--json")).output);
    assert.equal(task.status, status, ack);
  }
});

test("profiles and variables choose the server, and a flag wins", async (t) => {
  const { world, server } = await setup(t);
  const cli = world({ env: { CODEQ_BASE_URL: "" } });
  await cli.run("auth", "set", "--base-url", server.url, "--producer-token", "dev-token");
  assert.equal((await cli.run("queue", "inspect", "x")).code, 0);
  const away = world({ env: { CODEQ_BASE_URL: "http://127.0.0.1:9" } });
  assert.equal((await away.run("queue", "inspect", "x")).code, 6);
  assert.equal((await away.run("queue", "inspect", "x", "--base-url", server.url)).code, 0);
  const denied = await cli.run("queue", "inspect", "x", "--producer-token", "wrong", "--json");
  assert.equal(denied.code, 7);
  const { status, serverCode } = JSON.parse(denied.errors).error;
  assert.deepEqual([status, serverCode], [401, "invalid_token"]);
});
