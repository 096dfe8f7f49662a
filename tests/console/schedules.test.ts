/** The pages of schedules: a preview that warns, the history with its reasons, and what people do. */
import assert from "node:assert/strict";
import test from "node:test";
import { setup } from "./setup.ts";

const browser = { timezoneId: "America/New_York" } as const;

test("a schedule is created; its page has the next runs in both zones, and warnings", async (t) => {
  const { page, open, api } = await setup(t, { browser });
  await open("/ui/schedules");
  await page.getByText("There are no schedules").waitFor();
  await page.getByRole("button", { name: "Create schedule" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Id").fill("digest-acme");
  await dialog.getByLabel("Queue").fill("digest");
  await dialog.getByLabel("Times: a cron").fill("30 2 * * *");
  assert.equal(await dialog.getByLabel("Time zone").inputValue(), "America/New_York");
  await dialog.getByLabel("Time zone").fill("Europe/Paris");
  await dialog.getByText(/clocks are set forward: local times from 02:00 on are missing/).waitFor();
  await dialog.getByText(/comes twice, and the schedule fires the first time only/).waitFor();
  await dialog.getByLabel("Payload").fill('{"customer":"acme"}');
  await dialog.getByRole("button", { name: "Create schedule" }).click();
  await page.getByRole("heading", { name: "digest-acme" }).waitFor();
  const [first] = (await api.ask("/admin/schedules/preview", previewOf("30 2 * * *"))).runs;
  const row = page.locator("#next-runs tbody tr").first();
  await row.getByText(`${first.local} ${first.offset}`).waitFor();
  await row.getByText(localTime(first.at, "America/New_York")).waitFor();
  await page
    .locator("#next-runs")
    .getByText(/comes twice/)
    .waitFor();
  const put = await api.ask("/admin/schedules/digest-acme");
  assert.deepEqual(
    [put.command, put.tz, put.payload],
    ["digest", "Europe/Paris", { customer: "acme" }],
  );
});

function previewOf(cron: string): object {
  return { cron, tz: "Europe/Paris", count: 1 };
}

/** As the console writes times. */
function localTime(at: string, timeZone: string): string {
  const options = { timeZone, dateStyle: "short", timeStyle: "medium", hourCycle: "h23" } as const;
  return new Intl.DateTimeFormat("sv-SE", options).format(Date.parse(at));
}

test("a schedule is paused with a reason, resumed, run now, explained and backfilled", async (t) => {
  const { page, open, api, complaints } = await setup(t, { browser });
  await api.put("/admin/schedules/report", { command: "report", cron: "0 9 * * *" });
  await open("/ui/schedules");
  await page.getByRole("link", { name: "report" }).first().click();
  await page.getByRole("button", { name: "Pause…" }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("the mail server moves");
  await page.getByRole("button", { name: "Pause schedule" }).click();
  await page.getByText(/: the mail server moves\. No task is created/).waitFor();
  assert.equal((await api.ask("/admin/schedules/report")).paused.reason, "the mail server moves");
  await page.getByRole("button", { name: "Resume" }).first().click();
  await page.getByText("No task is created").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Run now" }).click();
  const history = page.locator("#history");
  await history.getByText("manual").waitFor();
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByText(/has not ended; wait for it, cancel it/).waitFor();
  await page.getByLabel("A local time of the schedule").fill("2020-01-06T09:00");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText(/was created after 2020-01-06 09:00 UTC; use backfill/).waitFor();
  await page.getByRole("button", { name: "Backfill…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("From").fill("2020-01-06T00:00:00Z");
  await dialog.getByLabel("Until").fill("2020-01-08T23:00:00Z");
  await dialog.getByRole("button", { name: "Count", exact: true }).click();
  await dialog.getByRole("button", { name: "Create 3 tasks" }).click();
  await page.getByRole("heading", { name: "Bulk jobs" }).waitFor();
  await open("/ui/schedules/report");
  await history.getByText("backfill").nth(2).waitFor();
  assert.match(complaints().join(), /409/);
  await page.getByRole("link", { name: "Open tasks", exact: true }).click();
  await page.getByText("4 matching").waitFor();
});

test("skips are counted with their reasons, and a schedule is deleted when its id is typed", async (t) => {
  const { page, open, api, complaints } = await setup(t, { browser });
  await api.put("/admin/schedules/tick", { command: "tick", every: "1s" });
  await open("/ui/schedules/tick");
  const history = page.locator("#history");
  await history.getByText("a task had not ended").waitFor();
  await history.getByText("fired").waitFor();
  await page.getByText(/\d+ overlap/).waitFor();
  await page.getByRole("button", { name: "Delete…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Type tick to confirm").fill("tick");
  await dialog.getByRole("button", { name: "Delete schedule" }).click();
  await page.getByText("There are no schedules").waitFor();
  await open("/ui/schedules/tick");
  await page.getByText("There is no such schedule").waitFor();
  assert.match(complaints().join(), /404/);
});
