/** The packages as tarballs: what a registry asks of them, and the page that installs them. */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import {
  packPackage,
  publishedFolders,
  repositoryInEnvironment,
} from "../../scripts/package-tarball.ts";
import { temporaryDirectory } from "../e2e/server-process.ts";
import { runBlocks } from "./page-blocks.ts";

const run = promisify(execFile);

function emptyFolder(t: TestContext): string {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  return directory.path;
}

const repository = "git+https://git.example.com/codeq/codeq.git";

for (const folder of publishedFolders) {
  test(`${folder} can be published with a statement of where it comes from`, async (t) => {
    const out = emptyFolder(t);
    const tarball = packPackage(folder, out, { repository });
    const read = (name: string): string =>
      execFileSync("tar", ["-xzOf", tarball, `package/${name}`], { encoding: "utf8" });
    const manifest = JSON.parse(read("package.json"));
    assert.deepEqual(manifest.repository, {
      type: "git",
      url: repository,
      directory: `packages/${folder}`,
    });
    assert.deepEqual(manifest.publishConfig, { access: "public", provenance: true });
    for (const field of ["description", "license", "keywords", "engines", "exports"]) {
      assert.ok(manifest[field] !== undefined, `${folder} has no ${field}`);
    }
    assert.equal(manifest.private, undefined);
    assert.match(read("LICENSE"), /MIT License/);
    assert.ok(read("README.md").length > 0);
    // npm looks at the tarball as it does before it sends one.
    const words = ["publish", "--dry-run", "--provenance=false", "--json", tarball];
    const { stdout } = await run("npm", words, { cwd: out });
    assert.match(stdout, new RegExp(`"name": "@codeq/${folder}"`));
  });
}

test("a build server names the repository, and nobody else does", () => {
  const env = { GITHUB_SERVER_URL: "https://git.example.com", GITHUB_REPOSITORY: "codeq/codeq" };
  assert.equal(repositoryInEnvironment(env), repository);
  assert.equal(
    repositoryInEnvironment({ GITHUB_SERVER_URL: "https://git.example.com" }),
    undefined,
  );
  assert.equal(repositoryInEnvironment({}), undefined);
});

test("the commands of the page install the tarballs, and codeq runs", async (t) => {
  const cache = spawnSync("npm", ["config", "get", "cache"], { encoding: "utf8" }).stdout.trim();
  const directory = emptyFolder(t);
  const env = { ...process.env, npm_config_cache: cache, npm_config_prefer_offline: "true" };
  const startedMs = performance.now();
  const printed = await runBlocks("sh tarballs", directory, env);
  t.diagnostic(`it took ${Math.round(performance.now() - startedMs)} ms`);
  assert.match(printed.at(-1) ?? "", /^codeq \d+\.\d+\.\d+ \(Node /m);
});
