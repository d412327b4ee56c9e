import type { Cell } from '@jupyterlab/cells';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { MimeData } from '@lumino/coreutils';
import { Panel, Widget } from '@lumino/widgets';

import { blockOtherHosts } from './blocking';
import { insertIntoCell } from './cellLayout';
import { checkCommandLinks, isCommand } from './commandLinks';
import { draggedIn } from './dragging';
import { forgetResults, report, switchedOff, whenOff, works } from './features';
import { setPrompt } from './prompts';
import { replaceMethod } from './replacing';
import { setSanitizer, showAsText } from './sanitizer';

beforeEach(forgetResults);

describe('a feature', () => {
  it('stays switched off once it has failed', () => {
    report('width', false);
    report('width', true);
    expect(works('width')).toBe(false);
    expect(switchedOff()).toEqual(['width']);
  });

  it('calls back once, whether it fails before or after the registration', () => {
    const called: string[] = [];
    whenOff('tabs', () => called.push('before'));
    report('tabs', false);
    report('tabs', false);
    whenOff('tabs', () => called.push('after'));
    expect(called).toEqual(['before', 'after']);
  });
});

describe('a method', () => {
  it('is replaced where it is there', () => {
    const of = { save: () => 1 };
    expect([replaceMethod(of, 'save', () => 2), of.save()]).toEqual([true, 2]);
  });

  it('is not where it has another name, or is fixed', () => {
    const renamed = {} as { save: () => number };
    expect(replaceMethod(renamed, 'save', () => 2)).toBe(false);
    expect(replaceMethod(Object.freeze({ save: (): number => 1 }), 'save', () => 2)).toBe(false);
    const fixed = { save: () => 1 };
    Object.defineProperty(fixed, 'save', { get: () => () => 1, set: () => undefined });
    expect(replaceMethod(fixed, 'save', () => 2)).toBe(false);
  });
});

describe('controls in a cell', () => {
  const cellOf = (input: string): [Cell, Panel] => {
    const cell = new Panel();
    for (const name of ['jp-CellHeader', input, 'jp-CellFooter']) {
      const part = new Widget();
      part.addClass(name);
      cell.addWidget(part);
    }
    return [cell as unknown as Cell, cell];
  };

  it.each([
    ['below-input', 2],
    ['end', 2]
  ] as const)('have their place: %s', (place, index) => {
    const [cell, panel] = cellOf('jp-Cell-inputWrapper');
    const control = new Widget();
    insertIntoCell(cell, control, place);
    expect(panel.widgets.indexOf(control)).toBe(index);
    expect(works('controls')).toBe(true);
  });

  it.each(['below-input', 'end'] as const)('are last where its parts are unknown: %s', place => {
    const [cell, panel] = cellOf('jp-Cell-input');
    const control = new Widget();
    insertIntoCell(cell, control, place);
    expect(panel.widgets.indexOf(control)).toBe(3);
    expect(works('controls')).toBe(false);
  });
});

it('sets no prompt once that has failed', () => {
  report('prompts', false);
  expect(() => setPrompt({} as unknown as Cell, '*')).not.toThrow();
});

describe('what is dragged', () => {
  const notebook = new Widget();
  notebook.addClass('jp-Notebook');

  it('is known by its type', () => {
    const data = new MimeData();
    data.setData('application/vnd.jupyter.cells', [{ id: 'a' }, {}]);
    expect(draggedIn(data, notebook)).toEqual({ kind: 'cells', ids: ['a'] });
    data.setData('application/x-jupyter-icontents', ['a.txt']);
    expect(draggedIn(data, notebook)).toEqual({ kind: 'files', paths: ['a.txt'] });
    expect(works('dragging')).toBeUndefined();
  });

  it('switches dragging off where a notebook gives it another type', () => {
    const data = new MimeData();
    data.setData('application/vnd.jupyter.cells+json', []);
    expect(draggedIn(data, new Widget())).toBeNull();
    expect(works('dragging')).toBeUndefined();
    expect(draggedIn(data, notebook)).toBeNull();
    expect(works('dragging')).toBe(false);
  });
});

describe('buttons that run commands', () => {
  const linker = (name: string): Parameters<typeof checkCommandLinks>[0] => ({
    connectNode: (node, command) => {
      node.setAttribute(name, command);
      return node;
    }
  });

  it('are known by their attribute', () => {
    checkCommandLinks(linker('data-commandlinker-command'));
    expect(works('commands')).toBe(true);
    expect(['data-commandlinker-command', 'data-x'].map(isCommand)).toEqual([true, false]);
  });

  it.each([linker('data-runs'), {} as never, undefined as never])(
    'may be known by any attribute for scripts where JupyterLab has another',
    changed => {
      checkCommandLinks(changed);
      expect(works('commands')).toBe(false);
      expect(['data-runs', 'data-x', 'title'].map(isCommand)).toEqual([true, true, false]);
    }
  );
});

describe('renderers', () => {
  const made = (): RenderMimeRegistry =>
    new RenderMimeRegistry({ initialFactories: standardRendererFactories });

  it('show as text what may load something or run', () => {
    const rendermime = made();
    showAsText(rendermime);
    for (const mime of ['text/html', 'text/markdown', 'image/svg+xml', 'text/javascript']) {
      expect(rendermime.createRenderer(mime).node.className).toContain('jp-RenderedText');
    }
    expect(
      rendermime.mimeTypes.filter(mime => rendermime.getFactory(mime)?.safe === false)
    ).toEqual([]);
    const data = { 'text/html': '<b>x</b>', 'text/plain': 'x', 'image/png': '' };
    expect(rendermime.preferredMimeType(data, 'any')).toBe('image/png');
  });

  it('show it as text where their sanitizer cannot be replaced', () => {
    const rendermime = made();
    const own = rendermime.sanitizer;
    Object.defineProperty(rendermime, 'sanitizer', { get: () => own });
    setSanitizer(rendermime, { sanitize: dirty => dirty });
    expect(works('images')).toBe(false);
    expect(rendermime.createRenderer('text/html').node.className).toContain('jp-RenderedText');
  });
});

it.each([
  ['http://server/', "img-src 'self' data: blob:"],
  ['http://hub/user/me/', 'img-src http://hub/user/me/ data: blob:']
])('blocks what is not from %s', (base, policy) => {
  blockOtherHosts(new URL(base));
  const meta = document.head.querySelector<HTMLMetaElement>('meta:last-child');
  expect(meta?.httpEquiv).toBe('Content-Security-Policy');
  expect(meta?.content).toContain(policy);
  meta?.remove();
});
