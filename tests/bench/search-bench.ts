/**
 * What it takes to find tasks among many, and what that costs those who work: first pages of several searches,
 * and the latencies of a paced load without searches and with some that never rest.
 */
import { cycleFigures, type Figure, figure, latencyFigure, medianFigures } from "./figures.ts";
import { loadProgram } from "./go-client.ts";
import { Histogram } from "./histogram.ts";
import { measure } from "./measure.ts";
import { readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { progress, Table } from "./table.ts";
import { ask, type Listening, Workspace } from "./workspace.ts";

export const searchHelp = `searches among many tasks, alone and beside a paced load over the streams
    --tasks 1000000            that wait in another queue than that of the load
    --searchers 0,1,4          that search one page after the other while the load runs
    --rate 5000                cycles per second of the load
    --rounds 3                 of the load, by turns; the medians are shown
    --seconds 5                per measurement
    --pages 40                 of each search that are timed without a load
    --failures 0               tasks of 52 queues that failed from six causes; lists of failure groups are timed as well,
                               and the load runs beside one that lists them without a rest ("groups")`;

const searches: Readonly<Record<string, string>> = {
  newest: "order=newest",
  "ready, oldest": "place=ready&order=oldest",
  "value that 1 % have": "payload=customer.id:42",
  "value that none has": "payload=customer.id:no-such",
  "tag that 1 % have": "tag=customer-42",
  "error, none there": "error=timeout",
};

const batchMax = 1000;
const customers = 100;

export async function searchBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    tasks: wholeNumber("1000000"),
    searchers: wholeNumbers("0,1,4", 0),
    rate: wholeNumber("5000"),
    rounds: wholeNumber("3"),
    seconds: wholeNumber("5"),
    pages: wholeNumber("40"),
    failures: wholeNumber("0", 0),
  });
  await using workspace = new Workspace();
  const server = await workspace.startServer({ CODEQ_DURABILITY: "fsync" });
  progress(`${values.tasks} tasks are created`);
  await fill(server, values.tasks);
  if (values.failures > 0) {
    progress(`${values.failures} tasks fail`);
    await fail(server, values.failures);
    new Table(["list"], 22).add(
      ["failure groups"],
      await timedGroups(server, values.failures, values.pages),
    );
    console.log("");
  }
  const alone = new Table(["search"], 22);
  for (const [name, query] of Object.entries(searches)) {
    alone.add([name], await timedPages(server, query, values.pages));
  }
  console.log("");
  const searching = values.searchers.map((searchers) => ({
    name: String(searchers),
    readers: Array.from({ length: searchers }, (_, n) => pagesOf(server, n)),
  }));
  const listing = { name: "groups", readers: [() => ask(server, "/admin/failure-groups")] };
  const cases = values.failures > 0 ? [...searching, listing] : searching;
  const rows = cases.map((each) => ({ ...each, rounds: [] as Figure[][] }));
  for (let round = 1; round <= values.rounds; round += 1) {
    for (const { name, readers, rounds } of rows) {
      progress(`${values.rate} cycles/s beside ${name} searchers, round ${round}`);
      rounds.push(await beside(workspace, server, { ...values, readers }));
    }
  }
  const table = new Table(["searchers"]);
  for (const { name, rounds } of rows) table.add([name], medianFigures(rounds));
}

async function fill(server: Listening, count: number): Promise<void> {
  let left = count;
  const run = async (): Promise<void> => {
    while (left > 0) {
      const size = Math.min(left, batchMax);
      left -= size;
      const tasks = Array.from({ length: size }, (_, n) => {
        const id = (left + n) % customers;
        return { command: "backlog", payload: { customer: { id } }, tags: [`customer-${id}`] };
      });
      await ask(server, "/tasks/batch", { tasks });
    }
  };
  await Promise.all([run(), run(), run(), run()]);
}

const claimMax = 256;
const failureQueues = 52;
const causes = [
  "connect ETIMEDOUT 203.0.113.",
  "SmtpError: 421 from mx",
  "no such customer ",
  "disk quota exceeded on volume ",
  "unexpected token at position ",
  "payment declined: code ",
];

