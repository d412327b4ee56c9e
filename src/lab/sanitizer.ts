import { type IRenderMime, type IRenderMimeRegistry, RenderedText } from '@jupyterlab/rendermime';

import { report } from './features';
import { replaceMethod } from './replacing';

type Sanitize = Pick<IRenderMime.ISanitizer, 'sanitize'>;

/**
 * Replace the method of JupyterLab's shared sanitizer. If that fails, the feature is switched off.
 *
 * @param replace - Returns the replacement, given the sanitizer's own method.
 * @returns The sanitizer's own method. If it has none, one that returns nothing.
 */
export function replaceSanitize(
  shared: IRenderMime.ISanitizer,
  replace: (own: Sanitize) => Sanitize
): Sanitize {
  const { sanitize } = shared as Partial<Sanitize>;
  const own = { sanitize: sanitize?.bind(shared) ?? nothing };
  const by = replace(own);
  report('images', replaceMethod(shared, 'sanitize', by.sanitize.bind(by)));
  return own;
}

/** Set the sanitizer of a notebook's renderers. If that fails, the feature is switched off. */
export function setSanitizer(
  rendermime: IRenderMimeRegistry,
  sanitizer: IRenderMime.ISanitizer
): void {
  try {
    Object.assign(rendermime, { sanitizer });
  } catch {
    // It cannot be assigned in this JupyterLab.
  }
  if (rendermime.sanitizer !== sanitizer) {
    report('images', false);
    showAsText(rendermime);
  }
}

/** MIME types that may load something, and are shown as text if that cannot be blocked. */
const MAY_LOAD = ['text/html', 'text/markdown', 'text/latex', 'image/svg+xml'];

/**
 * Render MIME types that may load something or run scripts as text.
 *
 * This needs JupyterLab's public API only.
 */
export function showAsText(rendermime: IRenderMimeRegistry): void {
  const mimeTypes = rendermime.mimeTypes.filter(
    mime => MAY_LOAD.includes(mime) || rendermime.getFactory(mime)?.safe === false
  );
  mimeTypes.forEach(mime => rendermime.removeMimeType(mime));
  // A low rank, so that plain text is preferred.
  const rank = 1000;
  rendermime.addFactory(
    { safe: true, mimeTypes, createRenderer: options => new RenderedText(options) },
    rank
  );
}

const nothing = (): string => '';
