import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { AckOrder, OrderedAcks } from "./ack-order.ts";

class Acks extends OrderedAcks {
  readonly acks: readonly { readonly taskId: string }[];
  readonly #sent: string[];
  readonly #name: string;

  constructor(sent: string[], name: string, ...taskIds: string[]) {
    super();
    this.#sent = sent;
    this.#name = name;
    this.acks = taskIds.map((taskId) => ({ taskId }));
  }

  send(): void {
    this.#sent.push(this.#name);
  }
}

function setup(...events: (readonly string[])[]): {
  readonly ready: (name: string) => void;
  readonly sent: string[];
} {
  const sent: string[] = [];
  const order = new AckOrder();
  const all = new Map<string, Acks>();
  for (const [name, ...taskIds] of events as [string, ...string[]][]) {
    const acks = new Acks(sent, name, ...taskIds);
    all.set(name, acks);
    order.begin(acks);
  }
  return { sent, ready: (name) => order.ready(all.get(name) as Acks) };
}

test("what is ready first leaves first when it is about another task", () => {
  const { ready, sent } = setup(["1", "a"], ["2", "b"], ["3", "c"]);
  for (const name of ["3", "2", "1"]) ready(name);
  assert.deepEqual(sent, ["3", "2", "1"]);
});

test("an answer for a task waits for those of earlier events for it", () => {
  const { ready, sent } = setup(["1", "a"], ["2", "b"], ["3", "a"], ["4", "a"]);
  ready("4");
  ready("3");
  assert.deepEqual(sent, []);
  ready("2");
  ready("1");
  assert.deepEqual(sent, ["2", "1", "3", "4"]);
});

test("a batch waits for every event that shares a task with it", () => {
  const many = Array.from({ length: 30 }, (_, n) => `t${n}`);
  const { ready, sent } = setup(["1", "t7"], ["2", "t29"], ["3", ...many], ["4", "t0"], ["5", "x"]);
  for (const name of ["4", "3", "5", "1"]) ready(name);
  assert.deepEqual(sent, ["5", "1"]);
  ready("2");
  assert.deepEqual(sent, ["5", "1", "2", "3", "4"]);
});

test("every event is answered once, and those of a task in their order, whatever is ready when", () => {
  const eventOf = fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(
      fc.array(eventOf, { minLength: 1, maxLength: 20 }),
      fc.integer(),
      (events, salt) => {
        const named = events.map((ids, at) => [String(at), ...ids.map((id) => `t${id}`)]);
        const { ready, sent } = setup(...named);
        const order = named
          .map(([name], at) => ({ name: name as string, key: (at * 7919 + salt) % 101 }))
          .sort((a, b) => a.key - b.key);
        for (const { name } of order) ready(name);
        assert.equal(new Set(sent).size, events.length);
        for (const [at, ids] of events.entries()) {
          for (const [later, others] of events.entries()) {
            if (later <= at || !others.some((id) => ids.includes(id))) continue;
            assert.ok(sent.indexOf(String(at)) < sent.indexOf(String(later)), `${at} and ${later}`);
          }
        }
      },
    ),
  );
});
