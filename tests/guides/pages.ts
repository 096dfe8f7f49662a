/**
 * The pages that users read, and what stands in them: code blocks, headings, links. Nothing else takes a
 * page apart, so all tests mean the same blocks.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../e2e/server-process.ts";

export interface Block {
  readonly page: string;
  /** Of the fence that opens it. */
  readonly line: number;
  /** What stands behind the fence: a language, and how the block is checked. */
  readonly mark: string;
  readonly text: string;
  /** The file that the block is, when its first line is a comment with nothing but a path. */
  readonly file: string | undefined;
}

/** Pages whose blocks are checked, from the root of the repository. */
export const pages: readonly string[] = [
  "README.md",
  "packages/client/README.md",
  ...readdirSync(join(root, "docs/guide"))
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => `docs/guide/${name}`),
];

export function readPage(page: string): string {
  return readFileSync(join(root, page), "utf8");
}

export function blocksIn(page: string, text: string = readPage(page)): Block[] {
  const blocks: Block[] = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    if (!lines[at]?.startsWith("```")) continue;
    const end = lines.indexOf("```", at + 1);
    if (end < 0) throw new Error(`${page}:${at + 1} opens a block that never ends`);
    const inside = lines.slice(at + 1, end);
    blocks.push({
      page,
      line: at + 1,
      mark: lines[at]?.slice(3).trim() ?? "",
      text: `${inside.join("\n")}\n`,
      file: /^(?:\/\/|#) (\S*[\w-]\.\w+)$/.exec(inside[0] ?? "")?.[1],
    });
    at = end;
  }
  return blocks;
}

/** The text without its blocks, for what is looked for in sentences only. */
export function proseOf(text: string): string {
  return text.replace(/^```[\s\S]*?^```$/gm, "");
}

/** Where links of other pages can lead, as GitHub makes it from a heading. */
export function anchorsIn(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of proseOf(text).matchAll(/^#{1,6} (.+)$/gm)) {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    const anchor = plain.replace(/[^\p{L}\p{N}_ -]/gu, "").replaceAll(" ", "-");
    let unique = anchor;
    for (let more = 1; anchors.has(unique); more++) unique = `${anchor}-${more}`;
    anchors.add(unique);
  }
  return anchors;
}
