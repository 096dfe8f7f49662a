/** The plugin in a real Fastify. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codeq, task } from "@codeq/client";
import { type CodeqFastifyOptions, codeqPlugin } from "@codeq/client/fastify";
import { testServer } from "@codeq/client/testing";
import fastify, { type FastifyInstance } from "fastify";

const greet = task<{ name: string }, { text: string }>("greet");
const greeter = greet.handle(({ name }) => {
  if (name === "") throw new Error("nobody to greet");
  return { text: `hello ${name}` };
});

/** An application with a route in a plugin of its own, as most have. */
async function application(
  options: CodeqFastifyOptions,
  lines: string[] = [],
): Promise<FastifyInstance> {
  const stream = { write: (line: string): void => void lines.push(line) };
  const app = fastify({ logger: { level: "warn", stream } });
  await app.register(codeqPlugin, options);
  await app.register(async (routes) => {
    routes.post<{ Body: { name: string } }>("/greetings", async ({ body }, reply) => {
      const { id } = await routes.codeq.enqueue(greet, body, { maxAttempts: 1 });
      return reply.code(202).send({ id });
    });
  });
  return app;
}

async function greeting(app: FastifyInstance, name: string): Promise<string> {
  const reply = await app.inject({ method: "POST", url: "/greetings", payload: { name } });
  assert.equal(reply.statusCode, 202);
  return reply.json<{ id: string }>().id;
}

test("routes enqueue with the client of the instance, and a worker runs with the application", async () => {
  await using server = await testServer();
  const app = await application({ client: server.client, handlers: greeter });
  assert.equal(app.codeq, server.client);
  const id = await greeting(app, "Ada");
  assert.deepEqual(await server.client.run(greet, id).result(), { text: "hello Ada" });
  await app.close();
  // Its worker has ended; the client that it was given has not.
  await server.client.enqueue(greet, { name: "Bob" });
  await server.advance("1m");
  assert.equal(server.counts(greet).ready, 1);
});

test("an application that closes hands tasks back without an attempt", async () => {
  await using server = await testServer();
  const started = Promise.withResolvers<void>();
  const handler = greet.handle(async (_input, { signal }) => {
    started.resolve();
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    return { text: "" };
  });
  const worker = { grace: 0 };
  const app = await application({ client: server.client, handlers: [handler], worker });
  const id = await greeting(app, "Ada");
  await started.promise;
  await app.close();
  const { status, attempts = 0 } = await server.client.run(greet, id).status();
  assert.deepEqual([status, attempts], ["PENDING", 0]);
});

test("without handlers there is no worker", async () => {
  await using server = await testServer();
  const app = await application({ client: server.client });
  await greeting(app, "Ada");
  await server.advance("1m");
  assert.equal(server.counts(greet).ready, 1);
  await app.close();
});

test("a client that the plugin made ends with the application", async () => {
  const app = await application({ url: "http://127.0.0.1:9" });
  await app.ready();
  const { codeq: client } = app;
  await app.close();
  await assert.rejects(client.enqueue(greet, { name: "Ada" }), { code: "closed" });
});

test("a misspelt option is refused", async () => {
  const options = { handler: greeter } as CodeqFastifyOptions;
  await assert.rejects(application(options), /unknown option handler/);
  assert.throws(() => codeq(options as never), /unknown option handler/);
});

test("what fails stands in the log of the application", async () => {
  await using server = await testServer();
  const lines: string[] = [];
  const app = await application({ client: server.client, handlers: greeter }, lines);
  const id = await greeting(app, "");
  await assert.rejects(server.client.run(greet, id).result(), { code: "task_failed" });
  await app.close();
  const [line = "{}"] = lines;
  const { err, taskId, msg } = JSON.parse(line);
  assert.deepEqual([err.message, taskId, msg], ["nobody to greet", id, "a task failed"]);
});
