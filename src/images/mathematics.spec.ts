import type { IRenderMime } from '@jupyterlab/rendermime';

import { forgetResults, works } from '../lab/features';
import { filterMathematics } from '../lab/mathematics';
import { loadsInMathematics } from './addresses';

/** The functions by which a style loads something, and what may hide one. */
const LOADING = [
  'url(//a.example)',
  'URL("//a.example")',
  'image-set("//a.example" 1x)',
  '-webkit-image-set(url(//a.example) 1x)',
  'image("//a.example")',
  'src("//a.example")',
  '\\75rl(//a.example)'
];

type Attributes = Record<string, unknown>;

/** A typesetter that makes an element of each attribute, as MathJax does after its Safe extension. */
class Typesetter implements IRenderMime.ILatexTypesetter {
  constructor(private readonly _nodes: readonly Attributes[]) {}

  readonly made: [string, unknown][] = [];

  readonly safe = {
    sanitize: ({ root }: { root: Tree }): void =>
      root.walkTree(({ attributes }) => delete attributes.getAllAttributes()['onclick'])
  };

  mathDocument(): Promise<{ safe?: unknown }> {
    return Promise.resolve({ safe: this.safe });
  }

  async typeset(): Promise<void> {
    await this.mathDocument();
    const nodes = this._nodes.map(each => ({ attributes: { getAllAttributes: () => each } }));
    this.safe.sanitize({ root: { walkTree: visit => nodes.forEach(visit) } });
    this.made.push(...this._nodes.flatMap(each => Object.entries(each)));
  }
}

interface Tree {
  walkTree(visit: (node: { attributes: { getAllAttributes(): Attributes } }) => void): void;
}

async function typeset(typesetter: Typesetter): Promise<[string, unknown][]> {
  await (typesetter as IRenderMime.ILatexTypesetter).typeset(document.body);
  return typesetter.made;
}

describe('mathematics', () => {
  beforeEach(forgetResults);

  it('has no attribute that loads something, whatever its name is', async () => {
    const names = [
      'style',
      'fontfamily',
      'mathcolor',
      'mathbackground',
      'width',
      'class',
      'altimg'
    ];
    const nodes = LOADING.flatMap(value =>
      names.flatMap(name => [{ [name]: value }, { [name]: `x; cursor: ${value}, auto` }])
    );
    const typesetter = new Typesetter([...nodes, { src: 'http://a.example' }, { onclick: 'x()' }]);
    filterMathematics(typesetter, loadsInMathematics);
    expect(await typeset(typesetter)).toEqual([]);
    expect(works('images')).toBe(true);
  });

  it('keeps all other attributes', async () => {
    const kept: [string, unknown][] = [
      ['style', 'color: red; border: 1px solid'],
      ['fontfamily', 'Noto Serif'],
      ['href', 'https://a.example/url(x)'],
      ['title', 'Undefined control sequence \\x'],
      ['data-mjx-error', 'Undefined control sequence \\x'],
      ['scriptlevel', 1],
      ['stretchy', false]
    ];
    const typesetter = new Typesetter(kept.map(([name, value]) => ({ [name]: value })));
    filterMathematics(typesetter, loadsInMathematics);
    expect(await typeset(typesetter)).toEqual(kept);
  });

  it.each([
    { mathDocument: undefined },
    { mathDocument: () => Promise.resolve({}) },
    { safe: Object.freeze({ sanitize: () => undefined }) }
  ])('has images blocked everywhere where MathJax has no such filter', async changed => {
    const typesetter = new Typesetter([]);
    Object.assign(typesetter, changed, { typeset: () => Promise.resolve() });
    filterMathematics(typesetter, loadsInMathematics);
    await typeset(typesetter);
    expect(works('images')).toBe(false);
  });

  it('has images blocked where the typesetter cannot be replaced', () => {
    filterMathematics(Object.freeze(new Typesetter([])), loadsInMathematics);
    expect(works('images')).toBe(false);
  });

  it('needs no typesetter', () => {
    filterMathematics(null, loadsInMathematics);
    expect(works('images')).toBeUndefined();
  });
});
