/** Markdown as JupyterLab renders it. */

import { MimeModel } from '@jupyterlab/rendermime';
import { addBelowIcon, copyIcon, redoIcon } from '@jupyterlab/ui-components';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { memo, useEffect, useRef } from 'react';
import type { JSX } from 'react';

import { blocksOf, fenced, type IBlock } from '../chat/blocks';
import { copyText } from './browser';
import { ToolButton } from './controls';
import type { IPanelServices } from './panelServices';
import { useSelector, useServices } from './services';

/** A Markdown text in blocks: while it streams, only the last one is rendered again. */
export function Markdown({ text }: { text: string }): JSX.Element {
  return (
    <div className="tk-Markdown">
      {blocksOf(text).map((block, place) => (
        <Block key={place} {...block} />
      ))}
    </div>
  );
}

const Block = memo(function Block(block: IBlock): JSX.Element {
  return block.kind === 'code' ? <CodeBlock {...block} /> : <Rendered source={block.text} />;
});

/** A code block in an answer, with buttons to copy and insert it. */
function CodeBlock({ text, language, closed }: IBlock): JSX.Element {
  const { notebook, trans } = useServices();
  // A diagram has the colours of the theme in which it was rendered.
  const theme = useSelector(state => (language === 'mermaid' ? state.theme : ''));
  return (
    <div className="tk-Code" role="group" aria-label={trans.__('Code')}>
      <div className="tk-Code-bar">
        <span className="tk-Code-language">{language}</span>
        <ToolButton icon={copyIcon} label={trans.__('Copy')} onClick={() => void copyText(text)} />
        <ToolButton
          icon={addBelowIcon}
          label={trans.__('Insert as a cell')}
          onClick={() => notebook.insertCell(text)}
        />
        <ToolButton
          icon={redoIcon}
          label={trans.__('Replace the active cell')}
          onClick={() => notebook.replaceCell(text)}
        />
      </div>
      {/* A diagram is rendered once it is complete. */}
      <Rendered
        key={theme}
        source={fenced(text, closed || language !== 'mermaid' ? language : '')}
      />
    </div>
  );
}

/** A Markdown text. */
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
        await this._widget.renderModel(model);
        for (const table of this._widget.node.querySelectorAll('table')) {
          // A wide table can be scrolled with the keyboard, too.
          table.tabIndex = 0;
        }
        for (const box of this._widget.node.querySelectorAll('input[type=checkbox]')) {
          box.setAttribute('aria-label', box.parentElement?.textContent.trim() ?? '');
        }
      }
    } finally {
      this._busy = false;
    }
  }

  private readonly _widget: ReturnType<IPanelServices['rendermime']['createRenderer']>;
  private _wanted: string | null = null;
  private _busy = false;
}
