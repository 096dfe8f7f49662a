import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "@codeq/simulated";
import { FloodWatch } from "./flood-watch.ts";

const limits = { floodCheckMs: 100, floodBytesMax: 1000 };

class Peer {
  bytesRead = 0;
  messageBytes = 0;
  cuts = 0;

  countUnread(): void {}

  cut(): void {
    this.cuts += 1;
  }

  send(bytes: { readonly messages: number; readonly others: number }): void {
    this.messageBytes += bytes.messages;
    this.bytesRead += bytes.messages + bytes.others;
  }
}

function setup() {
  const clock = new SimClock();
  const watch = new FloodWatch(limits, clock);
  const peer = new Peer();
  watch.add(peer);
  return { clock, watch, peer };
}

test("as many other bytes as the limit are always good, one more is not", async () => {
  const { clock, peer } = setup();
  for (let check = 0; check < 5; check += 1) {
    peer.send({ messages: 0, others: limits.floodBytesMax });
    await clock.advance(limits.floodCheckMs);
  }
  assert.equal(peer.cuts, 0);
  peer.send({ messages: 0, others: limits.floodBytesMax + 1 });
  await clock.advance(limits.floodCheckMs);
  assert.equal(peer.cuts, 1);
});

test("beyond the limit it is the share of messages that counts", async () => {
  const { clock, peer } = setup();
  peer.send({ messages: 5000, others: 10_000 });
  await clock.advance(limits.floodCheckMs);
  assert.equal(peer.cuts, 0);
  peer.send({ messages: 5000, others: 10_001 });
  await clock.advance(limits.floodCheckMs);
  assert.equal(peer.cuts, 1);
});

test("messages of an earlier time make up for nothing", async () => {
  const { clock, peer } = setup();
  peer.send({ messages: 1_000_000, others: 0 });
  await clock.advance(limits.floodCheckMs);
  peer.send({ messages: 0, others: 5000 });
  await clock.advance(limits.floodCheckMs);
  assert.equal(peer.cuts, 1);
});

test("every connection is judged by itself, also those that come later", async () => {
  const { clock, watch, peer } = setup();
  await clock.advance(limits.floodCheckMs / 2);
  const other = new Peer();
  watch.add(other);
  other.send({ messages: 0, others: 5000 });
  peer.send({ messages: 9000, others: 5000 });
  await clock.advance(limits.floodCheckMs);
  assert.deepEqual([peer.cuts, other.cuts], [0, 1]);
});

test("without connections there is no timer, and with new ones there is", async () => {
  const { clock, watch, peer } = setup();
  watch.delete(peer);
  peer.send({ messages: 0, others: 5000 });
  await clock.advance(1000);
  assert.equal(peer.cuts, 0);
  const other = new Peer();
  watch.add(other);
  other.send({ messages: 0, others: 5000 });
  await clock.advance(limits.floodCheckMs);
  assert.equal(other.cuts, 1);
});
