/** Formats events of tasks as lines: one for each event, or sums when there are many. */
import type { Clock } from "@codeq/server/command-line";
import { printable } from "../terminal/printable.ts";
import type { Style } from "../terminal/style.ts";
import { count, timeOfDay } from "../terminal/units.ts";
import type { TaskEvent } from "./follow-feed.ts";

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

export function eventLine(event: TaskEvent, style: Style): string {
  const time = style.dim(timeOfDay(Date.parse(event.time)));
  const command = style.bold(printable(event.command));
  const more = detailsOf(event);
  const line = `${time}  ${command}  ${style.dim(shortId(event.taskId))}  ${named(event.event, style)}`;
  return more === "" ? line : `${line}  ${style.dim(more)}`;
}

/** The front of an id is the time of its creation, which tasks have in common. */
function shortId(id: string): string {
  return printable(id.slice(-8));
}

function named(event: string, style: Style): string {
  return (paints[event] ?? plain)(style)(printable(event).replaceAll("_", " "));
}

function detailsOf(event: TaskEvent): string {
  const { priority, attempt, workerId, how, delaySeconds, reason } = event;
  const isNew = event.event === "created";
  const parts = [
    isNew && priority > 0 ? `priority ${priority}` : "",
    how === undefined ? "" : printable(how).replaceAll("_", " "),
    !isNew && attempt > 1 ? `attempt ${attempt}` : "",
    workerId === undefined ? "" : `by ${printable(workerId)}`,
    delaySeconds === undefined || delaySeconds === 0 ? "" : `due in ${delaySeconds} s`,
    reason === undefined || reason === "" ? "" : printable(reason),
  ];
  return parts.filter((part) => part !== "").join(", ");
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

  add(event: TaskEvent): void {
    if (!this.#isOpen) {
      this.#isOpen = true;
      this.#clock.after(1000, () => this.#close());
    }
    this.#lines += 1;
    if (this.#lines <= linesPerSecond) {
      this.#print(eventLine(event, this.#style));
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
      const told = [...sums].map(([event, number]) =>
        (paints[event] ?? plain)(this.#style)(`${count(number)} ${event.replaceAll("_", " ")}`),
      );
      this.#print(`${time}  ${this.#style.bold(printable(queue))}  ${told.join("  ")}`);
    }
    this.#sums = new Map();
    this.#lines = 0;
    this.#isOpen = false;
  }
}
