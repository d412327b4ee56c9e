import { LocalSanitizer } from './sanitizer';

const sanitizer = new LocalSanitizer({ sanitize: dirty => dirty }, address => `[${address}]`);

describe('what a model wrote', () => {
  it.each([
    ['<img src="https://a.example/x.png">', '<em>[https://a.example/x.png]</em>'],
    ['<img src="/logout">', '<em>[/logout]</em>'],
    ['<img srcset="//a.example/x 2x">', '<em>[//a.example/x 2x]</em>'],
    ['<video poster="https://a.example"></video>', '<video></video>'],
    ['<svg><image href="https://a.example"></image></svg>', '<svg><image></image></svg>'],
    ['<p style="background: url(https://a.example)">x</p>', '<p>x</p>'],
    ['<table background="https://a.example"></table>', '<table></table>'],
    ['<button data-commandlinker-command="a:b">x</button>', '<button>x</button>']
  ])('loads nothing: %s', (dirty, clean) => {
    expect(sanitizer.sanitize(dirty)).toBe(clean);
  });

  it.each([
    '<img src="data:image/png;base64,AAAA">',
    '<img src="data:image/svg+xml,%3Csvg%2F%3E">',
    '<a href="https://a.example">x</a>',
    '<p style="color: red">x</p>'
  ])('keeps what loads nothing: %s', html => {
    expect(sanitizer.sanitize(html)).toBe(html);
  });

  it('removes forms, which could reload the page', () => {
    expect(sanitizer.sanitize('<form><b>x</b><form>y</form></form>')).toBe('<b>x</b>y');
  });

  it.each([
    '<embed src="data:image/svg+xml;base64,AAAA">',
    '<object data="data:image/svg+xml;base64,AAAA"></object>',
    '<iframe src="data:image/svg+xml;base64,AAAA"></iframe>',
    '<img srcset="data:image/svg+xml;base64,AAAA 2x">'
  ])('keeps nothing in which an SVG runs its scripts: %s', html => {
    expect(sanitizer.sanitize(html)).not.toContain('data:image/svg+xml;base64,AAAA"');
  });
});
