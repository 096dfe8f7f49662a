import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId, TenantId } from "@codeq/queue";
import {
  type DeliveryLog,
  decodeDelivery,
  noDeliveries,
  withTry,
  writesOfDelivery,
} from "../records/delivery-record.ts";
import { decodeEndpoint, writeOfEndpoint } from "../records/endpoint-record.ts";
import { decodeSigning, writeOfSigning } from "../records/signing-record.ts";
import type { RecordWrite } from "./store.ts";

const tenantId = "acme" as TenantId;
const of = { tenantId, id: "t-1" as TaskId };

function textOf(write: RecordWrite | undefined): string {
  return String(write !== undefined && "value" in write ? write.value : "");
}

test("a log is read back as it was written, and keeps the last tries", () => {
  let log: DeliveryLog = { ...noDeliveries, atMs: 5, nextMs: 9 };
  for (let n = 1; n <= 25; n += 1) {
    const status = n % 2 === 0 ? 500 : undefined;
    log = withTry(log, { atMs: n, status, durationMs: 2, why: "x".repeat(1000) });
  }
  assert.deepEqual([log.total, log.tries.length, log.tries[0]?.atMs], [25, 20, 6]);
  assert.equal(log.tries[0]?.why.length, 256);
  const [write, ...others] = writesOfDelivery(of, undefined, log);
  assert.deepEqual(others, []);
  assert.equal(write?.key, "codeq/deliveries/t-1");
  assert.deepEqual(decodeDelivery(textOf(write)), log);
});

test("a webhook that is given up is listed by its time, and leaves the list when it is not any more", () => {
  const failed: DeliveryLog = { ...noDeliveries, state: "failed", atMs: 255, why: "no" };
  const listed = writesOfDelivery(of, undefined, failed)[1];
  assert.equal(listed?.key, "codeq/undelivered/acme/000000000000ff/t-1");
  const again = writesOfDelivery(of, failed, { ...noDeliveries, atMs: 300 });
  assert.deepEqual(
    again.map(({ key }) => key),
    ["codeq/deliveries/t-1", listed?.key],
  );
});

test("endpoints and secrets are read back as they were written", () => {
  const endpoint = { url: "http://a.example/x/y", sinceMs: 1, disabledMs: undefined, why: '"' };
  const written = writeOfEndpoint(tenantId, endpoint);
  assert.equal(written.key, "codeq/endpoints/acme/http%3A%2F%2Fa.example%2Fx%2Fy");
  assert.deepEqual(decodeEndpoint(endpoint.url, textOf(written)), endpoint);
  const secrets = [
    { id: "a", secret: "whsec_x", createdMs: 1, createdBy: "boss", untilMs: undefined },
    { id: "b", secret: "", createdMs: 0, createdBy: "", untilMs: 7 },
  ];
  const signing = writeOfSigning(tenantId, secrets);
  assert.equal(signing.key, "codeq/signing/acme");
  assert.deepEqual(decodeSigning(textOf(signing)), secrets);
});

test("what is no record is told from one", () => {
  const row = '["waiting",1,0,"",0,[]]';
  assert.notEqual(decodeDelivery(row), undefined);
  for (const text of ["", "{}", "[]", row.replace("waiting", "lost"), row.replace("[]", "[[1]]")]) {
    assert.equal(decodeDelivery(text), undefined, text);
  }
  for (const text of ["", "{}", "[1,2]", '["1",0,""]']) {
    assert.equal(decodeEndpoint("http://a.example/", text), undefined, text);
  }
  for (const text of ["", "{}", "[1]", '[["a","b",1,"c"]]', '[["a","b","1","c",0]]']) {
    assert.equal(decodeSigning(text), undefined, text);
  }
});
