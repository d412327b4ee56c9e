import { Sanitizer } from '@jupyterlab/apputils';

import { addressesIn, hostOf, isFromServer } from './addresses';

const PAGE = 'http://hub.example/user/me/lab/tree/a/b.ipynb';
const base = new URL('http://hub.example/user/me/');
const own = (value: string, name = 'src'): boolean => isFromServer(name, value, base, PAGE);

describe('isFromServer', () => {
  it.each([
    'x.png',
    '../x.png?y',
    '/user/me/files/x.png',
    '//hub.example/user/me/x.png',
    'data:image/png;base64,AAAA',
    'attachment:x.png',
    'blob:http://hub.example/1',
    'S3:bucket/x.png'
  ])('is true for %s', address => expect(own(address)).toBe(true));

  it.each([
    'https://a.example/x.png',
    '//a.example/x.png',
    '\\\\a.example/x.png',
    ' ht\ntps://a.example/x.png',
    'https:a.example/x.png',
    'http://hub.example:81/user/me/x.png',
    'http://hub.example@a.example/user/me/',
    '/user/somebody/x.png',
    '/user/me/../somebody/x.png',
    '/user/me/%2e%2e/somebody/x.png',
    '../../../../somebody/x.png',
    'http://'
  ])('is false for %s', address => expect(own(address)).toBe(false));

  it('checks every address in a srcset and in a style', () => {
    expect(own('x.png 1x, https://a.example/x.png 2x', 'srcset')).toBe(false);
    expect(own('x.png,//a.example/x.png 2x', 'srcset')).toBe(false);
    expect(own('x.png 1x, y.png 2x', 'srcset')).toBe(true);
    expect(own('background: url(x.png)', 'style')).toBe(true);
    expect(own('background: url("data:image/png;base64,A")', 'style')).toBe(true);
    expect(own("background: url( 'https://a.example/(x)' )", 'style')).toBe(false);
    expect(own('cursor: url(x.cur), URL(//a.example)', 'style')).toBe(false);
    expect(own('background: u\\72l(//a.example)', 'style')).toBe(false);
    expect(own('background: image-set("//a.example" 1x)', 'style')).toBe(false);
    expect(own('background: image-set("x.png" 1x, "//a.example" 2x)', 'style')).toBe(false);
  });
});

describe('a style that JupyterLab keeps', () => {
  const sanitizer = new Sanitizer();
  const QUOTES = ['', '"', "'"];
  /** Texts that begin an address or end one, as far as they can be within the other quotes. */
  const HIDING = [
    'url(',
    'url( ',
    'URL(',
    ')',
    "url('",
    'url("',
    "url(')",
    'url(")',
    ';',
    'url(x)'
  ];
  /** Properties that may hold any string. */
  const STRINGS: ((string: string) => string)[] = [
    string => `font-family:${string}`,
    string => `quotes:${string} ${string}`,
    string => `grid:${string}`,
    string => `text-overflow:${string}`
  ];
  const LOADING: ((url: string) => string)[] = [
    url => `background-image:${url}`,
    url => `list-style-image:${url}`,
    url => `cursor:${url},auto`,
    url => `background-image:url(own.png),${url}`
  ];

  /** All lists of these, in any order. */
  function* orders<T>(some: readonly T[]): Generator<T[]> {
    if (some.length === 0) {
      yield [];
    }
    for (const [place, first] of some.entries()) {
      for (const rest of orders(some.filter((_, other) => other !== place))) {
        yield [first, ...rest];
      }
    }
  }

  function* styles(address: string): Generator<string> {
    const quoted = QUOTES.map(quote => `url(${quote}${address}${quote})`);
    for (const [place, text] of HIDING.entries()) {
      const string = text.includes('"') ? `'${text}'` : `"${text}"`;
      const url = quoted[place % quoted.length] ?? '';
      for (const hides of STRINGS) {
        for (const loads of LOADING) {
          yield* [...orders([hides(string), loads(url), 'color:red'])].map(each => each.join(';'));
        }
      }
    }
  }

  /** What is left of a style, as the browser has it. */
  function kept(style: string): string {
    const { body } = new DOMParser().parseFromString(
      sanitizer.sanitize(`<p style="${style.replaceAll('"', '&quot;')}">`),
      'text/html'
    );
    return body.firstElementChild?.getAttribute('style') ?? '';
  }

  it('loads from another host in whatever order its properties are', () => {
    const address = 'https://a.example/x';
    const found = [...styles(address)].map(kept).filter(style => style.includes('a.example'));
    expect(found.length).toBeGreaterThan(500);
    expect(found.filter(style => own(style, 'style'))).toEqual([]);
    const named = (style: string): boolean => addressesIn('style', style).includes(address);
    expect(found.filter(style => !named(style))).toEqual([]);
  });

  it('loads from this server in whatever order its properties are', () => {
    const found = [...styles('/user/me/files/x.png')].map(kept);
    expect(found.filter(style => !own(style, 'style'))).toEqual([]);
  });
});

it('takes an address that nothing ends for one', () => {
  for (const quote of ['', '"', "'"]) {
    expect(own(`background: url(${quote}https://a.example/x`, 'style')).toBe(false);
  }
});

it('names the host of an address', () => {
  expect(hostOf('//a.example:81/x?y', PAGE)).toBe('a.example:81');
  expect(hostOf('http://', PAGE)).toBe('http://');
  expect(addressesIn('style', 'a: url(//x); b: url("//y")')).toEqual(['//x', '//y']);
});
