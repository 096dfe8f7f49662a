/** `queues` and `queue inspect`: how many tasks are where, for the tenant of the token. */
import type { Call } from "../call.ts";
import type { CliError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { Screen } from "../terminal/screen.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { count, timeOfDay } from "../terminal/units.ts";
import { intervalOf, lookAgain } from "../watch/look.ts";
import { type PauseFields, pauseLine } from "./pause.ts";

export interface QueueCounts {
  readonly command: string;
  readonly ready: number;
  readonly delayed: number;
  readonly inProgress: number;
  readonly dlq: number;
  readonly paused?: Omit<PauseFields, "command">;
}

export async function run(call: Call): Promise<number> {
  if (call.options.has("watch")) return watch(call);
  const queues = await readQueues(call);
  if (call.json) call.printJson({ queues });
  else for (const line of linesOf(call, queues)) call.print(line);
  return exitCodes.ok.code;
}

async function watch(call: Call): Promise<number> {
  const { host } = call;
  const intervalMs = intervalOf(call);
  if (call.json || !host.output.isTerminal) {
    const signal = host.stopped();
    const look = async (): Promise<void> => {
      const time = new Date(host.clock.nowMs()).toISOString();
      const queues = await readQueues(call, signal);
      if (call.json) call.printJson({ time, queues });
      else for (const line of linesOf(call, queues)) call.print(line);
    };
    const away = (error: CliError): void => call.note(error.message);
    await lookAgain(host.clock, { look, away, intervalMs, signal });
    return exitCodes.ok.code;
  }
  // The first look comes before the screen, so that its failure is seen as it is.
  await readQueues(call);
  using screen = new Screen(host);
  const { baseUrl } = (await call.api()).connection;
  const head = (): string => {
    const time = call.style.dim(timeOfDay(host.clock.nowMs()));
    return `${call.style.bold("codeQ")}  ${baseUrl.value}  ${time}`;
  };
  const foot = call.style.dim("q quits");
  let last: readonly string[] = [];
  await lookAgain(host.clock, {
    intervalMs,
    signal: screen.quit,
    look: async () => {
      last = linesOf(call, await readQueues(call, screen.quit));
      screen.draw([head(), "", ...last, "", foot]);
    },
    away: (error) => screen.draw([call.style.red(error.message), "", ...last, "", foot]),
  });
  return exitCodes.ok.code;
}

async function readQueues(call: Call, signal?: AbortSignal): Promise<readonly QueueCounts[]> {
  const api = await call.api();
  const command = call.word(0);
  if (command !== "") {
    const path = `/admin/queues/${encodeURIComponent(command)}`;
    const { text } = await api.get(path, { signal });
    return [JSON.parse(text) as QueueCounts];
  }
  const { text } = await api.get("/admin/queues", { signal });
  const queues = queuesIn(JSON.parse(text) as Record<string, number>);
  const { text: paused } = await api.get("/admin/pauses", { signal });
  return withPauses(queues, (JSON.parse(paused) as { pauses: readonly PauseFields[] }).pauses);
}

/** A paused queue is shown also when it is empty. */
function withPauses(
  queues: readonly QueueCounts[],
  pauses: readonly PauseFields[],
): readonly QueueCounts[] {
  const paused = new Map(pauses.map(({ command, ...pause }) => [command, pause]));
  const empty = { ready: 0, delayed: 0, inProgress: 0, dlq: 0 };
  const known = new Set(queues.map(({ command }) => command));
  const others = [...paused.keys()].filter((command) => !known.has(command));
  const all = [...queues, ...others.map((command) => ({ command, ...empty }))];
  const marked = all.map((queue) => {
    const pause = paused.get(queue.command);
    return pause === undefined ? queue : { ...queue, paused: pause };
  });
  return marked.sort((a, b) => (a.command < b.command ? -1 : 1));
}

/** Reads the flat map of buckets: `codeq:q:<queue>:<tenant>:pending:<priority>` and so on. */
export function queuesIn(buckets: Readonly<Record<string, number>>): readonly QueueCounts[] {
  const places = {
    pending: "ready",
    delayed: "delayed",
    inprog: "inProgress",
    dlq: "dlq",
  } as const;
  type Counted = Omit<QueueCounts, "paused">;
  const queues = new Map<string, { -readonly [Name in keyof Counted]: Counted[Name] }>();
  for (const [label, number] of Object.entries(buckets)) {
    const [, command, place] =
      /^codeq:q:(.+):[^:]+:(pending|delayed|inprog|dlq)(?::\d)?$/.exec(label) ?? [];
    if (command === undefined) continue;
    const queue = queues.get(command) ?? { command, ready: 0, delayed: 0, inProgress: 0, dlq: 0 };
    queue[places[place as keyof typeof places]] += number;
    queues.set(command, queue);
  }
  return [...queues.values()].sort((a, b) => (a.command < b.command ? -1 : 1));
}

function linesOf(call: Call, queues: readonly QueueCounts[]): string[] {
  if (queues.length === 0) return ["no tasks in any queue"];
  const { style } = call;
  const number = (title: string, pick: (queue: QueueCounts) => number): Column<QueueCounts> => ({
    title,
    align: "right",
    show: (queue) => count(pick(queue)),
  });
  const columns: Column<QueueCounts>[] = [
    { title: "QUEUE", show: ({ command }) => command },
    number("READY", ({ ready }) => ready),
    number("DELAYED", ({ delayed }) => delayed),
    number("RUNNING", ({ inProgress }) => inProgress),
    { title: "DEAD", align: "right", show: ({ dlq }) => (dlq > 0 ? style.red(count(dlq)) : "0") },
  ];
  const pauses = queues.flatMap(({ command, paused }) =>
    paused === undefined ? [] : [style.yellow(pauseLine({ command, ...paused }))],
  );
  return [...tableLines(columns, queues, style), ...pauses];
}

/** As the Go command line prints it. */
export async function inspect(call: Call): Promise<number> {
  const [queue] = await readQueues(call);
  if (call.json) call.printJson(queue);
  else {
    const { ready = 0, delayed = 0, inProgress = 0, dlq = 0 } = queue ?? {};
    call.print(`READY: ${ready} | DELAYED: ${delayed} | IN_PROGRESS: ${inProgress} | DLQ: ${dlq}`);
  }
  return exitCodes.ok.code;
}
