/**
 * Ports for servers that keep theirs over a restart. They are below those that the operating system gives out by
 * itself, so that no other connection has one of them while its server is down.
 */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:net";

const lowest = 12_000;
const highest = 32_000;

/** The first port of each of several rows of ports that nobody uses now. */
export async function freePortRows(rows: number, length: number): Promise<number[]> {
  const held: Server[] = [];
  const firsts: number[] = [];
  while (firsts.length < rows) {
    const first = randomInt(lowest, highest);
    const row = await Promise.all(
      Array.from({ length }, (_, above) => listen(first + above).catch(() => undefined)),
    );
    const open = row.filter((server) => server !== undefined);
    held.push(...open);
    if (open.length === length) firsts.push(first);
  }
  await Promise.all(held.map((server) => new Promise((resolve) => server.close(resolve))));
  return firsts;
}

async function listen(port: number): Promise<Server> {
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}
