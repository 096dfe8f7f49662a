/**
 * Reads the event feed of a server, and reconnects when the server was away. Events become lines: one for each
 * event, or sums when there are many.
 */
import type { RunEvent, ScheduleEvent } from "@codeq/client";
import type { ServerSentEvent } from "@codeq/client/command-line";
import type { Clock } from "@codeq/server/command-line";
import type { ApiClient } from "../api/api-client.ts";
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";
import { pause } from "../host.ts";
import { printable, type Style } from "../terminal/style.ts";
import { count, counted, duration, timeOfDay } from "../terminal/units.ts";

export type FeedEvent = RunEvent | ScheduleEvent;

interface FeedSteps {
  /** A queue; empty for all queues. */
  readonly command: string;
  /** Names of events, separated by commas; empty for all. */
  readonly types: string;
  readonly signal: AbortSignal;
  readonly heard: (event: FeedEvent) => void;
  /** Called with the number of events that the reader was too slow for. */
  readonly missed: (count: number) => void;
  /** Called with a message about the server. */
  readonly note: (line: string) => void;
}

/** The server shows a sign of life every 15 seconds. */
const silentMsMax = 45_000;
const againMs = 1000;

/**
 * Calls back for whatever happens until the signal. The first failure is thrown; later ones,
 * when the server is known to be there, are reported, and the feed is opened again.
 */
export async function followFeed(call: Call, api: ApiClient, steps: FeedSteps): Promise<void> {
  const { signal } = steps;
  const server: Server = { hasBeenThere: false, isAway: false };
  while (!signal.aborted) {
    try {
      await readOnce(api, steps, server);
    } catch (error) {
      if (signal.aborted) return;
      const isPassing = error instanceof CliError && error.exit !== "denied";
      if (!server.hasBeenThere || !isPassing) throw error;
      if (!server.isAway) steps.note(error.message);
    }
    server.isAway = true;
    await pause(call.host.clock, againMs, signal);
  }
}

interface Server {
  hasBeenThere: boolean;
  isAway: boolean;
}

async function readOnce(api: ApiClient, steps: FeedSteps, server: Server): Promise<void> {
  const { signal } = steps;
  const query = { command: steps.command || undefined, type: steps.types || undefined };
  for await (const event of api.follow("GET /admin/events", { query }, { signal, silentMsMax })) {
    if (server.isAway) steps.note("the server is back; events in between are not shown");
    server.isAway = false;
    server.hasBeenThere = true;
    take(event, steps);
  }
}

function take({ name, value }: ServerSentEvent, steps: FeedSteps): void {
  if (name === "missed") steps.missed(value.count);
  else if (name === "end")
    steps.note(value.code === "shutting_down" ? "the server is stopping" : value.reason);
  else if (name !== "" && name !== "task" && name !== "result") steps.heard(value);
}

type Paint = (style: Style) => (text: string) => string;

const plain: Paint = () => (text) => text;
const paints: Readonly<Record<string, Paint>> = {
  created: (style) => style.cyan,
  completed: (style) => style.green,
  failed: (style) => style.red,
  retried: (style) => style.yellow,
  replayed: (style) => style.cyan,
  lease_expired: (style) => style.yellow,
};

/** `tookMs` is how long the run took that ended with the event. */
export function eventLine(event: FeedEvent, style: Style, tookMs?: number): string {
  const time = style.dim(timeOfDay(Date.parse(event.time)));
  const command = style.bold(printable(event.command));
  const about = "taskId" in event ? shortId(event.taskId) : printable(event.scheduleId);
  const took = tookMs === undefined ? [] : [duration(tookMs)];
  const more = [...took, detailsOf(event)].filter((part) => part !== "").join(", ");
  const line = `${time}  ${command}  ${style.dim(about)}  ${named(event.event, style)}`;
  return more === "" ? line : `${line}  ${style.dim(more)}`;
}

/** The front of an id is the time of its creation, which tasks have in common. */
function shortId(id: string): string {
  return printable(id.slice(-8));
}

function named(event: string, style: Style): string {
  return (paints[event] ?? plain)(style)(printable(event).replaceAll("_", " "));
}

