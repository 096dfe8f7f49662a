/** Readers and administrators: they look at tasks, results and counts, and clean up. */
import { admins, producers, workers } from "../plan.ts";
import type { Fleet } from "./fleet.ts";

export async function readTask(fleet: Fleet): Promise<void> {
  if (fleet.known.length === 0) return;
  const { id, tenant } = fleet.random.pick(fleet.known);
  const readers = [...producers, ...workers];
  // One in ten asks for what belongs to somebody else.
  const own = readers.filter((reader) => reader.tenant === tenant);
  const reader = fleet.random.pick(fleet.chance(0.1) ? readers : own);
  if (fleet.chance(0.5)) {
    await fleet.calls.send("getTask", reader, { id });
    return;
  }
  const waitSeconds = fleet.chance(0.3) ? 1 + fleet.random.int(5) : 0;
  const abortAfterMs = fleet.random.next() * 3000;
  const options = fleet.chance(0.1) ? { abortAfterMs } : {};
  await fleet.calls.send("getResult", reader, { id, waitSeconds }, options);
}

export async function administer(fleet: Fleet): Promise<void> {
  const { calls, random, world } = fleet;
  const caller = fleet.chance(0.1) ? random.pick(producers) : random.pick(admins);
  switch (random.int(4)) {
    case 0:
      await calls.send("listQueues", caller, undefined);
      return;
    case 1:
      await calls.send("getQueue", caller, { command: random.pick(["render", "EMAIL", "none"]) });
      return;
    default: {
      const ms = world.wallMs + (random.next() - 0.3) * 200_000;
      const before = fleet.chance(0.4) ? "" : new Date(Math.floor(ms)).toISOString();
      await calls.send("cleanUp", caller, {
        before,
        limit: fleet.chance(0.5) ? 0 : 1 + random.int(9),
      });
    }
  }
}
