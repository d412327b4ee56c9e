import { MERMAID_MIME_TYPE } from '@jupyterlab/mermaid';
import { type IRenderMime, type IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';

import type { Uses } from '../uses';

/** A diagram that is replaced, since it may load something. It would load nothing if rendered. */
const DIAGRAM = 'graph LR\nA["//"]';

/** Check whether diagrams in Markdown and in outputs are drawn by the methods that are replaced. */
export async function checkDiagrams(
  { REPLACED, report }: Uses,
  rendermime: IRenderMimeRegistry,
  parser: IRenderMime.IMarkdownParser | null
): Promise<void> {
  const markdown = (await parser?.render(`\`\`\`mermaid\n${DIAGRAM}\n\`\`\``)) ?? REPLACED;
  const output = rendermime.mimeTypes.includes(MERMAID_MIME_TYPE)
    ? await drawn(rendermime)
    : REPLACED;
  report(
    'diagrams',
    [markdown, output].every(html => html.includes(REPLACED))
  );
}

async function drawn(rendermime: IRenderMimeRegistry): Promise<string> {
  const renderer = rendermime.createRenderer(MERMAID_MIME_TYPE);
  const data = { [MERMAID_MIME_TYPE]: DIAGRAM };
  await renderer.renderModel(new MimeModel({ data, trusted: false }));
  const { innerHTML } = renderer.node;
  renderer.dispose();
  return innerHTML;
}
