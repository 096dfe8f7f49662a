/**
 * Queues of every make on a simulated clock: one broker, and a router over shards whose messages arrive
 * at once, through real channels, late, or when a test says so.
 */
import assert from "node:assert/strict";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { type EngineState, FaultError } from "@codeq/engine";
import type { Change } from "@codeq/queue";
// biome-ignore lint/correctness/noUndeclaredDependencies: only tests use it.
import { SimClock, SimRandom, settle } from "@codeq/simulated";
import { isLimited, noQuotas, type Quotas } from "../src/config/quotas.ts";
import type { Broker } from "../src/core/broker/broker.ts";
import { ChangeObservers } from "../src/core/broker/change-observers.ts";
import type { ShardBroker } from "../src/core/broker/shard-broker.ts";
import { LocalLink, type ShardLink } from "../src/core/shards/link.ts";
import { Router } from "../src/core/shards/router.ts";
import { ShardHost } from "../src/core/shards/shard-host.ts";
import { Events } from "../src/telemetry/events.ts";
import { Feed } from "../src/telemetry/feed.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { BrokerWorld } from "./broker-world.ts";

export interface QueueWorld extends AsyncDisposable {
  readonly broker: Broker;
  readonly clock: SimClock;
  readonly brokers: readonly ShardBroker[];
  /** Waits for an answer, and lets time pass where messages take some. */
  done<T>(promise: Promise<T>): Promise<T>;
  /** Everything under way has arrived. */
  quiet(): Promise<void>;
}

export interface QueueWorldOptions {
  readonly quotas?: Quotas;
  readonly seed?: number;
}

const turnsMax = 100_000;
/** Turns in which whatever is under way between threads arrives. */
const quietTurns = 40;

async function waitFor<T>(promise: Promise<T>, step: () => Promise<void>): Promise<T> {
  let isSettled = false;
  const settled = (): void => {
    isSettled = true;
  };
  promise.then(settled, settled);
  for (let turn = 0; turn < turnsMax; turn += 1) {
    await settle(1);
    if (isSettled) return promise;
    await step();
  }
  assert.fail("there is no answer");
}

/** The broker itself. */
export async function openBrokerQueue(options: QueueWorldOptions = {}): Promise<QueueWorld> {
  const world = new BrokerWorld({ quotas: options.quotas ?? noQuotas });
  const broker = await world.open();
  return {
    broker: broker,
    clock: world.clock,
    brokers: [broker],
    done: (promise) => waitFor(promise, () => Promise.resolve()),
    quiet: () => settle(quietTurns),
    [Symbol.asyncDispose]: () => Promise.resolve(broker.store[Symbol.asyncDispose]()),
  };
}

/** The two ends of a way between router and shard. */
interface Way {
  readonly link: ShardLink & { attach(host: ShardHost): void };
  /** The shard says something. */
  readonly deliver: (message: Uint8Array<ArrayBuffer>) => void;
  /** What is under way is lost with the shard. */
  readonly cut?: () => void;
}

export type MakeWay = (parts: { readonly clock: SimClock; readonly random: SimRandom }) => Way;

/** At once. */
export function localWay(): Way {
  const close = (): Promise<void> => Promise.resolve();
  const link = new LocalLink({ defer: (run) => queueMicrotask(run), close });
  return { link, deliver: (message) => link.deliver(message) };
}

/** Through a channel of Node's, as between threads. */
export function channelWay(): Way {
  const { port1, port2 } = new MessageChannel();
  const link = new ChannelLink(port1, port2);
  return { link, deliver: (message) => port2.postMessage(message, [message.buffer]) };
}

class ChannelLink implements ShardLink {
  onMessage: (message: Uint8Array) => void = () => {};
  onDown: (fault: FaultError) => void = () => {};
  readonly #own: MessagePort;
  readonly #other: MessagePort;

  constructor(own: MessagePort, other: MessagePort) {
    this.#own = own;
    this.#other = other;
    own.on("message", (message: Uint8Array) => this.onMessage(message));
  }

  attach(host: ShardHost): void {
    this.#other.removeAllListeners("message");
    this.#other.on("message", (message: Uint8Array) => host.take(message));
  }

  send(message: Uint8Array<ArrayBuffer>): void {
    this.#own.postMessage(message, [message.buffer]);
  }

  stop(): Promise<void> {
    this.#own.close();
    return Promise.resolve();
  }
}

/** Late: each message takes its time, so shards overtake each other, but no message another of its own. */
export const lateWay: MakeWay = ({ clock, random }) => {
  const inOrder = (): ((run: () => void) => void) => {
    let lastMs = 0;
    return (run) => {
      const takesMs = random.next() < 0.5 ? 0 : Math.floor(random.next() * 20);
      lastMs = Math.max(lastMs, clock.monotonicMs() + takesMs);
      clock.after(lastMs - clock.monotonicMs(), run);
    };
  };
  return deferredWay(inOrder(), inOrder());
};

