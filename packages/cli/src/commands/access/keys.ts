/**
 * `keys`: API keys in the data directory of a stopped server. It needs access to the files and no token, so
 * it creates the first key, or a new one when all keys are lost.
 */
import { launchServer, standInFor } from "@codeq/server/command-line";
import type { Call } from "../../call.ts";

/** The one option that the server takes in another form. */
const expiresIn = "expires-in";

async function run(call: Call): Promise<number> {
  const { row, options } = call;
  const [, verb = ""] = row.name.split(" ");
  const flags = (row.options ?? []).flatMap(({ name }) => {
    if (!options.has(name)) return [];
    if (name !== expiresIn) return [`--${name}=${options.text(name) ?? ""}`];
    return [`--expires-in-seconds=${Math.ceil((options.durationMs(name) ?? 0) / 1000)}`];
  });
  const id = row.arguments === undefined ? [] : [call.word(0)];
  const args = ["keys", verb, ...id, ...flags, ...call.serverArgs];
  const { env } = call.host;
  return standInFor(() => launchServer({ args, env, stdio: "inherit" }), env);
}

export { run as create, run as list, run as revoke };
