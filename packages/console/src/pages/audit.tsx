/** Who did what, and who was refused. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, tenant } from "../api.ts";
import { count } from "../format.ts";
import { Choices, Given, Nothing, Pending, Time } from "../parts/basics.tsx";
import { CardTable } from "../parts/card-table.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { useQuery } from "../query.ts";
import { useStore } from "../store.ts";

interface AuditRecord {
  readonly id: string;
  readonly time: string;
  readonly action: string;
  readonly outcome: string;
  readonly target?: string;
  readonly detail?: string;
  readonly code?: string;
  readonly tenantId?: string;
  readonly subject?: string;
  readonly address?: string;
  readonly count?: number;
}

interface Page {
  readonly records: readonly AuditRecord[];
  readonly next?: string;
}

export function Audit(): JSX.Element {
  const of = useStore(tenant);
  const [outcome, setOutcome] = useState("");
  const [after, setAfter] = useState("");
  const load = (): Promise<Page> =>
    ask({ path: "/v1/codeq/admin/audit", query: { limit: "100", outcome, after } });
  const { data, error } = useQuery(`audit:${of}:${outcome}:${after}`, load, { everyMs: 10_000 });
  return (
    <>
      <PageHead
        title="Audit"
        about="What administrators did, and callers that were refused. Newest first."
      />
      <div class="listbar">
        <Choices
          label="Outcome"
          large
          options={[
            ["", "All"],
            ["ok", "Done"],
            ["refused", "Refused"],
          ]}
          value={outcome}
          onChange={(next) => {
            setOutcome(next);
            setAfter("");
          }}
        />
      </div>
      <section class="panel" aria-label="Audit records">
        {data === undefined ? (
          <Pending error={error} />
        ) : data.records.length === 0 ? (
          <Nothing icon="audit" title="No records" />
        ) : (
          <Records records={data.records} />
        )}
        <div class="panel-foot">
          {after === "" ? null : (
            <button class="btn sm" type="button" onClick={() => setAfter("")}>
              Newest
            </button>
          )}
          {data?.next === undefined ? null : (
            <button class="btn sm" type="button" onClick={() => setAfter(data.next ?? "")}>
              Older
            </button>
          )}
        </div>
      </section>
    </>
  );
}

function Records({ records }: { readonly records: readonly AuditRecord[] }): JSX.Element {
  return (
    <CardTable heads={["When", "Who", "Action", "Target", "Outcome", "From"]}>
      {records.map((record) => (
        <tr key={record.id} data-row="">
          <td class="nowrap" data-l="When">
            <Time at={record.time} />
          </td>
          <td data-l="Who">
            <Given text={record.subject ?? "unknown"} max={80} />
          </td>
          <td class="nowrap" data-l="Action">
            <b>{record.action.replaceAll("_", " ")}</b>
            {record.count === undefined ? null : <span class="faint"> ×{count(record.count)}</span>}
          </td>
          <td class="full any">
            <Given text={[record.target, record.detail].filter(Boolean).join(" · ")} max={200} />
          </td>
          <td data-l="Outcome">
            <span class={`st ${record.outcome === "ok" ? "st-done" : "st-warn"}`}>
              <Icon name={record.outcome === "ok" ? "done" : "block"} small />
              {record.outcome === "ok" ? "Done" : (record.code ?? record.outcome)}
            </span>
          </td>
          <td class="faint" data-l="From">
            {record.address}
          </td>
        </tr>
      ))}
    </CardTable>
  );
}
