import type { Contents } from '@jupyterlab/services';

import { attachLocalFile, attachServerFile } from './attachments';

/** Contents that hold one file. */
function holding(model: Partial<Contents.IModel>): Parameters<typeof attachServerFile>[0] {
  return {
    get: (_, options) =>
      Promise.resolve({ ...model, content: options?.content === true ? 'QUJD\n' : null } as never),
    localPath: path => path.replace(/^RTC:/, '')
  };
}

describe('a file below the root', () => {
  it('is attached as text, with its path without a drive', async () => {
    const found = await attachServerFile(
      holding({ type: 'file', mimetype: 'text/csv' }),
      'RTC:a.csv'
    );
    expect(found).toEqual({ label: 'a.csv', attachment: { kind: 'file', path: 'a.csv' } });
  });

  it('is attached as an image if it is one', async () => {
    const found = await attachServerFile(holding({ type: 'file', mimetype: 'image/png' }), 'a.png');
    expect(found).toMatchObject({ attachment: { kind: 'image', mime: 'image/png', data: 'QUJD' } });
  });

  it('is attached as the list of its files if it is a folder', async () => {
    const found = await attachServerFile(holding({ type: 'directory' }), 'data');
    expect(found).toEqual({ label: 'data', attachment: { kind: 'folder', path: 'data' } });
  });

  it('is refused as a picture that is too large', async () => {
    const large = { type: 'file', mimetype: 'image/png', size: 6e6 };
    expect(await attachServerFile(holding(large), 'a')).toEqual({ name: 'a', why: 'large' });
  });
});

it('shows that a file cannot be read, even without a connection', async () => {
  const lost = { ...holding({}), get: () => Promise.reject(new TypeError('Failed to fetch')) };
  expect(await attachServerFile(lost, 'RTC:a')).toEqual({ name: 'a', why: 'gone' });
});

it('is waited for with a timeout', async () => {
  jest.useFakeTimers();
  const hanging = { ...holding({}), get: () => new Promise<never>(() => undefined) };
  const found = attachServerFile(hanging, 'a');
  await jest.advanceTimersByTimeAsync(60_000);
  expect(await found).toEqual({ name: 'a', why: 'gone' });
  jest.useRealTimers();
});

it('accepts only images from the desktop', async () => {
  const picture = new File(['ABC'], 'a.png', { type: 'image/png' });
  expect(await attachLocalFile(picture)).toMatchObject({
    label: 'a.png',
    attachment: { data: 'QUJD' }
  });
  const other = new File(['ABC'], 'a.pdf', { type: 'application/pdf' });
  expect(await attachLocalFile(other)).toEqual({ name: 'a.pdf', why: 'no image' });
});
