/** `audit`, `workers` and `tenants`: who did what, who works, and for whom. */
import { type ItemOf, tenants as tenantsOf } from "@codeq/client/command-line";
import { asker, showAll } from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { printable } from "../../terminal/style.ts";
import type { Column } from "../../terminal/table.ts";
import { count, localMoment, momentOr } from "../../terminal/units.ts";

const limitDefault = 50;
const limitMax = 1_000_000;

const ofAudit: readonly Column<ItemOf<"GET /admin/audit">>[] = [
  { title: "TIME", show: ({ time }) => localMoment(time) },
  { title: "ACTION", show: ({ action }) => action },
  { title: "OUTCOME", show: ({ outcome, code }) => code ?? outcome },
  { title: "TIMES", align: "right", show: ({ count: times = 1 }) => count(times) },
  { title: "WHO", show: ({ subject = "" }) => printable(subject) },
  { title: "TARGET", show: ({ target = "" }) => printable(target) },
  { title: "DETAIL", show: ({ detail = "" }) => printable(detail) },
];

export function audit(call: Call): Promise<void> {
  const { options } = call;
  const query = {
    from: options.instant("from"),
    to: options.instant("to"),
    action: options.text("action"),
    outcome: options.text("outcome"),
  };
  const limit = options.wholeNumber("limit", { min: 1, max: limitMax }) ?? limitDefault;
  const none = "no audit records match";
  return showAll(call, "GET /admin/audit", { columns: ofAudit, none, query, limit, isLines: true });
}

const ofWorkers: readonly Column<ItemOf<"GET /admin/workers">>[] = [
  { title: "WORKER", show: ({ workerId }) => printable(workerId) },
  { title: "LEASES", align: "right", show: ({ leases }) => count(leases) },
  { title: "STREAMS", align: "right", show: ({ streams }) => count(streams) },
  { title: "OLDEST LEASE", show: ({ oldestLeaseAt }) => momentOr(oldestLeaseAt, "-") },
  { title: "LAST SEEN", show: ({ lastSeenAt }) => momentOr(lastSeenAt, "-") },
  { title: "CLIENT", show: ({ client = "-" }) => printable(client) },
];

export function workers(call: Call): Promise<void> {
  const none = "no worker holds a lease or has a stream open";
  return showAll(call, "GET /admin/workers", { columns: ofWorkers, none });
}

export async function tenants(call: Call): Promise<void> {
  const found: string[] = [];
  for await (const each of tenantsOf(asker(call))) found.push(each);
  if (call.json) call.printJson({ tenants: found });
  else call.print(found.length === 0 ? "no tenant has tasks" : found.join("\n"));
}
