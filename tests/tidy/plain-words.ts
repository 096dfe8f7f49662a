/**
 * Phrases that a reader has to guess at, and what to write instead. The rule looks at every page for users,
 * at the strings of all packages, and at the comments of the folders that are named here. STYLE.md has the rule
 * with examples.
 */
import {
  commentsOf,
  isTest,
  isTypeScript,
  linesWith,
  type Rule,
  stringsOf,
} from "./source-file.ts";

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

/** Words for comments: usual in stories, and unclear about who does what. */
const storyWords: readonly [word: RegExp, instead: string][] = [
  [/\btold\b/i, '"notified", "reported", or what the code does'],
  [/\b(?:no|some|any|every)body\b/i, "who or what it is: a caller, a worker, a node, an operator"],
  [/\banew\b/i, '"again"'],
  [/\bpoke[sd]?\b/i, '"notify"'],
  [/\bstrangers?\b/i, '"unauthenticated client"'],
  [/\bvouch/i, '"authenticate", or what is shown'],
  [/\bfarewell/i, '"last message"'],
  [/\bconversations?\b/i, '"connection", "channel" or "session"'],
  [/\b(?:waits?|stands?|next) in line\b/i, '"waits", or "next in the queue"'],
];

/** Pages that users read; STYLE.md quotes the phrases, and records and the changelog are history. */
const page =
  /^(?:README\.md|docs\/(?:guide|reference)\/.*\.md|(?:packages|examples)\/[^/]+\/README\.md)$/;
const clientLibrary = /^packages\/client\/src\//;
const packages = /^packages\/[^/]+\/src\//;
/** Folders whose comments have neither; add a folder here when its comments are plain. */
const plainFolders =
  /^packages\/(?:cli|client|console|engine|nest|outbox|protocol|queue|server|simulated)\/src\//;

export const plainWords: Rule = ({ path, text }) => {
  const comments = plainFolders.test(path) && !isTest(path) ? commentsOf(text) : "";
  return [
    ...offences(readerText(path, text), phrases),
    ...offences(comments, [...phrases, ...storyWords]),
  ];
};

function offences(text: string, words: typeof phrases): string[] {
  return words.flatMap(([word, instead]) =>
    linesWith(text, word).map(
      (line) => `line ${line} has the phrase ${word.source}; write ${instead} instead`,
    ),
  );
}

function readerText(path: string, text: string): string {
  // The texts between the tags of a page are no strings.
  if (page.test(path) || (packages.test(path) && path.endsWith(".tsx"))) return text;
  if (!isTypeScript(path) || isTest(path)) return "";
  if (clientLibrary.test(path)) return text;
  return packages.test(path) || path === "scripts/manual-pages.ts" ? stringsOf(text) : "";
}
