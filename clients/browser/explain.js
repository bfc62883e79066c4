// What a person is told, in words: why something does not work, and what to do about it.

const MICROPHONE = {
  NotAllowedError: {
    kind: "denied",
    title: "This page may not use the microphone.",
    help: "Allow it beside the address of this page, or in the browser's settings, then try again. You can also type.",
  },
  NotFoundError: {
    kind: "no-microphone",
    title: "No microphone was found.",
    help: "Plug one in, or choose another in the settings, then try again. You can also type.",
  },
  NotReadableError: {
    kind: "no-microphone",
    title: "The microphone cannot be opened.",
    help: "Another program may be using it. Close that one, then try again. You can also type.",
  },
};
const NO_OUTPUT = {
  kind: "fault",
  title: "The chosen loudspeaker cannot be used.",
  help: "Choose another one in the settings.",
};

const REFUSALS = {
  capacity: "Every place on this server is taken.",
  burst: "The server could not answer one more person in time.",
  utilisation: "The server is busy with other conversations.",
  memory: "The server has no memory for one more conversation.",
  "loop-lag": "The server is too busy at the moment.",
  overload: "The server is too busy at the moment.",
  limit: "The server is busy with other conversations.",
  rate: "Too many people have just come in.",
  "token-sessions": "This token has all the conversations that it may have.",
  "token-rate": "This token has begun too many conversations within a minute.",
  "address-sessions": "This address has all the conversations that it may have.",
  "address-rate": "This address has begun too many conversations within a minute.",
  warming_up: "The server is still loading its models.",
  engine_stuck: "One of the server's models does not answer. It has to be started anew.",
  draining: "The server is shutting down.",
  engine_busy: "The server has no model free for one more conversation.",
};

export const VERDICTS = {
  met: "in time",
  degraded: "in time, by a shorter way",
  masked: "a short sound in time, the answer late",
  missed: "late",
  interrupted: "you went on before the answer began",
  empty: "nothing was understood",
  refused: "not answered",
  failed: "something broke",
};
const REASONS = {
  "late-commit": "not answered: what you had said was certain too late",
  "no-content": "not answered: nothing was ready in time",
};

/** Of a fault with sound, by the name of the browser's error. */
export function aboutSound(error) {
  if (error.name === "Insecure") return insecure();
  if (error.name === "NoOutput") return NO_OUTPUT;
  return MICROPHONE[error.name] ?? { kind: "fault", title: "This did not work.", help: error.message };
}

/** Browsers hide the microphone from pages that came without encryption over a network. */
function insecure() {
  const port = location.port ? `:${location.port}` : "";
  return {
    kind: "insecure",
    title: "On this address the browser does not give out the microphone.",
    help:
      "This page came over plain http, and could have been changed on its way. Open it over https, through a proxy; or " +
      `on the server's own machine, as http://localhost${port}. You can also type: answers are then shown, not spoken.`,
  };
}

export const refusal = (reason) => REFUSALS[reason] ?? `The server refused: ${reason}.`;

export const turnedAway = () => ({
  kind: "unauthorized",
  title: "The server did not let this page in.",
  help: "It may want an access token, or not expect pages from this address.",
});

export const notOpened = () => ({
  kind: "fault",
  title: "The server is there, but no conversation could be begun.",
  help: "It may have too many connections, or something on the way, such as a proxy, may not let websockets pass.",
});

export const badToken = () => ({
  kind: "unauthorized",
  title: "This access token cannot be sent.",
  help: "It holds spaces or other characters that no token has.",
});

/** Of a turn, in a few words. */
export const verdictText = ({ verdict, reason }) => REASONS[reason] ?? VERDICTS[verdict] ?? verdict;
