/**
 * Schedules of one second on a server that is killed with SIGKILL again and again, or on a cluster whose leaders are.
 * In the end, each nominal instant of each schedule has exactly one of {task, counted skip, waiting}, and the live
 * tasks that the server counts are those that have not ended.
 */
import { SimRandom } from "@codeq/simulated";
import { Client, type Fleet, inTurns, startFleet } from "./fleet.ts";

export interface CampaignOptions {
  readonly schedules: number;
  readonly seconds: number;
  readonly kills: number;
  /** The program of etcd, for a cluster of three nodes. */
  readonly etcd?: string | undefined;
  readonly seed?: string | undefined;
  readonly tell?: (line: string) => void;
}

export interface Verdict {
  readonly kills: number;
  readonly instants: number;
  readonly fired: number;
  readonly skipped: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

export interface ShownSchedule {
  readonly id: string;
  readonly overlap: string;
  readonly createdAt: string;
  readonly handledAt: string;
  readonly waitingAt?: string;
  readonly fired: number;
  readonly live: number;
  readonly skipped: Readonly<Record<string, number>>;
}

export interface ShownRun {
  readonly at: string;
  readonly taskId?: string;
  readonly createdAt?: string;
  readonly status?: string;
}

const period = 1000;
const clockId = "clock";
/** How schedules differ; every fourth is of one kind. */
const kinds = [
  { overlap: "allow", catchUp: "all" },
  { overlap: "skip", catchUp: "latest" },
  { overlap: "one", catchUp: "all" },
  { overlap: "allow", catchUp: "latest", within: "5s" },
] as const;

export async function campaign(options: CampaignOptions): Promise<Verdict> {
  const { etcd, tell = () => {} } = options;
  await using fleet = await startFleet(etcd);
  const client = new Client(fleet);
  const ids = Array.from({ length: options.schedules }, (_, at) => `s-${at}`);
  await inTurns(ids, (id, at) => {
    const body = { command: "work", every: "1s", ...kinds[at % kinds.length] };
    return client.ask("PUT", `/admin/schedules/${id}`, body);
  });
  await client.ask("PUT", `/admin/schedules/${clockId}`, {
    command: "tick",
    every: "1s",
    overlap: "allow",
    catchUp: "all",
  });
  tell(`${ids.length} schedules are put`);
  const work = new Work(client);
  const kills = await killAll(fleet, client, options);
  await work.end();
  await inTurns([clockId, ...ids], (id) => client.ask("POST", `/admin/schedules/${id}/pause`, {}));
  tell(`${kills} kills; ${work.done} tasks were done`);
  const problems: string[] = [];
  const skipped: Record<string, number> = {};
  let fired = 0;
  let instants = 0;
  await inTurns([clockId, ...ids], async (id) => {
    const shown: ShownSchedule = await client.ask("GET", `/admin/schedules/${id}`);
    const { runs } = await client.ask("GET", `/admin/schedules/${id}/runs?limit=1000`);
    problems.push(...judge(shown, runs));
    fired += shown.fired;
    instants += instantsOf(shown);
    for (const [why, count] of Object.entries(shown.skipped)) {
      skipped[why] = (skipped[why] ?? 0) + count;
    }
  });
  return { kills, instants, fired, skipped, problems };
}

function instantsOf({ createdAt, handledAt }: ShownSchedule): number {
  const index = (text: string): number => Math.floor(Date.parse(text) / period);
  return index(handledAt) - index(createdAt);
}

/** What is wrong with a schedule and its tasks. */
export function judge(shown: ShownSchedule, runs: readonly ShownRun[]): readonly string[] {
  const { id, overlap, fired, live } = shown;
  const tasks = runs.filter(({ taskId }) => taskId !== undefined);
  const problems: string[] = [];
  if (new Set(tasks.map(({ at }) => at)).size < tasks.length) {
    problems.push(`${id}: an instant has two tasks`);
  }
  if (tasks.length !== fired) problems.push(`${id}: ${tasks.length} tasks, ${fired} are counted`);
  const skipped = Object.values(shown.skipped).reduce((sum, each) => sum + each, 0);
  const waiting = shown.waitingAt === undefined ? 0 : 1;
  const instants = instantsOf(shown);
  if (fired + skipped + waiting !== instants) {
    problems.push(`${id}: of ${instants} instants ${fired} fired, ${skipped} skipped`);
  }
  if (tasks.some(({ at, createdAt = "" }) => Date.parse(createdAt) < Date.parse(at))) {
    problems.push(`${id}: a task is early`);
  }
  const unfinished = tasks.filter(({ status = "" }) => /PENDING|IN_PROGRESS/.test(status)).length;
  if (unfinished !== live) problems.push(`${id}: ${unfinished} tasks are live, ${live} counted`);
  if (overlap !== "allow" && live > 1) problems.push(`${id}: ${live} tasks overlap`);
  return problems;
}

/** Kills at random moments, as the tasks of the schedule `clock` tell the time. */
async function killAll(
  fleet: Fleet,
  client: Client,
  { seconds, kills, seed = String(Date.now()), tell = () => {} }: CampaignOptions,
): Promise<number> {
  const random = new SimRandom(seed);
  const startMs = await tick(client);
  const times = Array.from({ length: kills }, () => startMs + random.int(seconds * period));
  times.sort((one, other) => one - other);
  let killed = 0;
  for (let nowMs = startMs; nowMs < startMs + seconds * period; nowMs = await tick(client)) {
    const due = times.filter((ms) => ms <= nowMs);
    if (due.length === 0) continue;
    times.splice(0, due.length);
    killed += 1;
    tell(`kill ${killed} after ${(nowMs - startMs) / 1000} s`);
    await fleet.kill();
  }
  return killed;
}

/** A worker that ends tasks, two thirds of those that it claims. */
class Work {
  done = 0;
  readonly #client: Client;
  readonly #over: Promise<void>;
  #isOver = false;

  constructor(client: Client) {
    this.#client = client;
    this.#over = this.#run();
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#over;
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const asked = { commands: ["work"], leaseSeconds: 10, waitSeconds: 1 };
      const first = await this.#client.ask("POST", "/tasks/claim", asked);
      if (first === undefined) continue;
      const more = await this.#client.ask("POST", "/tasks/claim/batch", {
        commands: ["work"],
        leaseSeconds: 10,
        count: 256,
      });
      const claimed: { id: string }[] = [first, ...(more?.tasks ?? [])];
      const results = claimed
        .filter((_, at) => at % 3 !== 2)
        .map(({ id: taskId }) => ({ taskId, status: "COMPLETED", result: {} }));
      await this.#client.ask("POST", "/tasks/batch/results", { results });
      this.done += results.length;
    }
  }
}

/** The nominal instant of the next task of the schedule `clock`. */
async function tick(client: Client): Promise<number> {
  for (;;) {
    const asked = { commands: ["tick"], leaseSeconds: 10, waitSeconds: 2 };
    const task = await client.ask("POST", "/tasks/claim", asked);
    if (task === undefined) continue;
    const results = [{ taskId: task.id, status: "COMPLETED", result: {} }];
    await client.ask("POST", "/tasks/batch/results", { results });
    return Date.parse(task.scheduledFor);
  }
}
