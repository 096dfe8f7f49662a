/** Lanes on the page of a queue: what they have, and what people do to one of them. */
import assert from "node:assert/strict";
import test from "node:test";
import { setup } from "./setup.ts";

test("a lane is paused, limited, resumed, moved and cancelled; others are not touched", async (t) => {
  const { page, open, api } = await setup(t);
  for (const lane of ["ada", "ada", "ada", "bob"]) await api.create("send", { lane });
  await open("/ui/queues/send");
  const lanes = page.locator("#lanes");
  await lanes.getByText("2 lanes").waitFor();
  const row = lanes.locator("tbody tr", { hasText: "ada" });
  const act = async (name: string): Promise<void> => {
    await row.getByLabel("Actions for ada").click();
    await row.getByRole("button", { name }).click();
  };
  const ofAda = async (): Promise<Record<string, unknown>> =>
    (await api.ask("/admin/topics/send/lanes?lane=ada")).lanes[0];
  const dialog = page.getByRole("dialog");

  await act("Pause or drain…");
  await dialog.getByText("3 ready tasks stay in order.").waitFor();
  await dialog.getByLabel("Reason").fill("card declined");
  await dialog.getByRole("button", { name: "Pause lane" }).click();
  await row.getByText("card declined").waitFor();
  const { id, lane } = await api.ask("/tasks/claim", { commands: ["send"] });
  assert.equal(lane, "bob");

  await act("Limits…");
  await dialog.getByLabel("Leases at most").fill("1");
  await dialog.getByLabel("Units in a time").fill("soon");
  assert.ok(await dialog.getByRole("button", { name: "Save limits" }).isDisabled());
  await dialog.getByLabel("Units in a time").fill("100/1m");
  await dialog.getByLabel("Weight").fill("3");
  await dialog.getByRole("button", { name: "Save limits" }).click();
  await row.getByText("100 of 100/1m").waitFor();
  await row.getByText("0 of 1", { exact: true }).waitFor();
  const { concurrency, weight, rate } = await ofAda();
  assert.deepEqual([concurrency, weight, rate], [1, 3, { units: 100, per: "1m" }]);

  await act("Resume");
  await row.getByText("card declined").waitFor({ state: "detached" });
  await api.ask("/tasks/claim", { commands: ["send"] });
  await row.getByText("at its limit").waitFor();

  await row.getByRole("link", { name: "ada" }).click();
  await page.getByText("3 matching").waitFor();
  await open("/ui/queues/send");
  await act("Move all that wait…");
  await dialog.getByLabel("To queue").fill("send-later");
  await dialog.getByRole("button", { name: "Move 2 tasks" }).click();
  await page.getByRole("heading", { name: "Bulk jobs" }).waitFor();
  await open("/ui/queues/send");
  await row.getByText("1 of 1", { exact: true }).waitFor();
  await act("Cancel all tasks…");
  await dialog.getByLabel("Type send to confirm").fill("send");
  await dialog.getByRole("button", { name: "Cancel 1 task" }).click();
  await page.getByRole("heading", { name: "Bulk jobs" }).waitFor();
  assert.equal((await api.ask(`/tasks/${id}`)).status, "IN_PROGRESS");
});

test("failures of one lane have groups of their own, and the page of a task explains its lane", async (t) => {
  const { page, open, api } = await setup(t);
  const policy = { priorityTiers: [0], maxAttempts: 1 };
  await api.put("/admin/topics/send", { ...policy, lanes: { concurrency: 1 } });
  const fail = async (lane: string, error: string): Promise<void> => {
    await api.create("send", { lane });
    const { id } = await api.ask("/tasks/claim", { commands: ["send"] });
    await api.ask(`/tasks/${id}/result`, { status: "FAILED", error });
  };
  await fail("ada", "no such host");
  await fail("ada", "card declined");
  await fail("bob", "no such host");
  await api.create("send", { lane: "ada" });
  const waits = await api.create("send", { lane: "ada", cost: 7 });
  await api.ask("/tasks/claim", { commands: ["send"] });
  await open("/ui/queues/send");
  const row = page.locator("#lanes tbody tr", { hasText: "ada" });
  await row.getByLabel("Actions for ada").click();
  await row.getByRole("link", { name: "Failures" }).click();
  await page.getByText(/2 failures in 2 groups of lane ada of send/).waitFor();
  await page.getByRole("link", { name: "no such host" }).click();
  await page.getByRole("link", { name: "Show 1 task" }).click();
  await page.getByText("1 matching").waitFor();
  await open(`/ui/tasks/${waits}`);
  await page.getByText('its lane "ada" has 1 of 1 lease').waitFor();
  await page.getByText("The lane of the task has as many leases as it may have").waitFor();
  await page.getByText("7 units").waitFor();
});
