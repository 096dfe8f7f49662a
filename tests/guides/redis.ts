/** A Redis of its own for a test. Its clients have to be closed before it, or they try for ever. */
import type { TestContext } from "node:test";
import { ensurePeers, startRedis } from "../bench/peer-servers.ts";
import { SetupError } from "../bench/programs.ts";
import { Workspace } from "../bench/workspace.ts";

export interface Redis extends AsyncDisposable {
  readonly url: string;
}

/** Undefined, with the reason told, where there is none and none can be installed. */
export async function startRedisFor(t: TestContext): Promise<Redis | undefined> {
  try {
    ensurePeers(["redis-server"]);
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    t.skip(error.message);
    return undefined;
  }
  const workspace = new Workspace();
  const { port } = await startRedis(workspace);
  return {
    url: `redis://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () => workspace[Symbol.asyncDispose](),
  };
}
