/**
 * The shards of a router and the state of each. Sends the verbs of the routing tables to the shards that their
 * rows name, and merges the answers.
 */
import { type EngineState, FaultError } from "@codeq/engine";
import type { TaskId, TenantId } from "@codeq/queue";
import type { ShardState } from "../broker/broker.ts";
import type { AnyRow } from "../broker/routing.ts";
import type { BatchOf } from "../records/batch-record.ts";
import { homeOfSchedule, type ScheduleOf } from "../records/schedule-record.ts";
import type { AskedName, RemoteShard } from "./remote-shard.ts";
import { shardOf, shardOfBatch, shardOfKey } from "./shard-of.ts";

/** A shard that is closed has no leader at the moment. */
const faultCodes = {
  open: "storage_failed",
  failed: "storage_failed",
  full: "disk_full",
  closed: "not_leader",
} as const;

export class ShardGroup {
  readonly all: readonly RemoteShard[];
  readonly states: ShardState[];

  constructor(all: readonly RemoteShard[]) {
    this.all = all;
    this.states = all.map(({ number: shard }) => ({ shard, state: "closed", error: undefined }));
  }

  /** Open as long as one shard is open: the others refuse only their own calls. */
  get state(): EngineState {
    const states = this.states.map(({ state }) => state);
    return (["open", "full", "failed"] as const).find((each) => states.includes(each)) ?? "closed";
  }

  /** Why no shard is available. */
  get fault(): FaultError {
    const error = this.states.find((each) => each.error !== undefined)?.error;
    return new FaultError(faultCodes[this.state], error ?? "no shard accepts changes");
  }

  isOpen(shard: number): boolean {
    return this.states[shard]?.state === "open";
  }

  get available(): readonly RemoteShard[] {
    return this.all.filter(({ number }) => {
      return this.isOpen(number) || this.states[number]?.state === "full";
    });
  }

  get isPartial(): boolean {
    return this.available.length < this.all.length;
  }

  get first(): RemoteShard {
    return this.all[0] as RemoteShard;
  }

  othersThan(shard: number): readonly RemoteShard[] {
    return this.all.filter(({ number }) => number !== shard);
  }

  of(id: TaskId): RemoteShard {
    return this.all[shardOf(id, this.all.length)] as RemoteShard;
  }

  /** The verbs of a table as methods. */
  verbsOf<Verbs>(
    table: Record<keyof Verbs, AnyRow>,
    prefix: "" | "webhooks." | "schedules." | "batches." = "",
  ): Verbs {
    const rows = Object.entries<AnyRow>(table);
    const verbs = rows.map(([name, row]) => {
      const asked = (prefix + name) as AskedName;
      return [name, (...given: readonly unknown[]) => this.#send(asked, row, given)];
    });
    return Object.fromEntries(verbs);
  }

  async #send(name: AskedName, row: AnyRow, given: readonly unknown[]): Promise<unknown> {
    const ask = (shard: RemoteShard, own = given): Promise<unknown> =>
      shard.ask(name, own as never);
    switch (row.to) {
      case "first":
        return ask(this.first);
      case "task": {
        const [of] = given as readonly [TaskId | { readonly id: TaskId }];
        return ask(this.of(typeof of === "string" ? of : of.id));
      }
      case "schedule": {
        const [{ tenantId, id }] = given as readonly [ScheduleOf];
        const shard = shardOfKey(tenantId, homeOfSchedule(id), this.all.length);
        return ask(this.all[shard] as RemoteShard);
      }
      case "batch": {
        const [of] = given as readonly [BatchOf];
        return ask(this.all[shardOfBatch(of, this.all.length)] as RemoteShard);
      }
      case "tasks": {
        const [tenantId, ids] = given as readonly [TenantId, readonly TaskId[]];
        return this.#askEach(ids, (shard, some) => ask(shard, [tenantId, some]));
      }
      case "all":
      case "available": {
        const askOne = (shard: RemoteShard): Promise<unknown> =>
          ask(shard, row.given?.(shard.number, given));
        const asked =
          row.to === "all" ? Promise.all(this.all.map(askOne)) : this.#available(askOne);
        return row.merge(await asked, given, this.isPartial);
      }
    }
  }

  async #askEach(
    ids: readonly TaskId[],
    ask: (shard: RemoteShard, some: readonly TaskId[]) => Promise<unknown>,
  ): Promise<unknown> {
    const found = new Map<TaskId, unknown>();
    const asked = [...Map.groupBy(ids, (id) => this.of(id))].map(async ([shard, some]) => {
      const answers = (await ask(shard, some)) as readonly unknown[];
      for (const [at, id] of some.entries()) found.set(id, answers[at]);
    });
    await Promise.all(asked);
    return ids.map((id) => found.get(id));
  }

  /** Leaves out shards that fail; when all of them fail, so does the call. */
  async #available(ask: (shard: RemoteShard) => Promise<unknown>): Promise<unknown[]> {
    const asked = await Promise.allSettled(this.available.map(ask));
    const answers = asked.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    if (answers.length > 0) return answers;
    throw asked.find((each) => each.status === "rejected")?.reason ?? this.fault;
  }
}
