/**
 * A file as the rules see it. `code` is the text with comments, strings and regular expressions
 * blanked out and the lines kept, so that a rule about code is not set off by prose.
 */
export interface SourceFile {
  /** From the root of the repository, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** A rule gives one sentence for each offence in a file. */
export type Rule = (file: SourceFile) => string[];

export function isTypeScript(path: string): boolean {
  return path.endsWith(".ts");
}

export function isScript(path: string): boolean {
  return /\.(ts|mjs|js)$/.test(path);
}

export function isTest(path: string): boolean {
  return /\.test\.(ts|mjs)$|^tests\/|^packages\/[^/]+\/test\//.test(path);
}

/** Lines, counted from 1, on which the pattern matches. */
export function linesWith(text: string, pattern: RegExp): number[] {
  return text
    .split("\n")
    .map((line, index) => (pattern.test(line) ? index + 1 : 0))
    .filter((line) => line > 0);
}

const token =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`|(?<=(?:^|[=(,:[!&|?{};]|=>|return)\s*)\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])*\/[a-z]*/gm;

export function codeOf(text: string): string {
  return text.replace(token, (found) => {
    if (found.startsWith("`")) return blankTemplate(found);
    return blank(found);
  });
}

/** The text of the strings, with everything else blanked out and the lines kept. */
export function stringsOf(text: string): string {
  return tokensOf(text, /^["'`]/);
}

/** The text of the comments, with everything else blanked out and the lines kept. */
export function commentsOf(text: string): string {
  return tokensOf(text, /^\/[/*]/);
}

function tokensOf(text: string, kind: RegExp): string {
  let end = 0;
  let kept = "";
  for (const match of text.matchAll(token)) {
    const isKind = kind.test(match[0]);
    kept += blank(text.slice(end, match.index)) + (isKind ? match[0] : blank(match[0]));
    end = match.index + match[0].length;
  }
  return kept + blank(text.slice(end));
}

/** What stands in `${}` is code and stays, as long as no braces are nested in it. */
function blankTemplate(template: string): string {
  let end = 0;
  let kept = "";
  for (const match of template.matchAll(/(?<!\\)\$\{([^{}`]*)\}/g)) {
    kept += blank(template.slice(end, match.index)) + match[0];
    end = match.index + match[0].length;
  }
  return kept + blank(template.slice(end));
}

function blank(text: string): string {
  return text.replace(/[^\n]/g, " ");
}
