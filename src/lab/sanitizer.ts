import { type IRenderMime, type IRenderMimeRegistry, RenderedText } from '@jupyterlab/rendermime';

import { report } from './features';
import { replaceMethod } from './replacing';

type Sanitize = Pick<IRenderMime.ISanitizer, 'sanitize'>;

/**
 * Replace how JupyterLab's one sanitizer works; where that cannot be, the feature is switched off.
 *
 * @param replace - Makes the replacement of the sanitizer's own way.
 * @returns Its own way, by which nothing is shown where it has none.
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

/** Give a notebook's renderers a sanitizer; where that cannot be, the feature is switched off. */
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

/** What may load something, and is shown as text where it cannot be blocked. */
const MAY_LOAD = ['text/html', 'text/markdown', 'text/latex', 'image/svg+xml'];

/**
 * Have renderers show as text what may load something or run scripts.
 *
 * This needs nothing but JupyterLab's public interface.
 */
export function showAsText(rendermime: IRenderMimeRegistry): void {
  const mimeTypes = rendermime.mimeTypes.filter(
    mime => MAY_LOAD.includes(mime) || rendermime.getFactory(mime)?.safe === false
  );
  mimeTypes.forEach(mime => rendermime.removeMimeType(mime));
  // Plain text is shown in its place where there is some.
  const rank = 1000;
  rendermime.addFactory(
    { safe: true, mimeTypes, createRenderer: options => new RenderedText(options) },
    rank
  );
}

const nothing = (): string => '';
