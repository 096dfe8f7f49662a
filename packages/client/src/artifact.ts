/** Files that belong to results. */

/** A file that a result names. */
export interface Artifact {
  readonly name: string;
  /** Where it is: below the server's address unless the server knows how it is reached. */
  readonly url: string;
  /** Of a file that the server keeps; a link has none of these. */
  readonly bytes?: number;
  /** The hash of the content, in hexadecimal digits. */
  readonly sha256?: string;
  readonly contentType?: string;
}

/** A file that a result names, and how to read it. */
export interface RunArtifact extends Artifact {
  /** The content, piece by piece. Rejects for a link, which the server does not keep. */
  stream(): Promise<ReadableStream<Uint8Array>>;
  /** All of the content. */
  content(): Promise<Buffer>;
}

/** What a file is made of: text, bytes, or a stream of bytes. */
export type ArtifactContent = string | Uint8Array | AsyncIterable<Uint8Array>;