/** Tasks that workers end as failed, spread over queues and causes. */
async function fail(server: Listening, count: number): Promise<void> {
  const commands = Array.from({ length: failureQueues }, (_, n) => `fails-${n}`);
  let left = count;
  const run = async (): Promise<void> => {
    while (left > 0) {
      const size = Math.min(left, claimMax);
      left -= size;
      const tasks = Array.from({ length: size }, (_, n) => ({
        command: `fails-${(left + n) % failureQueues}`,
        payload: {},
      }));
      await ask(server, "/tasks/batch", { tasks });
      const claimed = (await ask(server, "/tasks/claim/batch", { commands, count: size })) as {
        readonly tasks: readonly { readonly id: string }[];
      };
      const results = claimed.tasks.map(({ id }, n) => ({
        taskId: id,
        status: "FAILED",
        error: `${causes[(left + n) % causes.length]}${n}`,
      }));
      await ask(server, "/tasks/batch/results", { results });
      // Another run may have claimed some of them, and fails fewer of its own then.
      left += size - claimed.tasks.length;
    }
  };
  await Promise.all([run(), run(), run(), run()]);
}

interface Groups {
  readonly groups: readonly { readonly count: number }[];
  readonly next?: string;
}

/** The whole list each time; throws when the counts are not exact. */
async function timedGroups(server: Listening, failures: number, rounds: number): Promise<Figure[]> {
  const histogram = new Histogram();
  let groups = 0;
  for (let round = 0; round < rounds; round += 1) {
    const startMs = performance.now();
    const answer = (await ask(server, "/admin/failure-groups")) as Groups;
    histogram.add(performance.now() - startMs);
    groups = answer.groups.length;
    const counted = answer.groups.reduce((sum, { count }) => sum + count, 0);
    if (counted !== failures || answer.next !== undefined) {
      throw new Error(`${counted} of ${failures} failures are in groups`);
    }
  }
  return [
    latencyFigure("list ms", { p50Ms: histogram.quantile(0.5), p99Ms: histogram.quantile(0.99) }),
    figure("groups", groups),
    figure("failures", failures),
  ];
}

interface Page {
  readonly tasks: readonly object[];
  readonly scanned: number;
  readonly next?: string;
}

/** Timed page after page, from the first again when there are no more. */
async function timedPages(server: Listening, query: string, pages: number): Promise<Figure[]> {
  const histogram = new Histogram();
  let [first, after] = [0, ""];
  let [found, scanned] = [0, 0];
  for (let page = 0; page < pages; page += 1) {
    const startMs = performance.now();
    const answer = await search(server, query, after);
    const tookMs = performance.now() - startMs;
    histogram.add(tookMs);
    if (page === 0) first = tookMs;
    found += answer.tasks.length;
    scanned += answer.scanned;
    after = answer.next ?? "";
  }
  return [
    figure("first page ms", first, "ms"),
    latencyFigure("page ms", { p50Ms: histogram.quantile(0.5), p99Ms: histogram.quantile(0.99) }),
    figure("found/page", found / pages, 1),
    figure("scanned/page", scanned / pages),
  ];
}

/** Asks for one page after the other of a search. */
function pagesOf(server: Listening, index: number): () => Promise<void> {
  const queries = Object.values(searches);
  let after = "";
  return async () => {
    after = (await search(server, queries[index % queries.length] ?? "", after)).next ?? "";
  };
}

interface Beside {
  /** Each asks again as soon as it has its answer. */
  readonly readers: readonly (() => Promise<unknown>)[];
  readonly rate: number;
  readonly seconds: number;
}

async function beside(workspace: Workspace, server: Listening, plan: Beside): Promise<Figure[]> {
  let isOver = false;
  let pages = 0;
  const reader = async (read: () => Promise<unknown>): Promise<void> => {
    for (; !isOver; pages += 1) await read();
  };
  const { workerStreamPort: workerPort, producerStreamPort: producerPort } = server;
  const running = plan.readers.map(reader);
  const measured = await measure(workspace, {
    ...{ program: loadProgram("own", "stream-load.ts"), server: server.child, warmUpSeconds: 2 },
    seconds: plan.seconds,
    load: {
      ...{ kind: "streams", part: "paced", tasksPerSecond: plan.rate, batch: 1, batchOut: 1 },
      ...{ producers: 32, slots: 128, workerStreams: 4, workerPort, producerPort },
    },
  });
  isOver = true;
  await Promise.all(running);
  const { create, pickup, submit } = measured.latency;
  return [
    ...cycleFigures(measured),
    latencyFigure("create", create),
    latencyFigure("pickup", pickup),
    latencyFigure("submit", submit),
    figure("pages", pages),
  ];
}

async function search(server: Listening, query: string, after: string): Promise<Page> {
  const cursor = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
  return (await ask(server, `/admin/tasks?${query}${cursor}`)) as Page;
}
