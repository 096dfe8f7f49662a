/**
 * Nodes of a cluster on a simulated clock, with a log whose answers may be late, lost or repeated. Nodes
 * can be killed, paused and cut off from the log or from each other; what their kv held outlives them, as
 * far as it was durable.
 */
import {
  FaultError,
  install,
  type Kv,
  type LeaderLog,
  type LeaderName,
  MemoryKv,
  replicaTiming,
} from "@codeq/engine";
import type { Change } from "@codeq/queue";
// biome-ignore lint/correctness/noUndeclaredDependencies: only tests use it.
import { SimClock, SimRandom } from "@codeq/simulated";
import { MemoryLogServer, type Way } from "../../engine/test/memory-shared-log.ts";
import { ClusterLink } from "../src/cluster/peers/cluster-link.ts";
import {
  type Caller,
  type Hosting,
  type OpenedShard,
  type Opening,
  ReplicatedShard,
} from "../src/cluster/replicated-shard.ts";
import { noQuotas } from "../src/config/quotas.ts";
import { ShardBroker } from "../src/core/broker/shard-broker.ts";
import type { Clock } from "../src/core/clock.ts";
import { Router } from "../src/core/shards/router.ts";
import { idsOfShard } from "../src/core/shards/shard-of.ts";
import { Store } from "../src/core/store/store.ts";
import { TaskIds } from "../src/core/task-ids.ts";
import { Feed } from "../src/telemetry/feed.ts";
import { runDue } from "./broker-world.ts";

export interface ClusterWorldOptions {
  readonly seed: number;
  readonly nodes?: number;
  readonly shards?: number;
  /** Chances that a question to the log is lost, its answer is lost, or it is late or repeated. */
  readonly trouble?: number;
}

/** A node while it leads a shard. */
export interface Leadership {
  /** When that began, on the monotonic clock. */
  readonly sinceMs: number;
  /** The leases that it has given or prolonged. */
  readonly leases: Set<string>;
}

type KvFiles = NonNullable<Kv["files"]>;

const answerTimeoutMs = 300;
const lateMsMax = 4000;
const timersMs = 100;
/** How often a record of a deposed leader that comes too late is kept behind the takeover. */
const slipping = 0.5;
/** How often a read is answered by a server that is behind, and by how many records at most. */
const lagging = 0.1;
const lagMax = 4;
const logId = 99;

export class ClusterWorld {
  readonly clock: SimClock = new SimClock();
  readonly random: SimRandom;
  readonly logs: readonly MemoryLogServer[];
  readonly nodes: SimNode[] = [];
  trouble: number;
  /** The timers of a shard run on a node. */
  onTimers: (node: SimNode, shard: number) => void = () => {};
  /** A node takes the storage of its shards for failed. */
  onFailed: (node: SimNode) => void = () => {};
  /** A change is durable, as the broker of this leadership tells. */
  onChange: (change: Change, led: Leadership) => void = () => {};

  constructor(options: ClusterWorldOptions) {
    this.random = new SimRandom(`cluster/${options.seed}`);
    this.trouble = options.trouble ?? 0.02;
    const shards = options.shards ?? 1;
    this.logs = Array.from({ length: shards }, (_, shard) => new MemoryLogServer(logId + shard));
    for (const log of this.logs) {
      log.slips = () => this.random.next() < slipping;
      // A read is answered by one server, which may be behind; a question about the end is not.
      log.lag = () => (this.random.next() < lagging ? this.random.int(lagMax) : 0);
    }
    for (let at = 0; at < (options.nodes ?? 3); at += 1) this.nodes.push(new SimNode(this, at));
    for (const node of this.nodes) node.start();
  }

  /** The node that leads a shard, if one does. */
  leaderOf(shard: number): SimNode | undefined {
    return this.nodes.find((node) => node.shards[shard]?.broker !== undefined);
  }

  /** The ids of the nodes, the one that should lead first. */
  nodesFor(shard: number): readonly string[] {
    const ids = this.nodes.map(({ name }) => name.id);
    return ids.map((_, rank) => ids[(rank + ids.length * shard - shard) % ids.length] as string);
  }

  /** Whether a message gets from one node to another. */
  areConnected(one: SimNode, other: SimNode): boolean {
    return one === other || (!one.isCutOff && !other.isCutOff);
  }
}

