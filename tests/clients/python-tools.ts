/** Python with the packages that the Python client needs and is checked with, in a folder that is kept for later runs. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { pythonPackages } from "../api/python-tools.ts";
import { root } from "../e2e/server-process.ts";

/** Where Python finds the client itself, as it is in this checkout. */
export const pythonClientSources: string = join(root, "clients/python/src");

const packages = [
  ...["grpcio==1.85.1", "protobuf==7.36.2", "pydantic==2.14.3"],
  ...["opentelemetry-api==1.45.2", "opentelemetry-sdk==1.45.2"],
  ...["mypy==2.4.1", "ruff==0.17.5", "pytest==9.2.0"],
  ...["types-grpcio==1.85.0.20261028", "types-protobuf==7.35.1.20260906"],
];

const fingerprint = createHash("sha256").update(packages.join(" ")).digest("hex").slice(0, 12);

/** The interpreter, or why there is none. */
export async function pythonClientTools(): Promise<{ path: string } | { missing: string }> {
  const got = await pythonPackages(`codeq-client-${fingerprint}`, packages);
  return "missing" in got ? got : { path: join(got.path, "python") };
}
