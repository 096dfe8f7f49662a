/** Messages between nodes and the leader of the control log, as bytes. */
import { FaultError, type Op, opKinds } from "@codeq/engine";
import { DamagedMessage } from "../core/shards/message.ts";
import type { RecordText, RecordWrite } from "../core/store/store.ts";

export interface CommitRequest {
  readonly number: number;
  readonly writes: readonly RecordWrite[];
  readonly expected: readonly RecordText[];
}

export type ControlAnswer =
  /** The first answer in a conversation: the leader is up. */
  | { readonly kind: "hello" }
  /** The commit is durable, in the record with this index. */
  | { readonly kind: "kept"; readonly number: number; readonly index: number }
  /** A record is not as expected; nodes that have applied the record with this index can see why. */
  | { readonly kind: "changed"; readonly number: number; readonly index: number }
  | {
      readonly kind: "refused";
      readonly number: number;
      readonly code: string;
      readonly why: string;
    };

export function encodeRequest({
  number,
  writes,
  expected,
}: CommitRequest): Uint8Array<ArrayBuffer> {
  const rows = writes.map(({ kind, key, value }) => [kind, key, value]);
  const texts = expected.map(({ key, text }) => [key, text ?? null]);
  return bytesOf([number, rows, texts]);
}

/** Throws when it cannot be read. */
export function decodeRequest(message: Uint8Array): CommitRequest {
  const [number, rows, texts] = valueIn(message) as [
    number,
    readonly [Op["kind"], string, string][],
    readonly [string, string | null][],
  ];
  return {
    number,
    writes: rows.map(([kind, key, value]) => {
      if (!kinds.has(kind)) throw new DamagedMessage("a write of another kind");
      return { kind, key, value };
    }),
    expected: texts.map(([key, text]) => ({ key, text: text ?? undefined })),
  };
}

export function encodeAnswer(answer: ControlAnswer): Uint8Array<ArrayBuffer> {
  return bytesOf(answer);
}

export function decodeAnswer(message: Uint8Array): ControlAnswer {
  return valueIn(message) as ControlAnswer;
}

export function faultOf({
  code,
  why,
}: {
  readonly code: string;
  readonly why: string;
}): FaultError {
  return new FaultError(code as FaultError["code"], why);
}

const kinds: ReadonlySet<number> = new Set([opKinds.put, opKinds.create, opKinds.delete]);

function bytesOf(value: unknown): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(JSON.stringify(value)));
}

function valueIn(message: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(message).toString("utf8"));
  } catch {
    throw new DamagedMessage("no JSON");
  }
}
