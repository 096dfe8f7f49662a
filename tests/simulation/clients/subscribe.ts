/** Workers that want to be told of work: they subscribe, renew, and go away. */
import { commands, workers } from "../plan.ts";
import type { Fleet } from "./fleet.ts";

export async function subscribeSome(fleet: Fleet): Promise<void> {
  const { calls, random, subscriptions } = fleet;
  if (subscriptions.length > 0 && fleet.chance(0.4)) {
    const known = random.pick(subscriptions);
    if (fleet.chance(0.6)) {
      const ttlSeconds = fleet.chance(0.3) ? 0 : 1 + random.int(100);
      await calls.send("renewSubscription", known.worker, { id: known.id, ttlSeconds });
      return;
    }
    await calls.send("unsubscribe", known.worker, { id: known.id });
    return;
  }
  const worker = random.pick(workers);
  const answer = await calls.send("subscribe", worker, {
    callbackUrl: `https://${worker.subject}.example/${fleet.mark()}`,
    eventTypes: fleet.chance(0.3) ? [] : [random.pick(commands), random.pick(commands)],
    ttlSeconds: fleet.chance(0.3) ? 0 : 1 + random.int(600),
    mode: random.pick(["fanout", "group", "hash"] as const),
    groupId: random.pick(["g", "h"]),
    minIntervalSeconds: random.int(4),
  });
  if (answer?.ok === true) subscriptions.push({ worker, id: answer.value.id });
}
