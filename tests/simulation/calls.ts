/**
 * Requests on their way. Each goes through the server's real dispatch with a bearer token. When the
 * process ends, the callers of what is under way hear nothing.
 */

import type { Answer, Operation } from "../../packages/server/src/edge/operation.ts";
import type { Core } from "../../packages/server/src/start/compose.ts";
import { operations } from "../../packages/server/src/start/features.ts";
import type { AnswerOf, AnyExchange, AnyRequest, InputOf, Request, Verb } from "./exchange.ts";
import type { Caller } from "./plan.ts";
import type { Life, World } from "./world.ts";

export interface CallOptions {
  /** Goes away after so many milliseconds. */
  readonly abortAfterMs?: number;
}

export class Calls {
  started = 0;
  answered = 0;
  readonly #world: World;
  /** What to do with the callers when the process ends. */
  readonly #waiting = new Set<() => void>();

  constructor(world: World) {
    this.#world = world;
  }

  get inFlight(): number {
    return this.#waiting.size;
  }

  /** The answer; undefined when none will ever come. */
  async send<V extends Verb>(
    verb: V,
    caller: Caller,
    input: InputOf<V>,
    options: CallOptions = {},
  ): Promise<AnswerOf<V> | undefined> {
    const world = this.#world;
    const life = world.serving;
    if (life === undefined) return undefined;
    this.started += 1;
    const request: Request<V> = {
      number: this.started,
      verb,
      caller,
      input,
      life: life.number,
      invokedMs: world.nowMs,
      invokedWallMs: world.wallMs,
      afterFailure: life.failedMs !== undefined,
      isAborted: false,
    };
    world.trace.add(`> ${request.number} ${verb} ${caller.subject} ${JSON.stringify(input)}`);
    world.board.invoked(request as AnyRequest);
    const lost = Promise.withResolvers<undefined>();
    const lose = (): void => lost.resolve(undefined);
    this.#waiting.add(lose);
    const answer = await Promise.race([this.#run(life, request, options), lost.promise]);
    this.#waiting.delete(lose);
    if (answer === undefined || life.state === "dead") return undefined;
    this.#note(request, answer);
    return answer;
  }

  /** The process is gone. */
  loseAll(): void {
    for (const lose of this.#waiting) lose();
    this.#waiting.clear();
  }

  async #run<V extends Verb>(
    life: Life & { core: Core },
    request: Request<V>,
    { abortAfterMs }: CallOptions,
  ): Promise<AnswerOf<V>> {
    const { dispatch } = life.core;
    const operation = operations[request.verb] as unknown as Operation<InputOf<V>, unknown>;
    const identity = await dispatch.authorize(operation, {
      authorization: `Bearer ${request.caller.token}`,
    });
    if (!identity.ok) return identity as AnswerOf<V>;
    const abort = new AbortController();
    if (abortAfterMs !== undefined) {
      this.#world.clock.after(abortAfterMs, () => {
        request.isAborted = true;
        abort.abort();
      });
    }
    const call = { identity: identity.value, signal: abort.signal };
    return (await dispatch.run(operation, call, request.input)) as AnswerOf<V>;
  }

  #note<V extends Verb>(request: Request<V>, answer: AnswerOf<V>): void {
    this.answered += 1;
    const world = this.#world;
    const { ok } = answer as Answer<unknown>;
    const shown = ok ? JSON.stringify(answer) : (answer as { code: string }).code;
    world.trace.add(`< ${request.number} ${shown}`);
    const exchange = { ...request, answer, answeredMs: world.nowMs };
    world.board.answered(exchange as unknown as AnyExchange);
  }
}
