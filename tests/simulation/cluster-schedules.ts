/**
 * Schedules in a cluster whose leaders change. At the end, the records of the leaders must agree with each other:
 *
 * - each nominal instant has exactly one of {task, counted skip, waiting};
 * - tasks overlap only when the schedule allows that, and no task was created early or during a pause;
 * - the live tasks that the leader counts are those that have not ended.
 */
import type { Task } from "@codeq/queue";
import type { SimRandom } from "@codeq/simulated";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type {
  ScheduleOptions,
  ShownSchedule,
} from "../../packages/server/src/core/records/schedule-record.ts";
import type { Router } from "../../packages/server/src/core/shards/router.ts";
import { acme } from "../../packages/server/test/broker-world.ts";
import type { ClusterWorld } from "../../packages/server/test/cluster-world.ts";

const periodMs = 1000;
const answerMs = 10_000;
const options: ScheduleOptions = {
  command: "a",
  payload: "{}",
  priority: 0,
  webhook: "",
  maxAttempts: 1000,
  timeoutSeconds: 0,
  ttlSeconds: 0,
  tags: [],
  cron: "",
  every: "1s",
  offset: "",
  tz: "UTC",
  fromMs: undefined,
  untilMs: undefined,
  except: [],
  times: 0,
  overlap: "skip",
  graceSeconds: 1,
  catchUp: "latest",
  within: "",
  spread: "",
  pauseAfterFailures: 0,
  lane: "",
  cost: 0,
};
const kinds = [
  { overlap: "skip", catchUp: "latest" },
  { overlap: "one", catchUp: "all" },
  { overlap: "replace", catchUp: "none" },
  { overlap: "allow", catchUp: "latest", every: "5s" },
] as const;

/** What a client knows of a schedule. */
interface Known {
  readonly id: string;
  readonly options: ScheduleOptions;
  state: "missing" | "running" | "paused";
  /** The last request has no answer yet. */
  isAsked: boolean;
  askedMs: number;
  /** Whether every request was answered. */
  isSure: boolean;
  /** From the answer to a pause until the next request. */
  readonly pauses: { readonly fromMs: number; toMs: number }[];
}

type Run = Task & { readonly schedule: NonNullable<Task["schedule"]> };

export class ClusterSchedules {
  fired = 0;
  readonly #world: ClusterWorld;
  readonly #random: SimRandom;
  #isEnding = false;
  readonly #all: readonly Known[];

  constructor(world: ClusterWorld, random: SimRandom) {
    this.#world = world;
    this.#random = random;
    this.#all = kinds.map((kind) => ({
      id: `${kind.overlap}-${kind.catchUp}`,
      options: { ...options, ...kind },
      state: "missing",
      isSure: true,
      isAsked: false,
      askedMs: 0,
      pauses: [],
    }));
  }

  get haveEnded(): boolean {
    return this.#all.every(({ state }) => state === "paused");
  }

  /** A client puts a schedule, pauses it or resumes it, on any node. */
  act(): void {
    const node = this.#random.pick(this.#world.nodes);
    const known = this.#random.pick(this.#all);
    const isDue = known.state === "missing" || this.#random.next() < 0.05;
    if (isDue && !node.isPaused) this.#ask(node.router, known);
  }

  /** Pauses all of them, as often as it takes. What nodes were asked for before may still happen first. */
  end(router: Router): void {
    if (!this.#isEnding) for (const known of this.#all) forget(known);
    this.#isEnding = true;
    for (const known of this.#all) if (known.state !== "paused") this.#ask(router, known);
  }

  #ask(router: Router | undefined, known: Known): void {
    const { clock } = this.#world;
    // A node that was killed never answers.
    if (known.isAsked && clock.nowMs() < known.askedMs + answerMs) return;
    if (known.isAsked) forget(known);
    if (router === undefined) return;
    const { schedules } = router;
    const of = { tenantId: acme, id: known.id };
    const pause = { by: "ann", reason: "", atMs: clock.nowMs() };
    const { state } = known;
    known.isAsked = true;
    const askedMs = clock.nowMs();
    known.askedMs = askedMs;
    // Later pauses are not listed once a request had no answer, and end nothing.
    const last = known.pauses.at(-1);
    if (state === "paused" && last?.toMs === Number.POSITIVE_INFINITY) last.toMs = clock.nowMs();
    const asked: Promise<unknown> =
      state === "missing"
        ? Promise.resolve(schedules.put(of, known.options, undefined))
        : Promise.resolve(state === "running" ? schedules.pause(of, pause) : schedules.resume(of));
    asked.then(
      () => {
        if (known.askedMs !== askedMs) return;
        known.isAsked = false;
        known.state = state === "running" ? "paused" : "running";
        const fromMs = clock.nowMs();
        if (known.state === "paused" && known.isSure)
          known.pauses.push({ fromMs, toMs: Number.POSITIVE_INFINITY });
      },
      () => {
        if (known.askedMs === askedMs) forget(known);
      },
    );
  }

  /** Of every schedule, once the cluster is healed: what is wrong. */
  async check({ isClockRight }: { readonly isClockRight: boolean }): Promise<string | undefined> {
    for (const known of this.#all) {
      const found = this.#leaderOf(known.id);
      if (found === undefined) return `${known.id} was put, and is on no leader`;
      const { broker, shown } = found;
      const ids = await broker.store.runsOfSchedule({ tenantId: acme, id: known.id }, 100_000);
      const runs = ids.flatMap((id) => (broker.store.task(id) as Run | undefined) ?? []);
      this.fired += runs.length;
      const wrong =
        problemOfCounts(shown, runs) ??
        (isClockRight ? (problemOfTimes(shown, runs) ?? problemOfPauses(known, runs)) : undefined);
      if (wrong !== undefined) return `schedule ${known.id}: ${wrong}`;
    }
    return undefined;
  }

  #leaderOf(
    id: string,
  ): { readonly broker: ShardBroker; readonly shown: ShownSchedule } | undefined {
    for (const shard of this.#world.logs.keys()) {
      const broker = this.#world.leaderOf(shard)?.shards[shard]?.broker;
      const shown = broker?.schedules.get({ tenantId: acme, id });
      if (broker !== undefined && shown !== undefined) return { broker, shown };
    }
    return undefined;
  }
}

