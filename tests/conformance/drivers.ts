/** The drivers: one program for each language, how to start it, and why it cannot be started here. */
import { join } from "node:path";
import { goConformanceDriver } from "../clients/go-tools.ts";
import { pythonClientSources, pythonClientTools } from "../clients/python-tools.ts";
import { root } from "../e2e/server-process.ts";
import type { DriverCommand } from "./driver-process.ts";

export interface Driver {
  readonly language: string;
  /** What its library can do beyond the others; see `needs` of scenarios. */
  readonly can: readonly string[];
  readonly prepare: () => Promise<DriverCommand | { readonly missing: string }>;
}

export const drivers: readonly Driver[] = [
  {
    language: "TypeScript",
    can: [],
    prepare: async () => ({
      command: process.execPath,
      args: ["--conditions=source", join(root, "tests/conformance/driver.ts")],
    }),
  },
  {
    language: "Python",
    can: ["keeps-leases-while-blocked"],
    prepare: async () => {
      const tools = await pythonClientTools();
      if ("missing" in tools) return tools;
      return {
        command: tools.path,
        args: [join(root, "tests/conformance/driver.py")],
        env: { PYTHONPATH: pythonClientSources },
      };
    },
  },
  {
    language: "Go",
    can: ["keeps-leases-while-blocked"],
    prepare: async () => {
      const built = goConformanceDriver();
      return "missing" in built ? built : { command: built.path, args: [] };
    },
  },
];
