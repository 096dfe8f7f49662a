/** `topics`: the policies of queues. */
import type { ItemOf } from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import * as contract from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { CliError, usageError } from "../../cli-error.ts";
import type { Column } from "../../terminal/table.ts";

type Policy = ItemOf<"GET /admin/topics">["policy"];

/** The policy of a new topic, without options. */
const initial: Policy = { priorityTiers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], maxAttempts: 5 };

/** Changes what is given, and leaves the rest of the policy as it is. */
export async function set(call: Call): Promise<void> {
  const before = await policyOf(call);
  const given = contract.bodyOf(call, "PUT /admin/topics/:topicName");
  const named = Object.entries(given).filter(([, value]) => value !== undefined);
  const policy = before ?? initial;
  const body: Policy = {
    ...policy,
    ...Object.fromEntries(named),
    ...tiersOf(call),
    ...lanesOf(call, policy),
  };
  return contract.print(
    call,
    ["PUT /admin/topics/:topicName", { ...topicOf(call), body }],
    ({ topicName, version, policy }) =>
      [`${topicName} has version ${version}`, ...differenceOf(before, policy)].join("\n"),
  );
}

/** Undefined for a queue without a topic. */
async function policyOf(call: Call): Promise<Policy | undefined> {
  try {
    return (await contract.ask(call, "GET /admin/topics/:topicName", topicOf(call))).value.policy;
  } catch (error) {
    if (error instanceof CliError && error.serverCode === "topic_not_found") return undefined;
    throw error;
  }
}

function tiersOf({ options }: Call): Partial<Policy> {
  if (!options.has("priorities")) return {};
  const priorityTiers = options.list("priorities").map((each) => {
    if (/^\d{1,2}$/.test(each)) return Number(each);
    throw usageError(
      `--priorities is a list of numbers such as 0,5,9, not ${JSON.stringify(each)}`,
    );
  });
  return { priorityTiers };
}

type Rate = NonNullable<Policy["rate"]>;

/** What applies to each lane, and the rate of the queue; an empty rate takes it back. */
function lanesOf({ options }: Call, { lanes = {} }: Policy): Partial<Policy> {
  const rate = options.has("rate") ? { rate: rateOf(options.text("rate")) } : {};
  if (!["lane-concurrency", "lane-rate", "lane-weight"].some((each) => options.has(each))) {
    return rate;
  }
  const concurrency =
    options.wholeNumber("lane-concurrency", { min: 0, max: limits.topicConsumersMax }) ??
    lanes.concurrency;
  const ofLane = options.has("lane-rate") ? rateOf(options.text("lane-rate")) : lanes.rate;
  const weight =
    options.wholeNumber("lane-weight", { min: 1, max: limits.laneWeightMax }) ?? lanes.weight;
  return { ...rate, lanes: { concurrency, rate: ofLane, weight } };
}

/** `100/1m` for 100 units in a minute, `100/1m/20` with at most 20 of them at once. */
export function rateOf(text = ""): Rate | undefined {
  if (text === "") return undefined;
  const match = /^(\d+)\/(\d+(?:s|m|h|d))(?:\/(\d+))?$/.exec(text);
  if (match === null) {
    throw usageError(`a rate is units/time or units/time/burst, such as 100/1m, not ${text}`);
  }
  const [, units, per = "", burst] = match;
  return { units: Number(units), per, ...(burst === undefined ? {} : { burst: Number(burst) }) };
}

export function rateText(rate: Rate | undefined): string {
  if (rate === undefined) return unset;
  const { units, per, burst } = rate;
  return burst === undefined ? `${units}/${per}` : `${units}/${per}/${burst}`;
}

const unset = "not limited";

const shown: Readonly<Record<string, (policy: Policy) => string>> = {
  "max attempts": ({ maxAttempts }) => String(maxAttempts),
  priorities: ({ priorityTiers }) => priorityTiers.join(","),
  "max consumers": ({ maxConsumers }) => String(maxConsumers ?? "any number"),
  rate: ({ rate }) => rateText(rate),
  "lane concurrency": ({ lanes }) => String(lanes?.concurrency ?? unset),
  "lane rate": ({ lanes }) => rateText(lanes?.rate),
  "lane weight": ({ lanes }) => String(lanes?.weight ?? unset),
  placement: ({ placement }) => (placement === "one" ? "one shard" : unset),
  retention: ({ retentionSeconds }) =>
    retentionSeconds === undefined ? "as the server is set" : `${retentionSeconds} s`,
  "dead letters": ({ deadLetterTopicRef }) => deadLetterTopicRef ?? "no copies",
};

/** One line for each part of the policy that changed, or for all parts of a new one. */
function differenceOf(before: Policy | undefined, after: Policy): string[] {
  const lines = Object.entries(shown).flatMap(([name, show]) => {
    const [old, now] = [before === undefined ? undefined : show(before), show(after)];
    // What few queues have is shown where it is set.
    if (old === now || (old === undefined && now === unset)) return [];
    return [old === undefined ? `  ${name}: ${now}` : `  ${name}: ${old} -> ${now}`];
  });
  return lines.length === 0 ? ["  nothing changed"] : lines;
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

export function list(call: Call): Promise<void> {
  const none = "no topics; codeq topics set makes one";
  return contract.showAll(call, "GET /admin/topics", { columns, none });
}

export function get(call: Call): Promise<void> {
  return contract.showOne(call, ["GET /admin/topics/:topicName", topicOf(call)], columns);
}

function remove(call: Call): Promise<void> {
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
