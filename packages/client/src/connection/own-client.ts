/** The client of this process, which tasks use to enqueue themselves. */
import { type Client, codeq } from "../client.ts";
import { type DefineTask, tasksOf } from "../task.ts";

let own: Client | undefined;

/**
 * Defines a task. `input` and `output` take a validator of any make that follows Standard Schema (zod,
 * valibot, arktype); without one, give the types yourself.
 *
 * ```ts
 * export const resize = task("resize", {
 *   input: z.object({ image: z.string(), width: z.number() }),
 *   output: z.object({ url: z.string() }),
 *   retry: { maxAttempts: 3 },
 *   timeout: "2m",
 * });
 *
 * export const greet = task<{ name: string }, { text: string }>("greet");
 * ```
 */
export const task: DefineTask = tasksOf(() => {
  own ??= codeq();
  return own;
});

/**
 * Makes this client the one that `task.enqueue` and `task.run` use in this process; disposing what it returns
 * brings back the client that was used before.
 *
 * ```ts
 * useClient(codeq({ url: "https://queue.example.com", token: readToken }));
 * await greet.enqueue({ name: "Ada" });
 * ```
 */
export function useClient(client: Client): Disposable {
  const before = own;
  own = client;
  return {
    [Symbol.dispose]: () => {
      own = before;
    },
  };
}
