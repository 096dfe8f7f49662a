/**
 * `npm run bench -- <subject> [options]`: measures a part of the server on this machine. A subject is
 * a file beside this one that is added to the table below.
 */
import { engineBench, engineHelp } from "./engine-bench.ts";
import { httpBench, httpHelp } from "./http-bench.ts";

interface Subject {
  readonly help: string;
  readonly run: (args: readonly string[]) => Promise<void>;
}

const subjects: Record<string, Subject> = {
  engine: { help: engineHelp, run: engineBench },
  http: { help: httpHelp, run: httpBench },
};

function help(): string {
  const texts = Object.entries(subjects).map(([name, subject]) => `  ${name}  ${subject.help}`);
  return `Usage: npm run bench -- <subject> [options]\n\n${texts.join("\n")}`;
}

const [name = "--help", ...args] = process.argv.slice(2);
const subject = subjects[name];
if (name === "--help" || args.includes("--help")) {
  console.log(help());
} else if (subject === undefined) {
  console.error(`error: there is nothing called ${name} to measure\n\n${help()}`);
  process.exitCode = 1;
} else {
  await subject.run(args);
}
