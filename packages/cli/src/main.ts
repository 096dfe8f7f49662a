/** The process around a command: its streams, environment and signals, and its exit code. */
import { randomBytes } from "node:crypto";
import { homedir } from "node:os";
import type { ReadStream, WriteStream } from "node:tty";
import { systemClock } from "@codeq/server/command-line";
import { runCli } from "./cli.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Host, Input, Output } from "./host.ts";

function outputOf(stream: WriteStream): Output {
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      return stream.columns || 80;
    },
    get rows() {
      return stream.rows || 24;
    },
    write: (text) => void stream.write(text),
    onResize: (run) => {
      stream.on("resize", run);
      return () => void stream.off("resize", run);
    },
  };
}

function inputOf(stream: ReadStream): Input {
  return {
    isTerminal: stream.isTTY === true,
    async *text() {
      stream.setEncoding("utf8");
      for await (const piece of stream) yield piece as string;
    },
    onKey: (run) => {
      if (stream.isTTY !== true) return () => {};
      const onData = (text: string): void => run(text);
      stream.setRawMode(true);
      stream.setEncoding("utf8").on("data", onData).resume();
      return () => {
        stream.setRawMode(false);
        stream.off("data", onData).pause();
      };
    },
  };
}

function stopSignal(): () => AbortSignal {
  let controller: AbortController | undefined;
  return () => {
    if (controller === undefined) {
      const armed = new AbortController();
      controller = armed;
      for (const signal of ["SIGINT", "SIGTERM"] as const) {
        process.on(signal, () => {
          if (armed.signal.aborted) process.exit(exitCodes.interrupted.code);
          armed.abort();
        });
      }
    }
    return controller.signal;
  };
}

/** The program as the user typed it; npm sets a variable when it was npx. */
function programName(env: Host["env"]): string {
  return env["npm_command"] === "exec" ? "npx codeq" : "codeq";
}

const { env } = process;
const host: Host = {
  env,
  directory: process.cwd(),
  home: homedir(),
  clock: systemClock,
  output: outputOf(process.stdout),
  errors: outputOf(process.stderr),
  input: inputOf(process.stdin),
  program: programName(env),
  stopped: stopSignal(),
  random: randomBytes,
};

// The reader of the output has closed it, as `| head` does, so there is no place to report this.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(exitCodes.ok.code);
  process.stderr.write(`error: the output cannot be written: ${error.message}\n`);
  process.exit(exitCodes.failed.code);
});

process.exitCode = await runCli(process.argv.slice(2), host);
