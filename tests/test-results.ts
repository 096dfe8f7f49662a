/**
 * Where a test leaves what explains its failure. The runner of the tests names the folder, removes it when the step
 * passes, and prints its path when the step fails; without the runner nothing is kept.
 */
import { join } from "node:path";
import type { TestContext } from "node:test";

export function resultFile(name: string): string | undefined {
  const folder = process.env["CODEQ_TEST_RESULTS"];
  return folder === undefined ? undefined : join(folder, name.replace(/[^\w.-]+/g, "-"));
}

/** In a hook that runs after the test. The installed types of Node do not have the property yet. */
export function hasPassed(t: TestContext): boolean {
  return (t as TestContext & { readonly passed: boolean }).passed;
}
