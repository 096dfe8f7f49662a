import assert from "node:assert/strict";
import { test } from "node:test";
import { endedKey, FaultError, put } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { type ControlNode, ControlWorld } from "../../../test/control-world.ts";
import { apiKeyKey, auditPrefix } from "../../core/store/keys.ts";
import type { ApiKeyRequest, Audit, CreatedApiKey } from "../../edge/access/api-keys/api-keys.ts";
import { ConnectedWorkers } from "../../edge/connected-workers.ts";
import { BulkJobs } from "../../features/jobs/bulk-jobs.ts";

const acme = "acme" as TenantId;
const unheard: Audit = () => ({ writes: [], log: () => {} });
const request: ApiKeyRequest = {
  tenantId: acme,
  name: "ci",
  createdBy: "boss",
  role: "none",
  expiresMs: undefined,
  scopes: ["codeq:create"],
  eventTypes: ["*"],
};

async function setup(seed?: number): Promise<ControlWorld> {
  const world = new ControlWorld(seed);
  await world.start();
  await world.until(() => world.leader !== undefined);
  await world.until(() => world.nodes.every(({ control }) => control.state === "open"));
  return world;
}

/** Lets time pass until the promise is settled. */
async function settled<T>(world: ControlWorld, promise: Promise<T>): Promise<T> {
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  promise.then(end, end);
  await world.until(() => isOver);
  return promise;
}

async function created(world: ControlWorld, node: ControlNode): Promise<CreatedApiKey> {
  const outcome = await settled(world, node.keys.create(request, unheard));
  assert.ok(outcome.ok);
  return outcome.value;
}

function isAccepted({ keys }: ControlNode, token: string): boolean {
  const verified = keys.verify(token);
  return "ok" in verified && verified.ok && !verified.value.isRevoked();
}

function followers(world: ControlWorld): readonly [ControlNode, ControlNode] {
  return world.nodes.filter((node) => node !== world.leader) as [ControlNode, ControlNode];
}

test("a key that one node creates is accepted by all, and revoked on all by any of them", async () => {
  await using world = await setup();
  const [one, other] = followers(world);
  // The leader answers before this node has read of it.
  one.logDelayMs = 150;
  const { key, token } = await created(world, one);
  assert.ok(isAccepted(one, token), "where it was created, with the answer");
  await world.until(() => world.nodes.every((node) => isAccepted(node, token)));
  const page = await other.keys.list({ tenantId: acme, after: "", limit: 10 });
  assert.deepEqual(
    page.keys.map((each) => each.key.id),
    [key.id],
  );
  const verified = one.keys.verify(token);
  assert.ok("ok" in verified && verified.ok);
  const wanted = { id: key.id, tenantId: acme };
  assert.equal((await settled(world, other.keys.revoke(wanted, unheard)))?.id, key.id);
  assert.ok(!isAccepted(other, token), "where it was revoked, with the answer");
  await world.until(() => world.nodes.every((node) => !isAccepted(node, token)));
  assert.ok(verified.value.isRevoked(), "and who was accepted before is told");
});

test("a node that is behind revokes a key that another node has just created", async () => {
  await using world = await setup();
  const [one, late] = followers(world);
  late.logDelayMs = 400;
  const { key } = await created(world, one);
  assert.equal(late.keys.find(key.id), undefined, "it has not read of the key yet");
  const wanted = { id: key.id, tenantId: acme };
  assert.equal((await settled(world, late.keys.revoke(wanted, unheard)))?.id, key.id);
  await world.until(() => world.nodes.every(({ keys }) => keys.find(key.id) === undefined));
});

test("what was set outlives the leader, and the next one goes on", async () => {
  await using world = await setup();
  const first = world.leader as ControlNode;
  const { token } = await created(world, first);
  await settled(world, first.stop());
  await world.until(() => world.leader !== undefined);
  const next = world.leader as ControlNode;
  assert.notEqual(next, first);
  await world.until(() => isAccepted(next, token));
  const again = await created(world, next);
  const [left] = followers(world).filter((node) => node !== first);
  await world.until(() => isAccepted(left as ControlNode, again.token));
});

