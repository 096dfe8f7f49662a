/** The artifacts of a result: what there is, and how to get it. */
import type { JSX } from "preact";
import { apiHeaders, curlOf, urlOf } from "../api.ts";
import { bytes, plural } from "../format.ts";
import { saveBlob } from "../model/download.ts";
import { type InspectedTask, taskPath } from "../model/tasks.ts";
import { Given, Panel } from "../parts/basics.tsx";
import { copyText } from "../parts/code-box.tsx";
import { Icon } from "../parts/icon.tsx";
import { tell, tellProblem } from "../toasts.tsx";

type Artifact = NonNullable<NonNullable<InspectedTask["result"]>["artifacts"]>[number];

/** Larger files would have to fit into the memory of the page. */
const savedBytesMax = 256 * 1024 * 1024;

export function TaskFiles({
  id,
  artifacts,
}: {
  readonly id: string;
  readonly artifacts: readonly Artifact[];
}): JSX.Element {
  return (
    <Panel title="Artifacts" id="artifacts" note={plural(artifacts.length, "file")}>
      <ul class="list">
        {artifacts.map((artifact) => (
          <ArtifactLine key={artifact.name} id={id} artifact={artifact} />
        ))}
      </ul>
    </Panel>
  );
}

function ArtifactLine({
  id,
  artifact,
}: {
  readonly id: string;
  readonly artifact: Artifact;
}): JSX.Element {
  const { name, url, contentType } = artifact;
  const fileUrl = urlOf({ path: taskPath(id, `/artifacts/${encodeURIComponent(name)}`) });
  const isOurs = artifact.sha256 !== undefined;
  const isSmall = (artifact.bytes ?? 0) <= savedBytesMax;
  return (
    <li>
      <Icon name="download" />
      <span class="trunc">
        <b>
          <Given text={name} max={200} />
        </b>{" "}
        <span class="faint">
          {artifact.bytes === undefined ? null : bytes(artifact.bytes)}{" "}
          <Given text={contentType ?? ""} max={100} />
        </span>
      </span>
      {isOurs && isSmall ? (
        <button
          class="btn sm"
          type="button"
          aria-label={`Download ${name}`}
          onClick={() => void save(fileUrl, name)}
        >
          Download
        </button>
      ) : (
        <button
          class="btn sm"
          type="button"
          onClick={() => copyText(isOurs ? getFile(fileUrl, name) : url)}
        >
          {isOurs ? "Copy as curl" : "Copy link"}
        </button>
      )}
      {isOurs ? null : (
        <span class="sub">
          <Given text={url} max={200} />
        </span>
      )}
    </li>
  );
}

function getFile(url: string, name: string): string {
  const file = `'${name.replaceAll("'", "'\\''")}'`;
  return `${curlOf({ method: "GET", url, body: undefined })} \\\n  -L -o ${file}`;
}

/** The browser follows a link to object storage only outside of the page. */
async function save(url: string, name: string): Promise<void> {
  try {
    const init = { headers: apiHeaders(), credentials: "same-origin", redirect: "manual" } as const;
    const reply = await fetch(url, init);
    if (reply.type === "opaqueredirect") {
      copyText(getFile(url, name), "The file is in object storage; copied the command to get it");
      return;
    }
    if (!reply.ok) throw new Error(`The file could not be read (${reply.status})`);
    saveBlob(name, await reply.blob());
    tell(`Saved ${name.slice(0, 100)}`);
  } catch (error) {
    tellProblem(error);
  }
}
