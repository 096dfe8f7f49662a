/** The options of a unique key. */
import type { OptionRow } from "../command.ts";

export const uniqueOptions: readonly OptionRow[] = [
  {
    name: "unique",
    value: "key",
    about: "Unique key; one task at a time has it in the queue.",
  },
  {
    name: "unique-on",
    value: "action",
    about: "If a task has the key: return (default), refuse, replace, latest or cancel.",
  },
  {
    name: "unique-while",
    value: "place",
    choices: ["unfinished", "waiting"],
    about: "Until when a task has the key: until it has ended, or until a worker begins it.",
  },
  {
    name: "unique-for",
    value: "time",
    about: "Hold the key for at least this time, also when the task ends before.",
  },
  {
    name: "unique-max-wait",
    value: "time",
    about: "How long later calls may put off the task.",
  },
];
