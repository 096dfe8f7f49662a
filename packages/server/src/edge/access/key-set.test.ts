import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { SimClock, SimIssuer, settle } from "@codeq/simulated";
import { Ticker } from "../../core/sweeps/ticker.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { KeySet, refreshKeySets } from "./key-set.ts";
import { Revocations } from "./token-provider.ts";

const config = {
  jwksUrl: "https://id.example.com/keys",
  httpTimeoutMs: 5000,
  refreshMs: 300_000,
  staleMs: 3_600_000,
  refetchMs: 10_000,
};

/** How the endpoint behaves at the moment. */
type Mode = "up" | "down" | "silent" | "junk";

interface Bench {
  readonly clock: SimClock;
  readonly issuer: SimIssuer;
  readonly keys: KeySet;
  /** Monotonic times at which the endpoint was asked, from the start. */
  readonly asked: number[];
  readonly logged: string[];
  readonly announced: () => number;
  readonly answer: (mode: Mode) => void;
  /** What a key is found to be: its name, or the code of the refusal. */
  readonly find: (kid: string) => Promise<string>;
}

/** A key set that a ticker refreshes, and an issuer with one key. */
function setup(t: TestContext, mode: Mode = "up"): Bench {
  const clock = new SimClock();
  const startedMs = clock.monotonicMs();
  const issuer = new SimIssuer().addKey("one");
  const asked: number[] = [];
  const logged: string[] = [];
  const logger = createLogger({
    level: "info",
    format: "json",
    nowMs: () => clock.nowMs(),
    write: (line) => logged.push(line),
  });
  let announced = 0;
  const revocations = new Revocations();
  const announce = revocations.announce.bind(revocations);
  revocations.announce = () => {
    announced += 1;
    announce();
  };
  let now = mode;
  const keys = new KeySet(config, {
    clock,
    logger,
    revocations,
    metrics: createMetrics({ commandsMax: 1 }),
    fetchKeySet: async (_url, signal) => {
      asked.push(clock.monotonicMs() - startedMs);
      if (now === "up") return issuer.keySet();
      if (now === "junk") return "<html>maintenance</html>";
      if (now === "down") throw new Error("connection refused");
      return new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(new Error("aborted")));
      });
    },
  });
  const ticker = new Ticker({ clock, logger, jobs: [refreshKeySets([keys])] });
  keys.onPlanned = () => ticker.wake();
  ticker.wake();
  t.after(async () => {
    keys[Symbol.dispose]();
    await ticker[Symbol.asyncDispose]();
  });
  return {
    clock,
    issuer,
    keys,
    asked,
    logged,
    announced: () => announced,
    answer: (next) => {
      now = next;
    },
    find: async (kid) => {
      const found = await keys.find(kid, "EdDSA");
      return found.ok ? found.value.kid : found.code;
    },
  };
}

test("the keys are fetched at the start and then once in every interval, asked for or not", async (t) => {
  const { clock, asked, keys } = setup(t);
  await clock.advance(0);
  assert.deepEqual(asked, [0]);
  const found = keys.find("one", "EdDSA");
  assert.ok(!(found instanceof Promise), "a known key needs no waiting");
  await clock.advance(900_000);
  assert.deepEqual(asked, [0, 300_000, 600_000, 900_000]);
});

test("a token that comes before the keys waits for the fetch that is under way", async (t) => {
  const { find, asked } = setup(t);
  assert.deepEqual(await Promise.all([find("one"), find("one"), find("two")]), [
    ...["one", "one", "invalid_token"],
  ]);
  assert.equal(asked.length, 1);
});

test("S7: keys that are not known cause one fetch per interval, however many tokens name them", async (t) => {
  const { clock, find, asked } = setup(t);
  await clock.advance(1000);
  for (let i = 0; i < 100; i += 1) assert.equal(await find(`unknown-${i}`), "invalid_token");
  assert.deepEqual(asked, [0, 1000]);
  await clock.advance(9999);
  assert.equal(await find("unknown"), "invalid_token");
  assert.deepEqual(asked, [0, 1000]);
  await clock.advance(1);
  assert.equal(await find("unknown"), "invalid_token");
  assert.deepEqual(asked, [0, 1000, 11_000]);
});

test("S7: a new key is found with the first token that names it", async (t) => {
  const { clock, issuer, find, asked } = setup(t);
  await clock.advance(1000);
  issuer.addKey("two");
  assert.equal(await find("two"), "two");
  assert.equal(await find("one"), "one");
  assert.deepEqual(asked, [0, 1000]);
});

test("a key is not found for an algorithm that it is not for", async (t) => {
  const { clock, keys } = setup(t);
  await clock.advance(0);
  assert.deepEqual(await keys.find("one", "RS256"), { ok: false, code: "invalid_token" });
});

