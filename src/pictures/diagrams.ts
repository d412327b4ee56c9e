import { type IMermaidManager, MERMAID_CLASS } from '@jupyterlab/mermaid';

import { REPLACED, replaceDiagrams } from '../lab/mermaid';
import { MARKER } from './holding';

/**
 * What a diagram needs to load something: an address, what refers to one, tags other than those of
 * simple text, what hides them (a backslash), and what parts a word and is taken out (`%%{…}%%`).
 */
const MAY_LOAD =
  /url|src|image|img|@import|\/\/|\\|(?:https?|ftp):|\S[ \t]*%%\{|<(?!\/?(?:br|b|i|u|em|strong|sub|sup|small|code)\s*\/?>)[a-z!]/i;

/**
 * Mermaid's diagrams, of which those that may load something are held, too.
 *
 * A diagram is shown as a picture in which nothing is loaded, but Mermaid makes it in the page
 * itself, where everything is. Who made a text is known only once its code is shown.
 */
export class Diagrams {
  constructor(manager: IMermaidManager) {
    this._figure = replaceDiagrams(manager, text => (this._isHeld(text) ? codeOf(text) : null));
  }

  /** Draws a diagram that is let go in place of its code. */
  readonly draw = (code: Element): void => {
    const text = code.textContent;
    this._free.add(text);
    // The element is in a view that may show something else by then.
    void this._figure?.(text).then(figure =>
      code.replaceWith(...figure.cloneNode(true).childNodes)
    );
  };

  private _isHeld(text: string): boolean {
    return MAY_LOAD.test(text) && !this._free.has(text);
  }

  private readonly _free = new Set<string>();
  private readonly _figure: ((text: string) => Promise<HTMLElement>) | undefined;
}

/** A diagram's code; by the marker it is known where it is not sanitized. */
function codeOf(text: string): HTMLElement {
  const code = document.createElement('code');
  code.textContent = text;
  const pre = document.createElement('pre');
  pre.append(code);
  const held = document.createElement('div');
  held.className = REPLACED;
  held.append(pre);
  const marker = document.createElement(MARKER);
  marker.hidden = true;
  const figure = document.createElement('div');
  figure.className = MERMAID_CLASS;
  figure.append(held, marker);
  return figure;
}
