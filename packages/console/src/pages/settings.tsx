/** Preferences of this browser, and every setting of the server with its value and source. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { count } from "../format.ts";
import { Nothing, PageHead, Panel } from "../parts/basics.tsx";
import { Choices } from "../parts/fields.tsx";
import { CardTable, type Column, column, title } from "../parts/tables.tsx";
import { payloads, shortcuts, theme, timeMode } from "../preferences.ts";
import { useAnswer } from "../query.ts";
import { session } from "../session.ts";
import { type Store, useStore } from "../store.ts";

type Setting = ItemOf<"GET /admin/settings">;

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
          options={{ "": "As the system", light: "Light", dark: "Dark" }}
        />
        <Preference
          label="Times"
          store={timeMode}
          options={{ relative: "Relative", local: "Local", utc: "UTC" }}
        />
        <Preference
          label="Payloads and results"
          store={payloads}
          options={{ shown: "Shown", hidden: "Hidden" }}
        />
        <Preference
          label="Single-letter shortcuts"
          store={shortcuts}
          options={{ on: "On", off: "Off" }}
        />
      </div>
    </Panel>
  );
}

interface PreferenceProps<T extends string> {
  readonly label: string;
  readonly store: Store<T>;
  readonly options: Readonly<Record<T, string>>;
}

function Preference<T extends string>({ label, store, options }: PreferenceProps<T>): JSX.Element {
  const value = useStore(store);
  return (
    <div class="field">
      <span>{label}</span>
      <Choices label={label} options={options} value={value} onChange={store.set} />
    </div>
  );
}

function ServerSettings(): JSX.Element {
  const who = useStore(session);
  if (who?.role === "operator") return <SettingTable />;
  return (
    <Panel title="Server" id="server">
      <Nothing icon="settings" title="Only operators see the settings of the server">
        <p>
          An operator can print them on the server: <code>codeq config print</code>
        </p>
      </Nothing>
    </Panel>
  );
}

function SettingTable(): JSX.Element {
  const [text, setText] = useState("");
  const { data, error } = useAnswer("settings", callOf("GET /admin/settings"), { everyMs: 0 });
  const wanted = text.trim().toLowerCase();
  const shown = data?.settings.filter(({ key }) => key.toLowerCase().includes(wanted));
  const changed = shown?.filter(({ source }) => source !== "default") ?? [];
  const sorted = shown && [...changed, ...shown.filter(({ source }) => source === "default")];
  return (
    <Panel
      title="Server"
      id="server"
      note={
        shown && `${count(shown.length)} settings, ${count(changed.length)} not at their default`
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
      <CardTable rows={sorted} error={error} id={({ key }) => key} columns={columns} />
    </Panel>
  );
}

const columns: readonly Column<Setting>[] = [
  title("Setting", ({ key }) => <code>{key}</code>),
  title("Value", ({ value }) => <bdi>{value}</bdi>, "full any"),
  {
    ...column("From", ({ source }) => source),
    class: ({ source }) => `full ${source === "default" ? "faint" : ""}`,
  },
];
