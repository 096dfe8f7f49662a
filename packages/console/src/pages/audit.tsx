/** The audit trail: actions of administrators, and refused callers. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { count } from "../format.ts";
import { Badge, Given, Nothing, PageHead, Time } from "../parts/basics.tsx";
import { Button } from "../parts/buttons.tsx";
import { Choices } from "../parts/fields.tsx";
import { CardTable, type Column, column, title } from "../parts/tables.tsx";
import { useAnswer } from "../query.ts";

type AuditRecord = ItemOf<"GET /admin/audit">;

export function Audit(): JSX.Element {
  const [outcome, setOutcome] = useState<"" | "ok" | "refused">("");
  const [after, setAfter] = useState("");
  const query = { limit: 100, outcome: outcome || undefined, after };
  const { data, error } = useAnswer("audit", callOf("GET /admin/audit", { query }), {
    everyMs: 10_000,
  });
  return (
    <>
      <PageHead
        title="Audit"
        about="What administrators did, and callers that were refused. Newest first."
      />
      <div class="row wrap">
        <Choices
          label="Outcome"
          large
          options={{ "": "All", ok: "Done", refused: "Refused" }}
          value={outcome}
          onChange={(next) => {
            setOutcome(next);
            setAfter("");
          }}
        />
      </div>
      <section class="panel" aria-label="Audit records">
        <CardTable
          rows={data?.records}
          error={error}
          nothing={<Nothing icon="audit" title="No records" />}
          id={({ id }) => id}
          columns={columns}
        />
        <div class="panel-foot sub row wrap">
          {after === "" ? null : (
            <Button class="sm" onClick={() => setAfter("")}>
              Newest
            </Button>
          )}
          {data?.next === undefined ? null : (
            <Button class="sm" onClick={() => setAfter(data.next ?? "")}>
              Older
            </Button>
          )}
        </div>
      </section>
    </>
  );
}

const columns: readonly Column<AuditRecord>[] = [
  column("When", ({ time }) => <Time at={time} />, "nowrap"),
  column("Who", ({ subject }) => <Given text={subject ?? "unknown"} max={80} />),
  column(
    "Action",
    (record) => (
      <>
        <b>{record.action.replaceAll("_", " ")}</b>
        {record.count === undefined ? null : <span class="faint"> ×{count(record.count)}</span>}
      </>
    ),
    "nowrap",
  ),
  title(
    "Target",
    ({ target, detail }) => <Given text={[target, detail].filter(Boolean).join(" · ")} max={200} />,
    "full any",
  ),
  column("Outcome", ({ outcome, code }) =>
    outcome === "ok" ? (
      <Badge tone="done" icon="done">
        Done
      </Badge>
    ) : (
      <Badge tone="warn" icon="block">
        {code ?? outcome}
      </Badge>
    ),
  ),
  column("From", ({ address }) => address, "faint"),
];
