/**
 * Comments that only say again what the next line of code says: all of their words are names in that line. A comment
 * gives a reason or a rule, and a reason needs words that the code does not have.
 */
import { isScript, type Rule } from "./source-file.ts";

const wordsMin = 2;
const filler = new Set(
  (
    "a an and are as at be by do for from has have here if in into is it its no not now of on or so that the " +
    "them then there these they this those to up we what when which with you"
  ).split(" "),
);

export const echoingComments: Rule = ({ path, text }) => {
  if (!isScript(path)) return [];
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    const comment = /^\s*\/\/ (.*)$/.exec(line)?.[1];
    const next = lines[index + 1] ?? "";
    if (comment === undefined || isComment(lines[index - 1]) || isComment(next)) return [];
    const said = wordsOf(comment).filter((word) => !filler.has(word));
    const known = new Set(wordsOf(next).map(stemOf));
    if (said.length < wordsMin || !said.every((word) => known.has(stemOf(word)))) return [];
    return [`line ${index + 1} repeats the code below it; say why, or delete the comment`];
  });
};

function isComment(line = ""): boolean {
  return /^\s*\/\//.test(line);
}

/** In small letters: `closeAllConnections` has `close`, `all` and `connections`. */
function wordsOf(text: string): string[] {
  const apart = text.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return apart.match(/[a-z]+/g) ?? [];
}

function stemOf(word: string): string {
  return word.replace(/(?:ing|es|ed|s|e)$/, "");
}
