import { ContentsManager, Drive, type ServerConnection } from '@jupyterlab/services';

import { serverPath } from './drives';

describe('serverPath', () => {
  it("is a path of the server's own drive, and of no other", () => {
    const serverSettings = { baseUrl: 'http://server/' } as ServerConnection.ISettings;
    const contents = new ContentsManager({ serverSettings });
    ['s3', 'RTC'].forEach(name => contents.addDrive(new Drive({ name, serverSettings })));
    const pathOf = (path: string): string | null => serverPath(contents, path);
    expect(pathOf('a/b.ipynb')).toBe('a/b.ipynb');
    expect(pathOf('RTC:a/b.ipynb')).toBe('a/b.ipynb');
    expect(pathOf('s3:a/b.ipynb')).toBeNull();
    // A file may be called so.
    expect(pathOf('2: next.ipynb')).toBe('2: next.ipynb');
    contents.dispose();
  });
});
