import assert from "node:assert/strict";
import test from "node:test";
import { SimClock } from "@codeq/simulated";
import Fastify from "fastify";
import { createLogger, SpacedWarnings } from "../../telemetry/logger.ts";
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

test("failed sign-ins count as refusals of their connection, and do not fill the log", async () => {
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line);
  const logger = createLogger({ level: "info", format: "json", nowMs: () => 0, write });
  const failure = { ok: false, problem: "expired", reason: "not begun here" };
  const app = Fastify();
  let refused = 0;
  app.decorate("connections", { of: () => ({ refused: () => (refused += 1) }) } as never);
  addLoginRoutes(app, {
    login: { begin: async () => failure, finish: async () => failure },
    warnings: new SpacedWarnings(logger, new SimClock()),
    dispatch: { noteRefusal: () => {} },
  } as unknown as LoginRouteParts);
  for (const path of ["/ui/login", "/ui/login/callback?state=a", "/ui/login/callback?state=b"]) {
    assert.equal((await app.inject(path)).headers.location, "/ui?login=expired");
  }
  assert.equal(refused, 3);
  assert.equal(lines.length, 1);
});
