/** A server with short times and the development tokens, a crowd of attackers and a healthy client. */
import type { TestContext } from "node:test";
import type { SimClock } from "@codeq/simulated";
import { loadConfig } from "../../../packages/server/src/config/load.ts";
import type { Config } from "../../../packages/server/src/config/settings.ts";
import { type Server, setup as start } from "../setup.ts";
import { attackCalled } from "./attacks.ts";
import { Crowd } from "./crowd.ts";
import { HealthyClient } from "./healthy-client.ts";

const token = "dev-token";

export interface World {
  readonly server: Server;
  /** Works once and ends; fails when anything that it asks for fails. */
  healthy(rounds?: number): Promise<void>;
  /** Resolves when all are connected. */
  attack(name: string, size: number): Promise<Crowd>;
}

export async function setup(
  t: TestContext,
  settings: Partial<Config> = {},
  clock?: SimClock,
): Promise<World> {
  const server = await start(t, {
    settings: { ...developmentTokens(), ...settings },
    ...(clock === undefined ? {} : { clock }),
  });
  const { port, workerStreamPort } = server.ports;
  const target = { http: port, grpc: workerStreamPort, token };
  return {
    server,
    healthy: async (rounds = 5) => {
      const client = await HealthyClient.open(target);
      await client.work({ rounds }).finally(() => client.close());
    },
    attack: async (name, size) => {
      const attack = attackCalled(name);
      const play = attack.play(token);
      const crowd = new Crowd({ port: target[attack.port], size, play, reopens: false });
      t.after(() => crowd.stop());
      await crowd.start();
      return crowd;
    },
  };
}

function developmentTokens(): Pick<Config, "producerAuth" | "workerAuth"> {
  const loaded = loadConfig({ argv: [], env: {}, readFile: () => "" });
  if (!loaded.ok) throw new Error(loaded.problems.join("\n"));
  const { producerAuth, workerAuth } = loaded.config;
  return { producerAuth, workerAuth };
}
