/** Gives ready tasks to a worker under a lease; waits for work when asked to. */
import { limits } from "@codeq/protocol";
import type { TenantId } from "@codeq/queue";
import { anyEventType, type Identity } from "../access/identity.ts";
import type { ClaimedTask } from "../broker/claims.ts";
import { whenKnown } from "../maybe-promise.ts";
import { leaseMsOf } from "./lease-ms.ts";
import {
  type Answer,
  type Call,
  type Operation,
  type Refusal,
  refusal,
  type Server,
} from "./operation.ts";
import { overQuota } from "./over-quota.ts";

export interface ClaimTasksInput {
  /** Empty for everything the caller may work on. */
  readonly commands: readonly string[];
  /** 0 or less for the default. */
  readonly leaseSeconds: number;
  /** Infinity for as long as the caller is there. */
  readonly waitSeconds: number;
  readonly count: number;
  readonly deliver?: Deliver;
}

/**
 * Takes the tasks in the turn in which they became durable, before anything else can happen to the
 * caller; false hands them back. Those that turn out later not to have reached the worker are handed
 * back by `giveBack`.
 */
export type Deliver = (
  tasks: readonly ClaimedTask[],
  giveBack: (tasks: readonly ClaimedTask[]) => void,
) => boolean;

export const claimTasks: Operation<ClaimTasksInput, readonly ClaimedTask[]> = {
  name: "claim_tasks",
  access: "worker",
  scope: "codeq:claim",
  rate: { scope: "worker", operation: "claim" },
  run: (server, call, input) => {
    const commands = allowedCommands(call.identity, input.commands);
    if (!commands.ok) return commands;
    const leaseMs = leaseMsOf(server, input.leaseSeconds, "leaseSeconds");
    if (!leaseMs.ok) return leaseMs;
    const tooMany = refuseTooMany(server, call.identity, input);
    if (tooMany !== undefined) return tooMany;
    const { tenantId, workerId } = call.identity;
    const count = call.admission.countUpTo(input.count);
    const claimed = server.broker.claim({
      tenantId,
      workerId,
      commands: commands.value,
      leaseMs: leaseMs.value,
      count,
      waitMs: Math.max(input.waitSeconds, 0) * 1000,
      signal: call.signal,
    });
    return whenKnown(claimed, (tasks) => {
      // It counts as what it was given, and as one when that is nothing.
      call.admission.takeBack(count - Math.max(tasks.length, 1));
      return tasks.length === 0
        ? nothingFor(server, tenantId)
        : handOut(server, call, input, tasks);
    });
  },
};

function nothingFor(server: Server, tenantId: TenantId): Answer<readonly ClaimedTask[]> {
  const exceeded = server.broker.room.exceededByLease(tenantId);
  return exceeded === undefined ? { ok: true, value: [] } : overQuota(server, exceeded);
}

/** To the caller, if it is still there. */
function handOut(
  server: Server,
  { signal }: Call,
  { deliver }: ClaimTasksInput,
  tasks: readonly ClaimedTask[],
): Answer<readonly ClaimedTask[]> {
  const giveBack = (back: readonly ClaimedTask[]): void => handBack(server, back);
  if (!(deliver?.(tasks, giveBack) ?? !signal?.aborted)) {
    giveBack(tasks);
    return { ok: true, value: [] };
  }
  for (const { task } of tasks) server.events.taskClaimed(task);
  return { ok: true, value: tasks };
}

/** Nobody is there to take the tasks: they go back at once instead of when the lease ends. */
function handBack(server: Server, tasks: readonly ClaimedTask[]): void {
  for (const { task } of tasks) {
    if (task.place.in !== "leased") continue;
    const owner = { workerId: task.place.workerId, leaseToken: task.leaseToken };
    const { tenantId, id } = task;
    server.broker.release({ tenantId, id, owner });
  }
}

function refuseTooMany(
  server: Server,
  { tenantId }: Identity,
  input: ClaimTasksInput,
): Answer<never> | undefined {
  const { claimBatchMax } = server.config;
  if (input.count > claimBatchMax) {
    return refusal("invalid_argument", `count exceeds maximum of ${claimBatchMax}`);
  }
  if (input.waitSeconds <= 0) return undefined;
  const { waiters } = server.broker.claims;
  const slots = server.broker.queues.findTenant(tenantId)?.waiterSlots ?? 0;
  // One tenant has at most half, so that it cannot keep the others out.
  const isFull =
    waiters.size >= limits.waitersMax ||
    waiters.slots >= limits.waiterSlotsMax ||
    slots >= limits.waiterSlotsMax / 2;
  return isFull ? refusal("overloaded") : undefined;
}

/** What no token could make up for. */
export function problemOfCommands(requested: readonly string[]): Refusal | undefined {
  const max = limits.commandsPerClaimMax;
  if (requested.length > max) {
    return refusal("invalid_argument", `invalid 'commands' (at most ${max})`);
  }
  const isBad = requested.some((command) => !limits.commandPattern.test(command.trim()));
  return isBad ? refusal("invalid_command") : undefined;
}

/** What to look for; undefined for every command of the tenant. */
function allowedCommands(
  identity: Identity,
  requested: readonly string[],
): Answer<readonly string[] | undefined> {
  const mayAll = identity.eventTypes.includes(anyEventType);
  if (requested.length === 0) return { ok: true, value: mayAll ? undefined : identity.eventTypes };
  const problem = problemOfCommands(requested);
  if (problem !== undefined) return problem;
  const commands = [...new Set(requested.map((command) => command.trim().toLowerCase()))];
  const allowed = mayAll || commands.every((command) => identity.eventTypes.includes(command));
  return allowed ? { ok: true, value: commands } : refusal("event_type_not_allowed");
}
