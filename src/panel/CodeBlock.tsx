import { addBelowIcon, copyIcon, redoIcon } from '@jupyterlab/ui-components';
import type { JSX } from 'react';

import { fenced, type IBlock } from '../chat/blocks';
import { copyText } from './clipboard';
import { useSelector, useServices } from './services';
import { Rendered } from './Rendered';
import { ToolButton } from './ToolButton';

/** Code in an answer, and what can be done with it. */
export function CodeBlock({ text, language, closed }: IBlock): JSX.Element {
  const { notebook, trans } = useServices();
  // A diagram is a picture in the colours of the theme that it was drawn in.
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
      {/* A diagram is drawn once it is whole. */}
      <Rendered
        key={theme}
        source={fenced(text, closed || language !== 'mermaid' ? language : '')}
      />
    </div>
  );
}
