/**
 * The load of the stream benchmark through the client library: the same producers and slots, with
 * everything that the library does for them.
 */
import { type Client, codeq, type Task, task } from "@codeq/client";
import { ageOf, type CreateCall, type LoadOptions, type Meter, runLoad } from "./load.ts";

export interface SdkLoadOptions extends LoadOptions {
  readonly port: number;
  readonly workerStreams: number;
}

interface Payload {
  readonly at: string;
}

type BenchTask = Task<Payload, { readonly ok: true }>;

const bench: BenchTask = task<Payload, { readonly ok: true }>("bench");

function creator(client: Client, options: LoadOptions, meter: Meter): CreateCall {
  const failed = (error: unknown): never => {
    throw error;
  };
  return (_producer, payload, done) => {
    const sentMs = performance.now();
    const input = JSON.parse(payload) as Payload;
    const created =
      options.batch === 1
        ? client.enqueue(bench, input)
        : client.enqueueMany(
            bench,
            Array.from({ length: options.batch }, () => ({ input })),
          );
    created.then(() => {
      meter.took("create", performance.now() - sentMs);
      done();
    }, failed);
  };
}

await runLoad<SdkLoadOptions>(async (options, meter, finished) => {
  const client = codeq({ url: `http://127.0.0.1:${options.port}`, transport: "streams" });
  for (let index = 0; index < options.workerStreams; index += 1) {
    const slots = Math.floor((options.slots + index) / options.workerStreams);
    client.worker(
      bench.handle((input) => {
        meter.delivered();
        if (options.part === "paced") meter.took("pickup", ageOf(JSON.stringify(input)));
        return { ok: true };
      }),
      {
        concurrency: slots * options.batchOut,
        on: {
          completed: () => finished(1),
          refused: (error) => {
            throw error;
          },
        },
      },
    );
  }
  return { create: creator(client, options, meter) };
});
