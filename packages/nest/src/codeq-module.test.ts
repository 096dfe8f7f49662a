import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, type TaskContext, task, type WorkerListeners } from "@codeq/client";
import { type TestServer, testServer } from "@codeq/client/testing";
import {
  type DynamicModule,
  Inject,
  Injectable,
  type LoggerService,
  Module,
  type ModuleMetadata,
  Scope,
} from "@nestjs/common";
import { Test, type TestingModule } from "@nestjs/testing";
import { CodeqModule, InjectCodeq, InjectTask, type InputOf, Processor } from "./index.ts";

const greet = task<{ name: string }, { text: string }>("greet");
const shout = task<string, string>("shout");

/** What a decorator in front of a parameter of a constructor does. */
const injected = (target: object, ...decorators: readonly ParameterDecorator[]): void => {
  for (const [at, decorate] of decorators.entries()) decorate(target, undefined, at);
};

class Words {
  readonly hello = "hello";
}

class Greeter {
  readonly #words: Words;
  constructor(words: Words) {
    this.#words = words;
  }
  process({ name }: InputOf<typeof greet>): { text: string } {
    return { text: `${this.#words.hello} ${name}` };
  }
}
injected(Greeter, Inject(Words));
Processor(greet)(Greeter);

class Shouter {
  async process(text: string): Promise<string> {
    if (text === "") throw new Error("nothing to shout");
    return text.toUpperCase();
  }
}
Processor(shout, { name: "shouter" })(Shouter);

class Producer {
  readonly codeq: Client;
  readonly greeting: typeof greet;
  constructor(codeq: Client, greeting: typeof greet) {
    this.codeq = codeq;
    this.greeting = greeting;
  }
}
injected(Producer, InjectCodeq(), InjectTask(greet));

/** A module of the user, imported by the root module, to see that processors are found in all of them. */
class Feature {}
Module({
  imports: [CodeqModule.forFeature([greet])],
  providers: [Words, Greeter, Shouter, Producer],
  exports: [Producer],
})(Feature);

class Lines implements LoggerService {
  readonly lines: string[] = [];
  readonly log = (): void => {};
  readonly error = (text: string): void => void this.lines.push(text);
  readonly warn = (text: string): void => void this.lines.push(text);
}

async function setup(
  imports: (server: TestServer) => NonNullable<ModuleMetadata["imports"]>,
  logger = new Lines(),
): Promise<{ server: TestServer; module: TestingModule }> {
  const server = await testServer();
  const module = await Test.createTestingModule({ imports: imports(server) })
    .setLogger(logger)
    .compile();
  return { server, module };
}

test("processors of all modules run with what is injected, once the application has started", async () => {
  const completed: string[] = [];
  const on: WorkerListeners = { completed: (ctx) => completed.push(ctx.task) };
  const { server, module } = await setup(({ client }) => [
    CodeqModule.forRoot({ client, worker: { on } }),
    Feature,
  ]);
  await using _ = server;
  const { codeq, greeting } = module.get(Producer);
  assert.equal(codeq, server.client);
  const run = await greeting.enqueue({ name: "Ada" });
  await server.advance("1m");
  assert.equal((await run.status()).status, "PENDING");
  await module.init();
  assert.deepEqual(await run.result(), { text: "hello Ada" });
  assert.deepEqual(await greeting.run({ name: "Bob" }), { text: "hello Bob" });
  assert.equal(await (await codeq.enqueue(shout, "x")).result(), "X");
  await module.close();
  assert.deepEqual(completed, ["greet", "greet", "shout"]);
});

test("a processor with options has a worker of its own", async () => {
  const { server, module } = await setup(({ client }) => [
    CodeqModule.forRoot({ client }),
    Feature,
  ]);
  await using _ = server;
  await module.init();
  await module.get(Producer).greeting.run({ name: "Ada" });
  await (await server.client.enqueue(shout, "x")).result();
  const names: string[] = [];
  for await (const { workerId } of server.client.admin.workers()) names.push(workerId);
  assert.equal(names.length, 2);
  assert.ok(names.includes("~shouter@static"), names.join(", "));
  await module.close();
});

