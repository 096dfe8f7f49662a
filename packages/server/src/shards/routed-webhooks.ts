/** The callbacks of several shards as those of one queue. Every shard has the secrets and endpoints. */
import type { TaskId, TenantId } from "@codeq/queue";
import type {
  EndpointChange,
  FailedPage,
  QueueWebhooks,
  Redelivered,
  TaskDeliveries,
  WantedFailures,
} from "../broker/queue-webhooks.ts";
import type { TaskOf } from "../broker/task-actions.ts";
import type { FailingEndpoint } from "../store/endpoint-record.ts";
import type { SecretsChange, SigningSecret } from "../store/signing-record.ts";
import type { RemoteShard } from "./remote-shard.ts";

/** The verbs of a shard's callbacks, by their names. */
export type WebhookVerb = keyof QueueWebhooks | "setSecrets" | "learn";

/** The shard that decides about secrets. */
const first = 0;

export class RoutedWebhooks implements QueueWebhooks {
  readonly #shards: readonly RemoteShard[];
  readonly #shardOf: (id: TaskId) => number;

  constructor(shards: readonly RemoteShard[], shardOf: (id: TaskId) => number) {
    this.#shards = shards;
    this.#shardOf = shardOf;
  }

  deliveries(of: TaskOf): Promise<TaskDeliveries | null> {
    return this.#ask(this.#shardOf(of.id), "deliveries", [of]);
  }

  async failed(wanted: WantedFailures): Promise<FailedPage> {
    const pages = await this.#askAll<FailedPage>("failed", [wanted]);
    const all = pages.flatMap(({ failed }) => failed);
    const ends = pages.flatMap(({ next }) => (next === null ? [] : [next]));
    // Behind the nearest end there may be some of that shard which are not known yet.
    const [end] = ends.sort(inOrder);
    const known = end === undefined ? all : all.filter((each) => inOrder(each.position, end) <= 0);
    const sorted = known.sort((one, other) => inOrder(one.position, other.position));
    if (sorted.length <= wanted.limit) return { failed: sorted, next: end ?? null };
    const failed = sorted.slice(0, wanted.limit);
    return { failed, next: failed.at(-1)?.position ?? null };
  }

  async redeliver(tenantId: TenantId, ids: readonly TaskId[]): Promise<readonly Redelivered[]> {
    const byShard = Map.groupBy(ids, (id) => this.#shardOf(id));
    const answers = new Map<TaskId, Redelivered>();
    await Promise.all(
      [...byShard].map(async ([shard, some]) => {
        const told = await this.#ask<Redelivered[]>(shard, "redeliver", [tenantId, some]);
        for (const [at, id] of some.entries()) answers.set(id, told[at] as Redelivered);
      }),
    );
    return ids.map((id) => answers.get(id) as Redelivered);
  }

  /** One that several shards know is as bad as the worst of them says. */
  async endpoints(tenantId: TenantId): Promise<readonly FailingEndpoint[]> {
    const all = (await this.#askAll<FailingEndpoint[]>("endpoints", [tenantId])).flat();
    const byUrl = new Map<string, FailingEndpoint>();
    for (const each of all) {
      const known = byUrl.get(each.url);
      const sinceMs = Math.min(each.sinceMs, known?.sinceMs ?? each.sinceMs);
      const worse = known?.disabledMs === undefined ? each : known;
      byUrl.set(each.url, { ...worse, sinceMs });
    }
    return [...byUrl.values()];
  }

  async enable(tenantId: TenantId, url: string): Promise<boolean> {
    return (await this.#askAll<boolean>("enable", [tenantId, url])).includes(true);
  }

  secrets(tenantId: TenantId): Promise<readonly SigningSecret[]> {
    return this.#ask(first, "secrets", [tenantId]);
  }

  /**
   * The first shard decides, and the others follow it. Changes of other nodes may reach them in another order, so
   * they follow until the first one has nothing newer.
   */
  async changeSecrets(tenantId: TenantId, change: SecretsChange): Promise<boolean> {
    if (!(await this.#ask<boolean>(first, "changeSecrets", [tenantId, change]))) return false;
    const others = this.#shards.filter(({ number }) => number !== first);
    let told: string | undefined;
    for (;;) {
      const secrets = await this.secrets(tenantId);
      const text = JSON.stringify(secrets);
      if (text === told) return true;
      told = text;
      const follow = others.map(({ number }) =>
        this.#ask(number, "setSecrets", [tenantId, secrets]),
      );
      await Promise.all(follow);
    }
  }

  /** One that does not hear of it now finds out by itself. */
  tellOthers(shard: number, change: EndpointChange): void {
    for (const { number } of this.#shards) {
      if (number !== shard) this.#ask(number, "learn", [change]).catch(() => {});
    }
  }

  #ask<T>(shard: number, verb: WebhookVerb, given: readonly unknown[]): Promise<T> {
    const asked = this.#shards[shard] as RemoteShard;
    return asked.ask<"webhooks", T>("webhooks", [verb, given]);
  }

  #askAll<T>(verb: WebhookVerb, given: readonly unknown[]): Promise<T[]> {
    return Promise.all(this.#shards.map(({ number }) => this.#ask<T>(number, verb, given)));
  }
}

/** Positions begin with a time, and end with an id. */
function inOrder(one: string, other: string): number {
  const [at, id] = one.split(".") as [string, string];
  const [otherAt, otherId] = other.split(".") as [string, string];
  if (at !== otherAt) return Number(at) - Number(otherAt);
  return id < otherId ? -1 : Number(id !== otherId);
}
