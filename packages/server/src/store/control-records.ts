/**
 * Reads what is no task: API keys, audit records, subscriptions and bulk jobs, wherever they are kept. A
 * record that cannot be read is set aside, and not there for anybody.
 */
import { FaultError, type Kv, type KvEntry, type KvRange, unseal } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { type ApiKey, type ApiKeyId, decodeApiKey } from "./api-key-record.ts";
import { type AuditRecord, decodeAudit } from "./audit-record.ts";
import { type BulkJob, decodeJob } from "./job-record.ts";
import {
  allAuditPrefix,
  apiKeyKey,
  apiKeysOf,
  apiKeysPrefix,
  apiKeyUsesPrefix,
  auditOfPrefix,
  auditPrefix,
  endOf,
  jobsPrefix,
  newestFirst,
  shardsKey,
  subscriptionKey,
  subscriptionsPrefix,
  subscriptionTurnsPrefix,
} from "./keys.ts";
import {
  decodeSubscription,
  type Subscription,
  type SubscriptionId,
} from "./subscription-record.ts";

/** Where to look for audit records. */
export interface AuditRange {
  /** Undefined for all of them. */
  readonly tenantId: TenantId | undefined;
  readonly fromMs: number | undefined;
  /** Not included. */
  readonly toMs: number | undefined;
  /** The id of the record before; empty for the first. */
  readonly after: string;
}

/** Keys and their values, as an engine and a kv have them. */
export interface RecordReads {
  getText(key: string): string | undefined;
  scan(range: KvRange, limit: number): Promise<KvEntry[]>;
  scanKeys(range: KvRange, limit: number): Promise<string[]>;
}

const pieceEntries = 1000;
const prefixes = [
  apiKeysPrefix,
  apiKeyUsesPrefix,
  allAuditPrefix,
  subscriptionsPrefix,
  subscriptionTurnsPrefix,
  jobsPrefix,
];

/** Whether the key is of a record that is no task, nor anything of a queue. */
export function isControlKey(key: string): boolean {
  return key === shardsKey || prefixes.some((prefix) => key.startsWith(prefix));
}

export class ControlRecords {
  readonly #reads: RecordReads;
  readonly #setAside: (key: string) => void;

  constructor(reads: RecordReads, setAside: (key: string) => void) {
    this.#reads = reads;
    this.#setAside = setAside;
  }

  /** Reads a kv that no engine has open. What cannot be read stays where it is. */
  static of(kv: Kv): ControlRecords {
    return new ControlRecords(readsOf(kv), () => {});
  }

  async *jobs(): AsyncGenerator<BulkJob> {
    for await (const [key, value] of scanAll(this.#reads, jobsPrefix)) {
      const job = decodeJob(value.toString("utf8"));
      if (job === undefined) this.#setAside(key);
      else yield job;
    }
  }

  async *apiKeys(): AsyncGenerator<ApiKey> {
    for await (const [key, value] of scanAll(this.#reads, apiKeysPrefix)) {
      const record = decodeApiKey(value.toString("utf8"));
      const isWhole = record !== undefined && apiKeyKey(record.tenantId, record.id) === key;
      if (isWhole) yield record;
      else this.#setAside(key);
    }
  }

  /** When API keys were last used, about. */
  async *apiKeyUses(): AsyncGenerator<readonly [ApiKeyId, number]> {
    for await (const [key, value] of scanAll(this.#reads, apiKeyUsesPrefix)) {
      yield [key.slice(apiKeyUsesPrefix.length) as ApiKeyId, Number(value.toString("latin1"))];
    }
  }

  async *subscriptions(): AsyncGenerator<Subscription> {
    for await (const [key, value] of scanAll(this.#reads, subscriptionsPrefix)) {
      const record = decodeSubscription(value.toString("utf8"));
      const isWhole = record !== undefined && subscriptionKey(record.tenantId, record.id) === key;
      if (isWhole) yield record;
      else this.#setAside(key);
    }
  }

  /** When subscribers were last told. */
  async *subscriptionTurns(): AsyncGenerator<readonly [SubscriptionId, number]> {
    for await (const [key, value] of scanAll(this.#reads, subscriptionTurnsPrefix)) {
      const id = key.slice(subscriptionTurnsPrefix.length) as SubscriptionId;
      yield [id, Number(value.toString("latin1"))];
    }
  }

  /** `<tenant>/<id>` of API keys in their order, behind one of them. */
  async apiKeyNames(wanted: {
    /** Undefined for all of them. */
    readonly tenantId: TenantId | undefined;
    readonly after: string;
    readonly limit: number;
  }): Promise<string[]> {
    const { tenantId, after, limit } = wanted;
    const prefix = tenantId === undefined ? apiKeysPrefix : apiKeysOf(tenantId);
    const from = apiKeysPrefix + after;
    const range = { after: from.startsWith(prefix) ? from : prefix, before: endOf(prefix) };
    const keys = await this.#reads.scanKeys(range, limit);
    return keys.map((key) => key.slice(apiKeysPrefix.length));
  }

  /** The ids of audit records in their order, the newest first. */
  async auditIds(wanted: AuditRange, limit: number): Promise<string[]> {
    const { tenantId, fromMs, toMs, after } = wanted;
    const prefix = tenantId === undefined ? auditPrefix : auditOfPrefix(tenantId);
    // A moment's records stand between it and the same with a tilde.
    const start = toMs === undefined ? prefix : `${prefix}${newestFirst(toMs)}/~`;
    const before = fromMs === undefined ? endOf(prefix) : `${prefix}${newestFirst(fromMs)}/~`;
    const from = prefix + after;
    const keys = await this.#reads.scanKeys({ after: further(from, start), before }, limit);
    return keys.map((key) => key.slice(prefix.length));
  }

  auditRecord(id: string): AuditRecord | undefined {
    const key = auditPrefix + id;
    const text = this.#reads.getText(key);
    const record = text === undefined ? undefined : decodeAudit(id, text);
    if (text !== undefined && record === undefined) this.#setAside(key);
    return record;
  }
}

/** All entries below a prefix in order, read in pieces so that no scan holds much at once. */
export async function* scanAll(
  reads: Pick<RecordReads, "scan">,
  prefix: string,
): AsyncGenerator<KvEntry> {
  let after = prefix;
  for (;;) {
    const entries = await reads.scan({ after, before: endOf(prefix) }, pieceEntries);
    yield* entries;
    const last = entries.at(-1);
    if (last === undefined || entries.length < pieceEntries) return;
    after = last[0];
  }
}

function readsOf(kv: Kv): RecordReads {
  const next = async (range: KvRange, limit: number): Promise<KvEntry[]> => {
    const cursor = kv.cursor(range);
    try {
      return await cursor.next(limit);
    } finally {
      await cursor.close();
    }
  };
  return {
    getText: (key) => {
      const stored = kv.get(key);
      return stored && wholeOr(key, stored, nothing).toString("utf8");
    },
    // An empty value decodes to nothing, as one does that cannot be read.
    scan: async (range, limit) =>
      (await next(range, limit)).map(([key, value]) => [key, wholeOr(key, value, nothing)]),
    scanKeys: async (range, limit) => (await next(range, limit)).map(([key]) => key),
  };
}

const nothing: Buffer = Buffer.alloc(0);

function wholeOr(key: string, stored: Buffer, otherwise: Buffer): Buffer {
  try {
    return unseal(key, stored);
  } catch (error) {
    if (error instanceof FaultError && error.code === "corrupt") return otherwise;
    throw error;
  }
}

/** Of two keys the one that stands behind the other. */
function further(key: string, other: string): string {
  if (key > other) return key;
  return other;
}
