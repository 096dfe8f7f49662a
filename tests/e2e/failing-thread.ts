/**
 * Loaded into a server and into its threads before anything else: on SIGUSR2 the thread of the shard in
 * CODEQ_TEST_SHARD throws outside of every handler, or its log can no longer be synced, as
 * CODEQ_TEST_FAULT says. With CODEQ_TEST_STARTS=fail the first thread after that does not start either.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { BroadcastChannel, isMainThread, workerData } from "node:worker_threads";

type Callback = (error: Error | null) => void;

const fault = process.env["CODEQ_TEST_FAULT"] ?? "";
const channel = new BroadcastChannel("codeq-test");
channel.unref();

if (isMainThread) {
  const failing = process.env["CODEQ_TEST_STARTS"];
  delete process.env["CODEQ_TEST_STARTS"];
  process.on("SIGUSR2", () => {
    // Threads are given the variables of the moment.
    if (failing !== undefined) process.env["CODEQ_TEST_STARTS"] = failing;
    channel.postMessage("break");
  });
  channel.onmessage = (event) => {
    const { data } = event as { data: string };
    if (data === "not started") delete process.env["CODEQ_TEST_STARTS"];
    if (data === "broken") process.stdout.write("the thread is broken\n");
  };
} else if (String(workerData?.shard?.number) === process.env["CODEQ_TEST_SHARD"]) {
  let isBroken = false;
  if (process.env["CODEQ_TEST_STARTS"] === "fail") {
    channel.postMessage("not started");
    throw new Error("planted");
  }
  if (fault === "fdatasync") failSyncs(() => isBroken);
  channel.onmessage = (event) => {
    if ((event as { data: string }).data !== "break" || isBroken) return;
    isBroken = true;
    channel.postMessage("broken");
    if (fault !== "throw") return;
    setImmediate(() => {
      throw new Error("planted");
    });
  };
}

function failSyncs(isBroken: () => boolean): void {
  const failure = (): Error =>
    Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO" });
  const { fdatasync, fdatasyncSync } = fs;
  Object.assign(fs, {
    fdatasync: (fd: number, done: Callback) =>
      isBroken() ? setImmediate(() => done(failure())) : fdatasync(fd, done),
    fdatasyncSync: (fd: number) => {
      if (isBroken()) throw failure();
      fdatasyncSync(fd);
    },
  });
  syncBuiltinESMExports();
}