function detailsOf(event: FeedEvent): string {
  const parts = "taskId" in event ? partsOfTask(event) : partsOfSchedule(event);
  const { reason } = event;
  if (reason !== undefined && reason !== "") parts.push(printable(reason));
  return parts.filter((part) => part !== "").join(", ");
}

function partsOfTask({
  event,
  priority,
  attempt,
  workerId,
  how,
  delaySeconds,
  uniqueKey,
  waitsForKey,
}: RunEvent): string[] {
  const isNew = event === "created";
  return [
    isNew && priority > 0 ? `priority ${priority}` : "",
    how === undefined ? "" : printable(how).replaceAll("_", " "),
    !isNew && attempt > 1 ? `attempt ${attempt}` : "",
    workerId === undefined ? "" : `by ${printable(nameOf(workerId))}`,
    delaySeconds === undefined || delaySeconds === 0 ? "" : `due in ${delaySeconds} s`,
    uniqueKey === undefined ? "" : `${waitsForKey ? "waits for " : ""}key ${printable(uniqueKey)}`,
  ];
}

/** Workers that have a name are `~name@subject` to the server; the name is enough for a line. */
function nameOf(workerId: string): string {
  const [, name] = /^~([^@]+)@/.exec(workerId) ?? [];
  return name === undefined ? workerId : decodeURIComponent(name);
}

function partsOfSchedule({ count: instants, by }: ScheduleEvent): string[] {
  return [
    instants === undefined ? "" : counted(instants, "instant"),
    by === undefined ? "" : `by ${printable(by)}`,
  ];
}

/** Events that end the run of a worker; `released` is a task that was handed back. */
const runEnds: ReadonlySet<string> = new Set([
  "completed",
  "failed",
  "retried",
  "released",
  "lease_expired",
]);
const runsMax = 10_000;

/** How long runs took, from the events of their beginnings and ends. */
export class RunTimes {
  readonly #begun: Map<string, number> = new Map();

  /** Undefined for an event that ends no run. */
  tookMs(about: FeedEvent): number | undefined {
    if (!("taskId" in about)) return undefined;
    const { event, taskId, time } = about;
    const atMs = Date.parse(time);
    if (event === "claimed" && this.#begun.size < runsMax) this.#begun.set(taskId, atMs);
    const begunMs = this.#begun.get(taskId);
    if (begunMs === undefined || !runEnds.has(event)) return undefined;
    this.#begun.delete(taskId);
    return atMs - begunMs;
  }
}

/** Lines in a second; of what else happens in it there are sums. */
const linesPerSecond = 20;

/** Prints a line for every event while there are few, and how many of which when there are not. */
export class CalmLines {
  readonly #clock: Clock;
  readonly #style: Style;
  readonly #print: (line: string) => void;
  #lines = 0;
  #isOpen = false;
  /** How many of each event, by queue. */
  #sums: Map<string, Map<string, number>> = new Map();

  constructor(parts: {
    readonly clock: Clock;
    readonly style: Style;
    readonly print: (line: string) => void;
  }) {
    this.#clock = parts.clock;
    this.#style = parts.style;
    this.#print = parts.print;
  }

  add(event: FeedEvent, tookMs?: number): void {
    if (!this.#isOpen) {
      this.#isOpen = true;
      this.#clock.after(1000, () => this.#close());
    }
    this.#lines += 1;
    if (this.#lines <= linesPerSecond) {
      this.#print(eventLine(event, this.#style, tookMs));
      return;
    }
    const queue = event.command.toLowerCase();
    const sums = this.#sums.get(queue) ?? new Map<string, number>();
    this.#sums.set(queue, sums.set(event.event, (sums.get(event.event) ?? 0) + 1));
  }

  /** The second is over. */
  #close(): void {
    const time = this.#style.dim(timeOfDay(this.#clock.nowMs()));
    for (const [queue, sums] of this.#sums) {
      const parts = [...sums].map(([event, number]) =>
        (paints[event] ?? plain)(this.#style)(`${count(number)} ${event.replaceAll("_", " ")}`),
      );
      this.#print(`${time}  ${this.#style.bold(printable(queue))}  ${parts.join("  ")}`);
    }
    this.#sums = new Map();
    this.#lines = 0;
    this.#isOpen = false;
  }
}
