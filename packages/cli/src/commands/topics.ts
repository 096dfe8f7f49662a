/** `topics`: the policies of queues. */
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Column, tableLines } from "../terminal/table.ts";

interface TopicFields {
  readonly topicName: string;
  readonly version: number;
  readonly policy: {
    readonly priorityTiers: readonly number[];
    readonly maxAttempts: number;
    readonly deadLetterTopicRef?: string;
    readonly retentionSeconds?: number;
    readonly maxConsumers?: number;
  };
}

const base = "/admin/topics";
const pageLimit = 200;
const attemptsMax = 100;
const consumersMax = 10_000;
const tiersDefault = "0,1,2,3,4,5,6,7,8,9";

export async function set(call: Call): Promise<number> {
  const { options } = call;
  const maxAttempts = options.wholeNumber("max-attempts", { min: 1, max: attemptsMax });
  if (maxAttempts === undefined) {
    throw usageError(
      "--max-attempts is missing",
      "set the maximum number of attempts, for example --max-attempts 5",
    );
  }
  const retentionMs = options.durationMs("retention");
  const body = JSON.stringify({
    priorityTiers: tiersOf(call),
    maxAttempts,
    deadLetterTopicRef: options.text("dead-letters"),
    retentionSeconds: retentionMs === undefined ? undefined : Math.ceil(retentionMs / 1000),
    maxConsumers: options.wholeNumber("max-consumers", { min: 0, max: consumersMax }),
  });
  const api = await call.api();
  const { text } = await api.put(pathOf(call), body);
  const { version } = JSON.parse(text) as TopicFields;
  if (call.json) call.print(text);
  else call.print(`${call.word(0)} has version ${version}`);
  return exitCodes.ok.code;
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

export async function list(call: Call): Promise<number> {
  const api = await call.api();
  const topics: TopicFields[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const { text } = await api.get(`${base}?limit=${pageLimit}&after=${after}`);
    const page = JSON.parse(text) as { topics: TopicFields[]; next?: string };
    topics.push(...page.topics);
    after = page.next;
  }
  if (call.json) call.printJson({ topics });
  else if (topics.length === 0) call.print("no topics; codeq topics set makes one");
  else for (const line of tableLines(columns, topics, call.style)) call.print(line);
  return exitCodes.ok.code;
}

const columns: readonly Column<TopicFields>[] = [
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

export async function get(call: Call): Promise<number> {
  const api = await call.api();
  const { text } = await api.get(pathOf(call));
  if (call.json) call.print(text);
  else {
    const topic = JSON.parse(text) as TopicFields;
    for (const line of tableLines(columns, [topic], call.style)) call.print(line);
  }
  return exitCodes.ok.code;
}

export async function remove(call: Call): Promise<number> {
  const api = await call.api();
  await api.delete(`${pathOf(call)}?deletionPolicy=Delete`);
  if (call.json) call.printJson({ topicName: call.word(0), deleted: true });
  else call.print(`${call.word(0)} has no topic; the settings of the server apply`);
  return exitCodes.ok.code;
}

function pathOf(call: Call): string {
  return `${base}/${encodeURIComponent(call.word(0))}`;
}
