import assert from "node:assert/strict";
import { Socket } from "node:net";
import { test } from "node:test";
import { UnreadAnswers } from "./unread-answers.ts";

test("beyond the limit the connection that waits the longest is closed, anonymous ones first", async () => {
  const unread = new UnreadAnswers(100);
  const [known, first, second, last] = Array.from({ length: 4 }, () => new Socket());
  unread.hold(known!, 30, true);
  unread.hold(first!, 30, false);
  unread.hold(second!, 30, false);
  unread.hold(last!, 30, false);
  assert.deepEqual(
    [known, first, second, last].map((each) => each?.destroyed),
    [false, true, false, false],
  );
  assert.equal(unread.bytes, 90);
  unread.hold(last!, 500, false);
  assert.ok(known?.destroyed && second?.destroyed && last?.destroyed === false);
  assert.equal(unread.bytes, 530);
});

test("what was read, or is lost with its connection, counts no more", async () => {
  const unread = new UnreadAnswers(100);
  const socket = new Socket();
  const read = [10, 20, 30].map((bytes) => unread.hold(socket, bytes, true));
  read[0]?.();
  assert.equal(unread.bytes, 50);
  socket.destroy();
  await new Promise((resolve) => socket.once("close", resolve));
  read[1]?.();
  assert.equal(unread.bytes, 0);
  assert.equal(socket.listenerCount("close"), 0);
});
