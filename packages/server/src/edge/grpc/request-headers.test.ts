import assert from "node:assert/strict";
import { test } from "node:test";
import { parseTimeout, readRequestHead } from "./request-headers.ts";

const call = { ":method": "POST", ":path": "/a.B/C", "content-type": "application/grpc" };

test("a call is recognised with every form of its content type", () => {
  for (const type of ["application/grpc", "application/grpc+proto", "application/grpc; x=1"]) {
    const head = readRequestHead({ ...call, "content-type": type });
    assert.deepEqual(head, { kind: "call", path: "/a.B/C", timeoutMs: undefined });
  }
});

test("what is not gRPC is answered by HTTP", () => {
  for (const type of ["application/json", "application/grpcx", "application/grpc-web", ""]) {
    const head = readRequestHead({ ...call, "content-type": type });
    assert.deepEqual(head, { kind: "not_grpc", httpStatus: 415 });
  }
  assert.deepEqual(readRequestHead({ ...call, ":method": "GET" }), {
    kind: "not_grpc",
    httpStatus: 405,
  });
});

test("a timeout is read in all its units and rounded up", () => {
  const cases: readonly [string, number | undefined][] = [
    ["1H", 3_600_000],
    ["2M", 120_000],
    ["3S", 3000],
    ["4m", 4],
    ["1500u", 2],
    ["1n", 1],
    ["0n", 0],
    ["99999999n", 100],
    ["123456789S", undefined],
    ["S", undefined],
    ["-1S", undefined],
    ["1s", undefined],
    ["1.5S", undefined],
    ["", undefined],
  ];
  for (const [text, ms] of cases) assert.equal(parseTimeout(text), ms, text);
});

test("a malformed timeout is refused, and one beyond any timer is none", () => {
  const head = readRequestHead({ ...call, "grpc-timeout": "soon" });
  assert.deepEqual(head, {
    kind: "refused",
    end: { status: "INTERNAL", message: "malformed grpc-timeout" },
  });
  const far = readRequestHead({ ...call, "grpc-timeout": "99999999H" });
  assert.deepEqual(far, { kind: "call", path: "/a.B/C", timeoutMs: undefined });
});