function deferredWay(there: (run: () => void) => void, back: (run: () => void) => void): Way {
  let host: ShardHost | undefined;
  let life = 1;
  const inLife = (run: () => void): (() => void) => {
    const begun = life;
    return () => {
      if (begun === life) run();
    };
  };
  const early: Uint8Array[] = [];
  const link = {
    onMessage: (_message: Uint8Array): void => {},
    onDown: (_fault: FaultError): void => {},
    send: (message: Uint8Array<ArrayBuffer>): void =>
      there(
        inLife(() => {
          if (host === undefined) early.push(message);
          else host.take(message);
        }),
      ),
    stop: () => Promise.resolve(),
    attach: (made: ShardHost): void => {
      host = made;
      for (const message of early.splice(0)) made.take(message);
    },
  };
  return {
    link,
    deliver: (message) => back(inLife(() => link.onMessage(message))),
    cut: () => {
      life += 1;
      host = undefined;
      early.length = 0;
    },
  };
}

/** Held back until a test lets them pass. */
export class HeldWays {
  readonly #held: (() => void)[][] = [];
  isHeld = false;

  readonly make: MakeWay = () => {
    const held: (() => void)[] = [];
    this.#held.push(held);
    const hold = (run: () => void): void => {
      if (this.isHeld) held.push(run);
      else queueMicrotask(run);
    };
    return deferredWay(hold, hold);
  };

  /** What is under way to and from a shard arrives. */
  pass(shard: number): void {
    for (const run of (this.#held[shard] ?? []).splice(0)) run();
  }

  /** It is lost with whoever was to take it. */
  lose(shard: number): void {
    this.#held[shard]?.splice(0);
  }

  release(): void {
    this.isHeld = false;
    for (const shard of this.#held.keys()) this.pass(shard);
  }
}

export class ShardedWorld implements QueueWorld {
  readonly clock: SimClock = new SimClock();
  readonly brokers: ShardBroker[] = [];
  readonly feed: Feed = new Feed();
  readonly states: EngineState[] = [];
  /** Hears of every durable change of every shard. */
  observe: (shard: number, change: Change) => void = () => {};
  readonly #worlds: BrokerWorld[] = [];
  readonly #ways: Way[] = [];
  readonly #options: QueueWorldOptions;
  #router: Router | undefined;

  private constructor(options: QueueWorldOptions) {
    this.#options = options;
  }

  static async open(
    count: number,
    makeWay: MakeWay,
    options: QueueWorldOptions = {},
  ): Promise<ShardedWorld> {
    const world = new ShardedWorld(options);
    const random = new SimRandom(options.seed ?? 1);
    for (let shard = 0; shard < count; shard += 1) {
      const { clock } = world;
      const seed = (options.seed ?? 1) * 100 + shard;
      world.#worlds.push(new BrokerWorld({ clock, seed, shard: { shard, count } }));
      world.#ways.push(makeWay({ clock, random: random.fork(`way-${shard}`) }));
    }
    world.#router = new Router({
      links: world.#ways.map(({ link }) => link),
      clock: world.clock,
      quotas: options.quotas ?? noQuotas,
      feed: world.feed,
      defer: (run) => queueMicrotask(run),
      onState: (state) => world.states.push(state),
      onMissed: () => {},
      onEndpoint: () => {},
    });
    for (let shard = 0; shard < count; shard += 1) await world.openShard(shard);
    await world.done(world.#router.opened());
    return world;
  }

  get broker(): Router {
    return this.#router as Router;
  }

  /** Of one shard. */
  world(shard: number): BrokerWorld {
    return this.#worlds[shard] as BrokerWorld;
  }

  async openShard(shard: number): Promise<void> {
    const world = this.world(shard);
    const { link, deliver } = this.#ways[shard] as Way;
    const feed = new Feed();
    const events = new Events(createMetrics({ commandsMax: 10 }));
    const observers = new ChangeObservers({ events, feed });
    world.observe = (change) => {
      observers.observe(change);
      this.observe(shard, change);
    };
    const broker = await world.open();
    this.brokers[shard] = broker;
    const host = await ShardHost.openAlone({
      broker,
      feed,
      shard,
      count: this.#worlds.length,
      isLimited: isLimited(this.#options.quotas ?? noQuotas),
      defer: (run) => queueMicrotask(run),
      send: (message) => {
        // What a shard that has ended would still say is not heard.
        if (this.brokers[shard] === broker) deliver(message);
      },
      onBug: (error) => {
        throw error;
      },
      scrape: () => "",
    });
    link.attach(host);
  }

  /** The thread of a shard ends from one moment to the next. */
  crash(shard: number, mode: "process" | "power" = "process"): void {
    this.world(shard).crash(mode);
    this.brokers[shard] = undefined as unknown as ShardBroker;
    const { link, cut } = this.#ways[shard] as Way;
    cut?.();
    link.onDown(new FaultError("storage_failed", `shard ${shard} has ended`));
  }

  done<T>(promise: Promise<T>): Promise<T> {
    return waitFor(promise, () => this.clock.advance(1));
  }

  async quiet(): Promise<void> {
    for (let turn = 0; turn < quietTurns; turn += 1) {
      await this.clock.advance(1);
      await settle(1);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.broker[Symbol.asyncDispose]();
    for (const broker of this.brokers) await broker?.store[Symbol.asyncDispose]();
  }
}
