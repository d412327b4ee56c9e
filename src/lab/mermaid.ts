import type { IMermaidManager } from '@jupyterlab/mermaid';

/**
 * Replace how JupyterLab draws some diagrams.
 *
 * @param replacement - What is shown for a text; null where it is drawn as ever.
 * @returns Draws a text as JupyterLab does.
 */
export function replaceDiagrams(
  manager: IMermaidManager,
  replacement: (text: string) => HTMLElement | null
): (text: string) => Promise<HTMLElement> {
  const figure = manager.renderFigure.bind(manager);
  const cached = manager.getCachedFigure.bind(manager);
  manager.renderFigure = text => {
    const shown = replacement(text);
    return shown === null ? figure(text) : Promise.resolve(shown);
  };
  manager.getCachedFigure = text => replacement(text) ?? cached(text);
  return figure;
}
