/**
 * The worker of a user beside the server of `dev`. Node runs the program and restarts it when a file that it
 * imports changes: the worker gets SIGTERM, hands its tasks back, and ends before the next one starts.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { statSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";

/** Longer than a worker takes to stop that cannot reach the server. */
const stopMsMax = 20_000;

export class DevWorker {
  /** As the user wrote it. */
  readonly program: string;
  readonly #call: Call;
  #process: ChildProcess | undefined;

  constructor(call: Call, program: string) {
    this.program = program;
    this.#call = call;
    const path = resolve(call.host.directory, program);
    if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) {
      throw usageError(`there is no file ${path}; nothing was started`, "codeq dev worker.ts");
    }
  }

  start({ url, token }: { readonly url: string; readonly token?: string }): void {
    const { host, json } = this.#call;
    const env = {
      ...host.env,
      CODEQ_URL: url,
      ...(token === undefined ? {} : { CODEQ_TOKEN: token }),
      // A restart is not to wait for what runs: the next worker gets it.
      CODEQ_GRACE: host.env["CODEQ_GRACE"] ?? "0s",
    };
    // The executable is no Node, and needs one for programs of users.
    const node = /^node/.test(basename(process.execPath)) ? process.execPath : "node";
    const worker = spawn(node, ["--watch", "--watch-preserve-output", this.program], {
      env,
      cwd: host.directory,
      // With --json, the standard output has nothing but JSON.
      stdio: ["ignore", json ? process.stderr : "inherit", "inherit"],
      // In a group of its own it gets a Ctrl-C of the terminal only through this process, once.
      detached: process.platform !== "win32",
    });
    worker.on("error", (error) => {
      this.#call.note(`the worker cannot be started: ${error.message}; is node in the PATH?`);
    });
    this.#process = worker;
  }

  /** Resolves when the worker has ended. */
  stop(): Promise<void> {
    const worker = this.#process;
    if (worker === undefined || worker.exitCode !== null || worker.signalCode !== null) {
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const cancel = this.#call.host.clock.after(stopMsMax, () => worker.kill("SIGKILL"));
      worker.once("exit", () => {
        cancel();
        resolve();
      });
      worker.kill("SIGTERM");
    });
  }
}
