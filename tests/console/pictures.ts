/** `npm run console-pictures`: a server with work and failures, and the pictures of its console for the guide. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { codeq, type EnqueueItem, Permanent, type Task, task } from "@codeq/client";
import type { Page } from "playwright-core";
import { root, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { launchChromium } from "./chromium.ts";
import { watchRequests } from "./watch-requests.ts";

const token = "dev-token";

async function main(): Promise<void> {
  execFileSync(process.execPath, [join(root, "scripts/build-console.mjs")]);
  const directory = temporaryDirectory();
  await using ended = new AsyncDisposableStack();
  ended.defer(() => directory.dispose());
  const server = await startServer({ dataDir: join(directory.path, "data") });
  ended.defer(() => server.kill());
  const client = codeq({ url: server.url, token });
  ended.defer(() => client.close());
  const worker = client.worker(handlers, {
    concurrency: 20,
    name: "mailer-1",
    on: { failed: () => {} },
  });
  ended.defer(() => worker.close());
  const id = await fill(server.url, client);
  const browser = await launchChromium();
  ended.defer(() => browser.close());
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  const settled = watchRequests(page);
  for (const [name, path] of Object.entries({ ...pictures, task: `/ui/tasks/${id}` })) {
    await page.goto(server.url + path);
    await page.locator("h1").first().waitFor();
    await settled();
    await take(page, name);
  }
}

async function take(page: Page, name: string): Promise<void> {
  const path = join(root, `docs/images/console-${name}.png`);
  await page.screenshot({ path, animations: "disabled" });
  console.log(path);
}

const pictures = {
  overview: "/",
  tasks: "/ui/tasks?q=state%3Afailure%20queue%3Asend-email",
  failures: "/ui/failures",
};

interface Numbered {
  readonly n: number;
}

const sendEmail: Task<Numbered, object> = task("send-email", { retry: { maxAttempts: 1 } });
const chargeCard: Task<Numbered, object> = task("charge-card");
const resizeImage: Task<Numbered, object> = task("resize-image");
const renderInvoice: Task<Numbered, object> = task("render-invoice");

const handlers = [
  sendEmail.handle(({ n }) => {
    if (n % 97 === 0)
      throw named("SmtpError", `421 too many connections from 203.0.113.${n % 250}`);
    if (n % 131 === 1) throw new Error(`connect ETIMEDOUT 198.51.100.${n % 250}:25`);
    return {};
  }),
  chargeCard.handle(({ n }) => {
    if (n % 149 === 3) throw new Permanent(`card of customer ${n} was declined`);
    return {};
  }),
];

function named(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}

/** So long a round takes. */
const delay = "2s";
const mailsOfRound = 120;
const cardsOfRound = 60;
/** Charts have a point for each whole minute. */
const workMs = 200_000;

/** Gives the id of a task that is worked on. */
async function fill(url: string, client: ReturnType<typeof codeq>): Promise<string> {
  const ask = async (path: string, body: object): Promise<string> => {
    const headers = { authorization: `Bearer ${token}` };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    return await (await fetch(`${url}/v1/codeq${path}`, init)).text();
  };
  await client.admin.pause("resize-image", { reason: "new version of the library" });
  await client.enqueueMany(resizeImage, inputs(0, 60));
  await client.enqueueMany(renderInvoice, inputs(0, 26));
  const endsMs = Date.now() + workMs;
  for (let round = 0; Date.now() < endsMs; round += 1) {
    const mails = await client.enqueueMany(sendEmail, delayed(round * mailsOfRound, mailsOfRound));
    const cards = await client.enqueueMany(chargeCard, delayed(round * cardsOfRound, cardsOfRound));
    await Promise.allSettled([...mails, ...cards].map((run) => run.result()));
    if (round !== 0) continue;
    const [declined] = await client.admin.failureGroups({ command: "charge-card" });
    if (declined === undefined) throw new Error("no card was declined");
    await client.admin.triage(declined.id, { state: "resolved", reason: "the bank is back" });
  }
  await client.enqueueMany(sendEmail, inputs(1, 40));
  const { id } = JSON.parse(await ask("/tasks/claim", { commands: ["render-invoice"] }));
  const logs = ["fonts loaded", "page 1", "page 2", "page 3: 14 rows, 1 image"];
  const progress = { percent: 40, text: "page 4 of 10" };
  await ask(`/tasks/${id}/heartbeat`, { progress, logs });
  return id;
}

function inputs(from: number, count: number): EnqueueItem<Numbered>[] {
  return Array.from({ length: count }, (_, n) => ({ input: { n: from + n } }));
}

function delayed(from: number, count: number): EnqueueItem<Numbered>[] {
  return inputs(from, count).map((each) => ({ ...each, delay }));
}

await main();
