/**
 * Who may send what on a stream. One row per event of both protocols and one column per kind of
 * caller, the same as for the routes; an event without a row fails. Every refusal must leave the
 * store as it was, and a token that is not accepted must not even cause a look into it.
 */
import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { watchReads } from "../../packages/server/test/engine-of.ts";
import {
  accessOptions,
  columns,
  type Expected,
  type Refused,
  refusedKind,
} from "../contract/access-callers.ts";
import type { Call } from "./call.ts";
import { type Fields, loadProto, type Reply } from "./messages.ts";
import { type Server, setup } from "./setup.ts";

type Kind = "worker" | "producer";

interface Row {
  readonly event: (leased: string) => Fields;
  /** What a caller who may gets; `nothing` when there is no work for it. */
  readonly ok: (reply: Reply) => unknown;
  /** What one of another tenant gets for the task of this one, as text; undefined for silence. */
  readonly foreign: string | undefined;
  /** What a worker of other tasks and event types gets. */
  readonly otherWork?: string;
  /** Reading needs no scope: whoever may say Hello may ask. */
  readonly isReading?: true;
}

/** A second Hello is not for anybody, whoever asks. */
const again: Row = {
  event: () => ({ hello: { token: "again" } }),
  ok: ({ error }) => error.message === "already-authenticated",
  foreign: "already-authenticated",
  otherWork: "already-authenticated",
};
const result = { status: "COMPLETED", resultJson: "{}" };

const tables: Readonly<Record<Kind, Readonly<Record<string, Row>>>> = {
  producer: {
    hello: again,
    create: {
      event: () => ({ create: { seq: 1, command: "new" } }),
      ok: ({ createAck }) => createAck.ok,
      foreign: "ok",
    },
    createBatch: {
      event: () => ({ createBatch: { tasks: [{ seq: 1, command: "new" }] } }),
      ok: ({ createAckBatch }) => createAckBatch.acks[0].ok,
      foreign: "ok",
    },
    awaitResult: {
      event: (taskId) => ({ awaitResult: { taskId } }),
      ok: ({ taskResult }) => taskResult.errorMessage === "result not found",
      foreign: "task not found",
      isReading: true,
    },
  },
  worker: {
    hello: again,
    ready: {
      event: () => ({ ready: { commands: ["print"] } }),
      ok: ({ task }) => task.task.command === "print",
      foreign: undefined,
      otherWork: "event type not allowed",
    },
    result: {
      event: (taskId) => ({ result: { taskId, ...result } }),
      ok: ({ resultAck }) => resultAck.ok,
      foreign: "task not found",
      otherWork: "not-owner",
    },
    resultBatch: {
      event: (taskId) => ({ resultBatch: { results: [{ taskId, ...result }] } }),
      ok: ({ resultAckBatch }) => resultAckBatch.acks[0].ok,
      foreign: "task not found",
      otherWork: "not-owner",
    },
    nack: {
      event: (taskId) => ({ nack: { taskId } }),
      ok: ({ nackAck }) => nackAck.ok,
      foreign: "not-found",
      otherWork: "not-owner",
    },
    heartbeat: {
      event: (taskId) => ({ heartbeat: { taskId, extendSeconds: 5000 } }),
      ok: ({ heartbeatAck }) => heartbeatAck.ok,
      foreign: "not-found",
      otherWork: "not-owner",
    },
    abandon: {
      event: (taskId) => ({ abandon: { taskId } }),
      ok: ({ abandonAck }) => abandonAck.ok,
      foreign: "not-found",
      otherWork: "not-owner",
    },
  },
};

/** Refusals that come with the event and not with the Hello, and let the stream go on. */
const ofEvents: readonly string[] = ["403 missing scope", "403 event type not allowed"];

/** How a stream ends whose Hello is refused. */
function endOf(kind: Kind, [status, error]: Refused): { code: string; details: string } {
  if (error === "missing Authorization header") {
    const details = kind === "worker" ? "auth failed: missing token" : "missing token";
    return { code: "UNAUTHENTICATED", details };
  }
  if (status === 403) return { code: "PERMISSION_DENIED", details: error };
  return { code: "UNAUTHENTICATED", details: `auth failed: ${error}` };
}

/** The text in whatever a stream answers with; `ok` when it is good news. */
function textOf(reply: Reply): string {
  const { error, createAckBatch, resultAckBatch, ...single } = reply;
  if (error !== undefined) return error.message;
  const [ack = Object.values(single)[0]] = (createAckBatch ?? resultAckBatch)?.acks ?? [];
  return ack.ok ? "ok" : ack.errorMessage;
}

interface Case {
  readonly kind: Kind;
  readonly name: string;
  readonly row: Row;
  readonly token: string | undefined;
  readonly expected: Expected;
  readonly why: string;
}

