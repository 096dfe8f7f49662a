/**
 * Batches whose members end while their server is killed with SIGKILL again and again, or the leaders of a cluster are.
 * Every callback runs after the last end, once, and finds each member that was acknowledged, with its result.
 */
import { SimRandom } from "@codeq/simulated";
import { Client, type Fleet, inTurns, startFleet } from "./fleet.ts";

export interface CampaignOptions {
  readonly batches: number;
  readonly members: number;
  readonly kills: number;
  /** The program of etcd, for a cluster of three nodes. */
  readonly etcd?: string | undefined;
  readonly seed?: string | undefined;
  readonly tell?: (line: string) => void;
}

export interface Verdict {
  readonly kills: number;
  readonly ended: number;
  readonly problems: readonly string[];
}

export interface ShownBatch {
  readonly id: string;
  readonly phase: string;
  readonly total: number;
  readonly pending: number;
  readonly succeeded: number;
  readonly failed: number;
}

export interface ShownMember {
  readonly taskId: string;
  readonly status: string;
  readonly result?: { readonly of: string };
}

/** What a worker was given to call back. */
export interface Callback {
  readonly batchId: string;
  readonly batchEnded?: { readonly succeeded: number; readonly failed: number };
}

const emptyClaimsMax = 120;
const pageMembers = 1000;

export async function campaign(options: CampaignOptions): Promise<Verdict> {
  const { etcd, batches, members, seed = String(Date.now()), tell = () => {} } = options;
  await using fleet = await startFleet(etcd);
  const client = new Client(fleet);
  const ids = Array.from({ length: batches }, (_, at) => `b-${at}`);
  const work = new Work(client, new Set(ids));
  const killed = killAll(fleet, work, { ...options, seed });
  const added = new Map<string, ReadonlySet<string>>();
  const [, ...problems] = await Promise.all([
    inTurns(ids, async (id) => added.set(id, await fill(client, id, members))),
    ...Array.from({ length: 4 }, () => work.run()),
  ]);
  const kills = await killed;
  tell(`${kills} kills, seed ${seed}; ${work.ended} tasks have ended`);
  const found = [...problems.flat(), ...work.problems];
  await inTurns(ids, async (id) => {
    const shown: ShownBatch = await client.ask("GET", `/batches/${id}`);
    found.push(...judge(shown, await membersOf(client, id), added.get(id) ?? new Set()));
  });
  return { kills, ended: work.ended, problems: found };
}

/** Creates a batch with its members, and seals it. Each request is repeated until it has an answer. */
async function fill(client: Client, id: string, members: number): Promise<ReadonlySet<string>> {
  await client.ask("PUT", `/batches/${id}`, { command: "report", on: "end" });
  const added = new Set<string>();
  for (let at = 0; at < members; at += 100) {
    const tasks = Array.from({ length: Math.min(100, members - at) }, (_, more) => ({
      command: "part",
      batchId: id,
      idempotencyKey: `${id}-${at + more}`,
    }));
    const { results } = await client.ask("POST", "/tasks/batch", { tasks });
    for (const { task } of results) added.add(task.id);
  }
  await client.ask("POST", `/batches/${id}/seal`);
  return added;
}

async function membersOf(client: Client, id: string): Promise<readonly ShownMember[]> {
  const all: ShownMember[] = [];
  for (let next = ""; ; ) {
    const path = `/batches/${id}/results?limit=${pageMembers}${next && `&after=${next}`}`;
    const page = await client.ask("GET", path);
    all.push(...page.members);
    if (page.next === undefined) return all;
    next = page.next;
  }
}

/** What is wrong with a batch after its callback ran. */
export function judge(
  { id, phase, total, pending, succeeded, failed }: ShownBatch,
  members: readonly ShownMember[],
  added: ReadonlySet<string>,
): readonly string[] {
  const problems: string[] = [];
  if (phase !== "released") problems.push(`${id}: it is ${phase}`);
  if (pending > 0) problems.push(`${id}: ${pending} members are pending`);
  if (total !== added.size) problems.push(`${id}: it counts ${total} of ${added.size} members`);
  const known = new Set(members.map(({ taskId }) => taskId));
  const lost = [...added].filter((each) => !known.has(each));
  if (lost.length > 0) problems.push(`${id}: ${lost.length} members are lost`);
  const completed = members.filter(({ status }) => status === "COMPLETED");
  if (completed.length !== succeeded || members.length - completed.length !== failed) {
    problems.push(`${id}: it counts ${succeeded} and ${failed}, ${completed.length} succeeded`);
  }
  if (completed.some(({ taskId, result }) => result?.of !== taskId)) {
    problems.push(`${id}: a result is not that of its member`);
  }
  return problems;
}

