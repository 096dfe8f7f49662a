/** The soak of the client in short: `npm run soak-client` is the long form. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import test from "node:test";
import { Child } from "../e2e/server-process.ts";

const seconds = "8";

test("nothing is lost or doubled while the server is killed, paused and badly connected", async (t) => {
  const file = join(import.meta.dirname, "soak.ts");
  const child = new Child(
    spawn(process.execPath, ["--conditions=source", file, "--seconds", seconds], {
      stdio: ["ignore", "pipe", "pipe"],
    }),
  );
  t.after(() => child.kill());
  const { code, stdout, stderr } = await child.exited;
  t.diagnostic(stdout);
  assert.equal(code, 0, `${stdout}${stderr}`);
});
