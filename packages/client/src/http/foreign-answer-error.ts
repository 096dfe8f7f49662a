/** The answer is nothing that a codeQ server sends: too long, or not what was asked for. */
export class ForeignAnswerError extends Error {}
