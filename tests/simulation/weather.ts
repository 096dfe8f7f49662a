/**
 * How the machine under the server behaves at the moment: how long the disk takes, whether there is
 * room, and whether the process is about to end in the middle of something.
 */
import type { SimClock, SimDiskOperation, SimRandom } from "@codeq/simulated";
import { type KvFault, type KvFaults, keptOf } from "./sim-kv.ts";

export type CrashMode = "process" | "power";

/** Ends the process when so many more of these have begun. */
interface Fuse {
  readonly at: "disk" | "kv-before" | "kv-after";
  left: number;
  readonly mode: CrashMode;
}

export interface WeatherOptions {
  readonly clock: SimClock;
  readonly random: SimRandom;
  readonly latencyChance: number;
  readonly crash: (mode: CrashMode) => void;
}

const latencyMsMax = 0.8;
/** How often a flush makes tables of what the kv holds. */
const tablesChance = 0.25;

export class Weather {
  isKvFull = false;
  /** Faults of the kv that are still to come, in order. */
  readonly kvFaults: KvFault[] = [];
  /** The longest an operation has taken since the last start. */
  slowestMs = 0;
  #slowUntilMs = 0;
  #slowMsMax = 0;
  #fuse: Fuse | undefined;
  readonly #options: WeatherOptions;

  constructor(options: WeatherOptions) {
    this.#options = options;
  }

  /** When the disk was last slow, or will be no more. */
  get slowUntilMs(): number {
    return this.#slowUntilMs;
  }

  get isSlow(): boolean {
    return this.#options.clock.monotonicMs() < this.#slowUntilMs;
  }

  slowDown(forMs: number, msMax: number): void {
    this.#slowUntilMs = this.#options.clock.monotonicMs() + forMs;
    this.#slowMsMax = msMax;
  }

  lightFuse(fuse: Fuse): void {
    this.#fuse = fuse;
  }

  /** Everything is well from now on. */
  clearUp(): void {
    this.isKvFull = false;
    this.kvFaults.length = 0;
    this.#slowUntilMs = 0;
    this.#fuse = undefined;
  }

  /** What every operation of the disk waits for. */
  diskLatency(operation: SimDiskOperation): Promise<void> {
    this.#burn("disk");
    const { random, latencyChance } = this.#options;
    if (this.isSlow && (operation === "sync" || operation === "write")) {
      return this.#wait(random.next() * this.#slowMsMax);
    }
    if (random.next() >= latencyChance) return Promise.resolve();
    return this.#wait(random.next() * latencyMsMax);
  }

  kvFaultsOf(isAlive: () => boolean): KvFaults {
    const { random, latencyChance } = this.#options;
    return {
      pause: async () => {
        if (random.next() < latencyChance) await this.#wait(random.next() * latencyMsMax);
        if (!isAlive()) await new Promise(() => {});
      },
      next: () => {
        if (this.isKvFull) return { code: "disk_full", kept: keptOf(random.next() * 2.5) };
        return this.kvFaults.shift();
      },
      isFull: () => this.isKvFull,
      makesTables: () => isAlive() && random.next() < tablesChance,
      mayCrash: (when) => {
        if (isAlive()) this.#burn(when === "before" ? "kv-before" : "kv-after");
      },
    };
  }

  #burn(at: Fuse["at"]): void {
    const fuse = this.#fuse;
    if (fuse?.at !== at) return;
    fuse.left -= 1;
    if (fuse.left > 0) return;
    this.#fuse = undefined;
    this.#options.crash(fuse.mode);
  }

  #wait(ms: number): Promise<void> {
    this.slowestMs = Math.max(this.slowestMs, ms);
    return new Promise((resolve) => {
      this.#options.clock.after(ms, resolve);
    });
  }
}
