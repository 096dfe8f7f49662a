/** No request meets a bug: whatever happens, the answer is one that the operation foresees. */
import type { MakeChecker } from "./checker.ts";

export const noInternalError: MakeChecker = ({ report }) => ({
  answered: ({ verb, number, answer }) => {
    if (!answer.ok && answer.code === "internal") report(`${verb} ${number} failed inside`);
  },
});