class Stubborn {
  static started: PromiseWithResolvers<void> = Promise.withResolvers();
  process(_input: { name: string }, { signal }: TaskContext): Promise<{ text: string }> {
    Stubborn.started.resolve();
    return new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
  }
}
Processor(greet)(Stubborn);

class Root {}

const rootOf = (...providers: NonNullable<ModuleMetadata["providers"]>): DynamicModule => ({
  module: Root,
  providers,
});

test("an application that shuts down hands tasks back without an attempt", async () => {
  const { server, module } = await setup(({ client }) => [
    CodeqModule.forRoot({ client, worker: { grace: 0 } }),
    rootOf(Stubborn),
  ]);
  await using _ = server;
  await module.init();
  const run = await server.client.enqueue(greet, { name: "Ada" });
  await Stubborn.started.promise;
  await module.close();
  const { status, attempts = 0 } = await run.status();
  assert.deepEqual([status, attempts], ["PENDING", 0]);
  assert.equal(server.counts(greet).ready, 1);
});

test("options come from other providers, and a client of the module ends with it", async () => {
  const { server, module } = await setup(() => [
    CodeqModule.forRootAsync({
      imports: [{ module: Root, providers: [Words], exports: [Words] }],
      inject: [Words],
      useFactory: ({ hello }: Words) => ({ url: "http://127.0.0.1:9", token: hello }),
    }),
    { ...rootOf(Producer), imports: [CodeqModule.forFeature([greet])] },
  ]);
  await using _ = server;
  await module.init();
  const { codeq } = module.get(Producer);
  await module.close();
  await assert.rejects(codeq.enqueue(greet, { name: "Ada" }), { code: "closed" });
});

test("a process that only enqueues has no worker", async () => {
  const { server, module } = await setup(({ client }) => [
    CodeqModule.forRoot({ client, worker: false }),
    Feature,
  ]);
  await using _ = server;
  await module.init();
  await module.get(Producer).greeting.enqueue({ name: "Ada" });
  await server.advance("1m");
  assert.equal(server.counts(greet).ready, 1);
  await module.close();
});

test("what fails stands in the log of the application", async () => {
  const logger = new Lines();
  const { server, module } = await setup(
    ({ client }) => [CodeqModule.forRoot({ client }), Feature],
    logger,
  );
  await using _ = server;
  await module.init();
  const run = await server.client.enqueue(shout, "", { maxAttempts: 1 });
  await assert.rejects(run.result(), { code: "task_failed" });
  assert.deepEqual(logger.lines, [`task ${run.id} (shout) failed in attempt 1`]);
  await module.close();
});

test("a processor that is made for each request is refused, with what to do", async () => {
  class PerRequest extends Shouter {}
  Injectable({ scope: Scope.REQUEST })(PerRequest);
  Processor(shout)(PerRequest);
  const { server, module } = await setup(({ client }) => [
    CodeqModule.forRoot({ client }),
    rootOf(PerRequest),
  ]);
  await using _ = server;
  await assert.rejects(module.init(), /the processor PerRequest of shout .* default scope/);
});

test("a task that was not listed is an error that says where to list it", async () => {
  const build = setup(({ client }) => [CodeqModule.forRoot({ client }), rootOf(Producer)]);
  await assert.rejects(build, /codeQ task greet; see CodeqModule\.forFeature/);
});

test("the compiler refuses a processor that does not fit its task", () => {
  class Wrong {
    process(input: { age: number }): string {
      return `${input.age}`;
    }
  }
  // @ts-expect-error The input and the output are others.
  Processor(greet)(Wrong);
  // @ts-expect-error There is no process.
  Processor(greet)(Words);
});
