/**
 * Ends a task. The result, the final state and everything derived from it become durable together or not at
 * all; a repeat by the same worker returns the stored record.
 */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import type { Artifact, Result, Submission } from "@codeq/queue";
import type { MayFinish } from "../../core/broker/broker.ts";
import type { Submitted, TaskRefusal, Waiter } from "../../core/broker/verbs.ts";
import { type MaybePromise, whenKnown } from "../../core/maybe-promise.ts";
import { bindByHand } from "../../edge/bind.ts";
import {
  type Answer,
  type Call,
  type OwnedTaskInput,
  ownedTask,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { answerEach, answerOf, isUnknown } from "../../edge/refusal-of.ts";
import { cutStack, problemOfUsed } from "./return-task.ts";

export interface ArtifactInput {
  readonly name: string;
  readonly url: string;
  readonly contentBase64: string;
  /** Empty if the worker does not name it. */
  readonly contentType: string;
}

export interface SubmitResultInput extends OwnedTaskInput {
  /** Who the worker says it is; empty if it does not say. */
  readonly workerId: string;
  readonly status: string;
  /** JSON text of an object; undefined when there is none. */
  readonly resultJson: string | undefined;
  readonly error: string;
  readonly stack?: string | undefined;
  readonly artifacts: readonly ArtifactInput[];
  /** The host that the request names; on streams there is none. */
  readonly host?: string;
  /** Units of the rate that the attempt took. */
  readonly used?: number | undefined;
}

/** The record that is stored, which may be one that an earlier submit left. */
export interface SubmittedResult extends Result {
  readonly repeated?: true;
  /** The repeat said something else than what is stored. */
  readonly bodyDiffered?: true;
}

export const submitResult = bindByHand<SubmitResultInput, SubmittedResult>(api.work.submitResult, {
  run: (server, call, input) => submitted(server, call, input),
});

export const submitResults = bindByHand<
  readonly SubmitResultInput[],
  readonly Answer<SubmittedResult>[]
>(api.work.submitResults, {
  run: async (server, call, inputs) => {
    const { resultBatchMax } = server.config;
    if (inputs.length > resultBatchMax) {
      return refusal("invalid_argument", `batch size exceeds maximum of ${resultBatchMax}`);
    }
    // A fault that is thrown at once must not leave results behind that wait for their files.
    return answerEach(inputs.map(async (input) => submitted(server, call, input)));
  },
});

function submitted(
  server: Server,
  call: Call,
  input: SubmitResultInput,
): MaybePromise<Answer<SubmittedResult>> {
  return whenKnown(submitAny(server, call, input), (answer) => {
    if (!answer.ok) noteRefused(server, call, input, answer);
    return answer;
  });
}

/** Tracing has a span for a result that was not accepted. */
export function noteRefused(
  { events }: Pick<Server, "events">,
  { identity }: Pick<Call, "identity">,
  { id: taskId, workerId }: Pick<SubmitResultInput, "id" | "workerId">,
  { code }: Refusal,
): void {
  const { tenantId } = identity;
  events.taskRefused({
    because: "finished",
    code,
    tenantId,
    taskId,
    workerId: workerId || identity.workerId,
    traceParent: undefined,
    traceState: undefined,
  });
}

/** With files or without. */
export function submitAny(
  server: Server,
  call: Pick<Call, "identity">,
  input: SubmitResultInput,
): MaybePromise<Answer<SubmittedResult>> {
  const problem = problemOf(server, call, input);
  // Without files there is nothing to wait for, and what a caller sent first is decided first.
  if (problem === undefined && input.artifacts.length === 0) {
    return decide(server, call, { input, artifacts: noArtifacts });
  }
  return whenKnown(mayFinish(server, call, input), (admitted) => {
    if (typeof admitted === "string") return refused(admitted);
    if (problem !== undefined) return problem;
    return admitted.isRepeat
      ? decide(server, call, { input, artifacts: noArtifacts })
      : submitWithFiles(server, call, input);
  });
}

/** The files of a submission that does not become the result are removed. */
async function submitWithFiles(
  server: Server,
  call: Pick<Call, "identity">,
  input: SubmitResultInput,
): Promise<Answer<SubmittedResult>> {
  const { host = "" } = input;
  const owner = { ...ownedTask(call, input), host };
  const stored = await server.artifacts.store(owner, input.artifacts);
  if (!stored.ok) return stored;
  const { artifacts, settle } = stored.value;
  let isKept = true;
  try {
    const answer = await decide(server, call, { input, artifacts });
    // Files that the result may name stay; the sweep removes them if it does not.
    isKept = isUnknown(answer) || (answer.ok && answer.value.repeated !== true);
    return answer;
  } finally {
    await settle(isKept);
  }
}

async function decide(
  server: Server,
  call: Pick<Call, "identity">,
  { input, artifacts }: { input: SubmitResultInput; artifacts: readonly Artifact[] },
): Promise<Answer<SubmittedResult>> {
  const answer = await answerOf<Submitted>(server, (waiter) => {
    server.broker.submit(ownedTask(call, input), submissionOf(input, artifacts), waiter);
    return undefined;
  });
  if (answer.ok) {
    const { result, repeated } = answer.value;
    return { ok: true, value: repeated ? repeatOf(result, input) : result };
  }
  return answer.code === "task_unknown" ? refused(answer.code) : answer;
}

function repeatOf(stored: Result, input: SubmitResultInput): SubmittedResult {
  const { resultJson = "", error, artifacts } = input;
  const isSame = stored.resultJson === resultJson && stored.error === error;
  if (isSame && hasSameArtifacts(stored, artifacts)) return { ...stored, repeated: true };
  return { ...stored, repeated: true, bodyDiffered: true };
}

/** In order: links by name and URL, files by name. Files that were stored before the submit are behind them. */
function hasSameArtifacts({ artifacts }: Result, sent: readonly ArtifactInput[]): boolean {
  const kept = sent.filter(({ url, contentBase64 }) => url !== "" || contentBase64 !== "");
  return (
    kept.every(({ name, url }, at) => {
      const stored = artifacts[at];
      const isFile = stored?.sha256 !== undefined;
      return stored?.name === name && (url === "" ? isFile : !isFile && stored.url === url);
    }) && artifacts.slice(kept.length).every(({ sha256 }) => sha256 !== undefined)
  );
}

/** Decides about a result that brings no files; the waiter hears of it. */
export function submitNow(
  server: Server,
  call: Pick<Call, "identity">,
  input: SubmitResultInput,
  waiter: Waiter<Submitted>,
  item = 0,
): MaybePromise<Refusal> | undefined {
  const problem = problemOf(server, call, input);
  if (problem === undefined) {
    const submission = submissionOf(input, noArtifacts);
    server.broker.submit(ownedTask(call, input), submission, waiter, item);
    return undefined;
  }
  return whenKnown(mayFinish(server, call, input), (admitted) =>
    typeof admitted === "string" ? refused(admitted) : problem,
  );
}

const noArtifacts: readonly Artifact[] = [];

/** Only the owner of the task learns what is wrong with the submission. */
function mayFinish(
  server: Server,
  call: Pick<Call, "identity">,
  input: SubmitResultInput,
): MaybePromise<MayFinish> {
  return server.broker.mayFinish(ownedTask(call, input), howOf(input));
}

function howOf({ status }: SubmitResultInput): Submission["how"] {
  return status === "COMPLETED" ? "completed" : "failed";
}

function submissionOf(input: SubmitResultInput, artifacts: readonly Artifact[]): Submission {
  const { resultJson: json = "", error } = input;
  let resultBytes = Buffer.byteLength(json);
  for (const { name, url, bytes = 0 } of artifacts) {
    resultBytes += Buffer.byteLength(name) + Buffer.byteLength(url) + bytes;
  }
  const stack = cutStack(input.stack);
  const { used } = input;
  return { how: howOf(input), error, stack, result: { json, artifacts }, resultBytes, used };
}

function refused(code: TaskRefusal): Refusal {
  return refusal(code === "task_unknown" ? "task_not_found" : code);
}

/** What is wrong with the submission itself. */
function problemOf(
  { config }: Pick<Server, "config">,
  { identity }: Pick<Call, "identity">,
  input: SubmitResultInput,
): Refusal | undefined {
  const { workerId } = input;
  const isCaller = workerId === identity.workerId || workerId === identity.subject;
  if (workerId !== "" && !isCaller && !config.lenientInput) return refusal("not_owner");
  if (input.status !== "COMPLETED" && input.status !== "FAILED") {
    return refusal("invalid_argument", "invalid status");
  }
  if (input.status === "COMPLETED" && input.resultJson === undefined) {
    return refusal("invalid_argument", "result required when status=COMPLETED");
  }
  if (input.status === "FAILED" && input.error.trim() === "") {
    return refusal("invalid_argument", "error required when status=FAILED");
  }
  if (input.error.length > limits.errorCharsMax) {
    const max = limits.errorCharsMax;
    return refusal("invalid_argument", `invalid 'error' (at most ${max} characters)`);
  }
  if (input.artifacts.length > limits.artifactsMax) {
    return refusal("invalid_argument", `invalid 'artifacts' (at most ${limits.artifactsMax})`);
  }
  return problemOfUsed(input) ?? problemOfNames(input.artifacts);
}

/** File systems count bytes, and a name that one of them refuses is not a failure of the server. */
function problemOfNames(artifacts: readonly ArtifactInput[]): Refusal | undefined {
  const max = limits.artifactNameCharsMax;
  const tooLong = artifacts.find(
    ({ name, url, contentBase64 }) =>
      url === "" && contentBase64 !== "" && Buffer.byteLength(name) > max,
  );
  if (tooLong === undefined) return undefined;
  const shown = tooLong.name.slice(0, max);
  return refusal("invalid_argument", `artifact ${shown} upload: the name has over ${max} bytes`);
}
