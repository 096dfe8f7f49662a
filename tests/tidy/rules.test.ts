import assert from "node:assert/strict";
import { test } from "node:test";
import { echoingComments } from "./echoing-comments.ts";
import { plainWords } from "./plain-words.ts";
import {
  fileName,
  folderOrder,
  homes,
  machineTraces,
  mustNotKnow,
  packageBorder,
  packedLayout,
  sleeping,
  testSelection,
  unfinished,
  wireFields,
} from "./rules.ts";
import { codeOf, type Rule, stringsOf } from "./source-file.ts";

function offends(rule: Rule, path: string, text: string): void {
  assert.notEqual(rule({ path, text }).length, 0, `expected an offence: ${path}: ${text}`);
}

function passes(rule: Rule, path: string, text: string): void {
  assert.deepEqual(rule({ path, text }), [], `${path}: ${text}`);
}

const server = "packages/server/src";

test("fileName: words without content are refused in files and folders", () => {
  for (const path of [
    `${server}/utils.ts`,
    `${server}/broker/lease-manager.ts`,
    `${server}/lib/x.ts`,
    `${server}/task-service.test.ts`,
    `${server}/common/x.ts`,
    `${server}/misc.mjs`,
    `${server}/types.ts`,
    `${server}/store/interfaces.ts`,
    "tests/helpers/x.ts",
  ]) {
    offends(fileName, path, "");
  }
  for (const path of [`${server}/library.ts`, `${server}/task-types.ts`, "docs/common.md"]) {
    passes(fileName, path, "");
  }
});

test("folderOrder: a folder imports only what stands to its right", () => {
  const cases: [path: string, specifier: string, allowed: boolean][] = [
    ["index.ts", "./start/compose.ts", true],
    ["start/compose.ts", "../edge/http/http-server.ts", true],
    ["start/compose.ts", "../index.ts", false],
    ["start/main.ts", "./compose.ts", true],
    ["features/jobs/operations.ts", "../../edge/bind.ts", true],
    ["features/jobs/operations.ts", "../../edge/http/route.ts", true],
    ["features/jobs/operations.ts", "../../core/broker/verbs.ts", true],
    ["features/jobs/operations.ts", "./bulk-jobs.ts", true],
    ["features/jobs/operations.ts", "../topics/operations.ts", false],
    ["features/task-admin/edit-task.ts", "../tasks/create-task.ts", true],
    ["features/jobs/operations.ts", "../../start/features.ts", false],
    ["edge/dispatch.ts", "../features/jobs/operations.ts", false],
    ["edge/http/calls.ts", "../dispatch.ts", true],
    ["edge/dispatch.ts", "./http/calls.ts", false],
    ["edge/access/tenant.ts", "../dispatch.ts", true],
    ["core/sweeps/ticker.ts", "../broker/shard-broker.ts", true],
    ["core/sweeps/ticker.ts", "../../edge/dispatch.ts", false],
    ["core/broker/shard-broker.ts", "../store/keys.ts", true],
    ["core/broker/shard-broker.ts", "../../features/jobs/operations.ts", false],
    ["core/broker/shard-broker.ts", "../../start/compose.ts", false],
    ["core/store/keys.ts", "../broker/shard-broker.ts", false],
    ["core/store/keys.ts", "../../telemetry/metrics.ts", true],
    ["core/store/keys.ts", "../clock.ts", true],
    ["telemetry/metrics.ts", "../core/store/keys.ts", false],
    ["telemetry/metrics.ts", "../core/clock.ts", true],
    ["core/clock.ts", "../config/settings.ts", false],
  ];
  for (const [path, specifier, allowed] of cases) {
    const check = allowed ? passes : offends;
    check(folderOrder, `${server}/${path}`, `import { x } from "${specifier}";`);
    check(folderOrder, `${server}/${path}`, `import type { X } from "${specifier}";`);
    check(folderOrder, `${server}/${path}`, `const x = await import("${specifier}");`);
    check(folderOrder, `${server}/${path}`, `import "${specifier}";`);
    check(folderOrder, `${server}/${path}`, `export * from "${specifier}";`);
  }
  passes(
    folderOrder,
    `${server}/core/store/keys.test.ts`,
    'import { x } from "../broker/shard-broker.ts";',
  );
});

