/**
 * The load of the peers benchmark for beanstalkd. A deleted job is its only kind of result. One at a
 * time, every slot has a connection, for a reserve that waits holds up its connection; in batches a
 * slot sends as many reserves in one write and, when all are answered, as many deletes.
 */
import { BeanstalkConnection } from "./beanstalk-client.ts";
import { ageOf, type CreateCall, type LoadOptions, type Meter, runLoad } from "./load.ts";

export interface BeanstalkLoadOptions extends LoadOptions {
  readonly port: number;
}

interface SlotParts {
  readonly options: LoadOptions;
  readonly meter: Meter;
  readonly finished: (count: number) => void;
}

function startSlot(connection: BeanstalkConnection, { options, meter, finished }: SlotParts): void {
  const { batchOut: batch } = options;
  let ids: string[] = [];
  let askedMs = 0;
  const ask = (): void => {
    askedMs = performance.now();
    for (let i = 0; i < batch; i += 1) connection.reserve(take);
  };
  const take = (id: string, body: string): void => {
    if (options.part === "paced") meter.took("pickup", ageOf(body));
    ids.push(id);
    if (ids.length < batch) return;
    const sentMs = performance.now();
    meter.delivered();
    meter.took("claim", sentMs - askedMs);
    const deleted = (): void => {
      meter.took("submit", performance.now() - sentMs);
      finished(1);
    };
    for (const each of ids) connection.delete(each, deleted);
    ids = [];
    ask();
  };
  ask();
}

/** One connection carries the puts of all producers. */
function creator(connection: BeanstalkConnection, batch: number, meter: Meter): CreateCall {
  return (_producer, payload, done) => {
    const sentMs = performance.now();
    let left = batch;
    const inserted = (): void => {
      left -= 1;
      if (left > 0) return;
      meter.took("create", performance.now() - sentMs);
      done();
    };
    for (let i = 0; i < batch; i += 1) connection.put(payload, inserted);
  };
}

await runLoad<BeanstalkLoadOptions>(async (options, meter, finished) => {
  for (let slot = 0; slot < options.slots; slot += 1) {
    startSlot(await BeanstalkConnection.open(options.port), { options, meter, finished });
  }
  const producers = await BeanstalkConnection.open(options.port);
  return { create: creator(producers, options.batch, meter) };
});
