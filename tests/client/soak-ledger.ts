/**
 * What producers and workers of a soak have seen, and what must be true of it in the end. It takes the
 * same memory however long the soak lasts.
 */
import type { CodeqError } from "@codeq/client";

export interface Done {
  readonly n: number;
  readonly doubled: number;
}

/** Numbers of tasks; far more than any soak gets to. */
const numbersMax = 4_000_000;
const stored = 1;
const completed = 2;
const finished = 4;
const problemsMax = 20;
/** These say that somebody else has the task by now, which happens when leases run out. */
const overtaken: readonly string[] = ["not_owner", "not_in_progress"];

export interface SoakReport {
  readonly stored: number;
  readonly finished: number;
  readonly completed: number;
  readonly deliveries: number;
  readonly connections: number;
  readonly refusals: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

export class Ledger {
  readonly #flags = new Uint8Array(numbersMax);
  /** A number that stands for the id of each task. */
  readonly #ids = new Int32Array(numbersMax);
  readonly #refusals: Record<string, number> = {};
  readonly #problems: string[] = [];
  deliveries = 0;
  connections = 0;

  /** The server has acknowledged the task. */
  stored(n: number, id: string): void {
    this.#note(n, stored, id);
  }

  /** A handler got the task. */
  delivered(n: number, id: string): void {
    this.deliveries += 1;
    this.#note(n, 0, id);
  }

  /** A worker was told that the result is stored. */
  completed({ n }: Done, id: string): void {
    this.#note(n, completed, id);
  }

  /** The producer got the result. */
  finished(n: number, id: string, result: Done): void {
    this.#note(n, finished, id);
    if (result.n === n && result.doubled === n * 2) return;
    this.problem(`task ${id} of number ${n} has the result ${JSON.stringify(result)}`);
  }

  refused(error: CodeqError): void {
    this.#refusals[error.code] = (this.#refusals[error.code] ?? 0) + 1;
    if (overtaken.includes(error.code)) return;
    this.problem(`a result was refused: ${error.code} ${error.message}`);
  }

  problem(text: string): void {
    if (this.#problems.length < problemsMax) this.#problems.push(text);
  }

  /** Everything that was acknowledged must have a result by now. */
  report(): SoakReport {
    const count = (flag: number): number =>
      this.#flags.filter((each) => (each & flag) !== 0).length;
    const lost = this.#flags.filter((each) => (each & stored) !== 0 && (each & finished) === 0);
    const lostResults = lost.filter((each) => (each & completed) !== 0);
    if (lost.length > 0) this.problem(`${lost.length} acknowledged tasks have no result`);
    if (lostResults.length > 0) this.problem(`${lostResults.length} stored results are lost`);
    const { deliveries, connections } = this;
    return {
      deliveries,
      connections,
      refusals: this.#refusals,
      problems: this.#problems,
      stored: count(stored),
      finished: count(finished),
      completed: count(completed),
    };
  }

  #note(n: number, flag: number, id: string): void {
    this.#flags[n] = (this.#flags[n] ?? 0) | flag;
    const known = this.#ids[n];
    const hashed = hash(id);
    if (known === 0) this.#ids[n] = hashed;
    else if (known !== hashed) this.problem(`number ${n} became a second task, ${id}`);
  }
}

/** Never zero, which stands for none. */
function hash(id: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < id.length; at += 1) {
    value = Math.imul(value ^ id.charCodeAt(at), 0x01000193);
  }
  return value | 1;
}