/** What a node is made of while it runs. */
export class SimNode {
  readonly at: number;
  readonly name: LeaderName;
  isPaused = false;
  /** From the log servers. */
  isWithoutLog = false;
  /** From the other nodes. */
  isCutOff = false;
  /** The kv takes nothing. */
  isDiskFull = false;
  /** How long the kv takes for every write. */
  writeMs = 0;
  /** How far its wall clock is ahead. */
  clockOffMs = 0;
  /** Undefined until it is open. */
  shards: (ReplicatedShard | undefined)[] = [];
  router: Router | undefined;
  readonly #world: ClusterWorld;
  /** What each shard's kv holds, and what it held at earlier flushes. */
  readonly contents: Map<string, Buffer>[];
  readonly #earlier: Map<string, Buffer>[][];
  /** How often it was too far behind, and got a copy. */
  copies = 0;
  readonly #held: (() => void)[] = [];
  #life = 0;
  #rankMin = 0;

  constructor(world: ClusterWorld, at: number) {
    this.#world = world;
    this.at = at;
    this.name = { id: `node-${at}`, address: `${at}` };
    this.contents = world.logs.map(() => new Map());
    this.#earlier = world.logs.map(() => []);
  }

  get isUp(): boolean {
    return this.router !== undefined;
  }

