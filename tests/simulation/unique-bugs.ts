/** Bugs of unique keys, which are planted on several shards and in clusters. */
import type { Mutation } from "./mutant.ts";

export interface UniqueBug extends Mutation {
  readonly bug: string;
  readonly says: RegExp;
}

const broker = "packages/server/src/core/broker/shard-broker.ts";

export const uniqueBugs: readonly UniqueBug[] = [
  {
    bug: "the entry of a unique key stays behind when its task ends",
    file: "packages/server/src/core/broker/unique-keys.ts",
    from: "writes.push(...writesOfUnique(name, entry));",
    to: "if (entry !== undefined) writes.push(...writesOfUnique(name, entry));",
    says: /the entry of|has an entry and no task/,
  },
  {
    bug: "a request does not look for the task that has its unique key",
    file: broker,
    from: "const entry = unlessDamaged(() => this.store.unique(name));",
    to: "const entry = undefined;",
    says: /live tasks|the entry of/,
  },
  {
    bug: "a task keeps its payload when a later request replaces it",
    file: broker,
    from: "replaceUnique(task, { ...input, payload }, at)",
    to: "replaceUnique(task, { ...input, payload: undefined }, at)",
    says: /was accepted with \d+, and has \d+/,
  },
];
