/**
 * What is true of every task that the transitions can produce. Tests and the simulator check it
 * after each step. Instants are only compared when one transition wrote both, because the wall clock may step back between two of them.
 */
import { attemptsKeptMax } from "../src/attempts.ts";
import type { Place, Task } from "../src/task.ts";
import { priorityMax } from "../src/task.ts";
import { cancelled, lapsed } from "../src/transitions/end-unfinished.ts";
import { handBacksMax } from "../src/transitions/give-back.ts";

/** One sentence for each rule the task breaks; empty when it is sound. */
export function violations(task: Task): string[] {
  return [...brokenFields(task), ...brokenCounts(task), ...brokenPlace(task)];
}

function brokenFields(task: Task): string[] {
  return broken([
    [task.id !== "", "id is empty"],
    [task.command !== "", "command is empty"],
    [isWhole(task.storedBytes, 0), `storedBytes ${task.storedBytes} is not a whole number`],
    [isWhole(task.priority, 0, priorityMax), `priority ${task.priority} is out of range`],
    [Number.isSafeInteger(task.createdMs), `createdMs ${task.createdMs} is not whole`],
    [Number.isSafeInteger(task.updatedMs), `updatedMs ${task.updatedMs} is not whole`],
  ]);
}

function brokenCounts(task: Task): string[] {
  const { attempts, handBacks, leaseToken, maxAttempts, place, replays, cancelMs } = task;
  const isDead = place.in === "dead";
  // Every claim either came back, is still out, or was the last one.
  const isFinished = place.in === "done" && place.workerId !== "";
  const stillOut = place.in === "leased" || isFinished ? 1 : 0;
  return broken([
    [isWhole(maxAttempts, 1), `maxAttempts ${maxAttempts} is not a positive whole number`],
    [isWhole(attempts, 0), `attempts ${attempts} is not a whole number`],
    [isWhole(leaseToken, 0), `leaseToken ${leaseToken} is not a whole number`],
    [isWhole(cancelMs, 0), `cancelMs ${cancelMs} is not a whole number`],
    [isOrdered(task), `attempts of ${task.id} are too many or out of order`],
    [cancelMs === 0 || place.in === "leased", `${place.in} and still to be cancelled`],
    [isWhole(replays, 0), `replays ${replays} is not a whole number`],
    [isWhole(handBacks, 0, handBacksMax), `handBacks ${handBacks} is out of range`],
    [isDead || attempts < maxAttempts, `${place.in} with ${attempts} of ${maxAttempts} attempts`],
    [!isDead || attempts === maxAttempts, `dead with ${attempts} of ${maxAttempts} attempts`],
    [!isDead || handBacks === 0, `dead with ${handBacks} hand-backs`],
    [
      leaseToken >= attempts + handBacks + stillOut,
      `leaseToken ${leaseToken} is less than the attempts there were`,
    ],
  ]);
}

function brokenPlace(task: Task): string[] {
  const { error, place, result, updatedMs } = task;
  const hasNoResult: Rule = [result === undefined, `${place.in} with a result`];
  switch (place.in) {
    case "ready":
      return broken([
        [isWhole(place.seq, 0), `seq ${place.seq} is not a whole number`],
        hasNoResult,
      ]);
    case "delayed":
      return broken([
        hasNoResult,
        [Number.isSafeInteger(place.dueMs), `dueMs ${place.dueMs} is not whole`],
        [place.dueMs > updatedMs, "delayed until a time that was not in the future"],
      ]);
    case "held":
      return broken([
        hasNoResult,
        [task.batch?.isCallback === true, "held without being a callback"],
      ]);
    case "leased":
      return broken([
        [result?.json === undefined || result.json === "", "leased with a result"],
        [place.workerId !== "", "leased by nobody"],
        [isWhole(place.leaseMs, 1), `leaseMs ${place.leaseMs} is not a positive whole number`],
        [Number.isSafeInteger(place.untilMs), `untilMs ${place.untilMs} is not whole`],
        [place.untilMs > updatedMs, "leased until a time that was not in the future"],
      ]);
    case "dead":
      return [...brokenEnd(place, updatedMs), ...broken([[error !== "", "dead without an error"]])];
    case "done":
      return [
        ...brokenEnd(place, updatedMs),
        ...broken([[place.workerId !== "" || byNobody.has(error), "finished by nobody"]]),
      ];
  }
}

/** What ends a task without a worker. */
const byNobody: ReadonlySet<string> = new Set([cancelled, lapsed]);

type End = Extract<Place, { readonly in: "dead" | "done" }>;

function brokenEnd({ atMs, expiresMs }: End, updatedMs: number): string[] {
  return broken([
    [atMs === updatedMs, "changed after its end"],
    [expiresMs === undefined || isWhole(expiresMs, atMs), "expires before its end"],
  ]);
}

function isOrdered({ trail, leaseToken }: Task): boolean {
  const tokens = (trail?.attempts ?? []).map((each) => each.leaseToken);
  const isGrowing = tokens.every((token, at) => at === 0 || token > (tokens[at - 1] ?? 0));
  return tokens.length <= attemptsKeptMax && isGrowing && (tokens.at(-1) ?? 0) <= leaseToken;
}

type Rule = readonly [holds: boolean, otherwise: string];

function broken(rules: readonly Rule[]): string[] {
  return rules.filter(([holds]) => !holds).map(([, otherwise]) => otherwise);
}

function isWhole(value: number, min: number, max: number = Number.MAX_SAFE_INTEGER): boolean {
  return Number.isSafeInteger(value) && value >= min && value <= max;
}
