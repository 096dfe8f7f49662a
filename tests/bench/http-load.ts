/**
 * The load of the HTTP benchmark, in a process of its own: `cycles` does create, claim and result on
 * every connection; `echo` posts to a server that does nothing; `preload` fills the queue.
 */
import { HttpConnection } from "./http-connection.ts";

export interface HttpLoad {
  readonly part: "cycles" | "echo" | "preload";
  readonly port: number;
  readonly connections: number;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** Tasks to create, for `preload`. */
  readonly tasks: number;
}

export interface HttpLoadResult {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly clientCpuUs: number;
}

const base = "/v1/codeq/tasks";
const payload = JSON.stringify({ data: "x".repeat(88) });
const createBody = `{"command":"bench","payload":${payload}}`;
const claimBody = `{"commands":["bench"],"waitSeconds":5}`;
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

async function cycle(connection: HttpConnection): Promise<void> {
  await expect(202, connection.post(base, createBody));
  const claimed = await expect(200, connection.post(`${base}/claim`, claimBody));
  const id = claimed.slice(7, 43);
  await expect(200, connection.post(`${base}/${id}/result`, resultBody));
}

async function echo(connection: HttpConnection): Promise<void> {
  await expect(200, connection.post("/", echoBody));
}

async function preload(load: HttpLoad): Promise<void> {
  const connection = await HttpConnection.open(load.port);
  const tasks = Array.from({ length: batchTasks }, () => createBody).join(",");
  for (let done = 0; done < load.tasks; done += batchTasks) {
    await expect(200, connection.post(`${base}/batch`, `{"tasks":[${tasks}]}`));
    if (done % 100_000 === 0) process.stderr.write(`  preloaded ${done} of ${load.tasks}\n`);
  }
  connection.close();
}

async function run(load: HttpLoad): Promise<HttpLoadResult> {
  const step = load.part === "echo" ? echo : cycle;
  const latencies: number[] = [];
  let cpuBefore = process.cpuUsage();
  let isMeasuring = false;
  let isOver = false;
  const work = async (): Promise<void> => {
    const connection = await HttpConnection.open(load.port);
    while (!isOver) {
      const startedMs = performance.now();
      await step(connection);
      if (isMeasuring) latencies.push(performance.now() - startedMs);
    }
    connection.close();
  };
  const workers = Array.from({ length: load.connections }, work);
  const begin = setTimeout(() => {
    isMeasuring = true;
    cpuBefore = process.cpuUsage();
    process.send?.("begin");
  }, load.warmUpSeconds * 1000);
  const end = setTimeout(
    () => {
      isOver = true;
      process.send?.("end");
    },
    (load.warmUpSeconds + load.seconds) * 1000,
  );
  await Promise.all(workers);
  clearTimeout(begin);
  clearTimeout(end);
  const cpu = process.cpuUsage(cpuBefore);
  latencies.sort((a, b) => a - b);
  const at = (share: number): number => latencies[Math.floor(latencies.length * share)] ?? 0;
  return {
    perSecond: latencies.length / load.seconds,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    clientCpuUs: (cpu.user + cpu.system) / Math.max(latencies.length, 1),
  };
}

const load = JSON.parse(process.argv[2] ?? "{}") as HttpLoad;
if (load.part === "preload") await preload(load);
else process.send?.(await run(load));
process.disconnect?.();
