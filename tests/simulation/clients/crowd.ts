/** Who does something next, and the good workers that finish everything at the end. */
import type { Caller } from "../plan.ts";
import { workers } from "../plan.ts";
import type { Fleet } from "./fleet.ts";
import { administer, readTask } from "./look.ts";
import { createBadly, createMany, createOne, createTwice, retryLost, reuseKey } from "./produce.ts";
import { subscribeSome } from "./subscribe.ts";
import { changeTopic } from "./topics.ts";
import { actWrongly, claim, workOn } from "./work.ts";

type Act = (fleet: Fleet) => Promise<void>;

const producing: readonly Act[] = [
  createOne,
  createOne,
  createOne,
  createMany,
  createTwice,
  retryLost,
  reuseKey,
  createBadly,
];
const working: readonly Act[] = [claim, claim, claim, workOn, workOn, workOn, workOn, actWrongly];
const looking: readonly Act[] = [
  readTask,
  readTask,
  readTask,
  administer,
  subscribeSome,
  changeTopic,
];

/** Somebody does something; what comes of it is seen later. */
export function actOnce(fleet: Fleet): void {
  const draw = fleet.random.next();
  const isFull = fleet.openTasks >= fleet.world.plan.backlogMax;
  const kind = draw < 0.35 && !isFull ? producing : draw < 0.85 ? working : looking;
  void fleet.random.pick(kind)(fleet);
}

/** Claims whatever there is and completes it, over and over, until told to stop. */
export async function finishAll(
  fleet: Fleet,
  worker: Caller,
  isOver: () => boolean,
): Promise<void> {
  while (!isOver()) {
    const wish = { commands: [], leaseSeconds: 10, waitSeconds: 1, count: 10 };
    const answer = await fleet.calls.send("claimTasks", worker, wish);
    if (answer?.ok !== true) {
      await new Promise<void>((resolve) => {
        fleet.world.clock.after(100, resolve);
      });
      continue;
    }
    for (const { task } of answer.value) {
      const resultJson = JSON.stringify({ mark: fleet.mark() });
      await fleet.calls.send("submitResult", worker, {
        id: task.id,
        leaseToken: task.leaseToken,
        workerId: "",
        resultJson,
        status: "COMPLETED",
        error: "",
        artifacts: [],
      });
    }
  }
}

export const finishers: readonly Caller[] = workers.filter(({ subject }) =>
  subject.endsWith("worker-1"),
);
