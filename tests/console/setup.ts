/**
 * A real server with the console that was just built, and a real browser. What the browser complains about
 * fails the test: errors in the console, violations of the content security policy, scripts that threw.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { after, before, type TestContext } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import {
  root,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";
import { hasPassed, resultFile } from "../test-results.ts";
import { launchChromium } from "./chromium.ts";
import { watchRequests } from "./watch-requests.ts";

let browser: Browser;

before(async () => {
  execFileSync(process.execPath, [join(root, "scripts/build-console.mjs")]);
  browser = await launchChromium();
});
after(() => browser?.close());

export interface Setup {
  readonly server: ServerProcess;
  readonly api: Api;
  readonly page: Page;
  /** What the browser complained about so far; empties the list. */
  readonly complaints: () => string[];
  readonly open: (path: string) => Promise<void>;
  /** Opens a page and waits until it has asked for everything and shows it. */
  readonly openWhole: (path: string) => Promise<void>;
}

export interface SetupOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly browser?: BrowserContextOptions;
}

export async function setup(t: TestContext, options: SetupOptions = {}): Promise<Setup> {
  // Closed in this order: a page without its server would complain.
  const { page, complaints } = await openTab(t, options.browser);
  const server = await startOwnServer(t, options.env);
  failOnComplaints(t, complaints);
  const open = async (path: string): Promise<void> => {
    await page.goto(server.url + path);
    await page.locator("h1").first().waitFor();
  };
  const settled = watchRequests(page);
  const openWhole = async (path: string): Promise<void> => {
    await open(path);
    await settled();
  };
  return { server, api: new Api(server.url), page, complaints, open, openWhole };
}

async function startOwnServer(
  t: TestContext,
  env: Readonly<Record<string, string>> = {},
): Promise<ServerProcess> {
  const directory = temporaryDirectory();
  const server = await startServer({ dataDir: join(directory.path, "data"), env });
  t.after(async () => {
    await server.kill();
    directory.dispose();
  });
  return server;
}

interface Tab {
  readonly page: Page;
  readonly complaints: () => string[];
}

export async function openPage(t: TestContext, options?: BrowserContextOptions): Promise<Tab> {
  const tab = await openTab(t, options);
  failOnComplaints(t, tab.complaints);
  return tab;
}

/** Comes last: a failed step would keep those after it from ending the server, and the test from ending. */
function failOnComplaints(t: TestContext, complaints: () => string[]): void {
  t.after(() => assert.deepEqual(complaints(), [], "the browser complained"));
}

async function openTab(t: TestContext, options: BrowserContextOptions = {}): Promise<Tab> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  await context.tracing.start({ snapshots: true });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const found: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") found.push(message.text());
  });
  page.on("pageerror", (error) => found.push(String(error)));
  const complaints = (): string[] => found.splice(0);
  t.after(async () => {
    // A page that hangs shows nothing, and must not keep the server from being ended.
    if (!hasPassed(t)) await keepLook(t, page).catch((error) => t.diagnostic(String(error)));
    await context.close();
  });
  return { page, complaints };
}

/** How the page looks, and how it came to that. */
async function keepLook(t: TestContext, page: Page): Promise<void> {
  const [trace, picture] = [resultFile(`${t.name}.trace.zip`), resultFile(`${t.name}.png`)];
  if (trace === undefined || picture === undefined) return;
  await page.context().tracing.stop({ path: trace });
  await page.screenshot({ path: picture, fullPage: true });
}

/** What a script would ask; the effects of clicks are looked up here. */
export class Api {
  readonly #url: string;
  readonly #token: string;

  constructor(url: string, token = "dev-token") {
    this.#url = url;
    this.#token = token;
  }

  // biome-ignore lint/suspicious/noExplicitAny: answers as they are on the wire.
  ask(path: string, body?: object): Promise<any> {
    return this.#send(body === undefined ? "GET" : "POST", path, body);
  }

  // biome-ignore lint/suspicious/noExplicitAny: answers as they are on the wire.
  put(path: string, body: object): Promise<any> {
    return this.#send("PUT", path, body);
  }

  // biome-ignore lint/suspicious/noExplicitAny: answers as they are on the wire.
  async #send(method: string, path: string, body: object | undefined): Promise<any> {
    const reply = await fetch(`${this.#url}/v1/codeq${path}`, {
      method,
      headers: { authorization: `Bearer ${this.#token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    assert.ok(reply.ok, `${reply.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /** Creates a task and gives its id. */
  async create(command: string, fields: object = {}): Promise<string> {
    return (await this.ask("/tasks", { command, payload: { n: 1 }, ...fields })).id;
  }

  /** Creates a task that has used up its attempts with this error. */
  async createDead(command: string, reason: string, fields: object = {}): Promise<string> {
    await this.create(command, { maxAttempts: 1, ...fields });
    const { id } = await this.ask("/tasks/claim", { commands: [command] });
    await this.ask(`/tasks/${id}/nack`, { reason });
    return id;
  }
}
