/**
 * One run: a seed decides everything. Clients act and faults strike, step by step, while the clock
 * moves; then the faults cease, good workers finish what is left, and the end is looked at.
 */
import { SimClock, SimRandom } from "@codeq/simulated";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { Calls } from "./calls.ts";
import { CheckerBoard, type Finding } from "./checkers/checker-board.ts";
import { type CheckerName, checkers } from "./checkers/index.ts";
import { actOnce, finishAll, finishers } from "./clients/crowd.ts";
import { Fleet } from "./clients/fleet.ts";
import { resumeAll } from "./clients/look.ts";
import { Faults } from "./faults.ts";
import { isTerminal } from "./ledger.ts";
import { planFor } from "./plan.ts";
import { rotAndRead } from "./rot.ts";
import { viewStore } from "./store-view.ts";
import { Trace } from "./trace.ts";
import { type Plants, World } from "./world.ts";

export interface SimulationOptions {
  readonly seed: number;
  readonly steps?: number;
  /** Drawn from the seed unless told. */
  readonly durability?: Config["durability"] | undefined;
  readonly onLine?: ((line: string) => void) | undefined;
  readonly plants?: Plants;
  /** Only these watch; all unless told. */
  readonly checkers?: readonly CheckerName[];
}

export interface SimulationOutcome {
  readonly seed: number;
  readonly durability: Config["durability"];
  readonly steps: number;
  readonly calls: number;
  readonly records: number;
  readonly lives: number;
  /** Time that passed in the simulated world. */
  readonly simulatedMs: number;
  /** The hash of everything that happened. */
  readonly trace: string;
  readonly finding: Finding | undefined;
}

export const stepsDefault = 800;
const stepsBetweenLooks = 20;
const finishMsMax = 15 * 60_000;
/** How long a server may take to come back when nothing stands in its way. */
const startMsMax = 30_000;
/** Of all runs, those after which blocks of the kv rot. */
const rotShare = 0.3;
const finisherWaitMs = 2000;

export async function simulate(options: SimulationOptions): Promise<SimulationOutcome> {
  const run = new Run(options);
  const onRejection = (error: unknown): void => run.onStray(error);
  process.on("unhandledRejection", onRejection);
  try {
    return await run.toEnd();
  } finally {
    process.off("unhandledRejection", onRejection);
  }
}

class Run {
  readonly #options: SimulationOptions;
  readonly #random: SimRandom;
  readonly #clock = new SimClock();
  readonly #board = new CheckerBoard();
  readonly #world: World;
  readonly #faults: Faults;
  readonly #fleet: Fleet;
  readonly #calls: Calls;
  readonly #rot: SimRandom;
  #steps = 0;
  #isOver = false;

  constructor(options: SimulationOptions) {
    this.#options = options;
    const random = new SimRandom(options.seed);
    this.#random = random.fork("steps");
    this.#rot = random.fork("rot");
    const clock = this.#clock;
    const startMs = clock.monotonicMs();
    const trace = new Trace(() => clock.monotonicMs() - startMs, options.onLine);
    const plan = planFor(random.fork("plan"), options.durability);
    this.#world = new World({
      seed: options.seed,
      plan,
      random,
      clock,
      trace,
      board: this.#board,
      plants: options.plants ?? {},
    });
    this.#board.watch(this.#world, checkers, options.checkers);
    this.#faults = new Faults(this.#world, random.fork("faults"));
    this.#calls = new Calls(this.#world);
    this.#board.onDeath = ((before) => () => {
      before();
      this.#calls.loseAll();
    })(this.#board.onDeath);
    const fleetRandom = random.fork("clients");
    this.#fleet = new Fleet({ world: this.#world, calls: this.#calls, random: fleetRandom });
  }

  /** An error that nobody caught would end the real process. */
  onStray(error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#board.report("noStrayError", text);
  }

  async toEnd(): Promise<SimulationOutcome> {
    const world = this.#world;
    world.boot();
    await this.#trouble();
    if (this.#board.finding === undefined) await this.#finish();
    this.#isOver = true;
    if (this.#board.finding === undefined && this.#rot.next() < rotShare) await this.#decay();
    return {
      seed: this.#options.seed,
      durability: world.plan.config.durability,
      steps: this.#steps,
      calls: this.#calls.started,
      records: world.ledger.lastIndex,
      lives: world.life?.number ?? 0,
      simulatedMs: world.nowMs,
      trace: world.trace.digest(),
      finding: this.#board.finding,
    };
  }

  async #trouble(): Promise<void> {
    const steps = this.#options.steps ?? stepsDefault;
    while (this.#steps < steps && this.#board.finding === undefined) {
      this.#faults.step();
      const acts = this.#random.int(this.#world.plan.clientsPerStep + 1);
      for (let act = 0; act < acts; act += 1) actOnce(this.#fleet);
      await this.#step(this.#pauseMs());
    }
  }

  /** Good workers only, until everything has ended and every webhook has been told. */
  async #finish(): Promise<void> {
    const world = this.#world;
    this.#faults.cease();
    const endMs = world.nowMs + finishMsMax;
    void resumeAll(this.#fleet, () => this.#isOver);
    for (const worker of finishers) void finishAll(this.#fleet, worker, () => this.#isOver);
    let servedMs = world.nowMs;
    while (world.nowMs < endMs && this.#board.finding === undefined) {
      this.#faults.revive();
      await this.#step(200);
      if (world.serving !== undefined) servedMs = world.nowMs;
      if (this.#isDone() || world.nowMs - servedMs > startMsMax) break;
    }
    const view = viewStore(world);
    if (view !== undefined) this.#board.ended(view);
    else this.#board.report("everythingFinishes", "there is no server that could be looked at");
  }

  async #decay(): Promise<void> {
    const step = (ms: number): Promise<void> => this.#step(ms);
    // The good workers notice that they are no longer needed.
    await step(finisherWaitMs);
    const world = this.#world;
    const isServing = await rotAndRead({ world, fleet: this.#fleet, random: this.#rot, step });
    const view = viewStore(world);
    if (isServing && view !== undefined) this.#board.ended(view);
    else this.#board.report("rottenIsNotServed", "no server came back that could be asked");
  }

  #isDone(): boolean {
    const { ledger, target } = this.#world;
    if (this.#world.serving === undefined) return false;
    for (const task of ledger.tasks.values()) {
      if (!isTerminal(task)) return false;
      const isTold = target.delivered.has(task.id) || target.refused.has(task.id);
      if (task.webhook !== "" && !isTold) return false;
    }
    return true;
  }

  async #step(pauseMs: number): Promise<void> {
    const world = this.#world;
    this.#steps += 1;
    await this.#clock.advance(pauseMs);
    this.#board.stepped();
    if (this.#steps % stepsBetweenLooks !== 0) return;
    const view = viewStore(world);
    if (view !== undefined) this.#board.looked(view);
  }

  /** Mostly a moment, sometimes long enough for leases to end and retention to come. */
  #pauseMs(): number {
    const draw = this.#random.next();
    const share = this.#random.next();
    if (draw < 0.5) return share * 2;
    if (draw < 0.8) return share * 20;
    if (draw < 0.95) return share * 200;
    return draw < 0.99 ? share * 2000 : share * 20_000;
  }
}
