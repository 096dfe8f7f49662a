/** The settings of this server and the source of each. Secrets are not shown. */
import { type DescribedKey, describeConfig } from "../../config/describe.ts";
import type { Operation } from "../../edge/operation.ts";

export const listSettings: Operation<undefined, readonly DescribedKey[]> = {
  name: "list_settings",
  access: "operator",
  scope: undefined,
  audit: { of: "other tenants" },
  run: ({ config }) => ({ ok: true, value: describeConfig(config) }),
};
