/** A plugin for Fastify: the client on the instance, and workers that start and end with the application. */
import type { FastifyInstance } from "fastify";
import { type Client, type ClientOptions, codeq } from "./client.ts";
import type { Handler } from "./task.ts";
import type { WorkerListeners, WorkerOptions } from "./worker/worker-options.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** The client of the plugin of codeQ. */
    codeq: Client;
  }
}

/** The options of the client, and what the application works on. */
export interface CodeqFastifyOptions extends ClientOptions {
  /** A client that exists already, such as that of a test server. The plugin does not close it, and makes no other. */
  readonly client?: Client | undefined;
  /** What a worker of the application handles. Default: nothing; the application only enqueues. */
  readonly handlers?: Handler | readonly Handler[] | undefined;
  /** How the worker works. */
  readonly worker?: WorkerOptions | undefined;
}

/**
 * Decorates the instance with the client (`app.codeq`). The worker starts when the application is ready, and hands back
 * what it has not finished when the application closes.
 *
 * ```ts
 * await app.register(codeqPlugin, { handlers: [resizer] });
 * app.post("/images", async ({ body }, reply) => {
 *   const { id } = await app.codeq.enqueue(resize, body as { image: string; width: number });
 *   return reply.code(202).send({ id });
 * });
 * ```
 */
export async function codeqPlugin(
  app: FastifyInstance,
  { client: given, handlers, worker = {}, ...options }: CodeqFastifyOptions,
): Promise<void> {
  const client = given ?? codeq(options);
  app.decorate("codeq", client);
  let close = (): Promise<void> => Promise.resolve();
  app.addHook("onReady", async () => {
    if (handlers === undefined) return;
    const on = { ...listenersFor(app), ...worker.on };
    const started = client.worker(handlers, { ...worker, on });
    close = () => started.close();
  });
  app.addHook("onClose", async () => {
    await close();
    if (given === undefined) await client.close();
  });
}

// For the whole application, as the package fastify-plugin does it.
Object.assign(codeqPlugin, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "codeq",
});

/** Without a listener of the user, an event goes to the log of the application. */
function listenersFor({ log }: FastifyInstance): WorkerListeners {
  return {
    failed: ({ id, task, attempt }, err) =>
      log.error({ err, taskId: id, task, attempt }, "a task failed"),
    refused: (err) => log.warn({ err }, "the server refused a result"),
    warning: ({ message }) => log.warn(message),
    stopped: (err) => log.error({ err }, "the worker has stopped"),
  };
}
