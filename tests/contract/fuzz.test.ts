/**
 * Requests that are nearly right, by the thousand, to one server: whatever comes, the answer has a
 * documented status and shape, the server stays up, and the store stays sound.
 */
import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import { routes } from "../../packages/server/src/start/features.ts";
import { engineOf } from "../../packages/server/test/engine-of.ts";
import { campaignLength } from "../campaign-length.ts";
import { readStore } from "../crash/check-store.ts";
import { onlyWith, type RunningServer, setup } from "./setup.ts";
import { producerTokens, workerTokens } from "./tokens.ts";

interface FuzzRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string | undefined;
  readonly advanceMs: number;
}

const statuses = new Set([200, 201, 202, 204, 400, 401, 403, 404, 409, 413, 422]);
/** The fields that a refusal may have beside its text; the other statuses have none. */
const detailNames: Readonly<Record<number, readonly string[]>> = {
  409: ["", "key,taskId"],
  422: ["field"],
};
const requestsTotal = campaignLength({ short: 3000, long: 15_000 });

/** Ids that the server has given out, which the requests then use. */
class KnownIds {
  readonly #ids = { id: ["019b7ca9-8d00-7000-b60d-c48d25699bac"], key: ["cq_0000000000000000"] };

  learn(text: string): void {
    for (const [, id] of text.matchAll(/"id":"([0-9a-f-]{36})"/g)) this.#ids.id.push(id as string);
    for (const [, id] of text.matchAll(/"id":"(cq_\w{16})"/g)) this.#ids.key.push(id as string);
  }

  /** Mostly a recent one. */
  pick(kind: "id" | "key", at: number): string {
    const ids = this.#ids[kind];
    return ids[Math.max(0, ids.length - 1 - at)] as string;
  }
}

const idMark = /\{(id|key)(\d+)\}/g;
const markedId = fc.nat({ max: 5 }).map((at) => `{id${at}}`);
const token = fc.constantFrom(
  ...[...producerTokens, ...workerTokens].map((each) => each.token),
  ...["producer-acme", "worker-acme", "producer-acme", "worker-acme", "admin-acme", "garbage"],
);

const oddText = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.constantFrom(
    "../x",
    "a/b",
    ".",
    "..",
    "\ud800",
    "\u0000",
    "__proto__",
    "x".repeat(5000),
    "*",
    "NaN",
  ),
);
const oddNumber = fc.oneof(
  fc.integer({ min: -3, max: 12 }),
  fc.double(),
  fc.constantFrom(0, -1, 1, 1e308, -1e308, 2 ** 53 + 2, 86_400, 86_401, 0.5, 1e21),
);
const anything = fc.oneof(
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  { weight: 1, arbitrary: oddText },
  { weight: 1, arbitrary: oddNumber },
  { weight: 1, arbitrary: fc.constantFrom(null, true, [], {}, [null], [{}]) },
);

/** Mostly the right kind of value, now and then any other. */
function mostly<T>(right: fc.Arbitrary<T>): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 12, arbitrary: right }, { weight: 1, arbitrary: anything });
}

const command = mostly(fc.constantFrom("render", "Render", "print", "later"));
const createFields = {
  command,
  payload: mostly(fc.jsonValue()),
  priority: mostly(oddNumber.map(Math.trunc)),
  webhook: mostly(fc.constantFrom("http://a.example/", "https://b.example/x")),
  maxAttempts: mostly(fc.integer({ min: 1, max: 3 })),
  idempotencyKey: mostly(fc.constantFrom("k1", "k2", "k3")),
  runAt: mostly(fc.constantFrom("2026-01-02T03:04:06Z", "2026-01-02T03:04:07.5Z", "soon")),
  delaySeconds: mostly(fc.integer({ min: 0, max: 3 })),
};
const resultFields = {
  status: mostly(fc.constantFrom("COMPLETED", "FAILED")),
  result: mostly(fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }))),
  error: mostly(fc.constantFrom("", "broken")),
  artifacts: mostly(
    fc.array(
      fc.record(
        { name: mostly(oddText), url: mostly(fc.constantFrom("u", "")) },
        { requiredKeys: [] },
      ),
      { maxLength: 3 },
    ),
  ),
  leaseToken: mostly(fc.integer({ min: 1, max: 3 })),
};
const claimFields = {
  commands: mostly(fc.array(command, { maxLength: 3 })),
  leaseSeconds: mostly(fc.integer({ min: -1, max: 5 })),
};
const some = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(fields, { requiredKeys: [] });

