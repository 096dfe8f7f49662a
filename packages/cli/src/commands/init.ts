/** `init`: writes a task, a worker and a test into the project; never overwrites a file. */
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Project, readProject } from "../init/project.ts";
import { endingOf, templateFiles, templateTask } from "../init/templates.ts";

const languages = ["ts", "js"] as const;

export async function run(call: Call): Promise<number> {
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
  else for (const line of told(call, project, folder, written)) call.print(line);
  return exitCodes.ok.code;
}

/** Node runs the files as they stand; who checks them with tsc as well needs a little more. */
const forCompiler = [
  "To check the files with tsc, run npm install --save-dev @types/node and set in tsconfig.json:",
  '  "types": ["node"], "allowImportingTsExtensions": true, "noEmit": true',
];

function told(call: Call, project: Project, folder: string, written: readonly string[]): string[] {
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
    `  ${program} dev`,
    `  node ${at}/worker.${end}`,
    `  ${program} enqueue ${command} '${payload}' --wait`,
    ...(project.typescript ? ["", ...forCompiler] : []),
  ];
}

function shown(call: Call, path: string): string {
  return relative(call.host.directory, path) || path;
}
