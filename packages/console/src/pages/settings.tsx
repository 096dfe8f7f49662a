/** Every setting of the server with its value and where that comes from, and what this browser remembers. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../api.ts";
import { count } from "../format.ts";
import { Choices, Nothing, Panel, Pending } from "../parts/basics.tsx";
import { CardTable } from "../parts/card-table.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { payloads, shortcuts, theme, timeMode } from "../preferences.ts";
import { useQuery } from "../query.ts";
import { session } from "../session.ts";
import { useStore } from "../store.ts";

interface Setting {
  readonly key: string;
  readonly value: string;
  readonly source: string;
}

export function Settings(): JSX.Element {
  return (
    <>
      <PageHead
        title="Settings"
        about="Settings of the server are read when it starts; change them in its file, environment or flags."
      />
      <Preferences />
      <ServerSettings />
    </>
  );
}

function Preferences(): JSX.Element {
  return (
    <Panel title="This browser" id="browser">
      <div class="panel-body prefs">
        <Preference
          label="Theme"
          store={theme}
          options={[
            ["", "As the system"],
            ["light", "Light"],
            ["dark", "Dark"],
          ]}
        />
        <Preference
          label="Times"
          store={timeMode}
          options={[
            ["relative", "Relative"],
            ["local", "Local"],
            ["utc", "UTC"],
          ]}
        />
        <Preference
          label="Payloads and results"
          store={payloads}
          options={[
            ["shown", "Shown"],
            ["hidden", "Hidden"],
          ]}
        />
        <Preference
          label="Shortcuts of single letters"
          store={shortcuts}
          options={[
            ["on", "On"],
            ["off", "Off"],
          ]}
        />
      </div>
    </Panel>
  );
}

interface PreferenceProps<T extends string> {
  readonly label: string;
  readonly store: { get(): T; set(value: T): void; subscribe(run: () => void): () => void };
  readonly options: readonly (readonly [T, string])[];
}

function Preference<T extends string>({ label, store, options }: PreferenceProps<T>): JSX.Element {
  const value = useStore(store);
  return (
    <div class="field">
      <span>{label}</span>
      <Choices label={label} options={options} value={value} onChange={(next) => store.set(next)} />
    </div>
  );
}

function ServerSettings(): JSX.Element {
  const who = useStore(session);
  if (who?.role !== "operator") {
    return (
      <Panel title="Server" id="server">
        <Nothing icon="settings" title="Only operators see the settings of the server">
          <p>
            Whoever runs the server can print them: <code>codeq config print</code>
          </p>
        </Nothing>
      </Panel>
    );
  }
  return <SettingTable />;
}

function SettingTable(): JSX.Element {
  const [text, setText] = useState("");
  const load = (): Promise<{ settings: Setting[] }> => ask({ path: "/v1/codeq/admin/settings" });
  const { data, error } = useQuery("settings", load, { everyMs: 0 });
  const wanted = text.trim().toLowerCase();
  const shown = (data?.settings ?? []).filter(({ key }) => key.toLowerCase().includes(wanted));
  const changed = shown.filter(({ source }) => source !== "default");
  const sorted = [...changed, ...shown.filter(({ source }) => source === "default")];
  return (
    <Panel
      title="Server"
      id="server"
      note={
        data === undefined
          ? undefined
          : `${count(shown.length)} settings, ${count(changed.length)} not at their default`
      }
      actions={
        <label>
          <span class="sr">Filter settings</span>
          <input
            class="input"
            placeholder="Filter"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
      }
    >
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <CardTable heads={["Setting", "Value", "From"]}>
          {sorted.map(({ key, value, source }) => (
            <tr key={key} data-row="">
              <td class="full name">
                <code>{key}</code>
              </td>
              <td class="full value">
                <bdi>{value}</bdi>
              </td>
              <td class={`full ${source === "default" ? "faint" : ""}`} data-l="From">
                {source}
              </td>
            </tr>
          ))}
        </CardTable>
      )}
    </Panel>
  );
}
