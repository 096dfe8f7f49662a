import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "@codeq/simulated";
import { createLogger, type Logger, type LoggerOptions, SpacedWarnings } from "./logger.ts";

function setup(options: Partial<LoggerOptions> = {}): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  const logger = createLogger({
    level: "debug",
    format: "json",
    write: (line) => void lines.push(line),
    nowMs: () => 1_700_000_000_000,
    ...options,
  });
  return { logger, lines };
}

test("a JSON line has time, level, message and fields, and ends with one newline", () => {
  const { logger, lines } = setup();
  logger.info("started", { port: 8080, shards: [1, 2] });
  assert.deepEqual(lines, [
    '{"time":"2023-11-14T22:13:20.000Z","level":"info","msg":"started","port":8080,"shards":[1,2]}\n',
  ]);
});

test("a text line quotes what would be ambiguous and stays one line", () => {
  const { logger, lines } = setup({ format: "text" });
  logger.warn("slow", { route: "/v1/x", note: "a b\nc", "odd name": true });
  logger.error("two\nlines");
  assert.deepEqual(lines, [
    '2023-11-14T22:13:20.000Z WARN  slow route=/v1/x note="a b\\nc" "odd name"=true\n',
    '2023-11-14T22:13:20.000Z ERROR "two\\nlines"\n',
  ]);
});

test("lines below the level are not written", () => {
  const { logger, lines } = setup({ level: "warn" });
  logger.debug("a");
  logger.info("b");
  logger.warn("c");
  logger.error("d");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).msg),
    ["c", "d"],
  );
});

test("a child adds its fields to every line, nested children add more, the call wins", () => {
  const { logger, lines } = setup();
  const child = logger.child({ component: "flusher", shard: 1 }).child({ shard: 2 });
  child.info("a", { component: "other" });
  logger.info("b");
  const [first, second] = lines.map((line) => JSON.parse(line));
  assert.deepEqual([first.component, first.shard], ["other", 2]);
  assert.equal(second.shard, undefined);
});

test("credentials are redacted by name, at any depth, in errors and in children", () => {
  const { logger, lines } = setup();
  const error = Object.assign(new Error("refused"), { token: "hush", code: "E_X" });
  logger.child({ webhookHmacSecret: "hush" }).info("x", {
    token: "hush",
    Authorization: "Bearer hush",
    PASSWORD: "hush",
    headers: { authorization: "hush", list: [{ secret: "hush", accessToken: "hush" }] },
    map: new Map([["password", "hush"]]),
    err: error,
    leaseToken: 7,
    tokens: 3,
  });
  assert.doesNotMatch(lines.join(""), /hush/);
  const line = JSON.parse(lines[0]!);
  assert.equal(line.token, "[redacted]");
  assert.equal(line.leaseToken, 7);
  assert.equal(line.tokens, 3);
  assert.equal(line.err.code, "E_X");
});

test("errors keep name, message, stack and cause", () => {
  const { logger, lines } = setup();
  logger.error("failed", { err: new TypeError("outer", { cause: new Error("inner") }) });
  const { err } = JSON.parse(lines[0]!);
  assert.deepEqual([err.name, err.message, err.cause.message], ["TypeError", "outer", "inner"]);
  assert.match(err.stack, /logger.test/);
});

test("fields cannot replace time, level or message", () => {
  const { logger, lines } = setup();
  logger.info("real", { msg: "forged", level: "error" });
  const line = JSON.parse(lines[0]!);
  assert.deepEqual(
    [line.msg, line.level, line._msg, line._level],
    ["real", "info", "forged", "error"],
  );
});

test("nothing that is passed in makes a call throw or lose its line", () => {
  const { logger, lines } = setup();
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  const trap = {
    get boom(): never {
      throw new Error("getter");
    },
  };
  const odd = [
    cycle,
    10n,
    Symbol("s"),
    () => {},
    Number.NaN,
    new Date(Number.NaN),
    Buffer.alloc(3),
  ];
  for (const value of odd) logger.info("odd", { value });
  logger.info("odd", trap);
  logger.child(trap).info("odd");
  logger.info("long", { text: "x".repeat(100_000), list: Array(1000).fill(1) });
  assert.equal(lines.length, odd.length + 3);
  for (const line of lines) {
    assert.ok(line.length < 20_000);
    JSON.parse(line);
  }
});

test("a broken writer or clock does not reach the caller", () => {
  setup({
    write: () => {
      throw new Error("EPIPE");
    },
  }).logger.info("x");
  const { logger, lines } = setup({ nowMs: () => Number.NaN });
  logger.info("x", { token: "hush" });
  assert.deepEqual(JSON.parse(lines[0]!), { level: "info", msg: "x", unreadableFields: true });
});

test("the same warning is written once in 10 seconds, with how many were left out", async () => {
  const lines: string[] = [];
  const clock = new SimClock();
  const write = (line: string) => void lines.push(line.slice(line.indexOf("WARN")));
  const logger = createLogger({ level: "warn", format: "text", write, nowMs: () => 0 });
  const warnings = new SpacedWarnings(logger, clock);
  for (let n = 0; n < 1000; n += 1) warnings.warn("slow", { n });
  warnings.warn("other", {});
  await clock.advance(9999);
  warnings.warn("slow", { n: 1 });
  await clock.advance(1);
  warnings.warn("slow", { n: 2 });
  await clock.advance(10_000);
  warnings.warn("slow", { n: 3 });
  const expected = ["slow n=0", "other", "slow n=2 leftOut=1000", "slow n=3"];
  assert.deepEqual(
    lines,
    expected.map((text) => `WARN  ${text}\n`),
  );
});
