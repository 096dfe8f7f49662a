import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { clientVersion } from "./grpc-session.ts";

test("the version that servers are told is that of the package", () => {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  assert.equal((JSON.parse(text) as { version: string }).version, clientVersion);
});
