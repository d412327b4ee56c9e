import { type IRenderMime, type IRenderMimeRegistry, RenderedText } from '@jupyterlab/rendermime';

type Sanitize = Pick<IRenderMime.ISanitizer, 'sanitize'>;

/**
 * Replace how JupyterLab's one sanitizer works.
 *
 * @param replace - Makes the replacement of the sanitizer's own way.
 * @returns Its own way.
 */
export function replaceSanitize(
  shared: IRenderMime.ISanitizer,
  replace: (own: Sanitize) => Sanitize
): Sanitize {
  const own = { sanitize: shared.sanitize.bind(shared) };
  const by = replace(own);
  shared.sanitize = by.sanitize.bind(by);
  return own;
}

/** What may load something, and is shown as text where it cannot be held. */
const MAY_LOAD = ['text/html', 'text/markdown', 'text/latex', 'image/svg+xml'];

/** Give a notebook's renderers a sanitizer; without it they show as text what may load something. */
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
    // eslint-disable-next-line no-console
    console.warn('tk-ai-extension: HTML is shown as text, since it cannot be sanitized here.');
    MAY_LOAD.forEach(mime => rendermime.removeMimeType(mime));
    rendermime.addFactory(
      { safe: true, mimeTypes: MAY_LOAD, createRenderer: options => new RenderedText(options) },
      0
    );
  }
}
