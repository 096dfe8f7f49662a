/** What every queue promises, whatever stands behind it. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import type { NewTask, Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
import { noQuotas, type Quotas, type TenantQuota } from "../src/config/quotas.ts";
import type { Enqueued, OwnedTask, Waiter } from "../src/core/broker/verbs.ts";
import { shardOf } from "../src/core/shards/shard-of.ts";
import {
  type Asked,
  AskedClaim,
  abandon,
  acme,
  claim,
  claimIds,
  completed,
  create,
  heartbeat,
  nack,
  newTask,
  owned,
  runDue,
  submit,
  success,
  umbrella,
  worker,
} from "./broker-world.ts";
import type { QueueWorld, QueueWorldOptions } from "./queue-worlds.ts";

export type OpenQueue = (options?: QueueWorldOptions) => Promise<QueueWorld>;

const minuteMs = 60_000;
const unknown = "019b7ca9-8d00-7000-8000-000000000000" as TaskId;

export function testQueue(name: string, open: OpenQueue): void {
  const check = (
    promise: string,
    run: (world: QueueWorld) => Promise<void>,
    options: QueueWorldOptions = {},
  ): void => {
    test(`${name}: ${promise}`, async () => {
      await using world = await open(options);
      await run(world);
    });
  };

  check("a task is created, claimed and finished, and its result is kept", async (world) => {
    const { broker } = world;
    const { task } = await world.done(create(broker, { payload: '{"a":1}' }).done);
    const [claimed] = await world.done(claim(broker));
    assert.equal(claimed?.task.id, task.id);
    assert.equal(claimed?.payload, '{"a":1}');
    const { result, repeated } = await world.done(submit(broker, owned(task), success).done);
    assert.equal(repeated, false);
    assert.equal(result.resultJson, '{"ok":true}');
    assert.deepEqual(await world.done(broker.result(acme, task.id)), result);
    const found = await world.done(broker.get(acme, task.id));
    assert.equal(found?.task.place.in, "done");
    assert.equal(found?.payload, '{"a":1}');
  });

  check("texts of every kind arrive as they were sent", async (world) => {
    const { broker } = world;
    const texts = ['"\ud800"', '"ä€😀"', JSON.stringify("x".repeat(1024 * 1024)), '""'];
    for (const payload of texts) {
      const { task } = await world.done(create(broker, { payload }).done);
      const [claimed] = await world.done(claim(broker));
      assert.equal(claimed?.payload, payload);
      const artifacts = [{ name: "a\udc00", url: "file:///a" }];
      await world.done(submit(broker, owned(task), completed(payload, artifacts)).done);
      const result = await world.done(broker.result(acme, task.id));
      assert.equal(result?.resultJson, payload);
      assert.deepEqual(result?.artifacts, artifacts);
      assert.deepEqual(await known(world, broker.artifactsOf(task.id)), ["file:///a"]);
    }
  });

  check("a priority outside of its limits is brought into them", async (world) => {
    const { broker } = world;
    for (const priority of [-5, 1e300, Number.NaN, 2.5, Number.NEGATIVE_INFINITY]) {
      const { task } = await world.done(create(broker, { priority }).done);
      assert.ok([0, 1, 2, 3, 9].includes(task.priority), `${priority} became ${task.priority}`);
    }
  });

  check("verbs refuse tasks that are unknown, of others, or in nobody's hands", async (world) => {
    const { broker } = world;
    const { task } = await world.done(create(broker).done);
    const refusals = async (of: OwnedTask): Promise<unknown[]> => {
      const asked = [
        submit(broker, of, success),
        nack(broker, of, { delaySeconds: 0, reason: "" }),
        abandon(broker, of, { interrupted: false }),
        heartbeat(broker, of, minuteMs),
      ];
      for (const each of asked) await refused<unknown>(world, each as Asked<unknown>);
      const mayFinish = await known(world, broker.mayFinish(of, "completed"));
      return [...asked.map(({ code }) => code), mayFinish];
    };
    const none = { tenantId: acme, id: unknown };
    assert.deepEqual(await refusals(owned(none)), Array(5).fill("task_unknown"));
    const others = { ...owned(task), tenantId: umbrella };
    assert.deepEqual(await refusals(others), Array(5).fill("task_unknown"));
    assert.deepEqual(await refusals(owned(task)), Array(5).fill("not_in_progress"));
    await world.done(claim(broker));
    const other = owned(task, "worker-2" as WorkerId);
    assert.deepEqual(await refusals(other), Array(5).fill("not_owner"));
    assert.equal(await world.done(broker.get(umbrella, task.id)), undefined);
    assert.equal(await world.done(broker.get(acme, unknown)), undefined);
    assert.equal(await world.done(broker.result(acme, task.id)), undefined);
    assert.equal(await known(world, broker.artifactsOf(unknown)), "task is gone");
  });

  check(
    "an idempotency key stands for one task, however often it is sent at once",
    async (world) => {
      const { broker } = world;
      const keys = Array.from({ length: 30 }, (_, at) => `key-${at}`);
      const asked = [...keys, ...keys, ...keys].map((idempotencyKey) =>
        create(broker, { idempotencyKey }),
      );
      const answers = await world.done(Promise.all(asked.map(({ done }) => done)));
      assert.equal(new Set(answers.map(({ task }) => task.id)).size, 30);
      assert.equal(answers.filter(({ replayed }) => replayed).length, 60);
      const reused = create(broker, { idempotencyKey: "key-1", payloadHash: "other" });
      await refused(world, reused);
      assert.equal(reused.code, "idempotency_key_reused");
      const ofOthers = create(broker, { tenantId: umbrella, idempotencyKey: "key-1" });
      assert.equal((await world.done(ofOthers.done)).replayed, false);
      assert.equal(sum((await known(world, broker.counts(acme, "work"))).ready), 30);
    },
  );

  check("a repeated submit gets the result that is there", async (world) => {
    const { broker } = world;
    const { task } = await world.done(create(broker).done);
    await world.done(claim(broker));
    const first = await world.done(submit(broker, owned(task), success).done);
    assert.deepEqual(await known(world, broker.mayFinish(owned(task), "completed")), {
      isRepeat: true,
    });
    const second = await world.done(submit(broker, owned(task), completed("{}")).done);
    assert.equal(second.repeated, true);
    assert.deepEqual(second.result, first.result);
  });

  check("every item of a batch is answered once, under its number", async (world) => {
    const answered = new Map<number, string>();
    const all = Promise.withResolvers<void>();
    const waiter: Waiter<Enqueued> = {
      durable: ({ task }, item) => {
        assert.ok(!answered.has(item));
        answered.set(item, task.command);
        if (answered.size === 100) all.resolve();
      },
      refused: () => assert.fail("refused"),
    };
    for (let item = 0; item < 100; item += 1) {
      world.broker.enqueue(newTask({ command: `c${item}` }), waiter, item);
    }
    await world.done(all.promise);
    for (const [item, command] of answered) assert.equal(command, `c${item}`);
  });

  check("the highest priority is claimed first, over several queues", async (world) => {
    const { broker } = world;
    for (const priority of [3, 9, 0, 7, 1, 8, 2, 6, 5, 4]) {
      const command = priority % 2 === 0 ? "even" : "odd";
      await world.done(create(broker, { priority, command }).done);
    }
    await world.quiet();
    const priorities: (number | undefined)[] = [];
    for (let at = 0; at < 10; at += 1) {
      const [claimed] = await world.done(claim(broker, { commands: ["odd", "even"] }));
      priorities.push(claimed?.task.priority);
    }
    assert.deepEqual(priorities, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
  });

  check("inside a shard the task that was ready first is claimed first", async (world) => {
    const { broker } = world;
    const created: TaskId[] = [];
    for (let at = 0; at < 30; at += 1) {
      created.push((await world.done(create(broker).done)).task.id);
    }
    const claimed: TaskId[] = [];
    for (let at = 0; at < 30; at += 1) claimed.push(...(await world.done(claimIds(broker))));
    const count = world.brokers.length;
    for (let shard = 0; shard < count; shard += 1) {
      const ofShard = (id: TaskId): boolean => shardOf(id, count) === shard;
      assert.deepEqual(claimed.filter(ofShard), created.filter(ofShard));
    }
  });

  check("claims share out all tasks, each once and none too many", async (world) => {
    const { broker } = world;
    await createMany(world, 40);
    await world.quiet();
    const claimed: TaskId[] = [];
    for (;;) {
      const some = await world.done(claimIds(broker, { count: 7 }));
      assert.ok(some.length <= 7);
      if (some.length === 0) break;
      claimed.push(...some);
    }
    assert.equal(claimed.length, 40);
    assert.equal(new Set(claimed).size, 40);
  });

  check("claims that wait get the tasks that come, the first the first", async (world) => {
    const { broker } = world;
    const waiting = Array.from({ length: 5 }, () => claimIds(broker, { waitMs: minuteMs }));
    await world.quiet();
    const order: number[] = [];
    for (const [at, each] of waiting.entries()) void each.then(() => order.push(at));
    for (let at = 0; at < 5; at += 1) {
      await world.done(create(broker).done);
      await world.quiet();
    }
    await world.done(Promise.all(waiting));
    assert.deepEqual(order, [0, 1, 2, 3, 4]);
  });

  check("however tasks and claims meet, nobody waits beside work", async (world) => {
    const { broker } = world;
    for (let round = 0; round < 20; round += 1) {
      const claims = Array.from({ length: 6 }, () => claimIds(broker, { waitMs: 10 * minuteMs }));
      const made = createMany(world, 6);
      const more = Array.from({ length: 3 }, () =>
        claimIds(broker, { waitMs: 10 * minuteMs, count: 4, commands: undefined }),
      );
      await made;
      const last = createMany(world, 12);
      const got = (await world.done(Promise.all([...claims, ...more]))).flat();
      await last;
      await world.quiet();
      for (;;) {
        const rest = await world.done(claimIds(broker, { count: 50 }));
        if (rest.length === 0) break;
        got.push(...rest);
      }
      assert.equal(got.length, 18);
      assert.equal(new Set(got).size, 18);
    }
  });

  check(
    "a claim is answered with nothing when its time is up or its caller is gone",
    async (world) => {
      const { broker, clock } = world;
      assert.deepEqual(await world.done(claimIds(broker)), []);
      const inTime = claimIds(broker, { waitMs: minuteMs });
      await world.quiet();
      await clock.advance(minuteMs);
      assert.deepEqual(await world.done(inTime), []);
      const gone = new AbortController();
      const { signal } = gone;
      const cancelled = claimIds(broker, { waitMs: Number.POSITIVE_INFINITY, signal });
      await world.quiet();
      gone.abort();
      assert.deepEqual(await world.done(cancelled), []);
      assert.deepEqual(await world.done(claimIds(broker, { waitMs: minuteMs, signal })), []);
      // A task that comes now is for somebody else.
      const { task } = await world.done(create(broker).done);
      await world.quiet();
      assert.deepEqual(await world.done(claimIds(broker)), [task.id]);
    },
  );

  check("a claim for several queues or for all gets what comes to any of them", async (world) => {
    const { broker } = world;
    const named = claimIds(broker, { commands: ["a", "b"], waitMs: minuteMs });
    await world.quiet();
    const first = await world.done(create(broker, { command: "b" }).done);
    assert.deepEqual(await world.done(named), [first.task.id]);
    const any = claimIds(broker, { commands: undefined, waitMs: minuteMs });
    await world.quiet();
    await world.done(create(broker, { command: "c", tenantId: umbrella }).done);
    const second = await world.done(create(broker, { command: "c" }).done);
    assert.deepEqual(await world.done(any), [second.task.id]);
  });

  check("a lease is extended, given back, put off and released", async (world) => {
    const { broker, clock } = world;
    const { task } = await world.done(create(broker).done);
    await world.done(claim(broker));
    const { untilMs } = await world.done(heartbeat(broker, owned(task), 5 * minuteMs).done);
    assert.ok(untilMs > clock.nowMs() + 4 * minuteMs);
    const back = await world.done(abandon(broker, owned(task), { interrupted: false }).done);
    assert.equal(back.task.place.in, "ready");
    const [again] = await world.done(claim(broker));
    assert.equal(again?.task.id, task.id);
    broker.release({
      ...owned(task),
      owner: { workerId: worker, leaseToken: again?.task.leaseToken },
    });
    await world.quiet();
    assert.deepEqual(await world.done(claimIds(broker)), [task.id]);
    const late = { delaySeconds: 30, reason: "later" };
    const put = await world.done(nack(broker, owned(task), late).done);
    assert.equal(put.task.place.in, "delayed");
    assert.equal(put.delaySeconds, 30);
    await world.quiet();
    assert.equal((await known(world, broker.counts(acme, "work"))).delayed, 1);
    await clock.advance(30_000);
    for (const broker of world.brokers) await runDue(broker, clock);
    await world.quiet();
    assert.deepEqual(await world.done(claimIds(broker)), [task.id]);
  });

  check("who waits for a result hears of it, or that the time is up", async (world) => {
    const { broker, clock } = world;
    const { task } = await world.done(create(broker).done);
    const wait = (signal?: AbortSignal): Promise<string> =>
      broker.awaitResult(acme, task.id, { waitMs: minuteMs, signal });
    let isOver = false;
    const inVain = wait().finally(() => {
      isOver = true;
    });
    await world.quiet();
    assert.equal(isOver, false);
    await clock.advance(minuteMs);
    assert.equal(await world.done(inVain), "waited");
    const gone = new AbortController();
    const left = [wait(gone.signal), wait(gone.signal), wait(gone.signal)];
    await world.quiet();
    assert.equal(getEventListeners(gone.signal, "abort").length, 1);
    gone.abort();
    assert.deepEqual(await world.done(Promise.all(left)), ["waited", "waited", "waited"]);
    assert.equal(await world.done(wait(gone.signal)), "waited");
    await world.done(claim(broker));
    const waiting = wait();
    await world.quiet();
    await world.done(submit(broker, owned(task), success).done);
    assert.equal(await world.done(waiting), "waited");
    assert.notEqual(await world.done(broker.result(acme, task.id)), undefined);
    assert.equal(await world.done(wait()), "waited");
    const ofNobody = broker.awaitResult(acme, unknown, { waitMs: minuteMs, signal: undefined });
    assert.equal(await world.done(ofNobody), "waited");
  });

  check("counts, queues, tenants and leases are those of all tasks together", async (world) => {
    const { broker, clock } = world;
    await createMany(world, 20, { command: "Work", priority: 2 });
    const visibleMs = clock.nowMs() + 100 * minuteMs;
    await createMany(world, 5, { visibleMs });
    await createMany(world, 3, { command: "other", tenantId: umbrella });
    await world.quiet();
    const leased: TaskId[] = [];
    while (leased.length < 6) {
      const count = 6 - leased.length;
      leased.push(...(await world.done(claimIds(broker, { count }))));
    }
    const counts = await known(world, broker.counts(acme, "WORK"));
    assert.deepEqual([counts.ready[2], counts.delayed, counts.leased], [14, 5, 6]);
    const queues = await known(world, broker.queuesOf(acme, true));
    assert.deepEqual(
      queues.filter(({ counts: each }) => sum(each.ready) > 0).map((each) => each.queue),
      ["work"],
    );
    assert.deepEqual([...(await known(world, broker.tenants()))].sort(), [acme, umbrella]);
    const { workers, isPartial } = await known(world, broker.leasesOf(acme));
    assert.equal(isPartial, false);
    assert.deepEqual(
      workers.map(({ workerId, leases }) => [workerId, leases]),
      [[worker, 6]],
    );
    assert.deepEqual((await known(world, broker.leasesOf("nobody" as TenantId))).workers, []);
  });

  check(
    "a tenant has no task more than its quota, and none less",
    async (world) => {
      const { broker } = world;
      const asked = Array.from({ length: 20 }, () => create(broker));
      await world.done(Promise.allSettled(asked.map(({ done }) => done)));
      assert.equal(asked.filter(({ isRefused }) => isRefused).length, 13);
      const refusal = asked.find(({ isRefused }) => isRefused)?.refusal;
      assert.deepEqual(refusal, {
        code: "quota_exceeded",
        exceeded: { quota: "pendingTasks", limit: 7, current: 7 },
      });
      await world.done(create(broker, { tenantId: umbrella }).done);
      await world.done(claimIds(broker));
      await world.quiet();
      await world.done(create(broker).done);
      const over = create(broker);
      await refused(world, over);
      assert.equal(over.code, "quota_exceeded");
    },
    { quotas: quota({ pendingTasks: 7 }) },
  );

  check(
    "a key that is known is answered however full the tenant is",
    async (world) => {
      const { broker } = world;
      const known = { idempotencyKey: "known" };
      const { task } = await world.done(create(broker, known).done);
      for (let at = 0; at < 3; at += 1) {
        const again = await world.done(create(broker, known).done);
        assert.deepEqual([again.task.id, again.replayed], [task.id, true]);
      }
      const other = create(broker, { idempotencyKey: "new" });
      await refused(world, other);
      assert.equal(other.code, "quota_exceeded");
    },
    { quotas: quota({ pendingTasks: 1 }) },
  );

  check(
    "a tenant has no byte more than its quota, and results count",
    async (world) => {
      const { broker } = world;
      const ten = { payload: '"89abcdef"' };
      const asked = Array.from({ length: 15 }, () => create(broker, ten));
      await world.done(Promise.allSettled(asked.map(({ done }) => done)));
      assert.equal(asked.filter(({ isRefused }) => isRefused).length, 5);
      const [claimed] = await world.done(claim(broker));
      await world.done(submit(broker, owned(claimed?.task as Task), completed('"xx"')).done);
      await world.quiet();
      assert.deepEqual(asked.at(-1)?.refusal, {
        code: "quota_exceeded",
        exceeded: { quota: "storedBytes", limit: 100, current: 100 },
      });
      const over = create(broker, { payload: "1" });
      await refused(world, over);
      assert.equal(over.code, "quota_exceeded");
      const wanted = { tenantId: acme, beforeMs: Number.MAX_SAFE_INTEGER, limit: 10 };
      assert.equal(await world.done(broker.cleanUp(wanted)), 1);
      await world.quiet();
      await world.done(create(broker, ten).done);
    },
    { quotas: quota({ storedBytes: 100 }) },
  );

  check(
    "a tenant has no lease more than its quota, and who waits gets the next",
    async (world) => {
      const { broker } = world;
      await createMany(world, 20);
      await world.quiet();
      const asked = Array.from({ length: 5 }, () => claimIds(broker, { count: 2 }));
      const held = (await world.done(Promise.all(asked))).flat();
      for (;;) {
        const more = await world.done(claimIds(broker, { count: 9 }));
        if (more.length === 0) break;
        held.push(...more);
      }
      assert.equal(held.length, 3);
      assert.deepEqual(broker.exceededByLease(acme), {
        quota: "concurrentLeases",
        limit: 3,
        current: 3,
      });
      assert.equal(broker.exceededByLease(umbrella), undefined);
      const waiting = claimIds(broker, { waitMs: 10 * minuteMs, count: 5 });
      await world.quiet();
      for (const id of held) {
        await world.done(submit(broker, owned({ tenantId: acme, id }), success).done);
      }
      const next = await world.done(waiting);
      assert.ok(next.length >= 1 && next.length <= 3);
    },
    { quotas: quota({ concurrentLeases: 3 }) },
  );

  check("finished tasks are cleaned up, as many and as old as asked for", async (world) => {
    const { broker, clock } = world;
    const ids = (await createMany(world, 10)).map(({ task }) => task.id);
    await world.done(create(broker, { tenantId: umbrella }).done);
    await world.quiet();
    for (let left = 10; left > 0; ) {
      const claimed = await world.done(claimIds(broker, { count: left }));
      left -= claimed.length;
      for (const id of claimed) {
        await world.done(submit(broker, owned({ tenantId: acme, id }), success).done);
      }
    }
    const beforeMs = clock.nowMs() + 1000 * minuteMs;
    assert.equal(await world.done(broker.cleanUp({ tenantId: acme, beforeMs: 1, limit: 5 })), 0);
    assert.equal(await world.done(broker.cleanUp({ tenantId: umbrella, beforeMs, limit: 5 })), 0);
    assert.equal(await world.done(broker.cleanUp({ tenantId: acme, beforeMs, limit: 4 })), 4);
    assert.equal(await world.done(broker.cleanUp({ tenantId: acme, beforeMs, limit: 100 })), 6);
    for (const id of ids) assert.equal(await world.done(broker.get(acme, id)), undefined);
  });

  check("a shutdown ends every wait", async (world) => {
    const { broker } = world;
    const { task } = await world.done(create(broker, { command: "held" }).done);
    const claims = Array.from({ length: 4 }, () => claimIds(broker, { waitMs: minuteMs }));
    const forAll = claimIds(broker, { waitMs: Number.POSITIVE_INFINITY, tenantId: umbrella });
    const result = broker.awaitResult(acme, task.id, { waitMs: minuteMs, signal: undefined });
    await world.quiet();
    broker.stopWaiting();
    const atMs = world.clock.monotonicMs();
    assert.deepEqual((await world.done(Promise.all([...claims, forAll]))).flat(), []);
    assert.equal(await world.done(result), "waited");
    assert.ok(world.clock.monotonicMs() - atMs < minuteMs / 2);
  });

  check(
    "a claim that is cancelled while tasks are on their way gets them or leaves them",
    async (world) => {
      const { broker } = world;
      const { task } = await world.done(create(broker).done);
      await world.quiet();
      const asked = new AskedClaim({
        tenantId: acme,
        workerId: worker,
        queues: ["work"],
        leaseMs: minuteMs,
        count: 1,
        waitMs: minuteMs,
      });
      broker.claim(asked);
      broker.cancelClaim(asked);
      const got = await world.done(asked.asked.done);
      await world.quiet();
      const left = await world.done(claimIds(broker));
      assert.deepEqual([...got.map((each) => each.task.id), ...left], [task.id]);
    },
  );

  check("so many may wait, and no more of a tenant", async (world) => {
    assert.equal(world.broker.isCrowded(acme), false);
    assert.equal(world.broker.state, "open");
    assert.equal(world.broker.isOverloaded, false);
    const states = world.broker.shards.map(({ state, error }) => [state, error]);
    assert.ok(states.every(([state, error]) => state === "open" && error === undefined));
  });
}

async function refused<T>(world: QueueWorld, asked: Asked<T>): Promise<void> {
  await world.done(
    asked.done.then(
      () => assert.fail("not refused"),
      () => {},
    ),
  );
}

function known<T>(world: QueueWorld, value: T | Promise<T>): Promise<T> {
  return world.done(Promise.resolve(value));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, each) => all + each, 0);
}

function quota(fields: Partial<TenantQuota>): Quotas {
  const tenants = new Map([[acme as string, { ...noQuotas.default, ...fields }]]);
  return { default: noQuotas.default, tenants };
}

/** All at once. */
function createMany(
  world: QueueWorld,
  count: number,
  fields: Partial<NewTask> = {},
): Promise<Enqueued[]> {
  const asked: Asked<Enqueued>[] = [];
  for (let made = 0; made < count; made += 1) asked.push(create(world.broker, fields));
  return world.done(Promise.all(asked.map((each) => each.done)));
}
