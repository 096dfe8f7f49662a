/**
 * The load of the peers benchmark for BullMQ: one Queue for all producers, and Workers that share the
 * slots. Finished jobs stay in Redis with their results, which is what BullMQ does unless it is told
 * otherwise. A completed job brings the worker its next one, so there is no claim to measure.
 */
import { Queue, Worker } from "bullmq";
import type { RedisOptions } from "ioredis";
import { ageOf, type CreateCall, type LoadOptions, type Meter, runLoad } from "./load.ts";

export interface BullMqLoadOptions extends LoadOptions {
  readonly port: number;
  readonly workers: number;
}

const queueName = "bench";
const jobName = "work";
const result = { ok: true };

/** Jobs are objects that BullMQ turns into JSON itself: the same text as the payload. */
function creator(queue: Queue, { batch }: LoadOptions, meter: Meter): CreateCall {
  const add = async (data: unknown): Promise<unknown> => {
    if (batch === 1) return await queue.add(jobName, data);
    return await queue.addBulk(Array.from({ length: batch }, () => ({ name: jobName, data })));
  };
  return (_producer, payload, done) => {
    const data = JSON.parse(payload) as unknown;
    const sentMs = performance.now();
    void add(data).then(() => {
      meter.took("create", performance.now() - sentMs);
      done();
    });
  };
}

function fail(error: Error): never {
  throw error;
}

await runLoad<BullMqLoadOptions>(async (options, meter, finished) => {
  const address = { host: "127.0.0.1", port: options.port };
  const connection = { ...address, maxRetriesPerRequest: null } satisfies RedisOptions;
  const work = (job: { readonly data: unknown }): Promise<unknown> => {
    if (options.part === "paced") meter.took("pickup", ageOf(JSON.stringify(job.data)));
    return Promise.resolve(result);
  };
  for (let index = 0; index < options.workers; index += 1) {
    // Divided as evenly as it goes.
    const concurrency = Math.floor((options.slots + index) / options.workers);
    const worker = new Worker(queueName, work, { connection, concurrency });
    // Comes when Redis has acknowledged the completion.
    worker.on("completed", () => finished(1));
    worker.on("failed", (_job, error) => fail(error));
    worker.on("error", fail);
    await worker.waitUntilReady();
  }
  const queue = new Queue(queueName, { connection });
  await queue.waitUntilReady();
  return { create: creator(queue, options, meter) };
});
