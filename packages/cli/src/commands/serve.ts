/** `serve`: runs the server with all its settings, until it is stopped. */
import { launchServer, standInFor } from "@codeq/server/command-line";
import type { Call } from "../call.ts";
import { readLogLines } from "../local/read-log-lines.ts";

export async function run(call: Call): Promise<number> {
  const { env } = call.host;
  const args = call.serverArgs;
  return standInFor(() => {
    if (!call.json) return launchServer({ args, env, stdio: "inherit" });
    const server = launchServer({ args, env, stdio: ["ignore", "pipe", "inherit"] });
    if (server.stdout !== null) readLogLines(server.stdout, ({ text }) => call.print(text));
    return server;
  }, env);
}
