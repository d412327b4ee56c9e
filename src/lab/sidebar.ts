import type { Widget } from '@lumino/widgets';

/** The id of the stack in which JupyterLab's right sidebar has its panels. */
export const RIGHT_SIDEBAR = 'jp-right-stack';

/** Whether a panel is in the right sidebar. */
export const isInRightSidebar = (panel: Widget): boolean => panel.parent?.id === RIGHT_SIDEBAR;
