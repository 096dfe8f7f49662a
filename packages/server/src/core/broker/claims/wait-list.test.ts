import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { AskedClaim, acme, worker } from "../../../../test/broker-world.ts";
import type { Claim } from "./claim.ts";
import { WaitList } from "./wait-list.ts";

/** One line, and what its claims do as `WaitLists` lets them. */
class World {
  readonly line: WaitList = new WaitList();
  readonly waiting: Claim[] = [];
  #lastTicket = 0;

  newClaim(): Claim {
    const queues = ["work"];
    return new AskedClaim({
      tenantId: acme,
      workerId: worker,
      queues,
      leaseMs: 1,
      count: 1,
      waitMs: 1,
    });
  }

  come(claim: Claim = this.newClaim()): Claim {
    this.#lastTicket += 1;
    claim.ticket = this.#lastTicket;
    claim.isWaiting = true;
    this.line.add(claim);
    this.waiting.push(claim);
    return claim;
  }

  leave(claim: Claim): void {
    claim.isWaiting = false;
    this.line.left();
    this.waiting.splice(this.waiting.indexOf(claim), 1);
  }

  /** Comes back to where its ticket says. */
  comeBack(claim: Claim): void {
    claim.isWaiting = true;
    this.line.addInOrder(claim);
    const behind = this.waiting.findIndex(({ ticket }) => ticket > claim.ticket);
    this.waiting.splice(behind < 0 ? this.waiting.length : behind, 0, claim);
  }

  check(): void {
    assert.equal(this.line.size, this.waiting.length);
    assert.equal(this.line.first(), this.waiting[0]);
    assert.deepEqual(this.line.waiting(), this.waiting);
  }
}

test("an empty line has nobody first", () => {
  new World().check();
});

test("whoever came first is first, and leaves from wherever it stands", () => {
  const world = new World();
  const [first, second, third] = [world.come(), world.come(), world.come()] as const;
  world.check();
  world.leave(second);
  world.check();
  world.leave(first);
  assert.equal(world.line.first(), third);
  world.leave(third);
  world.check();
  const fourth = world.come();
  assert.equal(world.line.first(), fourth);
});

test("one that left and comes again stands at the end", () => {
  const world = new World();
  const [first, second] = [world.come(), world.come()] as const;
  world.leave(first);
  world.come(first);
  assert.equal(world.line.first(), second);
  world.check();
  world.leave(second);
  assert.equal(world.line.first(), first);
  world.check();
});

test("whoever comes, leaves and comes again, the line is what a plain list is", () => {
  const step = fc.record({
    kind: fc.constantFrom("come", "come", "return", "leave", "leave", "serve"),
    which: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400, size: "max" }), (steps) => {
      const world = new World();
      const gone: Claim[] = [];
      for (const { kind, which } of steps) {
        const { waiting, line } = world;
        if (kind === "come") {
          world.come();
        } else if (kind === "return" && gone.length > 0) {
          world.come(gone.splice(which % gone.length, 1)[0]);
        } else if (waiting.length > 0 && kind !== "return") {
          const leaving = kind === "serve" ? line.first() : waiting[which % waiting.length];
          assert.ok(leaving !== undefined);
          world.leave(leaving);
          gone.push(leaving);
        }
        world.check();
      }
    }),
    { numRuns: 100 },
  );
});

test("those who had their turn in vain stand in their old order, whoever comes back first", () => {
  const world = new World();
  const [first, second, third] = [world.come(), world.come(), world.come()] as const;
  world.leave(first);
  world.leave(second);
  assert.equal(world.line.first(), third);
  world.comeBack(second);
  world.comeBack(first);
  world.check();
  assert.deepEqual(world.line.waiting(), [first, second, third]);
});

test("comings, goings and returns leave a line in the order of its tickets", () => {
  const step = fc.tuple(fc.constantFrom("come", "leave", "back"), fc.nat(100));
  const steps = fc.array(step, { maxLength: 300 });
  fc.assert(
    fc.property(steps, (all) => {
      const world = new World();
      const away: Claim[] = [];
      for (const [what, at] of all) {
        const leaving = world.waiting[at % Math.max(world.waiting.length, 1)];
        const [returning] = away.splice(
          what === "back" ? at % Math.max(away.length, 1) : 0,
          what === "back" ? 1 : 0,
        );
        if (what === "come") world.come();
        else if (what === "leave" && leaving !== undefined) {
          world.leave(leaving);
          away.push(leaving);
        } else if (returning !== undefined) world.comeBack(returning);
        world.check();
      }
    }),
  );
});
