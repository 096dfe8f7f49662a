import assert from "node:assert/strict";
import test from "node:test";
import type { TenantId } from "@codeq/queue";
import { SimClock } from "@codeq/simulated";
import { webhookLimits } from "../sweeps/deliver-webhooks.ts";
import { breakerLimits, type Ending, type Outgoing, Sender, type SenderLimits } from "./sender.ts";

const { failuresMax } = breakerLimits;
const [firstWaitMs] = breakerLimits.waitsMs;

function item(fields: Partial<Outgoing> = {}): Outgoing {
  return { tenantId: "acme" as TenantId, endpoint: "http://a", overMs: 2e15, ...fields };
}

class World {
  readonly clock = new SimClock();
  readonly over: Outgoing[] = [];
  readonly turned: string[] = [];
  readonly sender: Sender<Outgoing>;
  readonly #open: Map<Outgoing, (ending: Ending) => void> = new Map();
  #started: Outgoing[] = [];

  constructor(limits: Partial<SenderLimits>) {
    this.sender = new Sender({
      clock: this.clock,
      limits: { ...webhookLimits(1), ...limits },
      send: (sent) => {
        this.#started.push(sent);
        return new Promise((resolve) => this.#open.set(sent, resolve));
      },
      onOver: (items) => this.over.push(...items),
      onTurned: (_to, turned) => this.turned.push(turned),
    });
  }

  /** What starts now. */
  run(): Outgoing[] {
    this.#started = [];
    this.sender.run();
    return this.#started;
  }

  async end(sent: Outgoing | undefined, ending: Ending): Promise<void> {
    assert.ok(sent !== undefined);
    const { promise: freed, resolve: onFree } = Promise.withResolvers<void>();
    this.sender.onFree = onFree;
    this.#open.get(sent)?.(ending);
    await freed;
  }
}

function setup(limits: Partial<SenderLimits>, items: readonly Outgoing[]): World {
  const world = new World(limits);
  for (const each of items) world.sender.add(each);
  return world;
}

const many = (count: number, fields: Partial<Outgoing> = {}): Outgoing[] =>
  Array.from({ length: count }, () => item(fields));

const names = (items: readonly Outgoing[]): string[] =>
  items.map(({ tenantId, endpoint }) => `${tenantId} ${endpoint}`);

test("tenants take turns, and so do the endpoints of a tenant", () => {
  const globex = "globex" as TenantId;
  const world = setup({}, [
    ...many(3),
    ...many(3, { endpoint: "http://b" }),
    ...many(2, { tenantId: globex }),
  ]);
  assert.deepEqual(names(world.run()), [
    ...["acme http://a", "globex http://a", "acme http://b", "globex http://a"],
    ...["acme http://a", "acme http://b"],
  ]);
});

test("as many items start as are asked for", () => {
  const { sender, clock } = setup({}, many(2));
  sender.run(1);
  assert.equal(sender.nextMs(), clock.monotonicMs());
  sender.run(1);
  assert.equal(sender.nextMs(), undefined);
});

test("a new endpoint has few slots, and more once it has answered", async () => {
  const world = setup({ perNewEndpointMax: 2, perEndpointMax: 5 }, many(10));
  const [first] = world.run();
  await world.end(first, "answered");
  assert.equal(world.run().length, 4);
});

test("new endpoints leave slots of their tenant to known ones", async () => {
  const known = item({ endpoint: "http://known" });
  const world = setup({ perTenantMax: 6, keptForKnownEndpoints: 2 }, [known]);
  assert.deepEqual(world.run(), [known]);
  await world.end(known, "answered");
  for (let n = 0; n < 10; n += 1) world.sender.add(item({ endpoint: `http://${n}` }));
  assert.equal(world.run().length, 4);
  for (const each of many(5, { endpoint: "http://known" })) world.sender.add(each);
  assert.deepEqual(names(world.run()), ["acme http://known", "acme http://known"]);
});

test("the last slots are for tenants that have nothing on its way", () => {
  const endpoints = Array.from({ length: 20 }, (_, n) => item({ endpoint: `http://${n}` }));
  const world = setup({ inFlightMax: 8, keptForIdleTenants: 2 }, endpoints);
  assert.equal(world.run().length, 6);
  assert.equal(world.sender.nextMs(), undefined);
  for (const tenantId of ["b", "c", "d"])
    world.sender.add(item({ tenantId: tenantId as TenantId }));
  assert.deepEqual(names(world.run()), ["b http://a", "c http://a"]);
});

test("an endpoint that does not answer gets one try when its breaker lets it pass", async () => {
  const world = setup({ perNewEndpointMax: failuresMax }, many(10));
  const turned: number[] = [];
  for (const each of world.run()) {
    await world.end(each, "silent");
    turned.push(world.turned.length);
  }
  assert.deepEqual([turned, world.turned], [[0, 0, 1], ["silent"]]);
  assert.deepEqual(world.run(), []);
  assert.equal(world.sender.nextMs(), world.clock.monotonicMs() + firstWaitMs);
  await world.clock.advance(firstWaitMs);
  const [probe, ...more] = world.run();
  assert.deepEqual(more, []);
  await world.end(probe, "answered");
  assert.deepEqual(world.turned, ["silent", "answering"]);
  assert.equal(world.run().length, 6);
});

test("what waited for a silent endpoint longer than its tries is dropped with the next probe", async () => {
  const late = { overMs: 0 };
  const items = [...many(3), ...many(2, late), ...many(1)];
  const world = setup({ perNewEndpointMax: failuresMax }, items);
  for (const each of world.run()) await world.end(each, "silent");
  assert.deepEqual(world.over, items.slice(3, 5));
  assert.equal(world.sender.isSilent(item()), true);
  assert.equal(setup({}, []).sender.isSilent(item()), false);
});

test("a target without room refuses items until it is half empty", () => {
  const { sender } = setup({ targetWaitingMax: 4, perNewEndpointMax: 3 }, []);
  const added = many(6).map((each) => sender.add(each));
  assert.deepEqual(added.slice(3), [undefined, "target", "target"]);
  assert.equal(sender.hasRoom(item()), false);
  assert.equal(sender.add(item({ endpoint: "http://b" })), undefined);
  sender.run(1);
  assert.equal(sender.hasRoom(item()), false);
  sender.run();
  assert.equal(sender.hasRoom(item()), true);
});

test("a tenant with too much in memory refuses items, whatever their endpoints", () => {
  const { sender } = setup({ tenantWaitingMax: 4 }, []);
  const all = Array.from({ length: 6 }, (_, n) => item({ endpoint: `http://${n}` }));
  assert.deepEqual(all.map((each) => sender.add(each)).slice(3), [undefined, "tenant", "tenant"]);
  const globex = "globex" as TenantId;
  assert.equal(sender.add(item({ tenantId: globex })), undefined);
  const [tenantId, endpoint] = [item().tenantId, undefined];
  assert.equal(sender.hasRoom({ tenantId, endpoint }), false);
  sender.run();
  assert.equal(sender.hasRoom({ tenantId, endpoint }), true);
});

test("a target that is held sends nothing until then", async () => {
  const world = setup({}, many(1));
  const [one] = world.run();
  const untilMs = world.clock.monotonicMs() + 700;
  world.sender.hold(item(), untilMs);
  await world.end(one, undefined);
  world.sender.add(item());
  await world.clock.advance(699);
  assert.deepEqual([world.run(), world.sender.nextMs()], [[], untilMs]);
  await world.clock.advance(1);
  assert.equal(world.run().length, 1);
});

test("targets without items are remembered up to a limit", async () => {
  const world = setup({ idleTargetsMax: 1, perNewEndpointMax: failuresMax }, many(failuresMax));
  for (const each of world.run()) await world.end(each, "silent");
  assert.equal(world.sender.isSilent(item()), true);
  const other = item({ endpoint: "http://b" });
  world.sender.add(other);
  world.run();
  await world.end(other, "answered");
  assert.equal(world.sender.isSilent(item()), false);
});

test("several shards together have as many requests open as one, and each has a slot", () => {
  const crowd = Array.from({ length: 200 }, (_, tenant) =>
    many(1, { tenantId: `tenant${tenant}` as TenantId }),
  ).flat();
  const startedBy = (shards: number): number => setup(webhookLimits(shards), crowd).run().length;
  const alone = startedBy(1);
  for (const shards of [2, 3, 4, 8, 16, 64]) {
    const started = startedBy(shards);
    assert.ok(started >= 1 && started * shards <= alone, `${shards} shards start ${started} each`);
    // An endpoint that nobody knows yet gets its try, too.
    assert.equal(setup(webhookLimits(shards), many(1)).run().length, 1);
  }
});

test("an item that is not sent after all takes no slot", () => {
  let asked = 0;
  const limits = { ...webhookLimits(1), inFlightMax: 1 };
  const send = (): undefined => {
    asked += 1;
  };
  const sender = new Sender({ clock: new SimClock(), limits, send });
  for (const each of many(5)) sender.add(each);
  sender.run();
  assert.deepEqual([asked, sender.nextMs()], [5, undefined]);
});
