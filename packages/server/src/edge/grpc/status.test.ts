import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeGrpcMessage, trailersOf } from "./status.ts";

test("an OK has no message, a failure has both", () => {
  assert.deepEqual(trailersOf({ status: "OK", message: "" }), { "grpc-status": "0" });
  assert.deepEqual(trailersOf({ status: "UNAUTHENTICATED", message: "no token" }), {
    "grpc-status": "16",
    "grpc-message": "no token",
  });
});

test("a message is percent-encoded where a header needs it", () => {
  assert.equal(encodeGrpcMessage("a b~"), "a b~");
  assert.equal(encodeGrpcMessage("100% é\r\n日"), "100%25 %C3%A9%0D%0A%E6%97%A5");
  assert.equal(decodeURIComponent(encodeGrpcMessage("%41 \x7f\0")), "%41 \x7f\0");
});

test("a long message is cut at a whole character", () => {
  const encoded = encodeGrpcMessage("😀".repeat(1000));
  assert.ok(encoded.length < 8192);
  assert.match(decodeURIComponent(encoded), /^(😀)+\.\.\.$/u);
  assert.equal(encodeGrpcMessage("x".repeat(512)), "x".repeat(512));
});
