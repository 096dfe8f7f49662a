import { logContract } from "../../test/log-contract.ts";
import { MemoryLog } from "./memory-log.ts";

logContract("MemoryLog", async () => {
  const log = new MemoryLog({ writer: 11, epoch: 2 ** 40 + 3, shard: 5 });
  return { log, reopen: async () => log.reopen() };
});
