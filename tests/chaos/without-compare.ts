/** Loaded into nodes to show that a campaign can fail: records are written without the compare of the head. */
import { etcdMethods } from "../../packages/engine/src/log/replicated/etcd/etcd-client.ts";

const method = etcdMethods.txn as { write: typeof etcdMethods.txn.write };
const { write } = method;
method.write = (request, writer) => {
  const isAppend = request.success.length === 2 && request.compare.length === 2;
  write(isAppend ? { ...request, compare: request.compare.slice(0, 1) } : request, writer);
};
