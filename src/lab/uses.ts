import { insertIntoCell } from './cellLayout';
import { hasMethods, noteWritten, replaceMethods } from './context';
import { onSwitchedOff, report, switchedOff, works } from './features';
import { REPLACED } from './mermaid';
import { setPrompt } from './prompts';
import { setSanitizer } from './sanitizer';
import { RIGHT_SIDEBAR } from './sidebar';
import { emitUntrusted, withdrawTrust } from './trust';

/**
 * Functions that the self-test checks and calls.
 *
 * They are passed to its chunk as an argument: a module that two chunks import is not inlined.
 */
export const uses = {
  ...{ onSwitchedOff, report, switchedOff, works },
  ...{ emitUntrusted, withdrawTrust },
  ...{ hasMethods, noteWritten, replaceMethods },
  ...{ insertIntoCell, setPrompt, setSanitizer },
  ...{ REPLACED, RIGHT_SIDEBAR }
};

export type Uses = typeof uses;
