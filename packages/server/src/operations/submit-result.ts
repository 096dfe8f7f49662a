/**
 * The end of a task. Result, terminal state and everything that follows become durable together or
 * not at all; a repeat by the same worker gets the record that is there.
 */
import { limits } from "@codeq/protocol";
import { accept, type Result } from "@codeq/queue";
import type { TaskRefusal } from "../broker/broker-requests.ts";
import { type MaybePromise, whenKnown } from "../maybe-promise.ts";
import { answerEach } from "./answer-each.ts";
import { type Answer, type Call, type Operation, refusal, type Server } from "./operation.ts";
import { type OwnedTaskInput, ownedTask } from "./owned-task.ts";

export interface ArtifactInput {
  readonly name: string;
  readonly url: string;
  readonly contentBase64: string;
}

export interface SubmitResultInput extends OwnedTaskInput {
  readonly status: string;
  /** JSON text of an object; undefined when there is none. */
  readonly resultJson: string | undefined;
  readonly error: string;
  readonly artifacts: readonly ArtifactInput[];
}

export const submitResult: Operation<SubmitResultInput, Result> = {
  name: "submit_result",
  access: "worker",
  scope: "codeq:result",
  run: (server, call, input) => submit(server, call, input),
};

export const submitResults: Operation<readonly SubmitResultInput[], readonly Answer<Result>[]> = {
  name: "submit_results",
  access: "worker",
  scope: "codeq:result",
  run: async (server, call, inputs) => {
    const { resultBatchMax } = server.config;
    if (inputs.length > resultBatchMax) {
      return refusal("invalid_argument", `batch size exceeds maximum of ${resultBatchMax}`);
    }
    // A fault that is thrown at once must not leave behind those that wait for their files.
    return answerEach(inputs.map(async (input) => submit(server, call, input)));
  },
};

function submit(
  server: Server,
  call: Call,
  input: SubmitResultInput,
): MaybePromise<Answer<Result>> {
  const of = ownedTask(call, input);
  const how = input.status === "COMPLETED" ? "completed" : "failed";
  const admitted = server.broker.mayFinish(of, how);
  if (!admitted.ok) return refused(admitted.code);
  const problem = problemOf(input);
  if (problem !== undefined) return problem;
  // Without files there is nothing to wait for, and what a caller sent first is decided first.
  const hasFiles = input.artifacts.length > 0 && !admitted.value.isRepeat;
  const stored = hasFiles ? server.artifacts.store(input.id, input.artifacts) : accept([]);
  return whenKnown(stored, (artifacts): MaybePromise<Answer<Result>> => {
    if (!artifacts.ok) return artifacts;
    const { resultJson = "", error } = input;
    const submission = { how, resultJson, error, artifacts: artifacts.value } as const;
    const outcome = server.broker.submit(of, submission);
    if (!outcome.ok) return refused(outcome.code);
    const { value, done } = outcome.value;
    return done.then(() => {
      if (!value.repeated) server.events.taskEnded(value.task);
      return { ok: true, value: value.result };
    });
  });
}

function refused(code: TaskRefusal): Answer<never> {
  return refusal(code === "task_unknown" ? "task_not_found" : code);
}

/** What is wrong with the submission itself; told only to the owner of the task. */
function problemOf(input: SubmitResultInput): Answer<never> | undefined {
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
  return problemOfNames(input.artifacts);
}

/** File systems count bytes, and a name that one of them refuses is not a failure of the server. */
function problemOfNames(artifacts: readonly ArtifactInput[]): Answer<never> | undefined {
  const max = limits.artifactNameCharsMax;
  const tooLong = artifacts.find(
    ({ name, url, contentBase64 }) =>
      url === "" && contentBase64 !== "" && Buffer.byteLength(name) > max,
  );
  if (tooLong === undefined) return undefined;
  const shown = tooLong.name.slice(0, max);
  return refusal("invalid_argument", `artifact ${shown} upload: the name has over ${max} bytes`);
}
