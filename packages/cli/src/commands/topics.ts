/** `topics`: the policies of queues. */
import { type ItemOf, TopicPolicy } from "@codeq/client/command-line";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import type { Column } from "../terminal/table.ts";
import * as contract from "./contract-commands.ts";

const tiersDefault = "0,1,2,3,4,5,6,7,8,9";

export function set(call: Call): Promise<number> {
  const { maxAttempts, ...policy } = contract.bodyOf(call, TopicPolicy);
  if (maxAttempts === undefined) {
    throw usageError(
      "--max-attempts is missing",
      "set the maximum number of attempts, for example --max-attempts 5",
    );
  }
  const body = { priorityTiers: tiersOf(call), maxAttempts, ...policy };
  return contract.tell(
    call,
    ["PUT /admin/topics/:topicName", { ...topicOf(call), body }],
    ({ version }) => `${call.word(0)} has version ${version}`,
  );
}

function tiersOf({ options }: Call): number[] {
  const texts = options.has("priorities") ? options.list("priorities") : tiersDefault.split(",");
  return texts.map((each) => {
    if (/^\d{1,2}$/.test(each)) return Number(each);
    throw usageError(
      `--priorities is a list of numbers such as 0,5,9, not ${JSON.stringify(each)}`,
    );
  });
}

const columns: readonly Column<ItemOf<"GET /admin/topics">>[] = [
  { title: "TOPIC", show: ({ topicName }) => topicName },
  { title: "VERSION", align: "right", show: ({ version }) => String(version) },
  { title: "ATTEMPTS", align: "right", show: ({ policy }) => String(policy.maxAttempts) },
  { title: "WORKERS", align: "right", show: ({ policy }) => String(policy.maxConsumers ?? "-") },
  {
    title: "RETENTION",
    align: "right",
    show: ({ policy }) =>
      policy.retentionSeconds === undefined ? "-" : `${policy.retentionSeconds} s`,
  },
  { title: "PRIORITIES", show: ({ policy }) => policy.priorityTiers.join(",") },
  { title: "DEAD LETTERS", show: ({ policy }) => policy.deadLetterTopicRef ?? "-" },
];

export function list(call: Call): Promise<number> {
  const none = "no topics; codeq topics set makes one";
  return contract.showAll(call, "GET /admin/topics", { columns, none });
}

export function get(call: Call): Promise<number> {
  return contract.showOne(call, ["GET /admin/topics/:topicName", topicOf(call)], columns);
}

function remove(call: Call): Promise<number> {
  const given = { ...topicOf(call), query: { deletionPolicy: "Delete" } } as const;
  return contract.remove(call, ["DELETE /admin/topics/:topicName", given], {
    json: { topicName: call.word(0), deleted: true },
    done: `${call.word(0)} has no topic; the settings of the server apply`,
  });
}

export { remove as delete };

function topicOf(call: Call) {
  return { params: { topicName: call.word(0) } };
}
