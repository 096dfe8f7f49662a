/**
 * What is said of why a task is not delivered agrees with what claims do: a claim for the queue of a task that
 * nothing holds gets the task as soon as it takes more than are said to be ahead of it, and one that meets
 * what is said to hold the task does not get it. As long as nothing else happens in between.
 */
import { queueOf, type TaskId } from "@codeq/queue";
import type { Explanation } from "../../../packages/server/src/features/explain/explain-task.ts";
import type { AnyExchange, Exchange } from "../exchange.ts";
import type { MakeChecker } from "./checker.ts";

/** Rules that keep claims from a task; without any of them it is for workers to ask. */
const obstacles: ReadonlySet<string> = new Set(["expired", "lease_quota", "paused", "topic_limit"]);
/** Requests that change what claims may take without changing a task. */
const controls: ReadonlySet<string> = new Set([
  "pauseQueue",
  "resumeQueue",
  "putTopic",
  "deleteTopic",
]);

export const explanationsHold: MakeChecker = ({ world, report }) => {
  const said = new Map<TaskId, Explanation>();
  /** What was said of the tasks that a claim is for, and has not been overtaken. */
  const claims = new Map<number, Map<TaskId, Explanation>>();
  const controlling = new Set<number>();
  /** Explanations that were asked for, of tenants of which no task was claimed since. */
  const explaining = new Map<number, string>();
  /** Claims that were asked for and not answered, by their numbers. */
  const open = new Map<number, string>();
  /**
   * Tasks that a claim did not get. Another one may have them, or have used up what a limit allows: it is answered when
   * its record is durable.
   */
  const doubts = new Map<TaskId, { tenantId: string; others: Set<number>; text: string }>();
  const forgetSaid = (tenantId: string): void => {
    for (const [id, { task }] of said) if (task.tenantId === tenantId) said.delete(id);
    for (const [number, tenant] of explaining) if (tenant === tenantId) explaining.delete(number);
  };
  const forget = (tenantId: string): void => {
    forgetSaid(tenantId);
    for (const known of claims.values()) {
      for (const [id, { task }] of known) if (task.tenantId === tenantId) known.delete(id);
    }
    for (const [id, doubt] of doubts) if (doubt.tenantId === tenantId) doubts.delete(id);
  };
  const forgetAll = (): void => {
    said.clear();
    claims.clear();
    controlling.clear();
    explaining.clear();
    open.clear();
    doubts.clear();
  };
  const hear = ({ task, ...rest }: Explanation): void => {
    if (task.place.in === "ready" && controlling.size === 0) said.set(task.id, { task, ...rest });
  };
  /** Neither this claim nor one before it has taken the task. */
  const isLeft = (id: TaskId): boolean => world.ledger.tasks.get(id)?.place.in === "ready";
  const check = (claim: Exchange<"claimTasks">, meant: Map<TaskId, Explanation>): void => {
    if (!claim.answer.ok || claim.isAborted) return;
    const taken = new Set(claim.answer.value.map(({ task }) => task.id));
    for (const [id, { rule, ahead }] of meant) {
      if (obstacles.has(rule)) {
        if (taken.has(id)) report(`${id} was claimed although ${rule} is said to hold it`);
      } else if (isLeft(id) && ahead?.isAtLeast === false) {
        const before = ahead.higher + ahead.older;
        // One that got a part of what it asked for may have left the rest on the disk.
        const isClear = taken.size === 0 || taken.size === claim.input.count;
        if (rule !== "storage" && isClear && before < claim.input.count) {
          const text = `a claim for ${claim.input.count} got ${taken.size} and not ${id} behind ${before}`;
          const { tenant: tenantId } = claim.caller;
          const others = [...open].filter(([, tenant]) => tenant === tenantId);
          if (others.length === 0) report(text);
          else doubts.set(id, { tenantId, others: new Set(others.map(([each]) => each)), text });
        }
      }
    }
  };
  const settle = (number: number, takesSome: boolean): void => {
    for (const [id, { others, text }] of doubts) {
      if (!others.delete(number)) continue;
      if (takesSome) doubts.delete(id);
      else if (others.size === 0) {
        doubts.delete(id);
        report(text);
      }
    }
  };
  return {
    event: ({ kind, before, after }) => {
      if (kind === "lapse") return;
      const tenantId = (after ?? before)?.tenantId ?? "";
      if (kind !== "claim") forget(tenantId);
      // The claim that has it may be the one that is checked. For later ones it may have used up what a limit allows.
      else forgetSaid(tenantId);
    },
    invoked: ({ number, verb, caller, input }) => {
      if (controls.has(verb)) {
        controlling.add(number);
        forget(caller.tenant);
      }
      if (verb === "claimTasks") open.set(number, caller.tenant);
      if (verb === "explainTask") explaining.set(number, caller.tenant);
      if (verb !== "claimTasks" || input.commands.length !== 1 || isLimited(caller)) return;
      const name = queueOf(input.commands[0] ?? "");
      const meant = [...said].filter(([, { task }]) => isIn(task, caller.tenant, name));
      if (meant.length > 0) claims.set(number, new Map(meant));
    },
    answered: (exchange: AnyExchange) => {
      const { number, verb } = exchange;
      controlling.delete(number);
      if (open.delete(number) && exchange.verb === "claimTasks") {
        const { answer } = exchange;
        settle(number, answer.ok && answer.value.length > 0);
      }
      if (controls.has(verb)) forget(exchange.caller.tenant);
      if (explaining.delete(number) && exchange.verb === "explainTask" && exchange.answer.ok) {
        hear(exchange.answer.value);
      }
      const meant = claims.get(number);
      claims.delete(number);
      if (exchange.verb === "claimTasks" && meant !== undefined) check(exchange, meant);
    },
    died: forgetAll,
    stalled: forgetAll,
    recovered: forgetAll,
    stepped: () => {
      if (world.serving?.core.store.state !== "open") forgetAll();
    },
  };
};

/** May claim some commands only. */
function isLimited({ subject }: { readonly subject: string }): boolean {
  return subject.endsWith("picky");
}

function isIn(task: Explanation["task"], tenantId: string, queue: string): boolean {
  return task.tenantId === tenantId && queueOf(task.command) === queue;
}
