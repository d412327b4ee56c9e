import { Clipboard } from '@jupyterlab/apputils';

/** Copy a text to the clipboard, also if the page has no permission for the Clipboard API. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The API is missing over plain HTTP.
    Clipboard.copyToSystem(text);
  }
}

/** Download content as a file. */
export function save(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
