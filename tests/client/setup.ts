/** A server process with both of its stream ports, and clients of it. */
import type { TestContext } from "node:test";
import { type Client, type ClientOptions, codeq } from "@codeq/client";
import {
  type ServerOptions,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";

export interface Setup {
  readonly server: ServerProcess;
  readonly dataDir: string;
  /** Closed when the test is over. */
  client(options?: ClientOptions): Client;
}

const streams = { WORKER_STREAM_ADDR: "127.0.0.1:0", PRODUCER_STREAM_ADDR: "127.0.0.1:0" };

export async function setup(t: TestContext, env: ServerOptions["env"] = {}): Promise<Setup> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const dataDir = directory.path;
  const server = await startServer({ dataDir, env: { ...streams, ...env } });
  t.after(() => server.kill());
  return {
    server,
    dataDir,
    client: (options = {}) => {
      const client = codeq({ url: server.url, ...options });
      t.after(() => client.close({ timeout: 0 }).catch(() => {}));
      return client;
    },
  };
}
