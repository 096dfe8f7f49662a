/** The real server of a scenario, which can be killed, stopped, started again on its data, and paused. */
import { type ServerProcess, startServer, temporaryDirectory } from "../e2e/server-process.ts";

/** Retries come soon, and always after the same time. */
const quickRetries = { BACKOFF_POLICY: "fixed", BACKOFF_BASE_SECONDS: "1" };
const headers = { authorization: "Bearer dev-token", "x-role": "ADMIN" };

export class ScenarioServer implements AsyncDisposable {
  readonly #directory = temporaryDirectory();
  readonly #env: Readonly<Record<string, string>>;
  #process: ServerProcess | undefined;
  #changed: PromiseWithResolvers<void> = Promise.withResolvers();

  private constructor(env: Readonly<Record<string, string>>) {
    this.#env = env;
  }

  static async open(env: Readonly<Record<string, string>> = {}): Promise<ScenarioServer> {
    const server = new ScenarioServer({ ...quickRetries, ...env });
    await server.do("start");
    return server;
  }

  get port(): number {
    return this.#process?.port ?? 0;
  }

  /** Each port serves both streams. */
  get streamPort(): number {
    return this.#process?.workerStreamPort ?? 0;
  }

  async do(verb: string): Promise<void> {
    const server = this.#process;
    if (verb === "start") {
      this.#process = await startServer({ dataDir: this.#directory.path, env: this.#env });
      void this.#follow();
    } else if (verb === "kill") await server?.kill();
    else if (verb === "stop") await server?.stop();
    else if (verb === "pause") server?.signal("SIGSTOP");
    else if (verb === "resume") server?.signal("SIGCONT");
    else throw new Error(`no such verb for a server: ${verb}`);
  }

  /** An answer of the HTTP API; undefined for an error. */
  async get(path: string): Promise<unknown> {
    const reply = await fetch(`http://127.0.0.1:${this.port}/v1/codeq${path}`, { headers });
    return reply.ok ? await reply.json() : undefined;
  }

  /** A change that the HTTP API accepts. */
  async put(path: string, body: unknown): Promise<void> {
    const reply = await fetch(`http://127.0.0.1:${this.port}/v1/codeq${path}`, {
      method: "PUT",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!reply.ok) throw new Error(`PUT ${path}: ${reply.status} ${await reply.text()}`);
  }

  /** Resolves when something happens to a task. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  async #follow(): Promise<void> {
    try {
      const url = `http://127.0.0.1:${this.port}/v1/codeq/admin/events`;
      const { body } = await fetch(url, { headers });
      for await (const _ of body ?? []) this.#tell();
    } catch {
      // The server was ended; the next one is followed from its start.
    }
    this.#tell();
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process?.kill();
    this.#directory.dispose();
  }
}
