/**
 * What a tenant is said to have stored is what it has: the sizes of all payloads and results, as each
 * task says for itself, in memory and, once nothing is under way, in the store.
 */
import { payloadKey, storedBytesKey } from "../../../packages/server/src/core/store/keys.ts";
import { resultBodiesOf } from "../store-view.ts";
import type { MakeChecker } from "./checker.ts";

export const storedBytes: MakeChecker = ({ report }) => ({
  looked: ({ core, keys, tasks, isSettled }) => {
    const sizeOf = (text: string | undefined): number => Buffer.byteLength(text ?? "");
    const totals = new Map(["acme", "globex", "initech"].map((tenant) => [tenant, 0]));
    for (const task of tasks.values()) {
      let size = sizeOf(task.payload) + (keys.get(payloadKey(task.id))?.length ?? 0);
      for (const { json, artifacts } of resultBodiesOf(keys, task)) {
        size += sizeOf(json);
        for (const { name, url, bytes = 0 } of artifacts) {
          size += sizeOf(name) + sizeOf(url) + bytes;
        }
      }
      if (size !== task.storedBytes) {
        report(`${task.id} says that it has ${task.storedBytes} bytes of ${size}`);
      }
      totals.set(task.tenantId, (totals.get(task.tenantId) ?? 0) + size);
    }
    for (const [tenant, total] of totals) {
      const counted = core.store.storedBytes(tenant as never);
      if (counted !== total) report(`${tenant} is said to have ${counted} bytes of ${total}`);
      const written = Number(keys.get(storedBytesKey(tenant as never))?.toString() ?? 0);
      if (isSettled && written !== total) report(`${tenant} has ${total} bytes, not ${written}`);
    }
  },
});
