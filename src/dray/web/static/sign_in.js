// Sign-in with a code from `dray ui` or with a token. Neither is ever part of an address.
import { session } from "./api.js";
import { html, useEffect, useRef, useState } from "./html.js";

const CODE = /^[2-9A-HJ-NP-Z]{4}-?[2-9A-HJ-NP-Z]{4}$/i;

export function SignIn({ problem, onSignIn }) {
  const [text, setText] = useState("");
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  const input = useRef(null);
  useEffect(() => input.current.focus(), []);

  async function submit(event) {
    event.preventDefault();
    const given = text.trim();
    if (!given) return;
    setBusy(true);
    try {
      onSignIn(await session.begin(CODE.test(given) ? { code: given } : { token: given }));
    } catch (error) {
      setFailure(error.message);
      setBusy(false);
      input.current.focus();
    }
  }

  return html`<main class="sign-in">
    <form onSubmit=${submit}>
      <h1><img src="/ui/static/icon.svg" alt="" width="34" height="34" />dray</h1>
      <label for="credential">Sign-in code or token</label>
      <input id="credential" ref=${input} type="password" autocomplete="off" spellcheck=${false} value=${text}
        aria-describedby="credential-help" aria-invalid=${failure ? "true" : undefined}
        onInput=${(event) => setText(event.target.value)} />
      <button type="submit" class="primary" disabled=${busy}>Sign in</button>
      <p role="alert" class="failure">${failure || problem}</p>
      <div id="credential-help" class="help">
        <p>If <code>dray ui</code> serves this page, it prints codes in its terminal; Enter prints another.</p>
        <p>If a cluster of <code>dray up</code> serves it, get a code where you have a kubeconfig of the cluster, or use a token:</p>
        <pre>dray ui --code</pre>
        <p>You see and change what that user may.</p>
      </div>
    </form>
  </main>`;
}