/** Bodies that fit the last part of a path. */
const bodies: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  // Half of them without the fields that are mostly refused, so that there are tasks.
  tasks: fc.oneof(
    fc.record(createFields, { requiredKeys: ["command", "payload"] }),
    fc.record({ command: createFields.command, payload: createFields.payload }),
  ),
  batch: fc.oneof(
    some({ tasks: mostly(fc.array(some(createFields), { maxLength: 5 })) }),
    fc.record({ ...claimFields, count: mostly(fc.integer({ min: 0, max: 5 })) }),
  ),
  claim: some(claimFields),
  heartbeat: some({ extendSeconds: mostly(oddNumber), leaseToken: resultFields.leaseToken }),
  abandon: some({ interrupted: mostly(fc.boolean()), leaseToken: resultFields.leaseToken }),
  nack: some({ delaySeconds: mostly(oddNumber), reason: mostly(oddText) }),
  result: fc.record(resultFields, { requiredKeys: ["status", "result"] }),
  results: some({
    results: mostly(
      fc.array(some({ taskId: mostly(markedId), ...resultFields }), { maxLength: 5 }),
    ),
  }),
  keys: fc.record(
    {
      name: mostly(fc.constantFrom("ci", "farm")),
      scopes: mostly(fc.subarray(["codeq:claim", "codeq:create", "codeq:nack"], { minLength: 1 })),
      eventTypes: mostly(fc.array(command, { maxLength: 3 })),
      role: mostly(fc.constantFrom("admin", "none")),
      expiresInSeconds: mostly(fc.integer({ min: 0, max: 3 })),
    },
    { requiredKeys: ["name", "scopes"] },
  ),
  cleanup: some({ limit: mostly(oddNumber), before: mostly(createFields.runAt) }),
};

const lastOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
const allRoutes = routes.map(({ method, path }) => ({ method: method as string, path }));
const routesWithBodies = allRoutes.filter(({ path }) => bodies[lastOf(path)] !== undefined);

const request: fc.Arbitrary<FuzzRequest> = fc
  .oneof(fc.constantFrom(...allRoutes), fc.constantFrom(...routesWithBodies))
  .chain((route) => {
    const last = lastOf(route.path);
    const segment = fc.oneof(
      { weight: 8, arbitrary: markedId },
      { weight: 1, arbitrary: oddText.map((text) => encodeURIComponent(text.toWellFormed())) },
    );
    const body = (bodies[last] ?? anything).map((value) => JSON.stringify(value) ?? "");
    return fc.record({
      method: mostlyKeep(route.method, fc.constantFrom("GET", "POST", "PUT", "DELETE", "PATCH")),
      path: fc
        .tuple(segment, fc.constantFrom("", "", "", "/", "?waitSeconds=0", "%zz"))
        .map(([id, tail]) => pathOf(route.path, id) + tail),
      headers: fc.tuple(token, fc.constantFrom("Bearer ", "Bearer ", "bearer ", "", "Basic ")).map(
        ([name, scheme]): Record<string, string> => ({
          ...(scheme === "" ? {} : { authorization: scheme + name }),
          ...(name === "garbage" ? { "content-type": "nonsense", "x-role": "ADMIN" } : {}),
        }),
      ),
      body: fc.oneof(
        { weight: 20, arbitrary: body },
        { weight: 2, arbitrary: fc.tuple(body, fc.nat({ max: 60 })).map(cutOff) },
        { weight: 1, arbitrary: fc.string() },
        { weight: 1, arbitrary: fc.constant(undefined) },
      ),
      advanceMs: fc.constantFrom(0, 0, 0, 0, 1, 500, 3000),
    });
  });

