/** Tasks and results as the API returns them, and formatted for people. */

import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";
import { prettyJson } from "../payload.ts";
import { printable, type Style } from "../terminal/style.ts";
import { localMoment } from "../terminal/units.ts";

export interface TaskFields {
  readonly id: string;
  readonly command: string;
  /** JSON text. */
  readonly payload: string;
  readonly priority?: number;
  readonly status: "PENDING" | "IN_PROGRESS" | "COMPLETED" | "FAILED";
  readonly lastKnownLocation?: string;
  readonly workerId?: string;
  readonly leaseUntil?: string;
  readonly leaseToken?: number;
  /** When a delayed task becomes ready. */
  readonly runAt?: string;
  readonly attempts?: number;
  readonly maxAttempts?: number;
  /** How often an operator replayed it. */
  readonly replays?: number;
  readonly error?: string;
  readonly tags?: readonly string[];
  readonly timeoutSeconds?: number;
  readonly ttlSeconds?: number;
  /** When a task that waits fails unless a worker begins it. */
  readonly startBy?: string;
  readonly tenantId?: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly attemptHistory?: readonly AttemptFields[];
  readonly attemptsOmitted?: number;
  readonly progress?: { readonly percent: number; readonly text: string; readonly at: string };
  readonly logs?: readonly { readonly at: string; readonly text: string }[];
}

interface AttemptFields {
  readonly workerId: string;
  readonly leaseToken: number;
  readonly startedAt: string;
  readonly endedAt?: string;
  readonly outcome: string;
  readonly error?: string;
  readonly delaySeconds?: number;
}

export interface ResultFields {
  readonly taskId: string;
  readonly status: "COMPLETED" | "FAILED";
  readonly result?: unknown;
  readonly error?: string;
  readonly artifacts?: readonly { readonly name: string; readonly url: string }[];
  readonly completedAt: string;
}

export function taskIn(text: string): TaskFields {
  return JSON.parse(text) as TaskFields;
}

/** Where a task is, in the words of the documentation. */
const places: Readonly<Record<string, string>> = {
  PENDING_LIST: "ready",
  DELAYED_ZSET: "delayed",
  INPROG_SET: "leased",
  DLQ_SET: "dead",
  NONE: "done",
};

export function taskLines(task: TaskFields, style: Style): string[] {
  const { attempts = 0, maxAttempts = 0 } = task;
  const place = places[task.lastKnownLocation ?? ""] ?? "";
  const lease =
    task.workerId === undefined
      ? ""
      : `${task.workerId} until ${localMoment(task.leaseUntil ?? "")}, lease token ${task.leaseToken}`;
  const fields: [string, string][] = [
    ["id", task.id],
    ["command", task.command],
    ["status", `${statusText(task.status, style)}${place === "" ? "" : ` (${place})`}`],
    ["due", task.runAt === undefined ? "" : localMoment(task.runAt)],
    ["start by", task.startBy === undefined ? "" : localMoment(task.startBy)],
    ["worker", lease],
    ["timeout", task.timeoutSeconds === undefined ? "" : `${task.timeoutSeconds} s an attempt`],
    ["attempts", `${attempts} of ${maxAttempts} used`],
    ["replays", task.replays === undefined ? "" : String(task.replays)],
    ["priority", task.priority === undefined ? "" : String(task.priority)],
    ["progress", progressText(task)],
    ["tags", printable((task.tags ?? []).join(", "))],
    ["error", task.error ?? ""],
    ["tenant", task.tenantId ?? ""],
    ["created", localMoment(task.createdAt)],
    ["updated", localMoment(task.updatedAt)],
  ];
  const lines = fields
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${style.dim(name.padEnd(9))} ${value}`);
  return [
    ...lines,
    ...historyLines(task, style),
    ...logLines(task, style),
    style.dim("payload"),
    prettyJson(task.payload),
  ];
}

function historyLines(
  { attemptHistory = [], attemptsOmitted = 0 }: TaskFields,
  style: Style,
): string[] {
  if (attemptHistory.length === 0) return [];
  const omitted = attemptsOmitted === 0 ? [] : [`  ${attemptsOmitted} before`];
  const shown = attemptHistory.map((each) => {
    const { leaseToken, workerId, startedAt, outcome, error = "", delaySeconds } = each;
    const why = error === "" ? "" : `: ${printable(error)}`;
    const delay = delaySeconds === undefined ? "" : `, again after ${delaySeconds} s`;
    return `  ${leaseToken}. ${localMoment(startedAt)} ${workerId} ${outcome}${why}${delay}`;
  });
  return [style.dim("attempts"), ...omitted, ...shown];
}

function progressText({ progress }: TaskFields): string {
  if (progress === undefined) return "";
  const { percent, text, at } = progress;
  return `${percent} %${text === "" ? "" : ` ${printable(text)}`} (${localMoment(at)})`;
}

function logLines({ logs = [] }: TaskFields, style: Style): string[] {
  if (logs.length === 0) return [];
  return [
    style.dim("log"),
    ...logs.map(({ at, text }) => `  ${localMoment(at)} ${printable(text)}`),
  ];
}

function statusText(status: string, style: Style): string {
  if (status === "COMPLETED") return style.green(status);
  if (status === "FAILED") return style.red(status);
  return status === "IN_PROGRESS" ? style.cyan(status) : style.yellow(status);
}

/** How a task that has ended in failure is told. */
export function taskFailure(result: ResultFields, task: TaskFields): CliError {
  const isBuried = task.lastKnownLocation === "DLQ_SET";
  const times = (task.attempts ?? 0) + (isBuried ? 0 : 1);
  const why = result.error ?? task.error ?? "no reason given";
  return new CliError(`the task ${task.id} failed after ${times} attempt(s): ${why}`, {
    exit: "taskFailed",
    next: `codeq get ${task.id} shows the task`,
  });
}

const idChars = 36;

/** The whole id of a task for a part of it, as `tail` and `tasks` print it. */
export async function wholeId(call: Call, text: string): Promise<string> {
  if (text.length >= idChars) return text;
  const api = await call.api();
  const { text: found } = await api.get(`/admin/tasks/${encodeURIComponent(text)}`);
  return (JSON.parse(found) as { readonly task: { readonly id: string } }).task.id;
}
