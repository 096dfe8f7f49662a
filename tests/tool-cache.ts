/** Where programs for the tests are kept that had to be built or fetched: outside of the checkout. */
import { homedir } from "node:os";
import { join } from "node:path";

export const toolCache: string = join(
  process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"),
  "codeq-tests",
);
