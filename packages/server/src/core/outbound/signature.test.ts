import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import { noWebhookSecrets } from "../../config/blobs.ts";
import { signatureHeaders } from "./signature.ts";

const secretOf = (fill: number): string => `whsec_${Buffer.alloc(32, fill).toString("base64")}`;
const [newer, older, other] = [secretOf(1), secretOf(2), secretOf(3)];
const body = '{"taskId":"t1","status":"COMPLETED"}';

function signed(
  { secret, secrets = noWebhookSecrets }: { secret: string; secrets?: typeof noWebhookSecrets },
  tenantId = "acme",
): Record<string, string> {
  // The library of Standard Webhooks asks the real clock how old a message is.
  const timestampSeconds = Math.floor((performance.timeOrigin + performance.now()) / 1000);
  const config = { webhookHmacSecret: secret, webhookSecrets: secrets };
  const message = { tenantId, secrets: [], id: "msg_1", timestampSeconds, body };
  return signatureHeaders(config, message);
}

function isTaken(headers: Record<string, string>, secret: string): boolean {
  try {
    return new Webhook(secret).verify(body, headers) !== undefined;
  } catch {
    // It throws for whatever it does not take.
    return false;
  }
}

test("the library of Standard Webhooks takes both secrets while one replaces the other", () => {
  const headers = signed({
    secret: "text",
    secrets: { default: [newer, older], tenants: new Map() },
  });
  assert.ok(isTaken(headers, newer));
  assert.ok(isTaken(headers, older));
  assert.ok(!isTaken(headers, other));
  assert.ok(!isTaken({ ...headers, "webhook-id": "msg_2" }, newer));
});

test("a tenant with a secret of its own is not signed with that of others", () => {
  const secrets = { default: [newer], tenants: new Map([["acme", [other]]]) };
  const own = signed({ secret: "text", secrets });
  assert.ok(isTaken(own, other));
  assert.ok(!isTaken(own, newer));
  const theirs = signed({ secret: "text", secrets }, "umbrella");
  assert.ok(isTaken(theirs, newer));
  assert.ok(!isTaken(theirs, other));
});

test("the secret of all tenants signs as text, in both kinds of headers", () => {
  const headers = signed({ secret: "s3cret" });
  const asStandard = `whsec_${Buffer.from("s3cret").toString("base64")}`;
  assert.ok(isTaken(headers, asStandard));
  const text = `${headers["x-codeq-timestamp"]}.${body}`;
  const expected = createHmac("sha256", "s3cret").update(text).digest("hex");
  assert.equal(headers["x-codeq-signature"], expected);
});

test("without a secret there is an id and no signature", () => {
  assert.deepEqual(signed({ secret: " " }), { "webhook-id": "msg_1" });
});
