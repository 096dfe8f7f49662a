/**
 * The console in a real browser: how long pages and interactions take on a full server against an empty one, and
 * what open tabs cost those who work. Needs Chromium, like the tests of the console.
 */
import { execFileSync } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { constants, setPriority } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { launchChromium } from "../console/chromium.ts";
import { watchRequests } from "../console/watch-requests.ts";
import { cycleFigures, type Figure, figure, latencyFigure, medianFigures } from "./figures.ts";
import { loadProgram } from "./go-client.ts";
import { measure } from "./measure.ts";
import { readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { progress, Table } from "./table.ts";
import { ask, type Listening, Workspace } from "./workspace.ts";

export const consoleHelp = `pages of the console on a full server against an empty one, and a load beside open tabs
    --tasks 1000000            that wait on the full server
    --queues 1000              over which they are spread
    --rounds 5                 of each page and interaction, and of the load; the medians are shown
    --tabs 0,20                that are open while the load runs
    --rate 0                   cycles per second of the load; 0 for as many as possible
    --seconds 5                per measurement of the load
  A page takes until it has asked for everything and shows it; an interaction from the key or click to the frame that
  shows the answer. The browser has the lowest priority while the load runs, since people's browsers run elsewhere.`;

const batchMax = 1000;
const deadLetters = 200;
const root: string = join(import.meta.dirname, "../..");

export async function consoleBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    tasks: wholeNumber("1000000", 0),
    queues: wholeNumber("1000"),
    rounds: wholeNumber("5"),
    tabs: wholeNumbers("0,20", 0),
    rate: wholeNumber("0", 0),
    seconds: wholeNumber("5"),
  });
  execFileSync(process.execPath, [join(root, "scripts/build-console.mjs")]);
  await using workspace = new Workspace();
  const empty = await workspace.startServer({ CODEQ_DURABILITY: "fsync" });
  const full = await workspace.startServer({ CODEQ_DURABILITY: "fsync" });
  progress(`${values.tasks} tasks in ${values.queues} queues are created`);
  await fill(full, values);
  await fill(empty, { tasks: 1, queues: 1 });
  const browser = await launchChromium();
  try {
    await pages(browser, { empty, full }, values.rounds);
    console.log("");
    await makeBrowserWait();
    await beside(workspace, { browser, server: full }, values);
  } finally {
    await browser.close();
  }
}