test("a node that cannot read the log for ten seconds accepts no key, and none that was revoked meanwhile", async () => {
  await using world = await setup();
  const [cutOff, other] = followers(world);
  const { key, token } = await created(world, other);
  const kept = await created(world, other);
  await world.until(() => isAccepted(cutOff, token));
  cutOff.isCutOff = true;
  await settled(world, other.keys.revoke({ id: key.id, tenantId: acme }, unheard));
  assert.ok(isAccepted(cutOff, token), "it cannot know yet");
  await world.clock.advance(10_500);
  assert.deepEqual(cutOff.keys.verify(token), { ok: false, code: "keys_unavailable" });
  assert.deepEqual(cutOff.keys.verify(kept.token), { ok: false, code: "keys_unavailable" });
  cutOff.isCutOff = false;
  await world.until(() => isAccepted(cutOff, kept.token));
  assert.ok(!isAccepted(cutOff, token));
});

test("a leader that is cut off is in doubt as well, and what it could not write is not there", async () => {
  await using world = await setup();
  const first = world.leader as ControlNode;
  const { token } = await created(world, first);
  first.isCutOff = true;
  const lost = first.keys.create(request, unheard);
  lost.catch(() => {});
  await world.until(() => world.leader !== undefined);
  const next = world.leader as ControlNode;
  const { token: later } = await created(world, next);
  await world.clock.advance(10_500);
  assert.deepEqual(first.keys.verify(token), { ok: false, code: "keys_unavailable" });
  first.isCutOff = false;
  await assert.rejects(settled(world, lost), (error: FaultError) => {
    assert.ok(["not_leader", "unknown"].includes(error.code), error.code);
    return true;
  });
  await world.until(() => isAccepted(first, later) && isAccepted(first, token));
  assert.equal(first.keys.size, next.keys.size);
});

test("a write that expects a record as it no longer is changes nothing", async () => {
  await using world = await setup();
  const [one, other] = followers(world);
  const key = `${auditPrefix}x`;
  assert.equal(await settled(world, one.control.commit([put(key, "1")])), true);
  const expected = [{ key, text: "1" }];
  const both = [one, other].map((node, at) =>
    node.control.commit([put(key, `2 of ${at}`)], expected),
  );
  assert.deepEqual((await settled(world, Promise.all(both))).sort(), [false, true]);
  assert.equal(await settled(world, one.control.commit([put(key, "3")], expected)), false);
});

test("one node is in charge, and another one when it has gone", async () => {
  await using world = await setup();
  const inCharge = (): ControlNode[] =>
    world.nodes.filter(({ control, isCutOff }) => control.isInCharge && !isCutOff);
  await world.until(() => inCharge().length === 1);
  const [first] = inCharge() as [ControlNode];
  await settled(world, first.stop());
  await world.until(() => inCharge().length === 1);
  assert.notEqual(inCharge()[0], first);
});

test("the node that is named in a hand-over leads next, and everybody sees its epoch with it", async () => {
  await using world = await setup();
  const [, last] = followers(world);
  const seen: string[] = [];
  for (const node of world.nodes) {
    const { control } = node;
    const { look } = control;
    control.look = () => {
      const { leader, epoch } = node.replica?.status ?? {};
      if (leader !== undefined) seen.push(`${leader.id} ${epoch}`);
      look.call(control);
    };
  }
  const startedMs = world.clock.monotonicMs();
  world.leader?.replica?.handOff(last.name.id);
  await world.until(() => world.leader === last);
  assert.ok(world.clock.monotonicMs() - startedMs < 1000);
  await world.until(() => world.nodes.every(({ control }) => control.state === "open"));
  const { epoch } = last.replica?.status ?? {};
  assert.deepEqual(new Set(seen), new Set(["node-0 1", `${last.name.id} ${epoch}`]));
});

test("the others leave it to a named node that is slow, and not for ever to one that is gone", async () => {
  await using world = await setup();
  const [next, last] = followers(world);
  last.logDelayMs = 300;
  const firstMs = world.clock.monotonicMs();
  world.leader?.replica?.handOff(last.name.id);
  await world.until(() => world.leader === last);
  assert.ok(world.clock.monotonicMs() - firstMs > 800, "it reads, looks at the log, and asks");
  last.logDelayMs = 0;
  const { epoch = 0 } = last.replica?.status ?? {};
  next.isCutOff = true;
  last.replica?.handOff(next.name.id);
  await world.until(() => (world.leader?.replica?.status.epoch ?? 0) > epoch);
  assert.notEqual(world.leader, next);
});

