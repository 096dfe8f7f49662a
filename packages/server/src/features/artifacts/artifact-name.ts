/** Valid names of artifacts: one path segment that is valid on every system and in every store. */
import { limits } from "@codeq/protocol";

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const unsafe = /[/\\\u0000-\u001f\u007f]/;
/** Windows takes them for devices, whatever follows behind a dot. */
const device = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;

/** What is wrong with a name; undefined when nothing is. */
export function problemOfName(name: string): string | undefined {
  const max = limits.artifactNameCharsMax;
  if (Buffer.byteLength(name) > max) return `the name has over ${max} bytes`;
  const isPlain = name !== "" && name !== "." && name !== ".." && !unsafe.test(name);
  if (!isPlain || !name.isWellFormed()) return "the name must be a plain file name";
  if (device.test(name) || /[. ]$/.test(name))
    return "the name means something else on some systems";
  return undefined;
}
