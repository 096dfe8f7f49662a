/** The task that the shop enqueues and the worker does. */
import { task } from "@codeq/client";

export const resize = task<{ image: string; width: number }, { url: string }>("resize", {
  retry: { maxAttempts: 3, delay: "1s" },
});
