/** Messages between nodes and the leader of the control log, as bytes. */
import { type FaultError, type Op, opKinds } from "@codeq/engine";
import {
  type Codec,
  json,
  list,
  number,
  oneOf,
  optional,
  struct,
  text,
} from "../../core/store/codec.ts";
import type { RecordText, RecordWrite } from "../../core/store/store.ts";

export interface CommitRequest {
  readonly number: number;
  readonly writes: readonly RecordWrite[];
  readonly expected: readonly RecordText[];
}

/** Records of the control log are texts. */
type TextWrite = RecordWrite & { readonly value: string };

export const commitRequest: Codec<CommitRequest> = struct({
  number,
  writes: list(
    struct<TextWrite>({
      kind: oneOf<Op["kind"]>([opKinds.put, opKinds.create, opKinds.delete]),
      key: text,
      value: text,
    }),
  ) as Codec<readonly RecordWrite[]>,
  expected: list(struct<RecordText>({ key: text, text: optional(text) })),
});

export type ControlAnswer =
  /** The first answer on a channel: the leader is up. */
  | { readonly kind: "hello" }
  /** The commit is durable, in the record with this index. */
  | { readonly kind: "kept"; readonly number: number; readonly index: number }
  /** A record is not as expected; nodes that have applied the record with this index can see why. */
  | { readonly kind: "changed"; readonly number: number; readonly index: number }
  | {
      readonly kind: "refused";
      readonly number: number;
      readonly code: FaultError["code"];
      readonly why: string;
    };

export const controlAnswer: Codec<ControlAnswer> = json();
