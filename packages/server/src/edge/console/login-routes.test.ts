import assert from "node:assert/strict";
import test from "node:test";
import Fastify from "fastify";
import { addLoginRoutes, type LoginRouteParts } from "./login-routes.ts";

test("an answer of the identity server with a parameter twice is a bad request", async () => {
  const app = Fastify();
  // Refused before any of the parts is used.
  addLoginRoutes(app, {} as LoginRouteParts);
  for (const query of ["state=a&state=b", "code=a&code=b&state=c"]) {
    const reply = await app.inject(`/ui/login/callback?${query}`);
    assert.equal(reply.statusCode, 400, query);
  }
});
