import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { clusterMembers, clusterProblems, clusterWarnings } from "./cluster.ts";
import type { Settings } from "./settings.ts";

const three = {
  bodyBytesMax: 6 * 1024 * 1024,
  clusterMembers: "a=10.0.0.1:7000, b=10.0.0.2:7000,c=[::1]:7000",
  nodeId: "b",
  clusterSecret: "x".repeat(32),
  clusterSecretOther: "",
  clusterBootstrap: "",
  clusterLogBytes: 1024 ** 3,
  clusterTlsCertFile: "",
  clusterTlsKeyFile: "",
  clusterTlsCaFile: "",
  etcdUrls: "",
  etcdHeartbeatMs: 100,
  etcdElectionMs: 1000,
  clusterUrls: "",
} as Settings;

describe("the settings of a cluster", () => {
  test("name the nodes and where they are", () => {
    assert.deepEqual(clusterProblems(three), []);
    assert.deepEqual(clusterMembers(three), [
      { id: "a", address: "10.0.0.1:7000" },
      { id: "b", address: "10.0.0.2:7000" },
      { id: "c", address: "[::1]:7000" },
    ]);
  });

  test("say what is missing", () => {
    const problems = clusterProblems({ ...three, nodeId: "", clusterSecret: "" });
    assert.equal(problems.length, 2);
    assert.match(problems[0] ?? "", /^nodeId: is missing; clusterMembers has a, b, c/);
    assert.match(problems[1] ?? "", /^clusterSecret: required in a cluster/);
    assert.match(clusterProblems({ ...three, nodeId: "d" })[0] ?? "", /d is not among them/);
  });

  test("refuse two nodes, and nodes with one name or address", () => {
    const twoNodes = "a=10.0.0.1:7000,b=10.0.0.2:7000";
    assert.match(
      clusterProblems({ ...three, clusterMembers: twoNodes })[0] ?? "",
      /a majority needs 3/,
    );
    const four = `${three.clusterMembers},d=10.0.0.4:7000`;
    assert.deepEqual(clusterProblems({ ...three, clusterMembers: four }), []);
    const twins = "a=10.0.0.1:7000,a=10.0.0.2:7000,b=10.0.0.3:7000";
    assert.match(clusterProblems({ ...three, clusterMembers: twins })[0] ?? "", /of its own/);
  });

  test("refuse requests that the log servers would not take", () => {
    const [problem = ""] = clusterProblems({ ...three, bodyBytesMax: 6 * 1024 * 1024 + 1 });
    assert.match(problem, /^bodyBytesMax: 6291457 is too much.*6291456 or less.*artifacts/);
    const alone = { ...three, clusterMembers: "", clusterSecret: "", nodeId: "" };
    assert.deepEqual(clusterProblems({ ...alone, bodyBytesMax: 1024 ** 3 }), []);
  });

  test("refuse a node that begins and is none, and too short an election", () => {
    const [unknown = ""] = clusterProblems({ ...three, clusterBootstrap: "x" });
    assert.match(unknown, /^clusterBootstrap: x is not among clusterMembers \(a, b, c\)/);
    const [short = ""] = clusterProblems({ ...three, etcdElectionMs: 499 });
    assert.match(short, /^etcdElectionMs: has to be 500 or more/);
  });

  test("warn in production when the log servers are reached without encryption", () => {
    const urls = "https://10.0.0.1:2379,http://10.0.0.2:2379";
    assert.match(
      clusterWarnings({ env: "prod", etcdUrls: urls })[0] ?? "",
      /^etcdUrls: http sends/,
    );
    assert.deepEqual(clusterWarnings({ env: "dev", etcdUrls: urls }), []);
    assert.deepEqual(clusterWarnings({ env: "prod", etcdUrls: "https://10.0.0.1:2379" }), []);
  });

  test("mean nothing without nodes", () => {
    const alone = { ...three, clusterMembers: "", clusterSecret: "", nodeId: "" };
    assert.deepEqual(clusterProblems(alone), []);
    assert.match(clusterProblems({ ...alone, nodeId: "a" })[0] ?? "", /^nodeId: is for a cluster/);
  });

  test("need certificate, key and CA for TLS between nodes, or none of them", () => {
    const tls = { clusterTlsCertFile: "a.crt", clusterTlsKeyFile: "a.key" };
    const [problem = ""] = clusterProblems({ ...three, ...tls });
    assert.match(problem, /^clusterTlsCaFile: TLS between nodes needs certificate, key and CA/);
    assert.deepEqual(clusterProblems({ ...three, ...tls, clusterTlsCaFile: "ca.crt" }), []);
  });
});
