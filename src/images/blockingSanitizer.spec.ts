import { blockedAddresses, BlockingSanitizer, unblock } from './blockingSanitizer';

const sanitized = (html: string): string =>
  new BlockingSanitizer({ sanitize: dirty => dirty }, new URL('http://localhost/'), 'a').sanitize(
    html
  );

function rendered(html: string): HTMLElement {
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

describe('BlockingSanitizer', () => {
  it.each(REMOTE)('blocks what loads from other hosts, and unblock restores it: %s', html => {
    const element = rendered(sanitized(html));
    for (const each of element.querySelectorAll('*')) {
      for (const { name, value } of each.attributes) {
        expect(name.startsWith('data-tk-blocked-') || !value.includes('a.example')).toBe(true);
      }
    }
    expect(element.querySelectorAll('tk-ai-blocked')).toHaveLength(1);
    unblock(element, () => undefined);
    expect(element.isEqualNode(rendered(html))).toBe(true);
  });

  it.each([
    '<img src="x.png"><pre>\n\nx</pre>',
    '<img src="data:image/png;base64,AAAA">',
    '<a href="https://a.example">x</a>',
    '<p style="color: red">src=x</p>',
    '<p>src="https://a.example"</p>'
  ])('changes nothing else: %s', html => expect(sanitized(html)).toBe(html));

  it('lists the blocked addresses', () => {
    const element = rendered(sanitized(REMOTE.slice(0, 3).join('')));
    const found = [
      'https://a.example/x.png',
      '//a.example/x.png',
      '//a.example/v',
      '//a.example/p'
    ];
    expect(blockedAddresses(element)).toEqual(found);
  });
});

it('restores only attributes that can be blocked', () => {
  const element = rendered(
    '<p data-tk-blocked data-tk-blocked-onclick="x()" data-tk-blocked-style="color: red">'
  );
  unblock(element, () => undefined);
  const p = element.querySelector('p');
  expect([p?.hasAttribute('onclick'), p?.getAttribute('style')]).toEqual([false, 'color: red']);
});

it('renders a diagram when it is unblocked', () => {
  const code = '<div class="tk-BlockedDiagram"><pre><code>A["//a.example/x"]</code></pre></div>';
  const element = rendered(sanitized(code));
  expect(blockedAddresses(element)).toEqual(['//a.example/x', 'diagram:A["//a.example/x"]']);
  const drawn: string[] = [];
  unblock(element, each => drawn.push(each.textContent));
  expect(drawn).toEqual(['A["//a.example/x"]']);
});

it('resolves a path relative to the notebook as JupyterLab does', async () => {
  // On a hub, what seems to lead to another user's server.
  const base = new URL('http://localhost/user/me/');
  const sanitizer = new BlockingSanitizer({ sanitize: dirty => dirty }, base, 'a');
  const element = rendered(sanitizer.sanitize('<img src="../../x.png?y">'));
  expect(element.querySelector('img')?.hasAttribute('src')).toBe(false);
  unblock(element, () => undefined, {
    isLocal: () => true,
    resolveUrl: url => Promise.resolve(`folder/${url}`),
    getDownloadUrl: path => Promise.resolve(`/user/me/files/${path}`)
  });
  await new Promise(resolve => setTimeout(resolve));
  const src = element.querySelector('img')?.getAttribute('src');
  expect(src).toBe('/user/me/files/folder/../../x.png');
});
