/**
 * Outputs as results of the server, which have to be JSON objects. An object goes as it is, so that
 * other clients find what the handler returned. Anything else is put into an object with one key,
 * and so is an object that could be mistaken for that, or for no output at all.
 */
const wrapper = "$value";
const wrapped = `{"${wrapper}":`;

/** Empty for no output. */
export function outputToJson(output: unknown): string {
  const json = JSON.stringify(output);
  if (json === undefined) return "";
  const isPlain = json.startsWith("{") && json !== "{}" && !json.startsWith(wrapped);
  return isPlain ? json : `${wrapped}${json}}`;
}

export function outputFromJson(json: string): unknown {
  if (json === "") return undefined;
  const value = JSON.parse(json) as Record<string, unknown>;
  const keys = Object.keys(value);
  if (keys.length === 0) return undefined;
  return keys.length === 1 && keys[0] === wrapper ? value[wrapper] : value;
}
