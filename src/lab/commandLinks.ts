import type { CommandLinker } from '@jupyterlab/apputils';

import { report, works } from './features';

/** JupyterLab runs this command when somebody presses the element. */
export const COMMAND = 'data-commandlinker-command';
/** With these arguments. */
export const COMMAND_ARGS = 'data-commandlinker-args';

/** Look whether JupyterLab's linker knows commands by this attribute. */
export function checkCommandLinks(linker: Pick<CommandLinker, 'connectNode'>): void {
  const node = document.createElement('i');
  // Typed as it is now; another version may have it elsewhere.
  (linker as Partial<typeof linker> | undefined)?.connectNode?.(node, 'tk', {});
  report('commands', node.hasAttribute(COMMAND));
}

/** Whether an attribute may run a command: any that scripts read, where it is not known which does. */
export function isCommand(attribute: string): boolean {
  return attribute === COMMAND || (works('commands') === false && attribute.startsWith('data-'));
}
