/** All tenants that have tasks; an operator chooses one. */
import type { JSX } from "preact";
import { tenant } from "../api.ts";
import { plural } from "../format.ts";
import { useTenants } from "../model/server.ts";
import { Line, List, Nothing, PageHead, Pending } from "../parts/basics.tsx";
import { Button } from "../parts/buttons.tsx";
import { forgetAll } from "../query.ts";
import { href, navigate } from "../router.ts";
import { keep, useStore } from "../store.ts";

export function chooseTenant(name: string): void {
  keep("tenant", name);
  tenant.set(name);
  forgetAll();
}

export function Tenants(): JSX.Element {
  const chosen = useStore(tenant);
  const { data, error } = useTenants(true);
  if (data === undefined) return <Pending error={error} />;
  const open = (name: string): void => {
    chooseTenant(name);
    navigate(href(""));
  };
  return (
    <>
      <PageHead
        title="Tenants"
        about={`${plural(data.tenants.length, "tenant has", "tenants have")} tasks. Everything else on these pages is of one tenant.`}
      />
      <section class="panel" aria-label="Tenants">
        <List rows={data.tenants} nothing={<Nothing icon="tenants" title="No tenant has tasks" />}>
          {(name) => (
            <Line
              key={name}
              icon="tenants"
              action={
                <Button
                  class="sm"
                  aria-label={`Open ${name}`}
                  disabled={name === chosen}
                  onClick={() => open(name)}
                >
                  {name === chosen ? "Shown" : "Open"}
                </Button>
              }
            >
              <b>
                <bdi>{name}</bdi>
              </b>
            </Line>
          )}
        </List>
      </section>
    </>
  );
}
