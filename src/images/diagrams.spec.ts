import { DiagramBlocker } from './diagrams';

type Manager = ConstructorParameters<typeof DiagramBlocker>[0];

/** A Mermaid manager whose diagrams are their text. */
function manager(): Manager {
  const draw = (text: string): HTMLElement => {
    const figure = document.createElement('figure');
    figure.textContent = text;
    const element = document.createElement('div');
    element.append(figure);
    return element;
  };
  return {
    renderFigure: (text: string) => Promise.resolve(draw(text)),
    getCachedFigure: draw
  } as Manager;
}

describe('a diagram', () => {
  it.each([
    'graph LR\nA["<img src=x>"]-->B',
    'graph LR\nA["<IMG\nSRC=x>"]',
    'graph LR\nA@{ img: "x" }',
    'graph LR\nstyle A background:url(x)',
    'graph LR\nA["<image href=x>"]',
    'graph LR\nA["<i style=x>"]',
    '---\nconfig:\n  themeCSS: "@im\\x70ort x"\n---\ngraph LR',
    'graph LR\nA["<im%%{init: {}}%%g>"]',
    'graph LR\nclick A href "https:a.example"',
    'graph LR\nclick A href "//a.example"'
  ])('that may load something is not rendered: %s', async text => {
    const mermaid = manager();
    const diagrams = new DiagramBlocker(mermaid);
    for (const found of [await mermaid.renderFigure(text), mermaid.getCachedFigure(text)]) {
      expect(found?.querySelector('.tk-BlockedDiagram')?.textContent).toBe(text);
      expect(found?.querySelectorAll('tk-ai-blocked')).toHaveLength(1);
    }
    const view = document.createElement('div');
    view.append(mermaid.getCachedFigure(text) as Node);
    diagrams.draw(view.querySelector('.tk-BlockedDiagram') as Element);
    await Promise.resolve();
    expect(view.querySelector('figure')?.textContent).toBe(text);
    expect(mermaid.getCachedFigure(text)?.firstElementChild?.tagName).toBe('FIGURE');
  });

  it.each([
    'graph LR\nA["one<br/>two"]-->|yes| B:::done\n%% a comment',
    '%%{init: {"theme": "dark"}}%%\nsequenceDiagram\nA->>B: <b>x</b>',
    'classDiagram\nA <|-- B\nA : int x'
  ])('that loads nothing is rendered: %s', async text => {
    const mermaid = manager();
    new DiagramBlocker(mermaid);
    expect((await mermaid.renderFigure(text)).firstElementChild?.tagName).toBe('FIGURE');
  });
});
