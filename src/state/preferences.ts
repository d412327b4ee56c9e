import type { Mode } from '../api/events';

/** The settings of the panel, described in `schema/panel.json`. */
export interface IPreferences {
  mode: Mode;
  model: string;
  sendWith: 'Enter' | 'Accel Enter';
  activeCell: boolean;
  notify: boolean;
}

export const DEFAULTS: IPreferences = {
  mode: 'ask',
  model: '',
  sendWith: 'Enter',
  activeCell: true,
  notify: true
};