test("packageBorder: another package is imported by name", () => {
  const path = `${server}/store/keys.ts`;
  offends(packageBorder, path, 'import { x } from "../../../engine/src/engine.ts";');
  passes(packageBorder, path, 'import { x } from "@codeq/engine";\nimport "../clock.ts";');
  passes(packageBorder, `${server}/x.test.ts`, 'import "../../simulated/src/sim-disk.ts";');
  passes(packageBorder, "tests/e2e/a.test.ts", 'import "../../packages/server/src/start/main.ts";');
});

test("mustNotKnow: keys, records and the engine stay inside the store", () => {
  const cases: [path: string, line: string, allowed: boolean][] = [
    ["core/broker/shard-broker.ts", 'import { put } from "@codeq/engine";', false],
    ["core/broker/shard-broker.ts", 'import type { Engine } from "@codeq/engine";', false],
    [
      "core/broker/shard-broker.ts",
      'import { type CommitWaiter, FaultError } from "@codeq/engine";',
      true,
    ],
    ["core/store/store.ts", 'import { Engine, put } from "@codeq/engine";', true],
    ["features/jobs/job-record.ts", 'import { put } from "@codeq/engine";', true],
    ["features/jobs/operations.ts", 'import { put } from "@codeq/engine";', false],
    ["start/open-data-dir.ts", 'import { LevelKv } from "@codeq/engine";', true],
    ["features/queues/clean-up.ts", 'import { endOf } from "../../core/store/keys.ts";', false],
    ["features/queues/clean-up.ts", 'import type { A } from "../../core/store/store.ts";', true],
    ["core/sweeps/ticker.ts", 'import { readTask } from "../store/task-codec.ts";', false],
    [
      "edge/grpc/stream-call.ts",
      'import { Broker } from "../../core/broker/shard-broker.ts";',
      false,
    ],
    ["edge/grpc/stream-call.ts", 'import type { Waiter } from "../../core/broker/verbs.ts";', true],
    [
      "features/queues/clean-up.ts",
      'import { B } from "../../core/broker/shard-broker.ts";',
      false,
    ],
    ["features/queues/clean-up.ts", 'import { Router } from "../../core/shards/router.ts";', false],
    ["core/shards/wire.ts", 'import { readTask } from "../store/task-codec.ts";', true],
    ["core/shards/router.ts", 'import { readTask } from "../store/task-codec.ts";', false],
    ["features/jobs/operations.ts", 'import fastify from "fastify";', false],
    ["features/tasks/streams/acks.ts", 'import { a } from "@codeq/protocol/wire";', true],
    ["core/broker/claims.ts", 'import { a } from "@codeq/protocol/wire";', false],
    ["core/broker/claims.ts", 'import type { I } from "../../edge/access/identity.ts";', false],
    ["edge/access/tenant.ts", 'import type { B } from "../../core/broker/shard-broker.ts";', false],
  ];
  for (const [path, line, allowed] of cases) {
    (allowed ? passes : offends)(mustNotKnow, `${server}/${path}`, line);
  }
  passes(mustNotKnow, `${server}/core/broker/x.test.ts`, 'import { put } from "@codeq/engine";');
});

const wallClock = ["Date", "now()"].join(".");
const emptyDate = `new ${"Date"}()`;
const random = ["Math", "random()"].join(".");
const uuid = ["random", "UUID"].join("");
const timer = ["set", "Timeout"].join("");
const environment = ["process", "env"].join(".");

