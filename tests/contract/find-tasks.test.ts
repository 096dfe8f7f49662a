/** Finding tasks: filters, pages, short ids, and what is refused. */
import assert from "node:assert/strict";
import test from "node:test";
import { onlyWith, type RunningServer, setup } from "./setup.ts";

const idsOf = (page: { readonly tasks: readonly { readonly id: string }[] }): string[] =>
  page.tasks.map(({ id }) => id);

// biome-ignore lint/suspicious/noExplicitAny: a page as it is on the wire.
async function find(server: RunningServer, query = ""): Promise<any> {
  const reply = await server.get(`/admin/tasks${query}`, "admin-acme");
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

/** A task in every place, by its name. */
async function populated(server: RunningServer): Promise<Record<string, string>> {
  const done = await server.leased({ command: "done" });
  await server.complete(done);
  const failed = await server.leased({ command: "failed" });
  const failure = { status: "FAILED", error: "No such HOST" };
  await server.post(`/tasks/${failed}/result`, failure, "worker-acme");
  const dead = await server.buried({ command: "dead", priority: 3 });
  const delayed = await server.create({ command: "later", delaySeconds: 60 });
  const leased = await server.leased({ command: "leased" });
  const payload = { customer: { id: 42, tags: ["a", "b"] }, text: "x".repeat(600) };
  const ready = await server.create({
    command: "Ready",
    payload,
    idempotencyKey: "order 7",
    tags: ["blue", "vip:1", "blue"],
  });
  await server.create({ command: "ready", payload: { customer: { id: 42 } } }, "producer-globex");
  return { done, failed, dead, delayed, leased, ready };
}

test(
  "every filter finds the tasks that match, and none of another tenant",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const { done, failed, dead, delayed, leased, ready } = await populated(server);
    const all = [done, failed, dead, delayed, leased, ready];
    const cases: readonly (readonly [string, readonly (string | undefined)[]])[] = [
      ["", all],
      ["command=READY", [ready]],
      ["place=ready", [ready]],
      ["place=delayed", [delayed]],
      ["place=leased", [leased]],
      ["place=dead", [dead]],
      ["place=done", [done]],
      ["place=failed", [failed]],
      ["priority=3", [dead]],
      ["worker=worker-of-acme", [done, failed, leased]],
      ["error=no+such+host", [failed]],
      ["idempotencyKey=order+7", [ready]],
      ["idempotencyKey=order+8", []],
      ["payload=customer.id:42", [ready]],
      ["payload=customer.id:43", []],
      ["payload=customer.tags.1:b", [ready]],
      ["payload=customer:42", []],
      ["tag=blue", [ready]],
      ["tag=blue,vip:1", [ready]],
      ["tag=blue,green", []],
      ["tag=Blue", []],
      ["createdBefore=2026-01-02T03:04:05Z", []],
      ["createdAfter=2026-01-02T03:04:05Z", all],
      ["endedAfter=2026-01-02T03:04:05Z", [done, failed, dead]],
      ["endedBefore=2026-01-02T03:04:05Z", []],
      ["place=dead&command=ready", []],
      [`id=${dead?.slice(-6)}`, [dead]],
      [`id=${dead}`, [dead]],
    ];
    const worker = (await server.task(leased ?? "")).workerId;
    for (const [query, expected] of cases) {
      const page = await find(server, `?order=oldest&${query.replace("worker-of-acme", worker)}`);
      assert.deepEqual(idsOf(page), expected, query);
      assert.equal(page.next, undefined, query);
    }
  },
);

test("a listed task says where it is, and long payloads are left out", async (t) => {
  const server = await setup(t);
  const { dead, delayed, ready } = await populated(server);
  const [shown] = (await find(server, "?place=dead")).tasks;
  assert.equal(shown.id, dead);
  assert.equal(shown.place, "dead");
  assert.equal(shown.error, "broken");
  assert.equal(shown.attempts, 1);
  assert.equal(shown.payload, "{}");
  assert.match(shown.endedAt, /^2026-01-02T/);
  assert.match(shown.expiresAt, /^2026-01-09T/);
  const [later] = (await find(server, "?place=delayed")).tasks;
  assert.equal(later.id, delayed);
  assert.match(later.dueAt, /^2026-01-02T/);
  const [long] = (await find(server, "?place=ready")).tasks;
  assert.deepEqual([long.id, long.payload, long.payloadOmitted], [ready, undefined, true]);
});

test(
  "pages go on where they ended, in both orders, while tasks move",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const ids: string[] = [];
    for (let n = 0; n < 25; n++) ids.push(await server.create({ command: n % 2 ? "odd" : "even" }));
    for (const order of ["newest", "oldest"]) {
      const seen: string[] = [];
      let after: string | undefined = "";
      while (after !== undefined) {
        const page: Awaited<ReturnType<typeof find>> = await find(
          server,
          `?order=${order}&limit=4&after=${after}`,
        );
        seen.push(...idsOf(page));
        after = page.next;
        // From one place to the next between the pages.
        const claimed = await server.claim({});
        if (claimed !== undefined) await server.complete(claimed.id);
      }
      assert.deepEqual(seen, order === "oldest" ? ids : ids.toReversed());
    }
  },
);

