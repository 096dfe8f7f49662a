/**
 * Where a test leaves what explains its failure. The runner of the tests names the folder, removes it when the step
 * passes, and prints its path when the step fails; without the runner nothing is kept.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

export function resultFile(name: string): string | undefined {
  const folder = process.env["CODEQ_TEST_RESULTS"];
  return folder === undefined ? undefined : join(folder, name.replace(/[^\w.-]+/g, "-"));
}

/** Keeps what a server in the process of the tests has logged, if the test failed; in a hook that runs after it. */
export function keepLog(t: TestContext, lines: readonly string[]): void {
  const file = hasPassed(t) ? undefined : resultFile(`${t.name}.log`);
  if (file !== undefined) writeFileSync(file, lines.join(""), { flag: "a" });
}

/** In a hook that runs after the test. The installed types of Node do not have the property yet. */
export function hasPassed(t: TestContext): boolean {
  return (t as TestContext & { readonly passed: boolean }).passed;
}
