/** Tells every checker what happens, and keeps the first finding. */
import type { Result, Task } from "@codeq/queue";
import type { AnyExchange, AnyRequest } from "../exchange.ts";
import type { LedgerEvent } from "../ledger.ts";
import type { StoreView } from "../store-view.ts";
import type { CrashMode } from "../weather.ts";
import type { Life, World } from "../world.ts";
import type { Checker, MakeChecker, Recovery } from "./checker.ts";

export interface Finding {
  readonly checker: string;
  readonly text: string;
}

interface Death {
  readonly mode: CrashMode;
  readonly atMs: number;
  /** The longest that the disk took for anything in that life. */
  readonly slowestMs: number;
}

export class CheckerBoard {
  finding: Finding | undefined;
  onDeath: () => void = () => {};
  #checkers = new Map<string, Checker>();
  #only: readonly string[] | undefined;
  #world: World | undefined;
  /** Ends of processes since the log was last read. */
  #deaths: Death[] = [];
  readonly #stalls: { readonly endMs: number; readonly ms: number }[] = [];

  /** Only the named ones, when names are given. */
  watch(
    world: World,
    makers: Readonly<Record<string, MakeChecker>>,
    only?: readonly string[],
  ): void {
    this.#world = world;
    this.#only = only;
    for (const [name, make] of Object.entries(makers)) {
      if (only !== undefined && !only.includes(name)) continue;
      this.#checkers.set(name, make({ world, report: (text) => this.report(name, text) }));
    }
    world.target.onPost = (task, result) => this.#posted(task, result);
  }

  /** The others have seen everything that they promise something about. */
  leaveOnly(name: string): void {
    for (const each of [...this.#checkers.keys()]) if (each !== name) this.#checkers.delete(each);
  }

  report(checker: string, text: string): void {
    this.#world?.trace.add(`FOUND ${checker}: ${text}`);
    if (this.#only?.includes(checker) === false) return;
    this.finding ??= { checker, text };
  }

  event(event: LedgerEvent): void {
    for (const checker of this.#checkers.values()) checker.event?.(event);
  }

  invoked(request: AnyRequest): void {
    for (const checker of this.#checkers.values()) checker.invoked?.(request);
  }

  answered(exchange: AnyExchange): void {
    for (const checker of this.#checkers.values()) checker.answered?.(exchange);
  }

  /** `workedUntilMs` is when the process last did its work: before it ended, or its storage failed. */
  died(mode: CrashMode, workedUntilMs: number): void {
    const world = this.#world;
    if (world !== undefined) {
      this.#deaths.push({ mode, atMs: workedUntilMs, slowestMs: world.weather.slowestMs });
    }
    this.onDeath();
    for (const checker of this.#checkers.values()) checker.died?.(mode);
  }

  stalled(ms: number): void {
    const world = this.#world;
    if (world !== undefined) this.#stalls.push({ endMs: world.nowMs, ms });
    for (const checker of this.#checkers.values()) checker.stalled?.(ms);
  }

  recovered(lastIndex: number): void {
    const world = this.#world;
    if (world === undefined) return;
    const { ledger } = world;
    if (lastIndex > ledger.lastIndex) {
      this.report("recovery", `the log has ${lastIndex} records of ${ledger.lastIndex} written`);
      return;
    }
    const lost = ledger.rewindTo(lastIndex);
    // What a start has read it has also made durable, whoever was told of it before.
    for (const record of ledger.records) record.durableMs ??= world.nowMs;
    world.trace.add(`recovered ${lastIndex}, lost ${lost.length}`);
    const recovery: Recovery = { lastIndex, lost, mayHaveLost: this.#allowance() };
    for (const checker of this.#checkers.values()) checker.recovered?.(recovery);
    this.#deaths = [];
  }

  started(life: Life): void {
    for (const checker of this.#checkers.values()) checker.started?.(life);
  }

  notStarted(error: unknown): void {
    for (const checker of this.#checkers.values()) checker.notStarted?.(error);
  }

  stepped(): void {
    for (const checker of this.#checkers.values()) checker.stepped?.();
  }

  looked(view: StoreView): void {
    for (const checker of this.#checkers.values()) checker.looked?.(view);
  }

  ended(view: StoreView): void {
    for (const checker of this.#checkers.values()) checker.ended?.(view);
  }

  #posted(task: Task, result: Result): void {
    for (const checker of this.#checkers.values()) checker.posted?.(task, result);
  }

  /** What the durability mode allows to be lost by the deaths since the last start. */
  #allowance(): (acknowledgedMs: number) => boolean {
    const world = this.#world as World;
    const { durability, syncIntervalMs } = world.plan.config;
    const first = this.#deaths[0];
    const lostPower = this.#deaths.some(({ mode }) => mode === "power");
    if (first === undefined || !lostPower || durability === "fsync") return () => false;
    if (durability === "os") return () => true;
    // The sync that covers a record begins within the interval, and takes the time that it takes.
    const slackMs = 6 * first.slowestMs + 20;
    let sinceMs = first.atMs - syncIntervalMs - slackMs;
    // Nothing is synced while nothing runs.
    for (const { endMs, ms } of this.#stalls.toReversed()) {
      if (endMs >= sinceMs && endMs <= first.atMs) sinceMs -= ms;
    }
    return (acknowledgedMs) => acknowledgedMs > sinceMs;
  }
}
