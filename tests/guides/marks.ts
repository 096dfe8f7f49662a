/**
 * What may stand behind the fence of a block, what it means, and which test answers for it. A block with
 * any other mark, or with none, fails the tests.
 */
import { type Block, blocksIn, pages } from "./pages.ts";

interface MarkRow {
  readonly means: string;
  readonly checkedBy: string;
}

const scripts = "tests/guides/scripts.test.ts";
const prometheus = "tests/guides/prometheus.test.ts";
const limits = "tests/guides/limits.test.ts";

export const marks = {
  ts: {
    means: "A module. It is compiled, and run when it imports node:test.",
    checkedBy: "tests/guides/typescript.test.ts",
  },
  "ts nest": {
    means: "The same, compiled as NestJS projects are, with decorators.",
    checkedBy: "tests/guides/typescript.test.ts",
  },
  "sh server": { means: "Starts a server, which runs to the end of the page.", checkedBy: scripts },
  "sh background": { means: "Runs on to the end of the page, a worker say.", checkedBy: scripts },
  "sh run": { means: "Is run to its end and has to end with 0.", checkedBy: scripts },
  "sh terminal": { means: "Is run on a terminal, and ended with the key q.", checkedBy: scripts },
  "text screen": { means: "The terminal shows this; … stands for anything.", checkedBy: scripts },
  "text output": { means: "The block before printed this; … is anything.", checkedBy: scripts },
  "json output": { means: "The same, where it is JSON.", checkedBy: scripts },
  "sh tour": {
    means: "Is run against a fresh server, and everything it prints is compared.",
    checkedBy: "tests/guides/tours.test.ts",
  },
  "sh tarballs": {
    means: "Packs and installs the packages, in a folder beside the checkout.",
    checkedBy: "tests/cli/new-user.test.ts",
  },
  "sh executable": {
    means: "Builds and runs the executable, in a folder beside the checkout.",
    checkedBy: "tests/install/executable.test.ts",
  },
  "sh image": {
    means: "Builds and runs containers; a stand-in for docker checks files, names and flags.",
    checkedBy: "tests/install/image.test.ts",
  },
  "sh chart": {
    means: "Installs the chart, with Helm and without a cluster.",
    checkedBy: "tests/install/chart.test.ts",
  },
  yaml: {
    means: "A configuration of the server that starts.",
    checkedBy: "tests/guides/configuration.test.ts",
  },
  python: {
    means: "A module of Python: one that tells webhooks from forgeries, or one that the page runs.",
    checkedBy: "tests/guides/webhooks.test.ts",
  },
  go: {
    means: "A package of Go that does the same, or one that the page runs.",
    checkedBy: "tests/guides/webhooks.test.ts",
  },
  ini: {
    means: "A unit of systemd without mistakes.",
    checkedBy: "tests/guides/systemd.test.ts",
  },
  nginx: {
    means: "A site of nginx, through which requests and streams go.",
    checkedBy: "tests/guides/nginx.test.ts",
  },
  "yaml prometheus": { means: "The configuration of Prometheus.", checkedBy: prometheus },
  "yaml rules": { means: "Rules for Prometheus, on metrics that exist.", checkedBy: prometheus },
  "text parts": {
    means: "An API key and the names of its parts.",
    checkedBy: "tests/guides/api-keys.test.ts",
  },
  "text headers": { means: "Headers of an answer.", checkedBy: limits },
  "json refused": { means: "The answer to one request too many.", checkedBy: limits },
  "json over": { means: "The answer to one task too many.", checkedBy: limits },
} as const satisfies Readonly<Record<string, MarkRow>>;

export type Mark = keyof typeof marks;

/** All blocks with this mark, or those of one page, in their order. */
export function blocksOf(mark: Mark, page?: string): Block[] {
  const wanted = page === undefined ? pages : [page];
  return wanted.flatMap((each) => blocksIn(each)).filter((block) => block.mark === mark);
}
