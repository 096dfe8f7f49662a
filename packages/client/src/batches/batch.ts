/** Many tasks and one callback, which the server holds until they have ended: `client.batch`. */
import { type AskApi, call, pages } from "../api-calls.ts";
import type { BatchMember, BatchProgress } from "../api-types.ts";
import type { EnqueueItem } from "../client.ts";
import { type Duration, toMs, toSeconds } from "../duration.ts";
import { outputFromJson } from "../payload/json-text.ts";
import {
  type EnqueueArguments,
  type EnqueueOptions,
  payloadOf,
  storedPayload,
} from "../producer/enqueue-options.ts";
import type { Run } from "../producer/run.ts";
import { definitionOf, type TaskType } from "../task.ts";

/** The callback of a batch, and when it runs. */
export interface BatchOptions<Input, Output> {
  /** The task that runs when the members have ended. */
  readonly callback: TaskType<Input, Output>;
  /** The input of that task. */
  readonly input: NoInfer<Input>;
  /**
   * 1 to 128 characters. The same call again gives the same batch with the same members, so a program that was interrupted
   * calls again. Default: a new id.
   */
  readonly id?: string | undefined;
  /**
   * `success` (default): the callback runs when every member succeeded, and becomes a dead letter when one did not.
   * `end`: the callback runs when every member has ended.
   */
  readonly on?: "success" | "end" | undefined;
  /** The first failure seals the batch and cancels the members that have not ended. */
  readonly failFast?: boolean | undefined;
  /** How long the batch may stay open, in whole seconds; then it expires. Default: `"24h"`. */
  readonly openFor?: Duration | undefined;
  /** 0 to 9, higher first. Default: the priority of the task. */
  readonly priority?: number | undefined;
  /** Attempts of the callback. Default: the number of the task. */
  readonly maxAttempts?: number | undefined;
  /** Labels of the callback. */
  readonly tags?: readonly string[] | undefined;
  /** The server posts the result of the callback there. */
  readonly webhook?: string | undefined;
}

/** Members of several kinds: a task and its input each. */
export type BatchItems<Inputs extends readonly unknown[]> = {
  readonly [At in keyof Inputs]: readonly [TaskType<Inputs[At], unknown>, NoInfer<Inputs[At]>];
};

/** A batch, by its id. It is made by `client.batchById`. */
export interface BatchHandle {
  readonly id: string;
  /** Adds a task. Rejects with `batch_sealed` when the batch takes no more members. */
  add<Input, Output>(
    task: TaskType<Input, Output>,
    ...args: EnqueueArguments<NoInfer<Input>>
  ): Promise<Run<Output>>;
  /** Adds several tasks of one kind, in the order of the items. */
  addMany<Input, Output>(
    task: TaskType<Input, Output>,
    items: readonly EnqueueItem<NoInfer<Input>>[],
  ): Promise<Run<Output>[]>;
  /** No more members: the callback runs when those that were added have ended. */
  seal(): Promise<BatchProgress>;
  /** How many members there are, and how they ended. */
  progress(): Promise<BatchProgress>;
  /** The members with their results, page by page, until the callback is deleted. */
  results(options?: {
    readonly failed?: boolean | undefined;
  }): AsyncGenerator<BatchMember, void, undefined>;
  /** Cancels the callback and, in the background, the members that have not ended. */
  cancel(): Promise<BatchProgress>;
}

/** How the members of a batch ended. */
export interface BatchEnd {
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
}

/** The batch of the task that a handler runs. */
export interface HandledBatch extends BatchHandle {
  /** Only for the callback: how the members ended. */
  readonly ended?: BatchEnd | undefined;
}

/** A batch that was created here. */
export interface Batch<Output> extends BatchHandle {
  /** The task that runs at the end; its result can be awaited at once. */
  readonly callback: Run<Output>;
}

/** What a batch needs of its client. */
export interface BatchClient {
  enqueue<Input, Output>(
    task: TaskType<Input, Output>,
    ...args: EnqueueArguments<NoInfer<Input>>
  ): Promise<Run<Output>>;
  enqueueMany<Input, Output>(
    task: TaskType<Input, Output>,
    items: readonly EnqueueItem<NoInfer<Input>>[],
  ): Promise<Run<Output>[]>;
  run<Input, Output>(task: TaskType<Input, Output>, id: string): Run<Output>;
}

type Members = readonly (readonly [TaskType<unknown, unknown>, unknown])[];

type NamedOptions<Input, Output> = BatchOptions<Input, Output> & {
  readonly id: string;
  /** Whether the caller chose the id. */
  readonly isNamed: boolean;
};

export async function createBatch<Input, Output>(
  client: BatchClient,
  api: AskApi,
  { id, isNamed, ...options }: NamedOptions<Input, Output>,
  members: Members | undefined,
): Promise<Batch<Output>> {
  const { callback, input, on, failFast, openFor, webhook, tags } = options;
  const definition = definitionOf(callback);
  const { priority = definition.priority, maxAttempts = definition.maxAttempts } = options;
  const payload = JSON.parse(
    await storedPayload(definition, await payloadOf(definition, input), id),
  );
  const openSeconds = openFor === undefined ? undefined : toSeconds(toMs(openFor, "openFor"));
  const body = {
    command: definition.name,
    payload,
    ...given({ on, failFast, openSeconds, webhook, tags, priority, maxAttempts }),
  };
  const { callbackId } = await call(api, "PUT /batches/:id", { params: { id }, body });
  const batch = { ...batchOf(client, api, id), callback: client.run(callback, callbackId) };
  if (members !== undefined) {
    await addAll(batch, members, isNamed);
    await batch.seal();
  }
  return batch;
}

/**
 * With an id of the caller, the same call again adds nothing twice; without one, no caller can complete the batch. Once a
 * batch was deleted, a batch with the same id has another callback, and so other keys.
 */
async function addAll(batch: Batch<unknown>, members: Members, isNamed: boolean): Promise<void> {
  const added = await Promise.allSettled(
    members.map(([task, input], at) => {
      return batch.add(
        task,
        input,
        isNamed ? { idempotencyKey: `${batch.callback.id}:${at}` } : {},
      );
    }),
  );
  const refused = added.find((each) => each.status === "rejected");
  if (refused === undefined) return;
  // The refusal says more than that the batch could not be cancelled.
  if (!isNamed) await batch.cancel().catch(() => {});
  throw refused.reason;
}

/** Without what is undefined. */
function given<Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: NonNullable<Fields[Name]> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Name in keyof Fields]?: NonNullable<Fields[Name]> };
}

export function batchOf(client: BatchClient, api: AskApi, id: string): BatchHandle {
  const params = { id };
  return {
    id,
    add: (task, ...[input, options]) =>
      (client.enqueue as (...all: unknown[]) => ReturnType<BatchHandle["add"]>)(task, input, {
        ...(options as EnqueueOptions | undefined),
        batch: id,
      }) as never,
    addMany: (task, items) =>
      client.enqueueMany(
        task,
        items.map((item) => ({ ...item, batch: id })),
      ),
    seal: () => call(api, "POST /batches/:id/seal", { params }),
    progress: () => call(api, "GET /batches/:id", { params }),
    cancel: () => call(api, "POST /batches/:id/cancel", { params }),
    results: async function* ({ failed = false } = {}) {
      const query = { failed: String(failed) };
      for await (const member of pages(api, "GET /batches/:id/results", query, params)) {
        const { result } = member;
        yield result === undefined
          ? member
          : { ...member, result: outputFromJson(JSON.stringify(result)) };
      }
    },
  };
}
