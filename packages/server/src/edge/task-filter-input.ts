/** A filter as callers write it: texts and a number, each of which may be invalid. */
import { limits } from "@codeq/protocol";
import { filterPlaces, taskFilter } from "@codeq/protocol/api";
import { queueOf, type TaskId } from "@codeq/queue";
import { fingerprintPattern } from "../core/records/failure-fingerprint.ts";
import type { PayloadCondition, TaskFilter } from "../core/search/task-filter.ts";
import { parseInstant } from "../core/timestamps.ts";
import { type Answer, type Call, refusal, type Server } from "./operation.ts";

const filterNames = Object.keys(taskFilter) as readonly (keyof typeof taskFilter)[];
type FilterName = (typeof filterNames)[number];

/** The conditions of a query or a body, among other fields. */
export type FilterInput = Readonly<Partial<Record<FilterName, string | number | undefined>>>;

/** The conditions that were given, as texts. */
export function conditionsOf(input: FilterInput): Readonly<Record<string, string>> {
  return Object.fromEntries(textsIn(input));
}

/** What is empty is refused: taken for no condition, it could hit far more than was meant. */
export function readFilter(input: FilterInput): Answer<TaskFilter> {
  const filter: Filter = {};
  for (const [name, text] of textsIn(input)) {
    if (text === "") return invalid(name, "is empty");
    if (text.length > limits.filterCharsMax) {
      return invalid(name, `is longer than ${limits.filterCharsMax} characters`);
    }
    const problem = readers[name](text, filter);
    if (problem !== undefined) return invalid(name, problem);
  }
  return { ok: true, value: filter };
}

/** For the audit trail: of a payload only the path, because viewers may not see payloads. */
export function describeFilter(input: FilterInput): string {
  const shown = textsIn(input).map(([name, text]) =>
    name === "payload"
      ? `payload=${payloadCondition(text)?.path.join(".") ?? ""}`
      : `${name}=${text}`,
  );
  return shown.join(" ");
}

function textsIn(input: FilterInput): readonly (readonly [FilterName, string])[] {
  return filterNames.flatMap((name) => {
    const value = input[name];
    return value === undefined ? [] : [[name, String(value)]];
  });
}

type Filter = { -readonly [Name in keyof TaskFilter]: TaskFilter[Name] };
/** Adds a condition to the filter, or says what is wrong with its text. */
type Read = (text: string, to: Filter) => string | undefined;

const idPartPattern = /^[0-9a-f-]{4,36}$/;

const readers: Readonly<Record<FilterName, Read>> = {
  command: (text, to) => {
    if (!limits.commandPattern.test(text)) return "is not a command";
    to.queue = queueOf(text);
    return undefined;
  },
  place: (text, to) => {
    const place = filterPlaces.find((each) => each === text);
    if (place === undefined) return `must be one of ${filterPlaces.join(", ")}`;
    to.place = place;
    return undefined;
  },
  priority: (text, to) => {
    if (!/^[0-9]$/.test(text)) return `must be a number from 0 to ${limits.priorityMax}`;
    to.priority = Number(text);
    return undefined;
  },
  worker: (text, to) => {
    to.worker = text;
    return undefined;
  },
  createdAfter: instant("createdFromMs"),
  createdBefore: instant("createdToMs"),
  endedAfter: instant("endedFromMs"),
  endedBefore: instant("endedToMs"),
  error: (text, to) => {
    to.error = text;
    return undefined;
  },
  group: (text, to) => {
    if (!fingerprintPattern.test(text)) return "must be the id of a failure group";
    to.group = text;
    return undefined;
  },
  idempotencyKey: (text, to) => {
    to.idempotencyKey = text;
    return undefined;
  },
  payload: (text, to) => {
    const condition = payloadCondition(text);
    if (condition === undefined) return "must be <path>:<value>, such as customer.id:42";
    to.payload = condition;
    return undefined;
  },
  tag: (text, to) => {
    const tags = text.split(",");
    if (!tags.every((tag) => limits.tagPattern.test(tag)))
      return "must be a tag, or several tags separated by commas";
    to.tags = tags;
    return undefined;
  },
  batch: (text, to) => {
    if (!limits.schedulePattern.test(text)) return "is not the id of a batch";
    to.batch = text;
    return undefined;
  },
  lane: (text, to) => {
    to.lane = text;
    return undefined;
  },
  schedule: (text, to) => {
    if (!limits.schedulePattern.test(text)) return "is not the id of a schedule";
    to.schedule = text;
    return undefined;
  },
  id: (text, to) => {
    if (!isIdPart(text)) return idPartProblem;
    to.idPart = text.toLowerCase();
    return undefined;
  },
};

function instant(name: "createdFromMs" | "createdToMs" | "endedFromMs" | "endedToMs"): Read {
  return (text, to) => {
    const ms = parseInstant(text);
    if (ms === undefined) return "must be a time such as 2030-01-02T03:04:05Z (RFC3339)";
    to[name] = ms;
    return undefined;
  };
}

const idPartProblem: string = `must be an id, or at least ${limits.idPartCharsMin} characters of its beginning or its end`;

function isIdPart(text: string): boolean {
  return idPartPattern.test(text.toLowerCase());
}

function payloadCondition(text: string): PayloadCondition | undefined {
  const at = text.indexOf(":");
  if (at <= 0) return undefined;
  const path = text.slice(0, at).split(".");
  return path.includes("") ? undefined : { path, value: text.slice(at + 1) };
}

function invalid(name: string, problem: string): Answer<never> {
  return refusal("invalid_argument", `invalid '${name}': it ${problem}`);
}

const idChars = 36;
/** Pages that are looked through before a part counts as unknown. */
const pagesMax = 10;

/** Finds the task for an id, or for the beginning or the end of one. */
export async function wholeId(
  { broker }: Pick<Server, "broker">,
  { identity }: Pick<Call, "identity">,
  text: string,
): Promise<Answer<TaskId>> {
  if (!isIdPart(text)) return refusal("invalid_argument", `invalid id: it ${idPartProblem}`);
  const idPart = text.toLowerCase();
  if (idPart.length === idChars) return { ok: true, value: idPart as TaskId };
  const wanted = { tenantId: identity.tenantId, filter: { idPart }, order: "newest" } as const;
  const ids: TaskId[] = [];
  let after: string | undefined = "";
  for (let pages = 0; pages < pagesMax && after !== undefined && ids.length < 2; pages++) {
    const found = await broker.find({ ...wanted, after, limit: 2 });
    if (found === undefined) return refusal("overloaded");
    ids.push(...found.tasks.map(({ id }) => id));
    after = found.next;
  }
  const [id, other] = ids;
  if (id === undefined) return refusal("not_found");
  if (other === undefined) return { ok: true, value: id };
  return refusal(
    "ambiguous_id",
    `several tasks match ${idPart}: ${id}, ${other}; pass more characters of the id`,
  );
}
