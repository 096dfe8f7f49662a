/**
 * A load in a process of its own, in Node or not: it says that it is ready, counts between the words
 * begin and end, and answers the latter with its report.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Workspace } from "./workspace.ts";

export type LoadProgram =
  /** A file beside this one. */
  | { readonly kind: "node"; readonly file: string }
  /** Any program that reads words and writes JSON, both line by line. */
  | { readonly kind: "program"; readonly path: string };

export interface LoadProcess {
  readonly child: ChildProcess;
  /** Whether its first thread does the work. */
  readonly isSingleThreaded: boolean;
  readonly tell: (word: "begin" | "end") => void;
  /** What it says next. */
  readonly hear: () => Promise<unknown>;
  /** Rejects when the process ends. */
  readonly ended: Promise<never>;
}

export function startLoad(workspace: Workspace, program: LoadProgram, load: unknown): LoadProcess {
  if (program.kind === "node") {
    const child = workspace.fork(program.file, load);
    const ended = endOf(child, program.file);
    return {
      ...{ child, ended, isSingleThreaded: true },
      tell: (word) => void child.send(word),
      hear: async () => {
        const [message] = (await Promise.race([once(child, "message"), ended])) as [unknown];
        return message;
      },
    };
  }
  const child = workspace.spawn(program.path, [JSON.stringify(load)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error("the load has no pipes");
  // Its end is told by the process.
  stdin.on("error", () => {});
  const ended = endOf(child, "in Go");
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  return {
    ...{ child, ended, isSingleThreaded: false },
    tell: (word) => void stdin.write(`${word}\n`),
    hear: async () => {
      const { value, done } = await lines.next();
      return done === true ? await ended : (JSON.parse(value) as unknown);
    },
  };
}

function endOf(child: ChildProcess, name: string): Promise<never> {
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`the load ${name} ended by itself with code ${code}`);
  });
  // It ends by being stopped, too, when nobody waits for it any more.
  ended.catch(() => {});
  return ended;
}
