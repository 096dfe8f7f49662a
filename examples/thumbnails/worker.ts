/** Makes thumbnails until it is stopped: `node worker.ts`. Start as many as you like. */
import { codeq } from "@codeq/client";
import { defaultDirectory } from "./files.ts";
import { makeThumbnail } from "./make-thumbnail.ts";

const worker = codeq().worker(makeThumbnail(defaultDirectory), {
  concurrency: 2,
  middleware: [
    (ctx, next) => {
      console.log(`${ctx.id} begins, attempt ${ctx.attempt}`);
      return next();
    },
  ],
  on: {
    settled: ({ id }, as) => console.log(`${id} ${as}`),
    failed: ({ id }, error) => console.error(`${id} failed: ${error}`),
  },
});

// On a signal, what it has begun may finish within ten seconds; the rest goes back without costing an attempt.
await worker.done;
