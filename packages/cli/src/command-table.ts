/**
 * THE table of commands: one row each. Parsing, help, completion and the manual page are derived from a row;
 * to add a command, add a row and the function that it runs.
 */
import type { CommandRow } from "./command.ts";
import { goCommands } from "./go-compat/go-commands.ts";
import { accessCommands } from "./table/access-commands.ts";
import { batchCommands } from "./table/batch-commands.ts";
import { checkCommands } from "./table/check-commands.ts";
import { clusterCommands } from "./table/cluster-commands.ts";
import { laneCommands } from "./table/lane-commands.ts";
import { outboxCommands } from "./table/outbox-commands.ts";
import { repairCommands } from "./table/repair-commands.ts";
import { scheduleCommands } from "./table/schedule-commands.ts";
import { startCommands } from "./table/start-commands.ts";
import { subscriptionCommands } from "./table/subscription-commands.ts";
import { taskCommands } from "./table/task-commands.ts";
import { topicCommands } from "./table/topic-commands.ts";
import { webhookCommands } from "./table/webhook-commands.ts";

export const commandTable: readonly CommandRow[] = [
  ...startCommands,
  ...taskCommands,
  ...batchCommands,
  ...scheduleCommands,
  ...outboxCommands,
  ...repairCommands,
  ...webhookCommands,
  ...subscriptionCommands,
  ...topicCommands,
  ...laneCommands,
  ...accessCommands,
  ...clusterCommands,
  ...checkCommands,
  ...goCommands,
];
