import assert from "node:assert/strict";
import test from "node:test";
import { SimClock, SimRandom } from "@codeq/simulated";
import { endedMax, Sessions, sessionMs, sessionTokenCharsMax } from "./sessions.ts";

function setup({ secret = "a secret", seed = 1 } = {}) {
  const clock = new SimClock({ wallMs: 1_000_000 });
  const random = new SimRandom(seed);
  const randomBytes = (into: Uint8Array): void => {
    for (let at = 0; at < into.length; at += 1) into[at] = Math.floor(random.next() * 256);
  };
  return { clock, sessions: new Sessions({ secret, clock, randomBytes }) };
}

function opened(sessions: Sessions, token = "cq_secret") {
  const session = sessions.open(token);
  assert.ok(session !== undefined);
  return session;
}

test("a session gives its token only together with its second secret", () => {
  const { sessions } = setup();
  const { cookie, csrf } = opened(sessions);
  assert.equal(sessions.tokenOf(cookie, csrf), "cq_secret");
  assert.equal(sessions.tokenOf(cookie, ""), undefined);
  assert.equal(sessions.tokenOf(cookie, opened(sessions).csrf), undefined);
});

test("the cookie tells nothing of the token, and a changed one is none", () => {
  const { sessions } = setup();
  const { cookie, csrf } = opened(sessions);
  assert.ok(!Buffer.from(cookie, "base64url").includes("cq_secret"));
  for (let at = 0; at < cookie.length; at += 1) {
    const letter = cookie[at] === "A" ? "B" : "A";
    const changed = `${cookie.slice(0, at)}${letter}${cookie.slice(at + 1)}`;
    const isSameBytes = Buffer.from(changed, "base64url").equals(Buffer.from(cookie, "base64url"));
    if (!isSameBytes) assert.equal(sessions.tokenOf(changed, csrf), undefined, `at ${at}`);
  }
  for (const other of ["", "x", "A".repeat(40)]) assert.equal(sessions.read(other), undefined);
});

test("every sign-in makes another session", () => {
  const { sessions } = setup();
  const [one, other] = [opened(sessions), opened(sessions)];
  assert.notEqual(one.cookie, other.cookie);
  assert.notEqual(one.csrf, other.csrf);
});

test("a session ends after its time, and when it is ended, also for copies of its cookie", async () => {
  const { sessions, clock } = setup();
  const [one, other] = [opened(sessions), opened(sessions)];
  sessions.end(one);
  assert.equal(sessions.read(one.cookie), undefined);
  assert.ok(sessions.read(other.cookie) !== undefined);
  await clock.advance(sessionMs - 1);
  assert.ok(sessions.read(other.cookie) !== undefined);
  await clock.advance(1);
  assert.equal(sessions.read(other.cookie), undefined);
});

test("servers with the same secret know each other's sessions, others do not", () => {
  const one = setup({ secret: "shared", seed: 1 }).sessions;
  const same = setup({ secret: "shared", seed: 2 }).sessions;
  const other = setup({ secret: "another", seed: 3 }).sessions;
  const { cookie, csrf } = opened(one);
  assert.equal(same.tokenOf(cookie, csrf), "cq_secret");
  assert.equal(other.tokenOf(cookie, csrf), undefined);
});

test("the longest token that is accepted fits into a cookie, and one more character does not", () => {
  const { sessions } = setup();
  const { cookie } = opened(sessions, "x".repeat(sessionTokenCharsMax));
  assert.ok(cookie.length < 4000, `${cookie.length}`);
  assert.equal(sessions.open("x".repeat(sessionTokenCharsMax + 1)), undefined);
});

test("an ended session does not come back when more sessions are ended than are remembered", async () => {
  const { sessions, clock } = setup();
  const first = opened(sessions);
  sessions.end(first);
  await clock.advance(1);
  const other = opened(sessions);
  for (let n = 0; n < endedMax; n += 1) {
    sessions.end({ token: "", csrf: `${n}`, expiresMs: other.expiresMs });
  }
  assert.equal(sessions.read(first.cookie), undefined);
  assert.ok(sessions.read(other.cookie) !== undefined, "a newer session goes on");
});
