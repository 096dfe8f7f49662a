/** Copies a shard from another node to a node that is new or too far behind. */
import {
  assertSameLog,
  installSnapshot,
  isInstalling,
  type Kv,
  type SharedLog,
} from "@codeq/engine";
import { Store } from "../core/store/store.ts";
import type { ReplicaOpening } from "./cluster-node.ts";

interface InstallParts extends Pick<ReplicaOpening, "copy"> {
  readonly kv: Kv;
  readonly shared: SharedLog;
}

/**
 * Does nothing when the log goes back to where the kv is. Throws `corrupt` when the kv comes from another log, since
 * a copy would take the place of data that may be the only one.
 */
export async function install({ kv, shared, copy }: InstallParts): Promise<void> {
  assertSameLog(kv, shared.logId);
  const { first } = await shared.bounds();
  if (!isInstalling(kv) && first <= Store.slotOf(kv) + 1) return;
  await installSnapshot(kv, shared.logId, copy);
}
