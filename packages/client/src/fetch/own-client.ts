/** The client of this process, or of this isolate, which tasks use to enqueue themselves. */
import { type DefineTask, tasksOf } from "../task.ts";
import { FetchClient, type FetchClientOptions } from "./fetch-client.ts";

let own: FetchClient | undefined;

/**
 * Opens a client for producers. There is nothing to close.
 *
 * ```ts
 * const client = codeq({ url: "https://queue.example.com", token: env.CODEQ_TOKEN });
 * await client.enqueue(greet, { name: "Ada" });
 * ```
 */
export function codeq(options: FetchClientOptions = {}): FetchClient {
  return new FetchClient(options);
}

/** Defines a task, as `task` of `@codeq/client` does; workers of that package take its handlers. */
export const task: DefineTask = tasksOf(() => {
  own ??= codeq();
  return own;
});

/** Makes this client the one that `task.enqueue` and `task.run` use; disposing brings back the one before. */
export function useClient(client: FetchClient): Disposable {
  const before = own;
  own = client;
  return {
    [Symbol.dispose]: () => {
      own = before;
    },
  };
}
