import type { CommandLinker } from '@jupyterlab/apputils';

import { report, works } from './features';

/** The attribute with the command that JupyterLab runs on a click. */
export const COMMAND = 'data-commandlinker-command';
/** The attribute with its arguments. */
export const COMMAND_ARGS = 'data-commandlinker-args';

/** Check whether JupyterLab's linker knows commands by this attribute. */
export function checkCommandLinks(linker: Pick<CommandLinker, 'connectNode'>): void {
  const node = document.createElement('i');
  // The type is that of the installed version; others may differ.
  (linker as Partial<typeof linker> | undefined)?.connectNode?.(node, 'tk', {});
  report('commands', node.hasAttribute(COMMAND));
}

/** Return whether an attribute may run a command: any `data-` attribute if it is not known which. */
export function isCommand(attribute: string): boolean {
  return attribute === COMMAND || (works('commands') === false && attribute.startsWith('data-'));
}
