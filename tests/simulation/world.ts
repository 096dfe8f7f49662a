/**
 * The machine and the processes that run on it, one after the other. Each life is the real
 * composition of the server over the simulated clock, disk, kv, random source and webhook target.
 * Disk and kv contents go from one life to the next as a crash leaves them.
 */
import { type EngineOptions, type Kv, type KvWrite, LocalLog, type Log } from "@codeq/engine";
import { type SimClock, SimDisk, type SimRandom } from "@codeq/simulated";
import { type Core, composeCore } from "../../packages/server/src/start/compose.ts";
import type { Logger } from "../../packages/server/src/telemetry/logger.ts";
import { createMetrics } from "../../packages/server/src/telemetry/metrics.ts";
import type { CheckerBoard } from "./checkers/checker-board.ts";
import { type EngineTap, tapEngine } from "./engine-tap.ts";
import { Ledger } from "./ledger.ts";
import { LifeClock } from "./life-clock.ts";
import { type TappedLog, tapLog } from "./log-tap.ts";
import type { Plan } from "./plan.ts";
import { SimArtifacts } from "./sim-artifacts.ts";
import { openSimKv, SimKvFiles } from "./sim-kv.ts";
import { Subscribers } from "./subscribers.ts";
import type { Trace } from "./trace.ts";
import { type CrashMode, Weather } from "./weather.ts";
import { WebhookTarget } from "./webhook-target.ts";

/** What the windows of all queues hold together at most. */
const allWindowsEntriesMax = 1_048_576;

/** Bugs that a test plants to see whether a checker notices. */
export interface Plants {
  /** Changes a server that has just started. */
  readonly core?: (core: Core, world: World) => void;
  /** Stands in for the log, below the ledger. */
  readonly log?: (log: Log, world: World) => Log;
  readonly kv?: (kv: Kv, world: World) => Kv;
  /** Which batches of its own log a kv trusts after the end of a process; none but in a test. */
  readonly ownLog?: (batches: readonly (readonly KvWrite[])[]) => readonly (readonly KvWrite[])[];
  /** Changes what the engine is given. */
  readonly engine?: (options: EngineOptions) => EngineOptions;
  /** The log syncs less than the mode promises. */
  readonly logDurability?: "os";
}

export interface Life {
  readonly number: number;
  readonly clock: LifeClock;
  readonly bootMs: number;
  state: "starting" | "up" | "stopping" | "dead";
  core: Core | undefined;
  log: TappedLog | undefined;
  /** What lies below the store. */
  tap: EngineTap | undefined;
  /** When the storage failed for good, if it did. */
  failedMs: number | undefined;
  /** When the storage last began to refuse writes or to take them again. */
  changedMs: number;
  /** When memory was last rebuilt because the disk was full. */
  rolledBackMs: number | undefined;
}

export interface WorldParts {
  readonly seed: number;
  readonly plan: Plan;
  readonly random: SimRandom;
  readonly clock: SimClock;
  readonly trace: Trace;
  readonly plants: Plants;
  readonly board: CheckerBoard;
}

export class World {
  readonly plan: Plan;
  readonly clock: SimClock;
  readonly trace: Trace;
  readonly ledger: Ledger = new Ledger();
  readonly weather: Weather;
  readonly target: WebhookTarget;
  readonly subscribers: Subscribers;
  readonly artifacts: SimArtifacts;
  readonly board: CheckerBoard;
  readonly kvFiles: SimKvFiles = new SimKvFiles();
  disk: SimDisk;
  life: Life | undefined;
  /** Since when nothing has disturbed the server. */
  healthySinceMs = 0;
  /** Since when there is room on the disk; undefined while there is none. */
  roomSinceMs: number | undefined = 0;
  /** When nothing ran for the last time. */
  stalledMs = 0;
  /** How often a disk was made full or said so. */
  fullFaults = 0;
  readonly #plants: Plants;
  readonly #random: SimRandom;
  #lives = 0;
  #wallMsMax = 0;

