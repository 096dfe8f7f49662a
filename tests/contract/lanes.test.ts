/** Lanes over HTTP: what tasks, topics and workers say of them. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Reply, type RunningServer, setup } from "./setup.ts";

const policy = { priorityTiers: [0], maxAttempts: 3 };

function putTopic(server: RunningServer, fields: object): Promise<Reply> {
  const body = { ...policy, ...fields };
  return server.ask("/v1/codeq/admin/topics/render", { method: "PUT", caller: "admin-acme", body });
}

function create(server: RunningServer, fields: object): Promise<Reply> {
  const body = { command: "render", payload: {}, ...fields };
  return server.ask("/v1/codeq/tasks", { method: "POST", caller: "producer-acme", body });
}

async function claimed(server: RunningServer, count = 9): Promise<string[]> {
  const body = { commands: ["render"], count };
  const reply = await server.ask("/v1/codeq/tasks/claim/batch", {
    method: "POST",
    caller: "worker-acme",
    body,
  });
  const tasks: { lane?: string; id: string }[] = reply.status === 204 ? [] : reply.json.tasks;
  return tasks.map(({ lane = "-", id }) => `${lane} ${id}`);
}

test("a task shows its lane and its cost", async (t) => {
  const server = await setup(t);
  const reply = await create(server, { lane: "acme", cost: 3 });
  assert.deepEqual([reply.status, reply.json.lane, reply.json.cost], [202, "acme", 3]);
  const plain = await create(server, { lane: "", cost: 1 });
  assert.deepEqual([plain.json.lane, plain.json.cost], [undefined, undefined]);
  const { json } = await server.ask("/v1/codeq/tasks/batch", {
    method: "POST",
    caller: "producer-acme",
    body: { tasks: [{ command: "render", lane: "b" }] },
  });
  assert.equal(json.results[0].task.lane, "b");
});

test("lanes and costs outside of their bounds are refused", async (t) => {
  const server = await setup(t);
  for (const fields of [
    { cost: -1 },
    { cost: 1.5 },
    { cost: 1_000_000_001 },
    { lane: "a".repeat(201) },
    { lane: "é".repeat(101) },
    { lane: "a\nb" },
    { lane: 7 },
  ]) {
    const reply = await create(server, fields);
    assert.equal(reply.status, 400, JSON.stringify(fields));
  }
  assert.equal((await create(server, { lane: "é".repeat(100), cost: 1_000_000_000 })).status, 202);
});

test("the topic limits each lane, and a result frees the next task", async (t) => {
  const server = await setup(t);
  assert.equal((await putTopic(server, { lanes: { concurrency: 1 } })).status, 201);
  for (const lane of ["a", "a", "b"]) await create(server, { lane });
  const [first = "", second = ""] = await claimed(server);
  assert.deepEqual([first[0], second[0]].sort(), ["a", "b"]);
  assert.deepEqual(await claimed(server), []);
  const id = [first, second].find((each) => each.startsWith("a "))?.slice(2) ?? "";
  const body = { status: "COMPLETED", result: {} };
  await server.ask(`/v1/codeq/tasks/${id}/result`, { method: "POST", caller: "worker-acme", body });
  assert.equal((await claimed(server)).length, 1);
});

test("a rate is settled by the result, and holds tasks back until its time", async (t) => {
  const server = await setup(t);
  const rate = { units: 60, per: "1m", burst: 10 };
  assert.equal((await putTopic(server, { lanes: { rate } })).status, 201);
  const refused = await create(server, { lane: "a", cost: 11 });
  assert.equal(refused.status, 400);
  assert.match(refused.json.error, /costs 11 units and the rate allows 10 at once/);
  for (let n = 0; n < 3; n++) await create(server, { lane: "a", cost: 10 });
  const [first = ""] = await claimed(server);
  assert.deepEqual(await claimed(server), []);
  const body = { status: "COMPLETED", result: {}, used: 2 };
  const path = `/v1/codeq/tasks/${first.slice(2)}/result`;
  await server.ask(path, { method: "POST", caller: "worker-acme", body });
  await server.clock.advance(1900);
  assert.deepEqual(await claimed(server), []);
  await server.clock.advance(200);
  assert.equal((await claimed(server)).length, 1);
});

test("a held task keeps its turn and its attempts, and its lane waits", async (t) => {
  const server = await setup(t);
  await create(server, { lane: "a" });
  await create(server, { lane: "a" });
  await create(server, { lane: "b" });
  const [first = ""] = await claimed(server, 1);
  const body = { holdSeconds: 30, reason: "429" };
  const path = `/v1/codeq/tasks/${first.slice(2)}/nack`;
  const reply = await server.ask(path, { method: "POST", caller: "worker-acme", body });
  assert.deepEqual(reply.json, { status: "requeued", delaySeconds: 30 });
  const others = await claimed(server);
  assert.ok(others.every((each) => !each.startsWith(first.slice(0, 1))));
  await server.clock.advance(30_100);
  assert.equal((await claimed(server))[0], first);
});

test("values of a nack and of a result outside of their bounds are refused", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  for (const fields of [{ holdSeconds: -1 }, { holdSeconds: 86_401 }, { used: -1 }]) {
    const path = `/v1/codeq/tasks/${id}/nack`;
    const reply = await server.ask(path, { method: "POST", caller: "worker-acme", body: fields });
    assert.equal(reply.status, 400, JSON.stringify(fields));
  }
  const body = { status: "COMPLETED", result: {}, used: -1 };
  const path = `/v1/codeq/tasks/${id}/result`;
  const reply = await server.ask(path, { method: "POST", caller: "worker-acme", body });
  assert.equal(reply.status, 400);
});

test("a policy that no lane can follow is refused", async (t) => {
  const server = await setup(t);
  for (const [fields, said] of [
    [{ lanes: { concurrency: -1 } }, /invalid lanes: must be an object with concurrency/],
    [{ lanes: { rate: { units: 0, per: "1s" } } }, /units from 1/],
    [{ lanes: { rate: { units: 1, per: "soon" } } }, /per a length of time/],
    [{ rate: { units: 1, per: "0s" } }, /per a length of time/],
    [{ rate: { units: 1 } }, /./],
    [{ lanes: { fast: true } }, /./],
  ] as const) {
    const reply = await putTopic(server, fields);
    assert.ok([400, 422].includes(reply.status), JSON.stringify(fields));
    assert.match(reply.json.error, said);
  }
});

function ofLane(
  server: RunningServer,
  method: string,
  path: string,
  body?: object,
): Promise<Reply> {
  const url = `/v1/codeq/admin/topics/render/lanes${path}`;
  return server.ask(url, { method, caller: "admin-acme", ...(body === undefined ? {} : { body }) });
}

test("one lane gets limits of its own, is paused and resumed, and is listed", async (t) => {
  const server = await setup(t);
  await putTopic(server, { lanes: { concurrency: 1 } });
  for (const lane of ["a", "a", "a", "b/é"]) await create(server, { lane });
  const put = await ofLane(server, "PUT", "/a", { concurrency: 2, weight: 3 });
  assert.deepEqual(
    [put.status, put.json.ready, put.json.concurrency, put.json.weight],
    [200, 3, 2, 3],
  );
  const paused = await ofLane(server, "POST", `/${encodeURIComponent("b/é")}/pause`, {
    reason: "abuse",
  });
  assert.deepEqual([paused.json.lane, paused.json.paused.reason], ["b/é", "abuse"]);
  const leased = await claimed(server);
  assert.deepEqual(
    leased.map((each) => each[0]),
    ["a", "a"],
  );
  const { json } = await ofLane(server, "GET", "");
  assert.deepEqual(
    json.lanes.map(({ lane, ready, inProgress }: Record<string, unknown>) => [
      lane,
      ready,
      inProgress,
    ]),
    [
      ["a", 1, 2],
      ["b/é", 1, 0],
    ],
  );
  assert.equal(json.total, 2);
  await ofLane(server, "POST", `/${encodeURIComponent("b/é")}/resume`);
  assert.equal((await claimed(server)).length, 1);
  assert.equal((await ofLane(server, "DELETE", "/a")).status, 204);
  const one = await ofLane(server, "GET", "?lane=a");
  assert.deepEqual([one.json.lanes[0].concurrency, one.json.lanes[0].weight], [1, 1]);
});

test("limits of a lane outside of their bounds are refused", async (t) => {
  const server = await setup(t);
  for (const body of [{ concurrency: -1 }, { weight: 0 }, { weight: 1001 }, { fast: 1 }]) {
    const reply = await ofLane(server, "PUT", "/a", body);
    assert.ok([400, 422].includes(reply.status), JSON.stringify(body));
  }
  assert.equal((await ofLane(server, "PUT", `/${"é".repeat(201)}`, {})).status, 422);
  assert.equal((await ofLane(server, "GET", "?limit=0")).status, 400);
});

async function ruleOf(
  server: RunningServer,
  id: string,
): Promise<[rule: string, why: string, nextAt: string | undefined]> {
  const { json } = await server.get(`/tasks/${id}/explain`);
  return [json.rule, json.why, json.nextAt];
}

test("the explanation of a task names its lane, the limit and the moment", async (t) => {
  const server = await setup(t);
  await putTopic(server, { lanes: { concurrency: 1, rate: { units: 1, per: "10s" } } });
  const ids: string[] = [];
  for (let n = 0; n < 2; n++) ids.push((await create(server, { lane: "ada" })).json.id);
  const [first = "", second = ""] = ids;
  await claimed(server);
  const limit = await ruleOf(server, second);
  const full = 'its lane "ada" has 1 of 1 lease that it may have';
  assert.deepEqual(limit, ["lane_limit", full, undefined]);
  await server.ask(`/v1/codeq/tasks/${first}/nack`, {
    method: "POST",
    caller: "worker-acme",
    body: { delaySeconds: 100 },
  });
  assert.deepEqual(await ruleOf(server, second), [
    "lane_rate",
    'its lane "ada" has the units for its next task at 2026-01-02T03:04:15.120Z (its rate: 1 unit in 10s)',
    "2026-01-02T03:04:15.12Z",
  ]);
  await server.clock.advance(10_100);
  await claimed(server);
  await server.ask(`/v1/codeq/tasks/${second}/nack`, {
    method: "POST",
    caller: "worker-acme",
    body: { holdSeconds: 60 },
  });
  assert.deepEqual(await ruleOf(server, second), [
    "lane_held",
    'its lane "ada" is held until 2026-01-02T03:05:15.220Z',
    "2026-01-02T03:05:15.22Z",
  ]);
  await ofLane(server, "POST", "/ada/pause", { reason: "abuse" });
  const [rule, why] = await ruleOf(server, second);
  assert.equal(rule, "lane_paused");
  assert.match(why, /^\S+ paused its lane "ada" at 2026-01-02T03:04:15.220Z: abuse$/);
});

test("tasks of a lane are found by it", async (t) => {
  const server = await setup(t);
  const { json } = await create(server, { lane: "ada" });
  await create(server, { lane: "bob" });
  const found = await server.get("/admin/tasks?lane=ada&command=render&place=ready", "admin-acme");
  assert.deepEqual(
    found.json.tasks.map(({ id }: { id: string }) => id),
    [json.id],
  );
});

test("a lane shows its share of the units that were claimed with a lane", async (t) => {
  const server = await setup(t);
  for (const [lane, cost] of [
    ["a", 3],
    ["b", 1],
    ["", 4],
  ])
    await create(server, { lane, cost });
  await claimed(server);
  const { json } = await ofLane(server, "GET", "");
  const shares = json.lanes.map(({ lane, share }: Record<string, unknown>) => [lane, share]);
  assert.deepEqual(shares, [
    ["a", 0.75],
    ["b", 0.25],
  ]);
});

test("failures of a lane have groups of their own, and the other lanes are left out", async (t) => {
  const server = await setup(t);
  for (const lane of ["a", "a", "b"]) await create(server, { lane });
  for (const each of await claimed(server)) {
    const body = { status: "FAILED", error: "no such host" };
    const path = `/v1/codeq/tasks/${each.slice(2)}/result`;
    await server.ask(path, { method: "POST", caller: "worker-acme", body });
  }
  const { json } = await server.get("/admin/failure-groups?lane=a", "admin-acme");
  assert.deepEqual(
    json.groups.map(({ count }: { count: number }) => count),
    [2],
  );
});

test("metrics count lanes by queue, and have no label for a lane", async (t) => {
  const server = await setup(t);
  await putTopic(server, { lanes: { concurrency: 1 } });
  for (const lane of ["ada", "ada", "bob"]) await create(server, { lane });
  await claimed(server, 1);
  const text = (await server.ask("/metrics", {})).text;
  assert.match(text, /codeq_queue_lanes\{command="render",state="claimable"\} 1\n/);
  assert.match(text, /codeq_queue_lanes\{command="render",state="waiting"\} [01]\n/);
  assert.doesNotMatch(text, /ada/);
});

test("with several shards, a lane is in one of them and its limit is exact", async (t) => {
  const server = await setup(t, {
    storage: "files",
    settings: { shards: 3, persistenceProvider: "memory" },
  });
  await putTopic(server, { lanes: { concurrency: 2 } });
  for (const lane of ["a", "b", "c", "d"]) {
    for (let n = 0; n < 4; n++) await create(server, { lane });
  }
  const found: string[] = [];
  for (let n = 0; n < 20; n++) found.push(...(await claimed(server, 3)));
  const lanes = found.map((each) => each[0] ?? "").sort();
  assert.deepEqual(lanes.join(""), "aabbccdd");
  assert.equal((await ofLane(server, "GET", "")).json.total, 4);
  const refused = await create(server, { lane: "a", batchId: "some" });
  assert.equal(refused.status, 400);
  assert.match(refused.json.error, /a task of a batch cannot have a lane/);
});

test("with several shards, lanes get equal shares however many of them are in a shard", async (t) => {
  const server = await setup(t, {
    storage: "files",
    settings: { shards: 3, persistenceProvider: "memory" },
  });
  const heavy = "l0";
  await ofLane(server, "PUT", `/${heavy}`, { weight: 3 });
  const lanes = Array.from({ length: 10 }, (_, n) => `l${n}`);
  const tasks = lanes.flatMap((lane) => Array.from({ length: 40 }, () => create(server, { lane })));
  await Promise.all(tasks);
  const counts = new Map<string, number>();
  for (let n = 0; n < 120; n++) {
    for (const each of await claimed(server, 1)) {
      const [lane = ""] = each.split(" ");
      counts.set(lane, (counts.get(lane) ?? 0) + 1);
    }
  }
  for (const lane of lanes) {
    const share = lane === heavy ? 30 : 10;
    const got = counts.get(lane) ?? 0;
    assert.ok(Math.abs(got - share) <= 3, `${lane} got ${got}, its share is ${share}`);
  }
});

test("a topic gives its lanes a weight, so that one lane can have less than the others", async (t) => {
  const server = await setup(t);
  // In one shard, where the turns of lanes are exact.
  await putTopic(server, { lanes: { weight: 4 }, placement: "one" });
  const low = await ofLane(server, "PUT", "/low", { weight: 1 });
  assert.equal(low.json.weight, 1, low.text);
  assert.equal((await ofLane(server, "PUT", "/limited", { concurrency: 50 })).json.weight, 4);
  const lanes = ["low", "limited", "any", ""];
  for (const lane of lanes) for (let n = 0; n < 40; n++) await create(server, { lane });
  const found: string[] = [];
  for (let n = 0; n < 10; n++) found.push(...(await claimed(server, 10)));
  const counts = lanes.map(
    (lane) => found.filter((each) => each.startsWith(`${lane || "-"} `)).length,
  );
  assert.deepEqual(counts, [10, 40, 40, 10]);
  await ofLane(server, "DELETE", "/low");
  assert.equal((await ofLane(server, "GET", "?lane=low")).json.lanes[0].weight, 4);
  for (const weight of [0, 1001, 1.5, "2"]) {
    assert.ok((await putTopic(server, { lanes: { weight } })).status >= 400, String(weight));
  }
});

test("with several shards, maxConsumers of a queue with the placement one is exact", async (t) => {
  const server = await setup(t, {
    storage: "files",
    settings: { shards: 3, persistenceProvider: "memory" },
  });
  assert.equal((await putTopic(server, { maxConsumers: 3, placement: "one" })).status, 201);
  for (let n = 0; n < 9; n++) await create(server, n % 2 === 0 ? {} : { lane: `lane-${n}` });
  const found = await Promise.all([1, 2, 3, 4].map(() => claimed(server, 2)));
  assert.equal(found.flat().length, 3);
  const moved = await putTopic(server, { maxConsumers: 3 });
  assert.equal(moved.status, 409);
  assert.match(moved.json.error, /placement of a queue changes only while/);
  const gone = await server.ask("/v1/codeq/admin/topics/render?deletionPolicy=Delete", {
    method: "DELETE",
    caller: "admin-acme",
  });
  assert.equal(gone.status, 409);
  const batch = { batchId: "some" };
  assert.equal((await create(server, batch)).status, 400);
});

test("a customer that floods a queue with 100,000 tasks does not hold up 49 others", async (t) => {
  const server = await setup(t);
  const createMany = async (lanes: readonly string[]): Promise<void> => {
    const tasks = lanes.map((lane) => ({ command: "render", lane }));
    const body = { tasks };
    const path = "/v1/codeq/tasks/batch";
    const reply = await server.ask(path, { method: "POST", caller: "producer-acme", body });
    assert.equal(reply.status, 200);
  };
  for (let n = 0; n < 100; n++) await createMany(Array.from({ length: 1000 }, () => "flood"));
  const [tickMs, workers, ticks] = [10, 20, 300];
  const created = new Map<string, number[]>();
  const waits: number[] = [];
  let floods = 0;
  for (let tick = 0; tick < ticks; tick++) {
    // Half of what the workers can do is for the others.
    const others = Array.from(
      { length: workers / 2 },
      (_, n) => `lane-${(tick * 10 + n * 7) % 49}`,
    );
    await createMany(others);
    for (const lane of others) created.set(lane, [...(created.get(lane) ?? []), tick]);
    const got = await claimed(server, workers);
    assert.equal(got.length, workers);
    for (const each of got) {
      const since = created.get(each.slice(0, each.indexOf(" ")))?.shift();
      if (since === undefined) floods += 1;
      else waits.push((tick - since) * tickMs);
    }
    const results = got.map((each) => ({
      taskId: each.slice(each.indexOf(" ") + 1),
      status: "COMPLETED",
      result: {},
    }));
    const ended = await server.post("/tasks/batch/results", { results }, "worker-acme");
    assert.equal(ended.status, 200, ended.text);
    await server.clock.advance(tickMs);
  }
  waits.sort((a, b) => a - b);
  const p99 = waits[Math.floor(waits.length * 0.99)] ?? Number.POSITIVE_INFINITY;
  assert.ok(p99 < 100, `99 % of the others waited up to ${p99} ms`);
  assert.ok(waits.length > (ticks - 5) * (workers / 2));
  assert.ok(floods > (ticks * workers) / 3, `${floods} tasks of the flood`);
});

test("a rate that needs longer than dates last is listed and explained", async (t) => {
  const server = await setup(t);
  const rate = { units: 1, per: "365d", burst: 1_000_000_000 };
  await putTopic(server, { lanes: { rate } });
  const cost = 1_000_000_000;
  const ids: string[] = [];
  for (let n = 0; n < 2; n++) ids.push((await create(server, { lane: "a", cost })).json.id);
  assert.equal((await claimed(server)).length, 1);
  const listed = await ofLane(server, "GET", "");
  assert.equal(listed.status, 200, listed.text);
  assert.match(listed.json.lanes[0].nextAt, /^9999-12-31T/);
  const [rule, why] = await ruleOf(server, ids[1] ?? "");
  assert.equal(rule, "lane_rate");
  assert.match(why, /has the units for its next task at 9999-12-31T/);
});

test("lanes with unusual names are created, limited, paused and deleted by their names", async (t) => {
  const server = await setup(t);
  await putTopic(server, {});
  const names = ["...", "%", "a/b", "a%2Fb", "/", "+ +", "__proto__", "constructor", "é\u{1f600}"];
  for (const lane of [...names, "?x=1#y", "a\\b", "'\"", "a".repeat(200)]) {
    const created = await create(server, { lane });
    assert.deepEqual([created.status, created.json.lane], [202, lane]);
    const path = `/${encodeURIComponent(lane)}`;
    const put = await ofLane(server, "PUT", path, { concurrency: 1 });
    assert.deepEqual([put.status, put.json.lane, put.json.ready], [200, lane, 1], put.text);
    const one = await ofLane(server, "GET", `?lane=${encodeURIComponent(lane)}`);
    assert.equal(one.json.lanes[0].lane, lane);
    assert.equal((await ofLane(server, "POST", `${path}/pause`, {})).status, 200);
    assert.deepEqual(await claimed(server), []);
    assert.equal((await ofLane(server, "POST", `${path}/resume`)).status, 200);
    assert.equal((await claimed(server)).length, 1);
    assert.equal((await ofLane(server, "DELETE", path)).status, 204);
  }
});

test("names of lanes and rates that nobody can mean are refused", async (t) => {
  const server = await setup(t);
  for (const lane of [".", "..", "\ud800", "a\u0000", "\u007f", "a\r", [], {}]) {
    assert.equal((await create(server, { lane })).status, 400, JSON.stringify(lane));
  }
  for (const path of ["/%00", "/a%0Ab"]) {
    assert.equal((await ofLane(server, "PUT", path, {})).status, 422, path);
  }
  for (const rate of [
    { units: 1e9, per: "1ms" },
    { units: 1, per: "1000000d" },
    { units: 1, per: "1d", burst: -1 },
    { units: 1.5, per: "1d" },
    { units: 1e300, per: "1d" },
    "1/s",
    [],
  ]) {
    for (const fields of [{ rate }, { lanes: { rate } }]) {
      const { status } = await putTopic(server, fields);
      assert.ok([400, 422].includes(status), JSON.stringify(fields));
    }
  }
});