test("homes: clock, chance, ids, timers and environment stay in their one place", () => {
  const broker = `${server}/broker/broker.ts`;
  for (const snippet of [
    wallClock,
    emptyDate,
    `f(${emptyDate}.getTime())`,
    random,
    `crypto.${uuid}()`,
    `import { ${uuid} } from "node:crypto";`,
    `${timer}(f, 1)`,
    `${["set", "Interval"].join("")}(f, 1)`,
    `const x = ${environment}.PORT;`,
    `const x = \`port \${${environment}.PORT}\`;`,
  ]) {
    offends(homes, broker, `const a = 1;\n${snippet}`);
  }
  passes(
    homes,
    broker,
    `// not ${wallClock}\nconst text = "${random}"; new Date(atMs); clock.now();`,
  );
  passes(homes, `${server}/core/clock.ts`, `${wallClock}; ${timer}(f, 1);`);
  passes(homes, `${server}/edge/http/http-server.ts`, `${timer}(f, 1);`);
  offends(homes, `${server}/edge/http/http-server.ts`, wallClock);
  passes(homes, `${server}/config/load.ts`, environment);
  offends(homes, `${server}/start/main.ts`, environment);
  passes(homes, "packages/cli/src/main.ts", environment);
  offends(homes, "packages/cli/src/call.ts", environment);
  offends(homes, "packages/queue/src/backoff.test.ts", random);
  offends(homes, "tests/simulation/run.ts", wallClock);
  passes(homes, "tests/bench/run.ts", wallClock);
});

test("wireFields: fields of the API are declared in the protocol only", () => {
  const page = "packages/console/src/pages/topics.tsx";
  offends(wireFields, page, "const load = (): Promise<Page> => ask({ path, query });");
  offends(wireFields, page, "const page = await ask<Page>({\n  method,\n  path });");
  passes(wireFields, page, "const load = () => ask(callOf(key, { query: { limit: 200 } }));");
  const command = "packages/cli/src/commands/queues/topics.ts";
  offends(wireFields, command, "const { version } = JSON.parse(text) as TopicFields;");
  offends(wireFields, command, "const { text } = await api.get(path);");
  offends(wireFields, command, "const page = (await reply.json()) as Page;");
  offends(wireFields, command, "return (await call(api, key, { body })) as BulkJob;");
  offends(wireFields, "packages/nest/src/inject.ts", "const { id } = JSON.parse(text) as Row;");
  passes(wireFields, command, 'const text = "api.get(path)";');
  passes(wireFields, "packages/cli/src/local/read-log-lines.ts", "JSON.parse(text) as Line;");
  offends(wireFields, `${server}/edge/http/topic-routes.ts`, "({ properties: {} })");
});

test("packedLayout: a property has a line of its own", () => {
  offends(packedLayout, `${server}/core/store/store.ts`, "const all = {\n  ...{ one, two },\n};");
  passes(packedLayout, `${server}/core/store/store.ts`, "const all = { ...one, two };");
  passes(
    packedLayout,
    `${server}/core/store/store.test.ts`,
    "const all = {\n  ...{ one, two },\n};",
  );
});

test("homes: the message names the line", () => {
  const text = `a;\nb;\n${wallClock};`;
  assert.match(homes({ path: `${server}/broker/broker.ts`, text })[0] ?? "", /^line 3 reads/);
});

test("sleeping: a test waits for events, not for time", () => {
  const path = "tests/e2e/http.test.ts";
  for (const snippet of [
    `await ${timer}(100);`,
    "await sleep(100);",
    "await delay(5);",
    `await new Promise((resolve) => ${timer}(resolve, 10));`,
    `await new Promise((r) => { ${timer}(r, 10); });`,
    `import { ${timer} as wait } from "node:timers/${"promises"}";`,
  ]) {
    offends(sleeping, path, snippet);
  }
  passes(sleeping, path, `const guard = ${timer}(() => child.kill(), 5000);\n// await sleep(1)`);
  passes(sleeping, "tests/bench/run.ts", "await sleep(100);");
  passes(sleeping, "tests/chaos/run.ts", "await sleep(100);");
});

test("testSelection: no test is singled out, and a skipped one says why", () => {
  const path = `${server}/x.test.ts`;
  offends(testSelection, path, `test.${"only"}("x", f);`);
  offends(testSelection, path, `test("x", { ${"only"}: true }, f);`);
  offends(testSelection, path, `test.${"skip"}("x", f);`);
  offends(testSelection, path, `it.${"todo"}("x");`);
  passes(
    testSelection,
    path,
    `// Needs a file system that can lose power.\ntest.${"skip"}("x", f);`,
  );
  passes(testSelection, path, 'test("read-only(1) files", f);');
});