/** The browser gets the CPU that others leave: all processes of its group, with all threads. */
async function makeBrowserWait(): Promise<void> {
  const processes: { readonly pid: string; readonly parent: number; readonly group: number }[] = [];
  for (const pid of await readdir("/proc")) {
    // One that has ended meanwhile has nothing to say.
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    const [, parent, group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (/chrom/.test(stat)) processes.push({ pid, parent: Number(parent), group: Number(group) });
  }
  const groups = processes.filter(({ parent }) => parent === process.pid).map(({ group }) => group);
  for (const { pid, group } of processes) {
    if (!groups.includes(group)) continue;
    // Where the kernel shares out CPU by sessions, priorities count within one only. Not there on other kernels.
    await writeFile(`/proc/${pid}/autogroup`, "19").catch(() => {});
    for (const thread of await readdir(`/proc/${pid}/task`).catch(() => [])) {
      try {
        setPriority(Number(thread), constants.priority.PRIORITY_LOW);
      } catch {
        // It has ended.
      }
    }
  }
}

async function fill(
  server: Listening,
  { tasks, queues }: { readonly tasks: number; readonly queues: number },
): Promise<void> {
  let left = tasks;
  const run = async (): Promise<void> => {
    while (left > 0) {
      const size = Math.min(left, batchMax);
      left -= size;
      const batch = Array.from({ length: size }, (_, n) => ({
        command: `queue-${(left + n) % queues}`,
        payload: { customer: { id: left + n }, lines: ["a", "b"] },
      }));
      await ask(server, "/tasks/batch", { tasks: batch });
    }
  };
  await Promise.all([run(), run(), run(), run()]);
  for (let n = 0; n < deadLetters; n += 1) {
    await ask(server, "/tasks", { command: "dead", payload: { n }, maxAttempts: 1 });
    const { id } = (await ask(server, "/tasks/claim", { commands: ["dead"] })) as { id: string };
    await ask(server, `/tasks/${id}/nack`, { reason: `SmtpError: 421 from 203.0.113.${n % 9}` });
  }
}

const views: Readonly<Record<string, string>> = {
  overview: "/",
  queues: "/ui/queues",
  tasks: "/ui/tasks",
  failures: "/ui/failures",
};

interface Interaction {
  /** What the person does first. */
  readonly before?: (page: Page) => Promise<void>;
  readonly act: (page: Page) => Promise<void>;
  /** An expression that is true as soon as the page shows what was asked for. */
  readonly shows: string;
}

/** Each begins on the list of tasks. */
const interactions: Readonly<Record<string, Interaction>> = {
  "filter tasks": {
    before: (page) => page.getByRole("combobox", { name: "Filter tasks" }).fill("state:dead"),
    act: (page) => page.keyboard.press("Enter"),
    shows: `document.querySelector("main").textContent.includes("${deadLetters} matching")`,
  },
  "open a task": {
    act: (page) => page.locator("#task-list tbody a").first().click(),
    shows: `document.querySelector("[role=tab]") !== null`,
  },
  "open the palette": {
    act: (page) => page.keyboard.press("Control+k"),
    shows: `document.querySelector("dialog [role=combobox]") !== null`,
  },
  "go to queues": {
    act: (page) => page.getByRole("link", { name: "Queues" }).click(),
    shows: `document.querySelector("#queue-list tbody tr[data-row]") !== null`,
  },
};

/** In the page: from the key or click to the frame that shows the answer, without the time that a test driver takes. */
async function timeInPage(page: Page, { before, act, shows }: Interaction): Promise<number> {
  await before?.(page);
  await page.evaluate(`void (globalThis.shown = new Promise((resolve) => {
    let startMs;
    const begin = (event) => (startMs ??= event.timeStamp);
    addEventListener("keydown", begin, { capture: true, once: true });
    addEventListener("click", begin, { capture: true, once: true });
    const look = () => {
      const isShown = startMs !== undefined && (${shows});
      requestAnimationFrame(isShown ? () => resolve(performance.now() - startMs) : look);
    };
    look();
  }))`);
  await act(page);
  return await page.evaluate<number>("shown");
}

async function pages(
  browser: Browser,
  servers: Readonly<Record<"empty" | "full", Listening>>,
  rounds: number,
): Promise<void> {
  const table = new Table(["what"], 18);
  const names = [...Object.keys(views), ...Object.keys(interactions)];
  const times = new Map(
    names.map((name) => [name, { empty: [] as number[], full: [] as number[] }]),
  );
  for (let round = 1; round <= rounds; round += 1) {
    for (const which of ["empty", "full"] as const) {
      progress(`pages of the ${which} server, round ${round}`);
      const took = await timedRound(browser, servers[which]);
      for (const [name, ms] of took) times.get(name)?.[which].push(ms);
    }
  }
  for (const [name, { empty, full }] of times) {
    const [before, after] = [median(empty), median(full)];
    table.add(
      [name],
      [
        figure("empty ms", before, "ms"),
        figure("full ms", after, "ms"),
        figure("ratio", after / before, 2),
      ],
    );
  }
}

/** A browser that has never been here, and one look at everything. */
async function timedRound(browser: Browser, { port }: Listening): Promise<Map<string, number>> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  const settled = watchRequests(page);
  const took = new Map<string, number>();
  const open = async (path: string): Promise<void> => {
    await page.goto(`http://127.0.0.1:${port}${path}`);
    await page.locator("h1").first().waitFor();
    await settled();
  };
  for (const [name, path] of Object.entries(views)) {
    const startMs = performance.now();
    await open(path);
    took.set(name, performance.now() - startMs);
  }
  for (const [name, interaction] of Object.entries(interactions)) {
    await open("/ui/tasks");
    took.set(name, await timeInPage(page, interaction));
  }
  await context.close();
  return took;
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[values.length >> 1] ?? 0;
}

interface LoadPlan {
  readonly tabs: readonly number[];
  readonly rounds: number;
  readonly rate: number;
  readonly seconds: number;
}

async function beside(
  workspace: Workspace,
  { browser, server }: { readonly browser: Browser; readonly server: Listening },
  plan: LoadPlan,
): Promise<void> {
  const rows = plan.tabs.map((tabs) => ({ tabs, rounds: [] as Figure[][] }));
  for (let round = 1; round <= plan.rounds; round += 1) {
    for (const { tabs, rounds } of rows) {
      progress(`a load beside ${tabs} tabs, round ${round}`);
      rounds.push(await loadBeside(workspace, { browser, server, tabs }, plan));
    }
  }
  const table = new Table(["tabs"]);
  for (const { tabs, rounds } of rows) table.add([String(tabs)], medianFigures(rounds));
}

async function loadBeside(
  workspace: Workspace,
  open: { readonly browser: Browser; readonly server: Listening; readonly tabs: number },
  { rate, seconds }: LoadPlan,
): Promise<Figure[]> {
  const { browser, server, tabs } = open;
  const paths = Object.values(views);
  // Each in a context of its own, which stands for a browser of its own: one has six connections at most.
  const contexts = await Promise.all(
    Array.from({ length: tabs }, async (_, n) => {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.goto(`http://127.0.0.1:${server.port}${paths[n % paths.length]}`);
      await page.locator("h1").first().waitFor();
      return context;
    }),
  );
  const { workerStreamPort: workerPort, producerStreamPort: producerPort } = server;
  const paced = { part: "paced", tasksPerSecond: rate } as const;
  const measured = await measure(workspace, {
    ...{ program: loadProgram("own", "stream-load.ts"), server: server.child, warmUpSeconds: 2 },
    seconds,
    load: {
      ...(rate === 0 ? { part: "closed", tasksPerSecond: 0 } : paced),
      ...{ kind: "streams", batch: 1, batchOut: 1, producers: 32, slots: 128 },
      ...{ workerStreams: 4, workerPort, producerPort },
    },
  });
  for (const context of contexts) await context.close();
  const { create, pickup, submit } = measured.latency;
  return [
    ...cycleFigures(measured),
    latencyFigure("create", create),
    latencyFigure("pickup", pickup),
    latencyFigure("submit", submit),
  ];
}
