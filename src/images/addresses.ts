/** Addresses that HTML loads as soon as it is shown. */

import { COMMAND, isCommand } from '../lab/commandLinks';
import { works } from '../lab/features';

/** Attributes from which an element loads a resource. */
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
/** Elements whose `href` is a link; all other elements load it. */
const NAVIGATING = new Set(['a', 'area']);

/** Attributes that may be blocked. Unblocking sets no others. */
export const BLOCKABLE: ReadonlySet<string> = new Set([...LOADING, 'href', 'style', COMMAND]);

/** Return whether sanitized HTML may load something, without parsing it. */
export const mayLoad = (clean: string): boolean =>
  works('commands') === false || MAY_LOAD.test(clean);

const MAY_LOAD =
  /(?:src|srcset|poster|background|data|href|style|-command)\s*=|<(?:style|link|base|template)\b/i;

/** Return the attributes of an element that load a resource or run a command. */
export function loadingAttributes(element: Element): string[] {
  const names = NAVIGATING.has(element.localName) ? LOADING : [...LOADING, 'href'];
  const found = element.getAttributeNames().filter(name => names.includes(name) || isCommand(name));
  return loadsByStyle(element.getAttribute('style') ?? '') ? [...found, 'style'] : found;
}

/** Return whether an attribute of a formula loads something. MathJax makes a style of some names, such as of a font. */
export function loadsInMathematics(name: string, value: string): boolean {
  return name === 'src' || (!/^(href|title|data-.*)$/.test(name) && loadsByStyle(value));
}

/** What loads in a style beside `url(…)`. Escapes with a backslash count, since they can hide it. */
const LOADS_OTHERWISE = /src\(|image\(|image-set|@import|\\/i;

function loadsByStyle(style: string): boolean {
  return /url\(/i.test(style) || LOADS_OTHERWISE.test(style);
}

/**
 * Return whether an attribute loads from this server only, or holds its data itself.
 *
 * @param base - The base URL of this server. On a hub, other servers have the same origin.
 * @param page - The URL to which relative addresses are resolved.
 */
export function isFromServer(name: string, value: string, base: URL, page: string): boolean {
  if (isCommand(name)) {
    return false;
  }
  if (name === 'style' && LOADS_OTHERWISE.test(value)) {
    return false;
  }
  return addressesIn(name, value).every(address => isServerAddress(address, base, page));
}

/**
 * Return the addresses in the value of an attribute.
 *
 * In a style, each `url(` has one, also within a string: an address that begins in a string must not
 * hide the one after it.
 */
export function addressesIn(name: string, value: string): string[] {
  if (name === 'style') {
    const loads = /(?:url|src|image|image-set)\((?=\s*(?:"([^"]*)|'([^']*)|([^()"']*)))/gi;
    return [...value.matchAll(loads)].map(([, one, two, three]) =>
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

/** Return the host of an address as it is shown, or the start of the address if it has no host. */
export function hostOf(address: string, page: string): string {
  return parsed(address, page)?.host ?? address.slice(0, 60);
}

function isServerAddress(address: string, base: URL, page: string): boolean {
  const url = parsed(address, page);
  // Other schemes need no server: the page has the data, or JupyterLab resolves them.
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
