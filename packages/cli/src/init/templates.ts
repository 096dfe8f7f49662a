/** The files that `init` writes: a task, a worker and a test, on the public API of `@codeq/client`. */
export interface TemplateChoice {
  readonly typescript: boolean;
  /** The project takes plain `.ts` and `.js` files for modules. */
  readonly isModule: boolean;
}

export interface TemplateFile {
  readonly name: string;
  readonly text: string;
}

/** The queue that the templates work on, and an input for it. */
export const templateTask = { command: "greet", payload: '{"name":"Ada"}' } as const;

export function templateFiles(choice: TemplateChoice): readonly TemplateFile[] {
  const end = endingOf(choice);
  return [
    { name: `tasks.${end}`, text: tasksText(choice) },
    { name: `worker.${end}`, text: workerText(end) },
    { name: `tasks.test.${end}`, text: testText(end) },
  ];
}

/** Of all files; a module needs to be known as one. */
export function endingOf({ typescript, isModule }: TemplateChoice): string {
  return `${isModule ? "" : "m"}${typescript ? "ts" : "js"}`;
}

function tasksText({ typescript }: TemplateChoice): string {
  const types = typescript ? "<{ name: string }, { text: string }>" : "";
  return `/** The tasks of this project: their names, types, options and handlers. */
import { task } from "@codeq/client";

export const greet = task${types}("${templateTask.command}", {
  retry: { maxAttempts: 5 },
  timeout: "30s",
});

/** Pass \`ctx.signal\` to long-running calls; it is aborted when the handler should stop. */
export const greeter = greet.handle(async ({ name }, ctx) => {
  if (name === "") throw new Error("the name is empty");
  return { text: \`Hello, \${name}! (attempt \${ctx.attempt})\` };
});
`;
}

function workerText(end: string): string {
  return `/** The worker. Start it with: node codeq/worker.${end} */
import { codeq } from "@codeq/client";
import { greeter } from "./tasks.${end}";

const { CODEQ_BASE_URL: url, CODEQ_TOKEN: token } = process.env;

const client = codeq({ url, token });
const worker = client.worker([greeter], {
  concurrency: 10,
  on: {
    completed: (ctx, output) => console.log("completed", ctx.id, output),
    failed: (ctx, error) => console.error("failed", ctx.id, error),
    connection: (problem) => console.log(problem?.message ?? "waiting for tasks"),
  },
});

// Running tasks get time to finish; unfinished tasks are handed back and lose no attempt.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void client.close());
await worker.done;
`;
}

function testText(end: string): string {
  return `/** Tests with a real server in memory, on a simulated clock: node --test codeq/tasks.test.${end} */
import assert from "node:assert/strict";
import { test } from "node:test";
import { testServer } from "@codeq/client/testing";
import { greet, greeter } from "./tasks.${end}";

test("greets by name", async (t) => {
  const server = await testServer();
  t.after(() => server.close());
  server.client.worker([greeter]);
  const run = await server.client.enqueue(greet, { name: "Ada" });
  assert.deepEqual(await run.result(), { text: "Hello, Ada! (attempt 1)" });
});

test("sends a delayed greeting after an hour of simulated time", async (t) => {
  const server = await testServer();
  t.after(() => server.close());
  server.client.worker([greeter]);
  const run = await server.client.enqueue(greet, { name: "Ada" }, { delay: "1h" });
  await server.advance("1h");
  assert.equal((await run.result()).text, "Hello, Ada! (attempt 1)");
});
`;
}
