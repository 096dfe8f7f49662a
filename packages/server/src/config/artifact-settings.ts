/** The settings of artifacts: where they are stored, and their limits. */
import { choice, text, trueOrFalse } from "./parsers.ts";
import { bytes, count, type SettingRow, seconds } from "./setting-row.ts";
import type { ArtifactSettings } from "./settings.ts";

const gibibyte = 1024 * 1024 * 1024;
const url = text({
  accepts: "a URL with http or https",
  example: "https://queue.example.com",
  test: (value) => /^https?:\/\/[^\s?#]+$/.test(value) && URL.canParse(value),
});

export const artifactSettings: {
  readonly [K in keyof ArtifactSettings]: SettingRow<ArtifactSettings[K]>;
} = {
  artifactProvider: {
    parser: choice(["local", "s3"]),
    initial: "local",
    about:
      "Where artifacts are kept: `local` in localArtifactsDir, `s3` in an S3-compatible store.",
  },
  localArtifactsDir: {
    env: ["LOCAL_ARTIFACTS_DIR"],
    parser: text({ accepts: "a directory", example: "./data" }),
    initial: "",
    initialInWords: "`artifacts` under dataDir",
    about: "Directory for the artifacts of results.",
  },
  externalUrl: {
    parser: url,
    initial: "",
    initialInWords: "none: URLs of artifacts are paths below the server's address",
    about: "How clients reach the HTTP API; the URLs of artifacts begin with it.",
  },
  artifactBytesMax: {
    ...bytes(1, 5 * 1024 * gibibyte, gibibyte),
    about: "Largest artifact.",
  },
  artifactUploadsMax: {
    ...count(1, 10_000, 32),
    about:
      "Maximum number of artifacts that are uploaded at the same time, of which one tenant can have at most half; further uploads are refused for a moment. As many files inside of results are stored at the same time; further ones wait up to 10 seconds.",
  },
  artifactSweepSeconds: {
    ...seconds(0, 366 * 86_400, 6 * 3600),
    about:
      "How often the server looks for files that no result names and whose task has ended; 0 looks for them only at start.",
  },
  s3Endpoint: {
    parser: url,
    initial: "",
    initialInWords: "that of AWS for the region",
    about: "URL of the S3-compatible store.",
  },
  s3Region: {
    env: ["AWS_REGION", "AWS_DEFAULT_REGION"],
    parser: text({ accepts: "a region", example: "eu-central-1" }),
    initial: "us-east-1",
    about: "Region of the bucket.",
  },
  s3Bucket: {
    parser: text({
      accepts: "the name of a bucket",
      example: "codeq-artifacts",
      test: (value) => /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(value),
    }),
    initial: "",
    initialInWords: "none; required when artifactProvider is `s3`",
    about: "Bucket for the artifacts.",
  },
  s3Prefix: {
    parser: text({
      accepts: "text that a key can begin with",
      example: "codeq/",
      test: (value) => /^[A-Za-z0-9/_.-]{1,200}$/.test(value) && !value.startsWith("/"),
    }),
    initial: "codeq/",
    about: "What the keys of the objects begin with.",
  },
  s3PathStyle: {
    parser: trueOrFalse,
    initial: false,
    about: "Whether the bucket stands in the path of the URL, as many stores beside AWS want it.",
  },
  s3AccessKeyId: {
    env: ["AWS_ACCESS_KEY_ID"],
    parser: text({ accepts: "non-empty text", example: "AKIA..." }),
    initial: "",
    initialInWords: "none; required when artifactProvider is `s3`",
    about: "Whose key signs the requests to the store.",
  },
  s3SecretAccessKey: {
    env: ["AWS_SECRET_ACCESS_KEY"],
    parser: text({ accepts: "non-empty text", example: "..." }),
    initial: "",
    initialInWords: "none; required when artifactProvider is `s3`",
    secret: true,
    about: "The key itself.",
  },
  s3SessionToken: {
    env: ["AWS_SESSION_TOKEN"],
    parser: text({ accepts: "non-empty text", example: "..." }),
    initial: "",
    initialInWords: "none",
    secret: true,
    about: "The token that belongs to temporary keys.",
  },
  s3Redirect: {
    parser: trueOrFalse,
    initial: true,
    about:
      "Whether a download is redirected to the store with a URL that is valid for five minutes; otherwise the server passes the content on.",
  },
};
