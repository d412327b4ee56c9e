import type { IRenderMime } from '@jupyterlab/rendermime';

import { loadingAttributes } from '../images/addresses';
import { unblock } from '../images/blockingSanitizer';

/**
 * A sanitizer after which nothing is loaded from anywhere: what a model writes may carry data away
 * in the address of a picture.
 *
 * Pictures that are part of the text (`data:`) stay, as Mermaid's diagrams are; others become a note
 * with their address.
 *
 * @param within - what takes scripts and handlers out.
 * @param blocked - the words for a picture of this address.
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
    // A document without a window: nothing in it is loaded or run.
    const inert = new DOMParser().parseFromString(clean, 'text/html');
    // What notebooks only hold is taken out here; diagrams stay as code.
    unblock(inert.body, () => undefined);
    for (const element of inert.body.querySelectorAll('*')) {
      this._localise(element, inert);
    }
    // A form without an address would load the page anew.
    for (const form of inert.body.querySelectorAll('form')) {
      form.replaceWith(...form.childNodes);
    }
    return inert.body.innerHTML;
  }

  private _localise(element: Element, inert: Document): void {
    for (const name of loadingAttributes(element)) {
      const address = element.getAttribute(name) ?? '';
      // As an image, an SVG runs no script and loads nothing.
      const isDiagram = element.localName === 'img' && name === 'src' && SVG.test(address);
      if (name !== 'style' && (isDiagram || isPicture(address) || address.startsWith('#'))) {
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

function isPicture(address: string): boolean {
  return /^data:image\/(png|jpeg|gif|webp);base64,/i.test(address);
}
