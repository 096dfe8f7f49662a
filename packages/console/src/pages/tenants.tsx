/** All tenants that have tasks, for operators: choose one to look at. */
import type { JSX } from "preact";
import { tenant } from "../api.ts";
import { plural } from "../format.ts";
import { useTenants } from "../model/server.ts";
import { Nothing, Pending } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
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
  return (
    <>
      <PageHead
        title="Tenants"
        about={
          <>
            {plural(data.tenants.length, "tenant has", "tenants have")} tasks. Everything else on
            these pages is of one tenant.
          </>
        }
      />
      <section class="panel" aria-label="Tenants">
        {data.tenants.length === 0 ? (
          <Nothing icon="tenants" title="No tenant has tasks" />
        ) : (
          <ul class="list">
            {data.tenants.map((name) => (
              <li key={name}>
                <Icon name="tenants" />
                <b>
                  <bdi>{name}</bdi>
                </b>
                <button
                  class="btn sm"
                  type="button"
                  aria-label={`Open ${name}`}
                  disabled={name === chosen}
                  onClick={() => {
                    chooseTenant(name);
                    navigate(href(""));
                  }}
                >
                  {name === chosen ? "Shown" : "Open"}
                </button>
              </li>
            ))}
          </ul>
        )}
      </section>
    </>
  );
}