test("S7: a key that leaves the set is gone for what it vouched for, and that is announced", async (t) => {
  const { clock, issuer, keys, find, announced } = setup(t);
  await clock.advance(0);
  const found = await keys.find("one", "EdDSA");
  assert.ok(found.ok);
  issuer.addKey("two");
  await clock.advance(300_000);
  assert.deepEqual([found.value.isGone(), announced()], [false, 0]);
  issuer.removeKey("one");
  await clock.advance(300_000);
  assert.deepEqual([found.value.isGone(), announced()], [true, 1]);
  assert.equal(await find("one"), "invalid_token");
  assert.equal(await find("two"), "two");
});

test("S7: a key that is replaced by another of the same name is gone too", async (t) => {
  const { clock, issuer, keys } = setup(t);
  await clock.advance(0);
  const before = await keys.find("one", "EdDSA");
  issuer.addKey("one");
  await clock.advance(300_000);
  const after = await keys.find("one", "EdDSA");
  assert.ok(before.ok && after.ok);
  assert.deepEqual([before.value.isGone(), after.value.isGone()], [true, false]);
});

test("S7: keys are used on while the server is down, and no longer than configured", async (t) => {
  const { clock, keys, find, answer, announced, logged } = setup(t);
  await clock.advance(0);
  const found = await keys.find("one", "EdDSA");
  assert.ok(found.ok);
  answer("down");
  await clock.advance(3_599_999);
  assert.equal(await find("one"), "one");
  assert.deepEqual([found.value.isGone(), announced()], [false, 0]);
  await clock.advance(1);
  assert.deepEqual([found.value.isGone(), announced()], [true, 1]);
  assert.equal(await find("one"), "keys_unavailable");
  assert.match(logged.join(""), /the identity server are too old/);
  answer("up");
  await clock.advance(10_000);
  assert.equal(await find("one"), "one");
});

test("S7: nobody can tell about a key that is not known while the server is down", async (t) => {
  const { clock, find, answer } = setup(t);
  await clock.advance(0);
  answer("down");
  await clock.advance(300_000);
  assert.equal(await find("unknown"), "keys_unavailable");
  assert.equal(await find("one"), "one");
});

test("a server that is down is asked again after the shorter interval, until it is there", async (t) => {
  const { clock, asked, answer, find, logged } = setup(t, "down");
  await clock.advance(0);
  assert.equal(await find("one"), "keys_unavailable");
  await clock.advance(25_000);
  assert.deepEqual(asked, [0, 0, 10_000, 20_000]);
  answer("up");
  await clock.advance(5000);
  assert.equal(await find("one"), "one");
  await clock.advance(299_999);
  assert.equal(asked.length, 5);
  assert.match(logged.at(-1) ?? "", /can be fetched again/);
});

test("a server that does not answer is given up after the time limit", async (t) => {
  const { clock, asked, find, logged } = setup(t, "silent");
  await clock.advance(0);
  const waiting = find("one");
  await clock.advance(4999);
  assert.equal(logged.length, 0);
  await clock.advance(1);
  assert.equal(await waiting, "keys_unavailable");
  assert.match(logged[0] ?? "", /no answer within 5000 ms/);
  await clock.advance(9999);
  assert.deepEqual(asked, [0]);
  await clock.advance(1);
  assert.deepEqual(asked, [0, 15_000]);
});

test("an answer that is not a key set does not take the keys away", async (t) => {
  const { clock, find, answer, logged } = setup(t);
  await clock.advance(0);
  answer("junk");
  await clock.advance(300_000);
  assert.equal(await find("one"), "one");
  assert.match(logged[0] ?? "", /not a key set/);
  assert.doesNotMatch(logged.join(""), /maintenance/);
});

test("a key set that has become empty takes all keys away", async (t) => {
  const { clock, issuer, find, announced } = setup(t);
  await clock.advance(0);
  issuer.removeKey("one");
  await clock.advance(300_000);
  assert.equal(await find("one"), "invalid_token");
  assert.equal(announced(), 1);
});

test("closing ends the fetch that is under way, and there is none after it", async (t) => {
  const { clock, keys, asked, logged } = setup(t, "silent");
  await clock.advance(0);
  keys[Symbol.dispose]();
  await settle();
  assert.deepEqual(await keys.find("one", "EdDSA"), { ok: false, code: "invalid_token" });
  await clock.advance(1_000_000);
  assert.deepEqual([asked, logged], [[0], []]);
});

test("a wall clock that is set back or forward changes nothing", async (t) => {
  const { clock, asked, find } = setup(t);
  await clock.advance(0);
  clock.stepWall(-86_400_000);
  await clock.advance(300_000);
  clock.stepWall(864_000_000);
  assert.equal(await find("one"), "one");
  await clock.advance(299_999);
  assert.deepEqual(asked, [0, 300_000]);
});
