/**
 * `init`: writes a task, a worker and a test on the public API of `@codeq/client` into the project; never
 * overwrites a file.
 */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";

const languages = ["ts", "js"] as const;

export async function run(call: Call): Promise<void> {
  const { options, host } = call;
  const language = languages.find((each) => each === options.text("language"));
  const project = readProject(host.directory, language);
  const folder = resolve(host.directory, options.text("dir") ?? "codeq");
  const files = templateFiles(project).map(({ name, text }) => ({
    path: join(folder, name),
    text,
  }));
  const existing = files.filter(({ path }) => existsSync(path));
  if (existing.length > 0) {
    const names = existing.map(({ path }) => shown(call, path)).join(", ");
    throw new CliError(`this would overwrite ${names}; nothing was written`, {
      exit: "failed",
      next: "choose another folder with --dir, or move the files away",
    });
  }
  if (existsSync(folder) && !statSync(folder).isDirectory()) {
    throw new CliError(`${shown(call, folder)} is a file; nothing was written`, {
      exit: "failed",
      next: "choose another folder with --dir",
    });
  }
  mkdirSync(folder, { recursive: true });
  for (const { path, text } of files) writeFileSync(path, text, { flag: "wx" });
  const written = files.map(({ path }) => shown(call, path));
  if (call.json) call.printJson({ written });
  else for (const line of nextSteps(call, project, folder, written)) call.print(line);
}

/** Node runs the files as they stand; who checks them with tsc as well needs a little more. */
const forCompiler = [
  "To check the files with tsc, run npm install --save-dev @types/node and set in tsconfig.json:",
  '  "types": ["node"], "allowImportingTsExtensions": true, "noEmit": true',
];

function nextSteps(
  call: Call,
  project: Project,
  folder: string,
  written: readonly string[],
): string[] {
  const { program } = call.host;
  const end = endingOf(project);
  const at = shown(call, folder);
  const { command, payload } = templateTask;
  return [
    ...written.map((path) => `wrote ${path}`),
    "",
    "Next:",
    ...(project.hasManifest ? [] : ["  npm init -y"]),
    ...(project.missing.length === 0 ? [] : [`  npm install ${project.missing.join(" ")}`]),
    `  node --test ${at}/tasks.test.${end}`,
    `  ${program} dev ${at}/worker.${end}`,
    `  ${program} enqueue ${command} '${payload}' --wait`,
    ...(project.typescript ? ["", ...forCompiler] : []),
  ];
}

function shown(call: Call, path: string): string {
  return relative(call.host.directory, path) || path;
}

interface Manifest {
  readonly type?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

interface Project extends TemplateChoice {
  readonly hasManifest: boolean;
  /** Packages that the templates need and the project does not name. */
  readonly missing: readonly string[];
}

function readProject(directory: string, language: "ts" | "js" | undefined): Project {
  const manifest = readManifest(join(directory, "package.json"));
  const packages = { ...manifest?.dependencies, ...manifest?.devDependencies };
  // Node runs both; those who use TypeScript want types, and so do those who have nothing yet.
  const isJavaScript = manifest !== undefined && !usesTypeScript(directory, packages);
  return {
    typescript: language === undefined ? !isJavaScript : language === "ts",
    isModule: manifest?.type === "module",
    hasManifest: manifest !== undefined,
    missing: missingIn(packages),
  };
}

/** Tests run a real server, which comes along with the command line. */
function missingIn(packages: object): string[] {
  const hasServer = "@codeq/server" in packages || "@codeq/cli" in packages;
  return [
    ...("@codeq/client" in packages ? [] : ["@codeq/client"]),
    ...(hasServer ? [] : ["@codeq/server"]),
  ];
}

function usesTypeScript(directory: string, packages: object): boolean {
  return existsSync(join(directory, "tsconfig.json")) || "typescript" in packages;
}

function readManifest(path: string): Manifest | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Manifest;
  } catch {
    // None, or one that npm will complain about.
    return undefined;
  }
}

interface TemplateChoice {
  readonly typescript: boolean;
  /** The project takes plain `.ts` and `.js` files for modules. */
  readonly isModule: boolean;
}

interface TemplateFile {
  readonly name: string;
  readonly text: string;
}

/** The queue that the templates work on, and an input for it. */
const templateTask = { command: "greet", payload: '{"name":"Ada"}' } as const;

function templateFiles(choice: TemplateChoice): readonly TemplateFile[] {
  const end = endingOf(choice);
  return [
    { name: `tasks.${end}`, text: tasksText(choice) },
    { name: `worker.${end}`, text: workerText(end) },
    { name: `tasks.test.${end}`, text: testText(end) },
  ];
}

/** The ending of all files; outside a package of modules, the ending marks a module. */
function endingOf({ typescript, isModule }: TemplateChoice): string {
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
  return `/** The worker. Start it with a server for development: npx codeq dev codeq/worker.${end}; alone: node codeq/worker.${end} */
import { codeq } from "@codeq/client";
import { greeter } from "./tasks.${end}";

// The server is the one of the environment: CODEQ_URL and CODEQ_TOKEN. Default: the one of "codeq dev".
const worker = codeq().worker([greeter], {
  concurrency: 10,
  on: {
    completed: (ctx, output) => console.log("completed", ctx.id, output),
    failed: (ctx, error) => console.error("failed", ctx.id, error),
    connection: (problem) => console.log(problem?.message ?? "waiting for tasks"),
  },
});

// On SIGTERM and Ctrl-C, running tasks get time to finish; unfinished tasks are handed back and lose no attempt.
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
