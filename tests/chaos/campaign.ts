/**
 * One campaign: load on a cluster of real processes, one fault after the other, and at the end the comparison of
 * what clients were told with what every node has. A seed repeats the choices, not the timing of the machine.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { SimRandom } from "@codeq/simulated";
import { type Field, strike } from "./faults.ts";
import { Fleet, nodeNames } from "./fleet.ts";
import { Ledger, type Shown } from "./ledger.ts";
import { ask, Load } from "./load.ts";
import type { Network } from "./network.ts";
import { differences } from "./replicas.ts";
import { shownBy, withoutAnswer } from "./shown.ts";

export interface CampaignOptions {
  readonly network: Network;
  readonly etcdProgram: string;
  readonly seed: string;
  /** Drawn unless given. */
  readonly shards: number | undefined;
  readonly faults: FaultPlan;
  readonly nodeArgs: readonly string[];
  readonly onLine: (line: string) => void;
}

export type FaultPlan =
  /** Drawn from these for some time, each for a time that is drawn. */
  | { readonly kind: "drawn"; readonly names: readonly string[]; readonly seconds: number }
  /** Each as often, for a time that is drawn, with all nodes ready before it: how long the pauses are. */
  | { readonly kind: "each"; readonly names: readonly string[]; readonly times: number }
  /** One after the other, each until work goes on in spite of it. */
  | { readonly kind: "listed"; readonly names: readonly string[] };

export interface CampaignReport {
  readonly shards: number;
  readonly acknowledged: number;
  readonly completions: number;
  readonly repeated: number;
  /** The longest time without an acknowledgement at each time a fault struck, in milliseconds. */
  readonly struck: ReadonlyMap<string, readonly number[]>;
  readonly problems: readonly string[];
  /** Where data and output of the processes are, after a campaign that is not sound. */
  readonly kept: string | undefined;
}

const faultMsMax = 8000;
const calmTasks = 40;
/** Without an acknowledgement for so long after everything was healed, the cluster does not come back. */
const patienceMs = 60_000;
const pollMs = 100;

export async function campaign(options: CampaignOptions): Promise<CampaignReport> {
  const directory = await mkdtemp(join(tmpdir(), "codeq-chaos-"));
  const random = new SimRandom(`chaos/${options.seed}`);
  const drawn = random.pick([1, 3]);
  const shards = options.shards ?? drawn;
  const { network, etcdProgram, nodeArgs } = options;
  const fleet = new Fleet({ network, directory, etcdProgram, shards, nodeArgs });
  if (network.ways !== undefined) await fleet.makeDisks();
  const run = new Campaign(options, { fleet, random, shards });
  const abort = (): void => {
    // Nothing of it is left behind.
    void fleet[Symbol.asyncDispose]().then(() => process.exit(130));
  };
  process.once("SIGINT", abort).once("SIGTERM", abort);
  try {
    await run.toEnd();
  } finally {
    process.off("SIGINT", abort).off("SIGTERM", abort);
    await fleet[Symbol.asyncDispose]();
  }
  const { problems } = run.ledger;
  const isSound = problems.length === 0;
  if (isSound) fleet.removeDisks();
  if (isSound) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  return {
    shards,
    acknowledged: run.ledger.tasks.size,
    completions: run.ledger.completions,
    repeated: run.repeated,
    struck: run.struck,
    problems,
    kept: isSound ? undefined : directory,
  };
}

/** What a node says about the cluster, as far as campaigns need it. */
interface Cluster {
  readonly shards?: readonly { readonly leader?: string }[];
}

interface Parts {
  readonly fleet: Fleet;
  readonly random: SimRandom;
  readonly shards: number;
}

class Campaign {
  readonly ledger: Ledger = new Ledger();
  readonly struck: Map<string, number[]> = new Map();
  repeated = 0;
  readonly #options: CampaignOptions;
  readonly #parts: Parts;

  constructor(options: CampaignOptions, parts: Parts) {
    this.#options = options;
    this.#parts = parts;
  }

