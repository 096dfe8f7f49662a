/**
 * API keys: created and revoked while the server runs, stored as hashes, and all held in memory, so that
 * checking a key needs no read.
 *
 * - Memory follows the control store: a key works once its record is durable, and is refused in the event
 *   loop turn in which this server hears of its durable deletion. Holders of the key are notified in that turn.
 * - A node of a cluster that cannot know whether a key was revoked accepts no key.
 * - Changes are made one after the other, so no change sees another one half done.
 * - The time of the last use is noted in memory and written from time to time; a crash loses at most the
 *   latest notes.
 */

import { hash, timingSafeEqual } from "node:crypto";
import { FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import { accept, type Outcome, refuse, type TenantId } from "@codeq/queue";
import type { Clock } from "../../../core/clock.ts";
import { type ControlRecords, changeIn, idIn } from "../../../core/control/control-records.ts";
import type { ControlListener, ControlStore } from "../../../core/control/control-store.ts";
import type { RecordText } from "../../../core/store/store.ts";
import type { Job } from "../../../core/sweeps/ticker.ts";
import type { RandomBytes } from "../../../core/task-ids.ts";
import type { AuditEntry } from "../../audit/audit-trail.ts";
import { adminScope, operatorScope, viewerScope } from "../identity.ts";
import type { Claims, Revocations, TokenProvider, Verified } from "../token-provider.ts";
import {
  type ApiKey,
  type ApiKeyId,
  type ApiKeyUse,
  apiKeyRange,
  apiKeyRecords,
  apiKeyUses,
  removalsOfApiKey,
  writesOfApiKey,
  writesOfUse,
} from "./api-key-record.ts";
import { drawApiKey, idInApiKey, looksLikeApiKey } from "./api-key-text.ts";

export interface ApiKeysParts {
  readonly store: ControlStore;
  readonly clock: Clock;
  readonly revocations: Revocations;
  readonly randomBytes: RandomBytes;
}

export type ApiKeyRequest = Omit<ApiKey, "id" | "hash" | "createdMs">;

/** The audit record of a change, which becomes durable together with it, or not at all. */
export type Audit = (key: ApiKey) => AuditEntry;

export interface CreatedApiKey {
  readonly key: ApiKey;
  /** Its text, which cannot be shown again. */
  readonly token: string;
}

export interface KnownApiKey {
  readonly key: ApiKey;
  /** About when it was last used; undefined for never. */
  readonly lastUsedMs: number | undefined;
}

export interface ApiKeyPage {
  readonly keys: readonly KnownApiKey[];
  /** Where the next page begins; undefined after the last page. */
  readonly next: string | undefined;
}

interface Entry {
  readonly key: ApiKey;
  readonly hash: Buffer;
  readonly claims: Claims;
  isRevoked: boolean;
  lastUsedMs: number | undefined;
  /** The stored time of the last use. */
  writtenUseMs: number | undefined;
}

/** A use is written if the stored time is older than this. */
const useStepMs = 10 * 60 * 1000;
/** How long uses are collected before they are written together. */
const gatherUsesMs = 60 * 1000;
const usesPerBatchMax = 1000;

export class ApiKeys implements TokenProvider, ControlListener, AsyncDisposable {
  readonly #parts: ApiKeysParts;
  readonly #entries: Map<ApiKeyId, Entry> = new Map();
  readonly #counts: Map<TenantId, number> = new Map();
  /** Entries whose last use is not stored yet, and since when there are such entries. */
  readonly #used: Set<Entry> = new Set();
  #usedSinceMs = 0;
  /** Whether memory is known to have no revoked key. */
  #isCurrent = false;
  #changes: Promise<unknown> = Promise.resolve();
  /** Called when there is something to write. */
  onUsed: () => void = () => {};

  private constructor(parts: ApiKeysParts) {
    this.#parts = parts;
  }

  static async open(parts: ApiKeysParts): Promise<ApiKeys> {
    const keys = new ApiKeys(parts);
    await parts.store.listen(keys);
    return keys;
  }

  get size(): number {
    return this.#entries.size;
  }

  verify(token: string): Verified {
    if (!looksLikeApiKey(token)) return refuse("invalid_token");
    const id = idInApiKey(token);
    if (id === undefined) return refuse("mistyped_key");
    if (!this.#isCurrent) return refuse("keys_unavailable");
    const entry = this.#entries.get(id);
    const isRight =
      entry !== undefined && timingSafeEqual(entry.hash, hash("sha256", token, "buffer"));
    return isRight ? accept(entry.claims) : refuse("invalid_token");
  }

  find(id: ApiKeyId): KnownApiKey | undefined {
    return this.#entries.get(id);
  }

  /** Ordered by tenant, and within a tenant from the oldest to the newest. */
  async list(wanted: {
    /** Undefined for all tenants. */
    readonly tenantId: TenantId | undefined;
    /** `next` of the page before, or empty. */
    readonly after: string;
    readonly limit: number;
  }): Promise<ApiKeyPage> {
    const { tenantId, after, limit } = wanted;
    const found = await this.#parts.store.records.names(apiKeyRange(tenantId, after), limit + 1);
    const page = found.slice(0, limit);
    return {
      // A key that is being created or revoked is not listed.
      keys: page
        .map((name) => this.#entries.get(idIn(name) as ApiKeyId))
        .filter((each) => each !== undefined),
      next: found.length > limit ? page.at(-1) : undefined,
    };
  }

  create(request: ApiKeyRequest, audit: Audit): Promise<Outcome<CreatedApiKey, "too_many_keys">> {
    return this.#inTurn(async () => {
      const { store, clock, randomBytes } = this.#parts;
      const nowMs = clock.nowMs();
      const expired = this.#expiredToMakeRoom(request.tenantId, nowMs);
      if (expired === undefined) return refuse("too_many_keys");
      const { id, token } = drawApiKey(nowMs, randomBytes);
      const key: ApiKey = { ...request, id, hash: hash("sha256", token), createdMs: nowMs };
      const removed = expired.flatMap((entry) => removalsOfApiKey(entry.key));
      const entry = audit(key);
      await store.commit([...writesOfApiKey(key), ...removed, ...entry.writes]);
      entry.log();
      return accept({ key, token });
    });
  }

  /** Returns the revoked key; undefined if there was none. */
  revoke(
    wanted: { readonly id: ApiKeyId; readonly tenantId: TenantId | undefined },
    audit: Audit,
  ): Promise<ApiKey | undefined> {
    return this.#inTurn(async () => {
      // Another node may have created the key a moment ago.
      if (!this.#entries.has(wanted.id)) await this.#parts.store.refresh();
      const entry = this.#entries.get(wanted.id);
      if (entry === undefined) return undefined;
      const { key } = entry;
      if (wanted.tenantId !== undefined && key.tenantId !== wanted.tenantId) return undefined;
      const { writes, log } = audit(key);
      await this.#parts.store.commit([...removalsOfApiKey(key), ...writes]);
      log();
      return key;
    });
  }

  /** A call was made with the key. */
  noteUse(id: ApiKeyId): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    const nowMs = this.#parts.clock.nowMs();
    entry.lastUsedMs = nowMs;
    const writtenMs = entry.writtenUseMs ?? Number.NEGATIVE_INFINITY;
    if (nowMs - writtenMs < useStepMs || this.#used.has(entry)) return;
    if (this.#used.size === 0) this.#usedSinceMs = this.#parts.clock.monotonicMs();
    this.#used.add(entry);
    this.onUsed();
  }

  /** When uses have to be written, on the monotonic clock. */
  get writeUsesAtMs(): number | undefined {
    return this.#used.size === 0 ? undefined : this.#usedSinceMs + gatherUsesMs;
  }

  /** Writes a bounded number of uses. */
  writeUses(): Promise<void> {
    return this.#inTurn(async () => {
      const entries = [...this.#used].slice(0, usesPerBatchMax);
      if (entries.length === 0) return;
      const writes = entries.flatMap(({ key, lastUsedMs }) => writesOfUse(key.id, lastUsedMs ?? 0));
      const nowMs = this.#parts.clock.nowMs();
      await this.#parts.store.commit(writes);
      for (const entry of entries) {
        entry.writtenUseMs = nowMs;
        this.#used.delete(entry);
      }
    });
  }

  /** Writes the uses; they are dropped if the storage accepts no writes. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      while (this.#used.size > 0) await this.writeUses();
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
    }
  }

  changed(write: RecordText): void {
    const use = changeIn(apiKeyUses, write)?.record;
    if (use !== undefined) this.#noteWrittenUse(use);
    const change = changeIn(apiKeyRecords, write);
    if (change === undefined) return;
    const entry = this.#entries.get(idIn(change.name) as ApiKeyId);
    if (entry === undefined && change.record !== undefined) this.#add(change.record);
    if (entry !== undefined && change.record === undefined) this.#revoke(entry);
  }

  async load(records: ControlRecords): Promise<void> {
    const found = new Set<Entry>();
    for await (const key of records.all(apiKeyRecords))
      found.add(this.#entries.get(key.id) ?? this.#add(key));
    for await (const use of records.all(apiKeyUses)) this.#noteWrittenUse(use);
    for (const entry of this.#entries.values()) if (!found.has(entry)) this.#revoke(entry);
    this.#isCurrent = true;
  }

  /** Ends streams and waiting requests, because their keys may have been revoked meanwhile. */
  doubt(): void {
    this.#isCurrent = false;
    for (const entry of this.#entries.values()) this.#revoke(entry);
  }

  /** Runs a change after the changes before it. */
  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changes.then(change);
    // The caller of a failed change handles the error; later changes run anyway.
    this.#changes = done.catch(() => {});
    return done;
  }

  /**
   * The expired keys of the tenant to delete so that it may have one more key: empty if it may already, undefined if
   * it has too many valid keys.
   */
  #expiredToMakeRoom(tenantId: TenantId, nowMs: number): Entry[] | undefined {
    if (this.#entries.size >= limits.apiKeysMax) return undefined;
    if ((this.#counts.get(tenantId) ?? 0) < limits.apiKeysPerTenantMax) return [];
    const expired = [...this.#entries.values()].filter(
      ({ key }) =>
        key.tenantId === tenantId && (key.expiresMs ?? Number.POSITIVE_INFINITY) <= nowMs,
    );
    return expired.length === 0 ? undefined : expired;
  }

  #add(key: ApiKey): Entry {
    const entry: Entry = {
      key,
      hash: Buffer.from(key.hash, "hex"),
      claims: claimsOf(key, () => entry.isRevoked),
      isRevoked: false,
      lastUsedMs: undefined,
      writtenUseMs: undefined,
    };
    this.#entries.set(key.id, entry);
    this.#counts.set(key.tenantId, (this.#counts.get(key.tenantId) ?? 0) + 1);
    return entry;
  }

  #noteWrittenUse({ id, lastUsedMs }: ApiKeyUse): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    entry.lastUsedMs = Math.max(lastUsedMs, entry.lastUsedMs ?? 0);
    entry.writtenUseMs = Math.max(lastUsedMs, entry.writtenUseMs ?? 0);
  }

  #revoke(entry: Entry): void {
    this.#drop(entry);
    this.#parts.revocations.announce();
  }

  #drop(entry: Entry): void {
    const { id, tenantId } = entry.key;
    entry.isRevoked = true;
    this.#entries.delete(id);
    this.#used.delete(entry);
    const count = (this.#counts.get(tenantId) ?? 0) - 1;
    if (count > 0) this.#counts.set(tenantId, count);
    else this.#counts.delete(tenantId);
  }
}

function claimsOf(key: ApiKey, isRevoked: () => boolean): Claims {
  const { id, tenantId, role, eventTypes, expiresMs } = key;
  return {
    subject: id,
    scopes: [...key.scopes, ...scopesOfRole[role]],
    eventTypes,
    // A key always has a role, so that no header can give it another one.
    raw: { tenantId, role },
    expiresMs,
    isRevoked,
    issuedBy: "API key",
    apiKeyId: id,
  };
}

/** A token without scopes of codeQ may create tasks, so the role of a key is also one of its scopes. */
const scopesOfRole = {
  none: [],
  viewer: [viewerScope],
  admin: [adminScope],
  operator: [operatorScope],
} as const;

/** Writes when API keys were last used: many keys at once, and each key only at long intervals. */
export function writeApiKeyUses(apiKeys: ApiKeys): Job {
  return {
    name: "write-api-key-uses",
    nextMs: () => apiKeys.writeUsesAtMs,
    runOnce: () => apiKeys.writeUses(),
  };
}
