/** What the app and the worker share: the one task, with the shapes of its input and its output. */
import { task } from "@codeq/client";
import { z } from "zod";

export const thumbnail = task("thumbnail", {
  input: z.object({
    /** The name that the app gave to the image. */
    image: z.string().regex(/^[0-9a-f]{64}$/),
    width: z.int().min(1).max(1024),
  }),
  output: z.object({ file: z.string(), width: z.int(), height: z.int() }),
  // A worker extends its lease while it works, so this only says how soon a dead one is noticed.
  lease: "5s",
  timeout: "1m",
  retry: { maxAttempts: 4 },
});
