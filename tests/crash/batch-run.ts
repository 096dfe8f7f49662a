/** `npm run batch-campaign`: kills servers while the members of batches end, and looks at every callback. */
import { parseArgs } from "node:util";
import { etcdBinary } from "../cluster/etcd-binary.ts";
import { campaign } from "./batch-campaign.ts";

const usage = `npm run batch-campaign -- [options]
  --batches N     that end at the same time (40)
  --members N     of each batch (1000)
  --kills N       how many kills, after random numbers of ends (20)
  --cluster       three nodes, whose leader is killed, instead of one server
  --seed TEXT     repeats the numbers
  --help          this text
Ends with 1 when a callback runs early, twice or never, or when a member or its result is lost.`;

const { values } = parseArgs({
  options: {
    batches: { type: "string", default: "40" },
    members: { type: "string", default: "1000" },
    kills: { type: "string", default: "20" },
    cluster: { type: "boolean" },
    seed: { type: "string" },
    help: { type: "boolean" },
  },
});

if (values.help === true) console.log(usage);
else process.exitCode = await main();

async function main(): Promise<number> {
  const etcd = values.cluster === true ? etcdBinary() : undefined;
  if (etcd !== undefined && "missing" in etcd) throw new Error(etcd.missing);
  const { kills, ended, problems } = await campaign({
    batches: Number(values.batches),
    members: Number(values.members),
    kills: Number(values.kills),
    etcd: etcd?.path,
    seed: values.seed,
    tell: console.log,
  });
  for (const problem of problems.slice(0, 20)) console.error(`wrong: ${problem}`);
  if (problems.length === 0) console.log(`${kills} kills, ${ended} ends: every callback is right`);
  return problems.length === 0 ? 0 : 1;
}
