/** Once nothing disturbs the server any more and workers work, every task comes to its end. */
import { isTerminal } from "../ledger.ts";
import type { MakeChecker } from "./checker.ts";

export const everythingFinishes: MakeChecker = ({ report }) => ({
  ended: ({ tasks }) => {
    for (const task of tasks.values()) {
      if (!isTerminal(task)) report(`${task.id} is still ${JSON.stringify(task.place)}`);
    }
  },
});
