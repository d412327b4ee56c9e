/** JupyterLab runs this command when somebody presses the element. */
export const COMMAND = 'data-commandlinker-command';
/** With these arguments. */
export const COMMAND_ARGS = 'data-commandlinker-args';
