import { addressesHeld, HoldingSanitizer, letGo } from './holding';

const held = (html: string): string =>
  new HoldingSanitizer({ sanitize: dirty => dirty }, new URL('http://localhost/'), 'a').sanitize(
    html
  );

function shown(html: string): HTMLElement {
  const element = document.createElement('div');
  element.innerHTML = html;
  return element;
}

const REMOTE = [
  '<img src="https://a.example/x.png" alt="x">',
  '<p>x <img srcset="//a.example/x.png 2x"> y</p>',
  '<video src="//a.example/v" poster="//a.example/p"></video>',
  '<audio autoplay="" src="//a.example/a"></audio>',
  '<input type="image" src="//a.example/i">',
  '<svg><image href="//a.example/i"></image><use href="//a.example/u"></use></svg>',
  '<table background="//a.example/t"></table>',
  '<ul style="list-style: url(//a.example/l)"><li>x</li></ul>',
  '<button data-commandlinker-command="a.example">x</button>',
  '<picture><source srcset="//a.example/s"><img src="x.png"></picture>'
];

describe('what is loaded from elsewhere', () => {
  it.each(REMOTE)('is held, and let go as it was: %s', html => {
    const element = shown(held(html));
    for (const each of element.querySelectorAll('*')) {
      for (const { name, value } of each.attributes) {
        expect(name.startsWith('data-tk-held-') || !value.includes('a.example')).toBe(true);
      }
    }
    expect(element.querySelectorAll('tk-ai-held')).toHaveLength(1);
    letGo(element, () => undefined);
    expect(element.isEqualNode(shown(html))).toBe(true);
  });

  it.each([
    '<img src="x.png"><pre>\n\nx</pre>',
    '<img src="data:image/png;base64,AAAA">',
    '<a href="https://a.example">x</a>',
    '<p style="color: red">src=x</p>',
    '<p>src="https://a.example"</p>'
  ])('is all that is touched: %s', html => expect(held(html)).toBe(html));

  it('is told with its addresses', () => {
    const element = shown(held(REMOTE.slice(0, 3).join('')));
    const found = [
      'https://a.example/x.png',
      '//a.example/x.png',
      '//a.example/v',
      '//a.example/p'
    ];
    expect(addressesHeld(element)).toEqual(found);
  });
});

it('sets nothing but what loads, whatever claims to be held', () => {
  const element = shown(
    '<p data-tk-held data-tk-held-onclick="x()" data-tk-held-style="color: red">'
  );
  letGo(element, () => undefined);
  const p = element.querySelector('p');
  expect([p?.hasAttribute('onclick'), p?.getAttribute('style')]).toEqual([false, 'color: red']);
});

it('has a diagram drawn when that is let go', () => {
  const code = '<div class="tk-HeldDiagram"><pre><code>A["//a.example/x"]</code></pre></div>';
  const element = shown(held(code));
  expect(addressesHeld(element)).toEqual(['//a.example/x', 'diagram:A["//a.example/x"]']);
  const drawn: string[] = [];
  letGo(element, each => drawn.push(each.textContent));
  expect(drawn).toEqual(['A["//a.example/x"]']);
});

it('finds a file that is named by its way from the notebook, as JupyterLab would have', async () => {
  // On a hub, what seems to lead to another user's server.
  const base = new URL('http://localhost/user/me/');
  const sanitizer = new HoldingSanitizer({ sanitize: dirty => dirty }, base, 'a');
  const element = shown(sanitizer.sanitize('<img src="../../x.png?y">'));
  expect(element.querySelector('img')?.hasAttribute('src')).toBe(false);
  letGo(element, () => undefined, {
    isLocal: () => true,
    resolveUrl: url => Promise.resolve(`folder/${url}`),
    getDownloadUrl: path => Promise.resolve(`/user/me/files/${path}`)
  });
  await new Promise(resolve => setTimeout(resolve));
  const src = element.querySelector('img')?.getAttribute('src');
  expect(src).toBe('/user/me/files/folder/../../x.png');
});
