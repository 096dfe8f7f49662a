/**
 * The control records: everything that is stored and is not a task. Each kind of record is declared by the code
 * that owns it; this file only knows where the keys of a kind begin. A record that cannot be read is set aside.
 */
import { FaultError, type Kv, type KvEntry, type KvRange, unseal } from "@codeq/engine";
import { controlPrefixes, endOf, shardsKey } from "../store/keys.ts";
import type { RecordText } from "../store/store.ts";

/** One kind of control record. */
export interface RecordKind<T> {
  readonly prefix: string;
  /** The name is the key without the prefix. Undefined for a text that is not a record with this name. */
  decode(text: string, name: string): T | undefined;
}

/** The names of a kind between `after` and `before`, both excluded and without the prefix. */
export interface NameRange {
  readonly prefix: string;
  readonly after?: string;
  readonly before?: string | undefined;
}

/** Keys and their values, as an engine and a kv have them. */
export interface RecordReads {
  getText(key: string): string | undefined;
  scan(range: KvRange, limit: number): Promise<KvEntry[]>;
  scanKeys(range: KvRange, limit: number): Promise<string[]>;
}

const pieceEntries = 1000;
/** Whether the key is that of a control record, not of a task or a queue. */
export function isControlKey(key: string): boolean {
  return key === shardsKey || controlPrefixes.some((prefix) => key.startsWith(prefix));
}

export class ControlRecords {
  readonly #reads: RecordReads;
  readonly #setAside: (key: string) => void;

  constructor(reads: RecordReads, setAside: (key: string) => void) {
    this.#reads = reads;
    this.#setAside = setAside;
  }

  /** Reads a kv that no engine has open. Records that cannot be read are not set aside. */
  static of(kv: Kv): ControlRecords {
    return new ControlRecords(readsOf(kv), () => {});
  }

  async *all<T>(kind: RecordKind<T>): AsyncGenerator<T> {
    for await (const [key, value] of scanAll(this.#reads, kind.prefix)) {
      const record = kind.decode(value.toString("utf8"), key.slice(kind.prefix.length));
      if (record === undefined) this.#setAside(key);
      else yield record;
    }
  }

  get<T>(kind: RecordKind<T>, name: string): T | undefined {
    const key = kind.prefix + name;
    const text = this.#reads.getText(key);
    if (text === undefined) return undefined;
    const record = kind.decode(text, name);
    if (record === undefined) this.#setAside(key);
    return record;
  }

  /** The names in order, without reading the records. */
  async names({ prefix, after = "", before }: NameRange, limit: number): Promise<string[]> {
    const end = before === undefined ? endOf(prefix) : prefix + before;
    const keys = await this.#reads.scanKeys({ after: prefix + after, before: end }, limit);
    return keys.map((key) => key.slice(prefix.length));
  }
}

/** What a write means to the owner of a kind; undefined for a write of another kind. */
export function changeIn<T>(
  { prefix, decode }: RecordKind<T>,
  { key, text }: RecordText,
): { readonly name: string; readonly record: T | undefined } | undefined {
  if (!key.startsWith(prefix)) return undefined;
  const name = key.slice(prefix.length);
  return { name, record: text === undefined ? undefined : decode(text, name) };
}

/** The last part of a name such as `<tenant>/<id>`. */
export function idIn(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}

/** All entries below a prefix in order, read in pieces so that no scan holds much at once. */
export async function* scanAll(
  reads: Pick<RecordReads, "scan">,
  prefix: string,
  start = prefix,
): AsyncGenerator<KvEntry> {
  let after = start;
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
    // An empty value decodes to undefined, like one that cannot be read.
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
