import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { type VerifyOptions, verifyWebhook, type WebhookRequest } from "./verify-webhook.ts";

const secretOf = (fill: number): string => `whsec_${Buffer.alloc(32, fill).toString("base64")}`;
const secret = secretOf(1);
const nowMs = 1_700_000_000_000;
const body =
  '{"taskId":"t1","eventType":"greet","status":"COMPLETED","result":{"text":"hé"},"error":"",' +
  '"artifacts":[],"completedAt":"2023-11-14T22:13:20Z"}';

function signedBy(key: Buffer | string, seconds: number = nowMs / 1000): Record<string, string> {
  const hmac = createHmac("sha256", key).update(`msg_1.${seconds}.${body}`).digest("base64");
  return {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(seconds),
    "webhook-signature": `v1a,xyz v1,${hmac}`,
  };
}

const headers = signedBy(Buffer.alloc(32, 1));

function refusalOf(request: Partial<WebhookRequest>, options: Partial<VerifyOptions> = {}): string {
  try {
    verifyWebhook({ body, headers, ...request }, { secret, nowMs, ...options });
    return "taken";
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    assert.equal(code, "webhook_refused");
    return message;
  }
}

test("a request of the server is taken, whatever its headers and its body come as", () => {
  const expected = {
    id: "msg_1",
    taskId: "t1",
    eventType: "greet",
    status: "COMPLETED",
    result: { text: "hé" },
    error: "",
    artifacts: [],
    completedAt: new Date(nowMs),
  };
  const options = { secret, nowMs };
  assert.deepEqual(verifyWebhook({ body, headers }, options), expected);
  const asBytes = { body: Buffer.from(body), headers: new Headers(headers) };
  assert.deepEqual(verifyWebhook(asBytes, options), expected);
  const lists = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
  assert.deepEqual(verifyWebhook({ body, headers: lists }, options), expected);
});

test("any of several secrets will do, and a secret that is plain text is its own key", () => {
  assert.equal(refusalOf({}, { secret: [secretOf(2), secret] }), "taken");
  assert.equal(refusalOf({ headers: signedBy("plain") }, { secret: "plain" }), "taken");
});

test("another secret, another body and other headers are refused", () => {
  const noFit = /no signature fits/;
  assert.match(refusalOf({}, { secret: secretOf(2) }), noFit);
  assert.match(refusalOf({ body: body.replace("t1", "t2") }), noFit);
  assert.match(refusalOf({ headers: { ...headers, "webhook-id": "msg_2" } }), noFit);
  const signature = headers["webhook-signature"]!;
  for (const wrong of [
    "v1,",
    "nothing",
    signature.replace(" v1,", " v2,"),
    signature.slice(0, -8),
  ]) {
    assert.match(refusalOf({ headers: { ...headers, "webhook-signature": wrong } }), noFit, wrong);
  }
  for (const name of Object.keys(headers)) {
    const missing = { ...headers, [name]: undefined };
    assert.match(refusalOf({ headers: missing }), new RegExp(`the header ${name} is missing`));
  }
});

test("requests from more than five minutes ago or ahead are refused", () => {
  const at = (seconds: number): string => refusalOf({}, { nowMs: nowMs + seconds * 1000 });
  assert.equal(at(300), "taken");
  assert.match(at(301), /more than 300 seconds from now/);
  assert.equal(at(-300), "taken");
  assert.match(at(-301), /more than 300 seconds from now/);
  const wider = { nowMs: nowMs + 500_000, toleranceSeconds: 600 };
  assert.equal(refusalOf({}, wider), "taken");
  assert.match(refusalOf({ headers: { ...headers, "webhook-timestamp": "soon" } }), /from now/);
});

test("a secret that is missing is a mistake of the receiver", () => {
  for (const nothing of ["", [], [secret, ""]]) {
    assert.throws(() => verifyWebhook({ body, headers }, { secret: nothing, nowMs }), {
      code: "invalid_option",
    });
  }
});
