/**
 * In the order of the log, no lease of a queue begins while it has all that its topic allows, also across crashes;
 * and with a dead letter of a queue that says where those go comes the task that goes there.
 */
import type { TaskId } from "@codeq/queue";
import { leasesOf, topicPolicyOf } from "../topic-of.ts";
import type { MakeChecker } from "./checker.ts";

export const topicLimitsHold: MakeChecker = ({ world, report }) => {
  const copiesMissing = new Set<TaskId>();
  return {
    event: ({ kind, id, before, after }) => {
      if (before === undefined) {
        copiesMissing.delete(after?.repairs?.replayOf as TaskId);
        return;
      }
      const limit = kind === "claim" ? leasesOf(world, before) : undefined;
      if (limit !== undefined && limit.leases >= limit.max) {
        report(`${id} is claimed although ${limit.leases} of ${limit.max} are`);
      }
      if (after?.place.in !== "dead" || before.place.in === "dead") return;
      const ref = topicPolicyOf(world, before)?.deadLetterTopicRef ?? "";
      const isCopy = (before.repairs?.replayOf ?? "") !== "";
      if (ref !== "" && !isCopy) copiesMissing.add(id as TaskId);
    },
    recovered: () => copiesMissing.clear(),
    stepped: () => {
      for (const id of copiesMissing) report(`${id} is a dead letter and has no copy`);
    },
  };
};
