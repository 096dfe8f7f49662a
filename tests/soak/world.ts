/** What every client of the soak can reach: the server's ports, the ledger and the choices so far. */
import type { SimRandom } from "@codeq/simulated";
import type { ApiClient } from "../e2e/api-client.ts";
import type { Ledger, Story } from "./ledger.ts";
import { type Receivers, receiverKinds } from "./receivers.ts";

export interface SoakWorld {
  readonly api: ApiClient;
  readonly ledger: Ledger;
  readonly random: SimRandom;
  readonly receivers: Receivers;
  readonly workerPort: number;
  readonly producerPort: number;
  /** From short to long; a task that is left alone comes back after it. */
  readonly leaseSeconds: readonly [number, number];
  /** How long a client does not read, in ticks. */
  readonly slowTicks: readonly number[];
  /** How many large tasks are to be created at the next tick. */
  bulkWanted: number;
  /** No more trouble: what is left is worked off. */
  isDraining: boolean;
}

export const token = "dev-token";
export const commands = ["alpha", "beta", "Gamma"] as const;
/** Tasks with so much in them that whoever does not read is soon full. */
export const bulkCommand = "bulk";
/** Nobody ever creates one of these. */
export const idleCommand = "idle";

const bulkChars = 60_000;
const keyShare = 0.1;
const webhookShare = 0.1;

/** A task to create, of the usual mix. */
export function newStory(world: SoakWorld): Story {
  const { random, ledger } = world;
  const command = random.pick(commands);
  const fillChars = random.int(random.pick([50, 200, 2000]));
  const key = random.next() < keyShare ? `key-${ledger.stories.length}` : "";
  const { receivers } = world;
  const n = ledger.stories.length;
  const webhook =
    random.next() < webhookShare ? receivers.urlOf(random.pick(receiverKinds), n) : "";
  return ledger.add({ command, fillChars, key, webhook });
}

export function newBulkStory({ ledger }: SoakWorld): Story {
  return ledger.add({ command: bulkCommand, fillChars: bulkChars, key: "", webhook: "" });
}
