import type { TranslationBundle } from '@jupyterlab/translation';

import type { Feature } from '../features';

/** Return the message for a feature that is switched off: the fallback. */
export function sentence(feature: Feature, trans: TranslationBundle): string {
  switch (feature) {
    case 'trust':
      return trans.__('Outputs are shown as text: trust cannot be withdrawn from a cell.');
    case 'quiet-trust':
      return trans.__('The outputs of a trusted cell are rendered again when an agent runs it.');
    case 'images':
      return trans.__(
        'All images from other hosts are blocked: they cannot be blocked one by one.'
      );
    case 'diagrams':
      return trans.__('All images from other hosts are blocked: diagrams cannot be blocked alone.');
    case 'commands':
      return trans.__('Buttons in outputs do not run commands.');
    case 'tabs':
      return trans.__('Agents edit notebook files, not open tabs.');
    case 'prompts':
      return trans.__('Prompts do not show the cells that an agent runs.');
    case 'controls':
      return trans.__('Marks and buttons are at the end of a cell.');
    case 'looks':
      return trans.__('Marks and buttons at cells may look different.');
    case 'dragging':
      return trans.__('Files and cells cannot be dragged to the chat.');
    case 'width':
      return trans.__('The chat panel keeps its first width.');
    case 'rooms':
      return trans.__('Changes by agents are not shown in this shared notebook.');
  }
}
