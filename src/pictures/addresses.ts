/** What of HTML is loaded from an address as soon as it is shown, and from where. */

import { COMMAND, isCommand } from '../lab/commandLinks';
import { works } from '../lab/features';

/** Attributes by which an element loads something. */
const LOADING = [
  'src',
  'srcset',
  'imagesrcset',
  'poster',
  'background',
  'data',
  'lowsrc',
  'dynsrc',
  'xlink:href'
];
/** Elements whose `href` a person follows; every other one loads it. */
const NAVIGATING = new Set(['a', 'area']);

/** All attributes that may be held, and nothing else may be set by letting go. */
export const HOLDABLE: ReadonlySet<string> = new Set([...LOADING, 'href', 'style', COMMAND]);

/** Whether text that was cleaned may load something, told without reading it as HTML. */
export const mayLoad = (clean: string): boolean =>
  works('commands') === false || MAY_LOAD.test(clean);

const MAY_LOAD =
  /(?:src|srcset|poster|background|data|href|style|-command)\s*=|<(?:style|link|base|template)\b/i;

/** The attributes of an element that load something, say how it looks by doing so, or run a command. */
export function loading(element: Element): string[] {
  const names = NAVIGATING.has(element.localName) ? LOADING : [...LOADING, 'href'];
  const found = element.getAttributeNames().filter(name => names.includes(name) || isCommand(name));
  return loadsByStyle(element.getAttribute('style') ?? '') ? [...found, 'style'] : found;
}

/** Whether a style loads something. A backslash may hide what does. */
function loadsByStyle(style: string): boolean {
  return /url\(|src\(|image\(|image-set|@import|\\/i.test(style);
}

/**
 * Whether all that an attribute loads comes from this server, or is in the attribute itself.
 *
 * @param base - The address of this server: on a hub, others have theirs beside it.
 * @param page - What relative addresses are relative to.
 */
export function isOwn(name: string, value: string, base: URL, page: string): boolean {
  if (isCommand(name)) {
    return false;
  }
  if (name === 'style' && /\\|image(?:-set)?\(|src\(|@import/i.test(value)) {
    // What is no plain `url(…)` is not read here.
    return false;
  }
  return addressesIn(name, value).every(address => isOwnAddress(address, base, page));
}

/** The addresses in the value of an attribute that loads. */
export function addressesIn(name: string, value: string): string[] {
  if (name === 'style') {
    const quoted = /(?:url|src|image|image-set)\(\s*(?:"([^"]*)"|'([^']*)'|([^)]*))/gi;
    return [...value.matchAll(quoted)].map(([, one, two, three]) =>
      (one ?? two ?? three ?? '').trim()
    );
  }
  if (name.endsWith('srcset')) {
    return value
      .split(/,\s+|,(?=https?:|\/\/)/i)
      .map(each => each.trim().split(/\s+/)[0] ?? '')
      .filter(each => each !== '');
  }
  return [value];
}

/** What a person is told of where something is loaded from: the host, else the address itself. */
export function hostOf(address: string, page: string): string {
  return parsed(address, page)?.host ?? address.slice(0, 60);
}

function isOwnAddress(address: string, base: URL, page: string): boolean {
  const url = parsed(address, page);
  // Other schemes are no server's: what is in the page, and what JupyterLab itself looks up.
  return (
    url !== null &&
    (!/^(https?|ftp|wss?|file):$/.test(url.protocol) ||
      (url.origin === base.origin && url.pathname.startsWith(base.pathname)))
  );
}

function parsed(address: string, page: string): URL | null {
  try {
    return new URL(address, page);
  } catch {
    return null;
  }
}
