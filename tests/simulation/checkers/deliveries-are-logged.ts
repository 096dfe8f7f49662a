/** The log of a webhook belongs to a task, and those that were given up are listed, and no others. */
import { decodeDelivery } from "../../../packages/server/src/core/records/delivery-record.ts";
import {
  allUndeliveredPrefix,
  deliveryPrefix,
  undeliveredKey,
} from "../../../packages/server/src/core/store/keys.ts";
import type { MakeChecker } from "./checker.ts";

export const deliveriesAreLogged: MakeChecker = ({ report }) => ({
  looked: ({ keys, tasks }) => {
    const byId = new Map<string, { readonly tenantId: string }>(tasks);
    const expected = new Set<string>();
    for (const [key, value] of keys) {
      if (!key.startsWith(deliveryPrefix)) continue;
      const id = key.slice(deliveryPrefix.length);
      const task = byId.get(id);
      const log = decodeDelivery(value.toString("utf8"));
      if (task === undefined) report(`${key} belongs to no task`);
      if (log === undefined) report(`${key} does not decode`);
      if (task === undefined || log?.state !== "failed") continue;
      type Of = Parameters<typeof undeliveredKey>;
      expected.add(undeliveredKey(task.tenantId as Of[0], log.atMs, id as Of[2]));
    }
    for (const key of expected) if (!keys.has(key)) report(`${key} is missing`);
    for (const key of keys.keys()) {
      if (key.startsWith(allUndeliveredPrefix) && !expected.has(key)) report(`${key} is too much`);
    }
  },
});
