/**
 * The webhooks of a shard: the outcome of each, failing endpoints, and signing secrets. Endpoints and
 * secrets are few; memory holds all of them, and so does the store.
 *
 * An endpoint is a URL without its query. An endpoint is failing from the moment a webhook to it is given
 * up until one is delivered. It is disabled when it answers that it is gone, or has failed for too long.
 * Webhooks to a disabled endpoint are given up without a try, until an administrator enables it.
 */
import type * as api from "@codeq/protocol/api";
import type { Task, TaskId, TenantId } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import {
  type DeliveryLog,
  type DeliveryTry,
  noDeliveries,
  withTry,
  writesOfDelivery,
  writesOfRedelivery,
} from "../records/delivery-record.ts";
import {
  type FailingEndpoint,
  removalOfEndpoint,
  writeOfEndpoint,
} from "../records/endpoint-record.ts";
import {
  nextSecrets,
  type SecretsChange,
  type SigningSecret,
  signingNow,
  writeOfSigning,
} from "../records/signing-record.ts";
import type { TaskOf } from "../search/task-actions.ts";
import type { Position, RecordWrite, Store } from "../store/store.ts";

/** The outcome of a delivery. */
export type Delivered =
  | { readonly state: "delivered" }
  | { readonly state: "waiting"; readonly nextMs: number }
  /** `isGone` when the endpoint answered that it is gone. */
  | { readonly state: "failed"; readonly why: string; readonly isGone: boolean };

export type TaskDeliveries = api.KeptOf<typeof api.Deliveries>;

export interface WantedFailures {
  readonly tenantId: TenantId;
  readonly sinceMs: number;
  /** `next` of the previous page; empty for the first page. */
  readonly after: string;
  readonly limit: number;
}

export interface FailedDelivery extends api.KeptOf<typeof api.FailedDelivery> {
  readonly id: TaskId;
  /** Its position in the order. */
  readonly position: string;
}

export interface FailedPage {
  readonly failed: readonly FailedDelivery[];
  /** Where the next page begins; undefined after the last page. */
  readonly next: string | undefined;
}

export type Redelivered =
  | "planned"
  | "task_unknown"
  | "no_webhook"
  | "not_ended"
  | "endpoint_disabled";

/** An endpoint began to fail, was disabled, or took a webhook again. */
export interface EndpointChange {
  readonly tenantId: TenantId;
  readonly url: string;
  /** Null when the endpoint neither fails nor is disabled. */
  readonly endpoint: FailingEndpoint | null;
}

const endpointsPerTenantMax = 1000;

export class Webhooks {
  /** Called when a webhook is due at this time. */
  onDue: (wallMs: number) => void = () => {};
  /** Called when a webhook has changed the state of an endpoint. */
  onEndpoint: (change: EndpointChange) => void = () => {};
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #disableAfterMs: number;
  readonly #endpoints: Map<TenantId, Map<string, FailingEndpoint>> = new Map();
  readonly #secrets: Map<TenantId, readonly SigningSecret[]> = new Map();

  constructor(parts: {
    readonly store: Store;
    readonly clock: Clock;
    /** How long an endpoint may fail; 0 for any time. */
    readonly disableAfterMs: number;
  }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#disableAfterMs = parts.disableAfterMs;
  }

  /** Reads endpoints and secrets from the store. */
  async recover(): Promise<void> {
    this.#endpoints.clear();
    this.#secrets.clear();
    for await (const [tenantId, endpoint] of this.#store.endpoints()) {
      this.#ofTenant(tenantId).set(endpoint.url, endpoint);
    }
    for await (const [tenantId, secrets] of this.#store.signingSecrets()) {
      this.#secrets.set(tenantId, secrets);
    }
  }

  /** Undefined when the task is unknown or belongs to another tenant. */
  deliveries({ tenantId, id }: TaskOf): TaskDeliveries | undefined {
    const task = this.#find(tenantId, id);
    if (task === undefined) return undefined;
    const log = this.#logOf(task);
    const { webhook: url, place } = task;
    if (url === "") return { ...log, id, url, state: "none" };
    const hasEnded = place.in === "done" || place.in === "dead";
    if (hasEnded) return { ...log, id, url };
    return { ...log, id, url, state: "pending", nextMs: undefined };
  }

