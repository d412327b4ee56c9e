import type { IRenderMime } from '@jupyterlab/rendermime';

import { loadingAttributes } from '../images/addresses';
import { unblock } from '../images/blockingSanitizer';

/**
 * A sanitizer after which HTML loads nothing, since a model can leak data in the address of an image.
 *
 * Images with `data:` addresses are kept, such as Mermaid diagrams. Others are replaced by a note with
 * their address.
 *
 * @param within - The sanitizer that removes scripts and event handlers.
 * @param blocked - Returns the note for an address.
 */
export class LocalSanitizer implements IRenderMime.ISanitizer {
  constructor(
    private readonly _within: IRenderMime.ISanitizer,
    private readonly _blocked: (address: string) => string
  ) {}

  readonly allowNamedProperties = false;
  readonly allowCommandLinker = false;

  getAutolink(): boolean {
    return this._within.getAutolink?.() ?? true;
  }

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    const clean = this._within.sanitize(dirty, options);
    // A document without a window loads and runs nothing.
    const inert = new DOMParser().parseFromString(clean, 'text/html');
    // Restore what the shared sanitizer blocked, to remove it below. Diagrams stay code.
    unblock(inert.body, () => undefined);
    for (const element of inert.body.querySelectorAll('*')) {
      this._localise(element, inert);
    }
    // Submitting a form without an action would reload the page.
    for (const form of inert.body.querySelectorAll('form')) {
      form.replaceWith(...form.childNodes);
    }
    return inert.body.innerHTML;
  }

  private _localise(element: Element, inert: Document): void {
    for (const name of loadingAttributes(element)) {
      const address = element.getAttribute(name) ?? '';
      // An SVG in an `img` runs no scripts and loads nothing.
      const isDiagram = element.localName === 'img' && name === 'src' && SVG.test(address);
      if (name !== 'style' && (isDiagram || isImageData(address) || address.startsWith('#'))) {
        continue;
      }
      if (element.localName === 'img' && name !== 'style') {
        const note = inert.createElement('em');
        note.textContent = this._blocked(address);
        element.replaceWith(note);
        return;
      }
      element.removeAttribute(name);
    }
  }
}

const SVG = /^data:image\/svg\+xml[;,]/i;

function isImageData(address: string): boolean {
  return /^data:image\/(png|jpeg|gif|webp);base64,/i.test(address);
}
