/** `queues` and `queue inspect`: the number of tasks in each place, for the tenant of the token. */
import type { ReplyOf } from "@codeq/client/command-line";
import type { Call } from "../../call.ts";
import type { CliError } from "../../cli-error.ts";
import { Screen } from "../../terminal/screen.ts";
import { fit } from "../../terminal/style.ts";
import { type Column, tableLines } from "../../terminal/table.ts";
import { count, duration, rate, timeOfDay } from "../../terminal/units.ts";
import { intervalOf, lookAgain } from "../../watch/look.ts";
import { pauseLine } from "./pause.ts";

type Overview = Extract<ReplyOf<"GET /admin/queues">, { readonly totals: object }>;
/** `isPartial` when a shard is down, and its tasks are not counted. */
type QueueDetails = Overview["queues"][number] & { readonly isPartial?: true };

const namesMsMax = 1000;

const noTasks = {
  ready: 0,
  delayed: 0,
  inProgress: 0,
  dlq: 0,
  failed: 0,
  workersAsking: 0,
  rates: { enqueued: 0, completed: 0, failed: 0, retried: 0 },
} as const;

export async function run(call: Call): Promise<void> {
  if (call.options.has("watch")) return watch(call);
  if (call.options.has("names")) return names(call);
  const queues = await readQueues(call);
  if (call.json) call.printJson({ queues });
  else for (const line of linesOf(call, queues)) call.print(line);
}

/** For shells, which cannot keep who types waiting. */
async function names(call: Call): Promise<void> {
  const limit = new AbortController();
  const cancel = call.host.clock.after(namesMsMax, () => limit.abort());
  try {
    const queues = await readQueues(call, limit.signal);
    if (call.json) call.printJson(queues.map(({ command }) => command));
    else for (const { command } of queues) call.print(command);
  } finally {
    cancel();
  }
}

async function watch(call: Call): Promise<void> {
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
    return lookAgain(host.clock, { look, away, intervalMs, signal });
  }
  // The first look comes before the screen, so that its failure is seen as it is.
  await readQueues(call);
  using screen = new Screen(host);
  const { baseUrl } = (await call.api()).connection;
  const head = (): string => {
    const time = call.style.dim(timeOfDay(host.clock.nowMs()));
    return `${call.style.bold("codeQ")}  ${baseUrl.value}  ${time}`;
  };
  const foot = call.style.dim("Press q to quit.");
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
}

async function readQueues(call: Call, signal?: AbortSignal): Promise<readonly QueueDetails[]> {
  const api = await call.api();
  const given = { query: { view: "details" } } as const;
  const { value, headers } = await api.call("GET /admin/queues", given, { signal });
  const { queues: found } = value as Overview;
  const isPartial = headers.get("codeq-partial") === "true";
  const queues: readonly QueueDetails[] = isPartial
    ? found.map((queue) => ({ ...queue, isPartial }))
    : found;
  const command = call.word(0);
  if (command === "") return queues;
  const named = queues.filter((queue) => queue.command === command.toLowerCase());
  return named.length > 0 ? named : [{ command, ...noTasks }];
}

/** On a terminal, a long name leaves room for the figures. */
const nameCharsMin = 16;
const figuresChars = 76;

function linesOf(call: Call, queues: readonly QueueDetails[]): string[] {
  if (queues.length === 0) return ["no tasks in any queue"];
  const { style } = call;
  const number = (title: string, pick: (queue: QueueDetails) => number): Column<QueueDetails> => ({
    title,
    align: "right",
    show: (queue) => count(pick(queue)),
  });
  const { isTerminal, columns: width } = call.host.output;
  const nameCharsMax = isTerminal
    ? Math.max(nameCharsMin, width - figuresChars)
    : Number.POSITIVE_INFINITY;
  const columns: Column<QueueDetails>[] = [
    { title: "QUEUE", show: ({ command }) => fit(command, nameCharsMax) },
    number("READY", ({ ready }) => ready),
    number("DELAYED", ({ delayed }) => delayed),
    number("RUNNING", ({ inProgress }) => inProgress),
    { title: "DEAD", align: "right", show: ({ dlq }) => (dlq > 0 ? style.red(count(dlq)) : "0") },
    number("FAILED", ({ failed }) => failed),
    { title: "IN/S", align: "right", show: ({ rates }) => rate(rates.enqueued) },
    { title: "OUT/S", align: "right", show: ({ rates }) => rate(rates.completed + rates.failed) },
    { title: "OLDEST", align: "right", show: ({ oldestSeconds }) => age(oldestSeconds) },
    { title: "DRAIN", align: "right", show: ({ drainSeconds }) => age(drainSeconds || undefined) },
  ];
  const pauses = queues.flatMap(({ command, paused }) =>
    paused === undefined ? [] : [style.yellow(pauseLine({ command, ...paused }))],
  );
  const isPartial = queues.some((queue) => queue.isPartial === true);
  const missing = isPartial ? [style.yellow("a shard is down: its tasks are not counted")] : [];
  return [...tableLines(columns, queues, style), ...pauses, ...missing];
}

function age(seconds: number | undefined): string {
  return seconds === undefined ? "-" : duration(seconds * 1000);
}

/** As the Go command line prints it. */
export async function inspect(call: Call): Promise<void> {
  const [queue] = await readQueues(call);
  if (call.json) call.printJson(queue);
  else {
    const { ready = 0, delayed = 0, inProgress = 0, dlq = 0 } = queue ?? {};
    call.print(`READY: ${ready} | DELAYED: ${delayed} | IN_PROGRESS: ${inProgress} | DLQ: ${dlq}`);
  }
}
