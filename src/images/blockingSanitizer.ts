import type { IRenderMime } from '@jupyterlab/rendermime';

import { COMMAND, COMMAND_ARGS } from '../lab/commandLinks';
import { REPLACED } from '../lab/mermaid';
import { addressesIn, BLOCKABLE, isFromServer, loadingAttributes, mayLoad } from './addresses';

/** The custom element at the end of HTML in which something is blocked. */
export const MARKER = 'tk-ai-blocked';
/** Prefix of the name of a blocked attribute. */
const BLOCKED_PREFIX = 'data-tk-blocked-';
/** Marks elements with blocked attributes. */
const IS_BLOCKED = 'data-tk-blocked';
/** Prefixes of diagrams and commands in a list of blocked addresses. */
export const DIAGRAM_LABEL = 'diagram:';
export const COMMAND_LABEL = 'command:';

/**
 * A sanitizer that blocks what HTML loads from other hosts, until `unblock` is called.
 *
 * Attributes that load from other hosts are renamed. A marker element at the end notifies the page
 * once it is attached. What is never attached stays blocked.
 *
 * @param within - The sanitizer that removes scripts and event handlers.
 * @param base - The base URL of the server.
 * @param of - The name of the notebook, which is put into the marker.
 */
export class BlockingSanitizer implements IRenderMime.ISanitizer {
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
    // A document without a window loads and runs nothing.
    const inert = new DOMParser().parseFromString(clean, 'text/html');
    if (!block(inert.body, this._base)) {
      return clean;
    }
    const marker = inert.createElement(MARKER);
    marker.hidden = true;
    marker.dataset['of'] = this.of;
    inert.body.append(marker);
    return inert.body.innerHTML;
  }
}

/** Rename the attributes that load from other hosts. Return whether there were any. */
export function block(root: Element, base: URL): boolean {
  let any = root.querySelector(`.${REPLACED}`) !== null;
  for (const element of root.querySelectorAll('*')) {
    for (const name of loadingAttributes(element)) {
      const value = element.getAttribute(name) ?? '';
      if (!isFromServer(name, value, base, document.baseURI)) {
        element.removeAttribute(name);
        element.setAttribute(BLOCKED_PREFIX + name, value);
        element.setAttribute(IS_BLOCKED, '');
        any = true;
      }
    }
  }
  return any;
}

/**
 * Restore all blocked attributes in an element, and remove the markers.
 *
 * @param draw - Renders a diagram in place of its code.
 * @param resolver - Resolves paths of files, as JupyterLab does for attributes that are not blocked.
 */
export function unblock(
  root: Element,
  draw: (code: Element) => void,
  resolver: IRenderMime.IResolver | null = null
): void {
  for (const element of root.querySelectorAll(`[${IS_BLOCKED}]`)) {
    for (const [name, value] of blockedAttributes(element)) {
      element.removeAttribute(BLOCKED_PREFIX + name);
      if (name === 'src' && resolver?.isLocal?.(value) === true) {
        void resolved(value, resolver).then(address => element.setAttribute(name, address));
      } else {
        element.setAttribute(name, value);
      }
    }
    element.removeAttribute(IS_BLOCKED);
  }
  for (const code of root.querySelectorAll(`.${REPLACED}`)) {
    code.classList.remove(REPLACED);
    draw(code);
  }
  root.querySelectorAll(MARKER).forEach(marker => marker.remove());
}

/** Return the URL of a file by its path relative to the notebook. */
async function resolved(value: string, resolver: IRenderMime.IResolver): Promise<string> {
  const [path = ''] = value.split(/[?#]/);
  return resolver.getDownloadUrl(await resolver.resolveUrl(path));
}

/** Return the blocked addresses in an element, with its diagrams and commands. */
export function blockedAddresses(root: Element): string[] {
  const diagrams = [...root.querySelectorAll(`.${REPLACED}`)].map(({ textContent }) => [
    ...(textContent.match(/(?:https?:)?\/\/[^\s"'<>()]+/g) ?? []),
    DIAGRAM_LABEL + textContent
  ]);
  const attributes = [...root.querySelectorAll(`[${IS_BLOCKED}]`)].flatMap(element =>
    blockedAttributes(element).flatMap(([name, value]) => {
      if (name === COMMAND) {
        return [`${COMMAND_LABEL}${value} ${element.getAttribute(COMMAND_ARGS) ?? ''}`];
      }
      const found = addressesIn(name, value);
      return found.length > 0 ? found : [value];
    })
  );
  return [...attributes, ...diagrams.flat()];
}

function blockedAttributes(element: Element): [string, string][] {
  return [...element.attributes]
    .filter(({ name }) => name.startsWith(BLOCKED_PREFIX))
    .map(({ name, value }): [string, string] => [name.slice(BLOCKED_PREFIX.length), value])
    .filter(([name]) => BLOCKABLE.has(name));
}
