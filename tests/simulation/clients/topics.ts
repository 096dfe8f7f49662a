/** Administrators that give queues policies, change them and take them away. */
import { admins } from "../plan.ts";
import type { Fleet } from "./fleet.ts";

const names = ["render", "email"];

export async function changeTopic(fleet: Fleet): Promise<void> {
  const { calls, random } = fleet;
  const admin = random.pick(admins);
  const name = random.pick(names);
  if (fleet.chance(0.25)) {
    await calls.send("deleteTopic", admin, { name, deletionPolicy: "Delete" });
    return;
  }
  await calls.send("putTopic", admin, {
    name,
    priorityTiers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    maxAttempts: 1 + random.int(3),
    deadLetterTopicRef: fleet.chance(0.4) ? `${name}-dead` : "",
    retentionSeconds: fleet.chance(0.5) ? 0 : 20 + random.int(100),
    maxConsumers: fleet.chance(0.3) ? 0 : 1 + random.int(4),
    placement: "spread",
  });
}
