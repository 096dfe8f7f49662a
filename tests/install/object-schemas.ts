/**
 * Reads what Kubernetes and Docker Compose would read, as strictly as they do: an unknown field or a value of the
 * wrong type is an error. The schemas are those that wheels of PyPI carry.
 */
import { readFileSync } from "node:fs";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { parseDocument } from "../../packages/server/src/exports/config/index.ts";
import { wheelFile } from "../wheel-program.ts";

const wheels = {
  kubernetes: {
    wheel: "kubernetes-validate",
    version: "1.37.0",
    file: "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict/_definitions.json",
  },
  compose: {
    wheel: "check-jsonschema",
    version: "0.39.0",
    file: "check_jsonschema/builtin_schemas/vendor/compose-spec.json",
  },
};

/** Where the schema is, or why it cannot be had. */
export function schemaOf(
  what: keyof typeof wheels,
): { readonly path: string } | { readonly missing: string } {
  return wheelFile(wheels[what]);
}

/** Reads YAML; gives the kind and the name of each object, and throws for what Kubernetes would refuse. */
export function objectReader(schemaPath: string): (text: string) => string[] {
  const { $defs } = JSON.parse(readFileSync(schemaPath, "utf8")) as { $defs: Definitions };
  const ajv = new Ajv2020(lenient);
  ajv.addSchema({ $id: definitions, $defs: { ...$defs, ...quantities } });
  const readObject = (text: string): string[] => {
    // Kubernetes reads YAML 1.1, in which a bare `on` is a boolean.
    const object = read(text, { version: "1.1" }) as KubernetesObject | null;
    if (object === null) return [];
    const { apiVersion, kind, metadata } = object;
    const isKind = ({ "x-kubernetes-group-version-kind": kinds = [] }: Definition): boolean =>
      kinds.some((each) => each.kind === kind && apiVersionOf(each) === apiVersion);
    const name = Object.keys($defs).find((each) => isKind($defs[each] ?? {}));
    if (name === undefined) throw new Error(`Kubernetes has no ${kind} in ${apiVersion}`);
    check(ajv.getSchema(`${definitions}#/$defs/${name}`), object);
    return [`${kind} ${metadata.name}`];
  };
  return (text) => text.split(/^---$/m).flatMap(readObject);
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes?: Readonly<Record<string, unknown>>;
  readonly configs?: Readonly<Record<string, { readonly content: string }>>;
}

interface Service {
  readonly environment: Readonly<Record<string, string>>;
  readonly depends_on?: readonly string[];
  readonly volumes?: readonly string[];
  readonly configs?: readonly { readonly source: string }[];
  readonly [field: string]: unknown;
}

/** Reads a compose file and puts its variables in; throws for what Compose would refuse. */
export function composeReader(schemaPath: string): (text: string, env: Variables) => ComposeFile {
  const isCompose = new Ajv2020(lenient).compile(JSON.parse(readFileSync(schemaPath, "utf8")));
  return (text, env) => {
    const putIn = (_key: string, value: unknown): unknown =>
      typeof value === "string" ? withVariables(value, env) : value;
    const file = JSON.parse(JSON.stringify(read(text, { merge: true })), putIn);
    check(isCompose, file);
    checkReferences(file);
    return file;
  };
}

function checkReferences({ services, volumes = {}, configs = {} }: ComposeFile): void {
  for (const [name, service] of Object.entries(services)) {
    const mounted = (service.volumes ?? []).map((each) => each.split(":")[0] ?? "");
    const references = [
      [services, service.depends_on ?? []],
      [volumes, mounted.filter((each) => /^\w/.test(each))],
      [configs, (service.configs ?? []).map(({ source }) => source)],
    ] as const;
    for (const [defined, used] of references) {
      const unknown = used.find((each) => !Object.hasOwn(defined, each));
      if (unknown !== undefined) throw new Error(`${name} refers to ${unknown}, not defined`);
    }
  }
}

interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

interface Definition {
  readonly "x-kubernetes-group-version-kind"?: readonly GroupVersionKind[];
}

type Variables = Readonly<Record<string, string | undefined>>;
type Definitions = Readonly<Record<string, Definition>>;

const definitions = "/api/_definitions.json";
/** The schema allows any text. */
const quantities = {
  "io.k8s.apimachinery.pkg.api.resource.Quantity": {
    type: ["string", "number"],
    pattern: "^[+-]?(\\d+\\.?\\d*|\\.\\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\\d+)?$",
  },
};

/** The schemas have keywords and formats of their own. */
const lenient = { strict: false, validateFormats: false, allErrors: true } as const;

function apiVersionOf({ group, version }: GroupVersionKind): string {
  return group === "" ? version : `${group}/${version}`;
}

function read(text: string, options: Parameters<typeof parseDocument>[1]): unknown {
  const document = parseDocument(text, options);
  const [error] = document.errors;
  if (error !== undefined) throw error;
  return document.toJS();
}

function check(validate: ValidateFunction | undefined, value: unknown): void {
  if (validate?.(value)) return;
  const errors = (validate?.errors ?? []).map(({ instancePath, message, params }) =>
    [instancePath, message, ...Object.values(params)].join(" "),
  );
  throw new Error(errors.join("\n"));
}

/** As Compose does: $NAME, ${NAME}, ${NAME:-default}, ${NAME:?what is missing}; $$ is a dollar. */
function withVariables(text: string, env: Variables): string {
  const form = /\$(?:(\$)|(\w+)|\{(\w+)(?::([-?])([^}]*))?\})/g;
  const other = text.replaceAll(form, "").match(/\$\{[^}]*/)?.[0];
  if (other !== undefined) throw new Error(`${other}} is a form that this test does not know`);
  return text.replaceAll(form, (_all, dollar, bare, braced, sign, rest) => {
    if (dollar !== undefined) return "$";
    const value = env[bare ?? braced] ?? "";
    if (value === "" && sign === "?") throw new Error(`${braced} is missing: ${rest}`);
    return value === "" && sign === "-" ? rest : value;
  });
}
