/** What the clients of a run share: what they know of tasks, what they hold, and how they call. */
import type { TaskId } from "@codeq/queue";
import type { SimRandom } from "@codeq/simulated";
import type { Answer } from "../../../packages/server/src/edge/operation.ts";
import type { Calls } from "../calls.ts";
import type { InputOf } from "../exchange.ts";
import { isTerminal } from "../ledger.ts";
import type { Caller } from "../plan.ts";
import type { World } from "../world.ts";

/** A task that a worker was given, as far as the worker knows. */
export interface Hold {
  readonly worker: Caller;
  readonly id: TaskId;
  readonly leaseToken: number;
}

export interface LostCreation {
  readonly caller: Caller;
  readonly input: InputOf<"createTask">;
}

const knownMax = 300;
const holdsMax = 60;

export class Fleet {
  readonly world: World;
  readonly calls: Calls;
  readonly random: SimRandom;
  /** For the time limits of tasks, so that nothing else is drawn differently for them. */
  readonly times: SimRandom;
  readonly modes: SimRandom;
  /** Tasks that somebody was told of. */
  readonly known: { readonly id: TaskId; readonly tenant: string }[] = [];
  readonly holds: Hold[] = [];
  /** Holds of the past, for those who do not know when to stop. */
  readonly stale: Hold[] = [];
  readonly lost: LostCreation[] = [];
  readonly subscriptions: { readonly worker: Caller; readonly id: string }[] = [];
  /** Keys in use, so that some are used twice. */
  readonly keys: { readonly tenant: string; readonly input: InputOf<"createTask"> }[] = [];
  #marks = 0;

  constructor(parts: { world: World; calls: Calls; random: SimRandom }) {
    this.world = parts.world;
    this.calls = parts.calls;
    this.random = parts.random;
    this.times = parts.random.fork("times");
    this.modes = parts.random.fork("modes");
  }

  /** A text that nobody has used before. */
  mark(): string {
    this.#marks += 1;
    return `m${this.#marks}`;
  }

  chance(probability: number): boolean {
    return this.random.next() < probability;
  }

  know(id: TaskId, tenant: string): void {
    remember(this.known, { id, tenant }, knownMax);
  }

  hold(hold: Hold): void {
    const dropped = remember(this.holds, hold, holdsMax);
    if (dropped !== undefined) remember(this.stale, dropped, holdsMax);
  }

  /** The worker forgets the task; somebody may remember it wrongly. */
  letGo(hold: Hold): void {
    const position = this.holds.indexOf(hold);
    if (position < 0) return;
    this.holds.splice(position, 1);
    remember(this.stale, hold, holdsMax);
  }

  get openTasks(): number {
    let open = 0;
    for (const task of this.world.ledger.tasks.values()) if (!isTerminal(task)) open += 1;
    return open;
  }
}

/** Returns what had to go to make room. */
function remember<T>(list: T[], item: T, max: number): T | undefined {
  list.push(item);
  return list.length > max ? list.shift() : undefined;
}

/** Whether the storage could not say what became of the request, or is not there. */
export function isUnanswered(answer: Answer<unknown> | undefined): boolean {
  return answer === undefined || (!answer.ok && /failed|shutting|full/.test(answer.code));
}
