/**
 * `node tests/run-together.ts <pattern>...` runs test files in this one process, for those whose servers run in
 * the process of the tests: what they share is loaded and compiled once.
 */
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { trackNoPromises } from "./untracked-promises.ts";

/** A test that takes longer hangs; without a limit nobody would learn which one. */
const timeout = 900_000;

trackNoPromises();
const uncaught: string[] = [];
const seed = process.env["CODEQ_TEST_SEED"];
// The installed types of Node do not have the order yet.
const order = seed === undefined ? {} : { randomize: true, randomSeed: Number(seed) };
run({ globPatterns: process.argv.slice(2), isolation: "none", timeout, ...order })
  .on("test:fail", () => {
    process.exitCode = 1;
  })
  .on("test:diagnostic", ({ message }) => {
    if (message.includes("caught by the test runner")) uncaught.push(message);
  })
  .compose(spec)
  .on("end", () => {
    if (uncaught.length === 0) return;
    process.exitCode = 1;
    console.log(`\n✖ failing tests:\n\n${uncaught.join("\n")}`);
    console.log("To learn which test it was, run the files one by one: npm test -- <file>");
  })
  .pipe(process.stdout);
