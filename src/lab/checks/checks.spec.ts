import type { ICodeCellModel } from '@jupyterlab/cells';
import { CodeMirrorEditorFactory } from '@jupyterlab/codemirror';
import { Context } from '@jupyterlab/docregistry';
import type { IMermaidManager } from '@jupyterlab/mermaid';
import { type INotebookModel, NotebookModelFactory, NotebookPanel } from '@jupyterlab/notebook';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import type { ServiceManager } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { forgetResults, works } from '../features';
import { replaceDiagrams } from '../mermaid';
import { type Uses, uses } from '../uses';
import { checkCells } from './cells';
import { checkContexts } from './contexts';
import { checkDiagrams } from './diagrams';
import { checkHtml } from './html';
import { checkTrust } from './trust';

const factory = new NotebookModelFactory();
const results = (...features: Parameters<typeof works>[0][]): unknown[] => features.map(works);

beforeEach(forgetResults);

describe('the check of trust', () => {
  /** A notebook whose cells JupyterLab has changed. */
  function changed(trap: ProxyHandler<ICodeCellModel>): INotebookModel {
    const model = factory.createNew();
    const { cells } = model;
    const get = (index: number): ICodeCellModel =>
      new Proxy(cells.get(index) as ICodeCellModel, trap);
    Object.defineProperty(model, 'cells', { value: { get, dispose: () => cells.dispose() } });
    return model;
  }

  it('passes with this JupyterLab', () => {
    checkTrust(uses, () => factory.createNew());
    expect(results('trust', 'quiet-trust')).toEqual([true, true]);
  });

  it('has trust withdrawn by the setter where the private member has another name', () => {
    checkTrust(uses, () => changed({ has: (cell, name) => name !== '_trusted' && name in cell }));
    expect(results('trust', 'quiet-trust')).toEqual([true, false]);
  });

  it('fails where a cell stays trusted', () => {
    checkTrust(uses, () => changed({ set: () => true, get: (cell, name) => stuck(cell, name) }));
    expect(results('trust', 'quiet-trust')).toEqual([false, false]);
  });

  function stuck(cell: ICodeCellModel, name: string | symbol): unknown {
    return name === 'trusted' ? true : Reflect.get(cell, name, cell);
  }

  it('fails where new outputs are trusted, whatever the cell says', () => {
    const withdrawTrust: Uses['withdrawTrust'] = cell => {
      Object.assign(cell, { _trusted: false });
      return true;
    };
    checkTrust({ ...uses, withdrawTrust }, () => factory.createNew());
    expect(results('trust', 'quiet-trust')).toEqual([true, false]);
  });

  it('fails if views are not notified', () => {
    checkTrust({ ...uses, emitUntrusted: () => undefined }, () => factory.createNew());
    expect(works('quiet-trust')).toBe(false);
  });
});

describe('the check of contexts', () => {
  const of = {};
  const signals = { fileChanged: new Signal(of), runningChanged: new Signal(of) };
  const services = {
    contents: {
      ...signals,
      normalize: (path: string) => path,
      localPath: (path: string) => path,
      driveName: () => ''
    },
    kernels: signals,
    kernelspecs: { specsChanged: new Signal(of) },
    sessions: signals
  } as unknown as ServiceManager.IManager;
  const { prototype } = Context as unknown as { prototype: Record<string, unknown> };
  const replaced = ['_handleError', '_raiseConflict', '_save'];
  const own = new Map(replaced.map(name => [name, prototype[name]]));

  afterEach(() => replaced.forEach(name => (prototype[name] = own.get(name))));

  it('passes with this JupyterLab', async () => {
    await checkContexts(uses, services, factory);
    expect(works('tabs')).toBe(true);
  });

  it.each(['_handleError', '_raiseConflict'])('fails where %s has another name', async name => {
    prototype[name] = undefined;
    await checkContexts(uses, services, factory);
    expect(works('tabs')).toBe(false);
  });

  it('fails where JupyterLab saves without what is replaced', async () => {
    prototype['_save'] = () => Promise.resolve();
    await checkContexts(uses, services, factory);
    expect(works('tabs')).toBe(false);
  });
});