  constructor(parts: WorldParts) {
    this.plan = parts.plan;
    this.clock = parts.clock;
    this.trace = parts.trace;
    this.board = parts.board;
    this.#plants = parts.plants;
    this.#random = parts.random.fork("server");
    this.weather = new Weather({
      clock: this.clock,
      random: parts.random.fork("weather"),
      latencyChance: parts.plan.latencyChance,
      crash: (mode) => this.crash(mode),
    });
    const diskRandom = parts.random.fork("disk");
    this.disk = new SimDisk({
      random: () => diskRandom.next(),
      latency: (operation) => this.weather.diskLatency(operation),
    });
    this.target = new WebhookTarget(this.clock, parts.random.fork("webhooks"));
    this.subscribers = new Subscribers(this.clock, parts.random.fork("subscribers"));
    this.artifacts = new SimArtifacts(this.clock, parts.random.fork("artifacts"));
  }

  get nowMs(): number {
    return this.clock.monotonicMs();
  }

  get wallMs(): number {
    return Math.floor(this.clock.nowMs());
  }

  /** The latest time that the wall clock has ever shown. */
  get wallMsMax(): number {
    this.#wallMsMax = Math.max(this.#wallMsMax, this.wallMs);
    return this.#wallMsMax;
  }

  /** The wall clock is set, forward or back. */
  stepWall(ms: number): void {
    this.#wallMsMax = this.wallMsMax;
    this.clock.stepWall(ms);
  }

  /** The server that answers requests, if there is one. */
  get serving(): (Life & { core: Core }) | undefined {
    const { life } = this;
    return life?.core !== undefined && life.state === "up"
      ? (life as Life & { core: Core })
      : undefined;
  }

  /** Whether the server has taken writes all the time since then. */
  hasBeenOpenSince(ms: number): boolean {
    const life = this.serving;
    return life?.core.store.state === "open" && life.changedMs < ms;
  }

  disturb(): void {
    this.healthySinceMs = this.nowMs;
  }

  /** Begins a start; it goes on as the clock does. */
  boot(): void {
    this.#lives += 1;
    const life: Life = {
      number: this.#lives,
      clock: new LifeClock(this.clock, this.#random.fork(`clock-${this.#lives}`)),
      bootMs: this.nowMs,
      state: "starting",
      core: undefined,
      log: undefined,
      tap: undefined,
      failedMs: undefined,
      changedMs: this.nowMs,
      rolledBackMs: undefined,
    };
    this.life = life;
    this.weather.slowestMs = 0;
    this.trace.add(`boot ${life.number}`);
    this.#start(life).then(
      () => this.#started(life),
      (error: unknown) => this.#notStarted(life, error),
    );
  }

  /** The process is gone from one moment to the next, or the power is. */
  crash(mode: CrashMode): void {
    const { life } = this;
    this.trace.add(`crash ${mode}`);
    this.disturb();
    if (life !== undefined) {
      life.state = "dead";
      life.clock.kill();
    }
    this.life = undefined;
    this.disk = this.disk.crash(mode);
    this.board.died(mode, life?.failedMs ?? this.nowMs);
  }

  /** Nothing runs for a while: the process was stopped, or the machine was paused. */
  stall(ms: number): void {
    this.trace.add(`stall ${ms}`);
    this.clock.stall(ms);
    this.stalledMs = this.nowMs;
    this.disturb();
    this.board.stalled(ms);
  }

  /** Ends the process in good order; a fault on the way leaves the rest to the next start. */
  stop(): void {
    const life = this.serving;
    if (life === undefined) return;
    this.trace.add("stop");
    this.disturb();
    life.state = "stopping";
    const end = (how: string): void => {
      if (life.state !== "stopping") return;
      this.trace.add(`stopped ${how}`);
      this.crash("process");
    };
    life.core[Symbol.asyncDispose]().then(
      () => end("in order"),
      () => end("with a fault"),
    );
  }

