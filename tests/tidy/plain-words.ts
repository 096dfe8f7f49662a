/**
 * Phrases that a reader has to guess at, and what to write instead. The rule looks at every page for users,
 * at the strings of all packages, and at the comments of the packages that applications and other packages
 * import. STYLE.md has the rule with examples.
 */
import { isTest, isTypeScript, linesWith, type Rule, stringsOf } from "./source-file.ts";

const phrases: readonly [phrase: RegExp, instead: string][] = [
  [/\bunless told\b/i, '"default: 10"'],
  [/\bwhat is known\b/i, "the name of the thing"],
  [/\bwhat (?:is to )?bec(?:ame|omes?) of\b/i, '"the result of"'],
  [/\bsays? otherwise\b/i, "the name of the setting"],
  [/\bwhoever\b/i, '"anyone who", or the name of the reader'],
  [/\bfor good\b/i, '"permanently", or "without a retry"'],
  [/\bfor ever\b/i, '"forever"'],
  [/\ball the same\b/i, '"still"'],
  [/\bin vain\b/i, '"without success"'],
  [/\bwith commas\b/i, '"separated by commas"'],
  [/\bdead-lettered\b/i, '"dead letter"'],
  [/\btried again\b/i, '"retried"'],
  [/\bthe server of production\b/i, '"the same server that you run in production"'],
  [/\bis everything well\b/i, "a statement"],
];

/** Pages that users read; STYLE.md quotes the phrases, and records and the changelog are history. */
const page =
  /^(?:README\.md|docs\/(?:guide|reference)\/.*\.md|(?:packages|examples)\/[^/]+\/README\.md)$/;
const commentedPackages = /^packages\/(?:client|protocol|queue)\/src\//;
const packages = /^packages\/[^/]+\/src\//;

export const plainWords: Rule = ({ path, text }) => {
  const read = readerText(path, text);
  return phrases.flatMap(([phrase, instead]) =>
    linesWith(read, phrase).map(
      (line) => `line ${line} has the phrase ${phrase.source}; write ${instead} instead`,
    ),
  );
};

function readerText(path: string, text: string): string {
  if (page.test(path)) return text;
  if (!isTypeScript(path) || isTest(path)) return "";
  if (commentedPackages.test(path)) return text;
  return packages.test(path) || path === "scripts/manual-pages.ts" ? stringsOf(text) : "";
}
