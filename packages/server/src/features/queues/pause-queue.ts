/** Stops and resumes claims from a queue; producers are not affected. */
import { limits } from "@codeq/protocol";
import { queueOf } from "@codeq/queue";
import type { PausedQueue } from "../../core/records/pause-record.ts";
import { type Answer, type Operation, refusal } from "../../edge/operation.ts";

export interface PauseQueueInput {
  readonly command: string;
  /** Empty when there is none. */
  readonly reason: string;
}

export const pauseQueue: Operation<PauseQueueInput, PausedQueue> = {
  name: "pause_queue",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: {
    of: "all",
    target: ({ command }) => command,
    detail: ({ reason }) => reason,
  },
  run: async ({ queue, clock }, call, { command, reason }) => {
    const name = nameOf(command);
    if (!name.ok) return name;
    if (reason.length > limits.reasonCharsMax) {
      return refusal("invalid_argument", `'reason' is longer than ${limits.reasonCharsMax}`);
    }
    const { tenantId, subject } = call.identity;
    const paused = await queue.pausesOf(tenantId);
    const isNew = paused.every((each) => each.queue !== name.value);
    if (isNew && paused.length >= limits.pausesPerTenantMax) return refusal("too_many_pauses");
    const pause = { by: subject, atMs: clock.nowMs(), reason };
    await queue.pause({ tenantId, name: name.value }, pause);
    return { ok: true, value: { queue: name.value, ...pause } };
  },
};

export const resumeQueue: Operation<{ readonly command: string }, { readonly queue: string }> = {
  name: "resume_queue",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: ({ command }) => command },
  run: async ({ queue }, call, { command }) => {
    const name = nameOf(command);
    if (!name.ok) return name;
    await queue.pause({ tenantId: call.identity.tenantId, name: name.value }, undefined);
    return { ok: true, value: { queue: name.value } };
  },
};

export const listPauses: Operation<undefined, readonly PausedQueue[]> = {
  name: "list_pauses",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ queue }, call) => {
    const paused = await queue.pausesOf(call.identity.tenantId);
    return { ok: true, value: paused.toSorted((a, b) => (a.queue < b.queue ? -1 : 1)) };
  },
};

function nameOf(command: string): Answer<string> {
  if (!limits.commandPattern.test(command)) return refusal("invalid_command");
  return { ok: true, value: queueOf(command) };
}
