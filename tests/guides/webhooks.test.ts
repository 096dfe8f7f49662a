/** What the guide gives to receivers of webhooks takes what the server signs, and nothing else. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { signatureHeaders } from "../../packages/server/src/core/outbound/signature.ts";
import { temporaryDirectory } from "../e2e/server-process.ts";
import { goEnvironment } from "../go-environment.ts";
import { blocksOf } from "./marks.ts";

const run = promisify(execFile);
const page = "docs/guide/concepts.md";
const secretOf = (fill: number): string => `whsec_${Buffer.alloc(32, fill).toString("base64")}`;
const body = '{"taskId":"t1","result":{"text":"hé"}}';

interface Case {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly secret: string;
  readonly isGood: boolean;
}

/** Signed now, because the functions of the guide ask the real clock. */
function cases(): Case[] {
  const timestampSeconds = Math.floor((performance.timeOrigin + performance.now()) / 1000);
  const secrets = { default: [secretOf(1), secretOf(2)], tenants: new Map() };
  const signed = (seconds: number): Record<string, string> =>
    signatureHeaders(
      { webhookHmacSecret: "", webhookSecrets: secrets },
      { tenantId: "acme", secrets: [], id: "msg_1", timestampSeconds: seconds, body },
    );
  const headers = signed(timestampSeconds);
  const good = { headers, body, secret: secretOf(1), isGood: true };
  return [
    good,
    { ...good, secret: secretOf(2) },
    { ...good, secret: secretOf(3), isGood: false },
    { ...good, body: body.replace("t1", "t2"), isGood: false },
    { ...good, headers: { ...headers, "webhook-id": "msg_2" }, isGood: false },
    { ...good, headers: { ...headers, "webhook-signature": "" }, isGood: false },
    { ...good, headers: signed(timestampSeconds - 600), isGood: false },
    { ...good, headers: {}, isGood: false },
  ];
}

/** The one block of this kind whose first line names the file. */
function fileIn(t: TestContext, mark: "ts" | "python" | "go", name: string): string {
  const block = blocksOf(mark, page).find(({ text }) => text.split("\n", 1)[0]?.endsWith(name));
  assert.ok(block !== undefined, `${page} has no ${name}`);
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  mkdirSync(join(directory.path, "webhook"));
  writeFileSync(join(directory.path, "webhook", name), block.text);
  writeFileSync(join(directory.path, "cases.json"), JSON.stringify(cases()));
  return directory.path;
}

/** Runs a program that prints one `true` or `false` for each case; undefined where there is none. */
async function answers(
  t: TestContext,
  directory: string,
  [program, ...args]: readonly [string, ...string[]],
): Promise<void> {
  try {
    const { stdout } = await run(program, args, { cwd: directory, env: goEnvironment });
    const expected = cases().map(({ isGood }) => String(isGood));
    assert.deepEqual(stdout.trim().toLowerCase().split("\n"), expected);
  } catch (error) {
    if ((error as { code?: string }).code !== "ENOENT") throw error;
    t.skip(`${program} is not there`);
  }
}

test("the function for Node tells webhooks from forgeries", async (t) => {
  const directory = fileIn(t, "ts", "webhook-signature.ts");
  const { isFromCodeq } = (await import(join(directory, "webhook/webhook-signature.ts"))) as {
    isFromCodeq: (headers: Headers, body: string, secret: string) => boolean;
  };
  for (const { headers, body: text, secret, isGood } of cases()) {
    assert.equal(isFromCodeq(new Headers(headers), text, secret), isGood, JSON.stringify(headers));
  }
});

test("the function for Python does the same", async (t) => {
  const directory = fileIn(t, "python", "webhook_signature.py");
  const program = [
    "import json, sys",
    "sys.path.insert(0, 'webhook')",
    "from webhook_signature import is_from_codeq",
    "for c in json.load(open('cases.json')):",
    "    print(is_from_codeq(c['headers'], c['body'].encode(), c['secret']))",
  ];
  await answers(t, directory, ["python3", "-c", program.join("\n")]);
});

test("the function for Go does the same", async (t) => {
  const directory = fileIn(t, "go", "signature.go");
  writeFileSync(join(directory, "go.mod"), "module example\n\ngo 1.21\n");
  writeFileSync(
    join(directory, "main.go"),
    `package main

import (
	"encoding/json"
	"example/webhook"
	"fmt"
	"net/http"
	"os"
)

func main() {
	text, err := os.ReadFile("cases.json")
	if err != nil {
		panic(err)
	}
	var cases []struct {
		Headers map[string]string
		Body    string
		Secret  string
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		panic(err)
	}
	for _, c := range cases {
		header := http.Header{}
		for name, value := range c.Headers {
			header.Set(name, value)
		}
		fmt.Println(webhook.IsFromCodeq(header, []byte(c.Body), c.Secret))
	}
}
`,
  );
  await answers(t, directory, ["go", "run", "."]);
});