test("a total is told where a counter knows it", async (t) => {
  const server = await setup(t);
  await populated(server);
  assert.equal((await find(server, "?place=ready")).total, 1);
  assert.equal((await find(server, "?place=dead&command=dead")).total, 1);
  assert.equal((await find(server, "?place=dead&command=other")).total, 0);
  assert.equal((await find(server, "?place=done")).total, undefined);
  assert.equal((await find(server, "?place=dead&error=broken")).total, undefined);
});

test("a page that has looked at enough says where to go on", onlyWith.order, async (t) => {
  const server = await setup(t);
  const tasks = Array.from({ length: 1000 }, () => ({ command: "render", payload: 1 }));
  for (let n = 0; n < 6; n++) await server.post("/tasks/batch", { tasks }, "producer-acme");
  const last = await server.create({ command: "needle", payload: { needle: 1 } });
  const first = await find(server, "?payload=needle:1&order=oldest");
  assert.deepEqual(first.tasks, []);
  assert.equal(first.scanned, 5000);
  const second = await find(server, `?payload=needle:1&order=oldest&after=${first.next}`);
  assert.deepEqual(idsOf(second), [last]);
  assert.equal(second.scanned, 1001);
  assert.equal(second.next, undefined);
});

test("what is no filter is refused with the reason", async (t) => {
  const server = await setup(t);
  const cases: readonly (readonly [string, string])[] = [
    ["comand=x", 'unknown query parameter "comand"; did you mean "command"?'],
    ["command=a%2Fb", "invalid 'command': it is not a command"],
    ["command=", "invalid 'command': it is empty"],
    ["place=gone", "invalid 'place': it must be one of ready, delayed"],
    ["priority=10", "invalid 'priority': it must be a number from 0 to 9"],
    ["createdAfter=yesterday", "invalid 'createdAfter': it must be a time"],
    ["payload=customer", "invalid 'payload': it must be <path>:<value>"],
    ["payload=a..b:1", "invalid 'payload': it must be <path>:<value>"],
    [`error=${"x".repeat(1025)}`, "invalid 'error': it is longer than 1024 characters"],
    ["id=abc", "invalid 'id': it must be an id"],
    ["id=%25%25%25%25", "invalid 'id': it must be an id"],
    ["order=up", "invalid 'order'"],
    ["limit=0", "invalid 'limit' (1 to 1000)"],
    ["limit=1001", "invalid 'limit' (1 to 1000)"],
    ["after=x", "invalid 'after'"],
    [`after=${"~".repeat(36)}`, "invalid 'after'"],
  ];
  for (const [query, text] of cases) {
    const reply = await server.get(`/admin/tasks?${query}`, "admin-acme");
    assert.equal(reply.status, 400, query);
    assert.ok(reply.json.error.startsWith(text), `${query}: ${reply.text}`);
    assert.equal(reply.headers["codeq-error"], "invalid_argument");
  }
});

test(
  "the cursor of another tenant is a place to go on from, and shows nothing of it",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const foreign = await server.create({ command: "x" }, "producer-globex");
    const own = await server.create({ command: "x" });
    assert.deepEqual(idsOf(await find(server, `?order=oldest&after=${foreign}`)), [own]);
    assert.deepEqual(idsOf(await find(server, `?order=newest&after=${foreign}`)), []);
  },
);

test("a part of an id finds its task, unless there are several", async (t) => {
  const server = await setup(t);
  const first = await server.create();
  const second = await server.create();
  const inspect = (id: string) => server.get(`/admin/tasks/${id}`, "admin-acme");
  for (const id of [first, first.slice(-8), first.slice(-8).toUpperCase(), first.slice(0, 32)]) {
    assert.equal((await inspect(id)).json.task.id, first, id);
  }
  const both = await inspect(first.slice(0, 8));
  assert.equal(both.status, 409);
  assert.equal(both.headers["codeq-error"], "ambiguous_id");
  assert.ok(both.json.error.includes(first) && both.json.error.includes(second), both.text);
  assert.equal((await inspect("ffffffff")).status, 404);
  assert.equal((await inspect("abc")).status, 400);
  const foreign = await server.create({ command: "x" }, "producer-globex");
  assert.equal((await inspect(foreign.slice(-8))).status, 404);
  assert.equal((await inspect(foreign)).status, 404);
});

test("a tenant has one search that runs and sixteen that wait, and the others are refused", async (t) => {
  const server = await setup(t);
  await server.create();
  const asked = Array.from({ length: 40 }, () => server.get("/admin/tasks", "admin-acme"));
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 200).length, 17);
  assert.equal(statuses.filter((status) => status === 503).length, 23);
});