function pathOf(path: string, id: string): string {
  const filled = path.includes("/keys/") ? id.replace("{id", "{key") : id;
  return path.replace(":id", filled).replace(":command", "render");
}

function mostlyKeep(right: string, others: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.oneof({ weight: 19, arbitrary: fc.constant(right) }, { weight: 1, arbitrary: others });
}

function cutOff([text, chars]: [string, number]): string {
  return text.slice(0, chars);
}

async function send(server: RunningServer, ids: KnownIds, request: FuzzRequest): Promise<number> {
  const fill = (text: string): string =>
    text.replace(idMark, (_, kind, at) => ids.pick(kind, Number(at)));
  const { method, headers } = request;
  const isRead = method === "GET";
  const body = isRead || request.body === undefined ? {} : { body: fill(request.body) };
  const reply = await server.askToEnd(fill(request.path), { method, headers, ...body });
  assert.ok(statuses.has(reply.status), `${reply.status} ${reply.text}`);
  assert.match(reply.headers["x-request-id"] ?? "", /^[0-9a-f]{32}$/);
  const type = reply.headers["content-type"] ?? "";
  if (type.startsWith("text/plain")) assert.equal(reply.text, "404 page not found");
  else if (type.startsWith("text/event-stream")) assert.match(reply.text, /^retry: /);
  else if (type.startsWith("application/octet-stream")) assert.notEqual(reply.text, "");
  else if (reply.status === 204) assert.equal(reply.text, "");
  else if (reply.status >= 400) {
    const { error, ...details } = reply.json;
    assert.equal(typeof error, "string");
    const names = Object.keys(details).join();
    assert.ok((detailNames[reply.status] ?? [""]).includes(names), `${reply.status} ${reply.text}`);
  } else assert.equal(typeof reply.json, "object");
  ids.learn(reply.text);
  return reply.status;
}

test(
  "thousands of nearly right requests leave the server up and the store sound",
  onlyWith.broker,
  async (t) => {
    const server = await setup(t, {
      settings: { retentionSeconds: 5, dlqRetentionSeconds: 8, backoffMaxSeconds: 5 },
      post: () => Promise.resolve(server.clock.nowMs() % 2 === 0 ? 200 : 500),
    });
    const ids = new KnownIds();
    const seen = new Map<number, number>();
    let sent = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 15, maxLength: 15 }), async (requests) => {
        for (const each of requests) {
          const status = await send(server, ids, each);
          seen.set(status, (seen.get(status) ?? 0) + 1);
          sent += 1;
          if (each.advanceMs > 0) await server.clock.advance(each.advanceMs);
        }
        assert.deepEqual((await readStore(engineOf(server.core.store))).problems, []);
      }),
      { numRuns: requestsTotal / 15, endOnFailure: true },
    );
    assert.ok(sent >= requestsTotal);
    // Those that hardly any run goes without; which rarer ones come is up to the seed.
    for (const status of [200, 400, 401, 403, 404]) {
      assert.ok((seen.get(status) ?? 0) > 0, `no request was answered with ${status}`);
    }
    assert.equal((await server.ask("/healthz", {})).status, 200);
    const errors = server.lines.filter((line) => line.includes('"level":"error"'));
    assert.deepEqual(errors, []);
    const { shard } = server.core;
    const stored = await readStore(engineOf(server.core.store));
    for (const queue of ["render", "print", "later"]) {
      const inMemory = shard.counts("acme" as never, queue);
      const tasks = [...stored.tasks.values()].filter(
        (task) => task.tenantId === "acme" && task.command.toLowerCase() === queue,
      );
      const inPlace = (place: string) => tasks.filter((task) => task.place.in === place).length;
      const ready = inMemory.ready.reduce((sum, count) => sum + count, 0);
      assert.deepEqual(
        [ready, inMemory.delayed, inMemory.leased, inMemory.dead],
        ["ready", "delayed", "leased", "dead"].map(inPlace),
      );
    }
  },
);