  async #start(life: Life): Promise<void> {
    const { plan } = this;
    const isAlive = (): boolean => life.state !== "dead";
    const log = await LocalLog.open(this.disk, {
      durability: this.#plants.logDurability ?? plan.config.durability,
      segmentBytes: plan.segmentBytes,
      writer: 1,
      epoch: 1,
      shard: 0,
      monotonicMs: () => life.clock.monotonicMs(),
    });
    if (!isAlive()) return;
    this.board.recovered(log.lastIndex);
    life.log = tapLog(this.#plants.log?.(log, this) ?? log, {
      ledger: this.ledger,
      now: () => ({ atMs: this.nowMs, wallMs: this.wallMs }),
      isAlive,
      onEvent: (event) => this.board.event(event),
      trace: (line) => this.trace.add(line),
      onLie: (finding) => this.board.report("recovery", finding),
    });
    life.tap = tapEngine(life.log, this.#plants.engine);
    this.kvFiles.reopen(this.#plants.ownLog ?? (() => []));
    const kv = await openSimKv(this.kvFiles, this.weather.kvFaultsOf(isAlive));
    const { disk } = this;
    life.core = await composeCore({
      config: plan.config,
      clock: life.clock,
      logger: this.#logger(life),
      metrics: createMetrics({ commandsMax: plan.config.metricsCommandsMax }),
      storage: {
        log: life.log,
        kv: this.#plants.kv?.(kv, this) ?? kv,
        freeBytes: () => disk.freeBytes(),
      },
      randomBytes: (into) => this.#random.bytes(into),
      draw: () => this.#random.next(),
      post: async (task, result) => {
        const status = isAlive() ? await this.target.post(task, result) : undefined;
        if (!isAlive()) await new Promise(() => {});
        return status;
      },
      notify: async (work) => {
        const status = isAlive() ? await this.subscribers.notify(work) : undefined;
        if (!isAlive()) await new Promise(() => {});
        return status;
      },
      artifacts: this.artifacts,
      fetchKeySet: () => Promise.reject(new Error("the simulation has no identity server")),
      defer: (run) => this.#defer(life, run),
      onFailed: () => {
        life.failedMs = this.nowMs;
        this.disturb();
      },
      memory: plan,
    });
  }

  #started(life: Life): void {
    if (life.state === "dead" || life.core === undefined) return;
    life.state = "up";
    this.#shrinkWindows(life.core);
    this.#plants.core?.(life.core, this);
    this.trace.add(`up ${life.number}`);
    this.disturb();
    this.board.started(life);
  }

  #notStarted(life: Life, error: unknown): void {
    if (life.state === "dead") return;
    this.trace.add(`did not start: ${String(error)}`);
    this.board.notStarted(error);
    this.crash("process");
  }

  /** Sometimes later in the same turn, sometimes in a turn of its own. */
  #defer(life: Life, run: () => void): void {
    if (this.#random.next() < 0.5) setImmediate(run);
    else this.clock.after(0, () => (life.state === "dead" ? undefined : run()));
  }

  /** Pretends that other queues fill most of the memory for ready tasks. */
  #shrinkWindows(core: Core): void {
    const { queues } = core.shard;
    const taken = allWindowsEntriesMax - this.plan.windowEntries;
    queues.windowEntries += taken;
    const clear = queues.clear.bind(queues);
    queues.clear = () => {
      clear();
      queues.windowEntries = taken;
      const { life } = this;
      if (life !== undefined) life.rolledBackMs = this.nowMs;
      this.disturb();
    };
  }

  #logger(life: Life): Logger {
    const line = (level: string) => (message: string, fields?: object) => {
      const more = level === "error" ? ` ${JSON.stringify(fields ?? {}).split("\\n")[0]}` : "";
      if (life.state === "dead") return;
      this.trace.add(`${level}: ${message}${more}`);
      if (!message.startsWith("storage")) return;
      life.changedMs = this.nowMs;
      this.disturb();
    };
    const logger: Logger = {
      debug: () => {},
      info: line("info"),
      warn: line("warn"),
      error: line("error"),
      child: () => logger,
    };
    return logger;
  }
}