test("a log that has ended is whole on every node, and nobody leads it again", async () => {
  await using world = await setup();
  const [one] = followers(world);
  const { key } = await created(world, one);
  one.replica?.end();
  await world.clock.advance(5000);
  assert.ok(world.leader !== undefined, "only the leader can end it");
  world.leader.replica?.end();
  await world.until(() => world.nodes.every((node) => node.replica?.status.role === "ended"));
  for (const { contents } of world.nodes) {
    assert.ok(contents.has(endedKey));
    assert.ok(contents.has(apiKeyKey(acme, key.id)));
  }
  await world.clock.advance(20_000);
  assert.equal(world.leader, undefined);
  await assert.rejects(settled(world, one.control.commit([put("codeq/x", "")])), {
    code: "not_leader",
  });
});

interface JobWorld {
  readonly acted: string[];
  readonly tasks: readonly { readonly id: string }[];
  readonly jobsOf: Map<ControlNode, BulkJobs>;
  /** What a node does to a task waits for this. */
  readonly gates: Map<ControlNode, Promise<void>>;
  /** Lets time pass, and jobs go on, until something holds. */
  readonly until: (holds: () => boolean) => Promise<void>;
}

async function withJobs(world: ControlWorld): Promise<JobWorld> {
  const tasks = Array.from({ length: 12 }, (_, at) => ({ id: `${at}`, place: { in: "dead" } }));
  const acted: string[] = [];
  const gates = new Map<ControlNode, Promise<void>>();
  const { clock, random } = world;
  const randomBytes = (into: Uint8Array): void => random.bytes(into);
  const jobsOf = new Map<ControlNode, BulkJobs>();
  const running = new Set<BulkJobs>();
  for (const node of world.nodes) {
    const queue = {
      find: async ({ after, limit }: { after: string; limit: number }) => {
        const from = after === "" ? 0 : Number(after) + 1;
        const page = tasks.slice(from, from + limit);
        const isLast = from + limit >= tasks.length;
        return { tasks: page, scanned: 0, next: isLast ? undefined : page.at(-1)?.id };
      },
      act: async ({ id }: { id: string }) => {
        acted.push(id);
        await gates.get(node);
        return { ok: true, task: { id, place: { in: "done" } } };
      },
    };
    const workers = new ConnectedWorkers(clock);
    const parts = { store: node.control, broker: queue as never, clock, randomBytes, workers };
    jobsOf.set(node, await BulkJobs.open(parts));
  }
  const runDue = (): void => {
    for (const jobs of jobsOf.values()) {
      const isDue = (jobs.dueMs ?? Number.POSITIVE_INFINITY) <= clock.monotonicMs();
      if (!isDue || running.has(jobs)) continue;
      running.add(jobs);
      void jobs.runDue().finally(() => running.delete(jobs));
    }
  };
  const until: JobWorld["until"] = (holds) =>
    world.until(() => {
      runDue();
      return holds();
    });
  return { acted, tasks, jobsOf, gates, until };
}

const newJob = {
  tenantId: acme,
  action: { kind: "delete" },
  filter: {},
  asked: {},
  perSecond: 1,
  canary: undefined,
  by: "boss",
} as const;

test("a bulk job runs on the node in charge, is paused by another, and goes on with the next one", async () => {
  await using world = await setup();
  const { acted, tasks, jobsOf, until } = await withJobs(world);
  const [one, other] = followers(world);
  const jobs = jobsOf.get(one) as BulkJobs;
  const job = await settled(world, jobs.create(newJob));
  assert.ok(job !== undefined);
  const stateOf = (each: BulkJobs): string | undefined => each.find(acme, job.id)?.state;
  await until(() => acted.length >= 3);
  const elsewhere = jobsOf.get(other) as BulkJobs;
  const paused = await settled(world, elsewhere.set(job, "paused"));
  assert.equal(paused?.state, "paused");
  assert.ok((paused?.changed ?? 0) >= 2, "what was done is not forgotten");
  await until(() => [...jobsOf.values()].every((each) => stateOf(each) === "paused"));
  const soFar = acted.length;
  const pausedMs = world.clock.monotonicMs();
  await until(() => world.clock.monotonicMs() > pausedMs + 4000);
  assert.ok(acted.length <= soFar + 1, "what was begun is finished, and nothing else");
  await settled(world, elsewhere.set(job, "running"));
  await until(() => acted.length >= 6);
  const first = world.leader as ControlNode;
  await settled(world, first.stop());
  jobsOf.delete(first);
  await until(() => [...jobsOf.values()].every((each) => stateOf(each) === "done"));
  assert.deepEqual(new Set(acted), new Set(tasks.map(({ id }) => id)));
});

