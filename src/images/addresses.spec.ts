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

it('names the host of an address', () => {
  expect(hostOf('//a.example:81/x?y', PAGE)).toBe('a.example:81');
  expect(hostOf('http://', PAGE)).toBe('http://');
  expect(addressesIn('style', 'a: url(//x); b: url("//y")')).toEqual(['//x', '//y']);
});
