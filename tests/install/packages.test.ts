/** The packages as tarballs: what a registry asks of them. */
import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { publishedFolders, repositoryInEnvironment } from "../../scripts/package-tarball.ts";
import { packedPackages, repository, tarballIn } from "../built-once.ts";
import { temporaryDirectory } from "../e2e/server-process.ts";

const run = promisify(execFile);

function emptyFolder(t: TestContext): string {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  return directory.path;
}

for (const folder of publishedFolders) {
  test(`${folder} can be published with a statement of where it comes from`, async (t) => {
    const out = emptyFolder(t);
    const tarball = tarballIn(await packedPackages(), folder);
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
