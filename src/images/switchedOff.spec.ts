import type { IMermaidManager } from '@jupyterlab/mermaid';
import type { NotebookPanel } from '@jupyterlab/notebook';
import {
  type IRenderMime,
  RenderMimeRegistry,
  standardRendererFactories
} from '@jupyterlab/rendermime';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { forgetResults, report, works } from '../lab/features';
import { LocalSanitizer } from '../panel/sanitizer';
import { DiagramBlocker } from './diagrams';
import { NotebookBlocker } from './notebookBlocker';
import { BlockingSanitizer, unblock } from './blockingSanitizer';
import { ImageBlocker } from './imageBlocker';

const BASE = new URL('http://localhost/');
const REMOTE = '<img src="https://a.example/x.png">';

const policies = (): string[] =>
  [...document.head.querySelectorAll('meta')].map(({ content }) => content);

const services = {
  agentCells: { fetch: () => Promise.reject(new Error('Nobody is asked.')) },
  reviews: { load: () => Promise.reject(new Error('Nobody is asked.')) },
  contents: { driveName: () => 'Other', localPath: (path: string) => path },
  trans: nullTranslator.load(''),
  draw: () => undefined
};

function imageBlocker(sanitizer: Partial<IRenderMime.ISanitizer>): ImageBlocker {
  return new ImageBlocker(sanitizer as IRenderMime.ISanitizer, BASE, services);
}

beforeEach(() => {
  forgetResults();
  document.head.replaceChildren();
});

describe('images from other hosts', () => {
  it('are blocked one by one where JupyterLab sanitizes as it does', () => {
    const sanitizer = { sanitize: (dirty: string) => dirty };
    imageBlocker(sanitizer);
    expect(sanitizer.sanitize(REMOTE)).not.toContain(' src=');
    expect(policies()).toEqual([]);
  });

  it.each([
    { purify: (dirty: string) => dirty } as Partial<IRenderMime.ISanitizer>,
    Object.freeze({ sanitize: (dirty: string) => dirty })
  ])('are all blocked where its sanitizer has changed', sanitizer => {
    imageBlocker(sanitizer);
    expect(works('images')).toBe(false);
    expect(policies()).toEqual([expect.stringContaining("img-src 'self'")]);
  });

  it('are all blocked once the self-test finds that others get through', () => {
    imageBlocker({ sanitize: dirty => dirty });
    expect(policies()).toEqual([]);
    report('images', false);
    report('diagrams', false);
    expect(policies()).toHaveLength(1);
  });

  it.each(['renderFigure', 'getCachedFigure'])(
    'are all blocked where diagrams are drawn by another method than %s',
    async name => {
      imageBlocker({ sanitize: dirty => dirty });
      const methods = new Map<string, () => unknown>([
        ['renderFigure', () => Promise.resolve(document.createElement('figure'))],
        ['getCachedFigure', () => null]
      ]);
      methods.delete(name);
      const manager = Object.fromEntries(methods) as unknown as IMermaidManager;
      const diagrams = new DiagramBlocker(manager);
      expect(works('diagrams')).toBe(false);
      expect(policies()).toHaveLength(1);
      // What is there is replaced all the same, and what is not is not called.
      const onAttached = await manager.renderFigure('A["//a.example"]');
      expect(onAttached.textContent).toBe('A["//a.example"]');
      const code = document.createElement('code');
      expect(() => diagrams.draw(code)).not.toThrow();
    }
  );

  it('stay blocked in a shared notebook of a drive that is not known', async () => {
    const context = { path: 'Other:a.ipynb', model: { collaborative: true } };
    const content = { widgets: [], rendermime: { resolver: null } };
    const blocker = new NotebookBlocker(
      { context, content } as unknown as NotebookPanel,
      { ...services, rule: 'agents' } as never
    );
    const element = document.createElement('div');
    element.innerHTML = new BlockingSanitizer({ sanitize: dirty => dirty }, BASE, 'a').sanitize(
      REMOTE
    );
    blocker.onAttached(element.querySelector('tk-ai-blocked') as HTMLElement);
    await new Promise(resolve => setTimeout(resolve));
    expect(element.querySelector('img')?.hasAttribute('src')).toBe(false);
    expect(works('rooms')).toBe(false);
    blocker.dispose();
  });
});

describe('buttons where it is not known which attribute runs a command', () => {
  const BUTTON = '<button data-runs="a:b" title="x">x</button>';
  beforeEach(() => report('commands', false));

  it('run none in a notebook, even when what is blocked there is allowed', () => {
    const element = document.createElement('div');
    element.innerHTML = new BlockingSanitizer({ sanitize: dirty => dirty }, BASE, 'a').sanitize(
      BUTTON
    );
    unblock(element, () => undefined);
    const names = element.querySelector('button')?.getAttributeNames();
    expect(names?.filter(name => name === 'data-runs')).toEqual([]);
    expect(names).toContain('title');
  });

  it('run none in the chat', () => {
    const sanitizer = new LocalSanitizer({ sanitize: dirty => dirty }, address => address);
    expect(sanitizer.sanitize(BUTTON)).toBe('<button title="x">x</button>');
  });
});

describe('HTML where trust cannot be withdrawn', () => {
  const made = (): RenderMimeRegistry =>
    new RenderMimeRegistry({ initialFactories: standardRendererFactories });
  const changed = new Signal<object, void>({});
  const watch = (blocker: ImageBlocker, rendermime: RenderMimeRegistry): void => {
    blocker.watch({ content: { rendermime } } as unknown as NotebookPanel, changed);
  };
  const isText = (rendermime: RenderMimeRegistry): boolean =>
    rendermime.createRenderer('text/html').node.className.includes('jp-RenderedText');

  it('is shown as text in notebooks that are open, and in those that are opened later', () => {
    const blocker = imageBlocker({ sanitize: dirty => dirty });
    const [open, later] = [made(), made()];
    watch(blocker, open);
    expect(isText(open)).toBe(false);
    report('trust', false);
    watch(blocker, later);
    expect([isText(open), isText(later)]).toEqual([true, true]);
  });

  it('is rendered as ever where just the quiet way is onDetached', () => {
    const blocker = imageBlocker({ sanitize: dirty => dirty });
    const open = made();
    watch(blocker, open);
    report('quiet-trust', false);
    expect(isText(open)).toBe(false);
  });
});
