import { type IRenderMime, type IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';

import type { Uses } from '../uses';

const REMOTE = '<img src="https://tk.invalid/x">';
const SEEN = '<b>seen</b>';

/** Check whether JupyterLab's sanitizer, and that of a notebook's renderers, are those of this extension. */
export async function checkHtml(uses: Uses, rendermime: IRenderMimeRegistry): Promise<void> {
  const shared = rendermime.sanitizer.sanitize(REMOTE);
  const found = await Promise.all(
    ['text/html', 'text/markdown'].map(mime => rendered(uses, rendermime, mime))
  );
  uses.report('images', !/\ssrc=/.test(shared) && found.every(html => html.includes(SEEN)));
}

/** Render HTML with a sanitizer whose output loads nothing. */
async function rendered(
  uses: Uses,
  rendermime: IRenderMimeRegistry,
  mime: string
): Promise<string> {
  const copy = rendermime.clone();
  const sanitizer: IRenderMime.ISanitizer = { sanitize: () => SEEN };
  uses.setSanitizer(copy, sanitizer);
  const renderer = copy.createRenderer(mime);
  await renderer.renderModel(new MimeModel({ data: { [mime]: 'text' }, trusted: false }));
  const { innerHTML } = renderer.node;
  renderer.dispose();
  return innerHTML;
}
