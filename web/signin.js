// Signing in: a code in the address, or a token that is pasted once.

import { html, useState } from "./htm-preact.js";
import { signIn } from "./api.js";
import { Command, Icon } from "./parts.js";
import { store } from "./store.js";

/** The server's sentences for a person at this form. */
function sentenceFor(refusal) {
  if (refusal.status === 0) return "The server does not answer.";
  if (refusal.code === "UNAUTHENTICATED" && /expired/.test(refusal.message)) return "This token has expired.";
  if (refusal.code === "UNAUTHENTICATED" && /code/.test(refusal.message)) return "This code was used already or is older than a minute. Run git dibs open again.";
  if (refusal.code === "UNAUTHENTICATED") return "This token is not accepted.";
  return refusal.message;
}

/** A link would replace this browser's login: a person decides, because anyone can make another person open a link. */
const OtherLogin = ({ other }) => html`
  <main class="sign-in"><div>
    <span class="mark"><${Icon} name="mine" size=${32} /></span>
    <h1>Sign in as <bdi>${other.signsInAs}</bdi>?</h1>
    <p class="lead soft">This browser is signed in as <bdi>${other.signedInAs}</bdi>. The link that you opened is for <bdi>${other.signsInAs}</bdi>. Use it only if you ran <code>git dibs open</code> yourself.</p>
    <button type="button" class="button primary wide" onClick=${other.stay}><span class="label">Stay signed in as <bdi>${other.signedInAs}</bdi></span></button>
    <button type="button" class="button wide" onClick=${other.change}><span class="label">Sign in as <bdi>${other.signsInAs}</bdi></span></button>
  </div></main>`;

export default function SignIn({ problem, onSignedIn }) {
  if (store.otherLogin) return html`<${OtherLogin} other=${store.otherLogin} />`;
  return html`<${Form} problem=${problem} onSignedIn=${onSignedIn} />`;
}

function Form({ problem, onSignedIn }) {
  const [token, setToken] = useState("");
  const [sentence, setSentence] = useState(problem && sentenceFor(problem));
  const submit = async (event) => {
    event.preventDefault();
    if (!token.trim()) return;
    try {
      const login = await signIn({ token: token.trim() });
      setToken("");
      onSignedIn(login);
    } catch (refusal) {
      setSentence(sentenceFor(refusal));
    }
  };
  return html`
    <main class="sign-in"><div>
      <span class="mark"><${Icon} name="mine" size=${32} /></span>
      <h1>Sign in to git-dibs</h1>
      <p class="lead soft">Run this in the repository. It opens this page and signs you in.</p>
      <${Command} text="git dibs open" />
      ${sentence && html`<p class="problem" role="alert">${sentence}</p>`}
      <p class="or">or paste a token</p>
      <form onSubmit=${submit}>
        <label for="token">Token</label>
        <textarea id="token" class="mono" rows="3" placeholder="eyJhbGciOi…" autocomplete="off" spellcheck="false" value=${token} onInput=${(event) => setToken(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && submit(event)}></textarea>
        <p class="small soft">The server exchanges it for a cookie that scripts cannot read. You stay signed in until the token expires.</p>
        <button type="submit" class="button primary wide" disabled=${!token.trim()}>Sign in</button>
      </form>
    </div></main>`;
}
