/** Gives ready tasks to a worker under a lease; waits for work when asked to. */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import { queueOf } from "@codeq/queue";
import { Claim, type ClaimRequest } from "../../core/broker/claims/claim.ts";
import type { ClaimedTask, Refused } from "../../core/broker/verbs.ts";
import { anyEventType, type Identity } from "../../edge/access/identity.ts";
import { bindByHand } from "../../edge/bind.ts";
import {
  type Answer,
  type Call,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { overQuota, refusalOf } from "../../edge/refusal-of.ts";
import { leaseMsOf } from "./extend-lease.ts";

export interface ClaimTasksInput {
  /** Empty for everything the caller may work on. */
  readonly commands: readonly string[];
  /** 0 or less for the default. */
  readonly leaseSeconds: number;
  /** Infinity for as long as the caller is there. */
  readonly waitSeconds: number;
  readonly count: number;
}

export const claimTasks = bindByHand<ClaimTasksInput, readonly ClaimedTask[]>(api.work.claimTasks, {
  showsPayloads: true,
  rate: { scope: "worker", operation: "claim" },
  run: (server, call, input) => {
    const request = claimRequestOf(server, call, input);
    if (!request.ok) return request;
    return new Promise((resolve) => {
      const claim = new PromisedClaim(server, { call, request: request.value, resolve });
      server.broker.claim(claim);
    });
  },
});

/** What the broker is asked for; the call then counts as all that it may get. */
function claimRequestOf(server: Server, call: Call, input: ClaimTasksInput): Answer<ClaimRequest> {
  const { identity, admission } = call;
  const { claimBatchMax } = server.config;
  const queues = allowedQueues(identity, input.commands);
  if (!queues.ok) return queues;
  const leaseMs = leaseMsOf(server, input.leaseSeconds, "leaseSeconds");
  if (!leaseMs.ok) return leaseMs;
  if (input.count > claimBatchMax) {
    return refusal("invalid_argument", `count exceeds maximum of ${claimBatchMax}`);
  }
  if (input.waitSeconds > 0 && server.broker.isCrowded(identity.tenantId))
    return refusal("overloaded");
  return {
    ok: true,
    value: {
      tenantId: identity.tenantId,
      workerId: identity.workerId,
      queues: queues.value,
      leaseMs: leaseMs.value,
      count: admission.countUpTo(input.count),
      waitMs: Math.max(input.waitSeconds, 0) * 1000,
    },
  };
}

type Resolve = (answer: Answer<readonly ClaimedTask[]>) => void;

/** A claim whose caller waits for one answer, and may go away meanwhile. */
class PromisedClaim extends Claim {
  readonly #server: Server;
  readonly #call: Call;
  readonly #resolve: Resolve;
  readonly #onAbort: () => void;

  constructor(
    server: Server,
    { call, request, resolve }: { call: Call; request: ClaimRequest; resolve: Resolve },
  ) {
    super(request);
    this.#server = server;
    this.#call = call;
    this.#resolve = resolve;
    this.#onAbort = () => server.broker.cancelClaim(this);
    if (call.signal?.aborted) this.isCancelled = true;
    else if (this.waitMs > 0) call.signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  durable(tasks: readonly ClaimedTask[]): void {
    this.#call.signal?.removeEventListener("abort", this.#onAbort);
    // It counts as what it was given, and as one when that is nothing.
    this.#call.admission.takeBack(this.counted - Math.max(tasks.length, 1));
    if (tasks.length > 0 && this.#call.signal?.aborted) {
      handBack(this.#server, tasks);
      this.#resolve({ ok: true, value: [] });
      return;
    }
    const exceeded =
      tasks.length > 0 ? undefined : this.#server.broker.exceededByLease(this.tenantId);
    this.#resolve(
      exceeded === undefined ? { ok: true, value: tasks } : overQuota(this.#server, exceeded),
    );
  }

  refused(why: Refused): void {
    this.#call.signal?.removeEventListener("abort", this.#onAbort);
    this.#resolve(refusalOf(this.#server, why));
  }
}

/** The caller has disconnected: the tasks go back at once instead of when the lease ends. */
export function handBack({ broker }: Pick<Server, "broker">, tasks: readonly ClaimedTask[]): void {
  for (const { task } of tasks) {
    if (task.place.in !== "leased") continue;
    const owner = { workerId: task.place.workerId, leaseToken: task.leaseToken };
    const { tenantId, id } = task;
    broker.release({ tenantId, id, owner });
  }
}

/** What no token could make up for. */
function problemOfCommands(requested: readonly string[]): Refusal | undefined {
  const max = limits.commandsPerClaimMax;
  if (requested.length > max) {
    return refusal("invalid_argument", `invalid 'commands' (at most ${max})`);
  }
  const isBad = requested.some((command) => !limits.commandPattern.test(command.trim()));
  return isBad ? refusal("invalid_command") : undefined;
}

/** Which queues to look at; undefined for every queue of the tenant. */
export function allowedQueues(
  identity: Identity,
  requested: readonly string[],
): Answer<readonly string[] | undefined> {
  const mayAll = identity.eventTypes.includes(anyEventType);
  if (requested.length === 0) return { ok: true, value: mayAll ? undefined : identity.eventTypes };
  const problem = problemOfCommands(requested);
  if (problem !== undefined) return problem;
  const queues = [...new Set(requested.map((command) => queueOf(command.trim())))];
  const allowed = mayAll || queues.every((queue) => identity.eventTypes.includes(queue));
  return allowed ? { ok: true, value: queues } : refusal("event_type_not_allowed");
}
