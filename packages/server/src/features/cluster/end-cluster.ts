/**
 * Ends a cluster, to go back to a server alone: the logs get their last records, so that every node that has
 * read them has everything, and no node can lead any more.
 */
import { type Operation, refusal } from "../../edge/operation.ts";

export interface EndClusterInput {
  /** Has to be said: nothing is accepted afterwards. */
  readonly isConfirmed: boolean;
}

export const endCluster: Operation<EndClusterInput, { readonly hasEnded: boolean }> = {
  name: "end_cluster",
  access: "operator",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all" },
  run: async ({ cluster }, _call, { isConfirmed }) => {
    if (!isConfirmed) return refusal("invalid_argument", "confirm with 'confirm': true");
    await cluster?.end();
    return { ok: true, value: { hasEnded: cluster !== undefined } };
  },
};
