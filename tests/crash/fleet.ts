/** One server that is killed with SIGKILL, or three nodes whose leader is, and a client that does not give up. */
import assert from "node:assert/strict";
import { operator, ThreeNodes } from "../cluster/three-nodes.ts";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";

/** One server, or three nodes. */
export interface Fleet extends AsyncDisposable {
  /** Of the servers that run. */
  urls(): readonly string[];
  /** Kills the server, or the leader, and starts it again. */
  kill(): Promise<void>;
  /** Resolves when it is worth asking again. */
  changed(): Promise<void>;
}

const triesMax = 300;

/** Of one server, or of three nodes that share a log in etcd. */
export function startFleet(etcd: string | undefined): Promise<Fleet> {
  return etcd === undefined ? oneServer() : threeNodes(etcd);
}

/** Asks again, another server if there are several, until there is an answer. */
export class Client {
  readonly #fleet: Fleet;
  #turn = 0;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the answers of several endpoints.
  async ask(method: string, path: string, body?: unknown): Promise<any> {
    for (let tries = 0; tries < triesMax; tries += 1) {
      const urls = this.#fleet.urls();
      this.#turn += 1;
      const url = urls[this.#turn % Math.max(1, urls.length)];
      const headers = { authorization: "Bearer dev-token", "content-type": "application/json" };
      const init = {
        method,
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      };
      try {
        const reply = await fetch(`${url}/v1/codeq${path}`, init);
        const text = await reply.text();
        if (reply.status === 204) return undefined;
        if (reply.ok) return JSON.parse(text);
        if (reply.status < 500) assert.fail(`${method} ${path}: ${text}`);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
      }
      await this.#fleet.changed();
    }
    return assert.fail(`${method} ${path} has no answer`);
  }
}

async function oneServer(): Promise<Fleet> {
  const directory = temporaryDirectory();
  const options = { dataDir: directory.path, env: { CODEQ_ENV: "dev", ...operator } };
  let server = await startServer(options);
  let isUp = Promise.resolve();
  const restart = async (): Promise<void> => {
    await server.kill();
    server = await startServer(options);
  };
  return {
    urls: () => [server.url],
    kill: () => {
      isUp = restart();
      return isUp;
    },
    changed: () => isUp,
    [Symbol.asyncDispose]: async () => {
      await server.kill();
      directory.dispose();
    },
  };
}

async function threeNodes(etcd: string): Promise<Fleet> {
  const cluster = await ThreeNodes.start(etcd);
  const down = new Set<string>();
  const up = (): string[] => cluster.ids.filter((id) => !down.has(id));
  await Promise.all(cluster.ids.map((id) => cluster.leader(id)));
  return {
    urls: () => up().flatMap((id) => cluster.servers.get(id)?.url ?? []),
    kill: async () => {
      const leader = await cluster.leader(up()[0] as string);
      down.add(leader);
      await cluster.servers.get(leader)?.kill();
      await cluster.leader(up()[0] as string, { besides: leader });
      await cluster.startNode(leader);
      down.delete(leader);
    },
    changed: async () => {
      // A node holds a claim for a second, also while it knows no leader.
      const held = { commands: ["nobody-creates-this"], waitSeconds: 1 };
      const asked = cluster.client(up()[0] as string).post("/tasks/claim", held);
      // The node may be the one that is killed.
      await asked.catch(() => undefined);
    },
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

/** A few at a time. */
export async function inTurns(
  ids: readonly string[],
  run: (id: string, at: number) => Promise<unknown>,
): Promise<void> {
  const left = [...ids.entries()];
  const lane = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift())
      await run(next[1], next[0]);
  };
  await Promise.all(Array.from({ length: 16 }, lane));
}
