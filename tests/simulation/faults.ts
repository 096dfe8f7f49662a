/** What goes wrong, and when: drawn from the plan's chances, one step after the other. */
import type { SimRandom } from "@codeq/simulated";
import { type FaultKind, faultKinds } from "./plan.ts";
import { keptOf } from "./sim-kv.ts";
import type { CrashMode } from "./weather.ts";
import type { World } from "./world.ts";

/** How far the wall clock may be behind in all; further, delayed tasks would take for ever. */
const stepsBackMsMax = 60_000;

/** How long nothing runs, about. */
const stallsMs = [300, 1500, 8000, 60_000];

const written = ["write", "write", "write", "open", "read", "rename", "remove"] as const;
const synced = ["sync", "sync", "syncDirectory"] as const;

export class Faults {
  readonly #world: World;
  readonly #random: SimRandom;
  readonly #stalls: SimRandom;
  #bootAtMs = 0;
  #steppedBackMs = 0;

  constructor(world: World, random: SimRandom) {
    this.#world = world;
    this.#random = random;
    this.#stalls = random.fork("stalls");
    world.board.onDeath = this.#planBoot.bind(this);
  }

  /** Called when a process is gone; somebody else may want to know, too. */
  #planBoot(): void {
    const random = this.#random;
    const downMs = random.next() < 0.1 ? random.next() * 30_000 : random.next() * 1000;
    this.#bootAtMs = this.#world.nowMs + (random.next() < 0.5 ? 0 : downMs);
  }

  step(): void {
    const world = this.#world;
    if (world.life === undefined && world.nowMs >= this.#bootAtMs) world.boot();
    const failedMs = world.life?.failedMs;
    // The real process ends when the storage failed; here it is left alone for a moment.
    if (failedMs !== undefined && world.nowMs > failedMs + this.#random.next() * 200) {
      world.crash(this.#mode());
    }
    if (this.#random.next() < world.plan.faultChance) this.#strike();
    if (this.#stalls.next() < world.plan.stallChance) {
      world.stall(Math.floor((0.5 + this.#stalls.next()) * this.#stalls.pick(stallsMs)));
    }
  }

  /** The server is there and nothing more goes wrong. */
  cease(): void {
    const world = this.#world;
    world.weather.clearUp();
    this.#makeRoom();
    world.target.badness = 0;
    world.target.refusals = 0;
    world.subscribers.badness = 0;
    // Faults that were announced and have not happened yet stay with the disk of a dead process.
    world.crash("process");
    world.boot();
  }

  /** Starts a server that is not there, as whoever operates it would. */
  revive(): void {
    const world = this.#world;
    if (world.life === undefined) world.boot();
    if (world.life?.failedMs !== undefined) world.crash("process");
  }

  #strike(): void {
    const weights = this.#world.plan.faultWeights;
    const total = faultKinds.reduce((sum, kind) => sum + weights[kind], 0);
    let draw = this.#random.next() * total;
    const kind = faultKinds.find((each) => {
      draw -= weights[each];
      return draw < 0;
    });
    if (kind === undefined) return;
    this.#world.trace.add(`fault ${kind}`);
    this.#world.disturb();
    this.#cause(kind);
  }

  #cause(kind: FaultKind): void {
    const world = this.#world;
    const random = this.#random;
    const causes: Record<FaultKind, () => void> = {
      crash: () => this.#crash(),
      restart: () => world.stop(),
      "wall-step": () => this.#stepWall(),
      "disk-full": () => this.#fillDisk(),
      "kv-full": () => this.#fillKv(),
      "failed-write": () => world.disk.failNext(random.pick(written), "EIO"),
      "failed-sync": () => world.disk.failNext(random.pick(synced), "EIO"),
      "failed-kv": () =>
        world.weather.kvFaults.push({ code: "storage_failed", kept: keptOf(random.next()) }),
      "slow-disk": () => world.weather.slowDown(random.next() * 3000, random.pick([5, 50, 300])),
      "webhook-target": () => {
        world.target.badness = random.pick([0, 0.5, 1]);
        world.target.refusals = random.pick([0, 0, 0.1]);
        world.subscribers.badness = world.target.badness;
      },
    };
    causes[kind]();
  }

  #mode(): CrashMode {
    return this.#random.pick(["process", "power"]);
  }

  /** At once, a little later, or in the middle of something. */
  #crash(): void {
    const { weather, clock } = this.#world;
    const random = this.#random;
    const mode = this.#mode();
    const crash = (): void => this.#world.crash(mode);
    const ways: (() => void)[] = [
      crash,
      () => void clock.after(random.next() * 20, crash),
      () => weather.lightFuse({ at: "kv-before", left: 1, mode }),
      () => weather.lightFuse({ at: "kv-after", left: 1, mode }),
      () => weather.lightFuse({ at: "disk", left: 1 + random.int(40), mode }),
    ];
    random.pick(ways)();
  }

  #stepWall(): void {
    const random = this.#random;
    const ms = Math.floor(random.next() * random.pick([50, 2000, 60_000]));
    const isBack = random.next() < 0.5 && this.#steppedBackMs + ms <= stepsBackMsMax;
    if (isBack) this.#steppedBackMs += ms;
    this.#world.stepWall(isBack ? -ms : ms);
  }

  /** No file can grow, for a while; or a single operation says so. */
  #fillDisk(): void {
    const world = this.#world;
    const random = this.#random;
    world.fullFaults += 1;
    if (random.next() < 0.5) {
      world.disk.failNext(random.pick(["write", "sync", "open", "rename"]), "ENOSPC");
      return;
    }
    world.disk.capacityBytes = 0;
    world.roomSinceMs = undefined;
    world.clock.after(random.next() * 4000, () => this.#makeRoom());
  }

  #fillKv(): void {
    const world = this.#world;
    const random = this.#random;
    world.fullFaults += 1;
    if (random.next() < 0.5) {
      world.weather.kvFaults.push({ code: "disk_full", kept: keptOf(random.next()) });
      return;
    }
    world.weather.isKvFull = true;
    world.roomSinceMs = undefined;
    world.clock.after(random.next() * 4000, () => this.#makeRoom());
  }

  #makeRoom(): void {
    const world = this.#world;
    world.disk.capacityBytes = Number.MAX_SAFE_INTEGER;
    world.weather.isKvFull = false;
    world.roomSinceMs ??= world.nowMs;
  }
}
