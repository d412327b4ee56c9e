import type { IMermaidManager } from '@jupyterlab/mermaid';

import { report } from './features';
import { replaceMethod } from './replacing';

/** The class of what is shown in place of a diagram that is not drawn. */
export const REPLACED = 'tk-BlockedDiagram';

/**
 * Replace how JupyterLab draws some diagrams.
 *
 * Where the manager has other methods, the feature is switched off.
 *
 * @param replacement - What is shown for a text; null where it is drawn as ever.
 * @returns Draws a text as JupyterLab does; undefined where it has no such method.
 */
export function replaceDiagrams(
  manager: IMermaidManager,
  replacement: (text: string) => HTMLElement | null
): ((text: string) => Promise<HTMLElement>) | undefined {
  const own = manager as Partial<IMermaidManager>;
  const figure = own.renderFigure?.bind(manager);
  const cached = own.getCachedFigure?.bind(manager);
  const isReplaced = [
    replaceMethod(own, 'renderFigure', async text => replacement(text) ?? (figure as Draw)(text)),
    replaceMethod(own, 'getCachedFigure', text => replacement(text) ?? cached?.(text) ?? null)
  ];
  report('diagrams', isReplaced.every(Boolean));
  return figure;
}

type Draw = IMermaidManager['renderFigure'];