/** A request without an answer may happen at any time: nothing is known of later pauses. */
function forget(known: Known): void {
  known.isAsked = false;
  known.isSure = false;
  if (known.state === "paused") known.state = "running";
}

function hasEnded({ place }: Task): boolean {
  return place.in === "done" || place.in === "dead";
}

function problemOfCounts(shown: ShownSchedule, runs: readonly Run[]): string | undefined {
  const nominal = new Set(runs.map(({ schedule }) => schedule.forMs));
  if (nominal.size < runs.length) return "an instant has two tasks";
  if (runs.length !== shown.fired) return `${runs.length} tasks, and ${shown.fired} are counted`;
  const period = shown.every === "5s" ? 5 * periodMs : periodMs;
  const due = Math.floor(shown.handledMs / period) - Math.floor(shown.createdMs / period);
  const skipped = Object.values(shown.skipped).reduce((sum, each) => sum + each, 0);
  const waiting = shown.waitingMs === undefined ? 0 : 1;
  if (shown.fired + skipped + waiting !== due) {
    return `of ${due} instants ${shown.fired} were fired, ${skipped} skipped and ${waiting} wait`;
  }
  const live = runs.filter((run) => !hasEnded(run)).length;
  return live === shown.live ? undefined : `${live} tasks are live, and ${shown.live} are counted`;
}

/** Only where all clocks were right: a task may be early by a clock that is set back later. */
function problemOfTimes(
  { overlap, delayMs }: ShownSchedule,
  runs: readonly Run[],
): string | undefined {
  const early = runs.find(({ createdMs, schedule }) => createdMs < schedule.forMs + delayMs);
  if (early !== undefined) return `${early.id} was created before ${early.schedule.forMs}`;
  if (overlap === "allow") return undefined;
  // Instants that were missed may be fired at once, one after the other.
  const sorted = runs.toSorted(
    (one, other) => one.createdMs - other.createdMs || one.schedule.forMs - other.schedule.forMs,
  );
  for (const [at, run] of sorted.entries()) {
    const next = sorted[at + 1];
    const endMs = hasEnded(run) ? run.updatedMs : Number.POSITIVE_INFINITY;
    if (next !== undefined && next.createdMs < endMs) return `${next.id} overlaps ${run.id}`;
  }
  return undefined;
}

function problemOfPauses({ pauses }: Known, runs: readonly Run[]): string | undefined {
  for (const { id, createdMs } of runs) {
    const pause = pauses.find(({ fromMs, toMs }) => createdMs > fromMs && createdMs < toMs);
    if (pause !== undefined) return `${id} was created during a pause`;
  }
  return undefined;
}
