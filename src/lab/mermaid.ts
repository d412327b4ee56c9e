import type { IMermaidManager } from '@jupyterlab/mermaid';

import { report } from './features';
import { replaceMethod } from './replacing';

/** The CSS class of the replacement of a diagram. */
export const REPLACED = 'tk-BlockedDiagram';

/**
 * Replace the rendering of some diagrams.
 *
 * If the manager has other methods, the feature is switched off.
 *
 * @param replacement - Returns what is shown for a text; null to render the diagram.
 * @returns JupyterLab's own method; undefined if it has none.
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
