/** Tasks and results as the API returns them, and formatted for people. */
import { encryptedIn, type ReplyOf } from "@codeq/client/command-line";
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";
import { prettyJson } from "../payload.ts";
import { printable, type Style } from "../terminal/style.ts";
import { localMoment } from "../terminal/units.ts";

export type TaskResult = ReplyOf<"GET /tasks/:id/result">;
type Task = Omit<ReplyOf<"GET /admin/tasks/:id">["task"], "place">;

/** Where a task is, in the words of the documentation. */
const places: Readonly<Record<Task["lastKnownLocation"], string>> = {
  PENDING_LIST: "ready",
  DELAYED_ZSET: "delayed",
  HELD_SET: "held",
  INPROG_SET: "leased",
  DLQ_SET: "dead",
  NONE: "done",
};

export function taskLines(task: Task, style: Style): string[] {
  const lease =
    task.workerId === undefined
      ? ""
      : `${task.workerId} until ${localMoment(task.leaseUntil ?? "")}, lease token ${task.leaseToken}`;
  const fields: [string, string][] = [
    ["id", task.id],
    ["command", task.command],
    ["status", `${statusText(task.status, style)} (${places[task.lastKnownLocation]})`],
    ["due", task.runAt === undefined ? "" : localMoment(task.runAt)],
    ["start by", task.startBy === undefined ? "" : localMoment(task.startBy)],
    ["worker", lease],
    ["timeout", task.timeoutSeconds === undefined ? "" : `${task.timeoutSeconds} s an attempt`],
    ["attempts", `${attemptsOf(task)} of ${task.maxAttempts}`],
    ["replays", task.replays === undefined ? "" : String(task.replays)],
    ["priority", task.priority === undefined ? "" : String(task.priority)],
    ["progress", progressText(task)],
    ["tags", printable((task.tags ?? []).join(", "))],
    ["error", indented(task.error ?? "", 10)],
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
    encryptedNote(task.payload ?? "", task.id) ?? prettyJson(task.payload ?? ""),
  ];
}

/** Shown instead of a text that only its keys can read. */
export function encryptedNote(json: string, id: string): string | undefined {
  const key = encryptedIn(json)?.key;
  if (key === undefined) return undefined;
  return `encrypted with the key ${printable(key)}; codeq decode ${id} --keys <file> shows it`;
}

const counted: ReadonlySet<string> = new Set(["running", "completed", "failed"]);

/** The attempts that came back, and the one that is under way or has ended the task. */
function attemptsOf({ attempts = 0, status, attemptHistory = [] }: Task): number {
  const last = attemptHistory.at(-1)?.outcome ?? "";
  return status !== "PENDING" && counted.has(last) ? attempts + 1 : attempts;
}

function historyLines({ attemptHistory = [], attemptsOmitted = 0 }: Task, style: Style): string[] {
  if (attemptHistory.length === 0) return [];
  const omitted = attemptsOmitted === 0 ? [] : [`  ${attemptsOmitted} before`];
  const shown = attemptHistory.flatMap((each) => {
    const { leaseToken, workerId, startedAt, outcome, error = "", stack, delaySeconds } = each;
    const why = error === "" ? "" : `: ${indented(error, 5)}`;
    const delay = delaySeconds === undefined ? "" : `, again after ${delaySeconds} s`;
    const line = `  ${leaseToken}. ${localMoment(startedAt)} ${workerId} ${outcome}${why}${delay}`;
    return stack === undefined ? [line] : [line, style.dim(`     ${indented(stack, 5)}`)];
  });
  return [style.dim("attempts"), ...omitted, ...shown];
}

/** Keeps the line breaks of a text that a worker wrote. */
function indented(text: string, columns: number): string {
  return text
    .split(/\r?\n/)
    .map(printable)
    .join(`\n${" ".repeat(columns)}`);
}

function progressText({ progress }: Task): string {
  if (progress === undefined) return "";
  const { percent, text, at } = progress;
  return `${percent} %${text === "" ? "" : ` ${printable(text)}`} (${localMoment(at)})`;
}

function logLines({ logs = [] }: Task, style: Style): string[] {
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

/** The error for a task that has failed. */
export function taskFailure({ result, task }: TaskResult): CliError {
  const why = result.error ?? task.error ?? "no reason given";
  return new CliError(`the task ${task.id} failed after ${attemptsOf(task)} attempt(s): ${why}`, {
    exit: "taskFailed",
    next: `codeq get ${task.id} shows the task`,
  });
}

const idChars = 36;

/** The whole id of a task for a part of it, as `tail` and `tasks` print it. */
async function wholeId(call: Call, text: string): Promise<string> {
  if (text.length >= idChars) return text;
  const api = await call.api();
  return (await api.call("GET /admin/tasks/:id", { params: { id: text } })).value.task.id;
}

/** The parameter of a request about the task that the first argument names. */
export async function taskOf(call: Call): Promise<{ readonly id: string }> {
  return { id: await wholeId(call, call.word(0)) };
}
