/** The settings that this server runs with, and where each comes from. Secrets are not told. */
import { type DescribedKey, describeConfig } from "../config/describe.ts";
import type { Operation } from "./operation.ts";

export const listSettings: Operation<undefined, readonly DescribedKey[]> = {
  name: "list_settings",
  access: "operator",
  scope: undefined,
  audit: { of: "other tenants" },
  run: ({ config }) => ({ ok: true, value: describeConfig(config) }),
};
