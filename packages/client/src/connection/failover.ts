/**
 * Failover between the nodes of a cluster that a client knows, or one server. All requests go to one node until
 * it does not answer; then they go to the next one.
 */

/** What decides whether a request may be sent to a second server. */
interface FailoverRequest {
  readonly method?: string | undefined;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What a failure means. `answered`: the server has decided. `unsent`: the request has certainly changed nothing, and
 * another server may do better. `lost`: it may have arrived.
 */
export type Failure = "answered" | "unsent" | "lost";

export class Failover<Server> {
  readonly #servers: readonly Server[];
  readonly #failureOf: (error: unknown) => Failure;
  #at = 0;

  constructor(servers: readonly Server[], failureOf: (error: unknown) => Failure) {
    this.#servers = servers;
    this.#failureOf = failureOf;
  }

  get current(): Server {
    return this.#servers[this.#at] as Server;
  }

  /** The server did not answer: the next one becomes current, unless another request has noticed first. */
  pass(server: Server): void {
    if (this.current === server) this.#at = (this.#at + 1) % this.#servers.length;
  }

  /**
   * Asks the servers one after the other until one answers. A request that changes something is sent again only
   * when it cannot have arrived.
   */
  async ask<T>(request: FailoverRequest, send: (server: Server) => Promise<T>): Promise<T> {
    const isChange = (request.method ?? "GET") !== "GET";
    // The pieces of a file can be read only once.
    const isRepeatable = request.body === undefined || typeof request.body === "string";
    for (let tries = 1; ; tries += 1) {
      const server = this.current;
      try {
        return await send(server);
      } catch (error) {
        const failure = this.#failed(server, error);
        const isSafe = failure === "unsent" || (failure === "lost" && !isChange);
        if (!isSafe || !isRepeatable || !this.#mayGoOn(tries, request)) throw error;
      }
    }
  }

  /** The same for an answer that stays open: a server that has begun to answer is not replaced. */
  async *follow<T>(
    request: FailoverRequest,
    open: (server: Server) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    for (let tries = 1; ; tries += 1) {
      const server = this.current;
      let hasBegun = false;
      try {
        for await (const each of open(server)) {
          hasBegun = true;
          yield each;
        }
        return;
      } catch (error) {
        const failure = this.#failed(server, error);
        if (hasBegun || failure === "answered" || !this.#mayGoOn(tries, request)) throw error;
      }
    }
  }

  #failed(server: Server, error: unknown): Failure {
    const failure = this.#failureOf(error);
    if (failure !== "answered") this.pass(server);
    return failure;
  }

  #mayGoOn(tries: number, { signal }: FailoverRequest): boolean {
    return tries < this.#servers.length && signal?.aborted !== true;
  }
}