function* casesOf(kind: Kind, name: string, row: Row): Generator<Case> {
  for (const [column, { tokens, expected }] of Object.entries(columns)) {
    for (const token of tokens) {
      const why = `${kind} ${name} by ${column} (${token?.slice(0, 20) ?? "nothing"})`;
      const { [kind]: said, either } = expected;
      const isOfEvent = typeof said !== "string" && ofEvents.includes(said.join(" "));
      const as = isOfEvent && row.isReading === true ? either : said;
      yield { kind, name, row, token, expected: as, why };
    }
  }
}

/** A tenant with a task that is ready and one that is held by `worker-1`. */
async function populated(t: TestContext): Promise<{ server: Server; leased: string }> {
  const { settings, ...more } = accessOptions;
  const server = await setup(t, { ...more, ...(settings === undefined ? {} : { settings }) });
  const leased = await server.api.leased({ payload: { secret: "of acme" } });
  await server.api.create({ command: "print" });
  return { server, leased };
}

/** A stream whose Hello was accepted. */
async function open(server: Server, { kind, token = "" }: Case): Promise<Call> {
  const call = server.open(kind);
  const reply = await call.ask({ hello: { token } });
  assert.ok(reply["helloAck"] !== undefined, JSON.stringify(reply));
  return call;
}

test("every event has a row in the tables of access, and every row has an event", () => {
  for (const [kind, type] of [
    ["worker", "workerpb.WorkerEvent"],
    ["producer", "producerpb.ProducerEvent"],
  ] as const) {
    const { oneofs } = loadProto(`${kind}pb.proto`).lookupType(type);
    assert.deepEqual(oneofs["event"]?.oneof.toSorted(), Object.keys(tables[kind]).toSorted());
  }
});

for (const kind of ["worker", "producer"] as const) {
  for (const [name, row] of Object.entries(tables[kind])) {
    test(`${kind} ${name} behind a Hello that is refused reads nothing and changes nothing`, async (t) => {
      const { server, leased } = await populated(t);
      const { store } = server.api.core;
      for (const { token, expected, why } of casesOf(kind, name, row)) {
        const refused = expected === "other kind" ? refusedKind(token) : expected;
        if (typeof refused === "string" || ofEvents.includes(refused.join(" "))) continue;
        const before = await server.api.fingerprint();
        const stop = watchReads(store, () => assert.fail(`${why} read the store`));
        const call = server.open(kind);
        call.send({ hello: { token: token ?? "" } }, row.event(leased));
        assert.deepEqual(await call.ended, endOf(kind, refused), why);
        assert.deepEqual(call.unread, [], why);
        stop();
        assert.equal(await server.api.fingerprint(), before, `${why} changed the store`);
      }
    });

    test(`${kind} ${name} that the token does not allow changes nothing`, async (t) => {
      const { server, leased } = await populated(t);
      for (const each of casesOf(kind, name, row)) {
        const { expected, why } = each;
        const isRefused = typeof expected !== "string" && ofEvents.includes(expected.join(" "));
        if (!isRefused && expected !== "other work") continue;
        const call = await open(server, each);
        const before = await server.api.fingerprint();
        const lease = await server.api.task(leased);
        const reply = await call.ask(row.event(leased));
        const text = isRefused && row !== again ? expected[1] : row.otherWork;
        assert.equal(textOf(reply), text ?? "already-authenticated", why);
        assert.equal(await server.api.fingerprint(), before, `${why} changed the store`);
        assert.deepEqual(await server.api.task(leased), lease);
        await call.expectSilence();
      }
    });

    test(`${kind} ${name} is done for those who may`, async (t) => {
      for (const each of casesOf(kind, name, row)) {
        if (each.expected !== "ok") continue;
        const { server, leased } = await populated(t);
        const call = await open(server, each);
        const reply = await call.ask(row.event(leased));
        assert.ok(row.ok(reply), `${each.why}: ${JSON.stringify(reply)}`);
        await server.stop();
      }
    });

    test(`${kind} ${name} shows and changes nothing of another tenant`, async (t) => {
      const { server, leased } = await populated(t);
      const acmes = async () =>
        [...(await server.api.dump())].filter(
          ([key]) => /\/acme\//.test(key) || key.includes(leased),
        );
      for (const each of casesOf(kind, name, row)) {
        if (each.expected !== "foreign") continue;
        const call = await open(server, each);
        const before = await acmes();
        const lease = await server.api.task(leased);
        if (row.foreign === undefined) call.send(row.event(leased));
        else {
          const reply = await call.ask(row.event(leased));
          assert.equal(textOf(reply), row.foreign, each.why);
          assert.doesNotMatch(JSON.stringify(reply), /secret|acme/);
        }
        await call.expectSilence();
        assert.deepEqual(await acmes(), before, `${each.why} changed another tenant`);
        assert.deepEqual(await server.api.task(leased), lease);
      }
    });
  }
}
