/**
 * The nodes of a cluster that a client knows, or one server. One of them is asked until it does not answer;
 * then it is the next one's turn.
 */
import { CodeqError } from "./codeq-error.ts";
import type { HttpApi, HttpRequest } from "./http/http-api.ts";
import { NoAnswerError } from "./http/http-core.ts";

export interface ServerPlace {
  readonly url: URL;
  readonly api: HttpApi;
}

export class ServersByTurns {
  readonly #places: readonly ServerPlace[];
  #turn = 0;

  constructor(places: readonly ServerPlace[]) {
    this.#places = places;
  }

  get current(): ServerPlace {
    return this.#places[this.#turn] as ServerPlace;
  }

  /** This one did not answer. Somebody else may have noticed first. */
  pass(place: ServerPlace): void {
    if (this.current === place) this.#turn = (this.#turn + 1) % this.#places.length;
  }

  /**
   * Asks one after the other until one answers. A request that changes something is sent again only when it
   * cannot have arrived.
   */
  async ask<T>(request: HttpRequest, send: (api: HttpApi) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      const place = this.current;
      try {
        return await send(place.api);
      } catch (error) {
        if (!(error instanceof CodeqError) || error.code !== "unavailable") throw error;
        this.pass(place);
        const isSafe = (request.method ?? "GET") === "GET" || cannotHaveArrived(error);
        const isOver = tries >= this.#places.length || request.signal.aborted;
        // The pieces of a file can be read only once.
        const isRepeatable = request.body === undefined || typeof request.body === "string";
        if (isOver || !isSafe || !isRepeatable) throw error;
      }
    }
  }
}

function cannotHaveArrived({ cause }: CodeqError): boolean {
  return cause instanceof NoAnswerError && !cause.mayHaveArrived;
}
