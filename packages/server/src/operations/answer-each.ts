/**
 * The answers to the parts of a batch. Some of it may be durable when the storage refuses the rest,
 * so each part tells for itself; when nothing was taken the batch is refused as a whole.
 */
import { FaultError } from "@codeq/engine";
import type { ErrorCode } from "@codeq/protocol";
import type { MaybePromise } from "../maybe-promise.ts";
import { type Answer, type Refusal, refusal } from "./operation.ts";

export async function answerEach<T>(
  parts: readonly MaybePromise<Answer<T>>[],
): Promise<Answer<readonly Answer<T>[]>> {
  const answers: Answer<T>[] = [];
  let faulted: Refusal | undefined;
  let faults = 0;
  for (const part of await Promise.allSettled(parts)) {
    if (part.status === "fulfilled") {
      answers.push(part.value);
      continue;
    }
    if (!(part.reason instanceof FaultError)) throw part.reason;
    faulted = refusalOf(part.reason);
    faults += 1;
    answers.push(faulted);
  }
  return faulted !== undefined && faults === parts.length ? faulted : { ok: true, value: answers };
}

/** What a caller is told when the storage fails. */
export function refusalOf(fault: FaultError): Refusal {
  return refusal(codeOf(fault));
}

function codeOf(fault: FaultError): ErrorCode {
  switch (fault.code) {
    case "disk_full":
      return "disk_full";
    case "closed":
      return "shutting_down";
    case "storage_failed":
    case "corrupt":
    case "locked":
    case "format":
      return "storage_failed";
  }
}