  async toEnd(): Promise<void> {
    const { fleet, random, shards } = this.#parts;
    await fleet.heal();
    for (const node of nodeNames) await this.#isReady(node);
    await fleet.logsVote();
    fleet.noteLogs();
    const load = new Load({
      ledger: this.ledger,
      urls: nodeNames.map((node) => fleet.url(node)),
      ordered: 2,
      shared: 2,
      isOrderKnown: shards === 1,
      draw: (below) => random.int(below),
    });
    const isCalm = (await this.#calm("the start")) && (await this.#strikeAll());
    if (!isCalm) load.giveUp();
    await load.stopProducing();
    if (isCalm) await this.#allDone();
    await load.stopWorking();
    this.repeated = load.repeated;
    if (isCalm) await this.#compare();
  }

  /** Whether the cluster came back after each. */
  async #strikeAll(): Promise<boolean> {
    const { faults: plan } = this.#options;
    const { random } = this.#parts;
    if (plan.kind === "listed") {
      for (const name of plan.names) {
        if (!(await this.#strike(name, () => this.#calm(`${name}, while it lasts`)))) return false;
        await this.#allReady();
      }
      return true;
    }
    const last = (): Promise<void> => pause(random.int(faultMsMax));
    if (plan.kind === "each") {
      const all = Array.from({ length: plan.times }, () => plan.names).flat();
      for (const name of all) {
        await this.#allReady();
        if (!(await this.#strike(name, last))) return false;
      }
      return true;
    }
    const endMs = performance.now() + plan.seconds * 1000;
    while (performance.now() < endMs) {
      if (!(await this.#strike(random.pick(plan.names), last))) return false;
    }
    return true;
  }

  /** `last` resolves when the fault has lasted long enough. */
  async #strike(name: string, last: () => Promise<unknown>): Promise<boolean> {
    const { fleet, random } = this.#parts;
    const { network, onLine } = this.#options;
    const before = this.ledger.tasks.size;
    const field: Field = {
      fleet,
      pick: (from) => random.pick(from),
      leader: () => this.#leader(),
      isReady: (node) => this.#isReady(node),
      problem: (text) => this.ledger.problems.push(text),
    };
    const watch = this.#watchPauses();
    const startMs = performance.now();
    await strike(name, field, network.ways);
    await last();
    const lastedMs = Math.round(performance.now() - startMs);
    network.ways?.heal();
    await fleet.heal();
    const isCalm = await this.#calm(name);
    for (const death of fleet.deaths.splice(0)) {
      this.ledger.problems.push(`after "${name}" ${death}, by itself`);
    }
    const pauseMs = Math.round(watch());
    this.struck.set(name, [...(this.struck.get(name) ?? []), pauseMs]);
    const created = this.ledger.tasks.size - before;
    onLine(
      `${name}: lasted ${lastedMs} ms, longest pause ${pauseMs} ms, ${created} tasks acknowledged`,
    );
    return isCalm && this.ledger.problems.length === 0;
  }

  /** The longest time without an acknowledgement, until it is asked for. */
  #watchPauses(): () => number {
    let longest = 0;
    let since = performance.now();
    let seen = this.ledger.tasks.size;
    const look = (): void => {
      const now = performance.now();
      longest = Math.max(longest, now - since);
      if (this.ledger.tasks.size === seen) return;
      seen = this.ledger.tasks.size;
      since = now;
    };
    const timer = setInterval(look, 10);
    return () => {
      clearInterval(timer);
      look();
      return longest;
    };
  }

  /** Everything is healed; work has to go on. */
  async #calm(after: string): Promise<boolean> {
    const { tasks, completions } = this.ledger;
    const [wantedTasks, wantedDone] = [tasks.size + calmTasks, completions + calmTasks];
    const isCalm = (): boolean =>
      tasks.size >= wantedTasks && this.ledger.completions >= wantedDone;
    const endMs = performance.now() + patienceMs;
    while (!isCalm() && performance.now() < endMs) await pause(pollMs);
    if (isCalm()) return true;
    this.ledger.problems.push(`the cluster does not come back after: ${after}`);
    return false;
  }

  async #leader(): Promise<string> {
    for (const node of nodeNames) {
      const reply = await ask(`${this.#parts.fleet.url(node)}/v1/codeq/cluster`);
      const { shards } = (reply?.json ?? {}) as Cluster;
      const leader = shards?.[0]?.leader;
      if (leader !== undefined) return leader;
    }
    return this.#parts.random.pick(nodeNames);
  }

  async #allReady(): Promise<void> {
    for (const node of nodeNames) await this.#isReady(node);
    await this.#parts.fleet.logsVote();
  }

  async #isReady(node: string): Promise<void> {
    const endMs = performance.now() + patienceMs;
    while (performance.now() < endMs) {
      const reply = await ask(`${this.#parts.fleet.url(node)}/v1/codeq/cluster`);
      const { shards = [] } = (reply?.json ?? {}) as Cluster;
      // A node is ready as soon as one shard has a leader; here all have one.
      const isLed = shards.length > 0 && shards.every(({ leader }) => leader !== undefined);
      const ready = isLed && (await ask(`${this.#parts.fleet.url(node)}/readyz`));
      if (ready && ready.status === 200) return;
      await pause(pollMs);
    }
    this.ledger.problems.push(`${node} is not ready after ${patienceMs / 1000} s`);
  }

  /** Workers end everything that was acknowledged. */
  async #allDone(): Promise<void> {
    const endMs = performance.now() + patienceMs;
    for (;;) {
      const open = [...this.ledger.tasks.values()].filter(({ completed }) => completed.size === 0);
      const left = await Promise.all(open.map(({ id }) => this.#show(nodeNames[0] ?? "", id)));
      const isOver = left.every((shown) => shown?.status === "COMPLETED");
      if (isOver || performance.now() > endMs) return;
      await pause(pollMs);
    }
  }

  #show(node: string, id: string): Promise<Shown | undefined> {
    const url = `${this.#parts.fleet.url(node)}/v1/codeq`;
    return shownBy((path) => ask(url + path), id);
  }

  async #compare(): Promise<void> {
    const { fleet, shards } = this.#parts;
    const ids = [...this.ledger.tasks.keys()];
    for (const [at, id] of ids.entries()) {
      const node = nodeNames[at % nodeNames.length] as string;
      let shown = await this.#show(node, id);
      // A leader may change at any time, also after the last fault. All tasks together take longer than one may.
      const endMs = performance.now() + patienceMs;
      while (shown === withoutAnswer && performance.now() < endMs) {
        await pause(pollMs);
        shown = await this.#show(node, id);
      }
      this.ledger.compare(id, shown, node);
    }
    for (const node of nodeNames) {
      const code = await fleet.stop(node);
      if (code !== 0) this.ledger.problems.push(`${node} ended with ${code}`);
    }
    const nodes = new Map(nodeNames.map((node) => [node, fleet.dataDir(node)]));
    await using _logs = await fleet.startLogs();
    const found = await differences({ shards, etcd: fleet.etcd, nodes });
    this.ledger.problems.push(...found, ...fleet.deaths.splice(0));
  }
}
