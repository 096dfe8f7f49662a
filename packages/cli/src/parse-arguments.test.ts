import assert from "node:assert/strict";
import { test } from "node:test";
import { CliError } from "./cli-error.ts";
import { commandTable } from "./command-table.ts";
import { type ParsedCommand, parseArguments } from "./parse-arguments.ts";

function parse(...argv: string[]): ReturnType<typeof parseArguments> {
  return parseArguments(argv, commandTable);
}

function command(...argv: string[]): ParsedCommand {
  const parsed = parse(...argv);
  assert.equal(parsed.kind, "command");
  return parsed as ParsedCommand;
}

function refusal(...argv: string[]): CliError {
  try {
    parse(...argv);
  } catch (error) {
    assert.ok(error instanceof CliError);
    assert.equal(error.exit, "usage");
    return error;
  }
  return assert.fail(`accepted: ${argv.join(" ")}`);
}

test("options stand before and behind the command, with a space or an equals sign", () => {
  for (const argv of [
    ["--base-url", "http://x", "enqueue", "hello", "{}", "--priority", "3"],
    ["enqueue", "--priority=3", "hello", "--base-url=http://x", "{}"],
  ]) {
    const { row, options, words } = command(...argv);
    assert.equal(row.name, "enqueue");
    assert.deepEqual(words, ["hello", "{}"]);
    assert.equal(options.text("base-url"), "http://x");
    assert.equal(options.wholeNumber("priority", { min: 0, max: 9 }), 3);
  }
});

test("the value of an option is not taken for the command", () => {
  assert.equal(command("--profile", "get", "task", "get", "id-1").row.name, "task get");
});

test("what stands behind -- is the program of work, and otherwise just no option", () => {
  const work = command("work", "hello", "--max", "1", "--", "sh", "-c", "--json", "x");
  assert.deepEqual(work.words, ["hello"]);
  assert.deepEqual(work.behind, ["sh", "-c", "--json", "x"]);
  assert.equal(work.options.has("json"), false);
  const enqueue = command("enqueue", "hello", "--", "-5");
  assert.deepEqual(enqueue.words, ["hello", "-5"]);
});

test("a dash alone is an argument", () => {
  assert.deepEqual(command("enqueue", "hello", "-").words, ["hello", "-"]);
});

test("flags of the server are passed on as they are, and own ones are not", () => {
  const argv = [
    "dev",
    "--port",
    "9000",
    "--fresh",
    "--allow-producer-as-worker",
    "--host=::1",
    "-y",
  ];
  const { serverArgs, options } = command(...argv);
  assert.deepEqual(serverArgs, ["--port", "9000", "--allow-producer-as-worker", "--host=::1"]);
  assert.ok(options.has("fresh") && options.has("yes"));
});

test("a switch may be given as in the Go command line", () => {
  assert.equal(command("queues", "--admin=true").options.has("admin"), true);
  assert.equal(command("queues", "--admin=false").options.has("admin"), false);
  assert.equal(command("queues").options.text("admin"), undefined);
  assert.match(refusal("queues", "--watch=3").message, /--watch takes no value/);
});

test("a mistake names what was probably meant", () => {
  assert.match(refusal("enqeue").message, /no command "enqeue"; did you mean enqueue\?/);
  assert.match(refusal("get", "x", "--jsn").message, /no option --jsn; did you mean --json\?/);
  assert.match(
    refusal("task", "crate").message,
    /codeq task has no command "crate"; it has create, get/,
  );
  assert.match(refusal("--verbose").message, /no option --verbose/);
});

test("missing and superfluous words are told with the usage", () => {
  const missing = refusal("get");
  assert.match(missing.message, /<id> is missing/);
  assert.match(missing.next ?? "", /usage: codeq get <id> \[options\]/);
  assert.match(refusal("get", "a", "b").message, /"b" is an unexpected argument/);
  assert.match(refusal("enqueue", "x", "--priority").message, /--priority needs a value/);
  assert.match(refusal("enqueue", "x", "--key", "a", "--key", "b").message, /given twice/);
});

test("commands of the Go command line without a place here say what to do instead", () => {
  assert.match(refusal("auth", "login", "--email", "a@b").next ?? "", /codeq auth set/);
  assert.match(refusal("install", "--target", "docker").next ?? "", /codeq serve/);
  assert.match(refusal("migrate-shards").message, /no shards/);
});

test("help is for everything, a family or one command", () => {
  assert.deepEqual(parse(), { kind: "help", about: undefined, asked: true });
  assert.deepEqual(parse("--help"), { kind: "help", about: undefined, asked: true });
  assert.deepEqual(parse("task"), { kind: "help", about: "task", asked: false });
  assert.deepEqual(parse("task", "-h"), { kind: "help", about: "task", asked: true });
  const one = parse("enqueue", "--help");
  assert.equal(one.kind === "help" && typeof one.about === "object" && one.about.name, "enqueue");
  assert.deepEqual(parse("--version"), { kind: "version" });
});
