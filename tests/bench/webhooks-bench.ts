/**
 * How long one tenant waits for its callbacks while those of another one wait for endpoints that never
 * answer: a callback is timed from the answer to the submit until its receiver has it. And how many callbacks
 * a second reach a receiver that answers at once.
 */
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { workerScopes } from "../../packages/server/src/edge/access/identity.ts";
import { cpuOf } from "./cpu-time.ts";
import { Histogram } from "./histogram.ts";
import { readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { Workspace } from "./workspace.ts";

export const webhooksHelp = `callbacks of one tenant while those of another wait for silent endpoints
    --waiting 0,1000,10000     callbacks of the other tenant that wait
    --endpoints 8              silent endpoints that they go to
    --callbacks 200            that are timed, one after the other
    --flood 20000              callbacks that are all due at once, to one receiver; 0 leaves them out`;

const columnWidth = 11;

function printRow(cells: readonly string[]): void {
  console.log(cells.map((cell) => cell.padStart(columnWidth)).join(" "));
}
const batchMax = 256;

export async function webhooksBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    waiting: wholeNumbers("0,1000,10000", 0),
    endpoints: wholeNumber("8"),
    callbacks: wholeNumber("200"),
    flood: wholeNumber("20000", 0),
  });
  if (values.flood > 0) await flood(values.flood);
  printRow(["waiting", "endpoints", "p50 ms", "p99 ms", "longest ms"]);
  for (const waiting of values.waiting) {
    const { histogram, longestMs } = await measure({ ...values, waiting });
    const figures = [histogram.quantile(0.5), histogram.quantile(0.99), longestMs];
    const cells = [waiting, values.endpoints, ...figures.map((ms) => ms?.toFixed(1) ?? "-")];
    printRow(cells.map(String));
  }
}

/** All are created, claimed and finished by batches; the clock runs until the last has arrived. */
async function flood(count: number): Promise<void> {
  await using workspace = new Workspace();
  const { promise: allArrived, resolve } = Promise.withResolvers<void>();
  const arrived = new Set<string>();
  const receiver = createHttpServer((request, response) => {
    arrived.add(request.url ?? "");
    if (arrived.size === count) resolve();
    request.resume();
    response.end();
  });
  const url = `http://127.0.0.1:${await portOf(receiver)}/`;
  const { port, child } = await workspace.startServer(settings);
  const tenant = new Tenant(port, "quiet");
  const [startMs, cpuBefore] = [performance.now(), await cpuOf(child)];
  for (let first = 0; first < count; first += batchMax) {
    await tenant.finish(Math.min(count - first, batchMax), (n) => `${url}${first + n}`);
  }
  const finishedMs = performance.now();
  await allArrived;
  const [endMs, cpuAfter] = [performance.now(), await cpuOf(child)];
  receiver.close();
  receiver.closeAllConnections();
  const seconds = (fromMs: number): number => (endMs - fromMs) / 1000;
  printRow(["callbacks", "seconds", "per second", "behind s", "server us"]);
  const cpuUs = ((cpuAfter.seconds - cpuBefore.seconds) * 1e6) / count;
  const shown = [seconds(startMs).toFixed(1), (count / seconds(startMs)).toFixed(0)];
  printRow([String(count), ...shown, seconds(finishedMs).toFixed(2), cpuUs.toFixed(0)]);
  console.log("");
}

const settings = {
  ...{ CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true", CODEQ_DURABILITY: "os" },
  PRODUCER_AUTH_CONFIG: tokens([]),
  WORKER_AUTH_CONFIG: tokens(workerScopes),
};

async function measure(plan: {
  readonly waiting: number;
  readonly endpoints: number;
  readonly callbacks: number;
}): Promise<{ readonly histogram: Histogram; readonly longestMs: number }> {
  await using workspace = new Workspace();
  const silent = await Promise.all(Array.from({ length: plan.endpoints }, () => listenSilently()));
  const receiver = new Receiver();
  const url = await receiver.listen();
  const { port } = await workspace.startServer(settings);
  const noisy = new Tenant(port, "noisy");
  for (let left = plan.waiting; left > 0; left -= batchMax) {
    const urls = silent.map(({ address }) => address);
    await noisy.finish(Math.min(left, batchMax), (n) => urls[n % urls.length] ?? "");
  }
  const quiet = new Tenant(port, "quiet");
  const histogram = new Histogram();
  let longestMs = 0;
  for (let n = 0; n < plan.callbacks; n += 1) {
    const arrived = receiver.next();
    await quiet.finish(1, () => url);
    const answeredMs = performance.now();
    const ms = Math.max(0, (await arrived) - answeredMs);
    histogram.add(ms);
    longestMs = Math.max(longestMs, ms);
  }
  for (const each of silent) each.close();
  receiver.close();
  return { histogram, longestMs };
}

function tokens(scopes: readonly string[]): string {
  const all = ["noisy", "quiet"].map((tenantId) => ({
    ...{ token: `token-of-${tenantId}`, subject: tenantId, scopes, eventTypes: ["*"] },
    raw: { tenantId },
  }));
  return JSON.stringify(all);
}

class Tenant {
  readonly #url: string;
  readonly #name: string;

  constructor(port: number, name: string) {
    this.#url = `http://127.0.0.1:${port}/v1/codeq/tasks`;
    this.#name = name;
  }

  /** Creates tasks, claims them and submits their results. */
  async finish(count: number, webhook: (n: number) => string): Promise<void> {
    const command = this.#name;
    const tasks = Array.from({ length: count }, (_, n) => ({
      ...{ command, payload: {}, webhook: webhook(n) },
    }));
    await this.#post("/batch", { tasks });
    const claimed = await this.#post("/claim/batch", { commands: [command], count });
    const results = (claimed as { tasks: { id: string }[] }).tasks.map(({ id }) => ({
      ...{ taskId: id, status: "COMPLETED", result: {} },
    }));
    await this.#post("/batch/results", { results });
  }

  async #post(path: string, body: unknown): Promise<unknown> {
    const reply = await fetch(this.#url + path, {
      method: "POST",
      headers: {
        ...{ authorization: `Bearer token-of-${this.#name}` },
        "content-type": "application/json",
      },
      body: JSON.stringify(body),
    });
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
    return reply.json();
  }
}

class Receiver {
  readonly #server = createHttpServer((_, response) => {
    this.#arrived?.(performance.now());
    response.end();
  });
  #arrived: ((atMs: number) => void) | undefined;

  async listen(): Promise<string> {
    return `http://127.0.0.1:${await portOf(this.#server)}/`;
  }

  /** The moment at which the next callback comes. */
  next(): Promise<number> {
    return new Promise((resolve) => {
      this.#arrived = resolve;
    });
  }

  close(): void {
    this.#server.close();
  }
}

async function listenSilently(): Promise<{ readonly address: string; close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => sockets.add(socket.on("error", () => {})));
  const port = await portOf(server);
  return {
    address: `http://127.0.0.1:${port}/`,
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}
