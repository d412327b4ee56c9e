import type { IRenderMime } from '@jupyterlab/rendermime';

import { COMMAND, COMMAND_ARGS } from '../lab/commandLinks';
import { REPLACED } from '../lab/mermaid';
import { addressesIn, HOLDABLE, isOwn, loading, mayLoad } from './addresses';

/** The element that stands at the end of HTML in which something is held. */
export const MARKER = 'tk-ai-held';
/** What a held attribute is called meanwhile. */
const HELD = 'data-tk-held-';
/** Elements with held attributes. */
const IS_HELD = 'data-tk-held';
/** What the code of a diagram begins with among addresses, and a command. */
export const DIAGRAM = 'diagram:';
export const RUNS = 'command:';

/**
 * A sanitizer after which nothing is loaded from elsewhere until somebody lets it go.
 *
 * Attributes that load from elsewhere are kept under other names, and a marker at the end tells the
 * page, once it is there, that something is held. In what is never shown it is never let go.
 *
 * @param within - What takes scripts and handlers out.
 * @param base - The server's own address.
 * @param of - Whose HTML it is, told by the marker.
 */
export class HoldingSanitizer implements IRenderMime.ISanitizer {
  constructor(
    private readonly _within: IRenderMime.ISanitizer,
    private readonly _base: URL,
    readonly of: string
  ) {}

  get allowNamedProperties(): boolean {
    return this._within.allowNamedProperties ?? false;
  }

  get allowCommandLinker(): boolean {
    return this._within.allowCommandLinker ?? false;
  }

  getAutolink(): boolean {
    return this._within.getAutolink?.() ?? true;
  }

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    const clean = this._within.sanitize(dirty, options);
    if (!mayLoad(clean) && !clean.includes(REPLACED)) {
      return clean;
    }
    // A document without a window: nothing in it is loaded or run.
    const inert = new DOMParser().parseFromString(clean, 'text/html');
    if (!hold(inert.body, this._base)) {
      return clean;
    }
    const marker = inert.createElement(MARKER);
    marker.hidden = true;
    marker.dataset['of'] = this.of;
    inert.body.append(marker);
    return inert.body.innerHTML;
  }
}

/** Renames what would load from elsewhere; returns whether there was anything. */
export function hold(root: Element, base: URL): boolean {
  let any = root.querySelector(`.${REPLACED}`) !== null;
  for (const element of root.querySelectorAll('*')) {
    for (const name of loading(element)) {
      const value = element.getAttribute(name) ?? '';
      if (!isOwn(name, value, base, document.baseURI)) {
        element.removeAttribute(name);
        element.setAttribute(HELD + name, value);
        element.setAttribute(IS_HELD, '');
        any = true;
      }
    }
  }
  return any;
}

/**
 * Lets all go that is held in an element, and takes the markers out.
 *
 * @param draw - Draws a diagram in place of its code.
 * @param resolver - Finds files: what JupyterLab resolves after rendering was not there then.
 */
export function letGo(
  root: Element,
  draw: (code: Element) => void,
  resolver: IRenderMime.IResolver | null = null
): void {
  for (const element of root.querySelectorAll(`[${IS_HELD}]`)) {
    for (const [name, value] of heldIn(element)) {
      element.removeAttribute(HELD + name);
      if (name === 'src' && resolver?.isLocal?.(value) === true) {
        void resolved(value, resolver).then(address => element.setAttribute(name, address));
      } else {
        element.setAttribute(name, value);
      }
    }
    element.removeAttribute(IS_HELD);
  }
  for (const code of root.querySelectorAll(`.${REPLACED}`)) {
    code.classList.remove(REPLACED);
    draw(code);
  }
  root.querySelectorAll(MARKER).forEach(marker => marker.remove());
}

/** Where a file is that is named by its way from the notebook. */
async function resolved(value: string, resolver: IRenderMime.IResolver): Promise<string> {
  const [path = ''] = value.split(/[?#]/);
  return resolver.getDownloadUrl(await resolver.resolveUrl(path));
}

/** The addresses that are held in an element, the diagrams, and the commands. */
export function addressesHeld(root: Element): string[] {
  const diagrams = [...root.querySelectorAll(`.${REPLACED}`)].map(({ textContent }) => [
    ...(textContent.match(/(?:https?:)?\/\/[^\s"'<>()]+/g) ?? []),
    DIAGRAM + textContent
  ]);
  const attributes = [...root.querySelectorAll(`[${IS_HELD}]`)].flatMap(element =>
    heldIn(element).flatMap(([name, value]) => {
      if (name === COMMAND) {
        return [`${RUNS}${value} ${element.getAttribute(COMMAND_ARGS) ?? ''}`];
      }
      const found = addressesIn(name, value);
      return found.length > 0 ? found : [value];
    })
  );
  return [...attributes, ...diagrams.flat()];
}

function heldIn(element: Element): [string, string][] {
  return [...element.attributes]
    .filter(({ name }) => name.startsWith(HELD))
    .map(({ name, value }): [string, string] => [name.slice(HELD.length), value])
    .filter(([name]) => HOLDABLE.has(name));
}