test("unfinished: work left over has an issue, and nothing known to be broken lands", () => {
  offends(unfinished, "a.ts", `// TO${"DO"} later`);
  offends(unfinished, "a.ts", `// TO${"DO"}: later`);
  offends(unfinished, "scripts/a.mjs", `// FIX${"ME"}(12): this`);
  passes(unfinished, "a.ts", `// TO${"DO"}(12): this`);
});

test("machineTraces: nothing names the machine it was written on", () => {
  for (const parts of [
    ["/ho", "me/ann/x"],
    ["see /ro", "ot/x"],
    ['"/Use', "rs/ann"],
    ["/wo", "rk/main/x"],
    ["file:///ro", "ot"],
    ["C:\\Use", "rs\\ann"],
    ["https://regi", "stry.npm", "js.org/x"],
    ["regi", "stry.npm", "js.org"],
    ["http://n", "pm.internal/x"],
    ["https://eu-n", "pm.pkg", ".dev/x"],
  ]) {
    offends(machineTraces, "package-lock.json", parts.join(""));
  }
  for (const text of [
    "packages/server/src/work/x",
    "https://github.com/x/y",
    "GET /tasks/home/x",
    "metrics-registry.ts",
    "/tmp/x /srv/q /var/lib/codeq",
    ["~/wo", "rk/x"].join(""),
  ]) {
    passes(machineTraces, "docs/x.md", text);
  }
});

test("plainWords: pages, strings, and comments of the libraries have no phrase of the list", () => {
  offends(plainWords, "docs/guide/worker.md", "concurrency (10 unless told)");
  offends(plainWords, "README.md", "kept For Ever");
  offends(plainWords, "packages/cli/src/a.ts", 'about: "Requests at a time; 1 unless told."');
  offends(
    plainWords,
    "packages/server/src/start/cluster/a.ts",
    "logger.warn(`asks whoever listens`)",
  );
  offends(plainWords, "packages/client/src/a.ts", "/** 10 unless told. */");
  passes(plainWords, "packages/server/src/start/cluster/a.ts", "const whoever = 1;");
  offends(plainWords, "packages/server/src/cluster/a.ts", "// Opens a conversation.");
  passes(plainWords, "packages/cli/src/a.test.ts", 'test("10 unless told", f);');
  offends(plainWords, "packages/engine/src/a.ts", "// Nobody is told.");
  offends(plainWords, "packages/server/src/core/store/a.ts", "/** Opened anew. */");
  passes(plainWords, "packages/engine/src/a.ts", 'const nobody = "told"; // Read again.');
  passes(plainWords, "packages/engine/src/a.test.ts", "// Nobody is told.");
  passes(plainWords, "docs/adr/0001-x.md", "kept for ever");
  passes(plainWords, "docs/guide/worker.md", "for goods, for every task (default: 10)");
});

test("stringsOf: keeps strings and lines, and blanks comments and code", () => {
  const strings = stringsOf('a("x"); // "b"\nc(`d`, \'e\');');
  assert.deepEqual(
    strings.split("\n").map((line) => line.replace(/\s+/g, " ").trim()),
    ['"x"', "`d` 'e'"],
  );
});

test("codeOf: blanks comments, strings and patterns, and keeps code and lines", () => {
  const slot = ["$", "{g}"].join("");
  const text = `a("x//y"); // b\n/* c\n */ d(/"e/g, \`f ${slot} h\`); i = 1 / j / k;`;
  const code = codeOf(text);
  assert.equal(code.length, text.length);
  assert.equal(code.split("\n").length, 3);
  assert.equal(code.replace(/\s+/g, " "), `a( ); d( , ${slot} ); i = 1 / j / k;`);
});

test("echoingComments: a comment has words that the next line of code does not have", () => {
  const path = `${server}/broker/broker.ts`;
  for (const text of [
    "  // Close all connections.\n  server.closeAllConnections();",
    "  // The queue is closed.\n  this.#queue.close();",
  ]) {
    offends(echoingComments, path, text);
  }
  for (const text of [
    "  // A slow reader would hold up the end.\n  server.closeAllConnections();",
    "  // Close all connections,\n  // since a slow reader would hold up the end.\n  server.closeAllConnections();",
    "  // Closed.\n  this.close();",
  ]) {
    passes(echoingComments, path, text);
  }
  passes(echoingComments, "docs/x.md", "// close it\nclose()");
});
