/** What is drawn on a real terminal. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ensureProgram } from "./programs.ts";
import { type CliServer, cliMain, openFeeds, setup } from "./setup.ts";
import { Terminal } from "./terminal.ts";

const codeq = `codeq() { "${process.execPath}" --conditions=source "${cliMain}" "$@"; }`;

async function open(t: TestContext): Promise<(CliServer & { terminal: Terminal }) | undefined> {
  if (!(await ensureProgram(t, "tmux"))) return undefined;
  const cli = await setup(t);
  const terminal = await Terminal.open(t, { CODEQ_BASE_URL: cli.server.url });
  await terminal.type(`PS1="> "; ${codeq}; clear`);
  await terminal.screen(/^> *$/m);
  return { ...cli, terminal };
}

test("queues --watch draws a table, keeps it up to date, and gives the screen back", async (t) => {
  const world = await open(t);
  if (world === undefined) return;
  const { terminal } = world;
  const cli = world.world();
  await cli.run("enqueue", "resize");
  await terminal.type("echo before; codeq queues --watch --interval 100ms");
  const first = await terminal.screen(/resize +1 +0 +0 +0/);
  assert.match(
    first,
    /^codeQ {2}http:\/\/127\.0\.0\.1:\d+ {2}\d\d:\d\d:\d\d\n\nQUEUE +READY +DELAYED +RUNNING +DEAD .*\n/,
  );
  assert.match(first, /Press q to quit/);
  assert.doesNotMatch(first, /before/);
  await cli.run("enqueue", "resize");
  await cli.run("enqueue", "mail", "--delay", "1h");
  await terminal.screen(/mail +0 +1 +0 +0 .*\s+resize +2 +0 +0 +0 /);
  await terminal.tmux("send-keys", "q");
  const after = await terminal.screen(/before\n> *$/m);
  assert.doesNotMatch(after, /QUEUE/);
});

test("top draws rates, depths and workers, in colour, and follows the size of the terminal", async (t) => {
  const world = await open(t);
  if (world === undefined) return;
  const { terminal } = world;
  const cli = world.world();
  await cli.run("enqueue", "resize");
  const worker = world.world();
  t.after(() => worker.stop());
  const working = worker.run("work", "idle", "--", "cat");
  await terminal.type("codeq top --interval 100ms");
  const screen = await terminal.screen(/resize +1 +0 +0 +0 +\d/);
  assert.match(
    screen,
    /^codeQ {2}http:\/\/127\.0\.0\.1:\d+ {2}up .* storage ok {2}\d\d:\d\d:\d\d\n/,
  );
  assert.match(screen, /tasks +in [\d.]+\/s {2}out 0\/s {2}failed 0\/s {2}leases expired 0\/s\n/);
  assert.match(screen, /disk +sync p50 [\d.]+ m?s/);
  assert.match(screen, /process +memory [\d.]+ MiB {2}CPU \d+% {2}event loop p99/);
  assert.match(screen, /QUEUE +READY +DELAYED +RUNNING +DEAD +OLDEST +IN\/s +OUT\/s +FAIL\/s/);
  await terminal.screen(
    /workers +0 waiting over HTTP {2}1 stream \(1 ready held\) {2}0 tasks running/,
  );
  // A worker that holds a task is shown by its name.
  await fetch(`${world.server.url}/v1/codeq/tasks/claim`, {
    method: "POST",
    body: '{"commands":["resize"]}',
    headers: { authorization: "Bearer dev-token" },
  });
  await terminal.screen(
    /WORKER +RUNNING +OLDEST +SEEN +STREAMS +CONNECTED +CLIENT\nstatic +1 +\S+ m?s/,
  );
  const coloured = await terminal.tmux("capture-pane", "-p", "-e");
  assert.ok(coloured.includes("\x1b[32mok"), "the state of the storage is green");
  await terminal.tmux("resize-window", "-x", "60", "-y", "12");
  const small = await terminal.screen(/^.{59}…$/m);
  assert.ok(small.split("\n").every((line) => line.length <= 60));
  // A server that goes away is told on the screen, and the last picture stays.
  await world.server.kill();
  await terminal.screen(/cannot be reached/);
  await terminal.screen(/resize/);
  await terminal.tmux("send-keys", "C-c");
  await terminal.screen(/^> codeq top.*\n> *$/m);
  worker.stop();
  await working;
});

test("tail prints a line as it happens, in colour, and Ctrl-C is a good end", async (t) => {
  const world = await open(t);
  if (world === undefined) return;
  const { terminal } = world;
  const cli = world.world();
  await terminal.type("codeq tail; echo code $?");
  await openFeeds(world.server, 1);
  await cli.run("enqueue", "resize");
  await terminal.screen(/^\d\d:\d\d:\d\d {2}resize {2}\w{8} {2}created$/m);
  const coloured = await terminal.tmux("capture-pane", "-p", "-e");
  assert.ok(coloured.includes("\x1b[36mcreated"), coloured);
  await terminal.tmux("send-keys", "C-c");
  await terminal.screen(/^(\^C)?code 0$/m);
});

test("colours stay away when NO_COLOR asks for it, and a failed start leaves the screen alone", async (t) => {
  const world = await open(t);
  if (world === undefined) return;
  const { terminal } = world;
  await terminal.type("NO_COLOR=1 codeq token verify; echo plain");
  await terminal.screen(/yes {2}work\nplain\n/);
  const plain = await terminal.tmux("capture-pane", "-p", "-e");
  assert.equal(plain.includes("\x1b[3"), false, plain);
  await terminal.type("clear; codeq token verify; echo coloured");
  await terminal.screen(/yes {2}work\ncoloured\n/);
  const coloured = await terminal.tmux("capture-pane", "-p", "-e");
  assert.ok(coloured.includes("\x1b[32myes"), coloured);
  await terminal.type("clear; codeq top --base-url http://127.0.0.1:9; echo code $?");
  const screen = await terminal.screen(/code 6/);
  assert.match(screen, /error: http:\/\/127\.0\.0\.1:9 \(--base-url\) cannot be reached/);
});

test("a long load shows a progress bar while it runs, and only its figures after it", async (t) => {
  const world = await open(t);
  if (world === undefined) return;
  const { terminal } = world;
  await terminal.type("codeq bench --tasks 3000");
  await terminal.screen(/tasks {2}[█░]{24} +\d+% {2}[\d,]+ of 3,000/);
  await terminal.tmux("send-keys", "C-c");
  const screen = await terminal.screen(/tasks enqueued, claimed and completed in/);
  assert.doesNotMatch(screen, /░/);
});

test("dev opens the console with a key, and Ctrl-C still stops it", async (t) => {
  const world = await open(t);
  if (world === undefined) return;
  const { terminal } = world;
  const anyPort = "--port 0 --worker-stream-addr :0 --producer-stream-addr :0";
  const browser = 'echo "opened $1" > /dev/tty';
  await terminal.type(`printf '#!/bin/sh\\n%s\\n' '${browser}' > browser; chmod +x browser; clear`);
  await terminal.type(`BROWSER=./browser codeq dev ${anyPort}`);
  const ready = await terminal.screen(/Press Ctrl-C to stop the server/);
  const [, url = ""] = /console +(http:\S+) {2}\(press o to open it\)/.exec(ready) ?? [];
  await terminal.tmux("send-keys", "o");
  await terminal.screen(new RegExp(`^opened ${url}$`, "m"));
  await terminal.tmux("send-keys", "C-c");
  await terminal.screen(/stopped; the data is in \.codeq\/data\n> *$/m);
  await terminal.type(`clear; BROWSER=/no/browser codeq dev ${anyPort}`);
  await terminal.screen(/Press Ctrl-C to stop the server/);
  await terminal.tmux("send-keys", "o");
  await terminal.screen(/no browser could be opened; the console is at http:/);
  await terminal.tmux("send-keys", "C-c");
  await terminal.screen(/stopped; the data is in/);
});
