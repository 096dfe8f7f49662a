import assert from "node:assert/strict";
import test from "node:test";
import { type FailureGroup, groupsMax, groupsOf } from "./failures.ts";

const group = (id: string, count: number): FailureGroup => ({
  ...{ id, count, dlq: count, failed: 0, text: id, trend: [count], state: "open" },
  commands: [{ command: "mail", count }],
  ...{ firstSeen: `2026-01-0${9 - count}T00:00:00Z`, lastSeen: "2026-01-09T00:00:00Z" },
  example: { taskId: "1", error: id },
});

test("all pages are read; a group on two pages is added up, and the largest is first", async () => {
  const pages = [
    { groups: [group("a", 2), group("b", 4)], next: "1" },
    { groups: [group("a", 3)], next: "2" },
    { groups: [group("c", 1)] },
  ];
  const found = await groupsOf(async (after = "0") => pages[Number(after)] ?? assert.fail(after));
  assert.deepEqual(
    found.map(({ id, count, trend }) => [id, count, trend]),
    [
      ["a", 5, [5]],
      ["b", 4, [4]],
      ["c", 1, [1]],
    ],
  );
  assert.deepEqual(found[0]?.commands, [{ command: "mail", count: 5 }]);
  assert.equal(found[0]?.firstSeen, "2026-01-06T00:00:00Z");
});

test("reading ends at the limit for groups", async () => {
  let asked = 0;
  const found = await groupsOf(async () => {
    asked += 1;
    const groups = Array.from({ length: 2000 }, (_, n) => group(`${asked}-${n}`, 1));
    return { groups, next: String(asked) };
  });
  assert.deepEqual([asked, found.length], [5, groupsMax]);
});
