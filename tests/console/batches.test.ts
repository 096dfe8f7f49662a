/** The pages of batches: the progress, the callback, failed members first, and what people do. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Api, setup } from "./setup.ts";

/** Ends the next member, and gives its id. */
async function finish(api: Api, status: "COMPLETED" | "FAILED"): Promise<string> {
  const { id } = await api.ask("/tasks/claim", { commands: ["count-orders"] });
  const outcome = status === "FAILED" ? { error: "no such shop" } : { result: { orders: 4 } };
  await api.ask(`/tasks/${id}/result`, { status, ...outcome });
  return id;
}

async function createBatch(api: Api, id: string, members: number): Promise<string> {
  const { callbackId } = await api.put(`/batches/${id}`, { command: "report", payload: {} });
  for (let shop = 0; shop < members; shop++) {
    await api.create("count-orders", { batchId: id, payload: { shop }, maxAttempts: 1 });
  }
  return callbackId;
}

test("a batch fills its bar, shows failed members first, replays them and releases its callback", async (t) => {
  const { page, open, api } = await setup(t);
  const callbackId = await createBatch(api, "day-1", 3);
  await open("/ui/batches");
  await page.getByText("0 of 3 ended").waitFor();
  await page.getByRole("link", { name: "day-1" }).click();
  await page.getByRole("heading", { name: "day-1" }).waitFor();
  await page.getByText(/waits for 3 of 3 members, and for the batch to be sealed/).waitFor();
  await page.getByRole("button", { name: "Seal" }).click();
  await page.getByText("The callback waits for 3 of 3 members.").waitFor();
  await finish(api, "COMPLETED");
  const failed = await finish(api, "FAILED");
  await page.getByText("The callback waits for 1 of 3 members.").waitFor();
  await page.getByRole("progressbar", { name: "2 of 3 ended" }).waitFor();
  await finish(api, "COMPLETED");
  await page.getByText(/The callback is a dead letter/).waitFor();
  const tables = page.locator("table");
  await tables.nth(1).waitFor();
  assert.equal(await tables.first().locator("tbody tr").count(), 1);
  await tables.first().getByText("no such shop").waitFor();
  assert.equal(
    await tables.first().getByRole("link").first().getAttribute("title"),
    failed,
    "failed members come first",
  );
  await page.getByRole("button", { name: "Replay failed…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Replay 1 task" }).click();
  await page.getByRole("heading", { name: "Bulk jobs" }).waitFor();
  await open("/ui/batches/day-1");
  await page.getByText("The callback waits for 1 of 3 members.").waitFor();
  assert.equal(await finish(api, "COMPLETED"), failed);
  await page.getByText(/the callback was released/).waitFor();
  await page.locator("#callback").getByRole("link").first().click();
  await page.getByRole("heading", { name: "report" }).waitFor();
  assert.ok(page.url().endsWith(callbackId), page.url());
  await page.locator("#facts").getByRole("link", { name: "day-1" }).click();
  await page.getByRole("link", { name: "Open tasks", exact: true }).click();
  await page.getByText("3 matching").waitFor();
});

test("a batch is cancelled with its members; one that is gone is named so", async (t) => {
  const { page, open, api, complaints } = await setup(t);
  const callbackId = await createBatch(api, "day-2", 2);
  await open("/ui/batches/day-2");
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByText("2members that have not ended, and the callback").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel batch" }).click();
  await page.getByText("The batch was cancelled, and its callback with it.").waitFor();
  await page.getByRole("progressbar", { name: "2 of 2 ended" }).waitFor();
  assert.equal((await api.ask(`/admin/tasks/${callbackId}`)).task.place, "cancelled");
  await open("/ui/batches/day-3");
  await page.getByText("There is no such batch").waitFor();
  assert.match(complaints().join(), /404/);
});