  start(): void {
    this.#life += 1;
    this.#rankMin = 0;
    const clock = this.#clock();
    const links = this.#world.logs.map((_, shard) => {
      return new ClusterLink({
        shard,
        clock,
        status: () => this.shards[shard]?.status ?? { leader: undefined, epoch: 0 },
        dial: (leader, number, caller) => this.#dial(leader, number, caller),
      });
    });
    this.shards = this.#world.logs.map(() => undefined);
    for (const shard of this.#world.logs.keys()) void this.#open(shard, links);
    this.router = new Router({
      links,
      clock,
      quotas: noQuotas,
      feed: new Feed(),
      defer: (run) => queueMicrotask(run),
      onState: (state) => {
        if (state === "failed") this.#world.onFailed(this);
      },
      onMissed: () => {},
      onEndpoint: () => {},
    });
  }

  /** Reads what the log has and leads nothing. */
  catchUp(): void {
    this.#life += 1;
    this.#rankMin = Number.POSITIVE_INFINITY;
    this.shards = this.#world.logs.map(() => undefined);
    for (const shard of this.#world.logs.keys()) void this.#open(shard, []);
  }

  /** Ends from one moment to the next; the kv may go back to an earlier flush, or be gone. */
  kill(isWiped = false): void {
    this.#life += 1;
    this.router = undefined;
    this.shards = [];
    this.isPaused = false;
    this.#held.length = 0;
    for (const [shard, contents] of this.contents.entries()) {
      const earlier = this.#earlier[shard] ?? [];
      const found = this.#world.random.pick([contents, contents, ...earlier]);
      this.contents[shard] = isWiped ? new Map() : new Map(found);
      this.#earlier[shard] = [];
    }
  }

  pause(): void {
    this.isPaused = true;
  }

  goOn(): void {
    this.isPaused = false;
    for (const run of this.#held.splice(0)) run();
  }

  async stop(): Promise<void> {
    await Promise.all(this.shards.map((shard) => shard?.[Symbol.asyncDispose]()));
    await this.router?.[Symbol.asyncDispose]();
    // A kv that is opened does not read what was never made durable.
    for (const [shard, [oldest]] of this.#earlier.entries()) {
      if (oldest !== undefined) this.contents[shard] = new Map(oldest);
      this.#earlier[shard] = [];
    }
  }

  /** Runs in this life of the node, and when it is not paused. */
  inLife<Args extends unknown[]>(
    run: (...args: Args) => void,
    life: number = this.#life,
  ): (...args: Args) => void {
    const guarded = (...args: Args): void => {
      if (life !== this.#life) return;
      if (this.isPaused) this.#held.push(() => guarded(...args));
      else run(...args);
    };
    return guarded;
  }

  #clock(): Clock {
    const { clock } = this.#world;
    const life = this.#life;
    return {
      nowMs: () => clock.nowMs() + this.clockOffMs,
      monotonicMs: () => clock.monotonicMs(),
      after: (ms, run) => clock.after(ms, this.inLife(run, life)),
    };
  }

  /** Tries until the shard is open, or the node has ended. */
  async #open(shard: number, links: readonly ClusterLink[]): Promise<void> {
    const life = this.#life;
    const clock = this.#clock();
    while (life === this.#life) {
      try {
        const opened = await this.#openShard(shard, links);
        if (life !== this.#life) return;
        this.shards[shard] = opened;
        links[shard]?.look();
        return;
      } catch (error) {
        if (!(error instanceof FaultError)) throw error;
        await new Promise<void>((resolve) => void clock.after(500, resolve));
      }
    }
  }

  /** The whole shard of another node, piece by piece. */
  async #copy(shard: number, take: (piece: Buffer) => Promise<void>): Promise<void> {
    const { nodes, random } = this.#world;
    const clock = this.#clock();
    const donor = random.pick(nodes.filter((node) => node !== this && !node.isPaused));
    const snapshot = donor.shards[shard]?.snapshot();
    if (snapshot === undefined) throw new FaultError("behind", "not there");
    for (;;) {
      const next = await snapshot.next();
      await new Promise<void>((resolve) => void clock.after(random.int(20), resolve));
      if (next.done === true) return;
      await take(next.value);
    }
  }

  async #openShard(shard: number, links: readonly ClusterLink[]): Promise<ReplicatedShard> {
    const { random, logs } = this.#world;
    const contents = this.contents[shard] as Map<string, Buffer>;
    const life = this.#life;
    const clock = this.#clock();
    const beforeWrite = async (): Promise<void> => {
      // A process that has ended writes nothing.
      if (life !== this.#life) await new Promise(() => {});
      if (this.isDiskFull) throw new FaultError("disk_full", "the disk of the node is full");
      const { writeMs } = this;
      if (writeMs > 0) await new Promise<void>((resolve) => void clock.after(writeMs, resolve));
      this.#earlier[shard]?.push(new Map(contents));
    };
    const files = this.#files(shard);
    const kv = Object.assign(new MemoryKv({ contents, beforeWrite }), { files });
    const look = this.inLife(() => {
      links[shard]?.look();
      const opened = this.shards[shard];
      if (opened?.status.role !== "behind") return;
      this.copies += 1;
      this.shards[shard] = undefined;
      void opened[Symbol.asyncDispose]().then(() => this.#open(shard, links));
    });
    const shared = (logs[shard] as MemoryLogServer).connect(this.#way());
    await install({ kv, shared, copy: (take) => this.#copy(shard, take) });
    return new ReplicatedShard({
      number: shard,
      count: logs.length,
      shared,
      timing: { ...replicaTiming, checkpointMs: 1000, slotsKept: 5 },
      kv,
      self: this.name,
      nodes: this.#world.nodesFor(shard),
      rank: Math.max(this.#rankMin, this.#world.nodesFor(shard).indexOf(this.name.id)),
      clock,
      drawWriter: () => 1 + random.int(2 ** 47),
      flushBytes: 2000,
      isLimited: false,
      defer: (run) => queueMicrotask(run),
      openShard: ({ log, onState }) => this.#openBroker(shard, { log, kv, onState }),
      onBug: (error) => {
        throw error;
      },
      onChange: () => queueMicrotask(look),
      isFull: () => Promise.resolve(this.isDiskFull),
    });
  }

  /** A kv whose batches are durable some time after they were written. */
  #files(shard: number): KvFiles {
    const { random } = this.#world;
    let written = 0;
    let durable = 0;
    const makeDurable = async (): Promise<number> => {
      durable = written;
      // What was written before can be lost no more.
      this.#earlier[shard] = [];
      return durable;
    };
    return {
      noteWritten: async (index) => {
        written = index;
        return random.next() < 0.3 ? await makeDurable() : durable;
      },
      makeDurable,
      reclaim: () => Promise.resolve(),
      scrub: () => Promise.resolve(),
    };
  }

  async #openBroker(
    shard: number,
    parts: { readonly log: LeaderLog; readonly kv: MemoryKv; readonly onState: Opening["onState"] },
  ): Promise<OpenedShard> {
    const { random, logs, onChange } = this.#world;
    const clock = this.#clock();
    const led: Leadership = { sinceMs: clock.monotonicMs(), leases: new Set() };
    const count = logs.length;
    const store = await Store.open({
      shards: count,
      shard: count === 1 ? undefined : shard,
      log: parts.log,
      kv: parts.kv,
      isKvLent: true,
      storeId: logId + shard,
      observer: {
        grouped: () => {},
        flushed: () => {},
        stateChanged: (_state, fault) => parts.onState(fault),
      },
      freeBytes: () => Promise.resolve(Number.POSITIVE_INFINITY),
      clock,
      defer: (run) => queueMicrotask(run),
      minFreeBytes: 0,
      flushBytes: 4000,
      syncIntervalMs: undefined,
    });
    const ids = new TaskIds((into) => random.bytes(into));
    const broker = await ShardBroker.open({
      store,
      clock,
      ids: idsOfShard(ids, { shard, count }),
      draw: () => 0.5,
      policy: { backoff: "fixed", baseSeconds: 5, maxSeconds: 900 },
      retention: { doneMs: 86_400_000, deadMs: 86_400_000 },
      delayedInMemoryMax: 1000,
      quotas: noQuotas,
      disableEndpointAfterMs: 0,
      prepareRemoval: () => () => Promise.resolve(),
      observe: (change) => onChange(change, led),
    });
    const stopTimers = this.#startTimers(shard, broker);
    return {
      broker,
      scrape: () => "",
      [Symbol.asyncDispose]: async () => {
        stopTimers();
        broker.stopWaiting();
        // What is under way ends first; meanwhile the engine hears what became of its last group.
        await new Promise<void>((resolve) => void clock.after(1, resolve));
        await store[Symbol.asyncDispose]();
      },
    };
  }

  /** Ends leases and promotes tasks, as the maintenance of a server does, until it is stopped. */
  #startTimers(shard: number, broker: ShardBroker): () => void {
    const clock = this.#clock();
    let cancel = (): void => {};
    const run = async (): Promise<void> => {
      let isStopped = false;
      cancel = () => {
        isStopped = true;
      };
      this.#world.onTimers(this, shard);
      try {
        if (broker.state === "open") {
          await runDue(broker, clock);
          await broker.schedules.fireDue(100);
        }
      } catch (error) {
        if (!(error instanceof FaultError)) throw error;
      }
      if (!isStopped) cancel = clock.after(timersMs, () => void run());
    };
    void run();
    return () => cancel();
  }

  /** How a question to the log servers travels. */
  #way(): Way {
    const { random, clock } = this.#world;
    const takesMs = (): number => 1 + random.int(5);
    const life = this.#life;
    return <T>(there: () => T) =>
      new Promise<T>((resolve, reject) => {
        const heard = this.inLife(resolve, life);
        const failed = this.inLife(reject, life);
        const isBad = (): boolean => random.next() < this.#world.trouble;
        clock.after(answerTimeoutMs, () => failed(new Error("timeout")));
        if (this.isWithoutLog || isBad()) return;
        const lateMs = isBad() ? random.int(lateMsMax) : 0;
        if (isBad()) clock.after(random.int(lateMsMax), () => ignored(there));
        clock.after(takesMs() + lateMs, () => {
          let answer: T;
          try {
            answer = there();
          } catch (error) {
            clock.after(takesMs(), () => failed(error as Error));
            return;
          }
          if (this.isWithoutLog || isBad()) return;
          clock.after(takesMs(), () => heard(answer));
        });
      });
  }

  #dial(leader: LeaderName, shard: number, caller: Caller): Hosting | undefined {
    const world = this.#world;
    const other = world.nodes[Number(leader.address)] as SimNode;
    if (!other.isUp || !world.areConnected(this, other)) return undefined;
    const { random, clock } = world;
    const there = inOrder(() => random.int(4), clock);
    const back = inOrder(() => random.int(4), clock);
    let isOpen = true;
    const travels = (to: SimNode, run: () => void): (() => void) => {
      const arrive = to.inLife(run);
      return () => {
        if (isOpen && world.areConnected(this, other)) arrive();
      };
    };
    const end = this.inLife(() => caller.end());
    const hosting = other.shards[shard]?.call({
      hear: (message) => back(travels(this, () => caller.hear(message))),
      end: () => back(travels(this, end)),
    });
    if (hosting === undefined) return undefined;
    // A connection whose other end is gone breaks.
    const life = other.#life;
    const watch = (): void => {
      if (!isOpen) return;
      if (life !== other.#life || !world.areConnected(this, other)) {
        isOpen = false;
        hosting.close();
        end();
      } else clock.after(500, watch);
    };
    if (other !== this) clock.after(500, watch);
    return {
      take: (message) => there(travels(other, () => hosting.take(message))),
      close: () => {
        isOpen = false;
        hosting.close();
      },
    };
  }
}

function ignored(run: () => unknown): void {
  try {
    run();
  } catch {
    // A repeat that nobody waits for; whoever asked first was told.
  }
}

/** Later messages do not overtake earlier ones. */
function inOrder(takesMs: () => number, clock: SimClock): (run: () => void) => void {
  let lastMs = 0;
  return (run) => {
    lastMs = Math.max(lastMs, clock.monotonicMs() + takesMs());
    clock.after(lastMs - clock.monotonicMs(), run);
  };
}
