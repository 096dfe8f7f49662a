/** The commands of the pages do what the pages say, one after the other, as they stand. */
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { root } from "../e2e/server-process.ts";
import type { Mark } from "./marks.ts";
import { PageRun } from "./page-run.ts";
import { blocksIn, pages } from "./pages.ts";

/** Those that `PageRun` knows what to do with. */
const scripts: readonly Mark[] = [
  ...(["sh server", "sh background", "sh run"] as const),
  ...(["sh terminal", "text screen", "text output", "json output"] as const),
];

/** What has to be there before a page begins. */
const before: Readonly<Record<string, (t: TestContext, run: PageRun) => void>> = {
  "README.md": (_t, { directory }) => {
    symlinkSync(join(root, "examples"), join(directory, "examples"));
  },
};

/** Pages that go on where another one ends. */
const sequels: Readonly<Record<string, string>> = {
  "docs/guide/operations.md": "docs/guide/deployment.md",
};

for (const page of pages) {
  if (!blocksIn(page).some(({ mark }) => (scripts as string[]).includes(mark))) continue;
  test(`the commands of ${page} work, one after the other`, async (t) => {
    const run = new PageRun(t);
    before[page]?.(t, run);
    const prequel = sequels[page];
    if (prequel !== undefined) await run.run(prequel);
    await run.run(page);
  });
}
