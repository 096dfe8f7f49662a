/**
 * How many subscriptions a server carries: how long they take to be made, how long it takes until all subscribers of
 * a queue have heard that it has work, and what a create costs while they are there.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { workerScopes } from "../../packages/server/src/edge/access/identity.ts";
import { readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { Workspace } from "./workspace.ts";

export const subscriptionsHelp = `subscribers of one queue, to a receiver on this machine
    --subscriptions 0,100,10000   how many there are
    --creates 2000                tasks that are created one after the other, and timed`;

const columnWidth = 14;

function printRow(cells: readonly (string | number)[]): void {
  console.log(cells.map((cell) => String(cell).padStart(columnWidth)).join(" "));
}

export async function subscriptionsBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    subscriptions: wholeNumbers("0,100,10000", 0),
    creates: wholeNumber("2000"),
  });
  printRow(["subscriptions", "made in s", "all told in s", "us a create"]);
  for (const count of values.subscriptions) {
    const { madeMs, toldMs, createMs } = await measure(count, values.creates);
    const micros = Math.round((createMs * 1000) / values.creates);
    printRow([count, (madeMs / 1000).toFixed(1), (toldMs / 1000).toFixed(1), micros]);
  }
}

const together = 64;

async function measure(
  count: number,
  creates: number,
): Promise<{ readonly madeMs: number; readonly toldMs: number; readonly createMs: number }> {
  await using workspace = new Workspace();
  const told = new Set<string>();
  const all = Promise.withResolvers<void>();
  const receiver = createServer((request, response) => {
    told.add(request.url ?? "");
    if (told.size === count) all.resolve();
    request.resume();
    response.writeHead(204).end();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const { port: receiverPort } = receiver.address() as AddressInfo;
  const auth = [{ token: "t", subject: "s", scopes: workerScopes, eventTypes: ["*"] }];
  const { port } = await workspace.startServer({
    CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true",
    CODEQ_DURABILITY: "os",
    PRODUCER_AUTH_CONFIG: JSON.stringify([{ ...auth[0], scopes: [], raw: { tenantId: "acme" } }]),
    WORKER_AUTH_CONFIG: JSON.stringify([{ ...auth[0], raw: { tenantId: "acme" } }]),
  });
  const post = async (path: string, body: object): Promise<void> => {
    const reply = await fetch(`http://127.0.0.1:${port}/v1/codeq${path}`, {
      method: "POST",
      headers: { authorization: "Bearer t", "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
    await reply.arrayBuffer();
  };
  const create = (): Promise<void> => post("/tasks", { command: "work", payload: {} });
  const madeMs = await timed(async () => {
    for (let first = 0; first < count; first += together) {
      const names = Array.from({ length: Math.min(together, count - first) }, (_, n) => first + n);
      const each = (n: number): Promise<void> =>
        post("/workers/subscriptions", {
          callbackUrl: `http://127.0.0.1:${receiverPort}/${n}`,
          eventTypes: ["work"],
          ttlSeconds: 3600,
          minIntervalSeconds: 600,
        });
      await Promise.all(names.map(each));
    }
  });
  await create();
  const toldMs = count === 0 ? 0 : await timed(() => all.promise);
  const createMs = await timed(async () => {
    for (let n = 0; n < creates; n += 1) await create();
  });
  receiver.close();
  receiver.closeAllConnections();
  return { madeMs, toldMs, createMs };
}

async function timed(run: () => Promise<void>): Promise<number> {
  const startMs = performance.now();
  await run();
  return performance.now() - startMs;
}