  /** Webhooks that were given up, the earliest first. */
  async failed({ tenantId, sinceMs, after, limit }: WantedFailures): Promise<FailedPage> {
    const from = after === "" ? { number: sinceMs, id: "" as TaskId } : positionOf(after);
    const positions = await this.#store.undeliveredAfter(tenantId, from, limit);
    const failed = positions.flatMap((position) => this.#failedAt(tenantId, position));
    const last = positions.length < limit ? undefined : positions.at(-1);
    return { failed, next: last === undefined ? undefined : textOf(last) };
  }

  #failedAt(tenantId: TenantId, position: Position): FailedDelivery[] {
    const task = this.#find(tenantId, position.id);
    if (task === undefined) return [];
    const { total, tries, why } = this.#store.deliveryLog(task.id) ?? noDeliveries;
    const { id, command, webhook: url } = task;
    const last = tries.at(-1);
    const at = { atMs: position.number, position: textOf(position) };
    return [{ id, command, url, why, total, last, ...at }];
  }

  /** Sends results once more, with all tries; answers for each task in order. */
  async redeliver(tenantId: TenantId, ids: readonly TaskId[]): Promise<readonly Redelivered[]> {
    this.#store.assertWritable();
    const nowMs = Math.floor(this.#clock.nowMs());
    const writes: RecordWrite[] = [];
    const answers = ids.map((id): Redelivered => {
      const task = this.#find(tenantId, id);
      const refused = this.#whyNot(task);
      if (task === undefined || refused !== undefined) return refused ?? "task_unknown";
      const logs = { stored: this.#store.deliveryLog(id), known: this.#logOf(task) };
      writes.push(...writesOfRedelivery(task, logs, nowMs));
      return "planned";
    });
    if (writes.length === 0) return answers;
    await this.#store.commitRecords(writes).done;
    this.onDue(nowMs);
    return answers;
  }

  #whyNot(task: Task | undefined): Redelivered | undefined {
    if (task === undefined) return "task_unknown";
    if (task.webhook === "") return "no_webhook";
    if (task.place.in !== "done" && task.place.in !== "dead") return "not_ended";
    return this.disabledOf(task) === undefined ? undefined : "endpoint_disabled";
  }

  /** The log of a task; before the first try of its last end it says when that is due. */
  #logOf(task: Task): DeliveryLog {
    const log = this.#store.deliveryLog(task.id) ?? noDeliveries;
    const { place } = task;
    const hasEnded = place.in === "done" || place.in === "dead";
    if (!hasEnded || task.webhook === "") return log;
    const endedMs = Math.floor(place.atMs);
    if (log.atMs >= endedMs) return log;
    return { ...log, state: "waiting", atMs: endedMs, nextMs: endedMs, why: "" };
  }

  /** The endpoint of a task, if webhooks do not go to it. */
  disabledOf({ tenantId, webhook }: Task): FailingEndpoint | undefined {
    const endpoint = this.#endpoints.get(tenantId)?.get(endpointOf(webhook));
    return endpoint?.disabledMs === undefined ? undefined : endpoint;
  }

