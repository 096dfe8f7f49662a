/**
 * `npm start`: installs and compiles what is missing, then runs the server with the arguments that
 * were given and ends as it ends. Plain JavaScript for Node 18 and later.
 */
import { spawn } from "node:child_process";
import { buildServer, serverMain } from "./build.mjs";
import { childEnvironment, ensureReady, fail } from "./ensure-ready.mjs";

/** Copies of one signal arrive together: from the terminal, and again from npm. */
const sameSignalMs = 500;

const node = ensureReady();
buildServer(node);

const env = childEnvironment({
  // Syncs of the log and reads of the store share this pool; four threads would make them queue.
  UV_THREADPOOL_SIZE: process.env.UV_THREADPOOL_SIZE ?? "8",
  // With an arena for every thread glibc keeps twice the memory of the store's batches.
  MALLOC_ARENA_MAX: process.env.MALLOC_ARENA_MAX ?? "2",
});
// A larger young generation takes 100 MB more and is no faster; measured with `npm run bench`.
const nodeArgs = ["--enable-source-maps", "--max-semi-space-size=8"];

// In a group of its own the server gets a Ctrl-C of the terminal only through this process, once.
const server = spawn(node, [...nodeArgs, serverMain, ...process.argv.slice(2)], {
  stdio: "inherit",
  env,
  detached: process.platform !== "win32",
});

let lastSignalAt = Number.NEGATIVE_INFINITY;

/** The first signal asks the server to finish, a second one makes it stop at once. */
function forward(signal) {
  const now = performance.now();
  if (now - lastSignalAt < sameSignalMs) return;
  lastSignalAt = now;
  server.kill(signal);
}

const onInterrupt = () => forward("SIGINT");
const onTerminate = () => forward("SIGTERM");
process.on("SIGINT", onInterrupt);
process.on("SIGTERM", onTerminate);
process.on("SIGHUP", onTerminate);

server.on("error", (error) => fail(`the server could not be started: ${error.message}`));
server.on("exit", (code, signal) => {
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