test("a step of a node that is in charge no longer does not count", async () => {
  await using world = await setup();
  const { tasks, jobsOf, gates, until, acted } = await withJobs(world);
  const first = world.leader as ControlNode;
  const jobs = jobsOf.get(first) as BulkJobs;
  const gate = Promise.withResolvers<void>();
  gates.set(first, gate.promise);
  const job = await settled(world, jobs.create(newJob));
  assert.ok(job !== undefined);
  await until(() => acted.length >= 1);
  const [next] = followers(world);
  first.replica?.handOff(next.name.id);
  await until(() => acted.length >= 4);
  gate.resolve();
  await until(() =>
    [...jobsOf.values()].every((each) => each.find(acme, job.id)?.state === "done"),
  );
  const { changed, matched } = jobs.find(acme, job.id) ?? {};
  assert.deepEqual([changed, matched], [tasks.length, tasks.length]);
});

test("what is written while a listener loads is heard afterwards", async () => {
  await using world = await setup();
  const [one, other] = followers(world);
  const gate = Promise.withResolvers<void>();
  const heard: string[] = [];
  let isLoading = false;
  await one.control.listen({
    changed: ({ key }) => void heard.push(key.split("/")[1] ?? ""),
    load: () => {
      isLoading = true;
      return gate.promise;
    },
  });
  await world.until(() => isLoading);
  await created(world, other);
  assert.deepEqual(heard, []);
  gate.resolve();
  await world.until(() => heard.length > 0);
  assert.deepEqual(heard.slice(0, 1), ["keys"]);
  assert.equal(one.keys.size, other.keys.size);
});

test("without a leader a commit waits, and is refused when none comes", async () => {
  await using world = await setup();
  const [one, other] = followers(world);
  const leader = world.leader as ControlNode;
  for (const node of [leader, other]) node.isCutOff = true;
  one.isCutOff = true;
  await world.clock.advance(3000);
  const outcome = one.keys.create(request, unheard);
  await assert.rejects(settled(world, outcome), (error: FaultError) =>
    ["not_leader", "unknown"].includes(error.code),
  );
});

test("all nodes know the same keys after any number of changes on any of them", async () => {
  for (let seed = 1; seed <= 5; seed += 1) {
    await using world = await setup(seed);
    const { random } = world;
    const tokens: CreatedApiKey[] = [];
    const pending: Promise<unknown>[] = [];
    for (let step = 0; step < 60; step += 1) {
      const node = random.pick(world.nodes);
      const known = tokens.length > 0 && random.next() < 0.4 ? random.pick(tokens) : undefined;
      const work = known
        ? node.keys.revoke({ id: known.key.id, tenantId: acme }, unheard)
        : node.keys.create(request, unheard).then((made) => {
            if (made.ok) tokens.push(made.value);
          });
      pending.push(work.catch((error: unknown) => assert.ok(error instanceof FaultError)));
      if (random.next() < 0.1) {
        const victim = random.pick(world.nodes);
        victim.isCutOff = !victim.isCutOff;
      }
      await world.clock.advance(random.int(400));
    }
    for (const node of world.nodes) node.isCutOff = false;
    await settled(world, Promise.all(pending));
    await world.clock.advance(15_000);
    const sets = world.nodes.map((node) =>
      tokens.map(({ token }) => (isAccepted(node, token) ? "1" : "0")).join(""),
    );
    assert.equal(new Set(sets).size, 1, `seed ${seed}: ${sets.join(" ")}`);
    assert.ok(world.nodes.every(({ keys }) => keys.size === world.nodes[0]?.keys.size));
  }
});

test("a node that ends while others load what it has does not fail", async () => {
  await using world = new ControlWorld();
  await world.start();
  await world.until(() => world.leader !== undefined);
  const [node] = world.nodes as [ControlNode];
  const loading = Promise.withResolvers<void>();
  const files = Promise.withResolvers<void>();
  await node.control.listen({
    changed: () => {},
    load: () => {
      loading.resolve();
      return files.promise;
    },
  });
  await world.until(() => node.control.state === "open");
  await world.clock.advance(1000);
  await loading.promise;
  node.control.use(undefined);
  files.reject(new Error("Database is not open"));
  await world.clock.advance(1000);
  node.control.use(node.replica);
});
