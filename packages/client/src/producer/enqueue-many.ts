/** The outcome for each of several tasks, if it differs between them. */
import { CodeqError, messageOf } from "../codeq-error.ts";
import type { Run } from "./run.ts";

/** The outcome for one of several tasks: it is stored, or the reason why not. */
export type EnqueueOutcome<Output> =
  | { readonly ok: true; readonly run: Run<Output> }
  | { readonly ok: false; readonly error: unknown };

/** What `enqueueMany` rejects with when some tasks are not stored. */
export class EnqueueManyError extends CodeqError {
  override readonly name: string = "EnqueueManyError";
  /** In the order of the items. */
  readonly outcomes: readonly EnqueueOutcome<unknown>[];

  constructor(outcomes: readonly EnqueueOutcome<unknown>[]) {
    const refused = outcomes.filter((outcome) => !outcome.ok);
    const [first] = refused;
    const why = first === undefined ? "" : messageOf(first.error);
    super("some_refused", `${refused.length} of ${outcomes.length} tasks are not stored: ${why}`);
    this.outcomes = outcomes;
  }
}
