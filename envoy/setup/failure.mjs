/** A set-up error for people: one line that says what is wrong, one that says what to do, and where to read more. */
export class SetupFailure extends Error {
  /**
   * @param {string} message what is wrong
   * @param {string} remedy what to do about it
   * @param {{ logPath?: string, logTail?: string }} [log] the end of the failed command's output
   */
  constructor(message, remedy, log = {}) {
    super(message);
    this.name = "SetupFailure";
    this.remedy = remedy;
    this.logPath = log.logPath;
    this.logTail = log.logTail;
  }
}
