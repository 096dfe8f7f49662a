/** The result of an ended task reaches its webhook at least once if the target answers. */
import { isTerminal } from "../ledger.ts";
import type { MakeChecker } from "./checker.ts";

export const webhooksArrive: MakeChecker = ({ world, report }) => ({
  ended: ({ tasks }) => {
    const { delivered, refused } = world.target;
    for (const task of tasks.values()) {
      if (task.webhook === "" || !isTerminal(task)) continue;
      if (delivered.has(task.id) || refused.has(task.id)) continue;
      report(`nobody was told of the end of ${task.id}`);
    }
  },
});
