/** A request to the server and what came back, for every verb there is. */
import type { Result, Task } from "@codeq/queue";
import type { Answer } from "../../packages/server/src/edge/operation.ts";
import type { operations } from "../../packages/server/src/start/features.ts";
import type { Caller } from "./plan.ts";

export type Verb = keyof typeof operations;
type RunOf<V extends Verb> = (typeof operations)[V]["run"];
export type InputOf<V extends Verb> = Parameters<RunOf<V>>[2];
export type AnswerOf<V extends Verb> = Awaited<ReturnType<RunOf<V>>>;

export interface Request<V extends Verb> {
  readonly number: number;
  readonly verb: V;
  readonly caller: Caller;
  readonly input: InputOf<V>;
  readonly life: number;
  readonly invokedMs: number;
  readonly invokedWallMs: number;
  /** The storage had failed before the request was made. */
  readonly afterFailure: boolean;
  /** The caller went away while it was waiting. */
  isAborted: boolean;
}

export interface Exchange<V extends Verb> extends Request<V> {
  readonly answer: AnswerOf<V>;
  readonly answeredMs: number;
}

export type AnyRequest = { [V in Verb]: Request<V> }[Verb];
export type AnyExchange = { [V in Verb]: Exchange<V> }[Verb];

/** Everything that an answer tells about tasks. */
export interface Sighting {
  readonly task: Task | undefined;
  readonly result: Result | undefined;
}

export function sightingsOf(exchange: AnyExchange): Sighting[] {
  if (!exchange.answer.ok) return [];
  switch (exchange.verb) {
    case "createTask":
      return [{ task: exchange.answer.value.task, result: undefined }];
    case "createTasks":
      return exchange.answer.value.flatMap((each) =>
        each.ok ? [{ task: each.value.task, result: undefined }] : [],
      );
    case "claimTasks":
      return exchange.answer.value.map(({ task }) => ({ task, result: undefined }));
    case "getTask":
      return [{ task: exchange.answer.value.task, result: undefined }];
    case "getResult":
      return [{ task: exchange.answer.value.task, result: exchange.answer.value.result }];
    case "listTasks":
      return exchange.answer.value.tasks.map((task) => ({ task, result: undefined }));
    case "explainTask":
    case "inspectTask":
      return [{ task: exchange.answer.value.task, result: undefined }];
    case "cancelTask":
    case "cancelAnyTask":
    case "replayTask":
    case "editTask":
      return [{ task: exchange.answer.value, result: undefined }];
    case "submitResult":
      return [{ task: undefined, result: exchange.answer.value }];
    case "submitResults":
      return exchange.answer.value.flatMap((each) =>
        each.ok ? [{ task: undefined, result: each.value }] : [],
      );
    default:
      return [];
  }
}

/** The tasks that the request names, with the answer that each of them got. */
export function namedTasks(exchange: AnyExchange): {
  readonly id: string;
  readonly leaseToken: number | undefined;
  readonly answer: Answer<unknown>;
}[] {
  switch (exchange.verb) {
    case "extendLease":
    case "nackTask":
    case "abandonTask":
    case "submitResult": {
      const { id, leaseToken } = exchange.input;
      return [{ id, leaseToken, answer: exchange.answer }];
    }
    case "submitResults": {
      const { answer } = exchange;
      return exchange.input.map(({ id, leaseToken }, position) => ({
        id,
        leaseToken,
        answer: answer.ok ? (answer.value[position] as Answer<unknown>) : answer,
      }));
    }
    case "explainTask":
    case "inspectTask":
    case "replayTask":
    case "editTask":
    case "cancelTask":
    case "cancelAnyTask":
    case "deleteTask":
    case "getTask":
    case "getResult":
      return [{ id: exchange.input.id, leaseToken: undefined, answer: exchange.answer }];
    default:
      return [];
  }
}

/** The tasks that a request may change. */
export function touchedBy(request: AnyRequest): string[] {
  switch (request.verb) {
    case "nackTask":
    case "abandonTask":
    case "extendLease":
    case "cancelTask":
    case "cancelAnyTask":
    case "editTask":
    case "submitResult":
      return [request.input.id as string];
    case "submitResults":
      return request.input.map(({ id }) => id);
    default:
      return [];
  }
}
