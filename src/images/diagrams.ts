import { type IMermaidManager, MERMAID_CLASS } from '@jupyterlab/mermaid';

import { REPLACED, replaceDiagrams } from '../lab/mermaid';
import { MARKER } from './blockingSanitizer';

/**
 * Syntax with which a diagram may load something: addresses, references to them, tags other than
 * simple formatting, escapes that hide them (a backslash), and directives (`%%{…}%%`) that split words.
 */
const MAY_LOAD =
  /url|src|image|img|@import|\/\/|\\|(?:https?|ftp):|\S[ \t]*%%\{|<(?!\/?(?:br|b|i|u|em|strong|sub|sup|small|code)\s*\/?>)[a-z!]/i;

/**
 * Replaces Mermaid diagrams that may load something by their code.
 *
 * The rendered image loads nothing, but Mermaid lays it out in the page, where everything loads. The
 * author of a diagram is known only once its code is attached.
 */
export class DiagramBlocker {
  constructor(manager: IMermaidManager) {
    this._figure = replaceDiagrams(manager, text =>
      this._isBlocked(text) ? placeholderFor(text) : null
    );
  }

  /** Render an unblocked diagram in place of its code. */
  readonly draw = (code: Element): void => {
    const text = code.textContent;
    this._allowed.add(text);
    // The view may show something else by then.
    void this._figure?.(text).then(figure =>
      code.replaceWith(...figure.cloneNode(true).childNodes)
    );
  };

  private _isBlocked(text: string): boolean {
    return MAY_LOAD.test(text) && !this._allowed.has(text);
  }

  private readonly _allowed = new Set<string>();
  private readonly _figure: ((text: string) => Promise<HTMLElement>) | undefined;
}

/** Return the code of a diagram with a marker, since outputs of this type are not sanitized. */
function placeholderFor(text: string): HTMLElement {
  const code = document.createElement('code');
  code.textContent = text;
  const pre = document.createElement('pre');
  pre.append(code);
  const placeholder = document.createElement('div');
  placeholder.className = REPLACED;
  placeholder.append(pre);
  const marker = document.createElement(MARKER);
  marker.hidden = true;
  const figure = document.createElement('div');
  figure.className = MERMAID_CLASS;
  figure.append(placeholder, marker);
  return figure;
}
