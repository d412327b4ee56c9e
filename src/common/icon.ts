import { LabIcon } from '@jupyterlab/ui-components';

import svg from '../../style/icons/claude.svg';

/** The panel's icon: a spark in a bubble. */
export const chatIcon = new LabIcon({ name: 'tk-ai-extension:chat', svgstr: svg });
