/** The guide to the command line does what it says: its blocks are run, in order, as they stand. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import { bareEnvironment, cliMain } from "./setup.ts";

const page = readFileSync(join(root, "docs/guide/command-line.md"), "utf8");

interface Block {
  readonly language: string;
  readonly mark: string;
  readonly text: string;
}

const blocks: Block[] = [...page.matchAll(/^```(\w+) ?(\w*)\n([\s\S]*?)^```$/gm)].map(
  ([, language = "", mark = "", text = ""]) => ({ language, mark, text }),
);

const codeq = `codeq() { "${process.execPath}" --conditions=source "${cliMain}" "$@"; }`;

test("every block of the guide is run or checked, apart from those that install or need a machine", () => {
  const unmarked = blocks.filter(({ mark }) => mark === "").map(({ text }) => text.trim());
  assert.deepEqual(unmarked, [
    "npm install @codeq/cli\nnpx codeq help",
    "export CODEQ_BASE_URL=http://localhost:9000",
    "codeq serve --config /etc/codeq.yaml",
  ]);
  const marks = new Set(blocks.map(({ mark }) => mark));
  assert.deepEqual([...marks].sort(), ["", "dev", "output", "run", "worker"]);
});

test("the blocks of the guide work, one after the other", async (t) => {
  const directory = temporaryDirectory();
  const env: Record<string, string> = bareEnvironment(directory.path);
  const children: Child[] = [];
  t.after(async () => {
    for (const child of children.reverse()) {
      child.signal("SIGTERM");
      await child.exited;
    }
    directory.dispose();
  });
  const shell = (script: string): Child => {
    // A shell that becomes the last command gets the signals that are meant for it.
    const child = spawn("bash", ["-eo", "pipefail", "-c", `${codeq}\n${script}`], {
      cwd: directory.path,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    return new Child(child);
  };
  const background = (line: string): Child => {
    const words = line.trim().split(" ").slice(1);
    const anyPort = ["--port", "0", "--worker-stream-addr", ":0", "--producer-stream-addr", ":0"];
    const argv = words[0] === "dev" ? [...words, ...anyPort] : words;
    const child = new Child(
      spawn(process.execPath, ["--conditions=source", cliMain, ...argv], {
        ...{ cwd: directory.path, env, stdio: ["ignore", "pipe", "pipe"] },
      }),
    );
    children.push(child);
    return child;
  };
  let printed = "";
  for (const { mark, text, language } of blocks) {
    if (mark === "dev") {
      const line = await background(text).line((each) => each.includes("codeQ is ready"));
      env["CODEQ_BASE_URL"] = /http:\/\/\S+/.exec(line)?.[0] ?? "";
    } else if (mark === "worker") {
      background(text);
    } else if (mark === "run") {
      const exit = await shell(text).exited;
      assert.equal(exit.code, 0, `${text}\n${exit.stdout}${exit.stderr}`);
      printed = exit.stdout;
    } else if (mark === "output") {
      assert.ok(printed.includes(text.trim()), `${language}: ${text} is not in ${printed}`);
    }
  }
  assert.ok(env["CODEQ_BASE_URL"] !== "");
});
