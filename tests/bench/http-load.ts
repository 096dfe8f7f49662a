/**
 * The load of the HTTP benchmark, in a process of its own: `closed` does create, claim and result on
 * every connection again and again, `paced` so many cycles a second; `echo` posts to a server that does
 * nothing; `preload` fills the queue and ends.
 */
import { HttpConnection } from "./http-connection.ts";
import { answerWith, atRate, Meter } from "./load.ts";

export interface HttpLoad {
  readonly part: "closed" | "paced" | "echo" | "preload";
  readonly port: number;
  readonly connections: number;
  /** Cycles, for `paced`. */
  readonly tasksPerSecond: number;
  /** Tasks to create, for `preload`. */
  readonly tasks: number;
  /** Of the tasks; each of several loads has one. */
  readonly command?: string;
}

const base = "/v1/codeq/tasks";
const payload = JSON.stringify({ data: "x".repeat(88) });
const createBody = (command: string): string => `{"command":"${command}","payload":${payload}}`;
const claimBody = (command: string): string => `{"commands":["${command}"],"waitSeconds":5}`;
const resultBody = `{"status":"COMPLETED","result":{"ok":true}}`;
const echoBody = "x".repeat(300);
const batchTasks = 1000;

async function expect(
  status: number,
  reply: Promise<{ status: number; body: string }>,
): Promise<string> {
  const { status: found, body } = await reply;
  if (found !== status) throw new Error(`expected ${status}, got ${found} ${body}`);
  return body;
}

/** One step on a connection that is free; it was due at that moment. */
type Step = (connection: HttpConnection, dueMs: number) => Promise<void>;

function cycles(meter: Meter, { command = "bench" }: HttpLoad): Step {
  const create = createBody(command);
  const claim = claimBody(command);
  return async (connection, dueMs) => {
    const startedMs = performance.now();
    await expect(202, connection.post(base, create));
    const createdMs = performance.now();
    const claimed = await expect(200, connection.post(`${base}/claim`, claim));
    const claimedMs = performance.now();
    const id = claimed.slice(7, 43);
    await expect(200, connection.post(`${base}/${id}/result`, resultBody));
    const endedMs = performance.now();
    meter.delivered();
    meter.finished(1);
    meter.took("create", createdMs - startedMs);
    meter.took("claim", claimedMs - createdMs);
    meter.took("submit", endedMs - claimedMs);
    meter.took("cycle", endedMs - dueMs);
  };
}

function echoes(meter: Meter): Step {
  return async (connection) => {
    await expect(200, connection.post("/", echoBody));
    meter.finished(1);
  };
}

async function repeat(connection: HttpConnection, step: Step): Promise<never> {
  for (;;) await step(connection, performance.now());
}

/** Steps that are due wait for the first connection that is free. */
function pace(connections: readonly HttpConnection[], load: HttpLoad, step: Step): void {
  const free = [...connections];
  const waitingMs: number[] = [];
  const run = async (connection: HttpConnection, dueMs: number): Promise<void> => {
    await step(connection, dueMs);
    const nextMs = waitingMs.shift();
    if (nextMs === undefined) free.push(connection);
    else await run(connection, nextMs);
  };
  atRate(load.tasksPerSecond, (dueMs) => {
    const connection = free.pop();
    if (connection === undefined) waitingMs.push(dueMs);
    else void run(connection, dueMs);
  });
}

async function preload(load: HttpLoad): Promise<void> {
  const connection = await HttpConnection.open(load.port);
  const tasks = Array.from({ length: batchTasks }, () => createBody("bench")).join(",");
  for (let done = 0; done < load.tasks; done += batchTasks) {
    await expect(200, connection.post(`${base}/batch`, `{"tasks":[${tasks}]}`));
    if (done % 100_000 === 0) process.stderr.write(`  preloaded ${done} of ${load.tasks}\n`);
  }
  connection.close();
  process.disconnect?.();
}

async function run(load: HttpLoad): Promise<void> {
  const meter = new Meter();
  const connections: HttpConnection[] = [];
  while (connections.length < load.connections) {
    connections.push(await HttpConnection.open(load.port));
  }
  const step = load.part === "echo" ? echoes(meter) : cycles(meter, load);
  if (load.part === "paced") pace(connections, load, step);
  else for (const connection of connections) void repeat(connection, step);
  await answerWith(meter);
}

const load = JSON.parse(process.argv[2] ?? "{}") as HttpLoad;
if (load.part === "preload") await preload(load);
else await run(load);
