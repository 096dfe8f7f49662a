/**
 * The end of some runs: the server is stopped in order, blocks of its kv rot, and the next life is asked
 * for everything that there is.
 */
import type { SimRandom } from "@codeq/simulated";
import type { Fleet } from "./clients/fleet.ts";
import { createMany } from "./clients/produce.ts";
import { producers, workers } from "./plan.ts";
import type { World } from "./world.ts";

export interface RotParts {
  readonly world: World;
  readonly fleet: Fleet;
  readonly random: SimRandom;
  /** Lets time pass. */
  readonly step: (ms: number) => Promise<void>;
}

const creations = 8;
const stepsMax = 300;

/** False when no server came back that could be asked. */
export async function rotAndRead(parts: RotParts): Promise<boolean> {
  const { world, fleet, random, step } = parts;
  await finished(parts, Promise.all(Array.from({ length: creations }, () => createMany(fleet))));
  world.stop();
  for (let steps = 0; world.life !== undefined && steps < stepsMax; steps += 1) await step(50);
  if (world.life !== undefined) return false;
  world.board.leaveOnly("rottenIsNotServed");
  for (const key of world.kvFiles.rot(random)) world.trace.add(`rot ${key}`);
  world.boot();
  for (let steps = 0; world.serving === undefined && steps < stepsMax; steps += 1) await step(50);
  if (world.serving === undefined) return false;
  await finished(parts, readAll(parts));
  await finished(parts, claimAll(parts));
  await finished(parts, readAll(parts));
  await finished(parts, repeatAll(parts));
  return true;
}

/** Lets time pass until it has come to its end, or has had enough of it. */
async function finished({ step }: RotParts, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  void work.then(end, end);
  for (let steps = 0; !isOver && steps < stepsMax; steps += 1) await step(50);
}

async function readAll({ world, fleet: { calls } }: RotParts): Promise<void> {
  for (const { id, tenantId } of [...world.ledger.tasks.values()]) {
    const reader = producers.find(({ tenant }) => tenant === tenantId);
    if (reader === undefined) continue;
    await calls.send("getTask", reader, { id, consistency: "" });
    await calls.send("getResult", reader, { id, waitSeconds: 0 });
  }
}

async function claimAll({ fleet: { calls } }: RotParts): Promise<void> {
  const wish = { commands: [], leaseSeconds: 3600, waitSeconds: 0, count: 20 };
  for (const worker of workers.filter(({ subject }) => subject.endsWith("worker-1"))) {
    for (let claims = 0; claims < 20; claims += 1) {
      const answer = await calls.send("claimTasks", worker, wish);
      if (answer?.ok === true && answer.value.length === 0) break;
    }
  }
}

/** Creates again what has a key of its producer. */
async function repeatAll({ world, fleet: { calls } }: RotParts): Promise<void> {
  for (const { tenantId, command, idempotencyKey } of [...world.ledger.tasks.values()]) {
    const producer = producers.find(({ tenant }) => tenant === tenantId);
    if (producer === undefined || idempotencyKey === "") continue;
    await calls.send("createTask", producer, {
      ...{ command, idempotencyKey, payload: "{}", priority: 0, webhook: "", maxAttempts: 0 },
      idempotencyMode: "",
      unique: undefined,
      batchId: "",
      ...{
        runAt: "",
        delaySeconds: 0,
        timeoutSeconds: 0,
        ttlSeconds: 0,
        tags: [],
        traceParent: "",
        traceState: "",
      },
    });
  }
}
