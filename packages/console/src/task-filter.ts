/**
 * The filter of the task list as people write it: `state:dead queue:send-email error:"421 too many"`.
 * It stands in the URL in this form, and becomes the query of the API.
 */
import type { Given } from "@codeq/protocol";

/** The conditions in a query of the API. */
export type TaskQuery = Omit<NonNullable<Given<"GET /admin/failure-groups">["query"]>, "after">;

export interface FilterToken {
  readonly key: string;
  readonly value: string;
}

interface FilterKey {
  readonly key: string;
  /** The name in the query of the API. */
  readonly query: keyof TaskQuery;
  readonly about: string;
  readonly values?: readonly string[];
}

const places = [
  "ready",
  "delayed",
  "held",
  "leased",
  "failure",
  "dead",
  "failed",
  "cancelled",
  "done",
] as const;

const filterKeys: readonly FilterKey[] = [
  { key: "queue", query: "command", about: "the queue of the task" },
  {
    key: "state",
    query: "place",
    about: `${places.join(", ")}; failure is dead or failed`,
    values: places,
  },
  { key: "error", query: "error", about: "text in the last error" },
  {
    key: "payload.",
    query: "payload",
    about: "a value inside the payload, payload.customer.id:42",
  },
  { key: "group", query: "group", about: "a group of the failures page" },
  { key: "tag", query: "tag", about: "one of the labels of the task" },
  { key: "lane", query: "lane", about: "the lane of the task in its queue" },
  { key: "schedule", query: "schedule", about: "the id of the schedule that created the task" },
  { key: "batch", query: "batch", about: "the id of the batch of which the task is a member" },
  { key: "worker", query: "worker", about: "who has the task, or had it last" },
  { key: "priority", query: "priority", about: "0 to 9" },
  { key: "key", query: "idempotencyKey", about: "the idempotency key" },
  { key: "id", query: "id", about: "the beginning or end of an id" },
  {
    key: "created",
    query: "createdAfter",
    about: "within this time: 15m, 1h, 7d",
    values: ["15m", "1h", "24h", "7d"],
  },
  {
    key: "ended",
    query: "endedAfter",
    about: "finished or dead within this time",
    values: ["15m", "1h", "24h", "7d"],
  },
];

const pattern = /([\w.-]+):(?:"((?:[^"\\]|\\.)*)"|(\S+))|"((?:[^"\\]|\\.)*)"|(\S+)/g;

/** A word without a key filters by id if it looks like a part of an id, otherwise by error. */
export function parseFilter(text: string): FilterToken[] {
  return [...text.matchAll(pattern)].map(([, key, quoted, plain, words, word]) => {
    if (key !== undefined) return { key, value: unescaped(quoted) ?? plain ?? "" };
    const value = unescaped(words) ?? word ?? "";
    return { key: /^[0-9a-f-]{6,36}$/i.test(value) ? "id" : "error", value };
  });
}

function unescaped(text: string | undefined): string | undefined {
  return text?.replace(/\\(.)/g, "$1");
}

function showToken({ key, value }: FilterToken): string {
  const isPlain = /^[^\s"]+$/.test(value);
  return `${key}:${isPlain ? value : `"${value.replace(/["\\]/g, "\\$&")}"`}`;
}

export function showFilter(tokens: readonly FilterToken[]): string {
  return tokens.map(showToken).join(" ");
}

export interface FilterQuery {
  readonly query: TaskQuery;
  /** What is wrong with the filter, for the user. */
  readonly problem?: string;
}

export function filterQuery(tokens: readonly FilterToken[], nowMs: number): FilterQuery {
  const given: Partial<Record<keyof TaskQuery, string>> = {};
  // The server refuses an unknown place with an error.
  const query = given as TaskQuery;
  for (const token of tokens) {
    const name = nameOf(token.key);
    if (name === undefined) return { query, problem: unknownKey(token.key) };
    if (query[name] !== undefined) {
      return { query, problem: `There can be one "${token.key}:" only` };
    }
    const value = askedValue(name, token, nowMs);
    if (value === undefined) {
      return { query, problem: `"${token.value}" is no time span; write 15m, 1h or 7d` };
    }
    given[name] = value;
  }
  return { query };
}

function nameOf(key: string): keyof TaskQuery | undefined {
  if (key.startsWith("payload.")) return "payload";
  return filterKeys.find((each) => each.key === key)?.query;
}

function askedValue(name: string, { key, value }: FilterToken, nowMs: number): string | undefined {
  if (name === "payload") return `${key.slice("payload.".length)}:${value}`;
  if (name !== "createdAfter" && name !== "endedAfter") return value;
  if (/^\d{4}-\d\d-\d\dT/.test(value)) return value;
  const ms = spanMs(value);
  return ms === undefined ? undefined : new Date(nowMs - ms).toISOString();
}

function spanMs(text: string): number | undefined {
  const [, amount, unit = ""] = /^(\d{1,4})([smhd])$/.exec(text) ?? [];
  const units: Readonly<Record<string, number>> = { s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
  const one = units[unit];
  return amount === undefined || one === undefined ? undefined : Number(amount) * one;
}

function unknownKey(key: string): string {
  const known = filterKeys.map((each) => each.key).join(", ");
  return `There is no filter "${key}:"; there are ${known}`;
}

export interface Completion {
  /** The new text of the input. */
  readonly text: string;
  readonly about: string;
  readonly isWhole: boolean;
}

/** Suggestions: keys first, then the values of a key. */
export function completions(
  input: string,
  known: Readonly<Record<string, readonly string[]>>,
): Completion[] {
  const [, key, start = ""] = /^([\w.-]+):(.*)$/.exec(input) ?? [];
  if (key === undefined) {
    return filterKeys
      .filter((each) => each.key.startsWith(input))
      .map(({ key: name, about }) => ({
        text: name.endsWith(".") ? name : `${name}:`,
        about,
        isWhole: false,
      }));
  }
  const values = known[key] ?? filterKeys.find((each) => each.key === key)?.values ?? [];
  return values
    .filter((value) => value.toLowerCase().includes(start.toLowerCase()))
    .slice(0, 8)
    .map((value) => ({ text: showToken({ key, value }), about: "", isWhole: true }));
}