/** What is wrong with the batch at the moment at which a worker is given its callback. */
export function judgeCallback(
  { batchId, batchEnded }: Callback,
  { pending, succeeded, failed }: ShownBatch,
): readonly string[] {
  if (pending > 0) return [`${batchId}: the callback runs before ${pending} members have ended`];
  const isTold = batchEnded?.succeeded === succeeded && batchEnded.failed === failed;
  return isTold ? [] : [`${batchId}: the callback was told of other ends`];
}

/** Workers that end members and callbacks, until every callback has ended. */
class Work {
  /** Ends that were acknowledged. */
  ended = 0;
  readonly problems: string[] = [];
  readonly #client: Client;
  readonly #left: Set<string>;
  readonly #over = new Set<string>();
  #heard: () => void = () => {};

  constructor(client: Client, left: Set<string>) {
    this.#client = client;
    this.#left = left;
  }

  get isOver(): boolean {
    return this.#left.size === 0;
  }

  /** Resolves when so many tasks have ended, or all. */
  async until(ended: number): Promise<void> {
    while (this.ended < ended && !this.isOver) {
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
  }

  async run(): Promise<readonly string[]> {
    for (let empty = 0; !this.isOver && empty < emptyClaimsMax; empty += 1) {
      const asked = { commands: ["part", "report"], leaseSeconds: 2 };
      const first = await this.#client.ask("POST", "/tasks/claim", { ...asked, waitSeconds: 1 });
      if (first === undefined) continue;
      empty = -1;
      const more = await this.#client.ask("POST", "/tasks/claim/batch", { ...asked, count: 16 });
      await this.#end([first, ...(more?.tasks ?? [])]);
    }
    const left = [...this.#left].slice(0, 3).join(", ");
    return this.isOver ? [] : [`no task can be claimed, and ${left} have not called back`];
  }

  async #end(tasks: readonly (Callback & { id: string; command: string })[]): Promise<void> {
    const callbacks = tasks.filter(({ command }) => command === "report");
    for (const callback of callbacks) {
      const { id, batchId } = callback;
      if (this.#over.has(id)) this.problems.push(`${batchId}: the callback runs again`);
      const shown: ShownBatch = await this.#client.ask("GET", `/batches/${batchId}`);
      this.problems.push(...judgeCallback(callback, shown));
    }
    const results = tasks.map(({ id: taskId, command }) => {
      const fails = command === "part" && taskId.endsWith("0");
      const outcome = fails ? { error: "broken" } : { result: { of: taskId } };
      return { taskId, status: fails ? "FAILED" : "COMPLETED", ...outcome };
    });
    const answer = await this.#client.ask("POST", "/tasks/batch/results", { results });
    for (const [at, { error }] of answer.results.entries()) {
      if (error !== undefined) continue;
      this.ended += 1;
      const { id, batchId, command } = tasks[at] as (typeof tasks)[number];
      if (command !== "report") continue;
      this.#over.add(id);
      this.#left.delete(batchId);
    }
    this.#heard();
  }
}

/** Kills at random numbers of ends. */
async function killAll(
  fleet: Fleet,
  work: Work,
  { batches, members, kills, seed = "", tell = () => {} }: CampaignOptions,
): Promise<number> {
  const random = new SimRandom(seed);
  const all = batches * members;
  const moments = Array.from({ length: kills }, () => random.int(all));
  moments.sort((one, other) => one - other);
  let killed = 0;
  for (const ended of moments) {
    await work.until(ended);
    if (work.isOver) break;
    killed += 1;
    tell(`kill ${killed} after ${work.ended} ends`);
    await fleet.kill();
  }
  return killed;
}