  /** The writes for the outcome of a delivery, with the try that it took. */
  writesOf(task: Task, to: Delivered, tried?: DeliveryTry): RecordWrite[] {
    const store = this.#store;
    // The task may have been deleted during the delivery; no record of it may stay behind.
    if (store.task(task.id) === undefined) return [];
    const before = store.deliveryLog(task.id);
    const log =
      tried === undefined ? (before ?? noDeliveries) : withTry(before ?? noDeliveries, tried);
    const after: DeliveryLog = {
      ...log,
      state: to.state,
      atMs: Math.floor(this.#clock.nowMs()),
      nextMs: to.state === "waiting" ? to.nextMs : undefined,
      why: to.state === "failed" ? to.why : "",
    };
    return [...writesOfDelivery(task, before, after), ...this.#writesOfEndpoint(task, to, tried)];
  }

  #writesOfEndpoint(task: Task, to: Delivered, tried: DeliveryTry | undefined): RecordWrite[] {
    const { tenantId } = task;
    const url = endpointOf(task.webhook);
    const known = this.#endpoints.get(tenantId)?.get(url);
    if (to.state === "delivered" && known !== undefined) {
      this.onEndpoint({ tenantId, url, endpoint: null });
      return [this.#forget(tenantId, url)];
    }
    // Without a try the endpoint was not asked.
    if (to.state !== "failed" || known?.disabledMs !== undefined || tried === undefined) return [];
    const nowMs = Math.floor(this.#clock.nowMs());
    const sinceMs = known?.sinceMs ?? nowMs;
    const isTooLong = this.#disableAfterMs > 0 && nowMs - sinceMs >= this.#disableAfterMs;
    const disabledMs = to.isGone || isTooLong ? nowMs : undefined;
    const endpoint = { url, sinceMs, disabledMs, why: to.why };
    if (known === undefined || disabledMs !== undefined) {
      this.onEndpoint({ tenantId, url, endpoint });
    }
    return this.#remember(tenantId, endpoint);
  }

  /** Takes over the state of an endpoint from another shard. */
  async learn({ tenantId, url, endpoint }: EndpointChange): Promise<void> {
    this.#store.assertWritable();
    const isKnown = this.#endpoints.get(tenantId)?.has(url) === true;
    if (endpoint === null && !isKnown) return;
    const writes =
      endpoint === null ? [this.#forget(tenantId, url)] : this.#remember(tenantId, endpoint);
    await this.#store.commitRecords(writes).done;
  }

  /** At the limit, the endpoint that fails longest is forgotten. */
  #remember(tenantId: TenantId, endpoint: FailingEndpoint): RecordWrite[] {
    const ofTenant = this.#ofTenant(tenantId);
    const writes: RecordWrite[] = [];
    if (!ofTenant.has(endpoint.url) && ofTenant.size >= endpointsPerTenantMax) {
      const [oldest] = ofTenant.keys();
      writes.push(this.#forget(tenantId, oldest as string));
    }
    this.#ofTenant(tenantId).set(endpoint.url, endpoint);
    return [...writes, writeOfEndpoint(tenantId, endpoint)];
  }

  #forget(tenantId: TenantId, url: string): RecordWrite {
    const ofTenant = this.#endpoints.get(tenantId);
    ofTenant?.delete(url);
    if (ofTenant?.size === 0) this.#endpoints.delete(tenantId);
    return removalOfEndpoint(tenantId, url);
  }

  #ofTenant(tenantId: TenantId): Map<string, FailingEndpoint> {
    const known = this.#endpoints.get(tenantId) ?? new Map<string, FailingEndpoint>();
    this.#endpoints.set(tenantId, known);
    return known;
  }

  /** Endpoints that fail or are disabled. */
  endpoints(tenantId: TenantId): readonly FailingEndpoint[] {
    return [...(this.#endpoints.get(tenantId)?.values() ?? [])];
  }

  /** Sends webhooks to the endpoint again; false when the endpoint neither fails nor is disabled. */
  async enable(tenantId: TenantId, url: string): Promise<boolean> {
    this.#store.assertWritable();
    const endpoint = endpointOf(url);
    if (this.#endpoints.get(tenantId)?.has(endpoint) !== true) return false;
    await this.#store.commitRecords([this.#forget(tenantId, endpoint)]).done;
    return true;
  }

  /** The secrets of the tenant in the store, the newest first. */
  secrets(tenantId: TenantId): readonly SigningSecret[] {
    return this.#secrets.get(tenantId) ?? [];
  }

  /** The secrets that sign now; an empty text stands for the secret in the configuration. */
  signingWith(tenantId: TenantId): readonly string[] {
    return signingNow(this.secrets(tenantId), this.#clock.nowMs());
  }

  /** False when the tenant has no secret with the id that is to be revoked. */
  async changeSecrets(tenantId: TenantId, change: SecretsChange): Promise<boolean> {
    const next = nextSecrets(this.secrets(tenantId), change, this.#clock.nowMs());
    if (next === undefined) return false;
    await this.setSecrets(tenantId, next);
    return true;
  }

  /** Takes over the secrets from another shard. */
  async setSecrets(tenantId: TenantId, secrets: readonly SigningSecret[]): Promise<void> {
    this.#store.assertWritable();
    const { done } = this.#store.commitRecords([writeOfSigning(tenantId, secrets)]);
    if (secrets.length === 0) this.#secrets.delete(tenantId);
    else this.#secrets.set(tenantId, secrets);
    await done;
  }

  #find(tenantId: TenantId, id: TaskId): Task | undefined {
    const task = this.#store.task(id);
    return task?.tenantId === tenantId ? task : undefined;
  }
}

/** A URL without its query, which may be of one task only. */
function endpointOf(url: string): string {
  const parsed = URL.parse(url);
  return parsed === null ? url : parsed.origin + parsed.pathname;
}

function textOf({ number, id }: Position): string {
  return `${number}.${id}`;
}

function positionOf(text: string): Position {
  const dot = text.indexOf(".");
  return { number: Number(text.slice(0, dot)), id: text.slice(dot + 1) as TaskId };
}