describe('the check of cells', () => {
  const rendermime = new RenderMimeRegistry({ initialFactories: standardRendererFactories });
  const editors = new CodeMirrorEditorFactory();
  const contents = new NotebookPanel.ContentFactory({
    editorFactory: options => editors.newInlineEditor(options)
  });
  const check = (changed: (node: HTMLElement) => void = () => undefined, own = uses): void => {
    const made = Object.create(contents) as NotebookPanel.IContentFactory;
    made.createCodeCell = options => {
      const cell = contents.createCodeCell(options);
      changed(cell.node);
      return cell;
    };
    checkCells(own, factory.createNew(), made, rendermime);
  };

  it('passes with this JupyterLab', () => {
    check();
    expect(results('prompts', 'controls', 'looks')).toEqual([true, true, true]);
  });

  it('fails where prompts are set otherwise', () => {
    const setPrompt = (): void => {
      throw new TypeError('cell.setPrompt is not a function');
    };
    check(undefined, { ...uses, setPrompt });
    expect(results('prompts', 'controls', 'looks')).toEqual([false, true, true]);
  });

  it('fails where the parts of a cell have other names', () => {
    check(node =>
      node.querySelector('.jp-Cell-inputWrapper')?.classList.remove('jp-Cell-inputWrapper')
    );
    expect(results('prompts', 'controls', 'looks')).toEqual([true, false, true]);
  });

  it('fails where the parts of a cell stand otherwise', () => {
    check(node => node.append(document.createElement('i'), document.createElement('i')));
    expect(works('controls')).toBe(false);
  });

  it('fails where what styles name has another name', () => {
    check(node =>
      (node.querySelector('.jp-InputPrompt') as Element).classList.remove('jp-InputPrompt')
    );
    expect(results('prompts', 'controls', 'looks')).toEqual([true, true, false]);
  });
});

describe('the check of HTML', () => {
  const made = (sanitize: (dirty: string) => string): RenderMimeRegistry =>
    new RenderMimeRegistry({
      initialFactories: standardRendererFactories,
      sanitizer: { sanitize }
    });

  it('passes where nothing is loaded after sanitizing', async () => {
    await checkHtml(
      uses,
      made(() => '<img>')
    );
    expect(works('images')).toBe(true);
  });

  it('fails where the page sanitizes otherwise', async () => {
    await checkHtml(
      uses,
      made(dirty => dirty)
    );
    expect(works('images')).toBe(false);
  });

  it('fails where renderers sanitize otherwise', async () => {
    const rendermime = made(() => '<img>');
    const clone = rendermime.clone.bind(rendermime);
    rendermime.clone = options => {
      const copy = clone(options);
      Object.defineProperty(copy, 'sanitizer', { get: () => rendermime.sanitizer });
      return copy;
    };
    await checkHtml(uses, rendermime);
    expect(works('images')).toBe(false);
  });
});

describe('the check of diagrams', () => {
  /** JupyterLab's way from a text to a diagram, by these of the manager's methods. */
  async function check(draws: string): Promise<void> {
    const draw = (text: string): HTMLElement => {
      const figure = document.createElement('figure');
      figure.textContent = text;
      return figure;
    };
    const manager = {
      renderFigure: (text: string) => Promise.resolve(draw(text)),
      getCachedFigure: draw,
      drawOtherwise: draw
    };
    replaceDiagrams(manager as unknown as IMermaidManager, () => {
      const placeholder = document.createElement('div');
      placeholder.innerHTML = `<b class="${uses.REPLACED}"></b>`;
      return placeholder;
    });
    const render = (text: string): Promise<string> =>
      Promise.resolve(
        (manager as never as Record<string, typeof draw>)[draws]?.(text).outerHTML ?? ''
      );
    await checkDiagrams(uses, new RenderMimeRegistry(), { render });
  }

  it('passes where JupyterLab draws by what is replaced', async () => {
    await check('getCachedFigure');
    expect(works('diagrams')).toBe(true);
  });

  it('fails where it draws otherwise', async () => {
    await check('drawOtherwise');
    expect(works('diagrams')).toBe(false);
  });
});
