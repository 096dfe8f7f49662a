/**
 * The environment in which tests build programs in Go. Nobody measures or debugs these programs, so the compiler is
 * spared what makes them fast or easy to debug; a first build, which compiles the standard library too, takes
 * about 40 % less CPU time.
 */
const flags = [
  process.env["GOFLAGS"] ?? "",
  // What the examples leave out: pages with traces of grpc-go, and the second HTTP/2 of net/http.
  "-tags=grpcnotrace,nethttpomithttp2",
  "'-gcflags=all=-N -l -dwarf=false'",
  "'-ldflags=-s -w'",
];

export const goEnvironment: NodeJS.ProcessEnv = {
  ...process.env,
  CGO_ENABLED: "0",
  // The compiler is a short-lived process that may take a few hundred megabytes.
  GOGC: "400",
  GOFLAGS: flags.join(" ").trim(),
};
