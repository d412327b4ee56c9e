import { Clipboard } from '@jupyterlab/apputils';

/** Puts a text on the clipboard, also where the page has no leave to use it directly. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Over plain HTTP there is none.
    Clipboard.copyToSystem(text);
  }
}
