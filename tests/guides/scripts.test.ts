/** The commands of the pages do what the pages say, one after the other, as they stand. */
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { goCaches, noGo } from "../clients/go-tools.ts";
import { pythonClientTools } from "../clients/python-tools.ts";
import { root } from "../e2e/server-process.ts";
import { noPostgres, PostgresServer } from "../outbox/postgres-server.ts";
import type { Mark } from "./marks.ts";
import { PageRun } from "./page-run.ts";
import { blocksIn, pages } from "./pages.ts";
import { startRedisFor } from "./redis.ts";

/** Those that `PageRun` knows what to do with. */
const scripts: readonly Mark[] = [
  ...(["sh server", "sh background", "sh run"] as const),
  ...(["sh terminal", "text screen", "text output", "json output"] as const),
];

/** What has to be there before a page begins; false, with the reason told, where it cannot be. */
const before: Readonly<Record<string, (t: TestContext, run: PageRun) => Promise<boolean>>> = {
  "docs/guide/enqueue-in-your-transaction.md": async (t, { env }) => {
    if (noPostgres !== false) {
      t.skip(noPostgres);
      return false;
    }
    const postgres = await PostgresServer.open();
    t.after(() => postgres.dispose());
    env["DATABASE_URL"] = postgres.database.url;
    return true;
  },
  "docs/guide/http-api.md": async (_t, { directory }) => {
    symlinkSync(join(root, "examples"), join(directory, "examples"));
    return true;
  },
  "docs/guide/go.md": async (t, { directory, env }) => {
    if (noGo !== false) {
      t.skip(noGo);
      return false;
    }
    symlinkSync(root, join(directory, "codeq"));
    Object.assign(env, goCaches());
    return true;
  },
  "docs/guide/python.md": async (t, { env }) => {
    const tools = await pythonClientTools();
    if ("path" in tools) env["GUIDE_PYTHON"] = tools.path;
    else t.skip(tools.missing);
    return "path" in tools;
  },
  "docs/guide/migration-from-bullmq.md": async (t, { env }) => {
    const redis = await startRedisFor(t);
    if (redis === undefined) return false;
    t.after(() => redis[Symbol.asyncDispose]());
    env["REDIS_URL"] = redis.url;
    return true;
  },
};

/** Pages that go on where another one ends, by that one. */
const sequels: Readonly<Record<string, string>> = {
  "docs/guide/deployment.md": "docs/guide/operations.md",
};

for (const page of pages) {
  const isScript = blocksIn(page).some(({ mark }) => (scripts as string[]).includes(mark));
  if (!isScript || Object.values(sequels).includes(page)) continue;
  const parts = [page, sequels[page] ?? []].flat();
  test(`the commands of ${parts.join(" and ")} work, one after the other`, async (t) => {
    const run = new PageRun(t);
    if ((await before[page]?.(t, run)) === false) return;
    for (const part of parts) await run.run(part);
  });
}
