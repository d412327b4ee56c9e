import { MimeModel } from '@jupyterlab/rendermime';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { useEffect, useRef } from 'react';
import type { JSX } from 'react';

import { type IPanelServices, useServices } from './services';
import { keepSelection } from './selection';

/** Markdown as JupyterLab renders it. */
export function Rendered({ source }: { source: string }): JSX.Element {
  const { rendermime } = useServices();
  const host = useRef<HTMLDivElement>(null);
  const renderer = useRef<Renderer | null>(null);
  useEffect(() => {
    renderer.current = new Renderer(rendermime, host.current as HTMLElement);
    return () => renderer.current?.dispose();
  }, [rendermime]);
  useEffect(() => renderer.current?.render(source), [source, rendermime]);
  return <div ref={host} />;
}

/** Renders texts into an element one after the other, and skips outdated ones. */
class Renderer {
  constructor(rendermime: IPanelServices['rendermime'], host: HTMLElement) {
    this._widget = rendermime.createRenderer('text/markdown');
    // Mathematics is typeset in attached widgets only.
    host.appendChild(this._widget.node);
    MessageLoop.sendMessage(this._widget, Widget.Msg.AfterAttach);
  }

  render(source: string): void {
    this._wanted = source;
    if (!this._busy) {
      void this._render();
    }
  }

  dispose(): void {
    this._wanted = null;
    MessageLoop.sendMessage(this._widget, Widget.Msg.BeforeDetach);
    this._widget.node.remove();
    MessageLoop.sendMessage(this._widget, Widget.Msg.AfterDetach);
    this._widget.dispose();
  }

  private async _render(): Promise<void> {
    this._busy = true;
    try {
      while (this._wanted !== null) {
        const source = this._wanted;
        this._wanted = null;
        const model = new MimeModel({ data: { 'text/markdown': source }, trusted: false });
        const select = keepSelection(this._widget.node);
        await this._widget.renderModel(model);
        for (const table of this._widget.node.querySelectorAll('table')) {
          // A wide table can be scrolled with the keyboard, too.
          table.tabIndex = 0;
        }
        select();
      }
    } finally {
      this._busy = false;
    }
  }

  private readonly _widget: ReturnType<IPanelServices['rendermime']['createRenderer']>;
  private _wanted: string | null = null;
  private _busy = false;
}
