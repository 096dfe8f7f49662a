import assert from "node:assert/strict";
import test from "node:test";
import { hideCommands } from "./hidden-commands.ts";

test("series of commands become one: sums, or the largest; everything else stays", () => {
  const text = [
    "# TYPE codeq_tasks gauge",
    'codeq_tasks{command="pay-out",status="ready"} 3',
    'codeq_tasks{command="fraud\\"}check",status="ready"} 4',
    'codeq_tasks{command="pay-out",status="dead"} 1',
    'codeq_oldest{command="pay-out"} 5',
    'codeq_oldest{command="x"} 9',
    'codeq_seconds_bucket{kind="a",command="x",le="+Inf"} 2',
    'codeq_seconds_bucket{kind="a",command="y",le="+Inf"} 0.5',
    "codeq_up 1",
    "",
  ].join("\n");
  assert.equal(
    hideCommands(text, new Set(["codeq_oldest"])),
    [
      "# TYPE codeq_tasks gauge",
      'codeq_tasks{command="_all",status="ready"} 7',
      'codeq_tasks{command="_all",status="dead"} 1',
      'codeq_oldest{command="_all"} 9',
      'codeq_seconds_bucket{kind="a",command="_all",le="+Inf"} 2.5',
      "codeq_up 1",
      "",
    ].join("\n"),
  );
});
