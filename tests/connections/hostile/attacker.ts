/**
 * The process of the attacker, so that what attacking costs is not taken from the healthy client.
 * Argument: JSON with the name of the attack, port and token. Says `under way` once all connections
 * are open, and what became of them when it is told to stop.
 */

import { attackCalled } from "./attacks.ts";
import { Crowd } from "./crowd.ts";

export interface AttackerTask {
  readonly attack: string;
  readonly port: number;
  readonly token: string;
  readonly isSecure?: boolean;
  /** Undefined for the number of the attack. */
  readonly connections?: number;
}

export type AttackerMessage =
  | { readonly kind: "under way" }
  | {
      readonly kind: "over";
      readonly opened: number;
      readonly closed: number;
      readonly answers: readonly (readonly [string, number])[];
    };

const task = JSON.parse(process.argv[2] ?? "{}") as AttackerTask;
const { port, token, isSecure = false } = task;
const attack = attackCalled(task.attack);
const crowd = new Crowd({
  port,
  size: task.connections ?? attack.connections,
  play: attack.play(token),
  isSecure: isSecure && attack.isBelowTls !== true,
  reopens: true,
});
const tell = (message: AttackerMessage): void => void process.send?.(message);
process.on("message", () => {
  crowd.stop();
  const { opened, closed, answers } = crowd.report;
  tell({ kind: "over", opened, closed, answers: [...answers] });
  process.disconnect();
});
await crowd.start();
tell({ kind: "under way" });
