/** Checks whether the disk has enough room, and waits until it has. */
import type { EngineOptions } from "./engine-options.ts";
import { FaultError } from "./fault.ts";
import type { Timers } from "./timers.ts";

type FreeSpace = (freeBytes: number) => void;

const againMs = 500;
const checkBytes = 8 * 1024 * 1024;

export class SpaceWatch {
  readonly #options: Pick<EngineOptions, "freeBytes" | "minFreeBytes">;
  readonly #timers: Timers;
  #bytes = 0;
  #isWaiting = false;

  constructor(options: Pick<EngineOptions, "freeBytes" | "minFreeBytes">, timers: Timers) {
    this.#options = options;
    this.#timers = timers;
  }

  /** True when so much was written that it is time to check the room again. */
  wrote(bytes: number): boolean {
    this.#bytes += bytes;
    if (this.#bytes < checkBytes) return false;
    this.#bytes = 0;
    return true;
  }

  async shortage(): Promise<FaultError | undefined> {
    return this.#shortageOf(await this.#options.freeBytes());
  }

  #shortageOf(free: number): FaultError | undefined {
    if (free >= this.#options.minFreeBytes) return undefined;
    const text = `${free} bytes are left on the disk of the data directory`;
    return new FaultError("disk_full", text);
  }

  /**
   * Checks until there is room and `isReady` is true; then calls `end`, once. Each time there is too little room,
   * it calls `freeSpace` with the free bytes.
   */
  wait(isReady: () => Promise<boolean>, end: () => void, freeSpace: FreeSpace): void {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#look(isReady, end, freeSpace);
  }

  #look(isReady: () => Promise<boolean>, end: () => void, freeSpace: FreeSpace): void {
    this.#timers.after(againMs, async () => {
      const free = await this.#options.freeBytes();
      const hasSpace = this.#shortageOf(free) === undefined;
      if (!hasSpace) freeSpace(free);
      if (!(hasSpace && (await isReady()))) {
        this.#look(isReady, end, freeSpace);
        return;
      }
      this.#isWaiting = false;
      end();
    });
  }
}
